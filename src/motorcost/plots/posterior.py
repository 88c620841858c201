"""Figures of a posterior: parameters alone and in pairs, people beside their population, and
predicted movements."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.stats import gaussian_kde

from motorcost import checks
from motorcost.errors import InputError
from motorcost.plots.scales import AS_NUMBER, ticks_of_log_axis
from motorcost.plots.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    CaptionedFigure,
    captioned,
    legend_above,
    new_figure,
    plain,
    shape_of,
    styled,
)

if TYPE_CHECKING:
    from motorcost.posterior.result import Posterior

# Parameters that are drawn; of more, these first ones.
MOST_PARAMETERS = 8
# Draws in each panel of a pair: more only make the file larger.
_MOST_POINTS = 1_000
# Positive parameters whose prior or posterior spans a larger factor are drawn on a log scale.
_MOST_LINEAR = 3.0
# How far an axis reaches beyond the middle 99 % of the draws, as a part of that range.
_MARGIN = 0.35
# Trials of each channel that are drawn one by one.
_MOST_TRIALS = 30


@dataclass(frozen=True)
class _Column:
    """Draws of one number: `values` in the order of chains, and `prior`, None if there is none.

    `logarithmic` tells whether it is drawn on a log scale.
    """

    name: str
    values: np.ndarray
    prior: np.ndarray | None
    logarithmic: bool

    def on_axis(self, values: np.ndarray) -> np.ndarray:
        """Values on the scale of the axis, where distances are as they are drawn."""
        return np.log(values) if self.logarithmic else values

    def from_axis(self, values: np.ndarray) -> np.ndarray:
        """Values from the scale of the axis."""
        return np.exp(values) if self.logarithmic else values

    @property
    def limits(self) -> tuple[float, float]:
        """The ends of an axis that shows nearly all draws."""
        low, high = np.quantile(self.on_axis(self.values), [0.005, 0.995])
        margin = _MARGIN * (high - low) or 0.1 * abs(low) or 0.1
        left, right = self.from_axis(np.array([low - margin, high + margin]))
        return float(left), float(right)


@styled
def plot_posterior(post: Posterior) -> CaptionedFigure:
    """Draw the posterior of each parameter (with its prior, in grey), and draws of each pair.

    Of more than eight parameters the first are drawn, those of a population before those of
    people. Transitions that diverged are orange.

    Examples
    --------
    >>> figure = mc.plots.plot_posterior(post)
    """
    columns = _columns(post)
    drawn = columns[:MOST_PARAMETERS]
    count = len(drawn)
    side = max(4.2, min(1.9 * count, 13.0))
    figure = new_figure(side, side if count > 1 else 3.2)
    axes = figure.subplots(count, count, squeeze=False)
    chosen = _evenly(len(drawn[0].values))
    diverging = _diverging(post)
    for row, vertical in enumerate(drawn):
        for column, horizontal in enumerate(drawn):
            ax = axes[row, column]
            if column > row:
                ax.set_visible(False)
                continue
            if column == row:
                _draw_density(ax, vertical)
            else:
                _draw_pair(ax, horizontal, vertical, chosen, diverging)
            _set_scale(ax, horizontal, "x")
            _label(ax, horizontal, vertical, row=row, column=column, count=count)
    legend_above(figure, *axes.flat)
    # Beside it there is room, because panels above the diagonal are empty.
    axes[0, 0].set_title(_title(post, len(columns)), loc="left")
    return captioned(
        figure,
        "On the diagonal, the density of each parameter's posterior (blue) and prior (grey); "
        "below it, draws of each pair of parameters."
        if count > 1
        else "The density of the posterior (blue) and of the prior (grey).",
        "Orange draws are those of transitions that diverged." if len(diverging) else "",
        post.size_in_words,
    )


def _columns(post: Posterior) -> list[_Column]:
    """Every number of the posterior, with its draws; those of people last."""
    prior = post.prior if "prior" in post.groups() else {}
    group = post.posterior.attrs.get("group")

    def of_people(item: tuple[Any, Any]) -> bool:
        # Means of several populations, and their contrasts, have a dimension of their own.
        dims = item[1].dims[2:]
        return bool(dims) if group is None else group in dims

    arrays = sorted(post.posterior.data_vars.items(), key=of_people)
    found = []
    for name, array in arrays:
        before = prior[name].values if name in prior else None
        if before is not None and before.shape[2:] != array.shape[2:]:
            before = None
        labels = [array.coords[dim].values for dim in array.dims[2:]]
        logarithmic = _differs_by_factors(array.values, before)
        for index in np.ndindex(array.shape[2:]):
            of = ", ".join(str(values[i]) for values, i in zip(labels, index, strict=True))
            found.append(
                _Column(
                    f"{name}[{of}]" if of else str(name),
                    array.values[(..., *index)].ravel(),
                    None if before is None else before[(..., *index)].ravel(),
                    logarithmic,
                )
            )
    if not found:
        raise InputError("the posterior has no parameters to draw")
    return found


def _differs_by_factors(values: np.ndarray, prior: np.ndarray | None) -> bool:
    """Whether a parameter is drawn on a log scale: the same for all groups."""
    drawn = np.concatenate([part.ravel() for part in (values, prior) if part is not None])
    low, high = np.quantile(drawn, [0.005, 0.995])
    return bool(drawn.min() > 0 and high > _MOST_LINEAR * low)


def _diverging(post: Posterior) -> np.ndarray:
    """The numbers of draws at which a transition diverged."""
    stats = post.sample_stats if "sample_stats" in post.groups() else {}
    return np.flatnonzero(stats["diverging"].values) if "diverging" in stats else np.array([], int)


def _evenly(count: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(count, _MOST_POINTS)).astype(int))


def _draw_density(ax: Axes, column: _Column) -> None:
    """The densities of posterior and prior, on the scale of the axis."""
    low, high = column.on_axis(np.array(column.limits))
    places = np.linspace(low, high, 200)
    curves = [("posterior", column.values, BLUE)]
    if column.prior is not None:
        curves.insert(0, ("prior", column.prior, GREY))
    for label, values, colour in curves:
        on_axis = column.on_axis(values)
        # Draws that are all the same have no density.
        if np.ptp(on_axis) <= 1e-12 * np.abs(on_axis).max():
            ax.axvline(values[0], color=colour, lw=1.5, label=label)
            continue
        heights = gaussian_kde(on_axis)(places)
        ax.plot(column.from_axis(places), heights, color=colour, lw=1.5, label=label)
        if colour == BLUE:
            ax.fill_between(column.from_axis(places), heights, color=BLUE, alpha=0.15, lw=0)
    ax.set_ylim(bottom=0)
    ax.set_yticks([])


def _draw_pair(
    ax: Axes, horizontal: _Column, vertical: _Column, chosen: np.ndarray, diverging: np.ndarray
) -> None:
    kinds = [(chosen, BLUE, 0.25, "_nolegend_"), (diverging, ORANGE, 0.9, "diverging")]
    for numbers, colour, alpha, label in kinds:
        if len(numbers):
            ax.plot(
                horizontal.values[numbers],
                vertical.values[numbers],
                "o",
                color=colour,
                alpha=alpha,
                ms=2.2,
                mew=0,
                label=label,
            )
    _set_scale(ax, vertical, "y")


def _set_scale(ax: Axes, column: _Column, which: str) -> None:
    """Set the limits and the scale of an axis, with ticks that can be read."""
    is_x = which == "x"
    (ax.set_xlim if is_x else ax.set_ylim)(*column.limits)
    axis = ax.xaxis if is_x else ax.yaxis
    if not column.logarithmic:
        axis.set_major_locator(MaxNLocator(3))
        axis.set_major_formatter(AS_NUMBER)
        return
    (ax.set_xscale if is_x else ax.set_yscale)("log")
    ticks_of_log_axis(axis, column.limits)


def _label(
    ax: Axes, horizontal: _Column, vertical: _Column, *, row: int, column: int, count: int
) -> None:
    ax.tick_params(labelsize=7)
    if row == count - 1:
        ax.set_xlabel(plain(horizontal.name))
        for text in ax.get_xticklabels():
            text.set_rotation(30)
    else:
        ax.tick_params(labelbottom=False)
    if column == 0 and row > 0:
        ax.set_ylabel(plain(vertical.name))
    elif column != row:
        ax.tick_params(labelleft=False)


def _title(post: Posterior, count: int) -> str:
    """How many parameters are not drawn, and whether there are verdicts to read."""
    parts = []
    if count > MOST_PARAMETERS:
        parts.append(f"the first {MOST_PARAMETERS} of {count} parameters")
    verdicts = len(post.verdicts)
    if verdicts:
        parts.append(f"{verdicts} verdict{'s' if verdicts > 1 else ''}: see the summary")
    return "; ".join(parts)


@styled
def plot_shrinkage(post: Posterior, parameter: str) -> CaptionedFigure:
    """Draw each person's estimate alone beside the one with the population, and the population.

    `post` is from `mc.sample(..., group="subject")`. People are sorted by their estimates alone;
    bars are 95 % intervals, and the band is that of the population's mean. "Alone" means by the
    person's own trials, with a wide normal prior around the estimate of all people together: an SD
    of 2 in natural logarithms, or a quarter of the width of a support that is not on a log scale.

    Examples
    --------
    >>> people = mc.sample(
    ...     mc.tasks.reaching,
    ...     positions.with_conditions(subject=list("aabbccdd")),
    ...     {"effort": mc.LogNormal(1e-5, 1.0)},
    ...     observer=camera,
    ...     group="subject",
    ...     n_warmup=20,
    ...     n_chains=1,
    ...     n_draws=20,
    ...     n_starts=1,
    ...     key=jax.random.key(0),
    ... )
    >>> figure = mc.plots.plot_shrinkage(people, "effort")
    """
    checks.one_of("parameter with estimates of people alone", parameter, list(_alone(post)))
    alone, array = _alone(post)[parameter], post.posterior[parameter]
    people = sorted(alone, key=lambda person: alone[person][0])
    single = np.array([alone[person] for person in people], float)
    names = [str(person) for person in array.coords[array.dims[2]].values]
    draws = array.values.reshape(-1, len(names))[:, [names.index(person) for person in people]]
    together = np.quantile(draws, [0.5, 0.025, 0.975], axis=0).T
    figure = new_figure(6.4, 1.3 + 0.32 * max(len(people), 4))
    ax = figure.subplots()
    _draw_population(ax, post, parameter)
    places = np.arange(len(people))
    for values, shift, colour, marker, label in (
        (single, -0.14, GREY, "D", "alone"),
        (together, 0.14, BLUE, "o", "with the population"),
    ):
        # An interval may be open on one side, or unknown.
        ends = np.abs(np.nan_to_num(values[:, 1:] - values[:, :1], posinf=0.0, neginf=0.0)).T
        ax.errorbar(
            values[:, 0], places + shift, xerr=ends, fmt=marker, color=colour, ms=4, lw=1.2,
            label=label,
        )  # fmt: skip
    every = np.concatenate([single, together])
    every = every[np.isfinite(every)]
    if every.min() > 0 and every.max() > _MOST_LINEAR * every.min():
        ax.set_xscale("log")
        ticks_of_log_axis(ax.xaxis, (float(every.min()), float(every.max())))
    ax.set_yticks(places, [plain(person) for person in people])
    ax.set_ylim(len(people) - 0.5, -0.5)
    ax.set_xlabel(plain(parameter))
    legend_above(figure, ax)
    return captioned(
        figure,
        f"{parameter} of each person: estimates from the person's own trials alone and with the "
        "population, with 95 % intervals. Alone, too, there is a wide prior around the estimate of "
        "all people together: an SD of 2 in natural logarithms.",
        "Vertical lines with bands are means of the population with their 95 % intervals.",
    )


def _alone(post: Posterior) -> dict[str, dict[str, list[float]]]:
    """By parameter and person, the estimate from this person's trials alone, and its interval."""
    stored = post.posterior.attrs.get("alone")
    if stored is None:
        raise InputError(
            "the posterior has no estimates of people alone: sample with group=, as in "
            'mc.sample(..., group="subject")'
        )
    return dict(json.loads(stored))


def _draw_population(ax: Axes, post: Posterior, parameter: str) -> None:
    """The population's mean with its 95 % interval; one for each group of a condition between."""
    name = f"{parameter}_mean"
    if name not in post.posterior:
        return
    array = post.posterior[name]
    if array.ndim == 2:
        means = [("population's mean", array.values.ravel())]
    else:
        labels = array.coords[array.dims[2]].values
        draws = array.values.reshape(-1, len(labels))
        means = [(f"mean, {label}", draws[:, i]) for i, label in enumerate(labels)]
    colours = (ORANGE, GREEN, BLUE, GREY)
    for i, (label, values) in enumerate(means):
        low, middle, high = np.quantile(values, [0.025, 0.5, 0.975])
        colour = colours[i % len(colours)]
        ax.axvspan(low, high, color=colour, alpha=0.15, lw=0)
        ax.axvline(middle, color=colour, lw=1.5, label=plain(label))


@styled
def plot_predictive(post: Posterior) -> CaptionedFigure:
    """Draw the recorded movements over what the posterior predicts of them, for each channel.

    The band is the middle 95 % of movements that were simulated at draws of the parameters.

    Examples
    --------
    >>> figure = mc.plots.plot_predictive(post)
    """
    if "posterior_predictive" not in post.groups():
        raise InputError("the posterior predicts no movements: sample with predictive=True")
    recorded = post.observed_data["observed"]
    simulated = post.posterior_predictive["observed"]
    times = recorded.coords["time"].values
    channels = [str(name) for name in recorded.coords["channel"].values]
    rows, columns = shape_of(len(channels))
    figure = new_figure(max(4.6, 3.6 * columns), 2.6 * rows + 0.4)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True)
    for i, ax in enumerate(axes.flat):
        if i >= len(channels):
            ax.set_visible(False)
            continue
        of_model = simulated.values[..., i].reshape(-1, len(times))
        _draw_predicted(ax, times, recorded.values[..., i], of_model)
        ax.set_ylabel(plain(channels[i]))
        if i + columns >= len(channels):
            ax.set_xlabel("time (s)")
            ax.tick_params(labelbottom=True)
    legend_above(figure, *axes.flat[: len(channels)])
    return captioned(
        figure,
        f"Recorded trials (blue, at most {_MOST_TRIALS}) over the median and the middle 95 % of "
        "trials that were simulated at draws of the posterior.",
    )


def _draw_predicted(ax: Axes, times: np.ndarray, observed: np.ndarray, model: np.ndarray) -> None:
    # Fewer trials reach late times: quantiles of one or two would only be noise.
    enough = np.isfinite(observed).sum(axis=0) >= min(3, len(observed))
    low, middle, high = np.nanquantile(model[:, enough], [0.025, 0.5, 0.975], axis=0)
    at = times[enough]
    ax.fill_between(at, low, high, color=ORANGE, alpha=0.25, lw=0, label="model, middle 95 %")
    for k, samples in enumerate(observed[:_MOST_TRIALS]):
        there = np.isfinite(samples)
        label = "trials" if k == 0 else "_nolegend_"
        ax.plot(times[there], samples[there], color=BLUE, alpha=0.45, lw=0.7, label=label)
    ax.plot(at, middle, "--", color=ORANGE, lw=2, label="model, median")
