"""Figure 2 E and F: do the costs of a reach come back, over a range of true costs?"""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import numpy as np

from motorcost.experiments.declare import Experiment, Number, Settings, Sweep, Tables
from motorcost.experiments.drawing import distributions, pair_maps
from motorcost.experiments.measures import TrajectoryDivergence, covered, log_errors, mean, rmse
from motorcost.experiments.reaches import LABELS, TRUTH, axis, recovering
from motorcost.report.page import Picture

PAPER = {"effort": 2.4e-2, "velocity": 2.1e-2, "force": 3.1e-2}
RANGE = (
    "The error depends on the true costs, which the paper does not state: the smaller the effort, "
    "the less a reach says about it (see the maps)."
)
# From the fifth sample on position, velocity and force all vary: noise enters at the muscle.
DIVERGENCE = TrajectoryDivergence(("position", "velocity", "force"), first=4)


def cells(at: Settings) -> list[dict[str, Any]]:
    """True costs on a grid for each pair, the third cost as in panel A, without duplicates."""
    found: dict[tuple[float, ...], dict[str, Any]] = {}
    for cost_x, cost_y in combinations(TRUTH, 2):
        for x, y in product(axis(cost_x, at["grid"]), axis(cost_y, at["grid"])):
            cell = {**TRUTH, cost_x: x, cost_y: y}
            found.setdefault(tuple(cell.values()), cell)
    return list(found.values())


def sweeps(at: Settings) -> list[Sweep]:
    """Simulate and fit each cell several times."""
    recovery = recovering(at, measure=DIVERGENCE)
    return [
        Sweep("reaching-grid", recovery, cells(at), at["repetitions"], batch_size=at["batch_size"])
    ]


def numbers(at: Settings, tables: Tables) -> Sequence[Number]:
    """The error of each parameter, over all cells and repetitions."""
    table = tables["reaching-grid"]
    errors = log_errors(table, list(TRUTH))
    fine = table[table["failed"] == ""]
    rows = []
    for k, name in enumerate(TRUTH):
        ours, error = rmse(errors[:, k])
        rows.append(Number(f"RMSE of log10 {LABELS[name]}", ours, error, PAPER[name], RANGE))
    rows.append(Number("RMSE of log10, all three", *rmse(errors), 0.027, RANGE))
    inside = covered(table, list(TRUTH))
    why = (
        "Error bars come from the curvature of an approximate likelihood; the approximation adds "
        "an error that they do not know of."
    )
    for k, name in enumerate(TRUTH):
        title = f"true {LABELS[name]} within its 95 % interval, fraction"
        rows.append(Number(title, *mean(inside[:, k]), note=why))
    missed = fine["log_likelihood"] < fine["log_likelihood_true"] - 0.01
    rows.append(Number("searches that missed the maximum, fraction", float(missed.mean())))
    return rows


def draw(at: Settings, tables: Tables) -> Sequence[Picture]:
    """Maps over pairs, and distributions."""
    table = tables["reaching-grid"]
    fine = table[table["failed"] == ""].copy()
    errors = log_errors(table, list(TRUTH))
    fine["error"] = np.sqrt((errors**2).mean(axis=1))
    return [
        Picture(
            pair_maps(fine, "error", "RMSE (log10)", at["grid"]),
            "Error of the estimates over pairs of true costs",
            "maps",
        ),
        Picture(
            distributions(
                {LABELS[name]: np.abs(errors[:, k]) for k, name in enumerate(TRUTH)},
                "error (log10)",
                paper={LABELS[name]: PAPER[name] for name in TRUTH},
            ),
            "Distribution of the errors of each parameter, with the paper's RMSE",
            "distributions",
        ),
    ]


EXPERIMENT = Experiment(
    name="fig2ef",
    part="Figure 2 E, F",
    title="Costs of a reach come back",
    about="True costs vary on pairwise grids (the third cost as in panel A). At each, reaches are "
    "simulated and all three costs inferred. Measured: the root mean square error of log10 of "
    "the estimates.",
    scales={
        "smoke": {"grid": 2, "trials": 10, "repetitions": 1, "starts": 1, "batch_size": 12},
        "laptop": {"grid": 5, "trials": 100, "repetitions": 3, "starts": 10, "batch_size": 32},
        "paper": {"grid": 10, "trials": 100, "repetitions": 10, "starts": 10, "batch_size": 32},
    },
    sweeps=sweeps,
    numbers=numbers,
    draw=draw,
    deviations=(
        "The paper does not say which true values it took, nor how many: here a factor of ten "
        "either side of panel A's for effort and about five for velocity and force.",
        "The paper's errors are in 'logarithmic space'; base 10 is the one that agrees with the "
        "standard errors.",
        "Searches follow gradients; the paper's were BOBYQA, without.",
        "The control cost is effort / (T - 1) per step, as in the paper's text; its code has T.",
    ),
)
