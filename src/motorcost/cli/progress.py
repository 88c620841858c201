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


class Pace:
    """An estimate of the time that a kind of work will still take.

    Searches run side by side, and the first to end says nothing of how long the others take after
    it: the pace is measured from there on.
    """

    def __init__(self) -> None:
        self._what = ""
        self._since, self._first = 0.0, 0

    def left(self, what: str, done: int, total: int | None, now: float) -> str | None:
        """The time left in words; None while nothing is known of it."""
        if what != self._what:
            self._what, self._first = what, 0
        if total is None or not done:
            return None
        if not self._first:
            self._since, self._first = now, done
        if done == self._first:
            return None
        seconds = (total - done) * (now - self._since) / (done - self._first)
        return (
            f"about {seconds:.0f} s left" if seconds < 90 else f"about {seconds / 60:.0f} min left"
        )


@contextmanager
def showing_progress(*, quiet: bool) -> Iterator[Callable[..., None]]:
    """A function to report progress to, with what is being done, how far, and of how much.

    A sweep also hands over its `SweepProgress`. On a terminal a bar is drawn; elsewhere a line is
    printed for each kind of work, and every half minute one with the standing and an estimate of
    the time left. Nothing is printed if `quiet`.
    """
    if quiet:
        yield lambda *_: None
        return
    if not sys.stderr.isatty():
        printed: dict[str, float] = {}
        pace = Pace()

        def say(
            what: str, done: int, total: int | None, standing: SweepProgress | None = None
        ) -> None:
            now = time.monotonic()
            left = pace.left(what, done, total, now)
            is_late = now - printed.get(what, now) >= _EVERY
            if what not in printed and standing is None:
                line = f"{what} ..."
            elif standing and (what not in printed or is_late or done == total):
                line = f"{what}: {standing}"
            elif is_late and total is not None:
                line = f"{what}: {done} of {total} done" + ("" if left is None else f", {left}")
            else:
                return
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
