"""The maxima of a posterior, from which samplers begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from motorcost.errors import InputError
from motorcost.fitting.batching import BatchedObjective
from motorcost.fitting.estimate import fit, given_point, points_together
from motorcost.fitting.fitted import Fit
from motorcost.fitting.objective import Objective
from motorcost.fitting.progress import Progress
from motorcost.fitting.specification import make_objective
from motorcost.model.trials import Trials
from motorcost.posterior.kept import Arrays, Kept
from motorcost.posterior.laplace import DensityOnHost, Peak, find_peak
from motorcost.posterior.modes import WORTH_A_WORD, Hill, far_from_all, square_distances
from motorcost.posterior.priors import Prior
from motorcost.posterior.target import Target
from motorcost.posterior.words import too_narrow
from motorcost.sweeps.identity import settings_of
from motorcost.tasks.declarations import Task
from motorcost.tasks.supports import Support

# Maxima of the posterior from which chains begin: those at most this much below the best.
WITHIN_REACH = 10.0
# Climbs from draws that lie far from all known maxima.
MOST_CLIMBS = 8


@dataclass(frozen=True)
class Maxima:
    """The maxima of a posterior within reach of the best.

    - `peaks`: on the unconstrained scale, the highest first. `hills`: the same, on the search
      scale.
    - `verdicts`: what the fit says of intervals, in sentences.
    - `size`: how many points are evaluated together.
    """

    peaks: tuple[Peak, ...]
    hills: tuple[Hill, ...]
    verdicts: tuple[str, ...]
    size: int


def find_maxima(
    task: Task,
    trials: Trials,
    priors: Mapping[str, Prior | None],
    key: Any,
    search: Mapping[str, Any],
    report: Progress,
    kept: Kept,
) -> tuple[Target, Maxima]:
    """The posterior of trials and its maxima, which are those of a fit unless they are kept."""
    stored: Arrays | None = kept.read("maxima")
    if stored is None:
        found = first_fit(task, trials, priors, key, search, report)
        objective = found.objective
        target = target_of(objective, priors)
        stored = _as_arrays(target, found, _peaks(target, found))
        kept.write("maxima", stored)
    else:
        objective = objective_of(task, trials, priors, search)
        target = target_of(objective, priors)
    require_same_task(objective, stored)
    stored_peaks = zip(
        stored["points"], stored["log_densities"], stored["covariances"], strict=True
    )
    peaks = tuple(
        Peak(point, float(value), covariance) for point, value, covariance in stored_peaks
    )
    hills = tuple(hill_of(target, peak, peaks[0].log_density) for peak in peaks)
    verdicts = tuple(str(verdict) for verdict in stored["verdicts"])
    return target, Maxima(peaks, hills, verdicts, int(stored["size"]))


def hills_among(
    target: Target, maxima: Maxima, free: np.ndarray, points: np.ndarray, log_densities: np.ndarray
) -> tuple[Hill, ...]:
    """The known maxima and those that other draws lie around.

    A search may miss a maximum that draws of all the prior find. From the best of the draws that
    lie far from every maximum a climb leads to another one, or back to a known one, whose tail
    these draws are; until few are left.

    - `free`, `points`, `log_densities`: of draws (n), on the unconstrained and the search scale.
    """
    evaluate = DensityOnHost(target, maxima.size)
    hills, unexplained = list(maxima.hills), np.ones(len(points), bool)
    for _ in range(MOST_CLIMBS):
        unexplained &= far_from_all(points, hills)
        if unexplained.mean() < WORTH_A_WORD:
            break
        start = np.flatnonzero(unexplained)[np.argmax(log_densities[unexplained])]
        peak = find_peak(evaluate, free[start])
        hill = hill_of(target, peak, maxima.peaks[0].log_density)
        if far_from_all(hill.point[None], hills)[0]:
            hills.append(hill)
            continue
        around_start = replace(hill, point=points[start])
        radius = square_distances(hill.point[None], around_start)[0]
        unexplained &= square_distances(points, around_start) > radius
    return tuple(hills)


def _as_arrays(target: Target, found: Fit, peaks: list[Peak]) -> Arrays:
    return {
        "points": np.stack([peak.point for peak in peaks]),
        "log_densities": np.array([peak.log_density for peak in peaks]),
        "covariances": np.stack([peak.covariance for peak in peaks]),
        "verdicts": np.array(too_narrow(found), dtype=str),
        "size": np.asarray(found.size),
        **identity_of(target.objective, found.point),
    }


def identity_of(objective: Objective, point: np.ndarray) -> Arrays:
    """What a task is known by: the problem and the observer that it makes at a point."""
    problem, observer = objective.first_problem(jnp.asarray(point))
    shown = settings_of(partial(dict, problem=problem, observer=observer))
    return {"at": np.asarray(point), "problem": np.asarray(str(shown))}


def require_same_task(objective: Objective, stored: Arrays) -> None:
    """Raise if the task makes another problem than it did for what is stored."""
    if str(identity_of(objective, stored["at"])["problem"]) != str(stored["problem"]):
        raise InputError(
            "the task has changed since this sampling began: choose another folder, or delete "
            "the one that it is kept in"
        )


def objective_of(
    task: Task, trials: Trials, priors: Mapping[str, Prior | None], search: Mapping[str, Any]
) -> Objective:
    """The objective of the first fit."""
    return make_objective(
        task, trials, _free(priors), fixed=search["fixed"], observer=search["observer"]
    )


def _free(priors: Mapping[str, Prior | None]) -> dict[str, Support | None]:
    return {name: None if prior is None else prior.support for name, prior in priors.items()}


def first_fit(
    task: Task,
    trials: Trials,
    priors: Mapping[str, Prior | None],
    key: Any,
    search: Mapping[str, Any],
    report: Progress,
) -> Fit:
    """The maxima of the posterior, from which samplers begin."""
    if search["starts"]:
        _require_possible(
            objective_of(task, trials, priors, search), search["starts"], search["n_starts"]
        )
    found = fit(task, trials, _free(priors), key=key, priors=True, progress=report, **search)
    if found.interrupted:
        raise KeyboardInterrupt
    return found


def _require_possible(
    objective: Objective, starts: Sequence[Mapping[str, float]], n_starts: int
) -> None:
    """Raise if the trials have no likelihood at a start, before a fit is spent on the others."""
    points = [given_point(objective, number, values) for number, values in enumerate(starts)]
    # The program of the fit that follows.
    size = points_together(objective, n_starts + len(points))
    evaluate = BatchedObjective(objective, expected=size, priors=True)
    log_densities, _ = evaluate(np.zeros(len(points), int), np.stack(points))
    for values, log_density in zip(starts, log_densities, strict=True):
        if not np.isfinite(log_density):
            shown = ", ".join(f"{name}={value:g}" for name, value in values.items())
            raise InputError(f"the trials have no likelihood at the start {shown}: it is -inf")


def target_of(objective: Objective, priors: Mapping[str, Prior | None]) -> Target:
    """The posterior density of an objective's trials; usual supports stand for priors that were
    left out."""
    supports = {c.parameter: c.support for c in objective.coordinates}
    in_order = [priors[name] or Prior(support) for name, support in supports.items()]
    return Target(objective, tuple(in_order))


def _peaks(target: Target, found: Fit) -> list[Peak]:
    """The maxima of the posterior on the unconstrained scale, the highest first, within reach of
    the best."""
    evaluate = DensityOnHost(target, found.size)
    peaks: list[Peak] = []
    for maximum in found.maxima:
        if maximum.below > WITHIN_REACH:
            continue
        start = np.asarray(target.to_unconstrained(jnp.asarray(maximum.point)))
        peak = find_peak(evaluate, start)
        if all(_apart(peak, other) for other in peaks):
            peaks.append(peak)
    peaks.sort(key=lambda peak: -peak.log_density)
    return peaks


def _apart(peak: Peak, other: Peak) -> bool:
    """Whether two maxima are different ones: more than half a standard error apart."""
    gap = peak.point - other.point
    return bool(gap @ np.linalg.solve(other.covariance, gap) > 0.25)


def hill_of(target: Target, peak: Peak, best: float) -> Hill:
    """A maximum on the search scale, with the parameters there."""
    slopes = np.asarray(jax.jacfwd(target.to_search_scale)(jnp.asarray(peak.point)))
    point = np.asarray(target.to_search_scale(jnp.asarray(peak.point)))
    covariance = slopes @ peak.covariance @ slopes.T
    values = {name: float(value) for name, value in target.objective.values(point).items()}
    return Hill(point, np.linalg.pinv(covariance), peak.log_density - best, values)
