"""Figure 2 B: the likelihood over pairs of costs."""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from motorcost.experiments.declare import Experiment, Number, Settings, Sweep, Tables
from motorcost.experiments.drawing import log_axes
from motorcost.experiments.reaches import LABELS, TRUTH, LogLikelihood, axis
from motorcost.plots.style import ORANGE, legend_above
from motorcost.report.page import Picture

# The 95 % quantile of chi-square with two degrees of freedom: for twice a difference of log
# likelihoods over a pair of parameters.
LIMIT = 5.99


def sweeps(at: Settings) -> list[Sweep]:
    """The likelihood of one set of trials at all pairs of values, the third cost at its true value,
    and at the true costs."""
    cells: list[dict[str, Any]] = [{"pair": "truth", **TRUTH}]
    for cost_x, cost_y in combinations(TRUTH, 2):
        for x, y in product(axis(cost_x, at["grid"]), axis(cost_y, at["grid"])):
            cells.append({"pair": f"{cost_x}-{cost_y}", **TRUTH, cost_x: x, cost_y: y})
    function = LogLikelihood(at["trials"], data_seed=at.get("seed", 0))
    return [Sweep("reaching-likelihood", function, cells, batch_size=at["batch_size"])]


def numbers(at: Settings, tables: Tables) -> Sequence[Number]:
    """The drop from the highest likelihood in each plane to the likelihood at the true costs."""
    table = tables["reaching-likelihood"]
    at_truth = float(table.loc[table["pair"] == "truth", "log_likelihood"].iloc[0])
    return [
        Number(
            f"2 (log likelihood at best - at truth), plane of {cost_x} and {cost_y}",
            2 * (float(_plane(tables, cost_x, cost_y)["log_likelihood"].max()) - at_truth),
            note=f"The grid's best need not be the truth: below {LIMIT} in 95 of 100 data sets.",
        )
        for cost_x, cost_y in combinations(TRUTH, 2)
    ]


def draw(at: Settings, tables: Tables) -> Sequence[Picture]:
    """A map for each pair."""
    figure = Figure(figsize=(9.6, 2.9), layout="constrained")
    axes = figure.subplots(1, 3)
    for ax, (cost_x, cost_y) in zip(axes, combinations(TRUTH, 2), strict=True):
        plane = _plane(tables, cost_x, cost_y)
        square = plane.pivot_table(index=cost_y, columns=cost_x, values="log_likelihood")
        drop = np.log10(1.0 + float(np.nanmax(square.to_numpy())) - square.to_numpy())
        x, y = square.columns.to_numpy(float), square.index.to_numpy(float)
        drawn = ax.contourf(x, y, drop, levels=14, cmap="viridis_r")
        best = plane.sort_values("log_likelihood").iloc[-1]
        ax.plot(TRUTH[cost_x], TRUTH[cost_y], "+", color="black", ms=11, mew=2, label="truth")
        ax.plot(
            best[cost_x], best[cost_y], "x", color=ORANGE, ms=7, mew=2, label="best on the grid"
        )
        log_axes(ax)
        ax.set_xlabel(LABELS[cost_x])
        ax.set_ylabel(LABELS[cost_y])
    figure.colorbar(drawn, ax=axes, label="log10(1 + drop of\nlog likelihood)")
    legend_above(figure, axes[0])
    return [Picture(figure, "Negative log likelihood over pairs of costs", "likelihood")]


def _plane(tables: Tables, cost_x: str, cost_y: str) -> Any:
    table = tables["reaching-likelihood"]
    return table[table["pair"] == f"{cost_x}-{cost_y}"]


EXPERIMENT = Experiment(
    name="fig2b",
    part="Figure 2 B",
    title="The likelihood over pairs of costs",
    about="One set of reaches; pairs of costs vary on a grid, the third is the true one. Drawn: "
    "how far the log likelihood lies below its highest value.",
    scales={
        "smoke": {"grid": 4, "trials": 20, "batch_size": 16},
        "laptop": {"grid": 25, "trials": 100, "batch_size": 250},
        "paper": {"grid": 60, "trials": 100, "batch_size": 250},
    },
    sweeps=sweeps,
    numbers=numbers,
    draw=draw,
    deviations=("The paper states neither the range nor the resolution of its maps.",),
)
