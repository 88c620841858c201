"""How probable a movement is, if the agent has these costs, noises and beliefs."""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import CustomVJPPrimal, SymbolicZero
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Bool, Float

from motorcost import checks
from motorcost.errors import ConvergenceError, InputError
from motorcost.inference.filter import Setting, run_filter
from motorcost.inference.fully_observed import (
    FullyObservedSetting,
    fully_observed_setting,
    run_fully_observed,
)
from motorcost.inference.grouping import (
    Group,
    ObserverOrMaker,
    ProblemMaker,
    ProblemOrTask,
    as_trials,
    groups,
)
from motorcost.model.joint import joint_start, joint_system
from motorcost.model.observer import Observer
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.model.solver import solve_each
from motorcost.model.trials import Trials
from motorcost.numerics.linalg import map_leading_axis, semidefinite_cholesky

# Trials that the filter works on at once: enough to fill the arithmetic, few enough to stay in
# the cache. Memory does not grow with their number beyond this.
BLOCK = 127


def log_likelihood(
    problem: ProblemOrTask,
    observed: Any,
    *,
    policy: Policy | None = None,
    observer: ObserverOrMaker = None,
    per_trial: bool = False,
) -> Array:
    """The log likelihood of recorded trials: of all together, or (`per_trial`) of each.

    - `problem`: the world, with what the agent believes of it. For trials of several lengths or
      conditions, a function that takes `steps` and the conditions by name and returns the
      problem: `functools.partial(mc.tasks.reaching, effort=1e-5)`.
    - `observed`: `Trials`, or an array (trial, time, channel); NaN where a sample is missing.
    - `policy`: what the agent does, if not what is best for what it believes.
    - `observer`: how it was recorded, as an `Observer` or as a function from a problem to one;
      if left out, all states without noise.

    The density is that of the samples which the model does not call deterministic given those
    before them (time by time, channel by channel). A sample that contradicts the model raises
    an error which names it. Inside `jit`, `grad` and `vmap` a contradiction, and a policy that
    cannot be found, give -inf, with derivatives zero instead of NaN.
    """
    trials = as_trials(problem, observed)
    values = jnp.zeros(len(trials))
    for group, index in groups(problem, trials, policy, observer):
        each, converged, contradicts = _group_log_likelihood(group)
        if checks.is_concrete(each):
            raise_if_failed(group, index, trials, converged, contradicts)
        filled = index >= 0
        if checks.is_concrete(each) and not np.isfinite(each[filled]).all():
            raise InputError(
                "the likelihood is beyond what can be computed: samples or parameters are too "
                "large, or the recording noise is too small beside them (below 1e-7 of a "
                "channel's range; 0 is possible again)"
            )
        values = values.at[index[filled]].set(each[filled])
    return values if per_trial else values.sum()


def log_likelihoods_at(
    make: Callable[[Any], ProblemMaker],
    points: Float[Array, "S p"],
    trials: Trials,
    *,
    observed: Float[Array, "S N T o"] | None = None,
    weights: Float[Array, "S N"] | None = None,
    telling: int | None = None,
) -> Float[Array, "S N"] | Float[Array, " S"]:
    """Of each trial at each of S points, of which `make` tells the task with its observer; -inf
    for all where the model cannot be. For traced code: nothing is raised.

    With `observed`, each point has samples of its own. With `weights` the trials' sum is given,
    each counted by its weight: 0 leaves it out, 2 takes it twice. `telling` is what
    `motorcost.inference.fully_observed.innovation_rank` says of the problems, if that is known.
    """

    def groups_at(point: Any, samples: Any) -> list[tuple[Group, np.ndarray]]:
        recorded = trials
        if samples is not None:
            recorded = eqx.tree_at(lambda t: t.observed, trials, samples)
        return list(groups(make(point), recorded, None, None))

    def parts_at(point: Any, samples: Any) -> list[Any]:
        each = [group for group, _ in groups_at(point, samples)]
        return [(_models(group), None if samples is None else group.samples) for group in each]

    stacked = jax.vmap(parts_at)(points, observed)
    values = jnp.zeros((len(points), len(trials)) if weights is None else len(points))
    for (group, index), (models, samples) in zip(groups_at(points[0], None), stacked, strict=True):
        filled = index >= 0
        counts = None if weights is None else jnp.where(filled, weights[:, index], 0.0)
        each, _, _ = log_likelihoods_of(models, group, samples, counts, telling)
        if weights is None:
            values = values.at[:, index[filled]].set(each[:, filled])
        else:
            values = values + each.sum(axis=1)
    return values


@eqx.filter_jit
def _group_log_likelihood(group: Group) -> Any:
    alone = jax.tree.map(lambda leaf: leaf[None], _models(group))
    return jax.tree.map(lambda leaf: leaf[0], log_likelihoods_of(alone, group))


def _models(group: Group) -> tuple[Problem, Policy | None, Observer]:
    return group.problem, group.policy, group.observer


def log_likelihoods_of(
    models: tuple[Problem, Policy | None, Observer],
    group: Group,
    samples: Float[Array, "S C N T o"] | None = None,
    weights: Float[Array, "S C N"] | None = None,
    telling: int | None = None,
) -> tuple[Float[Array, "S C *N"], Bool[Array, "S C"], Bool[Array, "S C *N"]]:
    """Of the group's trials under each of S models, whose arrays have the axes (model, condition):
    of each trial the log likelihood, whether a policy was found, and whether a sample
    contradicts the model. The rest is as in `log_likelihoods_at`."""
    problems, policies, observers = models
    S, C = problems.A.shape[:2]
    if policies is None:
        flat = jax.tree.map(lambda leaf: leaf.reshape(S * C, *leaf.shape[2:]), problems)
        policies = solve_each(flat)
        policies = jax.tree.map(lambda leaf: leaf.reshape(S, C, *leaf.shape[1:]), policies)
    problems, policies = _for_each(_or_nothing)(problems, policies)
    known_start = group.starts is not None

    def filtered(run: Run, settings: Any) -> Any:
        def of_model(setting: Any, own: Any, weights: Any) -> Any:
            data = (group.samples if own is None else own, group.starts)
            if weights is None:
                return map_leading_axis(run, setting, *data)
            return map_leading_axis(partial(_total, run), setting, *data, weights)

        return map_leading_axis(of_model, settings, samples, weights)

    def where_all_is_seen() -> Any:
        of_problem = partial(fully_observed_setting, known_start=known_start, telling=telling)
        settings, enough = _for_each(of_problem)(problems, policies)
        each, contradicts = filtered(_run_seen, settings)
        enough = enough if weights is not None else enough[..., None]
        return jnp.where(enough, each, -jnp.inf), contradicts

    def in_general() -> Any:
        of_problem = partial(filter_setting, known_start=known_start)
        return filtered(_run_filter, _for_each(of_problem)(problems, policies, observers))

    if not observers.fully_observed or group.complete is False:
        each, contradicts = in_general()
    elif group.complete:
        each, contradicts = where_all_is_seen()
    else:  # which, only the data tell when they come
        data = group.samples if samples is None else samples
        each, contradicts = lax.cond(jnp.isnan(data).any(), in_general, where_all_is_seen)
    found = policies.converged
    possible = (found if weights is not None else found[..., None]) & ~contradicts
    each = jnp.where(possible & jnp.isfinite(each), each, -jnp.inf)
    if weights is not None:  # what does not count may be impossible
        each = jnp.where((weights > 0).any(axis=-1), each, 0.0)
    return each, found, contradicts


# Of a setting, samples and starts: each trial's log likelihood, and whether it contradicts.
Run = Callable[[Any, Array, Array | None], tuple[Array, Array]]


def _total(
    run: Run, setting: Any, samples: Array, starts: Array | None, weights: Float[Array, " N"]
) -> tuple[Float[Array, ""], Bool[Array, ""]]:
    """The trials' sum, each counted by its weight, and whether one that counts contradicts.

    Its gradient by the setting is found together with the value: what the filter goes through is
    then dropped at once, instead of being kept until derivatives come back to it.
    """
    leaves, tree = jax.tree.flatten(setting)

    def plain(leaves: list[Array], data: Any) -> tuple[Array, Array]:
        samples, starts, weights = data
        each, contradicts = run(jax.tree.unflatten(tree, leaves), samples, starts)
        counts = weights > 0
        return jnp.where(counts, weights * each, 0.0).sum(), (counts & contradicts).any()

    def value_and_slopes(leaves: list[Any], data: Any) -> Any:
        values = [leaf.value for leaf in leaves]
        moving = [i for i, leaf in enumerate(leaves) if leaf.perturbed]
        data = jax.tree.map(lambda leaf: leaf.value, data, is_leaf=_is_primal)

        def of_moving(some: list[Array]) -> tuple[Array, Array]:
            by_index = dict(zip(moving, some, strict=True))
            return plain([by_index.get(i, value) for i, value in enumerate(values)], data)

        def worked_out(some: list[Array]) -> Any:
            return jax.value_and_grad(of_moving, has_aux=True)(some)

        def nothing(some: list[Array]) -> Any:
            return jax.tree.map(
                lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(worked_out, some)
            )

        some, counts = [values[i] for i in moving], data[2]
        found, slopes = lax.cond((counts > 0).any(), worked_out, nothing, some)
        return found, dict(zip(moving, slopes, strict=True))

    def scaled(slopes: dict[int, Array], cotangents: Any) -> Any:
        by_total = cotangents[0]
        nothing = isinstance(by_total, SymbolicZero)
        each = [None if nothing or i not in slopes else by_total * slopes[i] for i in range(n)]
        return each, None

    n = len(leaves)
    total = jax.custom_vjp(plain)
    total.defvjp(value_and_slopes, scaled, symbolic_zeros=True)
    return total(leaves, (samples, starts, weights))


def _is_primal(leaf: Any) -> bool:
    return isinstance(leaf, CustomVJPPrimal)


def _for_each(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of arrays with two more axes in front, model and condition."""
    return jax.vmap(jax.vmap(function))


def _run_seen(
    setting: FullyObservedSetting, samples: Array, starts: Array | None
) -> tuple[Array, Array]:
    mean_1 = jnp.broadcast_to(setting.mean_1, (len(samples), *setting.mean_1.shape))
    mean_1 = mean_1 if starts is None else starts
    return _in_blocks(partial(run_fully_observed, setting), samples, mean_1)


def _run_filter(setting: Setting, samples: Array, starts: Array | None) -> tuple[Array, Array]:
    def keep(_: Any, after: Any) -> tuple[Array, Array]:
        return after[2].log_density, after[2].contradicts

    def run(samples: Array, mean_1: Array) -> tuple[Array, Array]:
        density, contradicts = run_filter(setting, samples, mean_1, keep)
        return density.sum(axis=0), contradicts.any(axis=(0, 1))

    return _in_blocks(run, samples, first_means(setting, starts, len(samples)))


def _in_blocks(
    run: Callable[[Array, Array], tuple[Array, Array]],
    samples: Float[Array, "N T o"],
    mean_1: Float[Array, "N z"],
) -> tuple[Float[Array, " N"], Bool[Array, " N"]]:
    """What `run(samples, mean_1)` gives for each trial, with the trials on the last axis, a block
    of them at a time."""
    N = samples.shape[0]
    blocks = -(-N // BLOCK)
    size = -(-N // blocks)

    def in_blocks(values: Array, fill: float) -> Array:
        """(N, ...) as (block, ..., trial), filled up."""
        pad = [(0, blocks * size - N)] + [(0, 0)] * (values.ndim - 1)
        filled = jnp.pad(values, pad, constant_values=fill)
        return jnp.moveaxis(filled.reshape(blocks, size, *values.shape[1:]), 1, -1)

    parts = (in_blocks(samples, jnp.nan), in_blocks(mean_1, 0.0))
    if blocks == 1:
        return run(parts[0][0], parts[1][0])
    # Derivatives run each block again rather than keep what every block went through.
    each, contradicts = lax.map(jax.checkpoint(lambda block: run(*block)), parts)
    return each.reshape(-1)[:N], contradicts.reshape(-1)[:N]


def _or_nothing(problem: Problem, policy: Policy) -> tuple[Problem, Policy]:
    """Where no policy was found, a world of zeros and a policy that does nothing in it, so that
    derivatives of what is then thrown away are zero and not NaN."""
    parts = (problem, policy.L, policy.K, policy.believed)
    parts = jax.tree.map(lambda leaf: jnp.where(policy.converged, leaf, 0.0), parts)
    return parts[0], eqx.tree_at(lambda p: (p.L, p.K, p.believed), policy, parts[1:])


def filter_setting(
    problem: Problem,
    policy: Policy,
    observer: Observer,
    known_start: bool,
) -> Setting:
    """What trials of one problem share in the filter."""
    joint = joint_system(problem, policy)
    mean_1, cov_1 = joint_start(problem)
    if known_start:  # x_1 is known, and xh_1 as far from it as x_1 would be from xh_1
        cov_1 = block_diag(jnp.zeros_like(problem.initial_state_cov), problem.initial_state_cov)
    S, n = observer.S, problem.A.shape[-1]
    UU = observer.U @ jnp.swapaxes(observer.U, -1, -2)
    process = S[1:] @ joint.GG[:, :n, :n] @ jnp.swapaxes(S[1:], -1, -2)
    always = UU.at[1:].add(process)
    return Setting(
        joint=joint,
        S=S,
        UU=UU,
        mean_1=mean_1,
        cov_1=cov_1,
        noise=jnp.diagonal(jax.vmap(semidefinite_cholesky)(always), axis1=1, axis2=2) ** 2,
    )


def first_means(setting: Setting, starts: Float[Array, "N n"] | None, n: int) -> Array:
    """The mean of each trial's first (x, xh): its own start, where it is known."""
    if starts is None:
        return jnp.broadcast_to(setting.mean_1, (n, setting.mean_1.shape[0]))
    return jnp.concatenate([starts, starts], axis=1)


def raise_if_failed(
    group: Group,
    index: np.ndarray,
    trials: Trials,
    converged: Bool[Array, " conditions"],
    contradicts: Bool[Array, "conditions N"],
) -> None:
    """Raise for a policy that was not found, or for the first sample that cannot be."""
    if not converged.all():
        first = int(index[int(jnp.argmin(converged)), 0])
        of = {name: values[first].item() for name, values in trials.conditions.items()}
        raise ConvergenceError(
            f"no policy was found{f' for the condition {of}' if of else ''}: its gains did not "
            "settle, so these parameters may be far from any that make sense; solve(problem) "
            "tells more"
        )
    if not contradicts.any():
        return
    condition, trial = (int(i) for i in np.argwhere(np.asarray(contradicts))[0])
    one = jax.tree.map(lambda leaf: leaf[condition], group.solved())
    setting = filter_setting(one.problem, one.policy, one.observer, one.starts is not None)
    mean_1 = first_means(setting, one.starts, one.samples.shape[0])
    sample, mean_1 = one.samples[trial], mean_1[trial]
    update = run_filter(
        setting, sample[..., None], mean_1[:, None], keep=lambda before, after: after[2]
    )
    found = np.argwhere(np.asarray(update.contradicts[..., 0]))
    if not len(found):  # within rounding of what is tolerated: the two filters need not agree
        raise InputError(f"trial {int(index[condition, trial])} contradicts the model")
    step, channel = (int(i) for i in found[0])
    must_be = sample[step, channel] - update.residual[step, channel, 0]
    raise InputError(
        f"trial {int(index[condition, trial])} contradicts the model at step {step}: "
        f"{one.observer.channel_names[channel]} is {float(sample[step, channel]):.9g} and must "
        f"be {float(must_be):.9g}, because the model has no noise in it there. Record it with "
        "noise (noise=..., --noise), or give the world noise (V)"
    )
