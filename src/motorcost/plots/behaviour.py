"""Figures of behaviour: trials, and movements as they were recorded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from motorcost import checks
from motorcost.data import kinematics
from motorcost.data.movements import Movements
from motorcost.errors import InputError
from motorcost.model.trials import Trials
from motorcost.plots.groups import coloured_groups
from motorcost.plots.plane import is_planar, targets_of
from motorcost.plots.style import (
    COLOURS,
    GREY,
    MOST_PANELS,
    CaptionedFigure,
    captioned,
    counted,
    finish_grid,
    grid,
    legend_above,
    new_figure,
    plain,
    styled,
    with_unit,
)

# How a velocity among the channels is called: beside it a speed is not drawn.
_VELOCITY = ("velocity", "speed")
# Share of the longest trial over which speeds are averaged, so that noise does not make the peak.
_SMOOTHED = 0.1


@dataclass(frozen=True)
class _Group:
    """Trials that are drawn in one colour; `label` is empty if they are all."""

    label: str
    which: np.ndarray
    colour: Any


def _groups(of: Trials | Movements, by: str | None) -> list[_Group]:
    """Trials by a condition; those in the plane by their targets, unless `by` is given."""
    if by is None and isinstance(of, Trials) and is_planar(of):
        targets = targets_of(of)
        return [
            _Group("", np.flatnonzero(targets.group == i), targets.colour(i))
            for i in range(len(targets.places))
        ]
    found = coloured_groups(of.conditions, of.condition_units, len(of), by)
    return [_Group(plain(label), np.flatnonzero(mask), COLOURS[i])
            for i, (label, mask) in enumerate(found)]  # fmt: skip


@styled
def plot_trials(
    trials: Trials,
    channels: Sequence[str] | None = None,
    single_trials: int = 30,
    by: str | None = None,
) -> CaptionedFigure:
    """Draw what was recorded: the mean over trials, the middle 95 %, and a few trials.

    Parameters
    ----------
    trials : Trials
        Recorded or simulated.
    channels : sequence of str, optional
        One panel for each over time. If left out, the first six that are not constant, after the
        path in the plane (of trials with the channels x and y) and the speed (where no velocity
        was recorded).
    single_trials : int
        The most trials of a colour that are drawn one by one.
    by : str, optional
        The condition that colours show; numbers with more than six values are divided into thirds.
        If left out, the first condition with two to six values; of trials in the plane the
        direction of the target.

    Examples
    --------
    >>> mc.plots.plot_trials(trials, ["position"]).savefig("trials.png")
    """
    checks.instance(
        "trials",
        trials,
        Trials,
        "Trials",
        "movements.trials(dt=...) makes them from recordings, which mc.plots.plot_movements draws",
    )
    if len(trials) == 0:
        raise InputError("there are no trials to draw")
    panels = _panels(trials, channels)
    if not panels:
        raise InputError("there are no channels to draw")
    groups, times = _groups(trials, by), np.asarray(trials.times)
    planar = panels[0].values.ndim == 3
    speed = any(panel.label.startswith("speed") for panel in panels)
    figure, axes = grid(len(panels), share=not planar)
    for ax, panel in zip(axes.flat, panels, strict=False):
        if panel.values.ndim == 2:
            _draw_courses(ax, times, panel.values, groups, single_trials)
        ax.set_ylabel(panel.label)
    finish_grid(figure, axes, len(panels))
    if planar:
        _draw_paths(axes.flat[0], panels[0], groups, single_trials)
    return captioned(
        figure,
        f"{counted(len(trials), 'trial')}: means (thick) and the middle 95 % of trials (band)"
        + (f", with at most {single_trials} single trials (thin)." if single_trials else "."),
        f"Speeds are averaged over {100 * _SMOOTHED:g} % of the longest trial." if speed else "",
        "Colours are directions of targets." if by is None and is_planar(trials) else "",
    )


@dataclass(frozen=True)
class _Panel:
    """Values over time (trial, time), or paths in the plane (trial, time, 2), and what the axes
    are called."""

    label: str
    values: np.ndarray
    across: str = ""


def _panels(trials: Trials, channels: Sequence[str] | None) -> list[_Panel]:
    """The path, the speed and the channels of trials, or the `channels` alone."""
    observed, times = np.asarray(trials.observed), np.asarray(trials.times)
    names, units = list(trials.channel_names), trials.channel_units

    def label(name: str) -> str:
        return with_unit(name, units[names.index(name)])

    if channels is not None:
        checks.labels("channels", channels, len(channels), "channel")
        at = [names.index(checks.one_of("channel", name, names)) for name in channels]
        return [_Panel(label(names[i]), observed[:, :, i]) for i in at]
    courses = [(name, observed[:, :, i]) for i, name in enumerate(names)]
    moving = [(n, values) for n, values in courses if np.nanmax(values) > np.nanmin(values)]
    panels = [_Panel(label(name), values) for name, values in moving[:MOST_PANELS]]
    place = _place(names)
    where = observed[:, :, [names.index(name) for name in place]]
    if place and moving and not any(part in name for name in names for part in _VELOCITY):
        unit = units[names.index(place[0])]
        smooth = _SMOOTHED * float(times[-1] - times[0])
        speeds = np.array([kinematics.speed(path, times, smooth) for path in where])
        last = 0 if len(place) > 1 else names.index(place[0]) + 1
        panels.insert(last, _Panel(with_unit("speed", f"{unit}/s" if unit else ""), speeds))
    if len(place) > 1:
        panels.insert(0, _Panel(label(place[1]), where, label(place[0])))
    return panels


def _place(names: Sequence[str]) -> list[str]:
    """The channels that are the place of the body, in the plane at most."""
    return list(kinematics.positions_among(names, ("x", "y")))


def _label_plane(ax: Axes, across: str, up: str) -> None:
    ax.set_xlabel(across)
    ax.set_ylabel(up)
    ax.set_aspect("equal", adjustable="datalim")


def _draw_paths(ax: Axes, panel: _Panel, groups: Sequence[_Group], single_trials: int) -> None:
    """Paths in the plane, in the colours of their groups."""
    for group in groups:
        for trial in group.which[:single_trials]:
            path = panel.values[trial]
            path = path[np.isfinite(path).all(axis=1)]
            ax.plot(*path.T, color=group.colour, alpha=0.4, linewidth=0.7)
    _label_plane(ax, panel.across, panel.label)


def _draw_courses(
    ax: Axes, times: np.ndarray, samples: np.ndarray, groups: Sequence[_Group], single_trials: int
) -> None:
    """One channel of all trials over time (trial, time), in the colours of their groups."""
    for group in groups:
        alone = len(groups) == 1
        labels = ("mean", "middle 95 %", "single trials") if alone else (group.label, "", "")
        colour, thin = group.colour, GREY if alone else group.colour
        _draw_samples(ax, times, samples[group.which], single_trials, (colour, thin), labels)


def _draw_samples(
    ax: Axes,
    times: np.ndarray,
    samples: np.ndarray,
    single_trials: int,
    colours: tuple[Any, Any],
    labels: tuple[str, str, str],
) -> None:
    """Mean, band and single trials of one channel of a group, (trial, time)."""
    of_mean, of_band, of_trial = [label or "_nolegend_" for label in labels]
    colour, thin = colours
    recorded = np.isfinite(samples)
    sampled = recorded.any(axis=0)  # a recording slower than the model has steps without samples
    low, high = np.nanquantile(samples[:, sampled], [0.025, 0.975], axis=0)
    ax.fill_between(times[sampled], low, high, color=colour, alpha=0.2, linewidth=0, label=of_band)
    for k in range(min(single_trials, len(samples))):
        label = of_trial if k == 0 else "_nolegend_"
        time, values = times[recorded[k]], samples[k, recorded[k]]
        ax.plot(time, values, color=thin, alpha=0.4, linewidth=0.6, label=label)
    mean = np.nanmean(samples[:, sampled], axis=0)
    ax.plot(times[sampled], mean, color=colour, linewidth=2, label=of_mean)


@styled
def plot_movements(
    movements: Movements,
    channels: Sequence[str] | None = None,
    single_trials: int = 60,
    by: str | None = None,
) -> CaptionedFigure:
    """Draw recorded movements as they are: paths in the plane or positions over time, and speeds.

    Parameters
    ----------
    movements : Movements
        As `mc.io.read` returns them.
    channels : sequence of str, optional
        The one or two coordinates of the position. If left out, x and y if there are such channels,
        otherwise the first channel.
    single_trials : int
        The most trials of a colour that are drawn, evenly chosen.
    by : str, optional
        The condition that colours show, as in `plot_trials`.

    Examples
    --------
    >>> times = np.arange(0, 0.3, 0.01)
    >>> x = 10 * np.sin(times)
    >>> movements = mc.Movements(samples=(x[:, None],), times=(times,), channels={"position": "cm"})
    >>> figure = mc.plots.plot_movements(movements)
    """
    checks.instance(
        "movements",
        movements,
        Movements,
        "Movements",
        "mc.io.read(file) reads them; mc.plots.plot_trials draws Trials",
    )
    if len(movements) == 0:
        raise InputError("there are no movements to draw")
    place = _place(list(movements.channels)) or list(movements.channels)[:1]
    if channels is not None:
        place = list(channels)
        if len(place) not in (1, 2):
            raise InputError(f"channels must be one or two coordinates, got {len(place)}")
    columns = movements.columns(place)
    units = [movements.channels[name] for name in place]
    figure = new_figure(7.2, 3.0)
    left, right = figure.subplots(1, 2)
    for group in _groups(movements, by):
        shown = np.linspace(0, len(group.which) - 1, min(len(group.which), single_trials))
        for k, i in enumerate(group.which[shown.astype(int)]):
            samples, times = movements.samples[i][:, columns], movements.times[i]
            there = np.isfinite(samples).all(axis=1)
            since = (times - times[0])[there]
            path = samples[there].T if len(place) > 1 else (since, samples[there, 0])
            style = {"color": group.colour, "alpha": 0.5, "linewidth": 0.8}
            left.plot(*path, label=group.label if k == 0 and group.label else "_nolegend_", **style)
            right.plot(since, kinematics.speed(samples, times)[there], **style)
    if len(place) > 1:
        _label_plane(left, *[with_unit(*pair) for pair in zip(place, units, strict=True)])
    else:
        left.set_xlabel("time since the first sample (s)")
        left.set_ylabel(with_unit(place[0], units[0]))
    right.set_ylim(bottom=0)
    right.set_xlabel("time since the first sample (s)")
    right.set_ylabel(with_unit("speed", f"{units[0]}/s" if units[0] else ""))
    legend_above(figure, left)
    what = "paths" if len(place) > 1 else f"{place[0]} over time"
    return captioned(
        figure,
        f"{counted(len(movements), 'trial')} as recorded: {what} (left) and speeds by central "
        f"differences (right), at most {single_trials} trials of each colour.",
    )
