"""A figure of a design: which conditions, and what to expect of them."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from motorcost.diagnostics.design_check import DesignCheck
from motorcost.diagnostics.designs import Design
from motorcost.plots.style import (
    BLUE,
    GREY,
    ORANGE,
    CaptionedFigure,
    captioned,
    counted,
    legend_above,
    new_figure,
    plain,
    styled,
)

# Candidates that are drawn; of more, those with the most trials.
_MOST_DRAWN = 30
# Errors that differ by a larger factor are drawn on a log scale.
_MOST_LINEAR = 20
# How far above and below a parameter's place the allocations are drawn.
_APART = 0.2


@styled
def plot_design(plan: Design, check: DesignCheck | None = None) -> CaptionedFigure:
    """Draw the trials of each candidate, and the expected error of each parameter.

    `check` is what `plan.simulate` returned: how estimates of simulated experiments scattered is
    then drawn beside what was expected, with the standard error of that figure.

    Examples
    --------
    >>> plan = mc.design(
    ...     mc.tasks.reaching,
    ...     ["effort"],
    ...     trials=20,
    ...     candidates={"target": [0.05, 0.1]},
    ...     values={"steps": 12},
    ...     simulated=100,
    ...     key=jax.random.key(0),
    ... )
    >>> figure = mc.plots.plot_design(plan)
    """
    order = np.argsort([-count for count in plan.counts], kind="stable")[:_MOST_DRAWN]
    drawn = sorted(order.tolist())
    height = 1.2 + max(0.3 * len(drawn), 0.6 * len(plan.names), 1.2)
    figure = new_figure(9.0, height)
    left, right = figure.subplots(1, 2, width_ratios=[1.0, 1.1])
    _draw_trials(left, plan, drawn)
    _draw_errors(right, plan, check)
    legend_above(figure, left, right)
    return captioned(
        figure,
        f"Left: how {counted(plan.trials, 'trial')} are divided among the conditions.",
        "Right: the expected standard error of each parameter, relative to its assumed true value.",
        ""
        if check is None
        else f"Crosses: how estimates of {len(check.optimal)} simulated experiments scattered; "
        "their bars are standard errors.",
    )


def _draw_trials(ax: Axes, plan: Design, drawn: list[int]) -> None:
    places = range(len(drawn))
    counts, equal = plan.counts, plan.equal.counts
    ax.barh(places, [counts[i] for i in drawn], color=BLUE, height=0.7, label="design")
    ax.plot([equal[i] for i in drawn], places, "|", color=ORANGE, ms=10, mew=2, label="equal")
    ax.set_yticks(places, [plain(plan.candidates[i].label) for i in drawn])
    ax.invert_yaxis()
    ax.set_xlim(left=0)
    ax.set_xlabel("trials")


def _draw_errors(ax: Axes, plan: Design, check: DesignCheck | None) -> None:
    allocations = (
        ("design", plan.optimal, BLUE, "o", -_APART),
        ("equal", plan.equal, ORANGE, "|", 0.0),
        ("best single condition", plan.single, GREY, "D", _APART),
    )
    for label, allocation, colour, marker, shift in allocations:
        errors = 100 * np.array(list(allocation.relative_errors.values()))
        places = np.arange(len(errors)) + shift
        known = np.isfinite(errors)
        size, edge = (10, 2) if marker == "|" else (6, 1)
        ax.plot(errors[known], places[known], marker, color=colour, ms=size, mew=edge, label=label)
    if check is not None:
        for spread, colour, shift in (
            (check.spread, BLUE, -_APART),
            (check.equal_spread, ORANGE, 0.0),
        ):
            values = 100 * np.array(list(spread.values()))
            ax.errorbar(
                values,
                np.arange(len(values)) + shift + _APART / 2,
                xerr=check.spread_error * values,
                fmt="x",
                color=colour,
                ms=5,
                lw=1,
                label="simulated experiments" if colour == BLUE else "_nolegend_",
            )
    low, high = ax.dataLim.intervalx
    if high > _MOST_LINEAR * low:
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
    else:
        ax.set_xlim(left=0)
    ax.set_yticks(range(len(plan.names)), [plain(name) for name in plan.names])
    ax.set_ylim(len(plan.names) - 0.5, -0.5)
    ax.grid(axis="x", which="major", color="#E0E0E0", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.set_xlabel("expected standard error (%)")
