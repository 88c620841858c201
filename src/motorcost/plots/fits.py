"""Figures of a fit: data with the model, likelihoods, estimates, innovations and searches."""

from collections.abc import Mapping, Sequence
from statistics import NormalDist

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.interpolate import PchipInterpolator

from motorcost.diagnostics import Adequacy
from motorcost.errors import InputError
from motorcost.fitting.fitted import Fit
from motorcost.fitting.maxima import AGREEMENT
from motorcost.fitting.objective import Coordinate
from motorcost.fitting.profiles import Profile
from motorcost.plots.style import BLUE, GREEN, GREY, ORANGE, clean, legend_above, plain, with_unit

# Channels with fewer innovations than this are not drawn, and neither are correlations of fewer.
_FEWEST_INNOVATIONS = 10
# A search this close to the best is drawn at this distance: a log scale has no zero.
_LEAST_DISTANCE = 1e-6
# The most steps between samples for which the correlation of innovations is drawn.
_MOST_LAGS = 10


def plot_predictions(fit: Fit, adequacy: Adequacy, single_trials: int = 30) -> Figure:
    """Draw the trials with the mean and the middle 95 % of what the fitted model does.

    `adequacy` is what `mc.check_fit` returned. There is one row for each channel, and one column
    for each third of the first condition that varies. `single_trials` is the most trials that are
    drawn one by one.
    """
    trials = fit.trials
    columns = _thirds(fit)
    names = trials.channel_names
    figure = Figure(
        figsize=(max(4.6, 3.4 * len(columns)), 2.6 * len(names) + 0.4), layout="constrained"
    )
    axes = figure.subplots(len(names), len(columns), squeeze=False, sharex=True, sharey="row")
    for row, name in enumerate(names):
        for column, (title, chosen) in enumerate(columns):
            ax = axes[row, column]
            _draw_prediction(ax, fit, adequacy, row, chosen, single_trials)
            if row == 0 and title:
                ax.set_title(plain(title), fontsize=10)
            if column == 0:
                ax.set_ylabel(with_unit(name, trials.channel_units[row]), fontsize=9)
            if row == len(names) - 1:
                ax.set_xlabel("time (s)")
    legend_above(figure, axes[0, 0])
    return figure


def _draw_prediction(
    ax: Axes, fit: Fit, adequacy: Adequacy, channel: int, chosen: np.ndarray, single_trials: int
) -> None:
    """Draw one channel of the chosen trials, and of their replicates."""
    times = np.asarray(fit.trials.times)
    observed = np.asarray(fit.trials.observed)[chosen, :, channel]
    # Fewer trials reach late times: quantiles of one or two would only be noise.
    enough = np.isfinite(observed).sum(axis=0) >= min(3, len(observed))
    model = adequacy.replicates[:, chosen][:, :, enough, channel].reshape(-1, enough.sum())
    low, high = np.nanquantile(model, [0.025, 0.975], axis=0)
    label = "model, middle 95 %"
    ax.fill_between(times[enough], low, high, color=ORANGE, alpha=0.25, linewidth=0, label=label)
    for k, samples in enumerate(observed[:single_trials]):
        recorded = np.isfinite(samples)
        label = "trials" if k == 0 else "_nolegend_"
        ax.plot(
            times[recorded], samples[recorded], color=GREY, alpha=0.45, linewidth=0.6, label=label
        )
    mean = np.nanmean(observed[:, enough], axis=0)
    ax.plot(times[enough], mean, color=BLUE, linewidth=2, label="data, mean")
    mean = np.nanmean(model, axis=0)
    ax.plot(times[enough], mean, "--", color=ORANGE, linewidth=2, label="model, mean")
    clean(ax)


def plot_worst_trials(fit: Fit, adequacy: Adequacy) -> Figure:
    """Draw the trials that are least probable in the fitted model, the worst on the left.

    `adequacy` is what `mc.check_fit` returned. Beside the samples of each trial are the mean and
    the middle 95 % of the same trial in simulated experiments. There is one row for each channel.
    """
    if not adequacy.worst:
        raise InputError("there are no trials to draw")
    trials, names = fit.trials, fit.trials.channel_names
    columns = len(adequacy.worst)
    size = (max(4.6, 3.4 * columns), 2.6 * len(names) + 0.4)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(names), columns, squeeze=False, sharex=True, sharey="row")
    times = np.asarray(trials.times)
    for column, worst in enumerate(adequacy.worst):
        about = f"trial {worst.trial + 1}, {worst.improbability:.1f} SD below"
        axes[0, column].set_title(plain(about), fontsize=10)
        axes[-1, column].set_xlabel("time (s)")
        for row, name in enumerate(names):
            ax = axes[row, column]
            samples = np.asarray(trials.observed)[worst.trial, :, row]
            there = np.isfinite(samples)
            model = adequacy.replicates[:, worst.trial, there, row]
            low, high = np.quantile(model, [0.025, 0.975], axis=0)
            label = "model, middle 95 %"
            ax.fill_between(times[there], low, high, color=ORANGE, alpha=0.25, lw=0, label=label)
            ax.plot(times[there], model.mean(axis=0), "--", color=ORANGE, label="model, mean")
            ax.plot(times[there], samples[there], ".-", color=BLUE, ms=4, lw=0.8, label="trial")
            if column == 0:
                ax.set_ylabel(with_unit(name, trials.channel_units[row]), fontsize=9)
            clean(ax)
    legend_above(figure, axes[0, 0])
    return figure


def plot_profiles(
    fit: Fit,
    profiles: Sequence[Profile],
    slices: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
    truth: Mapping[str, float] | None = None,
) -> Figure:
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
    """
    if not profiles:
        raise InputError("there are no profiles to draw")
    columns = min(3, len(profiles))
    rows = -(-len(profiles) // columns)
    figure = Figure(figsize=(max(4.6, 3.2 * columns), 2.6 * rows + 0.4), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for ax, profile in zip(axes.flat, profiles, strict=False):
        known = None if truth is None else truth.get(profile.name)
        _draw_profile(ax, fit, profile, None if slices is None else slices[profile.name], known)
    for ax in axes.flat[len(profiles) :]:
        ax.set_visible(False)
    for ax in axes[:, 0]:
        ax.set_ylabel("log likelihood\n(from its maximum)", fontsize=9)
    legend_above(figure, axes[0, 0])
    return figure


def _draw_profile(
    ax: Axes,
    fit: Fit,
    profile: Profile,
    slice_: tuple[np.ndarray, np.ndarray] | None,
    truth: float | None,
) -> None:
    """Draw one parameter's profile with its interval, and its slice and true value if known."""
    index = fit.names.index(profile.name)
    support = fit.objective.coordinates[index].support
    drop = NormalDist().inv_cdf(0.5 + profile.level / 2) ** 2 / 2
    top = profile.log_likelihoods.max()

    def natural(points: np.ndarray) -> np.ndarray:
        return np.asarray(support.from_search_scale(points))

    reached = (profile.points.min(), profile.points.max())
    ends = [
        end if np.isfinite(end) else edge for end, edge in zip(profile.ends, reached, strict=True)
    ]
    ax.axvspan(*natural(np.array(ends)), color=BLUE, alpha=0.12, lw=0)
    if slice_ is not None:
        points, values = slice_
        ax.plot(natural(points), values - top, color=GREY, lw=1.2, label="slice")
    points, curve = _curve(profile, float(fit.point[index]))
    ax.plot(natural(points), curve, color=BLUE, lw=1.8, label="profile")
    ax.plot(natural(profile.points), profile.log_likelihoods - top, "o", color=BLUE, ms=3)
    ax.axvline(fit.estimates[profile.name], color=BLUE, lw=0.8)
    if truth is not None:
        ax.axvline(truth, color=GREEN, ls=":", lw=1.8, label="truth")
    ax.axhline(-drop, color=ORANGE, lw=0.8, ls="--", label=f"{100 * profile.level:g} %")
    ax.set_ylim(-3 * drop, 0.15 * drop)
    ax.set_title(plain(profile.name), fontsize=10)
    if support.logarithmic:
        _logarithmic_axis(ax)
    clean(ax)


def plot_estimates(
    fit: Fit,
    intervals: Mapping[str, tuple[float, float]],
    truth: Mapping[str, float] | None = None,
) -> Figure:
    """Draw each estimate with its interval, within its support.

    `intervals` are by name, in natural units, as `fit.interval()` returns them. An arrow marks an
    end that lies outside the support. `truth` are the true parameters by name, if known.
    """
    names = list(fit.names)
    figure = Figure(figsize=(6.4, 0.62 * len(names) + 0.9), layout="constrained")
    axes = figure.subplots(len(names), 1, squeeze=False)[:, 0]
    estimates = fit.estimates
    for ax, coordinate in zip(axes, fit.objective.coordinates, strict=True):
        name = coordinate.name
        _draw_interval(ax, coordinate, intervals[name])
        ax.plot(estimates[name], 0, "o", color=BLUE, ms=7)
        if truth is not None and name in truth:
            ax.plot(truth[name], 0, "|", color=GREEN, ms=16, mew=2.5)
        ax.set_yticks([])
        ax.set_ylabel(plain(name), rotation=0, ha="right", va="center", fontsize=9)
        ax.spines["left"].set_visible(False)
        clean(ax)
    return figure


def _draw_interval(ax: Axes, coordinate: Coordinate, interval: tuple[float, float]) -> None:
    """Draw the part of an interval that lies in the support, with arrows where it goes on."""
    support = coordinate.support
    if support.logarithmic:
        ax.set_xscale("log")
    if np.isfinite([support.low, support.high]).all() and support.low > 1e-200:
        ax.set_xlim(support.low, support.high)
    left, right = max(interval[0], support.low), min(interval[1], support.high)
    ax.plot([left, right], [0, 0], color=BLUE, lw=3, alpha=0.6, solid_capstyle="butt")
    for end, arrow, edge in ((interval[0], "<", left), (interval[1], ">", right)):
        if end not in support:
            ax.plot(edge, 0, arrow, color=BLUE, ms=7)


def plot_innovations(adequacy: Adequacy) -> Figure:
    """Draw the innovations: their distribution, and their correlation over time.

    `adequacy` is what `mc.check_fit` returned. Innovations are whitened prediction errors, which
    are white and standard normal if the model is right.
    """
    innovations = np.asarray(adequacy.beliefs.innovations)
    shown = [
        (channel, innovations[:, :, i])
        for i, channel in enumerate(adequacy.channels)
        if channel.n >= _FEWEST_INNOVATIONS
    ]
    if not shown:
        raise InputError("there are no innovations to draw")
    figure = Figure(figsize=(7.2, 2.3 * len(shown) + 0.3), layout="constrained")
    axes = figure.subplots(len(shown), 2, squeeze=False)
    for (left, right), (channel, values) in zip(axes, shown, strict=True):
        _draw_distribution(left, values[np.isfinite(values)])
        left.set_ylabel(plain(channel.name), fontsize=9)
        _draw_autocorrelation(right, values)
        clean(left)
        clean(right)
    axes[-1, 0].set_xlabel("innovation (SD)")
    axes[-1, 1].set_xlabel("samples apart")
    axes[0, 1].set_title("correlation (band: by chance, 95 %)", fontsize=10)
    axes[0, 0].set_title("distribution", fontsize=10)
    return figure


def _draw_distribution(ax: Axes, innovations: np.ndarray) -> None:
    """Draw a histogram beside the standard normal density."""
    edge = np.clip(np.abs(innovations).max(), 3, 8)
    clipped = np.clip(innovations, -edge, edge)
    ax.hist(clipped, bins=40, density=True, color=BLUE, alpha=0.5, label="data")
    grid = np.linspace(-edge, edge, 200)
    normal = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
    ax.plot(grid, normal, "--", color=ORANGE, label="model")
    ax.legend(frameon=False, fontsize=8)


def _draw_autocorrelation(ax: Axes, innovations: np.ndarray) -> None:
    """Draw the correlation over the number of samples between, with the band of chance."""
    lags, correlation, count = _autocorrelation(innovations)
    band = 1.96 / np.sqrt(count)
    ax.vlines(lags, 0, correlation, color=BLUE, lw=2)
    ax.fill_between(lags, -band, band, color=ORANGE, alpha=0.25)
    ax.axhline(0, color=GREY, lw=0.6)
    lowest, highest = correlation.min(initial=0.0), correlation.max(initial=0.0)
    ax.set_ylim(min(-0.3, lowest - 0.1), max(0.3, highest + 0.1))


def plot_starts(fit: Fit) -> Figure:
    """Draw how far below the best log likelihood each search ended."""
    values = np.array([start.value for start in fit.starts])
    finite = values[np.isfinite(values)]  # a search interrupted at once has no value yet
    below = np.sort(finite.max(initial=-np.inf) - finite)
    figure = Figure(figsize=(4.6, 2.4), layout="constrained")
    ax = figure.subplots()
    ax.plot(np.arange(1, len(below) + 1), np.maximum(below, _LEAST_DISTANCE), "o", color=BLUE)
    ax.axhline(AGREEMENT, color=ORANGE, lw=0.8, ls="--")
    ax.set_yscale("log")
    ax.set_ylim(_LEAST_DISTANCE / 3, max(1.0, 3 * below.max(initial=0.0)))
    ax.set_xlabel("start, from the best")
    ax.set_ylabel("log likelihood\nbelow the best", fontsize=9)
    ax.set_title(f"{fit.agreed} of {len(values)} agree (below the dashed line)", fontsize=10)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    clean(ax)
    return figure


def _thirds(fit: Fit) -> list[tuple[str, np.ndarray]]:
    """The trials in up to three parts by the first condition that varies: titles, and which."""
    groups = {grouping.label for grouping in fit.objective.groupings}
    for name, values in fit.conditions.items():
        distinct = np.unique(values)
        if name in groups or values.dtype.kind not in "iuf" or len(distinct) < 2:
            continue
        if len(distinct) <= 3:
            return [(f"{name} {value:.3g}", values == value) for value in distinct]
        third = np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values)
        return [
            (f"{name} {values[chosen].min():.3g} to {values[chosen].max():.3g}", chosen)
            for chosen in (third == k for k in range(3))
            if chosen.any()
        ]
    return [("", np.ones(len(fit.trials), bool))]


def _logarithmic_axis(ax: Axes) -> None:
    """Make the horizontal axis logarithmic, with readable numbers."""
    ax.set_xscale("log")
    low, high = ax.get_xlim()
    if high / low > 20:
        return
    # Little more than a decade: a few plain numbers instead of powers of ten.
    ticks = [tick for tick in MaxNLocator(4).tick_values(low, high) if low <= tick <= high]
    ax.set_xticks(ticks, [f"{tick:.3g}" for tick in ticks])
    ax.set_xticks([], minor=True)


def _curve(profile: Profile, estimate: float) -> tuple[np.ndarray, np.ndarray]:
    """A smooth curve through the points of a profile, relative to its maximum.

    The signed root of the drop is almost a straight line, so it is what is interpolated.
    """
    drop = profile.log_likelihoods.max() - profile.log_likelihoods
    root = np.sign(profile.points - estimate) * np.sqrt(np.maximum(drop, 0))
    finite = np.isfinite(root)
    points = profile.points[finite]
    grid = np.linspace(points.min(), points.max(), 100)
    return grid, -(PchipInterpolator(points, root[finite])(grid) ** 2)


def _autocorrelation(innovations: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lags, the correlation of innovations (trial, time) at each, and of how many pairs it is."""
    rows = [row[np.isfinite(row)] for row in innovations]
    size = float(np.mean(np.concatenate(rows) ** 2))
    lags, values, counts = [], [], []
    for lag in range(1, _MOST_LAGS + 1):
        products = [row[lag:] * row[:-lag] for row in rows if len(row) > lag]
        joined = np.concatenate(products) if products else np.zeros(0)
        if len(joined) < _FEWEST_INNOVATIONS:
            break
        lags.append(lag)
        values.append(float(joined.mean() / size))
        counts.append(len(joined))
    return np.array(lags), np.array(values), np.array(counts, float)
