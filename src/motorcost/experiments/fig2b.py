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

# Twice the difference of log likelihoods below which 95 % of true pairs lie.
LIMIT = 5.99


def sweeps(at: Settings) -> list[Sweep]:
    """All pairs of values, the third cost at its truth, of one set of trials; and the truth."""
    cells: list[dict[str, Any]] = [{"pair": "truth", **TRUTH}]
    for one, two in combinations(TRUTH, 2):
        for a, b in product(axis(one, at["grid"]), axis(two, at["grid"])):
            cells.append({"pair": f"{one}-{two}", **TRUTH, one: a, two: b})
    function = LogLikelihood(at["trials"], data_seed=at.get("seed", 0))
    return [Sweep("reaching-likelihood", function, cells, batch_size=at["batch_size"])]


def numbers(at: Settings, tables: Tables) -> Sequence[Number]:
    """How far the truth is below the highest likelihood found in each plane."""
    table = tables["reaching-likelihood"]
    at_truth = float(table.loc[table["pair"] == "truth", "log_likelihood"].iloc[0])
    return [
        Number(
            f"2 (log likelihood at best - at truth), plane of {one} and {two}",
            2 * (float(_plane(tables, one, two)["log_likelihood"].max()) - at_truth),
            note=f"The grid's best need not be the truth: below {LIMIT} in 95 of 100 data sets.",
        )
        for one, two in combinations(TRUTH, 2)
    ]


def draw(at: Settings, tables: Tables) -> Sequence[Picture]:
    """A map for each pair."""
    figure = Figure(figsize=(9.6, 2.9), layout="constrained")
    axes = figure.subplots(1, 3)
    for ax, (one, two) in zip(axes, combinations(TRUTH, 2), strict=True):
        plane = _plane(tables, one, two)
        square = plane.pivot_table(index=two, columns=one, values="log_likelihood")
        drop = np.log10(1.0 + float(np.nanmax(square.to_numpy())) - square.to_numpy())
        x, y = square.columns.to_numpy(float), square.index.to_numpy(float)
        drawn = ax.contourf(x, y, drop, levels=14, cmap="viridis_r")
        best = plane.sort_values("log_likelihood").iloc[-1]
        ax.plot(TRUTH[one], TRUTH[two], "+", color="black", ms=11, mew=2, label="truth")
        ax.plot(best[one], best[two], "x", color=ORANGE, ms=7, mew=2, label="best on the grid")
        log_axes(ax)
        ax.set_xlabel(LABELS[one])
        ax.set_ylabel(LABELS[two])
    figure.colorbar(drawn, ax=axes, label="log10(1 + drop of\nlog likelihood)")
    legend_above(figure, axes[0])
    return [Picture(figure, "Negative log likelihood over pairs of costs", "likelihood")]


def _plane(tables: Tables, one: str, two: str) -> Any:
    table = tables["reaching-likelihood"]
    return table[table["pair"] == f"{one}-{two}"]


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
    deviations=("The paper tells neither the range nor the resolution of its maps.",),
)
