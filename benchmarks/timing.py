"""Compare the times of two computations, which take turns in one run."""

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np

Run = Callable[[], Any]


class Seconds(float):
    """What a run returns that has measured its own time, as another process does."""


class SkippedError(Exception):
    """This comparison cannot be made here; the message says why."""


@dataclass(frozen=True)
class Comparison:
    """Two things to be timed in turn.

    - `prepare` makes the two runs; nothing is computed before it is called.
    - `repeats`: how many turns each gets, after one that is not counted (unless `cold`).
    - `agree`: the relative difference that their results may have, None if they are not the
      same thing.
    - `aim`: the ratio that is aimed at, if there is one; `most`: the seconds that `what` may take.
    """

    what: str
    against: str
    prepare: Callable[[], tuple[Run, Run]]
    repeats: int = 15
    agree: float | None = None
    cold: bool = False
    aim: float | None = None
    most: float | None = None

    @property
    def name(self) -> str:
        """What rows are chosen by."""
        return f"{self.what} / {self.against}"


@dataclass(frozen=True)
class Row:
    """What a comparison found. Seconds are medians; `low` and `high` are the quartiles of the
    ratio, turn by turn, so that whatever slows the machine for a while slows both sides."""

    what: str
    against: str
    seconds: float
    against_seconds: float
    ratio: float
    low: float
    high: float
    repeats: int
    aim: float | None = None
    most: float | None = None

    @property
    def has_aim(self) -> bool:
        """Whether something is aimed at."""
        return self.aim is not None or self.most is not None

    @property
    def missed(self) -> bool:
        """Whether the ratio is below, or the time above, what is aimed at."""
        too_low = self.aim is not None and self.ratio < self.aim
        return too_low or (self.most is not None and self.seconds > self.most)


def compare(comparison: Comparison, repeats: int | None = None) -> Row:
    """Time both in turn. The ratio is the time of `against` over that of `what`."""
    repeats = comparison.repeats if repeats is None else repeats
    runs = comparison.prepare()
    if not comparison.cold:
        results = [jax.block_until_ready(run()) for run in runs]
        if comparison.agree is not None:
            # Leaf by leaf, relative to the largest number of the leaf.
            jax.tree.map(lambda a, b: _require_same(comparison, a, b), *results)
    turns = np.array([[_seconds(run) for run in runs] for _ in range(repeats)])
    low, ratio, high = np.quantile(turns[:, 1] / turns[:, 0], [0.25, 0.5, 0.75])
    ours, theirs = np.median(turns, axis=0)
    return Row(
        what=comparison.what,
        against=comparison.against,
        seconds=float(ours),
        against_seconds=float(theirs),
        ratio=float(ratio),
        low=float(low),
        high=float(high),
        repeats=repeats,
        aim=comparison.aim,
        most=comparison.most,
    )


def _seconds(run: Run) -> float:
    begin = time.perf_counter()
    result = jax.block_until_ready(run())
    return float(result) if isinstance(result, Seconds) else time.perf_counter() - begin


def _require_same(comparison: Comparison, ours: Any, theirs: Any) -> None:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    difference = np.abs(ours - theirs).max() / np.abs(theirs).max()
    if not difference <= comparison.agree:
        raise AssertionError(
            f"{comparison.name}: results differ by {difference:.1e}, {ours} and {theirs}"
        )


HEADER = (
    f"{'':<50}{'median':>11}   {'against':<34}{'median':>11}{'ratio':>8}  "
    f"{'quartiles':<16}{'aim':>6}"
)


def table_row(row: Row) -> str:
    """A row of the table."""
    quartiles = f"{_short(row.low)} to {_short(row.high)}"
    aims = [] if row.aim is None else [_short(row.aim)]
    aims += [] if row.most is None else [f"{_short(row.most)} s"]
    return (
        f"{row.what:<50}{_time(row.seconds):>11}   {row.against:<34}"
        f"{_time(row.against_seconds):>11}{_short(row.ratio):>8}  {quartiles:<16}"
        + f"{' '.join(aims):>6}{' missed' if row.missed else ''}".rstrip()
    )


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.2f} ms"


def _short(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.3g}"


def machine() -> dict[str, Any]:
    """Facts about the machine on which the times depend."""
    return {
        "cpu": _cpu_model(),
        "cores": _cores(),
        "device": jax.devices()[0].device_kind,
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("motorcost", "jax", "jaxlib", "numpy")},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _cores() -> int:
    """Those that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu_model() -> str:
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text().splitlines() if listing.exists() else []
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()
