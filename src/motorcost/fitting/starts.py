"""Where searches begin: at the best of many points drawn from the supports."""

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
DRAWN_PER_START = 4


def choose_starts(
    objective: Objective,
    evaluate: Evaluate,
    keys: Any,
    n_starts: int,
    given: Sequence[np.ndarray] = (),
) -> np.ndarray:
    """For each data set (one per key) the `given` points and the best `n_starts` of those drawn.

    Returned with shape (data sets, starts, p); NaN in place of points without a finite likelihood
    and gradient.
    """
    D, p = len(keys), len(objective.coordinates)
    drawn = np.zeros((D, 0, p))
    if n_starts:
        shape = (n_starts * DRAWN_PER_START,)
        of_coordinates = jax.vmap(lambda key: jax.random.split(key, p))(keys)
        columns = [
            np.asarray(jax.vmap(lambda key, s=support: s.draw(key, shape))(of_coordinates[:, k]))
            for k, support in enumerate(objective.supports)
        ]
        drawn = np.stack(columns, axis=2)
    fixed = np.broadcast_to(np.reshape(given, (1, -1, p)), (D, len(given), p))
    points = np.concatenate([fixed, drawn], axis=1)
    which = np.repeat(np.arange(D), points.shape[1])
    values, gradients = evaluate(which, points.reshape(-1, p))
    possible = np.isfinite(values) & np.isfinite(gradients).all(axis=1)
    values = np.where(possible, values, -np.inf).reshape(points.shape[:2])
    points = np.where(np.isfinite(values)[..., None], points, np.nan)
    best = np.argsort(-values[:, len(given) :], axis=1, kind="stable")[:, :n_starts]
    kept = np.take_along_axis(points[:, len(given) :], best[..., None], axis=1)
    return np.concatenate([points[:, : len(given)], kept], axis=1)


def explain_no_start(
    objective: Objective, n_starts: int, given: Sequence[np.ndarray] = ()
) -> NoReturn:
    """Raise what is wrong where no start is possible: most often a sample that contradicts."""
    middle = np.array([support.middle for support in objective.supports])
    log_likelihood(objective.at(given[0] if len(given) else middle), objective.trials)
    tried = len(given) + n_starts * DRAWN_PER_START
    raise ConvergenceError(
        f"none of {tried} points within the supports has a finite likelihood: narrow the supports, "
        "or check units, targets and recording noise"
    )
