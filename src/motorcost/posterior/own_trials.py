"""What people's own trials tell of them, before the population that they are drawn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from motorcost.fitting.fitted import Fit
from motorcost.fitting.objective import Objective
from motorcost.fitting.optimise import search_by_gradient
from motorcost.fitting.progress import Progress
from motorcost.posterior.laplace import DensityOnHost, covariance_of
from motorcost.posterior.population import (
    Alone,
    from_population_scale,
    has_odds,
    to_population_scale,
)
from motorcost.posterior.priors import Prior
from motorcost.posterior.words import people_too_narrow

# The SD, on the search scale, of the wide prior of people by themselves; of a parameter that is not
# on a log scale, as a part of its width.
WIDE, WIDE_PART = 2.0, 0.25
# The step of differences of gradients, on a log scale.
STEP = 0.01
# How close to an end of its support a person's value is looked for, as a part of the width.
NEAR_END, ENDS = 0.01, np.array([1.0, -1.0])
EVALUATIONS = 400


@dataclass(frozen=True)
class Told:
    """What people's own trials tell.

    - `estimates` (person, varying): of the parameters that vary, on the population scale, with a
      wide normal prior around the estimate of all people together; `variances`: theirs.
    - `point`: the objective's point there; `information`: minus the second derivative of the log
      likelihood.
    - `verdicts`: what the scores of people's trials say, in sentences.
    """

    estimates: np.ndarray
    variances: np.ndarray
    point: np.ndarray
    information: np.ndarray
    verdicts: np.ndarray


def told_by_trials(
    objective: Objective,
    pooled: Fit,
    varying: Sequence[str],
    n_people: int,
    n_chains: int,
    report: Progress,
) -> Told:
    """The maximum of every person's likelihood, all searched together, with its curvature."""
    at = dict(zip(pooled.names, pooled.point, strict=True))
    start = np.array([at[c.parameter] for c in objective.coordinates])
    sd = [WIDE if s.logarithmic else WIDE_PART * s.width for s in objective.supports]
    alone = Alone(objective, jnp.asarray(start), jnp.asarray(sd))
    # One search asks for a point at a time: a batch of more would be filled up. The batch of the
    # chains' starts is used throughout, so that one program is compiled.
    evaluate = DensityOnHost(alone, n_chains)

    def to_minimise(_: np.ndarray, points: np.ndarray) -> Any:
        values, gradients = evaluate(points)
        return -values, -gradients, None

    bounds = np.stack([start - 20.0 * np.array(sd), start + 20.0 * np.array(sd)], axis=1)
    for i, support in enumerate(objective.supports):
        if has_odds(support):  # people's values have log odds only between the ends
            inside = np.array([support.low, support.high]) + NEAR_END * support.width * ENDS
            bounds[i] = np.clip(bounds[i], *inside)
    (found,), interrupted = search_by_gradient(
        to_minimise, start[None], bounds, tolerance=1e-3, max_evaluations=EVALUATIONS
    )
    if interrupted:
        raise KeyboardInterrupt
    report("fitting people", 1, 1)
    moves = _moves(len(varying), n_people, np.array(sd))
    information = _information(evaluate, found.point, len(varying), n_people, moves, np.array(sd))
    scores = _scores(evaluate, found.point, moves[: len(varying)])
    unit = np.array(sd) / WIDE  # so that what counts as large does not depend on units
    own = information + np.diag(np.array(sd) ** -2.0)
    variances = np.diagonal(covariance_of(own * np.outer(unit, unit))) * unit**2
    supports = [objective.coordinates[j * n_people].support for j in range(len(varying))]
    estimates, spread = np.zeros((n_people, len(varying))), np.zeros((n_people, len(varying)))
    for j, support in enumerate(supports):
        points = jnp.asarray(found.point[j * n_people : (j + 1) * n_people])
        estimates[:, j] = to_population_scale(support, points)
        slope = jax.vmap(jax.grad(lambda x, s=support: to_population_scale(s, x)))(points)
        spread[:, j] = variances[j * n_people : (j + 1) * n_people] * np.asarray(slope) ** 2
    verdicts = _verdicts(objective, varying, n_people, information, scores)
    return Told(estimates, spread, found.point, information, np.array(verdicts, dtype=str))


def _verdicts(
    objective: Objective,
    varying: Sequence[str],
    n_people: int,
    information: np.ndarray,
    scores: np.ndarray,
) -> list[str]:
    """Whether people's trials vary more than the likelihood says, at their own estimates."""
    supports = [objective.coordinates[j * n_people].support for j in range(len(varying))]
    labels = np.unique(objective.trials.conditions[supports[0].per or ""], return_inverse=True)[1]
    by_person = []
    for person in range(n_people):
        own = np.arange(len(varying)) * n_people + person
        by_person.append((information[np.ix_(own, own)], scores[labels == person]))
    return people_too_narrow(varying, supports, by_person)


def _moves(varying: int, n_people: int, sd: np.ndarray) -> np.ndarray:
    """Small moves of the objective's point: no person affects another's likelihood, so that one
    parameter of all people is moved at once."""
    p = len(sd)
    moves = [np.repeat(np.eye(varying)[j], n_people) for j in range(varying)]
    moves = [np.concatenate([m, np.zeros(p - varying * n_people)]) for m in moves]
    moves += [np.eye(p)[q] for q in range(varying * n_people, p)]
    size = STEP * np.array([sd[np.flatnonzero(move)[0]] / WIDE for move in moves])
    return size[:, None] * np.stack(moves)


def _scores(evaluate: DensityOnHost, point: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """The derivatives of each trial's log likelihood (N, moves), by its own person's parameters."""
    around = np.concatenate([point + moves, point - moves])
    values = evaluate.batched.per_trial(np.zeros(len(around), int), around)
    above, below = np.split(values, 2)
    return ((above - below) / (2 * moves.max(axis=1))[:, None]).T


def _information(
    evaluate: DensityOnHost,
    point: np.ndarray,
    varying: int,
    n_people: int,
    moves: np.ndarray,
    sd: np.ndarray,
) -> np.ndarray:
    """Minus the second derivatives of the log likelihood."""
    p, size = len(point), moves.max(axis=1)
    slopes = evaluate(np.concatenate([point + moves, point - moves]))[1]
    of_prior = (moves > 0) * sd**-2.0
    change = -(slopes[: len(moves)] - slopes[len(moves) :]) / (2 * size[:, None]) - of_prior
    information = np.zeros((p, p))
    for j in range(varying):
        rows = j * n_people + np.arange(n_people)
        for a in range(varying):
            columns = a * n_people + np.arange(n_people)
            information[rows, columns] = change[j][columns]
    for i, q in enumerate(range(varying * n_people, p)):
        information[q, :] = change[varying + i]
        information[:, q] = change[varying + i]
    return (information + information.T) / 2


def alone_in_words(
    told: Told, priors: Mapping[str, Prior], varying: Sequence[str], people: Sequence[str]
) -> dict[str, dict[str, list[float]]]:
    """Each person's estimate and 95 % interval by parameter, from their own trials and a wide
    normal prior around the estimate of all together (see `WIDE`): without any prior, few trials may
    have no maximum. An interval is that of a normal distribution of the same curvature."""
    result: dict[str, dict[str, list[float]]] = {}
    for j, name in enumerate(varying):
        support = priors[name].support
        sd = np.sqrt(told.variances[:, j])
        ends = [told.estimates[:, j] + z * sd for z in (0.0, -1.96, 1.96)]
        natural = [
            np.asarray(support.from_search_scale(from_population_scale(support, jnp.asarray(e))))
            for e in ends
        ]
        result[name] = {p: [float(n[i]) for n in natural] for i, p in enumerate(people)}
    return result
