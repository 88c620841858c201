"""The exact likelihood beside moment matching, at the truth, for each task of the paper."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure

from motorcost.diagnostics.gaps import evaluate_at, gap_profiles, profile_points
from motorcost.diagnostics.precision import expected_precision
from motorcost.experiments.declare import Experiment, Number, Settings, Sweep, Tables
from motorcost.experiments.reaches import CAMERA, TRUTH
from motorcost.model.observer import ObserverSpec
from motorcost.model.simulate import simulate
from motorcost.model.solver import solve
from motorcost.plots.style import BLUE, GREY, ORANGE, clean
from motorcost.report.page import Picture
from motorcost.tasks import defaults, random_problem, reaching, saccade
from motorcost.tasks.declarations import Task

SWEEP = "approximation"
# The experiment of whose standard errors the bias is a part.
EXPERIMENT_TRIALS = 100
# Trials from which the standard errors are found.
INFORMATION_TRIALS = 400
# The names of the tasks, what is recorded (None: all states without noise), and what is inferred.
CASES: dict[str, tuple[str, ObserverSpec | None, tuple[str, ...]]] = {
    "reaching, all states": ("reaching", None, tuple(TRUTH)),
    "reaching, positions": ("reaching", CAMERA, tuple(TRUTH)),
    "saccade, all states": ("saccade", None, ("effort",)),
    "saccade, angles": ("saccade", ObserverSpec(["angle"], noise=0.1), ("effort",)),
    "random problems, all states": ("random", None, ("effort_1", "effort_2")),
    "random problems, two states": (
        "random",
        ObserverSpec(["state_1", "state_2"], noise=0.5),
        ("effort_1", "effort_2"),
    ),
}
MOST_PARAMETERS = 3
# A slope of the gap that says more standard errors than this says only that the bias is not small:
# where data hardly determine a parameter, its profile reaches far beyond where slopes hold.
LARGEST_BIAS = 10.0


def measured(*, key: Any, case: str, trials: int, particles: int, filters: int) -> dict[str, float]:
    """The gap per trial at the truth, its standard deviation between trials and its Monte Carlo
    error, and the bias of each estimate in standard errors of an experiment with 100 trials, with
    its Monte Carlo error; NaN where there are fewer parameters."""
    keys = jax.random.split(key, 4)
    name, observer, free = CASES[case]
    tasks: dict[str, Task] = {"reaching": reaching, "saccade": saccade}
    task = tasks[name] if name in tasks else random_problem(keys[0])
    truth = {parameter: defaults(task)[parameter] for parameter in free}
    precision = expected_precision(
        task,
        at=truth,
        n_trials=EXPERIMENT_TRIALS,
        key=keys[1],
        observer=observer,
        simulated=INFORMATION_TRIALS,
    )
    problem = task(**truth)
    simulated = simulate(problem, solve(problem), n_trials=trials, key=keys[2], observer=observer)
    objective, cov = precision.objective, np.linalg.inv(EXPERIMENT_TRIALS * precision.information)
    points, offsets = profile_points(
        precision.point, cov, range(len(free)), objective.bounds, (-1.0, 1.0)
    )
    evaluated = evaluate_at(
        objective.at, points, simulated, key=keys[3], particles=particles, filters=filters
    )
    at_truth = np.eye(len(points))[0]
    gap, error = evaluated.combination(at_truth)
    result = {"gap": gap / trials, "gap_error": error / trials, "gap_sd": evaluated.spread()}
    # The bias is the slope of the gap in that many trials; these are fewer or more.
    ratio = EXPERIMENT_TRIALS / trials
    profiles = gap_profiles(evaluated, free, offsets)
    for k in range(MOST_PARAMETERS):
        known = k < len(profiles)
        result[f"bias_{k + 1}"] = -ratio * profiles[k].slope if known else np.nan
        result[f"bias_error_{k + 1}"] = ratio * profiles[k].slope_error if known else np.nan
    return result


def sweeps(at: Settings) -> list[Sweep]:
    """Several repetitions of each case, with trials, and random problems, of their own."""
    over = {"case": list(CASES)} | {name: [at[name]] for name in ("trials", "particles", "filters")}
    return [Sweep(SWEEP, measured, over, at["repetitions"], call="each")]


def _of(tables: Tables, case: str) -> Any:
    table = tables[SWEEP]
    return table[(table["case"] == case) & (table["failed"] == "")]


def _mean(values: Any) -> tuple[float, float]:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return float(values.mean()), float(error)


def numbers(at: Settings, tables: Tables) -> Sequence[Number]:
    """For each case, the gap per trial and the biases."""
    rows = []
    for case, (_, _, free) in CASES.items():
        table = _of(tables, case)
        monte_carlo = float(np.sqrt((table["gap_error"] ** 2).sum())) / max(len(table), 1)
        rows.append(
            Number(
                f"gap per trial (nats), {case}",
                *_mean(table["gap"]),
                note=f"the Monte Carlo error is {monte_carlo:.2g}; single trials differ by "
                f"{float(table['gap_sd'].mean()):.2g} (SD)",
            )
        )
        for k, name in enumerate(free):
            told, left_out = _of_first_order(table[f"bias_{k + 1}"])
            note = (
                f"{left_out} of {len(table)} repetitions are left out, where the slope of the gap "
                f"stands for more than {LARGEST_BIAS:.0f} standard errors"
            )
            about = f"bias of {name} (SE of 100 trials), {case}"
            rows.append(Number(about, *_mean(told), note=note if left_out else ""))
    return rows


def _of_first_order(biases: Any) -> tuple[Any, int]:
    """The biases that a slope can tell, and how many are too large for that."""
    told = biases[np.abs(biases) <= LARGEST_BIAS]
    return told, len(biases) - len(told)


def draw(at: Settings, tables: Tables) -> Sequence[Picture]:
    """The gap per trial and the biases of each case."""
    figure = Figure(figsize=(9.6, 3.4), layout="constrained")
    gaps, biases = figure.subplots(1, 2, width_ratios=(1, 1.4), sharey=True)
    for i, (case, (_, _, free)) in enumerate(CASES.items()):
        table = _of(tables, case)
        mean, error = _mean(table["gap"])
        gaps.errorbar(mean, i, xerr=2 * error, fmt="o", color=BLUE, ms=4, capsize=3)
        for k, name in enumerate(free):
            mean, error = _mean(_of_first_order(table[f"bias_{k + 1}"])[0])
            place = i + 0.25 * (k - (len(free) - 1) / 2)
            biases.errorbar(mean, place, xerr=2 * error, fmt="o", color=ORANGE, ms=4, capsize=3)
            biases.annotate(
                name, (mean, place), xytext=(0, 4), textcoords="offset points", fontsize=6
            )
    for ax in (gaps, biases):
        ax.axvline(0, color=GREY, lw=0.8)
        clean(ax)
    gaps.set_yticks(range(len(CASES)), list(CASES))
    gaps.invert_yaxis()
    gaps.set_xlabel("exact minus approximate log likelihood (nats per trial)", fontsize=8)
    biases.set_xlabel("bias of estimates (standard errors of 100 trials)", fontsize=8)
    alt = "Gap between the exact and the approximate likelihood, and the bias of estimates, by task"
    return [Picture(figure, alt, "gaps")]


EXPERIMENT = Experiment(
    name="approximation",
    part="Section 3, approximate likelihood",
    title="The exact likelihood beside moment matching",
    about="Trials of each task are simulated at its default parameters. Measured, at the truth: "
    "the exact log likelihood, by particle filters, minus that of moment matching, per trial; and "
    "the bias of the estimates that follows from how this gap changes with the parameters, in "
    "standard errors of an experiment with 100 trials.",
    scales={
        "smoke": {"trials": 2, "repetitions": 2, "particles": 50, "filters": 2},
        "laptop": {"trials": 50, "repetitions": 4, "particles": 250, "filters": 4},
        "paper": {"trials": 100, "repetitions": 20, "particles": 1000, "filters": 8},
    },
    sweeps=sweeps,
    numbers=numbers,
    draw=draw,
    deviations=(
        "The question is ours: the paper takes the approximation as it is, and measures the errors "
        "of estimates, of which the bias is a part.",
        "The paper does not state the recording noises of its partially observed states: here "
        "1 mm for positions, 0.1 degrees for angles, and 0.5 for two states of random problems.",
        "Each repetition has a random problem of its own.",
        "The bias is the first-order one: the slope of the gap along the profile of each "
        "parameter, one standard error to either side.",
    ),
)
