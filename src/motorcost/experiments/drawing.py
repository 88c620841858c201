"""Pictures that several experiments draw."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation, NullFormatter

from motorcost.experiments.reaches import LABELS, TRUTH, axis
from motorcost.plots.style import BLUE, GREY, ORANGE, clean

if TYPE_CHECKING:
    import pandas as pd


def pair_maps(table: pd.DataFrame, column: str, label: str, grid: int) -> Figure:
    """The mean of a column over repetitions, over each pair of true costs of a reach."""
    figure = Figure(figsize=(9.6, 2.9), layout="constrained")
    axes = figure.subplots(1, 3)
    means = table.groupby(list(TRUTH), as_index=False)[column].mean()
    norm = LogNorm(means[column].min(), means[column].max())
    for ax, (cost_x, cost_y) in zip(axes, combinations(TRUTH, 2), strict=True):
        third = next(name for name in TRUTH if name not in (cost_x, cost_y))
        x, y = axis(cost_x, grid), axis(cost_y, grid)
        on_plane = (means[third] == TRUTH[third]) & means[cost_x].isin(x) & means[cost_y].isin(y)
        square = means[on_plane].pivot_table(index=cost_y, columns=cost_x, values=column)
        drawn = ax.pcolormesh(_edges(x), _edges(y), square, norm=norm, cmap="viridis_r")
        ax.plot(TRUTH[cost_x], TRUTH[cost_y], "+", color="white", ms=9)
        log_axes(ax)
        ax.set_xlabel(LABELS[cost_x])
        ax.set_ylabel(LABELS[cost_y])
    figure.colorbar(drawn, ax=axes, label=label)
    return figure


def _edges(centres: list[float]) -> np.ndarray:
    """The edges of the cells with these centres, on a logarithmic axis."""
    logs = np.log(centres)
    step = (logs[-1] - logs[0]) / (len(logs) - 1)
    return np.exp(np.append(logs - step / 2, logs[-1] + step / 2))


def log_axes(ax: Axes) -> None:
    """Both axes logarithmic, with few labels."""
    for line in (ax.xaxis, ax.yaxis):
        line.axes.set(**{f"{line.axis_name}scale": "log"})
        low, high = line.get_view_interval()
        if high / low >= 10:
            line.set_minor_formatter(NullFormatter())
        else:
            line.set_minor_formatter(LogFormatterSciNotation(minor_thresholds=(1, 0.4)))


def distributions(
    samples: Mapping[str, np.ndarray], label: str, paper: Mapping[str, float] | None = None
) -> Figure:
    """Sizes of errors by name, with their root mean square and the paper's."""
    figure = Figure(figsize=(1.6 * len(samples) + 1.2, 3.2), layout="constrained")
    ax = figure.subplots()
    for place, (name, values) in enumerate(samples.items()):
        values = np.asarray(values, float)
        values = values[np.isfinite(values) & (values > 0)]
        jitter = np.random.default_rng(0).uniform(-0.25, 0.25, len(values))
        alpha = float(np.clip(60 / max(len(values), 1), 0.2, 0.7))
        ax.plot(place + jitter, values, ".", color=BLUE, ms=4, alpha=alpha, mew=0)
        root = np.sqrt(np.mean(values**2))
        ax.hlines(root, place - 0.35, place + 0.35, color=BLUE, lw=2.5)
        if paper is not None and name in paper:
            ax.hlines(paper[name], place - 0.35, place + 0.35, color=ORANGE, lw=2.5, ls="--")
    ax.plot([], [], color=BLUE, lw=2.5, label="root mean square")
    if paper is not None:
        ax.plot([], [], color=ORANGE, lw=2.5, ls="--", label="the paper's")
    ax.set_yscale("log")
    ax.set_xticks(range(len(samples)), list(samples))
    ax.set_ylabel(label)
    ax.grid(axis="y", color=GREY, alpha=0.2)
    ax.legend(frameon=False, fontsize=8, loc="lower right")
    clean(ax)
    return figure


def found_over_true(
    ax: Axes, table: pd.DataFrame, name: str, label: str, bins: int | None = None
) -> None:
    """Draw median and quantiles of estimates over true values: at each true value, or in `bins`
    groups of equal size."""
    true = np.asarray(table[name], float)
    found = np.asarray(table[f"{name}_found"], float)
    group = np.unique(true, return_inverse=True)[1]
    if bins is not None and bins < len(np.unique(true)):
        group = np.argsort(np.argsort(true)) * bins // len(true)
    x = [np.median(true[group == g]) for g in np.unique(group)]
    q = np.array(
        [np.quantile(found[group == g], [0.05, 0.25, 0.5, 0.75, 0.95]) for g in np.unique(group)]
    )
    ax.fill_between(x, q[:, 0], q[:, 4], color=BLUE, alpha=0.15, lw=0, label="5 to 95 %")
    ax.fill_between(x, q[:, 1], q[:, 3], color=BLUE, alpha=0.35, lw=0, label="25 to 75 %")
    ax.plot(x, q[:, 2], "o-", color=BLUE, ms=4, label="median")
    ax.plot(x, x, "--", color=ORANGE, lw=1, label="truth")
    log_axes(ax)
    ax.set_xlabel(f"true {label}")
    ax.set_ylabel("found")
    ax.legend(frameon=False, fontsize=8)
    clean(ax)
