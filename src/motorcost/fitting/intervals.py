"""Confidence intervals of a fit.

An interval lies within the support of its parameter: an end that is the support's own says that
the data do not bound the parameter on that side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from motorcost.fitting.engine import Maximum, Nearby
from motorcost.fitting.information import at_bounds, robust_covariance
from motorcost.tasks.supports import Support

if TYPE_CHECKING:
    from motorcost.fitting.fitted import Fit

Interval = tuple[float, float]
# An end of an interval this close to the support's own, as a fraction of it, is the same.
SAME_END = 1e-9


def drop_of(level: float) -> float:
    """How far below its maximum the log likelihood may be within an interval: half of the quantile
    of chi-square with one degree of freedom."""
    return 0.5 * NormalDist().inv_cdf(0.5 + level / 2) ** 2


def wald_ends(
    maxima: Sequence[Maximum],
    supports: Sequence[Support],
    level: float,
    nearby: Nearby | None = None,
) -> np.ndarray:
    """The ends of intervals on the search scale (p, 2), from standard errors and Student's t.

    Another maximum that the data allow as well, because it is not far enough below the highest,
    belongs to the interval: it reaches from the lowest end of all of them to the highest, the less
    far around a maximum the lower it is, as a profile likelihood would. So does every point of
    `nearby` that the data allow. NaN where the highest has no standard error.
    """
    from scipy.special import stdtrit  # slow to import, and only needed here

    drop = drop_of(level)
    parts: list[np.ndarray] = []
    for maximum in maxima:
        share = 1.0 - (maxima[0].value - maximum.value) / drop
        if share <= 0:
            continue
        errors, degrees = standard_errors(maximum, supports)
        reach = stdtrit(degrees, 0.5 + level / 2) * errors * np.sqrt(share)
        if parts:  # of another maximum at an edge, the edge
            reach = np.nan_to_num(reach, nan=0.0, posinf=np.inf)
        parts.append(np.stack([maximum.point - reach, maximum.point + reach], axis=1))
    if nearby is not None:
        allowed = nearby.points[maxima[0].value - nearby.values < drop]
        parts += [np.stack([point, point], axis=1) for point in allowed]
    ends = np.stack(parts)
    return np.stack([ends[..., 0].min(axis=0), ends[..., 1].max(axis=0)], axis=1)


def standard_errors(maximum: Maximum, supports: Sequence[Support]) -> tuple[np.ndarray, np.ndarray]:
    """Standard errors on the search scale and their degrees of freedom; NaN if the search did not
    settle."""
    p = len(supports)
    if not maximum.converged:
        return np.full(p, np.nan), np.full(p, np.inf)
    bounds = np.array([support.bounds for support in supports])
    at_edge = at_bounds(bounds, maximum.point)
    cov, degrees = robust_covariance(supports, maximum.information, maximum.trial_scores, at_edge)
    return np.sqrt(np.diagonal(cov)), degrees


def wald_intervals(fit: Fit, level: float) -> dict[str, Interval]:
    """Intervals by name, as `wald_ends` has them.

    For parameters at an end of their support it is one-sided, from the profile likelihood: there
    is no standard error at an edge.
    """
    at_edge = edge_intervals(fit, level)
    coordinates = fit.objective.coordinates
    ends = wald_ends(fit.all_maxima, fit.objective.supports, level, fit.nearby)
    return {
        c.name: at_edge[c.name] if c.name in at_edge else c.support.natural(tuple(of_coordinate))
        for c, of_coordinate in zip(coordinates, ends.tolist(), strict=True)
    }


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


def open_ends(interval: Interval, support: Interval) -> tuple[bool, bool]:
    """Whether an interval reaches the lower and the upper end of its support, which the logarithm
    of a number and back may miss by rounding."""
    below, above = (
        math.isclose(end, edge, rel_tol=SAME_END)
        for end, edge in zip(interval, support, strict=True)
    )
    return below or interval[0] < support[0], above or interval[1] > support[1]


def interval_text(interval: Interval, support: Interval, form: str = ".4g") -> str:
    """An interval in words: `1 to 2`, or `below 2` where the support itself is the lower end."""
    low, high = interval
    if np.isnan(low) or np.isnan(high):
        return "?"
    from_start, to_end = open_ends(interval, support)
    if from_start and to_end:
        return "anywhere"
    if from_start:
        return f"below {high:{form}}"
    if to_end:
        return f"above {low:{form}}"
    return f"{low:{form}} to {high:{form}}"
