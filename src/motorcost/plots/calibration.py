"""A figure of ranks and coverage."""

from matplotlib.axes import Axes
from scipy.stats import binom

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
)
from motorcost.posterior.calibrated import LEVELS, Calibration


@styled
def plot_calibration(found: Calibration) -> CaptionedFigure:
    """Draw, for each parameter, the histogram of ranks with the 95 % band of uniform ranks, and the
    differences of their distribution function; then how often intervals contain the truth, with one
    point for each parameter in the order of the panels.

    Examples
    --------
    >>> found = mc.calibrate(
    ...     mc.tasks.reaching,
    ...     ["effort"],
    ...     fixed={"steps": 12},
    ...     n_trials=5,
    ...     n_sets=10,
    ...     n_draws=64,
    ...     method="laplace",
    ... )
    >>> figure = mc.plots.plot_calibration(found)
    """
    columns = len(found.names) + 1
    figure = new_figure(2.7 * columns, 4.6)
    axes = figure.subplots(2, columns, squeeze=False)
    for k, name in enumerate(found.names):
        _histogram(axes[0, k], found, name)
        _differences(axes[1, k], found, name)
    axes[0, 0].set_ylabel("data sets")
    axes[1, 0].set_ylabel("share below, less expected")
    _coverage(axes[0, -1], found)
    axes[1, -1].set_visible(False)
    return captioned(
        figure,
        "Ranks of the true values among draws of their posteriors: histograms (above), and the "
        "distribution function less that of uniform ranks (below).",
        "Grey bands hold 95 % of uniform ranks; of the distribution function, the whole curve.",
        "Coverage: how often intervals contain the true value, one point per parameter, with the "
        "95 % band of chance.",
        f"{counted(found.n_sets, 'data set')}"
        + (f" of {counted(found.n_trials, 'trial')}" if found.n_trials else "")
        + f", sampled by {found.method}.",
    )


def _histogram(ax: Axes, found: Calibration, name: str) -> None:
    counts, bins = found.counts(name), found.n_bins
    low, high = binom.interval(0.95, found.n_sets, 1 / bins)
    ax.axhspan(low, high, color=GREY, alpha=0.3, linewidth=0)
    ax.axhline(found.n_sets / bins, color=GREY, linewidth=1)
    ax.bar(range(bins), counts, width=0.9, color=BLUE)
    ax.set_xticks([-0.5, bins - 0.5], ["0", str(found.n_ranks - 1)])
    ax.set_xlabel("rank of the true value")
    ax.set_title(plain(f"{name}, p = {found.p_values[name]:.2f}"))


def _differences(ax: Axes, found: Calibration, name: str) -> None:
    band, ranks = found.ecdf_band(), range(found.n_ranks)
    ax.fill_between(ranks, -band, band, color=GREY, alpha=0.3, linewidth=0)
    ax.axhline(0, color=GREY, linewidth=1)
    ax.step(ranks, found.ecdf_differences(name), where="post", color=BLUE)
    ax.set_xlabel("rank of the true value")


def _coverage(ax: Axes, found: Calibration) -> None:
    """Points for each parameter, side by side at each level, with the 95 % band of right ones."""
    middle = (len(found.names) - 1) / 2
    for i, level in enumerate(LEVELS):
        low, high = (k / found.n_sets for k in binom.interval(0.95, found.n_sets, level))
        ax.fill_between([i - 0.35, i + 0.35], 100 * low, 100 * high, color=GREY, alpha=0.3, lw=0)
        ax.plot([i - 0.35, i + 0.35], [100 * level] * 2, color=GREY, linewidth=1)
        shares = found.coverage(level)
        for k, name in enumerate(found.names):
            place = i + 0.5 * (k - middle) / max(len(found.names), 2)
            ax.plot(place, 100 * shares[name][0], "o", color=ORANGE, markersize=4)
    ax.set_xticks(range(len(LEVELS)), [f"{100 * level:g} %" for level in LEVELS])
    ax.set_xlabel("interval")
    ax.set_ylabel("% with the true value")
    ax.set_title("coverage")
