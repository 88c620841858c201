"""What one trial tells about parameters, from simulated trials."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from motorcost.fitting.objective import Objective, scores
from motorcost.fitting.polishing import trial_scores
from motorcost.fitting.progress import Progress, silent


class TrialInformation(NamedTuple):
    """Means over trials, per trial and on the search scale, of each batch and condition.

    - `curvatures`: minus the second derivative of the log likelihood.
    - `squares`: the outer product of the score, which is the Fisher information if the likelihood
      is exact; the curvature has the same mean then.
    """

    curvatures: Float[np.ndarray, "B C p p"]
    squares: Float[np.ndarray, "B C p p"]


def trial_information(
    objective: Objective,
    point: Float[np.ndarray, " p"],
    samples: tuple[int, int, int],
    progress: Progress = silent,
) -> TrialInformation:
    """What a trial of each condition tells about a point, at which the trials were simulated.

    `samples` is how the objective's trials are ordered: in so many batches, with so many trials of
    each of so many conditions, where the condition changes fastest.
    """
    p, done = len(point), 0

    def scores_at(at: np.ndarray) -> np.ndarray:
        nonlocal done
        found = np.asarray(scores(objective, jnp.asarray(at))[1])
        done += 1
        progress("information", done, 1 + 2 * p)
        return found

    def many_scores(_: np.ndarray, points: np.ndarray) -> np.ndarray:
        return np.stack([scores_at(at).ravel() for at in points])

    progress("information", 0, 1 + 2 * p)
    slopes = scores_at(point)
    second = trial_scores(many_scores, objective.supports, point[None], np.zeros(1, int))
    bends = -second.reshape(len(slopes), p, p)
    bends = (bends + np.swapaxes(bends, 1, 2)) / 2
    squares = slopes[:, :, None] * slopes[:, None, :]
    by_condition = [part.reshape(*samples, *part.shape[1:]) for part in (slopes, bends, squares)]
    slopes, bends, squares = by_condition
    return TrialInformation(_mean_curvatures(slopes, bends), squares.mean(axis=1))


def _mean_curvatures(
    slopes: Float[np.ndarray, "B R C p"], bends: Float[np.ndarray, "B R C p p"]
) -> Float[np.ndarray, "B C p p"]:
    """The mean curvature of each batch and condition, with the scores as control variates.

    Along combinations of parameters that trials hardly tell, the curvature of a trial varies far
    more than its mean is large. Most of that is shared with the score, whose mean is known to be 0
    at the maximum of the expected likelihood: what a linear regression on the score explains of a
    mean curvature is chance, and is taken away.
    """
    B, _, C, p = slopes.shape
    means = bends.mean(axis=1)
    for c in range(C):
        x, y = slopes[:, :, c].reshape(-1, p), bends[:, :, c].reshape(-1, p * p)
        slope, *_ = np.linalg.lstsq(x - x.mean(axis=0), y - y.mean(axis=0), rcond=None)
        chance = slopes[:, :, c].mean(axis=1) @ slope
        means[:, c] -= chance.reshape(B, p, p)
    return means


def information_about_maximum(
    curvature: Float[np.ndarray, "*batch p p"], squares: Float[np.ndarray, "*batch p p"]
) -> Float[np.ndarray, "*batch p p"]:
    """The information of trials about the maximum of the likelihood that is used.

    With signal-dependent noise that likelihood is approximate: the mean square of its score, J,
    is not its mean curvature, I, and the maximum varies by I^-1 J I^-1 from experiment to
    experiment (Godambe's information, inverted). Without such noise, I = J.
    """
    return curvature @ np.linalg.pinv(squares, hermitian=True) @ curvature
