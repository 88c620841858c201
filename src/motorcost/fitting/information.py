"""What is known at a maximum: standard errors, and directions that the data leave open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motorcost.fitting.objective import Coordinate
from motorcost.tasks.supports import Support

# A coordinate this close to a bound, on the search scale, is at the bound.
_AT_BOUND = 1e-6
# Fewer trials than parameters plus this say too little about how much the scores vary.
LEAST_FREEDOM = 5
# A trial with more leverage than this decides an estimate alone, whatever the other trials say.
MOST_LEVERAGE = 0.9
# A direction known no better than within a factor of two is weakly known.
WEAK = float(np.log(2.0))


def at_bounds(bounds: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Which coordinates of points (..., p) are at one of their `bounds` (p, 2); NaN is not."""
    near: np.ndarray = np.abs(bounds - points[..., None]).min(axis=-1) < _AT_BOUND
    return near


def covariance_of(supports: Sequence[Support], information: np.ndarray) -> np.ndarray:
    """The inverse of the information; infinite where there is none: along directions in which
    the whole support is within a standard error, and for the parameters that take part in them."""
    if not np.isfinite(information).all():
        return np.full_like(information, np.nan)
    width = np.array([support.width for support in supports])
    roots, axes = np.linalg.eigh(information * np.outer(width, width))
    flat = roots < 1.0
    axes = axes * width[:, None]
    cov = (axes[:, ~flat] / roots[~flat]) @ axes[:, ~flat].T
    open_ = ((axes[:, flat] / width[:, None]) ** 2 > 1e-4).any(axis=1)
    cov[open_, :] = cov[:, open_] = np.nan
    cov[open_, open_] = np.inf
    return cov


def robust_covariance(
    supports: Sequence[Support],
    information: np.ndarray,
    trial_scores: np.ndarray | None,
    at_bounds: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The covariance of estimates, from how much the trials' scores vary, and its degrees of
    freedom by coordinate.

    This is the sandwich estimator, the inverse information around the sum of squares of
    `trial_scores` (N, p). It holds where the likelihood is not quite right (the Gaussian
    approximation of signal-dependent noise makes the curvature a few per cent too large). The
    scores are those at the estimate, which each trial has drawn towards itself by its leverage, a
    number from 0 to 1 whose sum over trials is p: their squares are divided by one minus it, which
    is unbiased where trials are alike (HC2 in regression). With too few trials for that it is the
    inverse information, with infinite degrees of freedom.

    Coordinates that press against a bound are taken as given for the others, and have no variance
    (NaN).
    """
    p = len(supports)
    inside = np.flatnonzero(~at_bounds)
    cov, degrees = np.full((p, p), np.nan), np.full(p, np.inf)
    if not inside.size:
        return cov, degrees
    among = np.ix_(inside, inside)
    cov[among] = covariance_of([supports[int(i)] for i in inside], information[among])
    if trial_scores is None or not np.isfinite(trial_scores).all():
        return cov, degrees
    scores = trial_scores[:, inside]
    # With values for each subject, a subject's trials inform its own values only.
    informative = scores != 0
    counts = informative.sum(axis=0)
    shared = (informative.T.astype(int) @ informative > 0).sum(axis=0)
    freedom = counts - shared
    if (freedom < LEAST_FREEDOM).any():
        return cov, degrees
    bread = np.where(np.isfinite(cov[among]), cov[among], 0.0)
    leverage = np.einsum("ij,jk,ik->i", scores, np.linalg.pinv(scores.T @ scores), scores)
    unbiased = scores / np.sqrt(1.0 - np.minimum(leverage, MOST_LEVERAGE))[:, None]
    sandwich = bread @ (unbiased.T @ unbiased) @ bread
    cov[among] = np.where(np.isfinite(cov[among]), sandwich, cov[among])
    degrees[inside] = freedom
    return cov, degrees


def variance_ratios(
    supports: Sequence[Support],
    information: np.ndarray,
    trial_scores: np.ndarray | None,
    at_bounds: np.ndarray,
) -> np.ndarray:
    """By how much the variance of each estimate is larger than its variance by the curvature alone:
    a factor of at least 1, and 1 where either is not finite.

    The arguments are those of `robust_covariance`, which is the former.
    """
    robust, _ = robust_covariance(supports, information, trial_scores, at_bounds)
    by_curvature, _ = robust_covariance(supports, information, None, at_bounds)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.diagonal(robust) / np.diagonal(by_curvature)
    return np.where(np.isfinite(ratios), np.maximum(ratios, 1.0), 1.0)


@dataclass(frozen=True)
class Direction:
    """A combination of parameters, and how well the data determine it.

    - `name`: the combination, as in `effort × velocity^0.8`; `weights` by parameter.
    - `standard_error`: on the search scale.
    - `verdict`: `known`, `weak` (within a factor of two or worse) or `open` (not at all).

    Examples
    --------
    >>> weakest = fit.directions[0]  # the least known combination of parameters
    >>> weakest.name
    'effort'
    """

    name: str
    weights: dict[str, float]
    standard_error: float
    verdict: str

    @property
    def words(self) -> str:
        """A sentence, for what is not well known; else empty."""
        if self.verdict == "open":
            return f"The data cannot tell {self.name}."
        if self.verdict == "weak":
            factor = np.exp(self.standard_error)
            return f"{self.name} is known only within a factor of {factor:.2g} (one SE)."
        return ""


def directions(coordinates: Sequence[Coordinate], information: np.ndarray) -> list[Direction]:
    """Independent combinations of parameters, from the least known to the best known.

    These are the principal axes of the information on the search scale. A direction is open if
    two standard errors either way reach across a support.
    """
    if not np.isfinite(information).all():
        return []
    width = np.array([c.support.width for c in coordinates])
    logarithmic = all(c.support.logarithmic for c in coordinates)
    roots, axes = np.linalg.eigh(information)
    result = []
    for root, axis in zip(roots, axes.T, strict=True):
        axis = axis / axis[np.argmax(np.abs(axis))]
        size = float(np.linalg.norm(axis))
        error = size / float(np.sqrt(root)) if root > 0 else np.inf
        # How far the parameters move along it within a standard error, beside their supports.
        moves = np.abs(axis) * min(error, 1e300) / size**2
        verdict = "open" if (4 * moves > width).any() else "known"
        if verdict == "known" and logarithmic and error > WEAK:
            verdict = "weak"
        weights = dict(zip([c.name for c in coordinates], axis.tolist(), strict=True))
        result.append(Direction(_combination(weights), weights, error, verdict))
    return result


def _combination(weights: dict[str, float]) -> str:
    """`velocity × force^0.8 / effort^0.2`, without what hardly takes part."""
    over: list[str] = []
    under: list[str] = []
    for name, weight in sorted(weights.items(), key=lambda item: -abs(item[1])):
        if abs(weight) < 0.15:
            continue
        power = "" if abs(weight) > 0.95 else f"^{abs(weight):.1f}"
        (over if weight > 0 else under).append(name + power)
    return " × ".join(over) + "".join(f" / {factor}" for factor in under)
