"""Figures of whether a model fits: trials over simulated ones, worst trials, and innovations."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from motorcost.diagnostics import Adequacy
from motorcost.errors import InputError
from motorcost.fitting.fitted import Fit
from motorcost.model.trials import Trials
from motorcost.plots.groups import divided
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
    with_unit,
)

# Channels with fewer innovations than this are not drawn, and neither are correlations of fewer.
_FEWEST_INNOVATIONS = 10
# The most steps between samples for which the correlation of innovations is drawn.
_MOST_LAGS = 10


@styled
def plot_predictions(fit: Fit, adequacy: Adequacy, single_trials: int = 30) -> CaptionedFigure:
    """Draw the trials with the mean and the middle 95 % of what the fitted model does.

    `adequacy` is what `mc.check_fit` returned. There is one row for each channel, and one column
    for each third of the first condition that varies. `single_trials` is the most trials that are
    drawn one by one.

    Examples
    --------
    >>> figure = mc.plots.plot_predictions(fit, adequacy)
    """
    groups = {grouping.label for grouping in fit.objective.groupings}
    conditions = {n: values for n, values in fit.conditions.items() if n not in groups}
    return _predictions(fit.trials, adequacy, _thirds(conditions, fit.trials), single_trials)


@styled
def plot_adequacy(adequacy: Adequacy, single_trials: int = 30) -> CaptionedFigure:
    """Draw the trials with the mean and the middle 95 % of what the fitted model does.

    This is `plot_predictions`, from what `mc.check_fit` returned alone.

    Examples
    --------
    >>> figure = mc.plots.plot_adequacy(adequacy)
    """
    trials = adequacy.beliefs.trials
    if trials is None:
        raise InputError("this check does not know its trials: use mc.plots.plot_predictions")
    return _predictions(trials, adequacy, _thirds(trials.conditions, trials), single_trials)


Columns = Sequence[tuple[str, np.ndarray]]


def _predictions(
    trials: Trials, adequacy: Adequacy, columns: Columns, single_trials: int
) -> CaptionedFigure:
    rows = len(trials.channel_names)
    figure = new_figure(max(4.6, 3.2 * len(columns)), 2.4 * rows + 0.4)
    draw_predictions(figure, trials, adequacy, columns, single_trials)
    return captioned(figure, predictions_caption(trials, adequacy, single_trials))


def predictions_caption(trials: Trials, adequacy: Adequacy, single_trials: int) -> str:
    """What the figure of trials over the model shows."""
    shown = f" (grey, at most {single_trials})" if single_trials else ""
    return (
        f"{counted(len(trials), 'recorded trial')}{shown} with their mean (blue), over the mean "
        "(dashed) and the middle 95 % (band) of the same trials in "
        f"{counted(len(adequacy.replicates), 'experiment')} simulated at the estimates."
    )


def draw_predictions(
    figure: Figure | SubFigure,
    trials: Trials,
    adequacy: Adequacy,
    columns: Columns,
    single_trials: int,
) -> None:
    """Draw the trials of each column over those of simulated experiments, channel by channel."""
    names = trials.channel_names
    axes = figure.subplots(len(names), len(columns), squeeze=False, sharex=True, sharey="row")
    for row, name in enumerate(names):
        for column, (title, chosen) in enumerate(columns):
            ax = axes[row, column]
            _draw_prediction(ax, trials, adequacy, row, chosen, single_trials)
            if row == 0 and title:
                ax.set_title(plain(title))
            if column == 0:
                ax.set_ylabel(with_unit(name, trials.channel_units[row]))
            if row == len(names) - 1:
                ax.set_xlabel("time (s)")
    legend_above(figure, axes[0, 0])


def _draw_prediction(
    ax: Axes,
    trials: Trials,
    adequacy: Adequacy,
    channel: int,
    chosen: np.ndarray,
    single_trials: int,
) -> None:
    """Draw one channel of the chosen trials, and of their replicates."""
    times = np.asarray(trials.times)
    observed = np.asarray(trials.observed)[chosen, :, channel]
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


@styled
def plot_worst_trials(fit: Fit, adequacy: Adequacy) -> CaptionedFigure:
    """Draw the trials that are least probable in the fitted model, the worst on the left.

    `adequacy` is what `mc.check_fit` returned. Beside the samples of each trial are the mean and
    the middle 95 % of the same trial in simulated experiments. There is one row for each channel.

    Examples
    --------
    >>> figure = mc.plots.plot_worst_trials(fit, adequacy)
    """
    if not adequacy.worst:
        raise InputError("there are no trials to draw")
    trials, names = fit.trials, fit.trials.channel_names
    columns = len(adequacy.worst)
    figure = new_figure(max(4.6, 3.4 * columns), 2.6 * len(names) + 0.4)
    axes = figure.subplots(len(names), columns, squeeze=False, sharex=True, sharey="row")
    times = np.asarray(trials.times)
    for column, worst in enumerate(adequacy.worst):
        about = f"trial {worst.trial + 1}, {worst.improbability:.1f} SD below"
        axes[0, column].set_title(plain(about))
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
                ax.set_ylabel(with_unit(name, trials.channel_units[row]))
    legend_above(figure, axes[0, 0])
    return captioned(
        figure,
        f"The samples of the {counted(columns, 'trial')} that are least probable in the fitted "
        "model, over the mean (dashed) and the middle 95 % (band) of the same trial in simulated "
        "experiments.",
        "SD below: how far its log likelihood is below that of the simulated ones, in their "
        "standard deviations.",
    )


@styled
def plot_innovations(adequacy: Adequacy) -> CaptionedFigure:
    """Draw the innovations: their distribution, and their correlation over time.

    `adequacy` is what `mc.check_fit` returned. Innovations are whitened prediction errors, which
    are white and standard normal if the model is right.

    Examples
    --------
    >>> figure = mc.plots.plot_innovations(adequacy)
    """
    innovations = np.asarray(adequacy.beliefs.innovations)
    shown = [
        (channel, innovations[:, :, i])
        for i, channel in enumerate(adequacy.channels)
        if channel.n >= _FEWEST_INNOVATIONS
    ]
    if not shown:
        raise InputError("there are no innovations to draw")
    figure = new_figure(7.2, 2.3 * len(shown) + 0.3)
    axes = figure.subplots(len(shown), 2, squeeze=False)
    for (left, right), (channel, values) in zip(axes, shown, strict=True):
        _draw_distribution(left, values[np.isfinite(values)])
        left.set_ylabel(plain(channel.name))
        _draw_autocorrelation(right, values)
    axes[-1, 0].set_xlabel("innovation (SD)")
    axes[-1, 1].set_xlabel("samples apart")
    axes[0, 0].set_title("distribution")
    axes[0, 1].set_title("correlation")
    return captioned(
        figure,
        "Innovations, which are samples minus what the model predicts from the samples before "
        "them, in predicted standard deviations.",
        "Left: their distribution, and the standard normal one that a right model has (dashed).",
        "Right: their correlation over the number of samples between; the band holds 95 % of "
        "those that chance gives.",
    )


def _draw_distribution(ax: Axes, innovations: np.ndarray) -> None:
    """Draw a histogram beside the standard normal density."""
    edge = np.clip(np.abs(innovations).max(), 3, 8)
    clipped = np.clip(innovations, -edge, edge)
    ax.hist(clipped, bins=40, density=True, color=BLUE, alpha=0.5, label="data")
    grid = np.linspace(-edge, edge, 200)
    normal = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
    ax.plot(grid, normal, "--", color=ORANGE, label="model")
    ax.legend()


def _draw_autocorrelation(ax: Axes, innovations: np.ndarray) -> None:
    """Draw the correlation over the number of samples between, with the band of chance."""
    lags, correlation, count = _autocorrelation(innovations)
    band = 1.96 / np.sqrt(count)
    ax.vlines(lags, 0, correlation, color=BLUE, lw=2)
    ax.fill_between(lags, -band, band, color=ORANGE, alpha=0.25)
    ax.axhline(0, color=GREY, lw=0.6)
    lowest, highest = correlation.min(initial=0.0), correlation.max(initial=0.0)
    ax.set_ylim(min(-0.3, lowest - 0.1), max(0.3, highest + 0.1))


def _thirds(conditions: Mapping[str, np.ndarray], trials: Trials) -> Columns:
    """The trials in up to three parts by the first number that varies: titles, and which."""
    for name, values in conditions.items():
        if values.dtype.kind in "iuf" and len(np.unique(values)) > 1:
            return divided(name, values, trials.condition_units.get(name, ""), most=3)
    return [("", np.ones(len(trials), bool))]


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
