"""How long work reports its progress."""

from collections.abc import Callable

# Called with what is being done, how much of it is done, and how much there is (None: unknown).
Progress = Callable[[str, int, int | None], None]


def silent(what: str, done: int, total: int | None) -> None:
    """Report nothing."""
