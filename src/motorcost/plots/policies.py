"""Figures of policies: gains, iterations of the solver, and minima of the expected cost."""

from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import MaxNLocator

from motorcost import checks
from motorcost.errors import InputError
from motorcost.model.policy import Minima, Policy
from motorcost.plots.style import (
    BLUE,
    GREY,
    MOST_PANELS,
    ORANGE,
    CaptionedFigure,
    captioned,
    new_figure,
    styled,
    with_unit,
)


@styled
def plot_gains(policy: Policy, states: Sequence[str] | None = None) -> CaptionedFigure:
    """Draw the gains over time.

    The upper rows show how controls respond to the estimated states (L), the lower rows how
    estimates respond to the senses (K). There is one column for each of `states`, or for each of
    the first six.

    Examples
    --------
    >>> figure = mc.plots.plot_gains(policy, ["position", "velocity"])
    """
    _require_one(policy.converged.ndim, "policy")
    p = policy.believed
    names = list(p.state_names[:MOST_PANELS] if states is None else states)
    if not names:
        raise InputError("there are no states to draw")
    at = [p.state_names.index(checks.one_of("state", name, p.state_names)) for name in names]
    rows = [
        (f"L: {with_unit(name, unit)}", BLUE, np.asarray(policy.L[:, i]))
        for i, (name, unit) in enumerate(zip(p.control_names, p.control_units, strict=True))
    ]
    rows += [
        (f"K: {with_unit(name, unit)}", ORANGE, np.asarray(policy.K[:, :, j]))
        for j, (name, unit) in enumerate(zip(p.sense_names, p.sense_units, strict=True))
    ]
    time = np.asarray(p.times[:-1])
    figure = new_figure(1.9 * len(names) + 0.6, 1.45 * len(rows) + 0.4)
    axes = figure.subplots(len(rows), len(names), squeeze=False, sharex=True)
    for row, (label, color, gains) in enumerate(rows):
        for column, i in enumerate(at):
            ax = axes[row, column]
            ax.axhline(0, color=GREY, linewidth=0.5)
            ax.plot(time, gains[:, i], color=color, linewidth=1.8)
            ax.ticklabel_format(style="sci", scilimits=(-2, 3), axis="y")
            if not gains[:, i].any():  # an automatic scale would only show noise about zero
                ax.set_yticks([0])
            if row == 0:
                ax.set_title(with_unit(names[column], p.state_units[i]))
            if column == 0:
                ax.set_ylabel(label)
    for ax in axes[-1]:
        ax.set_xlabel("time (s)")
    return captioned(
        figure,
        "Gains over time. Blue: how much each control (row) falls with the agent's estimate of "
        "each state (column), in units of the control per unit of the state.",
        "Orange: how much the estimate of each state (column) is corrected by an error of each "
        "sense (row), in units of the state per unit of the sense.",
    )


@styled
def plot_costs(policy: Policy) -> CaptionedFigure:
    """Draw how the expected cost settled: its distance from the final one after each iteration.

    Examples
    --------
    >>> figure = mc.plots.plot_costs(policy)
    """
    _require_one(policy.converged.ndim, "policy")
    costs = np.asarray(policy.iteration_costs)[: int(policy.iterations)]
    final = float(policy.expected_cost)
    distance = (costs - final) / abs(final) if final else costs
    iteration = np.arange(1, len(costs) + 1)
    figure = new_figure(4.2, 2.8)
    ax = figure.subplots()
    floor = np.finfo(float).eps
    ax.axhline(floor, color=GREY, linewidth=0.5)
    ax.plot(iteration, np.maximum(np.abs(distance), floor), color=BLUE, linewidth=1.2)
    for below, face, label in ((False, BLUE, "above"), (True, "white", "below")):
        chosen = (distance < 0) == below
        if chosen.any():
            ax.plot(
                iteration[chosen],
                np.maximum(np.abs(distance[chosen]), floor),
                "o",
                color=BLUE,
                markerfacecolor=face,
                label=f"{label} the final cost",
            )
    ax.set_yscale("log")
    ax.set_xlabel("iteration")
    ax.set_ylabel("relative distance")
    ax.set_title(f"expected cost {final:.6g}")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend()
    return captioned(
        figure,
        "The expected cost after each iteration of the solver: its distance from the final one, "
        "relative to it.",
        "The grey line is the precision of the arithmetic.",
    )


@styled
def plot_minima(minima: Minima) -> CaptionedFigure:
    """Draw the expected cost of each minimum that was found, the lowest first.

    Examples
    --------
    >>> figure = mc.plots.plot_minima(policy.minima)
    """
    _require_one(minima.count.ndim, "set of minima")
    count = int(minima.count)
    if not count:
        raise InputError("there are no minima to draw: the iterations did not converge")
    costs = np.asarray(minima.costs)[:count]
    figure = new_figure(3.6, 2.6)
    ax = figure.subplots()
    ax.plot(np.arange(1, count + 1), costs, "o", color=BLUE)
    ax.plot(1, costs[0], "o", color=BLUE, ms=12, markerfacecolor="none")
    ax.set_xlim(0.5, count + 0.5)
    ax.set_xticks(range(1, count + 1))
    ax.set_xlabel("minimum, from the lowest")
    ax.set_ylabel("expected cost")
    return captioned(
        figure,
        "Expected cost of each distinct minimum that the starts of the solver led to; the circle "
        "marks the one that is the policy.",
    )


def _require_one(dimensions: int, what: str) -> None:
    if dimensions:
        raise InputError(f"one {what} is drawn at a time, got a batch: select one first")
