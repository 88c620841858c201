"""Simulation-based calibration: does a sampler give the posterior that it says it gives?

Parameters are drawn from the priors, trials are simulated with them, and their posterior is
sampled. If model, priors and sampler agree, the rank of the true value among draws of the posterior
is uniform, and intervals contain it as often as they say (Talts et al. 2018).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from motorcost import checks
from motorcost.errors import ConvergenceError, InputError
from motorcost.fitting.specification import FixedObserver, make_objective, takes_arguments
from motorcost.model.joining import concatenate
from motorcost.model.observer import Observer, ObserverLike, ObserverSpec, resolve_observer
from motorcost.model.simulate import simulate
from motorcost.model.solver import solve
from motorcost.posterior.calibrated import LEAST_IN_BIN, Calibration
from motorcost.posterior.laplace import (
    DensityOnHost,
    Peak,
    dispersed,
    find_peak,
    normal_draws,
)
from motorcost.posterior.nuts import TARGET_ACCEPT, run_nuts
from motorcost.posterior.priors import Prior, prior_of
from motorcost.posterior.smc import sample_smc
from motorcost.posterior.target import Target
from motorcost.sweeps import sweep
from motorcost.sweeps.progress import SweepProgress
from motorcost.tasks import parameters as declared_parameters
from motorcost.tasks import typical_values
from motorcost.tasks.declarations import Task
from motorcost.tasks.supports import LogNormal, Normal, Support

# From a posterior, a key and a number of draws to draws on the unconstrained scale (chains, draws,
# parameters), where draws that are far apart are nearly independent.
Sampler = Callable[[Target, Any, int], np.ndarray]
# SD of the usual priors around the task's default: of the logarithm, or as a part of the support.
USUAL_LOG_SD = 0.5
USUAL_SD = 0.1
# Draws among which the true value is ranked: 64 ranks can be put into 16, 8 or 4 equal bins.
RANKED = 63
# Draws that adapt the No-U-Turn sampler.
WARMUP = 200


def _by_smc(target: Target, key: Any, n_draws: int) -> np.ndarray:
    return sample_smc(target, key, n_draws=n_draws, n_populations=1).points


def _by_laplace(target: Target, key: Any, n_draws: int) -> np.ndarray:
    return normal_draws(_peak(target)[0], key, 1, n_draws)


def _by_nuts(target: Target, key: Any, n_draws: int) -> np.ndarray:
    peak, evaluate = _peak(target)
    keys = jax.random.split(key)
    starts = dispersed(evaluate, [peak], keys[0])
    return run_nuts(
        target,
        starts,
        peak.covariance[None],
        keys[1],
        n_draws=n_draws,
        n_warmup=WARMUP,
        target_accept=TARGET_ACCEPT,
    ).draws


def _peak(target: Target) -> tuple[Peak, DensityOnHost]:
    """The maximum of a posterior that is reached from the middle of the priors."""
    evaluate = DensityOnHost(target, 2 * len(target.objective.coordinates))
    middle = jnp.array([support.middle for support in target.objective.supports])
    return find_peak(evaluate, np.asarray(target.to_unconstrained(middle))), evaluate


SAMPLERS: dict[str, Sampler] = {"smc": _by_smc, "nuts": _by_nuts, "laplace": _by_laplace}


@dataclass(frozen=True)
class CalibrationSet:
    """Simulates and samples one data set: the function that `calibrate` sweeps.

    - `priors`: pairs of names and priors; `conditions`: pairs of names and values. The other fields
      are as in `calibrate`.

    It returns, for each parameter: `effort_true`; `effort_rank`, how many of `RANKED` draws lie
    below; and `effort_below`, the share of all draws that do.
    """

    task: Task
    priors: tuple[tuple[str, Prior], ...]
    n_trials: int
    n_draws: int
    method: str
    observer: Any
    fixed: tuple[tuple[str, Any], ...]
    conditions: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    def __call__(self, key: Any, data_set: int) -> dict[str, float]:
        """The ranks of one data set, whose number only makes its key differ."""
        keys = jax.random.split(key, 3)
        priors = dict(self.priors)
        points = {
            name: float(prior.draw(jax.random.fold_in(keys[0], i), ()))
            for i, (name, prior) in enumerate(priors.items())
        }
        truth = {
            name: float(prior.support.from_search_scale(points[name]))
            for name, prior in priors.items()
        }
        target = self.target(keys[1], truth)
        draws = SAMPLERS[self.method](target, keys[2], self.n_draws)
        found = np.asarray(
            jax.vmap(target.to_search_scale)(jnp.asarray(draws.reshape(-1, len(priors))))
        )
        if not np.isfinite(found).all():
            raise ConvergenceError("the sampler returned draws that are not finite")
        # Far apart in every chain, so that they are nearly independent.
        ranked = found[np.linspace(0, len(found) - 1, RANKED).round().astype(int)]
        row: dict[str, float] = {}
        for k, name in enumerate(priors):
            row[f"{name}_true"] = truth[name]
            row[f"{name}_rank"] = int((ranked[:, k] < points[name]).sum())
            row[f"{name}_below"] = float((found[:, k] < points[name]).mean())
        return row

    def target(self, key: Any, truth: Mapping[str, float]) -> Target:
        """The posterior of trials that are simulated with these values."""
        noises = self.observer.parameters if isinstance(self.observer, ObserverSpec) else ()
        of_task = {name: value for name, value in truth.items() if name not in noises}
        of_observer = {name: value for name, value in truth.items() if name in noises}
        observer = self.observer
        if of_observer:
            observer = observer.with_noises(of_observer)
        kinds = self._kinds()
        parts = []
        for number, kind in enumerate(kinds):
            problem = self.task(**dict(self.fixed), **of_task, **kind)
            trials = simulate(
                problem,
                solve(problem),
                n_trials=len(range(number, self.n_trials, len(kinds))),
                key=key if len(kinds) == 1 else jax.random.fold_in(key, number),
                observer=resolve_observer(problem, observer),
            )
            # The trials' lengths tell the steps.
            parts.append(trials.with_conditions(**{n: v for n, v in kind.items() if n != "steps"}))
        trials = concatenate(parts)
        free = {name: prior.support for name, prior in self.priors}
        fixed = {name: value for name, value in self.fixed if name != "steps"}
        objective = make_objective(self.task, trials, free, fixed=fixed, observer=self.observer)
        return Target(objective, tuple(prior for _, prior in self.priors))

    def _kinds(self) -> list[dict[str, Any]]:
        """The values of the conditions in each kind of trial; trials are of the kinds in turn."""
        if not self.conditions:
            return [{}]
        names = [name for name, _ in self.conditions]
        columns = [values for _, values in self.conditions]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def calibrate(
    task: Task,
    priors: Mapping[str, Any] | Sequence[str],
    *,
    n_trials: int = 50,
    n_sets: int = 100,
    n_draws: int = 640,
    method: str = "smc",
    observer: ObserverLike = None,
    fixed: Mapping[str, Any] | None = None,
    conditions: Mapping[str, Sequence[Any]] | None = None,
    folder: Path | str | None = None,
    workers: int | None = None,
    seed: int = 0,
    progress: Callable[[SweepProgress], Any] | None = None,
) -> Calibration:
    """Simulate data sets with parameters from the priors, sample the posterior of each, and count
    where the true values lie: are posteriors of this task to be believed?

    - `priors`: by name, `mc.LogNormal(1e-5, 0.5)` and the like, or distributions of NumPyro. A name
      alone, or None, takes the usual one: log-normal around the task's default with an SD of 0.5 (a
      factor of 1.6), or normal with a tenth of the support's width. The supports of fits reach
      over many decades, where most movements would say nothing.
    - `n_trials`: trials in each of `n_sets` data sets.
    - `n_draws`: of each posterior; `method`: how it is sampled.
    - `observer`, `fixed`: as in `fit`.
    - `conditions`: values that differ between trials, which take them in turn:
      `{"target": [0.05, 0.1, 0.15]}`; several lists go together.
    - `folder`, `workers`, `progress`: as in `sweep`. The same call continues after an interruption.
    - `seed`: the same seed gives the same data sets.

    A data set whose simulation or sampler fails is counted, and its error is in the table.

    Examples
    --------
    >>> found = mc.calibrate(
    ...     mc.tasks.reaching,
    ...     ["effort"],
    ...     fixed={"steps": 12},
    ...     n_trials=5,
    ...     n_sets=10,
    ...     n_draws=64,
    ...     method="laplace",
    ... )
    >>> len(found.table)
    10
    """
    checks.require_float64()
    checks.one_of("method", method, list(SAMPLERS))
    checks.whole("n_trials", n_trials, 1, "trials in each data set")
    checks.whole("n_sets", n_sets, 2 * LEAST_IN_BIN, "data sets")
    checks.whole("n_draws", n_draws, RANKED, "draws of each posterior")
    chosen = chosen_priors(task, priors, observer)
    for name in fixed or {}:
        checks.one_of("parameter", name, takes_arguments(task))
        if name in chosen:
            raise InputError(f"{name} cannot be both free and fixed")
    of_trials = _checked_conditions(task, conditions or {}, [*chosen, *(fixed or {})], n_trials)
    data_set = CalibrationSet(
        task=task,
        priors=tuple(chosen.items()),
        n_trials=n_trials,
        n_draws=n_draws,
        method=method,
        observer=FixedObserver(observer) if isinstance(observer, Observer) else observer,
        fixed=tuple((fixed or {}).items()),
        conditions=of_trials,
    )
    table = sweep(
        data_set,
        {"data_set": list(range(n_sets))},
        seed=seed,
        folder=folder,
        workers=workers,
        progress=progress,
    )
    return Calibration(
        table=table,
        names=tuple(chosen),
        n_ranks=RANKED + 1,
        task=getattr(task, "__name__", type(task).__name__),
        priors={name: str(prior) for name, prior in chosen.items()},
        n_trials=n_trials,
        method=method,
    )


def _checked_conditions(
    task: Task, conditions: Mapping[str, Sequence[Any]], others: Sequence[str], n_trials: int
) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Conditions as pairs of names and values, as many of each."""
    columns = []
    for name, values in conditions.items():
        checks.one_of("condition", name, takes_arguments(task))
        if name in others:
            raise InputError(f"{name} cannot be a condition and free or fixed")
        numbers = np.asarray(values)
        if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.number):
            raise InputError(f"the condition {name} needs a list of numbers, got {values!r}")
        columns.append((name, tuple(numbers.tolist())))
    counts = {name: len(values) for name, values in columns}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise InputError(f"conditions go together, so there must be as many of each, got {shown}")
    if columns and not 1 <= len(columns[0][1]) <= n_trials:
        raise InputError(
            f"{n_trials} trials cannot have {len(columns[0][1])} different conditions in turn"
        )
    return tuple(columns)


def chosen_priors(task: Task, priors: Any, observer: Any) -> dict[str, Prior]:
    """The priors by name, as given or the usual ones."""
    if isinstance(priors, str) or not isinstance(priors, (Mapping, Sequence)) or not priors:
        raise InputError(f"priors must name parameters with their priors, got {priors!r}")
    given = priors if isinstance(priors, Mapping) else dict.fromkeys(priors)
    noises = observer.parameters if isinstance(observer, ObserverSpec) else ()
    declared = declared_parameters(task) if hasattr(task, "parameters") else {}
    chosen = {}
    for name, prior in given.items():
        checks.one_of("parameter", name, [*takes_arguments(task), *noises])
        usual = declared[name].support if name in declared else None
        value = _usual_prior(task, name, usual) if prior is None else prior
        chosen[name] = prior_of(name, value, usual)
        if chosen[name].support.per is not None:
            raise InputError(f"the prior of {name}: calibration has no groups, leave out per=")
    return chosen


def _usual_prior(task: Task, name: str, usual: Support | None) -> Support:
    """A prior around the task's default, within what the task takes."""
    default = typical_values(task).get(name) if usual is not None else None
    if usual is None or not isinstance(default, (int, float)) or not math.isfinite(default):
        raise InputError(f"{name} has no usual prior: give one, as in mc.LogNormal(1e-5, 0.5)")
    if usual.logarithmic:
        return LogNormal(float(default), USUAL_LOG_SD, low=usual.low, high=usual.high)
    sd = USUAL_SD * (usual.high - usual.low)
    return Normal(float(default), sd, low=usual.low, high=usual.high)
