"""Confidence intervals of a fit.

An interval lies within the support of its parameter: an end that is the support's own says that
the data do not bound the parameter on that side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

if TYPE_CHECKING:
    from motorcost.fitting.fitted import Fit

Interval = tuple[float, float]


def wald_intervals(fit: Fit, level: float) -> dict[str, Interval]:
    """Intervals by name, from the standard errors and Student's t on the search scale.

    For parameters at an end of their support it is one-sided, from the profile likelihood: there
    is no standard error at an edge.
    """
    at_edge = edge_intervals(fit, level)
    errors = list(fit.search_scale_errors.values())
    result = {}
    for k, coordinate in enumerate(fit.objective.coordinates):
        if coordinate.name in at_edge:
            result[coordinate.name] = at_edge[coordinate.name]
            continue
        t = float(stdtrit(fit.degrees_of_freedom[k], 0.5 + level / 2))
        reach = t * errors[k]
        ends = (fit.point[k] - reach, fit.point[k] + reach)
        result[coordinate.name] = coordinate.support.natural(ends)
    return result


def profile_intervals(fit: Fit, level: float) -> dict[str, Interval]:
    """Intervals by name, from the profile likelihood; one-sided for parameters at an end of their
    support. Where several maxima make several parts, from the lowest end to the highest."""
    result = edge_intervals(fit, level)
    others = [name for name in fit.names if name not in result]
    ends = {profile.name: profile.ends for profile in fit.profiles(level, others)}
    supports = {c.name: c.support for c in fit.objective.coordinates}
    result |= {name: supports[name].natural(ends[name]) for name in others}
    return {name: result[name] for name in fit.names}


def edge_intervals(fit: Fit, level: float) -> dict[str, Interval]:
    """One-sided intervals of the parameters that are at an end of their support."""
    if fit.interrupted or not fit.converged:
        return {}
    names = list(fit.at_bounds)
    if not names:
        return {}
    supports = {c.name: c.support for c in fit.objective.coordinates}
    # Both tails of an interval at this level add up to twice one tail at the other.
    profiles = fit.profiles(2 * level - 1, names) if level > 0.5 else []
    return {profile.name: supports[profile.name].natural(profile.ends) for profile in profiles}


def interval_text(interval: Interval, support: Interval, form: str = ".4g") -> str:
    """An interval in words: `1 to 2`, or `below 2` where the support itself is the lower end."""
    low, high = interval
    if np.isnan(low) or np.isnan(high):
        return "?"
    from_start, to_end = low <= support[0], high >= support[1]
    if from_start and to_end:
        return "anywhere"
    if from_start:
        return f"below {high:{form}}"
    if to_end:
        return f"above {low:{form}}"
    return f"{low:{form}} to {high:{form}}"
