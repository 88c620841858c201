"""Figure 5 and its appendix: random problems."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure

from motorcost.experiments.declare import Experiment, Number, Settings, Sweep, Tables
from motorcost.experiments.drawing import found_over_true, log_axes
from motorcost.experiments.measures import covered, log_errors, mean
from motorcost.fitting.recovery import Recovery
from motorcost.model.problem import Problem
from motorcost.report.page import Picture
from motorcost.tasks import random_problem
from motorcost.tasks.supports import LogUniform

EFFORTS = {"effort_1": "effort r1", "effort_2": "effort r2"}
SUPPORT = LogUniform(1e-4, 100.0)
# The range of the true efforts.
LOW, HIGH = 1e-2, 1.0


def random_task(problem: Any, effort_1: Any, effort_2: Any) -> Problem:
    """The random problem with the given number and efforts."""
    return random_problem(jax.random.key(problem))(effort_1=effort_1, effort_2=effort_2)


def sweeps(at: Settings) -> list[Sweep]:
    """One data set of each problem, with efforts of its own."""
    rng = np.random.default_rng(at.get("seed", 0))
    true = rng.uniform(LOW, HIGH, size=(at["problems"], 2))
    cells = [
        {"problem": i, "effort_1": float(effort_1), "effort_2": float(effort_2)}
        for i, (effort_1, effort_2) in enumerate(true)
    ]
    recovery = Recovery(
        random_task,
        dict.fromkeys(EFFORTS, SUPPORT),
        n_trials=at["trials"],
        n_starts=at["starts"],
    )
    return [Sweep("random-problems", recovery, cells, batch_size=at["batch_size"])]


def numbers(at: Settings, tables: Tables) -> Sequence[Number]:
    """Errors of the estimated efforts, coverage of intervals, and how searches ended."""
    table = tables["random-problems"]
    errors = np.abs(log_errors(table, list(EFFORTS)))
    table = table[table["failed"] == ""]
    rows = []
    for k, label in enumerate(EFFORTS.values()):
        rows.append(Number(f"median of |log10 error|, {label}", float(np.median(errors[:, k]))))
    rows.append(Number("90th percentile, both", float(np.quantile(errors, 0.9))))
    rows.append(
        Number("fits at the edge of the supports, fraction", float(table["at_bounds"].mean()))
    )
    inside = covered(table[~table["at_bounds"].astype(bool)], list(EFFORTS))
    rows.append(Number("truth within the 95 % interval, fraction", *mean(inside)))
    missed = table["log_likelihood"] < table["log_likelihood_true"] - 0.01
    rows.append(Number("searches that missed the maximum, fraction", float(missed.mean())))
    return rows


def draw(at: Settings, tables: Tables) -> Sequence[Picture]:
    """Estimated over true efforts, and quantiles, for both efforts."""
    table = tables["random-problems"]
    fine = table[table["failed"] == ""]
    pictures = []
    for name, other in zip(EFFORTS, reversed(EFFORTS), strict=True):
        figure = Figure(figsize=(8.4, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        dots = left.scatter(
            fine[name], fine[f"{name}_found"], c=fine[other], s=9, cmap="viridis", lw=0
        )
        figure.colorbar(dots, ax=left, label=f"true {EFFORTS[other]}")
        ends = [LOW, HIGH]
        left.plot(ends, ends, "--", color="black", lw=0.8)
        left.set_xlabel(f"true {EFFORTS[name]}")
        left.set_ylabel("found")
        log_axes(left)
        found_over_true(right, fine, name, EFFORTS[name], bins=8)
        words = f"Random problems: {EFFORTS[name]} found over true"
        pictures.append(Picture(figure, words, name))
    return pictures


EXPERIMENT = Experiment(
    name="fig5",
    part="Figure 5 and appendix, random problems",
    title="Random problems",
    about="Each problem has random dynamics, senses and noise, and two efforts drawn at random, "
    "which are inferred together.",
    scales={
        "smoke": {"problems": 3, "trials": 10, "starts": 1, "batch_size": 3},
        "laptop": {"problems": 100, "trials": 100, "starts": 10, "batch_size": 25},
        "paper": {"problems": 2_000, "trials": 100, "starts": 10, "batch_size": 25},
    },
    sweeps=sweeps,
    numbers=numbers,
    draw=draw,
    deviations=(
        "The paper does not state the ranges of its efforts: here both are uniform between "
        f"{LOW:g} and {HIGH:g}.",
        "What the appendix leaves open of the problems is as in motorcost's task: four senses, one "
        "noise term of each kind, internal noise.",
        "The paper gives no number; its r2 panel has 1,000 problems, here they are all of them.",
    ),
)
