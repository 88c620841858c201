"""A fit as text and as tables, for a terminal, a notebook and a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from motorcost.fitting.intervals import Interval, interval_text
from motorcost.markup import html_paragraphs, html_table
from motorcost.model.observer import ObserverSpec
from motorcost.tasks import parameters as declared_parameters

if TYPE_CHECKING:
    from pandas import DataFrame

    from motorcost.fitting.fitted import Fit
    from motorcost.fitting.local_maximum import LocalMaximum


# A maximum that is less than exp(3), or 20, times less probable is another explanation.
ALMOST_AS_WELL = 3.0
OTHER_EXPLANATION = "Another explanation fits almost as well"


def summary_text(
    fit: Fit,
    level: float,
    intervals: Mapping[str, Interval] | None = None,
    about: Sequence[str] = (),
) -> str:
    """Return the estimates as a table of plain text, with the verdicts and notes below it.

    `intervals` hold at `level`, and are `fit.interval(level)` if left out; `about` are sentences
    about them.
    """
    errors, relative = fit.standard_errors, fit.log_standard_errors
    intervals = fit.interval(level) if intervals is None else intervals
    supports = _supports(fit)
    width = max(len(name) for name in (*fit.names, "parameter"))
    head = f"{'parameter':<{width}}  {'estimate':>10}  {'std. error':>10}  {'relative':>8}"
    lines = [f"{head}  {100 * level:g} % interval"]
    for name, value in fit.estimates.items():
        percent = number_text(100 * relative[name], ".3g") + " %" if name in relative else ""
        lines.append(
            f"{name:<{width}}  {value:>10.4g}  {number_text(errors[name], '.2g'):>10}  "
            f"{percent:>8}  {interval_text(intervals[name], supports[name])}"
        )
    about = [*about, *unknown_in_words(fit)]
    return "\n".join([*lines, "", *about, likelihood_sentence(fit), *fit.verdicts, *_notes(fit)])


def summary_html(fit: Fit, level: float) -> str:
    """Return the estimates as an HTML table, with the verdicts and notes below it."""
    header, rows = estimates_table(fit, fit.interval(level), level)
    about = unknown_in_words(fit)
    sentences = [*about, likelihood_sentence(fit), *fit.verdicts, *_notes(fit)]
    return html_table(header, rows) + html_paragraphs(sentences)


def estimates_table(
    fit: Fit, intervals: Mapping[str, Interval], level: float = 0.95
) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of a table with one row per parameter.

    `intervals` are by name, in natural units, and hold at `level`. What is infinite is shown as ∞,
    what is unknown as a question mark, and an interval to an end of the support as "below" or
    "above" its other end.
    """
    header = ["parameter", "estimate", "unit", "standard error", "relative"]
    header.append(f"{100 * level:g} % interval")
    estimates, errors, relative = fit.estimates, fit.standard_errors, fit.log_standard_errors
    supports, rows = _supports(fit), []
    for name, unit in fit.units.items():
        rows.append(
            [
                name,
                f"{estimates[name]:.4g}",
                unit,
                number_text(errors[name], ".2g"),
                number_text(100 * relative[name], ".3g") + " %" if name in relative else "",
                interval_text(intervals[name], supports[name]),
            ]
        )
    return header, rows


def number_text(value: float, form: str) -> str:
    """Return a number as text, ∞ where it is infinite and a question mark where it is unknown."""
    if math.isnan(value):
        return "?"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:{form}}"


def unknown_in_words(fit: Fit) -> list[str]:
    """Return what a question mark in the table of estimates means, if a maximum has one."""
    if fit.interrupted or not fit.converged:  # the verdicts say so
        return []
    unknown = [name for name, error in fit.standard_errors.items() if math.isnan(error)]
    if not unknown:
        return []
    return [f"?: there is no standard error at an end of a support ({', '.join(unknown)})."]


def likelihood_sentence(fit: Fit) -> str:
    """Return the log likelihood and the criteria that follow from it, in one line."""
    return (
        f"log likelihood {fit.log_likelihood:.6g} of {len(fit.trials)} trials; "
        f"AIC {fit.aic:.6g}, BIC {fit.bic:.6g}"
    )


def _notes(fit: Fit) -> list[str]:
    return [f"Note: {note}" for note in fit.notes]


def verdicts_of(fit: Fit) -> list[str]:
    """Return what to know before believing the estimates, in sentences."""
    if fit.interrupted:
        return ["Interrupted: this is the best point so far, without error bars."]
    if not fit.converged:
        return [
            f"The search did not settle at a maximum: {fit.agreed} of {len(fit.starts)} searches "
            "came to this point, from which the likelihood still rises. There are no error bars. "
            "Try more starts (n_starts), fix or narrow what these trials may not tell, or look at "
            "the data (mc.look)."
        ]
    lines = [f"{fit.agreed} of {len(fit.starts)} searches found this maximum."]
    if fit.agreed == 1 and len(fit.starts) > 1:
        lines.append("No other search confirms it: try more starts (n_starts).")
    lines += [_other_explanation(fit, maximum) for maximum in fit.maxima[1:]]
    if fit.at_bounds:
        ends = [_edge_words(fit, name) for name in fit.at_bounds]
        lines.append(f"At an end of its support: {', '.join(ends)}.")
    return lines + [direction.words for direction in fit.directions if direction.words]


def almost_as_well(maximum: LocalMaximum) -> bool:
    """Whether a maximum explains the trials almost as well as the best."""
    return maximum.below < ALMOST_AS_WELL


def _other_explanation(fit: Fit, maximum: LocalMaximum) -> str:
    """Another maximum in words."""
    values = ", ".join(f"{name} {value:.3g}" for name, value in maximum.estimates.items())
    return (
        (OTHER_EXPLANATION if almost_as_well(maximum) else "Another maximum was found")
        + f" ({maximum.below:.2g} below, {maximum.searches} of {len(fit.starts)} searches): "
        + f"{values}."
    )


def _edge_words(fit: Fit, name: str) -> str:
    (coordinate,) = [c for c in fit.objective.coordinates if c.name == name]
    value, support = fit.estimates[name], coordinate.support
    lowest = abs(value - support.low) < abs(value - support.high)
    return f"{name} is as {'small' if lowest else 'large'} as allowed ({value:.3g})"


def _supports(fit: Fit) -> dict[str, Interval]:
    """The lowest and highest value of each parameter, in natural units."""
    return {c.name: (c.support.low, c.support.high) for c in fit.objective.coordinates}


def units_of(fit: Fit) -> dict[str, str]:
    """Return the unit of each estimate by name, as the task declares it, or an empty text."""
    task = fit.objective.task
    declared = declared_parameters(task) if hasattr(task, "parameters") else {}
    units = {name: parameter.unit for name, parameter in declared.items()} | _noise_units(fit)
    return {c.name: units.get(c.parameter, "") for c in fit.objective.coordinates}


def _noise_units(fit: Fit) -> dict[str, str]:
    """The units of recording noise, which are those of the recorded states."""
    spec = fit.objective.observer
    if not isinstance(spec, ObserverSpec):
        return {}
    _, observer = jax.eval_shape(fit.objective.first_problem, jnp.asarray(fit.point))
    different = set(observer.channel_units)
    every_channel, *single_channels = spec.parameters
    units = dict(zip(single_channels, observer.channel_units, strict=True))
    return {every_channel: different.pop() if len(different) == 1 else ""} | units


def estimates_frame(fit: Fit, level: float) -> DataFrame:
    """Return the estimates as a pandas table; see `Fit.to_frame`."""
    import pandas as pd  # slow to import, and not needed elsewhere

    relative, intervals, bounds = fit.log_standard_errors, fit.interval(level), fit.at_bounds
    return pd.DataFrame(
        {
            "estimate": fit.estimates,
            "standard_error": fit.standard_errors,
            "log_standard_error": {name: relative.get(name, math.nan) for name in fit.names},
            "low": {name: intervals[name][0] for name in fit.names},
            "high": {name: intervals[name][1] for name in fit.names},
            "unit": fit.units,
            "at_bound": {name: name in bounds for name in fit.names},
        },
        index=pd.Index(fit.names, name="parameter"),
    )
