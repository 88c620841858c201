"""Compare two things in one run: they take turns, and the ratio of their medians is what counts."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Row:
    """Two things timed in turn; seconds are medians."""

    what: str
    seconds: float
    against: str
    against_seconds: float
    spread: float  # interquartile range of the first side, over its median

    @property
    def ratio(self) -> float:
        """How many of the first fit into one of the second."""
        return self.against_seconds / self.seconds


def compare(
    what: str, run: Callable[[], Any], against: str, other: Callable[[], Any], repeats: int = 15
) -> Row:
    for warm_up in (run, other):
        jax.block_until_ready(warm_up())
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for side, function in zip(times, (run, other), strict=True):
            begin = time.perf_counter()
            jax.block_until_ready(function())
            side.append(time.perf_counter() - begin)
    low, median, high = np.quantile(times[0], [0.25, 0.5, 0.75])
    spread = float((high - low) / median)
    return Row(what, float(median), against, float(np.median(times[1])), spread)


def report(name: str, title: str, rows: Sequence[Row]) -> None:
    """Print a table, and write it as JSON into `benchmarks/results`."""
    print(f"{title}, {jax.devices()[0].device_kind}, after compilation")
    print(f"{'':<32}{'median':>10}{'spread':>8}   {'against':<32}{'median':>10}{'ratio':>8}")
    for row in rows:
        print(
            f"{row.what:<32}{row.seconds * 1e3:>7.2f} ms{row.spread:>8.0%}   {row.against:<32}"
            f"{row.against_seconds * 1e3:>7.1f} ms{row.ratio:>8.2f}"
        )
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps([asdict(row) | {"ratio": row.ratio} for row in rows], indent=1)
    (RESULTS / f"{name}.json").write_text(text)
