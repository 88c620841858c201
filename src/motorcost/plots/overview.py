"""The figure of a look at recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from motorcost.data import kinematics
from motorcost.plots.style import (
    BLUE,
    GREY,
    ORANGE,
    CaptionedFigure,
    captioned,
    counted,
    new_figure,
    plain,
    styled,
    with_unit,
)
from motorcost.study.suspicions import UNDER_WAY

if TYPE_CHECKING:
    from motorcost.study.overview import Look

# Rows of the figure, each a group, and trials that are drawn in each.
_MOST_GROUPS = 9
_MOST_TRIALS = 60


@styled
def plot_look(look: Look) -> CaptionedFigure:
    """Draw what recordings are like: one row for each group (at most nine).

    On the left are the paths, or, of a single coordinate, its course over time; crosses are goals.
    In the middle are speeds over time since the first sample, orange where a trial is under way
    at its first sample. On the right are the end points relative to their goals, or, of goals that
    move, the distance to them over time.

    Examples
    --------
    >>> figure = mc.plots.plot_look(mc.look(mc.io.from_frame(mc.io.to_frame(positions))))
    """
    names = look.group_names[:_MOST_GROUPS]
    figure = new_figure(10.2, 2.3 * len(names) + 0.6)
    axes = figure.subplots(len(names), 3, squeeze=False)
    groups = np.array(look.groups)
    for row, name in zip(axes, names, strict=True):
        which = np.flatnonzero(groups == name)
        # Spread over all, at uneven distances: trials out and back often alternate.
        places = np.linspace(0, len(which) - 1, min(len(which), _MOST_TRIALS)).astype(int)
        shown = which[places]
        _draw_paths(row[0], look, shown)
        _draw_speeds(row[1], look, shown)
        if look.tracked:
            _draw_distances(row[2], look, shown)
        else:
            _draw_ends(row[2], look, which)
        count = counted(len(which), "trial")
        title = count if look.by is None else f"{name}: {count}"
        row[0].set_title(plain(title), loc="left")
    left_out = len(look.group_names) - len(names)
    more = f" (the first {len(names)} of {len(look.group_names)} groups)" if left_out else ""
    figure.suptitle(plain(look.title + more))
    last = (
        "Right: the distance to the goal over time."
        if look.tracked
        else "Right: end points relative to their goals, or distances where there are no goals."
    )
    return captioned(
        figure,
        f"Left: recorded movements, at most {_MOST_TRIALS} of each group; goals are orange.",
        "Middle: their speeds; orange if a movement is under way at its first sample.",
        last,
    )


def _draw_paths(ax: Axes, look: Look, shown: np.ndarray) -> None:
    """Paths in the plane, or the first coordinate over time, with the goals."""
    channels, unit = list(look.movements.channels), look.unit
    planar = len(channels) > 1
    for i in shown:
        samples, times = look.movements.samples[i], look.movements.times[i]
        across = samples[:, 0] if planar else times - times[0]
        up = samples[:, 1] if planar else samples[:, 0]
        ax.plot(across, up, color=BLUE, alpha=0.35, linewidth=0.7)
        if look.goals is None:
            continue
        goal = look.goals[i]
        if goal.ndim > 1:  # a goal that moves
            ax.plot(goal[:, 0] if planar else across, goal[:, 1 if planar else 0], color=ORANGE,
                    alpha=0.35, linewidth=0.7)  # fmt: skip
        else:
            x, y = (goal[0], goal[1]) if planar else (across[-1], goal[0])
            ax.plot(x, y, "x", color=ORANGE, markersize=4)
    ax.set_xlabel(with_unit(channels[0], unit) if planar else "time (s)")
    ax.set_ylabel(with_unit(channels[1 if planar else 0], unit))
    if planar:
        ax.set_aspect("equal", adjustable="datalim")


def _draw_speeds(ax: Axes, look: Look, shown: np.ndarray) -> None:
    """Speeds over the time since the first sample."""
    for i in shown:
        samples, times = look.movements.samples[i], look.movements.times[i]
        under_way = look.measures.first_speed[i] > UNDER_WAY and not look.tracked
        ax.plot(
            times - times[0],
            kinematics.speed(samples, times),
            color=ORANGE if under_way else BLUE,
            alpha=0.35,
            linewidth=0.7,
        )
    # A few trials that last much longer, or single samples that jump, are cut off.
    ax.set_xlim(0, 1.2 * float(np.quantile(look.measures.duration[shown], 0.95)) or 1.0)
    ax.set_ylim(0, 1.5 * float(np.nanquantile(look.measures.peak_speed[shown], 0.95)) or 1.0)
    ax.set_xlabel("time since the first sample (s)")
    ax.set_ylabel(with_unit("speed", f"{look.unit}/s" if look.unit else ""))


def _draw_distances(ax: Axes, look: Look, shown: np.ndarray) -> None:
    """The distance to a goal that moves, over time."""
    for i in shown:
        samples, times = look.movements.samples[i], look.movements.times[i]
        distance = np.linalg.norm(samples - (look.goals or ())[i], axis=1)
        ax.plot(times - times[0], distance, color=BLUE, alpha=0.35, linewidth=0.7)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("time since the first sample (s)")
    ax.set_ylabel(with_unit("distance to the goal", look.unit))


def _draw_ends(ax: Axes, look: Look, which: np.ndarray) -> None:
    """End points relative to the goals; without goals, distances against durations."""
    measures, unit = look.measures, look.unit
    ends = measures.ends[which]
    if not np.isfinite(ends).any():
        ax.plot(measures.duration[which], measures.distance[which], ".", color=BLUE, markersize=4)
        ax.set_xlabel("duration (s)")
        ax.set_ylabel(with_unit("distance", unit))
        return
    up = ends[:, 1] if ends.shape[1] > 1 else measures.duration[which]
    ax.axvline(0, color=GREY, linewidth=0.5)
    ax.plot(ends[:, 0], up, ".", color=BLUE, markersize=4)
    first, *others = look.movements.channels
    ax.set_xlabel(with_unit(f"{first} at the end - goal", unit))
    if others:
        ax.axhline(0, color=GREY, linewidth=0.5)
        ax.set_ylabel(with_unit(f"{others[0]} at the end - goal", unit))
        ax.set_aspect("equal", adjustable="datalim")
    else:
        ax.set_ylabel("duration (s)")
