"""The filter: what the experimenter knows of state and belief, sample by sample.

With z = (x, xh): predict z exactly to second order (`joint.predict`), then condition on what was
recorded, o = S x + U th, as if z were Gaussian (`elimination`). Full observation is S = I, U = 0.
A missing sample (NaN) is skipped. If the agent senses a state before it acts on it
(`Problem.sense_first`), the sample comes between the halves of a step: what the agent senses is
that of a state about which the sample says what it can.

All arrays have trials on the last axis.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
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
    act,
    has_signal_dependent_noise,
    joint_start,
    joint_system,
    sense,
    state_covariances,
)
from motorcost.model.observer import Observer
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.numerics.linalg import (
    at_places,
    mmT,
    semidefinite_cholesky,
    solve_semidefinite,
    with_places,
)


class FilterSetting(eqx.Module):
    """What all trials of one problem share in the filter."""

    joint: Joint
    among: Joint | None  # the same for the entries of z that vary, if others do not
    S: Float[Array, "T o n"]
    UU: Float[Array, "T o o"]
    S_inverse: Float[Array, "T n o"]  # Moore and Penrose's
    mean_1: Float[Array, " z"]
    cov_1: Float[Array, "z z"]
    noise: Float[Array, "T o"]  # the least variance of each channel given those before it
    varying: tuple[int, ...] | None = eqx.field(static=True, default=None)  # these entries

    def entries(self) -> tuple[np.ndarray, np.ndarray]:
        """The entries of z whose covariance is followed, and those among them of x."""
        z = len(self.mean_1)
        entries = np.arange(z) if self.varying is None else np.array(self.varying, int)
        return entries, entries[entries < z // 2]


class Sample(eqx.Module):
    """One sample of every trial and how it was recorded; or all samples, on a first axis T."""

    S: Float[Array, "*T o n"]
    UU: Float[Array, "*T o o"]
    S_inverse: Float[Array, "*T n o"]
    noise: Float[Array, "*T o"]
    over_all_trials: Float[Array, "*T o"]  # the variance of each channel, given no samples
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
    problem: Problem,
    policy: Policy,
    observer: Observer,
    *,
    known_start: bool,
    varying: tuple[int, ...] | None = None,
) -> FilterSetting:
    """What all trials of one problem share in the filter. `varying` are the entries of z that can
    vary, if these are known (see `Structure`)."""
    joint = joint_system(problem, policy)
    mean_1, cov_1 = start_moments(problem, known_start=known_start)
    S, n = observer.S, problem.A.shape[-1]
    UU = observer.U @ jnp.swapaxes(observer.U, -1, -2)
    process = S[1:] @ joint.GG[:, :n, :n] @ jnp.swapaxes(S[1:], -1, -2)
    new_noise = UU.at[1:].add(process)
    return FilterSetting(
        joint=joint,
        among=None if varying is None else joint.among(varying),
        S=S,
        UU=UU,
        S_inverse=jax.vmap(lambda S: solve_semidefinite(mmT(S, S), S).T)(S),
        mean_1=mean_1,
        cov_1=cov_1,
        noise=jnp.diagonal(jax.vmap(semidefinite_cholesky)(new_noise), axis1=1, axis2=2) ** 2,
        varying=varying,
    )


def is_enough(setting: FilterSetting) -> Bool[Array, ""]:
    """Whether no other entry of z varies than those whose covariance is followed."""
    assert setting.varying is not None
    return setting.joint.is_all_that_varies(setting.varying, setting.cov_1)


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
    density, contradicting = run_filter(setting, samples, starts, keep, share_covariance=share)
    flat = contradicting.reshape(-1, contradicting.shape[-1])
    return density.sum(axis=0), first_contradiction(flat)


def run_filter(
    setting: FilterSetting,
    samples: Float[Array, "T o trial"],
    starts: Float[Array, "n trial"] | None,
    keep: Callable[[Any, Any], Any],
    *,
    whiten: bool = False,
    share_covariance: bool = False,
) -> Any:
    """What `keep` returns for each sample, stacked along a first axis.

    `keep` is called with (mean, cov) of z before the sample, and with what `condition` returns;
    with `sense_first`, the latter's mean and covariance are those after the agent has sensed, too.

    - `whiten`: whether the update contains the whitened channels.
    - `share_covariance`: whether trials have one covariance, which then has a last axis of length
      one. That is so where no noise depends on the signal and no sample is missing before the end
      of a trial. What `keep` gets of a trial after its end then means nothing but for the log
      density, which is zero.
    """
    entries, of_state = setting.entries()
    mean_1 = first_means(setting, samples, starts)
    cov_1 = at_places(at_places(setting.cov_1, entries), entries, axis=1)[:, :, None]
    if not share_covariance:
        cov_1 = jnp.broadcast_to(cov_1, (*cov_1.shape[:2], mean_1.shape[1]))
    conditioned = partial(
        condition,
        tolerance(samples),
        None if setting.varying is None else (entries, of_state),
        whiten=whiten,
        share_covariance=share_covariance,
    )

    def step(carry: Any, at: tuple[Joint, Joint | None, Sample]) -> Any:
        joint_step, among, sample = at
        mean, cov = carry
        before = act(joint_step, mean, cov, among)
        mean, cov, *update = conditioned(sample, *before)
        after = (*sense(joint_step, mean, cov, among), *update)
        return after[:2], keep(before, after)

    first_sample, later_samples = first_and_later(recorded(setting, samples))
    start = (mean_1, cov_1)
    after = conditioned(first_sample, *start)
    # Derivatives compute a step again rather than keep all its intermediate values.
    again = jax.checkpoint(step, prevent_cse=False)
    _, later = lax.scan(again, after[:2], (setting.joint, setting.among, later_samples))
    return jax.tree.map(
        lambda first, rest: jnp.concatenate([first[None], rest]), keep(start, after), later
    )


def first_means(
    setting: FilterSetting, samples: Float[Array, "T o trial"], starts: Any
) -> Float[Array, "z trial"]:
    """The mean of z_1 before the first sample, of each trial."""
    if starts is not None:
        return jnp.concatenate([starts, starts])
    return jnp.broadcast_to(setting.mean_1[:, None], (*setting.mean_1.shape, samples.shape[2]))


def recorded(setting: FilterSetting, samples: Float[Array, "T o trial"]) -> Sample:
    """All samples, with how they were recorded."""
    S, UU, n = setting.S, setting.UU, setting.S.shape[2]
    # Where every later sample has noise of its own, nothing depends on what else it varies by.
    varying = lax.cond(
        (setting.noise[1:] > 0).all(),
        lambda: jnp.broadcast_to(setting.cov_1[:n, :n], (len(S), n, n)),
        lambda: state_covariances(setting.joint, setting.mean_1, setting.cov_1),
    )
    over_all_trials = jnp.einsum("toi,tij,toj->to", S, varying, S)
    over_all_trials = over_all_trials + jnp.diagonal(UU, axis1=1, axis2=2)
    return Sample(S, UU, setting.S_inverse, setting.noise, over_all_trials, samples)


def first_and_later(tree: Any) -> tuple[Any, Any]:
    """The first entry of each array along its first axis, and the others."""
    return jax.tree.map(lambda leaf: leaf[0], tree), jax.tree.map(lambda leaf: leaf[1:], tree)


def condition(
    allowed: Float[Array, "o trial"],
    varying: tuple[np.ndarray, np.ndarray] | None,
    sample: Sample,
    mean: Mean,
    cov: Cov,
    *,
    whiten: bool,
    share_covariance: bool,
) -> tuple[Mean, Cov, Update, Bool[Array, "o trial"]]:
    """The mean and covariance of z given one more sample, the update, and which channels contradict
    the model. `allowed` is what `tolerance` returns, `varying` the entries of z to which `cov`
    belongs, and those of x, if it is not all; for the rest see `run_filter`."""
    S = sample.S
    o, n = S.shape
    entries, of_state = (range(len(mean)), range(n)) if varying is None else varying
    S_varying = at_places(S, of_state, axis=1)
    x = S_varying.shape[1]
    present = ~jnp.isnan(sample.values)
    across = jnp.einsum("oi,ijb->ojb", S_varying, cov[:x])
    among = jnp.einsum("ojb,kj->okb", across[:, :x], S_varying) + sample.UU[:, :, None]
    channels = Channels(
        residual=jnp.where(present, sample.values - S @ mean[:n], 0.0),
        cov=among,
        noise=sample.noise,
        floor=rounding_floor(jnp.einsum("kkb->kb", among), sample.over_all_trials[:, None]),
        present=None if share_covariance else present,
    )
    rows = None
    if whiten:
        rows = jnp.broadcast_to(jnp.pad(S, ((0, 0), (0, n)))[:, :, None], (o, *mean.shape))
    size = jnp.abs(S) @ jnp.abs(mean[:n])
    among_varying = at_places(mean, entries)
    conditional_mean, cov, update = eliminate(channels, among_varying, cov, across, rows)
    mean = with_places(mean, entries, conditional_mean)
    if share_covariance:
        density = jnp.where(present.all(axis=0), update.log_density, 0.0)
        update = eqx.tree_at(lambda update: update.log_density, update, density)
    contradicting = contradicts(update.unexplained, allowed, size, channels.floor)
    # A difference that is tolerated is taken into the state: errors of rounded samples do not add
    # up from step to step, and the filter for full observation, whose states are the samples,
    # goes the same way.
    state = mean[:n] + sample.S_inverse @ update.unexplained
    return jnp.concatenate([state, mean[n:]]), cov, update, contradicting
