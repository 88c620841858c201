"""Where searches begin: at good points drawn from the supports, far from each other.

Likelihoods can have several maxima (with positions only, two sets of costs explain the same
reaches), and the best of the points drawn mostly lead to one of them: starts that are also far from
each other find the best maximum more often (`python benchmarks/maxima.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import jax
import numpy as np

from motorcost.errors import ConvergenceError
from motorcost.fitting.objective import Objective
from motorcost.fitting.optimise import Evaluate
from motorcost.inference.likelihood import log_likelihood

# Points drawn for each start that is kept.
DRAWN_PER_START = 8
# The SD of the points drawn around a task's defaults, as a fraction of each support.
AROUND_DEFAULTS = 0.1
# How far starts must lie from each other, in some coordinate, as a fraction of its support; halved
# as often as it takes to find enough of them.
APART = 0.25


def choose_starts(
    objective: Objective,
    evaluate: Evaluate,
    keys: Any,
    n_starts: int,
    given_points: Sequence[np.ndarray] = (),
) -> np.ndarray:
    """For each data set (one per key) the `given` points and the `n_starts` best of those drawn
    that are far from each other.

    Returned with shape (data sets, starts, p); NaN in place of points without a finite likelihood
    and gradient.
    """
    D, p = len(keys), len(objective.coordinates)
    drawn = _drawn(objective, keys, n_starts * DRAWN_PER_START)
    fixed = np.broadcast_to(np.reshape(given_points, (1, -1, p)), (D, len(given_points), p))
    points = np.concatenate([fixed, drawn], axis=1)
    which = np.repeat(np.arange(D), points.shape[1])
    values, gradients = evaluate(which, points.reshape(-1, p))
    possible = np.isfinite(values) & np.isfinite(gradients).all(axis=1)
    values = np.where(possible, values, -np.inf).reshape(points.shape[:2])
    points = np.where(np.isfinite(values)[..., None], points, np.nan)
    width = np.array([support.width for support in objective.supports])
    kept = [
        chosen[_best_apart(value, chosen / width, n_starts)]
        for value, chosen in zip(
            values[:, len(given_points) :], points[:, len(given_points) :], strict=True
        )
    ]
    return np.concatenate([points[:, : len(given_points)], np.stack(kept)], axis=1)


def _drawn(objective: Objective, keys: Any, count: int) -> np.ndarray:
    """Points for each key (D, count, p): half of them from the supports, half around the task's
    defaults, of which the first is the defaults themselves."""
    D, p = len(keys), len(objective.coordinates)
    if not count:
        return np.zeros((D, 0, p))
    of_coordinates = jax.vmap(lambda key: jax.random.split(key, p))(keys)
    columns = [
        np.asarray(jax.vmap(lambda key, s=support: s.draw(key, (count,)))(of_coordinates[:, k]))
        for k, support in enumerate(objective.supports)
    ]
    drawn = np.stack(columns, axis=2)
    usual = objective.usual_point()
    width = np.array([support.width for support in objective.supports])
    around = jax.vmap(lambda key: jax.random.normal(jax.random.fold_in(key, 1), (count, p)))(keys)
    near = usual + AROUND_DEFAULTS * width * np.asarray(around)
    near[:, 0] = usual
    near = np.clip(near, *objective.bounds.T)
    # A coordinate without a default is drawn from its support everywhere.
    near = np.where(np.isnan(near), drawn, near)
    return np.concatenate([drawn[:, : count // 2], near[:, : count - count // 2]], axis=1)


def _best_apart(values: np.ndarray, points: np.ndarray, count: int) -> np.ndarray:
    """The indices of the `count` highest values whose points are far from each other: the highest
    first, then each time the highest of those that are far from all before."""
    left = np.isfinite(values)
    far = left.copy()
    chosen: list[int] = []
    distance = APART
    while len(chosen) < count and left.any():
        if not far.any():
            distance /= 2
            gaps = np.abs(points[:, None] - points[chosen]).max(axis=2)
            far = left & (gaps > distance).all(axis=1) if distance > 1e-6 else left.copy()
            continue
        best = int(np.argmax(np.where(far, values, -np.inf)))
        chosen.append(best)
        left[best] = False
        far &= left & (np.abs(points - points[best]).max(axis=1) > distance)
    impossible = np.flatnonzero(~np.isfinite(values))[: count - len(chosen)]  # points of NaN
    return np.array([*chosen, *impossible], int)


def explain_no_start(
    objective: Objective, n_starts: int, given_points: Sequence[np.ndarray] = ()
) -> NoReturn:
    """Raise what is wrong where no start is possible: most often a sample that contradicts."""
    middle = np.array([support.middle for support in objective.supports])
    log_likelihood(objective.at(given_points[0] if len(given_points) else middle), objective.trials)
    tried = len(given_points) + n_starts * DRAWN_PER_START
    raise ConvergenceError(
        f"none of {tried} points within the supports has a finite likelihood: narrow the supports, "
        "or check units, targets and recording noise"
    )
