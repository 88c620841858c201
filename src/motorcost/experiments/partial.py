"""The appendix's reaches of which only the position is recorded."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from motorcost.experiments import fig2ef
from motorcost.experiments.declare import Experiment, Number, Settings, Sweep, Tables
from motorcost.experiments.drawing import distributions, pair_maps
from motorcost.experiments.measures import TrajectoryDivergence, log_errors, rmse
from motorcost.experiments.reaches import CAMERA, LABELS, TRUTH, LogLikelihood, axis, recovering
from motorcost.plots.style import BLUE, GREEN, ORANGE, clean
from motorcost.report.page import Picture

PAPER = {"effort": 4.0e-2, "velocity": 1.1e-1, "force": 2.6e-1}
DIVERGENCE = TrajectoryDivergence(("position",), first=4)


def sweeps(at: Settings) -> list[Sweep]:
    """The grid of Figure 2 E through a camera, and slices of one data set's likelihood."""
    recovery = recovering(at, observer=CAMERA, measure=DIVERGENCE)
    slices = [
        {"slice": name, **TRUTH, name: value}
        for name in TRUTH
        for value in axis(name, at["points"])
    ]
    camera = LogLikelihood(at["trials"], CAMERA, at.get("seed", 0))
    return [
        Sweep(
            "camera-grid",
            recovery,
            fig2ef.cells(at),
            at["repetitions"],
            batch_size=at["batch_size"],
        ),
        Sweep("camera-slices", camera, slices, batch_size=at["points"]),
    ]


def numbers(at: Settings, tables: Tables) -> Sequence[Number]:
    """The error of each parameter, and the divergence of positions."""
    table = tables["camera-grid"]
    errors = log_errors(table, list(TRUTH))
    why = "It depends on the recording noise and on the true costs; the paper states neither."
    rows = [
        Number(f"RMSE of log10 {LABELS[name]}", *rmse(errors[:, k]), PAPER[name], why)
        for k, name in enumerate(TRUTH)
    ]
    exact = table.loc[table["failed"] == "", "kl_exact"]
    return [*rows, Number("median symmetrised KL of positions, exact", float(exact.median()))]


def draw(at: Settings, tables: Tables) -> Sequence[Picture]:
    """Maps, distributions and slices."""
    table = tables["camera-grid"]
    fine = table[table["failed"] == ""].copy()
    errors = log_errors(table, list(TRUTH))
    fine["error"] = np.sqrt((errors**2).mean(axis=1))
    figure = distributions(
        {LABELS[name]: np.abs(errors[:, k]) for k, name in enumerate(TRUTH)},
        "error (log10)",
        {LABELS[name]: PAPER[name] for name in TRUTH},
    )
    return [
        Picture(
            pair_maps(fine, "error", "RMSE (log10)", at["grid"]),
            "Error of the estimates over pairs of true costs, positions only",
            "maps",
        ),
        Picture(figure, "Distribution of the errors of each parameter", "distributions"),
        Picture(_slices(tables), "Slices of the likelihood through the truth", "slices"),
    ]


def _slices(tables: Tables) -> Figure:
    figure = Figure(figsize=(9.6, 2.6), layout="constrained")
    for ax, name in zip(figure.subplots(1, 3), TRUTH, strict=True):
        points = tables["camera-slices"].query("slice == @name")
        ax.plot(points[name], -points["log_likelihood"], color=BLUE)
        best = points.sort_values("log_likelihood").iloc[-1]
        ax.plot(best[name], -best["log_likelihood"], "x", color=ORANGE, mew=2, label="best")
        ax.axvline(TRUTH[name], color=GREEN, lw=1, ls=":", label="truth")
        ax.set_xscale("log")
        ax.set_xlabel(LABELS[name])
        ax.ticklabel_format(axis="y", useOffset=False)
        clean(ax)
        ax.legend(frameon=False, fontsize=8)
    figure.axes[0].set_ylabel("negative log likelihood", fontsize=9)
    return figure


EXPERIMENT = Experiment(
    name="partial",
    part="Appendix, partially observable state",
    title="Only the position is observed",
    about="As Figure 2 E, but only the hand's position is recorded, with an SD of 1 mm. Also "
    "drawn: slices of one data set's likelihood through the true costs.",
    scales={
        "smoke": {
            "grid": 2,
            "trials": 10,
            "repetitions": 1,
            "starts": 1,
            "batch_size": 12,
            "points": 5,
        },
        "laptop": {
            "grid": 3,
            "trials": 100,
            "repetitions": 3,
            "starts": 10,
            "batch_size": 32,
            "points": 81,
        },
        "paper": {
            "grid": 10,
            "trials": 100,
            "repetitions": 10,
            "starts": 10,
            "batch_size": 32,
            "points": 201,
        },
    },
    sweeps=sweeps,
    numbers=numbers,
    draw=draw,
    deviations=(
        "The paper does not state the noise of its recording: here an SD of 1 mm.",
        "The divergence is of positions, from the fifth sample on.",
    ),
)
