"""What the curvature at a maximum says: Newton's last steps, standard errors, open directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motorcost.fitting.objective import Coordinate
from motorcost.fitting.optimise import Evaluate
from motorcost.tasks.supports import Support

# Newton steps that are taken at most: near a maximum each doubles the number of right digits.
NEWTON_STEPS = 8
# A step that promises less log likelihood than this changes no digit that is shown or tested.
NEGLIGIBLE_GAIN = 1e-12
# Below this gain a step is taken although rounding may hide that the value rises.
SURE_GAIN = 1e-7
# What rounding does to a log likelihood, relative to its size.
VALUE_ROUNDING = 1e-12
# A maximum is one if the next Newton step promises less log likelihood than this.
CONVERGED_GAIN = 1e-3
# Eigenvalues of the information this far below zero, relative to the largest, are rounding.
NEGATIVE_CURVATURE = 1e-6
# A direction known no better than within a factor of two is weakly known.
WEAK = float(np.log(2.0))


@dataclass(frozen=True)
class Polished:
    """The maxima of D data sets after Newton's steps, with the observed information there."""

    points: np.ndarray
    values: np.ndarray
    information: np.ndarray
    converged: np.ndarray


def polish(
    evaluate: Evaluate, supports: Sequence[Support], points: np.ndarray, values: np.ndarray
) -> Polished:
    """Newton's last steps from `points` (D, p), within the bounds, all data sets together.

    `converged` tells where the result is a maximum: its curvature is that of a maximum in all
    directions that do not lead out of the bounds, and no step promises `CONVERGED_GAIN`.
    """
    D, p = points.shape
    points, values = points.copy(), values.copy()
    information = np.full((D, p, p), np.nan)
    converged = np.zeros(D, bool)
    bounds = np.array([support.bounds for support in supports])
    active = np.flatnonzero(np.isfinite(values))
    for _ in range(NEWTON_STEPS):
        if not active.size:
            break
        gradients, information[active] = observed_information(
            evaluate, supports, points[active], active
        )
        steps = [
            _newton_step(points[d], gradient, information[d], bounds)
            for d, gradient in zip(active, gradients, strict=True)
        ]
        converged[active] = [step.is_peak and step.gain < CONVERGED_GAIN for step in steps]
        moving = np.array([step.gain >= NEGLIGIBLE_GAIN for step in steps])
        gains = np.array([step.gain for step in steps])[moving]
        moved = np.array([step.point for step in steps])[moving]
        active = active[moving]
        if not active.size:
            break
        found, _ = evaluate(active, moved)
        slack = np.where(gains < SURE_GAIN, VALUE_ROUNDING * np.abs(values[active]), 0.0)
        better = (found > values[active]) | (found > values[active] - slack)
        active = active[better]
        points[active], values[active] = moved[better], found[better]
    return Polished(points, values, information, converged)


@dataclass(frozen=True)
class _Step:
    point: np.ndarray
    gain: float  # of log likelihood that the step promises; NaN where there is no information
    is_peak: bool


def _newton_step(
    point: np.ndarray, gradient: np.ndarray, information: np.ndarray, bounds: np.ndarray
) -> _Step:
    """The Newton step among the coordinates that do not press against their bounds."""
    if not (np.isfinite(gradient).all() and np.isfinite(information).all()):
        return _Step(point, np.nan, is_peak=False)
    at_low, at_high = point <= bounds[:, 0], point >= bounds[:, 1]
    inside = ~((at_low & (gradient < 0)) | (at_high & (gradient > 0)))
    if not inside.any():
        return _Step(point, 0.0, is_peak=True)
    step = np.zeros_like(point)
    roots, axes = np.linalg.eigh(information[np.ix_(inside, inside)])
    curved = np.where(roots > 1e-12 * max(roots.max(), 1e-300), roots, np.inf)
    step[inside] = axes @ ((axes.T @ gradient[inside]) / curved)
    gain = float(gradient[inside] @ step[inside]) / 2
    is_peak = bool((roots > -NEGATIVE_CURVATURE * np.abs(roots).max()).all())
    return _Step(np.clip(point + step, *bounds.T), gain, is_peak)


def observed_information(
    evaluate: Evaluate,
    supports: Sequence[Support],
    points: np.ndarray,
    which: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The gradients at `points` (S, p), and minus the second derivatives (S, p, p).

    By central differences of gradients over the support's small step, or inwards from a bound;
    `which` numbers the data set of each point, 0 if left out.
    """
    S, p = points.shape
    which = np.zeros(S, int) if which is None else which
    bounds = np.array([support.bounds for support in supports])
    h = np.array([support.step for support in supports])
    above, below = np.minimum(points + h, bounds[:, 1]), np.maximum(points - h, bounds[:, 0])
    tried = np.repeat(points[:, None], 1 + 2 * p, axis=1)
    for k in range(p):
        tried[:, 1 + 2 * k, k], tried[:, 2 + 2 * k, k] = above[:, k], below[:, k]
    _, gradients = evaluate(np.repeat(which, 1 + 2 * p), tried.reshape(-1, p))
    gradients = gradients.reshape(S, 1 + 2 * p, p)
    information = -(gradients[:, 1::2] - gradients[:, 2::2]) / (above - below)[:, :, None]
    return gradients[:, 0], (information + np.swapaxes(information, 1, 2)) / 2


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


@dataclass(frozen=True)
class Direction:
    """A combination of parameters, and how well the data determine it.

    - `name`: the combination, as in `effort × velocity^0.8`; `weights` by parameter.
    - `standard_error`: on the search scale.
    - `verdict`: `known`, `weak` (within a factor of two or worse) or `open` (not at all).
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
