"""How far a sweep is, and how the user is informed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from motorcost.sweeps.table import Gathered


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep is, for the function that is given as `progress`; `print` shows it in words.

    - `done`: the number of rows that have a result; `failed`: how many of them failed;
      `total`: the number of rows of the sweep.
    - `seconds_left`: an estimate, None until a row was done in this run.
    - `workers`: the number of Dask workers, 0 if the sweep runs in this process.
    - `dashboard`: the address of the page on which Dask shows its work, None without Dask.

    Examples
    --------
    >>> def double(key, value):
    ...     return {"doubled": 2 * value}
    >>> seen = []
    >>> table = mc.sweep(double, {"value": [1, 2]}, progress=seen.append)
    >>> seen[-1].done, seen[-1].total
    (2, 2)
    """

    done: int
    failed: int
    total: int
    seconds_left: float | None = None
    workers: int = 0
    dashboard: str | None = None

    def __str__(self) -> str:
        words = [f"{self.done} of {self.total} done", f"{self.failed} failed"]
        if left := self.total - self.done:
            words.append(f"{left} left")
            if self.seconds_left is not None:
                words.append(f"about {_duration(self.seconds_left)}")
        return "; ".join(filter(None, [", ".join(words), self.where]))

    @property
    def where(self) -> str:
        """The number of workers and the address of Dask's page, in words; "" without Dask."""
        if self.dashboard is None:
            return ""
        return f"{self.workers} worker{'' if self.workers == 1 else 's'}, {self.dashboard}"


class Reporter:
    """Tells the user how far the sweep is, with an estimate of the time that is left.

    The first call on every worker takes longer than others will, because processes are started
    and programs compiled. The pace is therefore measured anew once these calls have ended.
    """

    def __init__(self, progress: Callable[[SweepProgress], Any] | None, gathered: Gathered) -> None:
        self._progress, self._gathered = progress, gathered
        self._since, self._began, self._calls = gathered.done, time.monotonic(), 0
        self._first_round = True
        self._pace: float | None = None  # seconds per row
        self._workers: int | None = None
        self._concurrent_calls = 0  # on all workers; 0 in this process
        self.dashboard: str | None = None

    def tell(self) -> None:
        """Tell the user now."""
        if self._progress is None:
            return
        left = self._gathered.total - self._gathered.done
        self._progress(
            SweepProgress(
                done=self._gathered.done,
                failed=self._gathered.failed,
                total=self._gathered.total,
                seconds_left=None if self._pace is None else self._pace * left,
                workers=self._workers or 0,
                dashboard=self.dashboard,
            )
        )

    def call_ended(self) -> None:
        """Take note that a call of the function has ended, and tell the user."""
        self._calls += 1
        now, rows = time.monotonic(), self._gathered.done - self._since
        round_is_over = self._calls > self._concurrent_calls
        if rows and (self._first_round or round_is_over):
            self._pace = (now - self._began) / rows
        if self._first_round and round_is_over:
            self._first_round = False
            self._since, self._began, self._calls = self._gathered.done, now, 0
        self.tell()

    def workers_counted(self, workers: int, threads: int) -> None:
        """Take note of the number of workers and of their threads; tell the user of a change."""
        self._concurrent_calls = threads
        if workers != self._workers:
            self._workers = workers
            self.tell()


def _duration(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
