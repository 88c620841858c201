"""Figures of a fit: estimates, profiles of the likelihood, searches, and the bootstrap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator
from scipy.interpolate import PchipInterpolator

from motorcost.diagnostics import Bootstrap
from motorcost.errors import InputError
from motorcost.fitting.fitted import Fit
from motorcost.fitting.intervals import interval_text, open_ends
from motorcost.fitting.maxima import AGREEMENT
from motorcost.fitting.objective import Coordinate
from motorcost.fitting.profiles import Profile
from motorcost.plots.scales import logarithmic_axis
from motorcost.plots.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    CaptionedFigure,
    captioned,
    counted,
    legend_above,
    new_figure,
    shape_of,
    styled,
    with_unit,
)

# A search this close to the best is drawn at this distance: a log scale has no zero.
_LEAST_DISTANCE = 1e-6
# How far an axis reaches beyond an interval, in widths of the interval.
_BESIDE = 1.5

Intervals = Mapping[str, tuple[float, float]]


@styled
def plot_estimates(
    fit: Fit,
    intervals: Intervals | None = None,
    truth: Mapping[str, float] | None = None,
    level: float = 0.95,
) -> CaptionedFigure:
    """Draw each estimate with its interval.

    Parameters
    ----------
    fit : Fit
        The fit.
    intervals : mapping of str to (float, float), optional
        By name, in natural units; `fit.interval(level)` if left out. An arrow marks an end that
        is the support's own, or lies outside.
    truth : mapping of str to float, optional
        The true parameters by name, where the trials were simulated.
    level : float
        Of confidence of the intervals, for the caption.

    Examples
    --------
    >>> figure = mc.plots.plot_estimates(fit, fit.interval(0.95), truth={"effort": 1e-5})
    """
    figure = new_figure(6.4, 0.62 * len(fit.names) + 0.5)
    draw_estimates(figure, fit, fit.interval(level) if intervals is None else intervals, truth)
    return captioned(figure, estimates_caption(fit, level, known=bool(truth)))


def estimates_caption(fit: Fit, level: float, *, known: bool) -> str:
    """What the figure of estimates shows."""
    return (
        f"Estimates from {counted(len(fit.trials), 'trial')} (points) with {100 * level:g} % "
        "confidence intervals (bars); an arrow marks an interval that reaches the end of the "
        "parameter's support." + (" Green: true values." if known else "")
    )


def draw_estimates(
    figure: Figure | SubFigure, fit: Fit, intervals: Intervals, truth: Mapping[str, float] | None
) -> None:
    """Draw one row for each parameter, with the numbers beside it."""
    axes = figure.subplots(len(fit.names), 1, squeeze=False)[:, 0]
    estimates, units = fit.estimates, fit.units
    for ax, coordinate in zip(axes, fit.objective.coordinates, strict=True):
        name = coordinate.name
        known = None if truth is None else truth.get(name)
        # Limits first: an automatic scale has none for a point without an interval.
        _zoom(ax, coordinate, [estimates[name], *intervals[name]], known)
        _draw_interval(ax, coordinate, intervals[name])
        ax.plot(estimates[name], 0, "o", color=BLUE, ms=7)
        if known is not None:
            ax.plot(known, 0, "|", color=GREEN, ms=16, mew=2.5)
        ax.set_yticks([])
        ax.set_ylabel(with_unit(name, units[name]), rotation=0, ha="right", va="center", labelpad=8)
        ax.spines["left"].set_visible(False)
        numbers = f"{estimates[name]:.3g}"
        if not np.isnan(intervals[name]).any():
            support = coordinate.support
            ends = interval_text(intervals[name], (support.low, support.high), ".3g")
            numbers += f"  ({ends})"
        ax.text(1.03, 0.5, numbers, transform=ax.transAxes, va="center", fontsize=8)


def _draw_interval(ax: Axes, coordinate: Coordinate, interval: tuple[float, float]) -> None:
    """Draw the part of an interval that lies in the support, with arrows where it goes on."""
    support = coordinate.support
    left, right = max(interval[0], support.low), min(interval[1], support.high)
    ax.plot([left, right], [0, 0], color=BLUE, lw=3, alpha=0.6, solid_capstyle="butt")
    is_open = open_ends(interval, (support.low, support.high))
    for reaches, arrow, edge in zip(is_open, "<>", (left, right), strict=True):
        if reaches:
            ax.plot(edge, 0, arrow, color=BLUE, ms=7, clip_on=False)


def _zoom(ax: Axes, coordinate: Coordinate, shown: Sequence[float], truth: float | None) -> None:
    """Limit the axis to what is shown and its surroundings, within the support."""
    support = coordinate.support
    low, high = support.bounds
    inside = [min(max(value, support.low), support.high) for value in shown if not np.isnan(value)]
    inside += [] if truth is None else [truth]
    scaled = np.asarray(support.to_search_scale(np.array(inside)), float)
    scaled = scaled[np.isfinite(scaled)]
    left, right = scaled.min(initial=np.inf), scaled.max(initial=-np.inf)
    beside = _BESIDE * (right - left)
    if not beside > 1e-9:  # a point without an interval: all of the support, if that ends
        beside = high - low if np.isfinite([low, high]).all() else 1.0
    ends = np.array([max(left - beside, min(low, left)), min(right + beside, max(high, right))])
    natural = np.asarray(support.from_search_scale(ends))
    ax.set_xlim(*natural.tolist())
    if support.logarithmic:
        logarithmic_axis(ax)


@styled
def plot_profiles(
    fit: Fit,
    profiles: Sequence[Profile],
    slices: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
    truth: Mapping[str, float] | None = None,
) -> CaptionedFigure:
    """Draw how the log likelihood falls on either side of each estimate.

    Parameters
    ----------
    fit : Fit
        The fit.
    profiles : sequence of Profile
        From `fit.profiles()`: the log likelihood with the other parameters chosen best at each
        point. The interval is shaded.
    slices : mapping, optional
        By name, from `fit.likelihood_slice(profile)`: the same with the other parameters held.
    truth : mapping of str to float, optional
        The true parameters by name, where the trials were simulated.

    Examples
    --------
    >>> figure = mc.plots.plot_profiles(fit, fit.profiles(), truth={"effort": 1e-5})
    """
    if not profiles:
        raise InputError("there are no profiles to draw")
    rows, columns = shape_of(len(profiles))
    figure = new_figure(max(4.6, 3.0 * columns), 2.5 * rows + 0.4)
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax, profile in zip(axes.flat, profiles, strict=False):
        known = None if truth is None else truth.get(profile.name)
        slice_ = None if slices is None else slices[profile.name]
        _draw_profile(ax, _of_fit(profile, fit), slice_, known)
    for ax in axes.flat[len(profiles) :]:
        ax.set_visible(False)
    for ax in axes[:, 0]:
        ax.set_ylabel("log likelihood\nbelow its maximum (nats)")
    legend_above(figure, axes[0, 0])
    sliced = " A slice holds the other parameters at their estimates." if slices else ""
    return captioned(figure, _profile_caption(profiles[0].level) + sliced)


@styled
def plot_profile(profile: Profile, truth: float | None = None) -> CaptionedFigure:
    """Draw how the log likelihood falls on either side of one estimate; see `plot_profiles`.

    `truth` is the true value, where the trials were simulated.

    Examples
    --------
    >>> figure = mc.plots.plot_profile(fit.profiles()[0])
    """
    figure = new_figure(4.6, 2.9)
    ax = figure.subplots()
    _draw_profile(ax, profile, None, truth)
    ax.set_ylabel("log likelihood\nbelow its maximum (nats)")
    legend_above(figure, ax)
    return captioned(figure, _profile_caption(profile.level))


def _profile_caption(level: float) -> str:
    return (
        "Profile log likelihood on either side of each estimate (thin line), with the other "
        "parameters chosen best at each point; dots were computed. Values whose profile is above "
        f"the dashed line are within the {100 * level:g} % interval (shaded); the line is lower "
        "where trials vary more than the model says."
    )


def _of_fit(profile: Profile, fit: Fit) -> Profile:
    """A profile with what the fit knows about its parameter."""
    index = fit.names.index(profile.name)
    return replace(
        profile,
        estimate=float(fit.point[index]),
        support=fit.objective.coordinates[index].support,
        unit=fit.units[profile.name],
    )


def _draw_profile(
    ax: Axes,
    profile: Profile,
    slice_: tuple[np.ndarray, np.ndarray] | None,
    truth: float | None,
) -> None:
    """Draw one parameter's profile with its interval, and its slice and true value if known."""
    support = profile.support
    top = profile.log_likelihoods.max()

    def natural(points: np.ndarray) -> np.ndarray:
        return points if support is None else np.asarray(support.from_search_scale(points))

    reached = (profile.points.min(), profile.points.max())
    for part in profile.parts:
        ends = [end if np.isfinite(end) else edge for end, edge in zip(part, reached, strict=True)]
        ax.axvspan(*natural(np.array(ends)), color=BLUE, alpha=0.12, lw=0)
    if slice_ is not None:
        points, values = slice_
        ax.plot(natural(points), values - top, color=GREY, lw=1.2, label="slice")
    points, curve = _curve(profile)
    ax.plot(natural(points), curve, color=BLUE, lw=1.8, label="profile")
    ax.plot(natural(profile.points), profile.log_likelihoods - top, "o", color=BLUE, ms=3)
    if np.isfinite(profile.estimate):
        ax.axvline(float(natural(np.array(profile.estimate))), color=BLUE, lw=0.8)
    if truth is not None:
        ax.axvline(truth, color=GREEN, ls=":", lw=1.8, label="truth")
    ax.axhline(-profile.drop, color=ORANGE, lw=0.8, ls="--", label=f"{100 * profile.level:g} %")
    ax.set_ylim(-3 * profile.drop, 0.15 * profile.drop)
    scale = " on the search scale" if support is None else ""
    ax.set_xlabel(with_unit(profile.name + scale, profile.unit))
    if support is not None and support.logarithmic:
        logarithmic_axis(ax)


def _curve(profile: Profile) -> tuple[np.ndarray, np.ndarray]:
    """A smooth curve through the points of a profile, relative to its maximum.

    The signed root of the drop is almost a straight line, so it is what is interpolated.
    """
    best = profile.points[np.nanargmax(profile.log_likelihoods)]
    estimate = profile.estimate if np.isfinite(profile.estimate) else best
    drop = profile.log_likelihoods.max() - profile.log_likelihoods
    root = np.sign(profile.points - estimate) * np.sqrt(np.maximum(drop, 0))
    finite = np.isfinite(root)
    points = profile.points[finite]
    grid = np.linspace(points.min(), points.max(), 100)
    return grid, -(PchipInterpolator(points, root[finite])(grid) ** 2)


@styled
def plot_starts(fit: Fit) -> CaptionedFigure:
    """Draw how far below the best log likelihood each search ended.

    Examples
    --------
    >>> figure = mc.plots.plot_starts(fit)
    """
    values = np.array([start.value for start in fit.starts])
    finite = values[np.isfinite(values)]  # a search interrupted at once has no value yet
    below = np.sort(finite.max(initial=-np.inf) - finite)
    figure = new_figure(4.6, 2.4)
    ax = figure.subplots()
    ax.plot(np.arange(1, len(below) + 1), np.maximum(below, _LEAST_DISTANCE), "o", color=BLUE)
    ax.axhline(AGREEMENT, color=ORANGE, lw=0.8, ls="--")
    ax.set_yscale("log")
    ax.set_ylim(_LEAST_DISTANCE / 3, max(1.0, 3 * below.max(initial=0.0)))
    ax.set_xlabel("start, from the best")
    ax.set_ylabel("log likelihood\nbelow the best (nats)")
    ax.set_title(f"{fit.agreed} of {len(values)} agree (below the dashed line)")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return captioned(
        figure,
        "How far below the best log likelihood each search ended.",
        f"Those below the dashed line ({AGREEMENT:g}) found the same maximum; a distance below "
        f"{_LEAST_DISTANCE:g} is drawn there.",
    )


@styled
def plot_bootstrap(found: Bootstrap, level: float = 0.95) -> CaptionedFigure:
    """Draw the estimates of all experiments, their interval, and that of the fit below it.

    Examples
    --------
    >>> again = mc.bootstrap(fit, key=jax.random.key(0), n=4)
    >>> figure = mc.plots.plot_bootstrap(again)
    """
    names = found.fit.names
    rows, columns = shape_of(len(names))
    figure = new_figure(max(4.6, 2.8 * columns), 2.3 * rows + 0.4)
    axes = figure.subplots(rows, columns, squeeze=False)
    intervals, of_fit, units = found.interval(level), found.fit.interval(level), found.fit.units
    for ax, coordinate, points in zip(
        axes.flat, found.fit.objective.coordinates, found.points.T, strict=False
    ):
        name, support = coordinate.name, coordinate.support
        edges = np.asarray(support.from_search_scale(np.histogram_bin_edges(points, "sqrt")))
        values = np.asarray(support.from_search_scale(points))
        ax.axvspan(*intervals[name], color=BLUE, alpha=0.12, lw=0, label="bootstrap interval")
        heights, *_ = ax.hist(values, bins=edges.tolist(), color=BLUE, alpha=0.6)
        ax.axvline(found.fit.estimates[name], color=BLUE, lw=1.2, label="estimate")
        if not np.isnan(of_fit[name]).any():
            below = -0.07 * max(heights)
            ax.plot(of_fit[name], [below] * 2, color=ORANGE, lw=3, label="interval of the fit")
        ax.set_xlabel(with_unit(name, units[name]))
        if support.logarithmic:
            logarithmic_axis(ax)
    for ax in axes.flat[len(names) :]:
        ax.set_visible(False)
    for ax in axes[:, 0]:
        ax.set_ylabel("experiments")
    legend_above(figure, axes.flat[0])
    how = (
        "simulated at the estimates"
        if found.kind == "parametric"
        else "of trials drawn with replacement"
    )
    without = (
        f" The search of {counted(found.unsettled, 'further experiment')} did not settle."
        if found.unsettled
        else ""
    )
    return captioned(
        figure,
        f"Estimates from {counted(len(found.points), 'experiment')} {how} (histogram), and their "
        f"middle {100 * level:g} % (shaded).{without}",
        f"Orange: the {100 * level:g} % confidence interval of the fit (Wald).",
    )
