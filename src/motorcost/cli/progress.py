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

from motorcost.sweeps import SweepProgress

# Seconds between two lines on long work, where there is no terminal to draw a bar on.
_EVERY = 30.0


@contextmanager
def showing_progress(*, quiet: bool) -> Iterator[Callable[..., None]]:
    """A function to report progress to, with what is being done, how far, and of how much.

    A sweep also hands over its `SweepProgress`. On a terminal a bar is drawn; elsewhere a line is
    printed for each kind of work, and every half minute one with the standing. Nothing is printed
    if `quiet`.
    """
    if quiet:
        yield lambda *_: None
        return
    if not sys.stderr.isatty():
        printed: dict[str, float] = {}

        def say(
            what: str, done: int, total: int | None, standing: SweepProgress | None = None
        ) -> None:
            now = time.monotonic()
            is_due = standing and (now - printed.get(what, now) >= _EVERY or done == total)
            if what not in printed or is_due:
                line = f"{what}: {standing}" if standing else f"{what} ..."
                print(line, file=sys.stderr, flush=True)
                printed[what] = now

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

        def show(
            what: str, done: int, total: int | None, standing: SweepProgress | None = None
        ) -> None:
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
