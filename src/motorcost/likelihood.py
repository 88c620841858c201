"""How probable a movement is, if the agent has these costs, noises and beliefs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Bool, Float

from motorcost import checks
from motorcost.errors import ConvergenceError, InputError
from motorcost.filter import Setting, run_filter
from motorcost.joint import joint_start, joint_system
from motorcost.linalg import semidefinite_cholesky
from motorcost.observer import Observer
from motorcost.problem import Problem
from motorcost.recordings import Group, ObserverOrMaker, ProblemOrTask, as_trials, groups
from motorcost.solver import Policy, solve
from motorcost.trials import Trials

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
        if checks.known(each):
            raise_if_failed(group, index, trials, converged, contradicts)
        filled = index >= 0
        if checks.known(each) and not np.isfinite(each[filled]).all():
            raise InputError(
                "the likelihood is beyond what can be computed: samples or parameters are too "
                "large, or the recording noise is too small beside them (below 1e-7 of a "
                "channel's range; 0 is possible again)"
            )
        values = values.at[index[filled]].set(each[filled])
    return values if per_trial else values.sum()


@jax.jit
def _group_log_likelihood(group: Group) -> Any:
    return group.map(_log_likelihoods)


def _log_likelihoods(
    problem: Problem,
    policy: Policy | None,
    observer: Observer,
    samples: Float[Array, "N T o"],
    starts: Float[Array, "N n"] | None,
) -> tuple[Float[Array, " N"], Bool[Array, ""], Bool[Array, " N"]]:
    """Of each trial the log likelihood, and whether a sample contradicts the model."""
    setting, converged = filter_setting(problem, policy, observer, starts)
    N = samples.shape[0]
    size = min(N, BLOCK)
    blocks = -(-N // size)

    def in_blocks(values: Array, fill: float) -> Array:
        """(N, ...) as (block, ..., trial), filled up."""
        pad = [(0, blocks * size - N)] + [(0, 0)] * (values.ndim - 1)
        filled = jnp.pad(values, pad, constant_values=fill)
        return jnp.moveaxis(filled.reshape(blocks, size, *values.shape[1:]), 1, -1)

    def run(block: tuple[Array, Array]) -> tuple[Array, Array]:
        density, contradicts = run_filter(
            setting, *block, keep=lambda _, after: (after[2].log_density, after[2].contradicts)
        )
        return density.sum(axis=0), contradicts.any(axis=(0, 1))

    parts = (in_blocks(samples, jnp.nan), in_blocks(first_means(setting, starts, N), 0.0))
    if blocks == 1:
        each, contradicts = run((parts[0][0], parts[1][0]))
    else:
        # Derivatives run each block again rather than keep what every block went through.
        each, contradicts = lax.map(jax.checkpoint(run), parts)
    each, contradicts = each.reshape(-1)[:N], contradicts.reshape(-1)[:N]
    possible = converged & ~contradicts & jnp.isfinite(each)
    return jnp.where(possible, each, -jnp.inf), converged, contradicts


def filter_setting(
    problem: Problem,
    policy: Policy | None,
    observer: Observer,
    starts: Float[Array, "N n"] | None,
) -> tuple[Setting, Bool[Array, ""]]:
    """What trials of one problem share in the filter, and whether a policy was found.

    Where none was, the joint system is one of zeros, so that derivatives of what is then thrown
    away are zero and not NaN.
    """
    policy = solve(problem) if policy is None else policy
    joint = joint_system(problem, policy)
    mean_1, cov_1 = joint_start(problem)
    if starts is not None:  # x_1 is known, and xh_1 as far from it as x_1 would be from xh_1
        cov_1 = block_diag(jnp.zeros_like(problem.initial_state_cov), problem.initial_state_cov)
    S, n = observer.S, problem.A.shape[-1]
    UU = observer.U @ jnp.swapaxes(observer.U, -1, -2)
    process = S[1:] @ joint.GG[:, :n, :n] @ jnp.swapaxes(S[1:], -1, -2)
    always = UU.at[1:].add(process)
    return Setting(
        joint=jax.tree.map(lambda leaf: jnp.where(policy.converged, leaf, 0.0), joint),
        S=S,
        UU=UU,
        mean_1=mean_1,
        cov_1=cov_1,
        noise=jnp.diagonal(jax.vmap(semidefinite_cholesky)(always), axis1=1, axis2=2) ** 2,
    ), policy.converged


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
    one = jax.tree.map(lambda leaf: leaf[condition], group)
    setting, _ = filter_setting(one.problem, one.policy, one.observer, one.starts)
    mean_1 = first_means(setting, one.starts, one.samples.shape[0])
    sample, mean_1 = one.samples[trial], mean_1[trial]
    update = run_filter(
        setting, sample[..., None], mean_1[:, None], keep=lambda before, after: after[2]
    )
    step, channel = (int(i) for i in np.argwhere(np.asarray(update.contradicts[..., 0]))[0])
    must_be = sample[step, channel] - update.residual[step, channel, 0]
    raise InputError(
        f"trial {int(index[condition, trial])} contradicts the model at step {step}: "
        f"{one.observer.channel_names[channel]} is {float(sample[step, channel]):.9g} and must "
        f"be {float(must_be):.9g}, because the model has no noise in it there. Record it with "
        "noise (noise=..., --noise), or give the world noise (V)"
    )
