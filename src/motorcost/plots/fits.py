"""Pictures of a fit: data with the model, likelihoods, estimates, innovations."""

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
from motorcost.fitting.profiles import Profile
from motorcost.model.trials import Trials
from motorcost.plots.style import BLUE, GREEN, GREY, ORANGE, clean, legend_above, plain, with_unit


def plot_predictions(fit: Fit, adequacy: Adequacy, single_trials: int = 30) -> Figure:
    """The trials, with the mean and the middle 95 % of what the fitted model does instead.

    A row for each channel; a column for each third of the first condition that varies.
    """
    trials = fit.trials
    observed, replicates = np.asarray(trials.observed), adequacy.replicates
    columns = _thirds(trials)
    names = trials.channel_names
    figure = Figure(
        figsize=(max(4.6, 3.4 * len(columns)), 2.6 * len(names) + 0.4), layout="constrained"
    )
    axes = figure.subplots(len(names), len(columns), squeeze=False, sharex=True, sharey="row")
    for row, name in enumerate(names):
        for column, (title, which) in enumerate(columns):
            ax = axes[row, column]
            # Fewer trials reach late times: quantiles of one or two would only be noise.
            enough = np.isfinite(observed[which, :, row]).sum(axis=0) >= min(3, which.sum())
            time = np.asarray(trials.times)[enough]
            data = observed[which][:, enough, row]
            model = replicates[:, which][:, :, enough, row].reshape(-1, enough.sum())
            low, high = np.nanquantile(model, [0.025, 0.975], axis=0)
            ax.fill_between(
                time, low, high, color=ORANGE, alpha=0.25, linewidth=0, label="model, middle 95 %"
            )
            for k, one in enumerate(observed[which][:single_trials, :, row]):
                there = np.isfinite(one)
                label = "trials" if k == 0 else None
                every = np.asarray(trials.times)[there]
                ax.plot(every, one[there], color=GREY, alpha=0.45, linewidth=0.6, label=label)
            ax.plot(time, np.nanmean(data, axis=0), color=BLUE, linewidth=2, label="data, mean")
            mean = np.nanmean(model, axis=0)
            ax.plot(time, mean, "--", color=ORANGE, linewidth=2, label="model, mean")
            clean(ax)
            if row == 0 and title:
                ax.set_title(plain(title), fontsize=10)
            if column == 0:
                ax.set_ylabel(with_unit(name, trials.channel_units[row]), fontsize=9)
            if row == len(names) - 1:
                ax.set_xlabel("time (s)")
    legend_above(figure, axes[0, 0])
    return figure


def plot_profiles(
    fit: Fit,
    profiles: Sequence[Profile],
    slices: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
    truth: Mapping[str, float] | None = None,
) -> Figure:
    """How the log likelihood falls away from the best value of each parameter: others chosen
    best at each point (profile), and others held (slice). The interval is shaded."""
    if not profiles:
        raise InputError("there are no profiles to draw")
    columns = min(3, len(profiles))
    rows = -(-len(profiles) // columns)
    figure = Figure(figsize=(max(4.6, 3.2 * columns), 2.6 * rows + 0.4), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
    coordinates = {c.name: c for c in fit.objective.coordinates}
    drop = NormalDist().inv_cdf(0.5 + profiles[0].level / 2) ** 2 / 2
    for ax, profile in zip(axes.flat, profiles, strict=False):
        support = coordinates[profile.name].support
        x = np.asarray(support.from_search_scale(profile.points))
        top = profile.log_likelihoods.max()
        ends = [end if np.isfinite(end) else edge for end, edge in _edges(profile)]
        ax.axvspan(
            *np.asarray(support.from_search_scale(np.array(ends))), color=BLUE, alpha=0.12, lw=0
        )
        if slices is not None:
            grid, values = slices[profile.name]
            ax.plot(
                np.asarray(support.from_search_scale(grid)),
                values - top,
                color=GREY,
                lw=1.2,
                label="slice",
            )
        grid, curve = _curve(profile, float(fit.point[fit.names.index(profile.name)]))
        ax.plot(
            np.asarray(support.from_search_scale(grid)), curve, color=BLUE, lw=1.8, label="profile"
        )
        ax.plot(x, profile.log_likelihoods - top, "o", color=BLUE, ms=3)
        ax.axvline(fit.estimates[profile.name], color=BLUE, lw=0.8)
        if truth is not None and profile.name in truth:
            ax.axvline(truth[profile.name], color=GREEN, ls=":", lw=1.8, label="truth")
        ax.axhline(-drop, color=ORANGE, lw=0.8, ls="--", label=f"{100 * profile.level:g} %")
        ax.set_ylim(-3 * drop, 0.15 * drop)
        ax.set_title(plain(profile.name), fontsize=10)
        _value_axis(ax, support.logarithmic)
        clean(ax)
    for ax in axes.flat[len(profiles) :]:
        ax.set_visible(False)
    for ax in axes[:, 0]:
        ax.set_ylabel("log likelihood\n(from its maximum)", fontsize=9)
    legend_above(figure, axes[0, 0])
    return figure


def plot_estimates(
    fit: Fit,
    intervals: Mapping[str, tuple[float, float]],
    truth: Mapping[str, float] | None = None,
) -> Figure:
    """Each estimate with its interval, within its support."""
    names = list(fit.names)
    figure = Figure(figsize=(6.4, 0.62 * len(names) + 0.9), layout="constrained")
    axes = figure.subplots(len(names), 1, squeeze=False)[:, 0]
    for ax, coordinate in zip(axes, fit.objective.coordinates, strict=True):
        low, high = intervals[coordinate.name]
        support = coordinate.support
        if support.logarithmic:
            ax.set_xscale("log")
        finite = np.isfinite([support.low, support.high]).all() and support.low > 1e-200
        if finite:
            ax.set_xlim(support.low, support.high)
        left, right = max(low, support.low), min(high, support.high)
        ax.plot([left, right], [0, 0], color=BLUE, lw=3, alpha=0.6, solid_capstyle="butt")
        for end, arrow, edge in ((low, "<", left), (high, ">", right)):
            if not support.low <= end <= support.high:
                ax.plot(edge, 0, arrow, color=BLUE, ms=7)
        ax.plot(fit.estimates[coordinate.name], 0, "o", color=BLUE, ms=7)
        if truth is not None and coordinate.name in truth:
            ax.plot(truth[coordinate.name], 0, "|", color=GREEN, ms=16, mew=2.5)
        ax.set_yticks([])
        ax.set_ylabel(plain(coordinate.name), rotation=0, ha="right", va="center", fontsize=9)
        ax.spines["left"].set_visible(False)
        clean(ax)
    return figure


def plot_innovations(adequacy: Adequacy, trials: Trials) -> Figure:
    """Whitened prediction errors: their distribution beside the normal one, and how they correlate
    over time. White and normal if the model is right."""
    shown = [i for i, channel in enumerate(adequacy.channels) if channel.n >= 10]
    if not shown:
        raise InputError("there are no innovations to draw")
    figure = Figure(figsize=(7.2, 2.3 * len(shown) + 0.3), layout="constrained")
    axes = figure.subplots(len(shown), 2, squeeze=False)
    for row, i in enumerate(shown):
        channel = adequacy.channels[i]
        each = np.asarray(adequacy.beliefs.innovations)[:, :, i]
        e = each[np.isfinite(each)]
        left, right = axes[row]
        edge = np.clip(np.abs(e).max(), 3, 8)
        left.hist(
            np.clip(e, -edge, edge), bins=40, density=True, color=BLUE, alpha=0.5, label="data"
        )
        grid = np.linspace(-edge, edge, 200)
        normal = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
        left.plot(grid, normal, "--", color=ORANGE, label="model")
        left.set_ylabel(plain(channel.name), fontsize=9)
        left.legend(frameon=False, fontsize=8)
        lags, correlation, count = _autocorrelation(each)
        right.vlines(lags, 0, correlation, color=BLUE, lw=2)
        right.fill_between(
            lags, -1.96 / np.sqrt(count), 1.96 / np.sqrt(count), color=ORANGE, alpha=0.25
        )
        right.axhline(0, color=GREY, lw=0.6)
        lowest, highest = correlation.min(initial=0.0), correlation.max(initial=0.0)
        right.set_ylim(min(-0.3, lowest - 0.1), max(0.3, highest + 0.1))
        for ax in (left, right):
            clean(ax)
    axes[-1, 0].set_xlabel("innovation (SD)")
    axes[-1, 1].set_xlabel("samples apart")
    axes[0, 1].set_title("correlation (band: by chance, 95 %)", fontsize=10)
    axes[0, 0].set_title("distribution", fontsize=10)
    return figure


def plot_starts(fit: Fit) -> Figure:
    """Where each search came to: how far below the best log likelihood."""
    values = np.array([start.value for start in fit.starts])
    some = np.isfinite(values)  # a search interrupted at once has no value yet
    below = np.sort(values[some].max(initial=-np.inf) - values[some])
    figure = Figure(figsize=(4.6, 2.4), layout="constrained")
    ax = figure.subplots()
    floor = 1e-6
    ax.plot(np.arange(1, len(below) + 1), np.maximum(below, floor), "o", color=BLUE)
    ax.axhline(0.01, color=ORANGE, lw=0.8, ls="--")
    ax.set_yscale("log")
    ax.set_ylim(floor / 3, max(1.0, 3 * below.max(initial=0.0)))
    ax.set_xlabel("start, from the best")
    ax.set_ylabel("log likelihood\nbelow the best", fontsize=9)
    ax.set_title(f"{fit.agreed} of {len(values)} agree (below the line)", fontsize=10)
    clean(ax)
    return figure


def _thirds(trials: Trials) -> list[tuple[str, np.ndarray]]:
    everyone = np.ones(len(trials), bool)
    for name, values in trials.conditions.items():
        distinct = np.unique(values)
        if name.startswith("level of ") or values.dtype.kind not in "iuf" or len(distinct) < 2:
            continue
        if len(distinct) <= 3:
            return [(f"{name} {value:.3g}", values == value) for value in distinct]
        edges = np.quantile(values, [1 / 3, 2 / 3])
        third = np.searchsorted(edges, values)
        return [
            (f"{name} {values[own].min():.3g} to {values[own].max():.3g}", own)
            for own in (third == k for k in range(3))
            if own.any()
        ]
    return [("", everyone)]


def _edges(profile: Profile) -> list[tuple[float, float]]:
    return [(profile.ends[0], profile.points.min()), (profile.ends[1], profile.points.max())]


def _value_axis(ax: Axes, logarithmic: bool) -> None:
    if not logarithmic:
        return
    ax.set_xscale("log")
    low, high = ax.get_xlim()
    if high / low > 20:
        return
    # Less than a decade or so: a few plain numbers instead of powers of ten.
    ticks = [tick for tick in MaxNLocator(4).tick_values(low, high) if low <= tick <= high]
    ax.set_xticks(ticks, [f"{tick:.3g}" for tick in ticks])
    ax.set_xticks([], minor=True)


def _curve(profile: Profile, at: float) -> tuple[np.ndarray, np.ndarray]:
    """A smooth profile through the points that were computed: the signed root of its drop is
    almost a straight line."""
    drop = profile.log_likelihoods.max() - profile.log_likelihoods
    root = np.sign(profile.points - at) * np.sqrt(np.maximum(drop, 0))
    seen = np.isfinite(root)
    grid = np.linspace(profile.points[seen].min(), profile.points[seen].max(), 100)
    return grid, -(PchipInterpolator(profile.points[seen], root[seen])(grid) ** 2)


def _autocorrelation(innovations: np.ndarray, most: int = 10) -> tuple[np.ndarray, ...]:
    rows = [one[np.isfinite(one)] for one in innovations]
    size = float(np.mean(np.concatenate(rows) ** 2))
    lags, values, counts = [], [], []
    for lag in range(1, most + 1):
        products = [row[lag:] * row[:-lag] for row in rows if len(row) > lag]
        together = np.concatenate(products) if products else np.zeros(0)
        if len(together) < 10:
            break
        lags.append(lag)
        values.append(float(together.mean() / size))
        counts.append(len(together))
    return np.array(lags), np.array(values), np.array(counts, float)
