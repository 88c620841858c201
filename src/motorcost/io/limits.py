"""How much a file may unpack to, asked before it is unpacked."""

from motorcost.errors import InputError, shown

GIBIBYTE = 2**30
# A table of recordings has some tens of columns; pandas takes most of a millisecond for each.
_MOST_COLUMNS = 5000


def require_few_columns(source: str, count: int) -> None:
    """Raise if a table has more columns than any recording, as one that lies on its side."""
    if count > _MOST_COLUMNS:
        raise InputError(
            f"{shown(source)}: needs at most {_MOST_COLUMNS} columns, got {count}: a table "
            "needs one row per sample; is it transposed?"
        )


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
