"""How often intervals cover the truth: `python benchmarks/interval_coverage.py [--sets N]`.

Data sets are simulated at the defaults of each task, or at values that `CASES` names, and fitted.
Printed for each task, observer and number of trials: the share of 95 % intervals that contain the
true value (mean over parameters), of estimates without such an interval, of data sets that settled,
and of those with another maximum within 1.92 of the best. Estimates at an end of their support and
those of searches that did not settle have no interval: they count neither as covered nor as missed,
and are left out of all shares of coverage. Minutes on an accelerator, hours on two cores.

With `--profiles` also how often profile intervals cover, of the same estimates: in how many data
sets the log likelihood drops by less than 1.92 when a parameter is held at its true value and the
others are searched for again. And by how many standard errors estimates are off in the mean and at
the median, which tells bias and skewed errors from short intervals.
"""

import argparse
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np

import motorcost as mc


class Case(NamedTuple):
    """A task, what is free, the observer (None: all states without noise), what else differs from
    the task's defaults, and true values that do."""

    task: Any
    free: list[str]
    observer: Any = None
    fixed: Mapping[str, Any] = MappingProxyType({})
    truth: Mapping[str, float] = MappingProxyType({})


_IN_PLANE = mc.ObserverSpec(["x", "y"], noise=1e-3)
_RANDOM = mc.tasks.random_problem(jax.random.key(0))
_AHEAD = {"target_x": 0.0, "target_y": 0.1, "steps": 40}
CASES: dict[str, Case] = {
    "reaching, all states": Case(mc.tasks.reaching, ["effort", "velocity", "force"]),
    "reaching, positions": Case(
        mc.tasks.reaching,
        ["effort", "velocity", "force"],
        mc.ObserverSpec(["position"], noise=1e-3),
    ),
    "saccade, all states": Case(mc.tasks.saccade, ["effort", "motor_noise"]),
    "saccade, angles": Case(
        mc.tasks.saccade,
        ["effort", "motor_noise"],
        mc.ObserverSpec(["angle"], noise=0.1),
    ),
    "tracking, all states": Case(mc.tasks.tracking, ["effort"]),
    "tracking, positions": Case(
        mc.tasks.tracking,
        ["effort"],
        mc.ObserverSpec(["position", "target"], noise=1e-3),
    ),
    "random problem, all states": Case(_RANDOM, ["effort_1", "effort_2"]),
    # Two of four states, with noise of a tenth of their standard deviations.
    "random problem, two states": Case(
        _RANDOM,
        ["effort_1", "effort_2"],
        mc.ObserverSpec(["state_1", "state_2"], noise=0.1),
    ),
    "planar reaching, positions": Case(
        mc.tasks.planar_reaching, ["effort", "velocity", "force"], _IN_PLANE, fixed={"steps": 40}
    ),
    "planar reaching, field": Case(
        mc.tasks.planar_reaching,
        ["adaptation", "effort"],
        _IN_PLANE,
        fixed=_AHEAD | {"curl": 13.0},
        truth={"adaptation": 0.6},
    ),
    "planar reaching, via-point": Case(
        mc.tasks.planar_reaching,
        ["via", "effort"],
        _IN_PLANE,
        fixed=_AHEAD | {"via_x": 0.04, "via_y": 0.05, "via_time": 0.2},
        truth={"via": 3.0},
    ),
    "planar reaching, senses": Case(
        mc.tasks.planar_reaching,
        ["vision_noise", "sensory_noise"],
        _IN_PLANE,
        fixed=_AHEAD | {"vision_delay": 5},
        truth={"vision_noise": 0.005},
    ),
    "posture": Case(
        mc.tasks.posture,
        ["effort", "disturbance"],
        mc.ObserverSpec(["position"], noise=1e-3),
        fixed={"steps": 200},
    ),
    "planar saccade": Case(
        mc.tasks.planar_saccade,
        ["effort", "across"],
        mc.ObserverSpec(["x", "y"], noise=0.1),
        fixed={"target_y": 6.0},
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Count intervals that cover the truth.")
    parser.add_argument("--sets", type=int, default=1000, help="data sets")
    parser.add_argument("--trials", type=int, nargs="*", default=[20, 100])
    parser.add_argument("--starts", type=int, default=4)
    parser.add_argument("--only", nargs="*", choices=list(CASES))
    parser.add_argument("--profiles", action="store_true", help="profile intervals too")
    args = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    print(
        f"{jax.devices()[0].device_kind}, {args.sets} data sets, {args.starts} starts", flush=True
    )
    print(
        "| task | trials | coverage (95 %) | left out | settled | two maxima | at an edge | time |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name in args.only or CASES:
        for n_trials in args.trials:
            rows = row(name, args.sets, n_trials, args.starts)
            if args.profiles:
                profiled(CASES[name], args.sets, n_trials, args.starts, rows)


def recovered(
    case: Case, sets: int, n_trials: int, n_starts: int
) -> tuple[dict[str, float], Mapping[str, np.ndarray]]:
    """The share of 95 % intervals that contain the true value, by parameter, and the results of all
    data sets."""
    task, free, observer, fixed, others = case
    recovery = mc.Recovery(
        task, free, n_trials=n_trials, n_starts=n_starts, observer=observer, fixed=fixed
    )
    values = mc.tasks.typical_values(task) | dict(others)
    truth = {parameter: values[parameter] for parameter in free}
    columns = {parameter: np.full(sets, value) for parameter, value in truth.items()}
    rows = recovery(keys=jax.random.split(jax.random.key(0), sets), **columns)
    covered = {}
    for parameter, true in truth.items():
        inside = contains(rows, parameter, true)
        covered[parameter] = float(inside[has_interval(rows, parameter)].mean())
    return covered, rows


def has_interval(rows: Mapping[str, np.ndarray], parameter: str) -> np.ndarray:
    """In which data sets the estimate of a parameter has an interval that can cover: it is at no
    end of its support, and the search settled."""
    return ~np.isnan(rows[f"{parameter}_low"]) & ~np.isnan(rows[f"{parameter}_high"])


def contains(rows: Mapping[str, np.ndarray], parameter: str, true: float) -> np.ndarray:
    """In which data sets the interval of a parameter contains its true value."""
    return (rows[f"{parameter}_low"] <= true) & (true <= rows[f"{parameter}_high"])


# How far the log likelihood drops at the ends of a profile interval: half of the 95 % quantile of
# chi-square with one degree of freedom.
DROP = 1.92


def profiled(
    case: Case, sets: int, n_trials: int, n_starts: int, rows: Mapping[str, np.ndarray]
) -> None:
    """Print, for each parameter, how often profile intervals cover beside the default ones, and the
    errors of the estimates in standard errors. `rows` are the fits with all parameters free."""
    values = mc.tasks.typical_values(case.task) | dict(case.truth)
    for parameter in case.free:
        others = [name for name in case.free if name != parameter]
        at_truth = rows["log_likelihood_true"]  # where nothing else is free
        if others:
            held = case._replace(free=others, fixed={**case.fixed, parameter: values[parameter]})
            at_truth = recovered(held, sets, n_trials, n_starts)[1]["log_likelihood"]
        drop = rows["log_likelihood"] - at_truth
        kept = has_interval(rows, parameter)
        inside, near = contains(rows, parameter, values[parameter])[kept], drop[kept] < DROP
        off = np.log(rows[f"{parameter}_found"] / values[parameter]) / rows[f"{parameter}_se"]
        off = off[np.isfinite(off)]
        print(
            f"    {parameter}: default interval covers {100 * inside.mean():.1f} %, profile "
            f"{100 * near.mean():.1f} % (both {100 * (inside & near).mean():.1f} "
            f"%, profile alone {100 * (~inside & near).mean():.1f} %), {100 * (~kept).mean():.1f} "
            f"% left out; errors in SE: mean "
            f"{off.mean():+.2f}, median {np.median(off):+.2f}, SD {off.std():.2f}; "
            f"{100 * (drop < -0.01).mean():.0f} % were higher with it held",
            flush=True,
        )


def row(name: str, sets: int, n_trials: int, n_starts: int) -> Mapping[str, np.ndarray]:
    """Print the row of one task and number of trials; return the results of all data sets."""
    begin = time.perf_counter()
    covered, rows = recovered(CASES[name], sets, n_trials, n_starts)
    each = ", ".join(f"{100 * share:.1f}" for share in covered.values())
    without = [(~has_interval(rows, parameter)).mean() for parameter in covered]
    print(
        f"| {name} | {n_trials} | {100 * np.mean(list(covered.values())):.1f} % ({each}) "
        f"| {100 * np.mean(without):.1f} % "
        f"| {100 * rows['converged'].mean():.1f} % "
        f"| {100 * np.mean(rows['next_below'] < 1.92):.1f} % "
        f"| {100 * rows['at_bounds'].mean():.1f} % | {time.perf_counter() - begin:.0f} s |",
        flush=True,
    )
    return rows


if __name__ == "__main__":
    main()
