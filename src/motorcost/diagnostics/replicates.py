"""New trials of the same design: what the fitted model would have done."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.fitting.fitted import Fit
from motorcost.fitting.objective import Objective
from motorcost.inference.grouping import Group, group_trials
from motorcost.model.observer import Observer
from motorcost.model.problem import Problem
from motorcost.model.simulate import simulate
from motorcost.model.solver import solve
from motorcost.model.trials import Trials


def simulate_like(fit: Fit, *, key: Any, n_replicates: int = 1) -> Trials:
    """Trials of experiments like the one that was fitted, simulated at the estimates.

    They have the same lengths, conditions, starts and missing samples. The condition `replicate`
    numbers the experiments, from 0.
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
    return np.asarray(_replicates(fit.objective, jnp.asarray(fit.point), n_replicates, key))


@eqx.filter_jit
def _replicates(
    objective: Objective, point: Float[Array, " p"], n: int, key: Any
) -> Float[Array, "R N T o"]:
    trials = objective.trials
    result = jnp.full((n, *trials.observed.shape), jnp.nan)
    for i, (group, index) in enumerate(group_trials(objective.at(point), trials, None, None)):
        samples = _group_replicates(group, n, jax.random.fold_in(key, i))
        filled = index >= 0
        length = samples.shape[3]
        result = result.at[:, index[filled], :length].set(samples[:, filled])
    return jnp.where(jnp.isnan(trials.observed), jnp.nan, result)


def _group_replicates(group: Group, n: int, key: Any) -> Float[Array, "R C N T o"]:
    conditions, in_each = group.samples.shape[:2]

    def simulated(problem: Problem, observer: Observer, starts: Any, key: Any) -> Array:
        initial = None if starts is None else jnp.tile(starts, (n, 1))
        new = simulate(
            problem,
            solve(problem),
            n_trials=n * in_each,
            key=key,
            observer=observer,
            initial_states=initial,
        )
        return new.observed.reshape(n, in_each, *new.observed.shape[1:])

    keys = jax.random.split(key, conditions)
    parts = (group.problem, group.observer, group.starts, keys)
    return jnp.swapaxes(jax.vmap(simulated)(*parts), 0, 1)
