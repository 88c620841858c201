"""The filter: what the experimenter knows of state and belief, sample by sample.

With z = (x, xh): predict z exactly to second order (`joint.predict`), then condition on what was
recorded, o = S x + U th, as if z were Gaussian (`elimination`). Full observation is S = I, U = 0.
A missing sample (NaN) is skipped.

All arrays have trials on the last axis.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Bool, Float, Int

from motorcost.inference.elimination import (
    Channels,
    Update,
    contradicts,
    eliminate,
    first_contradiction,
    rounding_floor,
    tolerance,
)
from motorcost.model.joint import (
    Cov,
    Joint,
    Mean,
    has_signal_dependent_noise,
    joint_start,
    joint_system,
    predict,
    state_covariances,
)
from motorcost.model.observer import Observer
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.numerics.linalg import mmT, semidefinite_cholesky, solve_semidefinite


class FilterSetting(eqx.Module):
    """What all trials of one problem share in the filter."""

    joint: Joint
    S: Float[Array, "T o n"]
    UU: Float[Array, "T o o"]
    S_inverse: Float[Array, "T n o"]  # Moore and Penrose's
    mean_1: Float[Array, " z"]
    cov_1: Float[Array, "z z"]
    noise: Float[Array, "T o"]  # the least variance of each channel given those before it


class Sample(eqx.Module):
    """One sample of every trial and how it was recorded; or all samples, on a first axis T."""

    S: Float[Array, "*T o n"]
    UU: Float[Array, "*T o o"]
    S_inverse: Float[Array, "*T n o"]
    noise: Float[Array, "*T o"]
    values: Float[Array, "*T o trial"]


def start_moments(
    problem: Problem, *, known_start: bool
) -> tuple[Float[Array, " z"], Float[Array, "z z"]]:
    """The mean and covariance of z_1 before the first sample.

    With `known_start`, x_1 is known for every trial and takes the place of the mean; xh_1 is as far
    from x_1 as x_1 would be from xh_1.
    """
    mean_1, cov_1 = joint_start(problem)
    if known_start:
        cov_1 = block_diag(jnp.zeros_like(problem.initial_state_cov), problem.initial_state_cov)
    return mean_1, cov_1


def filter_setting(
    problem: Problem, policy: Policy, observer: Observer, *, known_start: bool
) -> FilterSetting:
    """What all trials of one problem share in the filter."""
    joint = joint_system(problem, policy)
    mean_1, cov_1 = start_moments(problem, known_start=known_start)
    S, n = observer.S, problem.A.shape[-1]
    UU = observer.U @ jnp.swapaxes(observer.U, -1, -2)
    process = S[1:] @ joint.GG[:, :n, :n] @ jnp.swapaxes(S[1:], -1, -2)
    new_noise = UU.at[1:].add(process)
    return FilterSetting(
        joint=joint,
        S=S,
        UU=UU,
        S_inverse=jax.vmap(lambda S: solve_semidefinite(mmT(S, S), S).T)(S),
        mean_1=mean_1,
        cov_1=cov_1,
        noise=jnp.diagonal(jax.vmap(semidefinite_cholesky)(new_noise), axis1=1, axis2=2) ** 2,
    )


def filter_log_likelihoods(
    setting: FilterSetting,
    samples: Float[Array, "T o trial"],
    starts: Float[Array, "n trial"] | None,
    *,
    complete: bool = False,
) -> tuple[Float[Array, " trial"], Int[Array, " trial"]]:
    """The log likelihood of each trial, and the index of its first sample that contradicts the
    model (see `elimination.first_contradiction`).

    `complete`: whether no sample is missing before the end of a trial. Without signal-dependent
    noise all trials then share one covariance.
    """

    def keep(_: Any, after: Any) -> tuple[Array, Array]:
        return after[2].log_density, after[3]

    share = complete and not has_signal_dependent_noise(setting.joint)
    run = run_filter_with_shared_covariance if share else run_filter
    density, contradicting = run(setting, samples, starts, keep)
    flat = contradicting.reshape(-1, contradicting.shape[-1])
    return density.sum(axis=0), first_contradiction(flat)


def run_filter(
    setting: FilterSetting,
    samples: Float[Array, "T o trial"],
    starts: Float[Array, "n trial"] | None,
    keep: Callable[[Any, Any], Any],
    *,
    whiten: bool = False,
) -> Any:
    """What `keep` returns for each sample, stacked along a first axis.

    `keep` is called with (mean, cov) of z before the sample, and with what `condition` returns.
    With `whiten`, the update contains the whitened channels.
    """
    mean_1 = _first_means(setting, samples, starts)
    # The trial without samples that `condition` needs.
    samples = jnp.concatenate([samples, jnp.full_like(samples[:, :, :1], jnp.nan)], axis=-1)
    mean_1 = jnp.concatenate([mean_1, setting.mean_1[:, None]], axis=-1)
    cov_1 = jnp.broadcast_to(setting.cov_1[:, :, None], (*setting.cov_1.shape, mean_1.shape[1]))
    allowed = tolerance(samples)

    def step(carry: Any, at: tuple[Joint, Sample]) -> Any:
        joint_step, sample = at
        before = predict(joint_step, *carry)
        after = condition(sample, allowed, *before, whiten=whiten)
        return after[:2], keep(before, after)

    first_sample, later_samples = _first_and_later(_recorded(setting, samples))
    start = (mean_1, cov_1)
    after = condition(first_sample, allowed, *start, whiten=whiten)
    # Derivatives compute a step again rather than keep all its intermediate values.
    again = jax.checkpoint(step, prevent_cse=False)
    _, later = lax.scan(again, after[:2], (setting.joint, later_samples))
    return jax.tree.map(
        lambda first, rest: jnp.concatenate([first[None], rest])[..., :-1],
        keep(start, after),
        later,
    )


def run_filter_with_shared_covariance(
    setting: FilterSetting,
    samples: Float[Array, "T o trial"],
    starts: Float[Array, "n trial"] | None,
    keep: Callable[[Any, Any], Any],
) -> Any:
    """What `run_filter` returns, where no noise depends on the signal and no sample is missing
    before the end of a trial: then the covariance does not depend on the samples.

    After the end of a trial, what `keep` gets of it means nothing but for the log density, which is
    zero there.
    """
    mean_1, cov_1 = _first_means(setting, samples, starts), setting.cov_1[:, :, None]
    ended = jnp.isnan(samples).any(axis=1)
    allowed = tolerance(samples)
    varying = state_covariances(setting.joint, setting.mean_1, setting.cov_1)
    over_all_trials = jnp.einsum("toi,tij,toj->to", setting.S, varying, setting.S)
    over_all_trials = over_all_trials + jnp.diagonal(setting.UU, axis1=1, axis2=2)

    def conditioned(recorded: tuple[Sample, Array, Array], before: Any) -> Any:
        sample, variance, ended = recorded
        mean, cov, update, contradicting = condition(
            sample, allowed, *before, whiten=False, over_all_trials=variance[:, None]
        )
        density = jnp.where(ended, 0.0, update.log_density)
        return mean, cov, eqx.tree_at(lambda u: u.log_density, update, density), contradicting

    def step(carry: Any, at: Any) -> Any:
        joint_step, recorded = at
        before = predict(joint_step, *carry)
        after = conditioned(recorded, before)
        return after[:2], keep(before, after)

    first_sample, later_samples = _first_and_later(
        (_recorded(setting, samples), over_all_trials, ended)
    )
    start = (mean_1, cov_1)
    after = conditioned(first_sample, start)
    again = jax.checkpoint(step, prevent_cse=False)
    _, later = lax.scan(again, after[:2], (setting.joint, later_samples))
    return jax.tree.map(
        lambda first, rest: jnp.concatenate([first[None], rest]), keep(start, after), later
    )


def _first_means(
    setting: FilterSetting, samples: Float[Array, "T o trial"], starts: Any
) -> Float[Array, "z trial"]:
    """The mean of z_1 before the first sample, of each trial."""
    if starts is not None:
        return jnp.concatenate([starts, starts])
    return jnp.broadcast_to(setting.mean_1[:, None], (*setting.mean_1.shape, samples.shape[2]))


def _recorded(setting: FilterSetting, samples: Float[Array, "T o trial"]) -> Sample:
    """All samples, with how they were recorded."""
    return Sample(setting.S, setting.UU, setting.S_inverse, setting.noise, samples)


def _first_and_later(tree: Any) -> tuple[Any, Any]:
    """The first entry of each array along its first axis, and the others."""
    return jax.tree.map(lambda leaf: leaf[0], tree), jax.tree.map(lambda leaf: leaf[1:], tree)


def condition(
    sample: Sample,
    allowed: Float[Array, "o trial"],
    mean: Mean,
    cov: Cov,
    *,
    whiten: bool,
    over_all_trials: Float[Array, "o 1"] | None = None,
) -> tuple[Mean, Cov, Update, Bool[Array, "o trial"]]:
    """The mean and covariance of z given one more sample, the update, and which channels contradict
    the model.

    `over_all_trials` is what each channel varies by over all trials, given no samples, which
    `rounding_floor` needs; then all channels count as present, and trials share a covariance.
    Otherwise the last trial has no samples, and its covariance says what z varies by.
    """
    S = sample.S
    o, n = S.shape
    present = ~jnp.isnan(sample.values)
    across = jnp.einsum("oi,ijb->ojb", S, cov[:n])
    among = jnp.einsum("ojb,kj->okb", across[:, :n], S) + sample.UU[:, :, None]
    variance = jnp.einsum("kkb->kb", among)
    channels = Channels(
        residual=jnp.where(present, sample.values - S @ mean[:n], 0.0),
        cov=among,
        noise=sample.noise,
        floor=rounding_floor(
            variance, variance[:, -1:] if over_all_trials is None else over_all_trials
        ),
        present=present if over_all_trials is None else None,
    )
    rows = None
    if whiten:
        rows = jnp.broadcast_to(jnp.pad(S, ((0, 0), (0, n)))[:, :, None], (o, *mean.shape))
    size = jnp.abs(S) @ jnp.abs(mean[:n])
    mean, cov, update = eliminate(channels, mean, cov, across, rows)
    contradicting = contradicts(update.unexplained, allowed, size, channels.floor)
    # A difference that is tolerated is taken into the state: errors of rounded samples do not add
    # up from step to step, and the filter for full observation, whose states are the samples,
    # goes the same way.
    mean = mean.at[:n].add(sample.S_inverse @ update.unexplained)
    return mean, cov, update, contradicting
