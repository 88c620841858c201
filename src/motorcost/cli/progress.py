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

from motorcost.sweeps import Standing

# Where there is no terminal, long work says how it stands once in so many seconds.
_EVERY = 30.0


@contextmanager
def showing_progress(*, quiet: bool) -> Iterator[Callable[..., None]]:
    """A function to report progress to: what is being done, how far and of how much, and a
    `Standing` of it if there is one. A bar on a terminal; elsewhere a line for each kind of work,
    and now and then one with what the standing says; nothing if `quiet`."""
    if quiet:
        yield lambda *_: None
        return
    if not sys.stderr.isatty():
        said: dict[str, float] = {}

        def say(what: str, done: int, total: int | None, standing: Standing | None = None) -> None:
            now = time.monotonic()
            if what not in said or (standing and (now - said[what] >= _EVERY or done == total)):
                line = f"{what}: {standing}" if standing else f"{what} ..."
                print(line, file=sys.stderr, flush=True)
                said[what] = now

        yield say
        return
    columns = (
        TextColumn("{task.description:<30}"),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task("", total=None, failed="")
        doing = where = ""

        def show(what: str, done: int, total: int | None, standing: Standing | None = None) -> None:
            nonlocal doing, where
            if what != doing:
                bars.reset(bar, description=what, total=total)
                doing = what
            failed = f"{standing.failed} failed" if standing and standing.failed else ""
            bars.update(bar, completed=done, total=total, failed=failed)
            if standing and standing.where != where:
                where = standing.where
                bars.console.print(where, highlight=False)

        yield show
