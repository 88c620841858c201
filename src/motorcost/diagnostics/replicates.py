"""New trials of the same design: what the fitted model would have done."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.fitting.fitted import Fit
from motorcost.fitting.objective import Objective
from motorcost.inference.filter import filter_setting, run_filter
from motorcost.inference.grouping import Group, group_trials
from motorcost.model.observer import Observer
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.model.simulate import simulate
from motorcost.model.trials import Trials
from motorcost.numerics.compiling import lean_jit
from motorcost.numerics.linalg import map_leading_axis


def simulate_like(fit: Fit, *, key: Any, n_replicates: int = 1) -> Trials:
    """Trials of experiments like the one that was fitted, simulated at the estimates.

    They have the same lengths, conditions, starts and missing samples. The condition `replicate`
    numbers the experiments, from 0.

    Examples
    --------
    >>> again = mc.simulate_like(fit, key=jax.random.key(0), n_replicates=3)
    >>> again.observed.shape
    (24, 12, 1)
    """
    samples = replicated_samples(fit, n_replicates=n_replicates, key=key)
    R, N, T, o = samples.shape
    trials = fit.trials
    starts = None if trials.starts is None else jnp.tile(trials.starts, (R, 1))
    conditions = {name: np.tile(values, R) for name, values in trials.conditions.items()}
    return Trials(
        samples.reshape(R * N, T, o),
        trials.times,
        starts=starts,
        channels=dict(zip(trials.channel_names, trials.channel_units, strict=True)),
        lengths=np.tile(trials.lengths, R),
        conditions=conditions | {"replicate": np.repeat(np.arange(R), N)},
    )


def replicated_samples(fit: Fit, *, n_replicates: int, key: Any) -> Float[np.ndarray, "R N T o"]:
    """The samples of `simulate_like`, with an axis of experiments in front."""
    checks.random_key(key)
    checks.whole("n_replicates", n_replicates, 1, "experiments to simulate")
    return np.asarray(samples_at(fit.objective, jnp.asarray(fit.point), n_replicates, key))


@dataclass(frozen=True)
class FilteredExperiments:
    """The recorded experiment and R simulated ones, through the filter at the estimates.

    The first axis is that of experiments: the recorded one first, then the simulated ones. All have
    the same samples missing.

    - `samples`, `innovations`: of every experiment; see `Beliefs.innovations`.
    - `log_likelihoods`: of each trial.
    - `course`: the exact mean of the samples of each trial, in the model.
    """

    samples: Float[np.ndarray, "E N T o"]
    innovations: Float[np.ndarray, "E N T o"]
    log_likelihoods: Float[np.ndarray, "E N"]
    course: Float[np.ndarray, "N T o"]


def filtered_experiments(fit: Fit, *, n_replicates: int, key: Any) -> FilteredExperiments:
    """Simulate experiments like the fitted one, and filter them and the recorded one."""
    checks.random_key(key)
    checks.whole("n_replicates", n_replicates, 1, "experiments to simulate")
    found = _filtered(fit.objective, jnp.asarray(fit.point), n_replicates, key)
    return FilteredExperiments(*map(np.asarray, found))


@lean_jit
def samples_at(
    objective: Objective, point: Float[Array, " p"], n: int, key: Any
) -> Float[Array, "R N T o"]:
    """Samples of `n` experiments with the trials of an objective, simulated at a point."""
    trials = objective.trials
    result = jnp.full((n, *trials.observed.shape), jnp.nan)
    for i, (group, index) in enumerate(group_trials(objective.at(point), trials, None, None)):
        samples = _group_replicates(group.solved(), n, jax.random.fold_in(key, i))
        filled = index >= 0
        length = samples.shape[3]
        result = result.at[:, index[filled], :length].set(samples[:, filled])
    return jnp.where(jnp.isnan(trials.observed), jnp.nan, result)


@lean_jit
def _filtered(
    objective: Objective, point: Float[Array, " p"], n: int, key: Any
) -> tuple[Array, Array, Array, Array]:
    """The fields of `FilteredExperiments`, in their order."""
    trials = objective.trials
    N, T, o = trials.observed.shape
    samples = jnp.full((n + 1, N, T, o), jnp.nan).at[0].set(trials.observed)
    innovations = jnp.full_like(samples, jnp.nan)
    log_likelihoods, course = jnp.zeros((n + 1, N)), jnp.full((N, T, o), jnp.nan)
    for i, (group, index) in enumerate(group_trials(objective.at(point), trials, None, None)):
        solved, filled = group.solved(), index >= 0
        # The same keys as in `samples_at`, so that the experiments are those of `simulate_like`.
        simulated = _group_replicates(solved, n, jax.random.fold_in(key, i))
        simulated = jnp.where(jnp.isnan(group.samples), jnp.nan, simulated)
        every = jnp.concatenate([group.samples[None], simulated])
        whitened, values, mean = map_leading_axis(
            _through_the_filter, *solved.models, jnp.swapaxes(every, 0, 1), group.starts
        )
        which, length = index[filled], every.shape[3]
        samples = samples.at[1:, which, :length].set(simulated[:, filled])
        whitened, values = (jnp.swapaxes(part, 0, 1)[:, filled] for part in (whitened, values))
        innovations = innovations.at[:, which, :length].set(whitened)
        log_likelihoods = log_likelihoods.at[:, which].set(values)
        course = course.at[which, :length].set(mean[filled])
    within = np.arange(T) < trials.lengths[:, None]
    innovations = jnp.where(within[None, :, :, None], innovations, jnp.nan)
    return samples, innovations, log_likelihoods, course


def _through_the_filter(
    problem: Problem,
    policy: Policy,
    observer: Observer,
    samples: Float[Array, "E n T o"],
    starts: Float[Array, "n states"] | None,
) -> tuple[Float[Array, "E n T o"], Float[Array, "E n"], Float[Array, "n T o"]]:
    """Innovations and log likelihoods of experiments that share a problem, and mean courses."""
    experiments, n = samples.shape[:2]
    setting = filter_setting(problem, policy, observer, known_start=starts is not None)
    every_start = None if starts is None else jnp.tile(starts, (experiments, 1)).T

    def keep(_: Any, after: Any) -> tuple[Array, Array]:
        update = after[2]
        varies, innovation = update.whitened.varies, update.whitened.innovation
        return jnp.where(varies, innovation, jnp.nan), update.log_density

    flat = jnp.moveaxis(samples.reshape(-1, *samples.shape[2:]), 0, -1)
    innovations, density = run_filter(setting, flat, every_start, keep, whiten=True)
    first = setting.mean_1[:, None] if starts is None else jnp.concatenate([starts, starts], 1).T
    first = jnp.broadcast_to(first, (len(setting.mean_1), n))
    _, later = lax.scan(lambda mean, F: (F @ mean, F @ mean), first, setting.joint.F)
    states = jnp.concatenate([first[None], later])[:, : problem.A.shape[-1]]
    return (
        jnp.moveaxis(innovations, -1, 0).reshape(samples.shape),
        density.sum(axis=0).reshape(experiments, n),
        jnp.einsum("toi,tib->bto", setting.S, states),
    )


def _group_replicates(group: Group, n: int, key: Any) -> Float[Array, "R C N T o"]:
    """Simulated samples of a group whose policies are known."""
    conditions, in_each = group.samples.shape[:2]

    def simulated(
        problem: Problem, policy: Any, observer: Observer, starts: Any, key: Any
    ) -> Array:
        initial = None if starts is None else jnp.tile(starts, (n, 1))
        new = simulate(
            problem,
            policy,
            n_trials=n * in_each,
            key=key,
            observer=observer,
            initial_states=initial,
        )
        return new.observed.reshape(n, in_each, *new.observed.shape[1:])

    keys = jax.random.split(key, conditions)
    return jnp.swapaxes(jax.vmap(simulated)(*group.models, group.starts, keys), 0, 1)
