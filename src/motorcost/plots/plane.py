"""Figures of movements in the plane: paths, and how speed and curvature depend on the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import Normalize

from motorcost.data import kinematics
from motorcost.diagnostics import Adequacy
from motorcost.errors import InputError
from motorcost.fitting.fitted import Fit
from motorcost.model.trials import Trials
from motorcost.plots.style import (
    GREY,
    CaptionedFigure,
    captioned,
    counted,
    new_figure,
    styled,
    with_unit,
)

_PLACE = ("x", "y")
_TARGET = ("target_x", "target_y")
# Targets that are closer than this fraction of the median way belong together: each trial has its
# own where ways are measured from where it started.
_SAME_TARGET = 0.15
# Points of a mean path.
_POINTS = 60
# Share of a trial's duration over which its speeds are averaged (see `data.measures`).
_SMOOTHED = 0.05
# Around a circle, and about zero, in colours that people with any colour vision can tell apart.
_DIRECTIONS = colormaps["twilight"]
_SIGNED = "RdBu_r"
_UNSIGNED = "viridis"


@dataclass(frozen=True)
class Targets:
    """Groups of trials that go to the same target: its place (group, 2), and the group of each
    trial."""

    places: np.ndarray
    group: np.ndarray

    def colour(self, group: int) -> tuple[float, ...]:
        """The colour of a target's direction."""
        x, y = self.places[group]
        return _DIRECTIONS(0.1 + 0.8 * ((np.arctan2(y, x) / (2 * np.pi)) % 1.0))


def is_planar(trials: Trials) -> bool:
    """Whether trials were recorded in the plane, each with its target.

    Examples
    --------
    >>> mc.plots.is_planar(trials)
    False
    """
    return set(_PLACE) <= set(trials.channel_names) and set(_TARGET) <= set(trials.conditions)


@styled
def plot_paths(fit: Fit, adequacy: Adequacy) -> CaptionedFigure:
    """Draw recorded paths in the plane, and those of the fitted model in the same trials.

    `adequacy` is what `mc.check_fit` returned. Colours are directions of targets, which are
    circles; thick lines are the mean paths to each.

    Examples
    --------
    >>> figure = mc.plots.plot_paths(
    ...     planar, mc.check_fit(planar, key=jax.random.key(0), n_replicates=10)
    ... )
    """
    trials, targets = fit.trials, targets_of(fit.trials)
    columns = _columns(trials)
    figure = new_figure(8.2, _panel_height(targets) + 0.8)
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    shown = {
        "recorded": np.asarray(trials.observed)[..., columns],
        "model, one simulated experiment": adequacy.replicates[0][..., columns],
    }
    for ax, (title, paths) in zip(axes, shown.items(), strict=True):
        _draw_paths(ax, paths, targets)
        ax.set_title(title)
        ax.set_xlabel(with_unit("x", trials.channel_units[columns[0]]))
    axes[0].set_ylabel(with_unit("y", trials.channel_units[columns[1]]))
    return captioned(
        figure,
        f"Paths of {counted(len(trials), 'trial')} (thin) and mean paths to each target (thick), "
        "recorded and in one simulated experiment at the estimates.",
        "Circles are targets, the cross is the start, and colours are directions of targets.",
    )


def _draw_paths(ax: Axes, paths: np.ndarray, targets: Targets) -> None:
    """Draw paths (trial, time, 2) and their means."""
    for group, place in enumerate(targets.places):
        colour = targets.colour(group)
        courses = []
        for path in paths[targets.group == group]:
            present = path[np.isfinite(path).all(axis=1)]
            if len(present) < 2:
                continue
            ax.plot(*present.T, color=colour, alpha=0.35, linewidth=0.6)
            when = np.linspace(0, len(present) - 1, _POINTS)
            sampled = np.arange(len(present))
            courses.append([np.interp(when, sampled, values) for values in present.T])
        if courses:
            ax.plot(*np.mean(courses, axis=0), color=colour, linewidth=2)
        ax.plot(*place, "o", color=GREY, markerfacecolor="none", markersize=11)
    ax.plot(0, 0, "+", color=GREY, markersize=9)
    ax.set_aspect("equal", adjustable="box")


@styled
def plot_targets(fit: Fit, adequacy: Adequacy) -> CaptionedFigure:
    """Draw maps of how fast and how curved movements to each target are, recorded and in the model.

    `adequacy` is what `mc.check_fit` returned. The curvature of a path is its largest distance from
    the straight line to its target, as a percentage of the way, positive to the left of it. Numbers
    are means over the trials to a target.

    Examples
    --------
    >>> figure = mc.plots.plot_targets(
    ...     planar, mc.check_fit(planar, key=jax.random.key(0), n_replicates=10)
    ... )
    """
    trials, targets = fit.trials, targets_of(fit.trials)
    columns = _columns(trials)
    times = np.asarray(trials.times)
    unit = trials.channel_units[columns[0]]
    shown = {
        "recorded": np.asarray(trials.observed)[None][..., columns],
        "model": adequacy.replicates[..., columns],
    }

    def speed(path: np.ndarray, _: np.ndarray) -> float:
        smooth = _SMOOTHED * np.isfinite(path).all(axis=1).sum() * (times[1] - times[0])
        return float(np.nanmax(kinematics.speed(path, times, smooth), initial=0.0))

    measures: dict[str, tuple[Callable[[np.ndarray, np.ndarray], float], str]] = {
        with_unit("peak speed", f"{unit}/s" if unit else ""): (speed, _UNSIGNED),
        "curvature (% of the way)": (_curvature, _SIGNED),
    }
    figure = new_figure(8.2, 2 * _panel_height(targets) + 1.0)
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    for column, (title, (measure, colours)) in enumerate(measures.items()):
        means = {name: _means(paths, targets, measure) for name, paths in shown.items()}
        values = np.concatenate(list(means.values()))
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        if colours == _SIGNED:
            high = max(abs(low), abs(high), 1e-12)
            low = -high
        for row, (name, of_targets) in enumerate(means.items()):
            ax = axes[row, column]
            discs = _draw_map(ax, targets, of_targets, Normalize(low, high), colours)
            if row == 0:
                ax.set_title(title)
            if column == 0:
                ax.set_ylabel(f"{name}, {with_unit('y', unit)}")
        figure.colorbar(discs, ax=axes[:, column], shrink=0.6)
    for ax in axes[-1]:
        ax.set_xlabel(with_unit("x", unit))
    return captioned(
        figure,
        "Peak speed and curvature of movements to each target, recorded and in simulated "
        "experiments at the estimates: means over the trials to a target.",
        "Curvature is the largest distance from the straight line to the target, positive to its "
        "left.",
    )


def _curvature(path: np.ndarray, target: np.ndarray) -> float:
    """The largest distance from the straight line, in percent of the way; positive to the left."""
    present = path[np.isfinite(path).all(axis=1)]
    if len(present) < 2:
        return np.nan
    aside = kinematics.along_line(present, np.zeros(2), target)[:, 1]
    return float(100 * aside[np.abs(aside).argmax()] / np.linalg.norm(target))


def _means(
    paths: np.ndarray, targets: Targets, measure: Callable[[np.ndarray, np.ndarray], float]
) -> np.ndarray:
    """The mean of a measure over the trials of all experiments, for each target."""
    values = np.array(
        [
            [
                measure(path, targets.places[group])
                for path, group in zip(experiment, targets.group, strict=True)
            ]
            for experiment in paths
        ]
    )
    return np.array(
        [np.nanmean(values[:, targets.group == group]) for group in range(len(targets.places))]
    )


def _draw_map(
    ax: Axes, targets: Targets, values: np.ndarray, norm: Normalize, colours: str
) -> PathCollection:
    """Draw a disc at each target, with a number if there are few."""
    few = len(values) <= 16
    drawn = ax.scatter(
        targets.places[:, 0],
        targets.places[:, 1],
        c=values,
        cmap=colours,
        norm=norm,
        s=420 if few else 120,
        edgecolor=GREY,
    )
    for place, value in zip(targets.places, values, strict=True) if few else ():
        shade = np.mean(colormaps[colours](norm(value))[:3])
        colour = "white" if shade < 0.5 else "black"
        ax.annotate(f"{value:.2g}", place, ha="center", va="center", fontsize=7, color=colour)
    ax.plot(0, 0, "+", color=GREY, markersize=9)
    ax.margins(0.2)
    ax.set_aspect("equal", adjustable="box")
    return drawn


def _panel_height(targets: Targets) -> float:
    """The height in inches of a panel of 3.4 inches that shows all targets and the start."""
    wide, high = np.ptp(np.vstack([targets.places, np.zeros(2)]), axis=0) + 1e-12
    return float(np.clip(3.4 * 1.1 * high / wide, 1.6, 3.6))


def _columns(trials: Trials) -> list[int]:
    """The channels that are the place of the body."""
    if not is_planar(trials):
        raise InputError(
            "paths are drawn of trials with the channels x and y and the conditions target_x and "
            f"target_y, got {', '.join([*trials.channel_names, *trials.conditions])}"
        )
    return [trials.channel_names.index(name) for name in _PLACE]


def targets_of(trials: Trials) -> Targets:
    """Trials in the plane, grouped by target."""
    _columns(trials)
    ways = np.column_stack([np.asarray(trials.conditions[name], float) for name in _TARGET])
    near = _SAME_TARGET * np.median(np.linalg.norm(ways, axis=1))
    first: list[np.ndarray] = []
    group = np.zeros(len(ways), int)
    for trial, way in enumerate(ways):
        distances = [float(np.linalg.norm(way - other)) for other in first]
        if not distances or min(distances) > near:
            distances.append(0.0)
            first.append(way)
        group[trial] = int(np.argmin(distances))
    places = np.array([ways[group == number].mean(axis=0) for number in range(len(first))])
    return Targets(places, group)
