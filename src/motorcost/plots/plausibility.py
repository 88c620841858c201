"""A figure of what a fitted agent does beside what was recorded."""

import numpy as np
from matplotlib.axes import Axes

from motorcost.diagnostics import Plausibility
from motorcost.diagnostics.courses import CourseComparison
from motorcost.plots.style import (
    BLUE,
    COLOURS,
    GREY,
    CaptionedFigure,
    captioned,
    legend_above,
    new_figure,
    plain,
    styled,
)

# What is compared of each channel: its name in the figure, and in a `CourseComparison`.
_MEASURES = {
    "SD of end points": "end_sd",
    "peak": "peak",
    "time of the peak": "peak_time",
    "duration": "duration",
}


@styled
def plot_plausibility(found: Plausibility) -> CaptionedFigure:
    """Draw what the agent's expected cost is for, and what it does, relative to the recording.

    Examples
    --------
    >>> figure = mc.plots.plot_plausibility(mc.plausibility(fit))
    """
    rows = [(c, label, name) for c in found.channels for label, name in _MEASURES.items()]
    rows = [row for row in rows if np.isfinite(_ratio(row[0], row[2]))]
    figure = new_figure(7.6, 1.4 + max(0.26 * len(rows), 0.34 * len(found.shares)))
    left, right = figure.subplots(1, 2)
    shares = [100 * share for share in found.shares.values()]
    left.barh(range(len(shares)), shares, color=BLUE, height=0.65)
    left.set_yticks(range(len(shares)), [plain(name) for name in found.shares])
    left.invert_yaxis()
    left.set_xlim(left=0)
    left.set_xlabel("% of the expected cost")
    _draw_ratios(right, rows, [channel.name for channel in found.channels])
    legend_above(figure, right)
    return captioned(
        figure,
        "Left: what the expected cost of the fitted agent is for.",
        "Right: what it does divided by what was recorded; 1 if both agree. Peak and duration are "
        "of the speed of a channel that moves, otherwise of its size.",
    )


def _draw_ratios(
    ax: Axes, rows: list[tuple[CourseComparison, str, str]], channels: list[str]
) -> None:
    ax.axvline(1, color=GREY, lw=0.8)
    for place, (channel, _, name) in enumerate(rows):
        colour = COLOURS[channels.index(channel.name) % len(COLOURS)]
        first = all(other.name != channel.name for other, *_ in rows[:place])
        label = plain(channel.name) if first else "_nolegend_"
        ax.plot(_ratio(channel, name), place, "o", color=colour, ms=6, label=label)
    ax.set_yticks(range(len(rows)), [label for _, label, _ in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    low, high = ax.get_xlim()
    ax.set_xlim(min(low, 0.5), max(high, 1.5))
    ax.set_xlabel("agent / recorded")


def _ratio(channel: CourseComparison, name: str) -> float:
    """What the agent does divided by what was recorded, NaN if either is not known or zero."""
    agent, recorded = getattr(channel, name), getattr(channel, f"recorded_{name}")
    return agent / recorded if recorded else np.nan
