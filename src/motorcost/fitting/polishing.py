"""From where searches ended to maxima: Newton's last steps, and a check at the scale of an error.

The curvature comes from differences of gradients over a small step. That is exact where the log
likelihood is smooth. Where the agent's policy changes abruptly the log likelihood jumps, and
gradients know nothing of jumps. Therefore values at one standard error from the maximum are
compared with what the curvature promises (`confirm`): a higher one shows that this is no maximum,
and a drop of another size takes the place of the curvature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

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
# One standard error from a maximum the log likelihood is lower by a half. A drop between these
# leaves the curvature as it is: likelihoods are not quite quadratic.
LEAST_DROP, MOST_DROP = 0.2, 1.25
# A point that is higher than a maximum by more than this refutes it.
REFUTING_GAIN = 1e-3


@dataclass(frozen=True)
class Polished:
    """Maxima after Newton's steps, with the observed information there.

    - `converged`: whether each is a maximum: its curvature is that of a maximum in all directions
      that do not lead out of the bounds, and no step promises `CONVERGED_GAIN`; or values deny what
      curvature and step promise (see `confirm`).
    - `higher`: a point that refutes the maximum, NaN where `confirm` found none.
    """

    points: np.ndarray
    values: np.ndarray
    information: np.ndarray
    converged: np.ndarray
    higher: np.ndarray


def polish(
    evaluate: Evaluate,
    supports: Sequence[Support],
    points: np.ndarray,
    values: np.ndarray,
    which: np.ndarray,
) -> Polished:
    """Newton's last steps from `points` (P, p) of the data sets `which`, within the bounds, all
    together, and the check of `confirm`."""
    P, p = points.shape
    points, values = points.copy(), values.copy()
    information = np.full((P, p, p), np.nan)
    converged, denied = np.zeros(P, bool), np.zeros(P, bool)
    bounds = np.array([support.bounds for support in supports])
    active = np.flatnonzero(np.isfinite(values))
    for _ in range(NEWTON_STEPS):
        if not active.size:
            break
        gradients, information[active] = observed_information(
            evaluate, supports, points[active], which[active]
        )
        steps = [
            _newton_step(points[i], gradient, information[i], bounds)
            for i, gradient in zip(active, gradients, strict=True)
        ]
        converged[active] = [step.is_peak and step.gain < CONVERGED_GAIN for step in steps]
        denied[active] = [not step.is_peak for step in steps]
        moving = np.array([step.gain >= NEGLIGIBLE_GAIN for step in steps])
        gains = np.array([step.gain for step in steps])[moving]
        moved = np.array([step.point for step in steps])[moving]
        active = active[moving]
        if not active.size:
            break
        found, _ = evaluate(which[active], moved)
        slack = np.where(gains < SURE_GAIN, VALUE_ROUNDING * np.abs(values[active]), 0.0)
        better = (found > values[active]) | (found > values[active] - slack)
        denied[active[~better]] = True
        active = active[better]
        points[active], values[active] = moved[better], found[better]
    return confirm(
        evaluate,
        supports,
        Polished(points, values, information, converged, np.full((P, p), np.nan)),
        which,
        denied,
    )


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


def confirm(
    evaluate: Evaluate,
    supports: Sequence[Support],
    found: Polished,
    which: np.ndarray,
    denied: np.ndarray,
) -> Polished:
    """Compare values at one standard error from each maximum, either way along the principal axes
    of its information, with what the information promises.

    Where the likelihood jumps, gradients promise what values deny: `denied` tells where Newton's
    step led no higher, or where the curvature is not that of a maximum. That is a maximum all the
    same if none of these points is higher.
    """
    p = found.points.shape[1]
    usable = np.flatnonzero(np.isfinite(found.information).all(axis=(1, 2)))
    if not usable.size:
        return found
    information, converged, higher = (
        found.information.copy(),
        found.converged.copy(),
        found.higher.copy(),
    )
    bounds = np.array([support.bounds for support in supports])
    width = np.array([support.width for support in supports])
    points = found.points[usable]
    roots, axes = np.linalg.eigh(information[usable] * np.outer(width, width))
    # No further than a quarter of a support, where the data leave a direction open.
    length = 1.0 / np.sqrt(np.maximum(np.abs(roots), 16.0))
    steps = np.swapaxes(axes, 1, 2) * length[:, :, None] * width  # (P, axis, p)
    either_way = points[:, None, None] + np.stack([steps, -steps], axis=1)
    tried = np.clip(either_way, *bounds.T)
    values, _ = evaluate(np.repeat(which[usable], 2 * p), tried.reshape(-1, p))
    values = values.reshape(len(usable), 2 * p)
    tried = tried.reshape(len(usable), 2 * p, p)
    best = np.nanargmax(np.where(np.isfinite(values), values, -np.inf), axis=1)
    for row, i in enumerate(usable):
        if values[row, best[row]] > found.values[i] + REFUTING_GAIN:
            higher[i], converged[i] = tried[row, best[row]], False
            continue
        converged[i] |= denied[i]
        curvature = _from_drops(
            roots[row],
            axes[row],
            found.values[i] - values[row].reshape(2, p),
            length[row],
            clipped=(tried[row] != either_way[row].reshape(2 * p, p)).any(axis=1).reshape(2, p),
        )
        information[i] = curvature / np.outer(width, width)
    return Polished(found.points, found.values, information, converged, higher)


def _from_drops(
    roots: np.ndarray,
    axes: np.ndarray,
    drops: np.ndarray,
    length: np.ndarray,
    *,
    clipped: np.ndarray,
) -> np.ndarray:
    """The information whose promise along each principal axis is what the values dropped by, where
    that is far from what its own curvature promises.

    `drops` (2, p) are those a `length` away either way; where a bound was in the way (`clipped`)
    they say nothing.
    """
    seen = ~clipped & np.isfinite(drops)
    count = seen.sum(axis=0)
    mean = np.where(seen, drops, 0.0).sum(axis=0) / np.maximum(count, 1)
    promised = roots * length**2 / 2
    far_off = (mean < LEAST_DROP * promised / 0.5) | (mean > MOST_DROP * promised / 0.5)
    # In directions that the data leave open the curvature is next to nothing, and stays.
    replaced = (count > 0) & far_off & ((np.abs(roots) >= 16.0) | (mean > MOST_DROP))
    new = np.where(replaced, 2 * np.maximum(mean, 0.0) / length**2, roots)
    return (axes * new) @ axes.T


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
    around, gaps = _around(supports, points)
    tried = np.concatenate([points[:, None], around], axis=1)
    _, gradients = evaluate(np.repeat(which, 1 + 2 * p), tried.reshape(-1, p))
    gradients = gradients.reshape(S, 1 + 2 * p, p)
    information = -(gradients[:, 1::2] - gradients[:, 2::2]) / gaps[:, :, None]
    return gradients[:, 0], (information + np.swapaxes(information, 1, 2)) / 2


def trial_scores(
    per_trial: Callable[[np.ndarray, np.ndarray], np.ndarray],
    supports: Sequence[Support],
    points: np.ndarray,
    which: np.ndarray,
) -> np.ndarray:
    """The derivative of each trial's log likelihood (S, N, p), by differences as above.

    `per_trial` gives the log likelihoods of the trials of data sets `which` at points: (S, N).
    """
    S, p = points.shape
    around, gaps = _around(supports, points)
    values = per_trial(np.repeat(which, 2 * p), around.reshape(-1, p)).reshape(S, p, 2, -1)
    return np.swapaxes((values[:, :, 0] - values[:, :, 1]) / gaps[:, :, None], 1, 2)


def _around(supports: Sequence[Support], points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each point with one coordinate a small step higher and lower (S, 2 p, p), and how far apart
    the two are (S, p)."""
    p = points.shape[1]
    bounds = np.array([support.bounds for support in supports])
    h = np.array([support.step for support in supports])
    above, below = np.minimum(points + h, bounds[:, 1]), np.maximum(points - h, bounds[:, 0])
    around = np.repeat(points[:, None], 2 * p, axis=1)
    for k in range(p):
        around[:, 2 * k, k], around[:, 2 * k + 1, k] = above[:, k], below[:, k]
    return around, above - below
