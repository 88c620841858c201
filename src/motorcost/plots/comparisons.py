"""Figures of models that are compared, of errors to expect, and of parameters recovered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from motorcost.diagnostics import Comparison, Precision
from motorcost.diagnostics.comparison import Row
from motorcost.errors import InputError
from motorcost.fitting.recovery import Recovery
from motorcost.markup import percent
from motorcost.plots.scales import AS_NUMBER
from motorcost.plots.style import (
    BLUE,
    COLOURS,
    GREY,
    ORANGE,
    CaptionedFigure,
    captioned,
    counted,
    legend_above,
    new_figure,
    plain,
    shape_of,
    styled,
)

if TYPE_CHECKING:
    from pandas import DataFrame

# A difference of AIC or BIC that is called clear.
_CLEAR = 10
# Numbers of trials between the first and the last at which errors are computed for a line.
_POINTS = 40


@styled
def plot_comparison(found: Comparison) -> CaptionedFigure:
    """Draw how much worse each model is than the best: AIC and BIC, and cross-validation if known.

    The best by cross-validation is the one with the largest cross-validated log likelihood. Error
    bars are of differences fold by fold.

    Examples
    --------
    >>> figure = mc.plots.plot_comparison(mc.compare({"effort": fit}))
    """
    crossed = [row for row in found.rows if row.cross_validated is not None]
    figure = new_figure(7.2 if crossed else 4.8, 0.36 * len(found.rows) + 1.1)
    axes = figure.subplots(1, 2 if crossed else 1, squeeze=False, sharey=True)[0]
    places = np.arange(len(found.rows))
    axes[0].axvspan(0, _CLEAR, color=GREY, alpha=0.2, lw=0)
    for name, colour, marker, shift in (("aic", BLUE, "o", -0.12), ("bic", ORANGE, "D", 0.12)):
        values = np.array([getattr(row, name) for row in found.rows])
        axes[0].plot(
            values - values.min(), places + shift, marker, color=colour, ms=5, label=name.upper()
        )
    axes[0].set_xlabel("AIC or BIC - best")
    axes[0].set_yticks(places, [plain(row.name) for row in found.rows])
    axes[0].set_ylim(len(found.rows) - 0.5, -0.5)
    axes[0].set_xscale("symlog", linthresh=_CLEAR)
    axes[0].xaxis.set_major_formatter(AS_NUMBER)
    if crossed:
        _draw_crossed(axes[1], found.rows, max(crossed, key=lambda row: row.cross_validated or 0))
    legend_above(figure, *axes)
    return captioned(
        figure,
        "AIC and BIC of each model minus the smallest; beyond the grey band (10) a difference is "
        "clear.",
        "Right: cross-validated log likelihood minus that of the best; bars are standard errors of "
        "the difference, from the differences in each fold."
        if crossed
        else "",
    )


def _draw_crossed(ax: Axes, rows: tuple[Row, ...], best: Row) -> None:
    """Cross-validated log likelihoods minus the best, with errors from paired folds."""
    ax.axvline(0, color=GREY, lw=0.8)
    for place, row in enumerate(rows):
        if row.cross_validated is None or best.cross_validated is None:
            continue
        error = 0.0
        if len(row.folds) == len(best.folds) > 1:
            differences = np.array(row.folds) - np.array(best.folds)
            error = float(np.sqrt(len(differences)) * differences.std(ddof=1))
        difference = row.cross_validated - best.cross_validated
        ax.errorbar(difference, place, xerr=error or None, fmt="o", color=BLUE, ms=5, capsize=3)
    ax.set_xlabel("cross-validated log likelihood\n- best (nats)")


@styled
def plot_precision(found: Precision) -> CaptionedFigure:
    """Draw the expected relative error of each parameter over the number of trials.

    Examples
    --------
    >>> found = mc.expected_precision(
    ...     mc.tasks.reaching,
    ...     at={"effort": 1e-5, "steps": 12},
    ...     free=["effort"],
    ...     n_trials=[50, 200],
    ...     simulated=50,
    ...     key=jax.random.key(0),
    ... )
    >>> figure = mc.plots.plot_precision(found)
    """
    counts = np.array(found.n_trials)
    few, many = counts.min() / 2, counts.max() * 2
    along = np.geomspace(max(few, 1), many, _POINTS)
    errors = found.relative_errors
    figure = new_figure(4.8, 3.0)
    ax = figure.subplots()
    for i, (name, values) in enumerate(errors.items()):
        colour = COLOURS[i % len(COLOURS)]
        # Errors fall with the root of the number of trials.
        line = 100 * values[0] * np.sqrt(counts[0] / along)
        ax.plot(along, line, color=colour, lw=1.2, ls="-" if i < len(COLOURS) else "--")
        ax.plot(counts, 100 * np.array(values), "o", color=colour, ms=5, label=plain(name))
    if not np.isfinite([value for values in errors.values() for value in values]).any():
        raise InputError("no number of trials tells these parameters: there is nothing to draw")
    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(AS_NUMBER)
        axis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("trials")
    ax.set_ylabel("expected standard error (%)")
    legend_above(figure, ax)
    return captioned(
        figure,
        "Standard errors to expect, relative to the assumed true values, over the number of "
        "trials.",
        f"They are known to about {percent(found.monte_carlo, 1)}, from "
        f"{counted(found.simulated, 'simulated trial')}.",
    )


@styled
def plot_recovery(recovery: Recovery, table: DataFrame) -> CaptionedFigure:
    """Draw estimates with their intervals over the true values, one panel for each parameter.

    `table` is what `mc.sweep(recovery, ..., call="arrays")` returned. Data sets whose fit failed
    are left out.

    Examples
    --------
    >>> study = mc.Recovery(
    ...     mc.tasks.reaching, ["effort"], n_trials=5, n_starts=1, fixed={"steps": 12}
    ... )
    >>> table = mc.sweep(study, {"effort": [1e-5]}, repetitions=2, call="arrays")
    >>> figure = mc.plots.plot_recovery(study, table)
    """
    done = table[table["failed"] == ""]
    supports = recovery.supports
    missing = [name for name in supports if f"{name}_found" not in table.columns]
    if missing or not len(done):
        raise InputError(
            f"the table has no column {missing[0]}_found: it is not of this recovery"
            if missing
            else "there are no data sets to draw: all of them failed"
        )
    rows, columns = shape_of(len(supports))
    figure = new_figure(max(3.6, 2.7 * columns), 2.7 * rows + 0.2)
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax, (name, support) in zip(axes.flat, supports.items(), strict=False):
        _draw_recovered(ax, done, name, logarithmic=support.logarithmic)
    for ax in axes.flat[len(supports) :]:
        ax.set_visible(False)
    return captioned(
        figure,
        f"Estimates from {counted(len(done), 'simulated data set')} over the true values, with "
        "95 % confidence intervals (bars). On the grey line they agree.",
        f"{counted(len(table) - len(done), 'data set')} failed." if len(done) < len(table) else "",
    )


def _draw_recovered(ax: Axes, done: DataFrame, name: str, *, logarithmic: bool) -> None:
    truth, found = (done[column].to_numpy(float) for column in (name, f"{name}_found"))
    ends = [done[f"{name}_{end}"].to_numpy(float) for end in ("low", "high")]
    lengths = np.nan_to_num(np.abs([end - found for end in ends]), posinf=0.0)
    if logarithmic:
        ax.set_xscale("log")
        ax.set_yscale("log")
    reach = [min(truth.min(), found.min()), max(truth.max(), found.max())]
    ax.plot(reach, reach, color=GREY, lw=1)
    ax.errorbar(truth, found, yerr=lengths, fmt="o", color=BLUE, ms=4, lw=0.8, alpha=0.6)
    ax.set_xlabel(plain(f"true {name}"))
    ax.set_ylabel(plain(f"estimated {name}"))
