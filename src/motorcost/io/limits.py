"""How much a file may unpack to, asked before it is unpacked."""

from motorcost.errors import InputError, shown

GIBIBYTE = 2**30


class Budget:
    """What is left of `max_bytes` for the content of one file, which errors call `source`."""

    def __init__(self, source: str, max_bytes: int) -> None:
        self.source = source
        self.max_bytes = max_bytes
        self.taken = 0

    @property
    def left(self) -> int:
        """Bytes that the file may still unpack to."""
        return self.max_bytes - self.taken

    def take(self, size: int) -> None:
        """Count `size` bytes of content; raise if there is no room for them."""
        self.taken += int(size)
        if self.left < 0:
            raise InputError(
                f"{shown(self.source)}: unpacks to {self.taken} bytes, more than "
                f"max_bytes={self.max_bytes}: raise it if memory allows"
            )
