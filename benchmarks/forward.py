"""How long solving and simulating take: one table, each row measured against another in one run.

Machines are noisy and differ, so a row is a ratio: the two sides take turns, and the ratio of
their medians is what to read. Run with `make bench`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import motorcost as mc

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Row:
    """Two things timed in turn."""

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


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    problem = mc.tasks.reaching()
    policy = mc.solve(problem)
    key = jax.random.key(0)

    def cost(effort: Any) -> Any:
        return mc.solve(mc.tasks.reaching(effort=effort)).expected_cost

    one, slope = jax.jit(cost), jax.jit(jax.value_and_grad(cost))
    batch = jax.jit(jax.vmap(cost))
    efforts = jnp.logspace(-6, -4, 256)

    def simulate(n_trials: int) -> Any:
        return mc.simulate(problem, policy, n_trials=n_trials, key=key)

    rows = [
        compare(
            "256 solves, batched",
            lambda: batch(efforts),
            "256 solves, one by one",
            lambda: [one(effort) for effort in efforts],
            repeats=5,
        ),
        compare("solve", lambda: one(1e-5), "value and gradient", lambda: slope(1e-5)),
        compare(
            "simulate 10,000", lambda: simulate(10_000), "100,000", lambda: simulate(100_000), 7
        ),
    ]
    print(f"reaching task, T = {problem.steps}, {jax.devices()[0].device_kind}, after compilation")
    print(f"{'':<22}{'median':>10}  {'spread':>7}   {'against':<24}{'median':>10}{'ratio':>9}")
    for row in rows:
        print(
            f"{row.what:<22}{row.seconds * 1e3:>7.2f} ms  {row.spread:>7.0%}   {row.against:<24}"
            f"{row.against_seconds * 1e3:>7.1f} ms{row.ratio:>9.2f}"
        )
    RESULTS.mkdir(exist_ok=True)
    out = RESULTS / "forward.json"
    out.write_text(json.dumps([asdict(row) | {"ratio": row.ratio} for row in rows], indent=1))
    print(f"wrote {out.relative_to(Path.cwd()) if out.is_relative_to(Path.cwd()) else out}")


if __name__ == "__main__":
    main()
