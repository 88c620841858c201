"""Progress on the terminal: what is being done, how far it is, and how long it will take."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

# Where there is no terminal, long work says how it stands once in so many seconds.
_EVERY = 30.0


@contextmanager
def showing_progress(quiet: bool) -> Iterator[Callable[..., None]]:
    """A function to report progress to: what is being done, how far, of how much, and more words
    if there are any. A bar on a terminal; elsewhere a line for each kind of work, and now and
    then one with the words; nothing if `quiet`."""
    if quiet:
        yield lambda *_: None
        return
    if not sys.stderr.isatty():
        said: dict[str, float] = {}

        def say(what: str, done: int, total: int | None, more: str = "") -> None:
            now = time.monotonic()
            if what not in said or (more and now - said[what] >= _EVERY):
                line = f"{what}: {more}" if more else f"{what} ..."
                print(line, file=sys.stderr, flush=True)
                said[what] = now

        yield say
        return
    columns = (
        TextColumn("{task.description:<30}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task("", total=None)
        doing = ""

        def show(what: str, done: int, total: int | None, more: str = "") -> None:
            nonlocal doing
            if what != doing:
                bars.reset(bar, description=what, total=total)
                doing = what
            words = f"{what}: {more}" if more else what
            bars.update(bar, completed=done, total=total, description=words)

        yield show
