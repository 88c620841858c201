"""Pictures of behaviour and of policies. Each function returns a matplotlib `Figure`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from motorcost import checks
from motorcost.solver import Policy
from motorcost.trials import Trials

# From the Okabe-Ito palette, which people with any colour vision can tell apart.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#8C8C8C"


def plot_trials(
    trials: Trials, channels: Sequence[str] | None = None, single_trials: int = 30
) -> Figure:
    """What was recorded, over time: mean over trials, the middle 95 % of them, and a few.

    One panel for each channel, or for those named.
    """
    names = list(trials.channel_names if channels is None else channels)
    columns = 2 if len(names) == 4 else min(len(names), 3)
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(3.4 * columns, 2.5 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True)
    time = np.asarray(trials.times)
    for ax, name in zip(axes.flat, names, strict=False):
        i = trials.channel_names.index(checks.one_of("channel", name, trials.channel_names))
        samples = np.asarray(trials.observed[:, :, i])
        low, high = np.quantile(samples, [0.025, 0.975], axis=0)
        ax.fill_between(time, low, high, color=BLUE, alpha=0.2, linewidth=0, label="middle 95 %")
        lines = ax.plot(time, samples[:single_trials].T, color=GREY, alpha=0.4, linewidth=0.6)
        lines[0].set_label("single trials")
        ax.plot(time, samples.mean(axis=0), color=BLUE, linewidth=2, label="mean")
        ax.set_title(_with_unit(name, trials.channel_units[i]), fontsize=10)
        _clean(ax)
    _finish_grid(axes, len(names), "time (s)")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=3, frameon=False, fontsize=8)
    return figure


def plot_gains(policy: Policy, states: Sequence[str] | None = None) -> Figure:
    """The gains over time: how controls answer the estimated states (L, upper rows) and how
    estimates answer the senses (K, lower rows). One column for each state, six at most unless
    `states` names them.
    """
    p = policy.believed
    names = list(p.state_names[:6] if states is None else states)
    at = [p.state_names.index(checks.one_of("state", name, p.state_names)) for name in names]
    rows = [(f"L: {name}", np.asarray(policy.L[:, i])) for i, name in enumerate(p.control_names)]
    rows += [(f"K: {name}", np.asarray(policy.K[:, :, j])) for j, name in enumerate(p.sense_names)]
    time = np.asarray(p.times[:-1])
    figure = Figure(figsize=(1.9 * len(names) + 0.6, 1.5 * len(rows) + 0.4), layout="constrained")
    axes = figure.subplots(len(rows), len(names), squeeze=False, sharex=True)
    for row, (label, gains) in enumerate(rows):
        color = BLUE if label.startswith("L") else ORANGE
        for column, (name, i) in enumerate(zip(names, at, strict=True)):
            ax = axes[row, column]
            ax.axhline(0, color=GREY, linewidth=0.5)
            ax.plot(time, gains[:, i], color=color, linewidth=1.8)
            ax.ticklabel_format(style="sci", scilimits=(-2, 3), axis="y")
            _clean(ax)
            if not gains[:, i].any():  # an axis of its own would only show noise about zero
                ax.set_yticks([0])
            if row == 0:
                ax.set_title(name, fontsize=10)
            if column == 0:
                ax.set_ylabel(label, fontsize=9)
    for ax in axes[-1]:
        ax.set_xlabel("time (s)")
    return figure


def plot_costs(policy: Policy) -> Figure:
    """How the expected cost settled: its distance from the final one after each sweep."""
    costs = np.asarray(policy.sweep_costs)[: int(policy.sweeps)]
    final = float(policy.expected_cost)
    apart = (costs - final) / abs(final) if final else costs
    sweep = np.arange(1, len(costs) + 1)
    figure = Figure(figsize=(4.2, 2.8), layout="constrained")
    ax = figure.subplots()
    floor = np.finfo(float).eps
    ax.axhline(floor, color=GREY, linewidth=0.5)
    ax.plot(sweep, np.maximum(np.abs(apart), floor), color=BLUE, linewidth=1.2)
    for below, face, label in ((False, BLUE, "above"), (True, "white", "below")):
        these = (apart < 0) == below
        if these.any():
            ax.plot(
                sweep[these],
                np.maximum(np.abs(apart[these]), floor),
                "o",
                color=BLUE,
                markerfacecolor=face,
                label=f"{label} the final cost",
            )
    ax.set_yscale("log")
    ax.set_xlabel("sweep")
    ax.set_ylabel("relative distance")
    ax.set_title(f"expected cost {final:.6g}", fontsize=10)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(frameon=False, fontsize=8)
    _clean(ax)
    return figure


def _with_unit(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name


def _clean(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)


def _finish_grid(axes: Any, used: int, xlabel: str) -> None:
    """Hide the panels left over, and label the lowest panel of each column."""
    columns = axes.shape[1]
    for i, ax in enumerate(axes.flat):
        if i >= used:
            ax.set_visible(False)
        elif i + columns >= used:
            ax.set_xlabel(xlabel)
            ax.tick_params(labelbottom=True)
