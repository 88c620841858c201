"""Progress on the terminal: what is being done, how far it is, and how long it will take."""

import sys
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


@contextmanager
def showing_progress(quiet: bool) -> Iterator[Callable[[str, int, int | None], None]]:
    """A function to report progress to: a bar on a terminal, a line for each kind of work
    elsewhere, nothing if `quiet`."""
    if quiet:
        yield lambda *_: None
        return
    if not sys.stderr.isatty():
        said: set[str] = set()

        def say(what: str, done: int, total: int | None) -> None:
            if what not in said:
                said.add(what)
                print(f"{what} ...", file=sys.stderr, flush=True)

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

        def show(what: str, done: int, total: int | None) -> None:
            nonlocal doing
            if what != doing:
                bars.reset(bar, description=what, total=total)
                doing = what
            bars.update(bar, completed=done, total=total)

        yield show
