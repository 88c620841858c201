"""The maxima of a posterior, from which samplers begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from motorcost.errors import InputError
from motorcost.fitting.estimate import fit
from motorcost.fitting.fitted import Fit
from motorcost.fitting.objective import Objective
from motorcost.fitting.progress import Progress
from motorcost.fitting.specification import make_objective
from motorcost.model.trials import Trials
from motorcost.posterior.kept import Arrays, Kept
from motorcost.posterior.laplace import DensityOnHost, Peak, find_peak
from motorcost.posterior.modes import Hill
from motorcost.posterior.priors import Prior
from motorcost.posterior.target import Target
from motorcost.posterior.words import too_narrow
from motorcost.sweeps.identity import settings_of
from motorcost.tasks.declarations import Task
from motorcost.tasks.supports import Support

# Maxima of the posterior from which chains begin: those at most this much below the best.
WITHIN_REACH = 10.0


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
    hills = tuple(_hill(target, peak, peaks[0].log_density) for peak in peaks)
    verdicts = tuple(str(verdict) for verdict in stored["verdicts"])
    return target, Maxima(peaks, hills, verdicts, int(stored["size"]))


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
    found = fit(task, trials, _free(priors), key=key, priors=True, progress=report, **search)
    if found.interrupted:
        raise KeyboardInterrupt
    for values in search["starts"]:
        point = np.asarray(found.objective.point(values))
        value = float(found.objective.log_likelihoods(jnp.asarray(point)).sum())
        if not np.isfinite(value):
            shown = ", ".join(f"{name}={number:g}" for name, number in values.items())
            raise InputError(f"the trials have no likelihood at the start {shown}: it is -inf")
    return found


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


def _hill(target: Target, peak: Peak, best: float) -> Hill:
    """A maximum on the search scale, with the parameters there."""
    slopes = np.asarray(jax.jacfwd(target.to_search_scale)(jnp.asarray(peak.point)))
    point = np.asarray(target.to_search_scale(jnp.asarray(peak.point)))
    covariance = slopes @ peak.covariance @ slopes.T
    values = {name: float(value) for name, value in target.objective.values(point).items()}
    return Hill(point, np.linalg.pinv(covariance), peak.log_density - best, values)
