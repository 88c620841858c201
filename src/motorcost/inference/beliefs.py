"""What the agent believed at each time, and the state it was in."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.inference.diagnose import raise_if_failed
from motorcost.inference.elimination import NO_CONTRADICTION, Whitened, first_contradiction
from motorcost.inference.filter import filter_setting, run_filter
from motorcost.inference.grouping import (
    Group,
    ProblemOrTask,
    as_trials,
    group_trials,
)
from motorcost.model.joint import Joint
from motorcost.model.observer import Observer, ObserverLike
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.model.trials import Trials
from motorcost.numerics.compiling import lean_jit
from motorcost.numerics.linalg import entries, with_entries

if TYPE_CHECKING:
    from motorcost.plots.style import CaptionedFigure


class Beliefs(eqx.Module):
    """What the experimenter knows of each trial: axes (trial, time, dimension), NaN after the
    end of a trial that is shorter than others.

    - `mean`, `cov`: of the agent's estimate xh, given the samples up to each time (filtered) or
      all samples (smoothed).
    - `state_mean`, `state_cov`: of the true state, likewise.
    - `predicted`, `predicted_cov`: of each sample, given the samples before it.
    - `innovations`: samples minus predictions, whitened channel by channel: standard normal and
      independent if the model is right; NaN where a sample is missing or cannot vary.
    - `state_names`, `state_units`: of the states; `trials`: what they were inferred from, None if
      that happened inside `jit`. They are for pictures.

    Examples
    --------
    >>> beliefs = fit.beliefs()
    >>> beliefs.mean.shape, beliefs.cov.shape
    ((8, 12, 5), (8, 12, 5, 5))
    """

    mean: Float[Array, "N T n"]
    cov: Float[Array, "N T n n"]
    state_mean: Float[Array, "N T n"]
    state_cov: Float[Array, "N T n n"]
    predicted: Float[Array, "N T o"]
    predicted_cov: Float[Array, "N T o o"]
    innovations: Float[Array, "N T o"]
    state_names: tuple[str, ...] = eqx.field(static=True, default=())
    state_units: tuple[str, ...] = eqx.field(static=True, default=())
    trials: Trials | None = None

    def plot(self, trial: int = 0, states: Sequence[str] | None = None) -> "CaptionedFigure":
        """Draw what the agent believed in one trial; see `mc.plots.plot_beliefs`."""
        from motorcost.plots.beliefs import plot_beliefs

        return plot_beliefs(self, trial=trial, states=states)


def track_beliefs(
    problem: ProblemOrTask,
    observed: Any,
    *,
    policy: Policy | None = None,
    observer: ObserverLike = None,
    smooth: bool = False,
) -> Beliefs:
    """The agent's belief and the state at each time, inferred from recorded trials.

    Takes what `log_likelihood` takes. Each time's belief is inferred from the samples up to that
    time, or with `smooth=True` from all samples of the trial. Inside `jit` a trial that
    contradicts the model, or for which no policy was found, is NaN.

    Examples
    --------
    >>> beliefs = mc.track_beliefs(problem, positions, observer=camera)
    >>> beliefs.mean.shape  # (trial, time, state)
    (8, 12, 5)
    """
    trials = as_trials(problem, observed)
    N, T, _ = trials.observed.shape
    whole: Any = None
    for group, index in group_trials(problem, trials, policy, observer):
        group = group.solved_if_concrete()
        beliefs, converged, contradiction = _group_beliefs(group, smooth=smooth)
        if checks.is_concrete(contradiction):
            raise_if_failed(group, index, trials, converged, contradiction)
        if whole is None:
            whole = jax.tree.map(
                lambda leaf: checks.jax_array(np.full((N, T, *leaf.shape[3:]), np.nan)), beliefs
            )
        whole = jax.tree.map(partial(_placed, index), whole, beliefs)
    within = np.arange(T) < trials.lengths[:, None]
    found: Beliefs = jax.tree.map(lambda leaf: with_entries(leaf, ~within, np.nan), whole)
    is_concrete = checks.is_concrete(trials.observed) and checks.is_concrete(found.mean)
    return replace(found, trials=trials) if is_concrete else found


def _placed(
    index: np.ndarray, whole: Float[Array, "N T *dims"], part: Float[Array, "C n t *dims"]
) -> Float[Array, "N T *dims"]:
    """`whole` with the trials of a group put where they belong."""
    filled = index >= 0
    where = (index[filled], slice(part.shape[2]))
    return with_entries(whole, where, entries(part, filled))


@lean_jit
def _group_beliefs(group: Group, *, smooth: bool) -> Any:
    return group.solved().map(partial(_beliefs, smooth=smooth))


def _beliefs(
    problem: Problem,
    policy: Policy,
    observer: Observer,
    samples: Float[Array, "N T o"],
    starts: Float[Array, "N n"] | None,
    *,
    smooth: bool,
) -> Any:
    """The beliefs of trials that share a problem, whether its policy was found, and the index of
    each trial's first contradiction."""
    setting = filter_setting(problem, policy, observer, known_start=starts is not None)
    before, after = run_filter(
        setting,
        jnp.moveaxis(samples, 0, -1),
        None if starts is None else starts.T,
        lambda before, after: (before, after),
        whiten=True,
    )
    mean, cov, updates, contradicting = after
    if smooth:
        mean, cov = _smoothed(setting.joint, mean, cov, updates.whitened)
    n = len(problem.state_names)
    S, (predicted_mean, predicted_cov) = setting.S, before

    def trial_first(values: Array) -> Array:
        return jnp.moveaxis(values, -1, 0)

    innovations = jnp.where(updates.whitened.varies, updates.whitened.innovation, jnp.nan)
    beliefs = Beliefs(
        mean=trial_first(mean[:, n:]),
        cov=trial_first(cov[:, n:, n:]),
        state_mean=trial_first(mean[:, :n]),
        state_cov=trial_first(cov[:, :n, :n]),
        predicted=jnp.einsum("toi,tib->bto", S, predicted_mean[:, :n]),
        predicted_cov=jnp.einsum("toi,tijb,tpj->btop", S, predicted_cov[:, :n, :n], S) + setting.UU,
        innovations=trial_first(innovations),
        state_names=problem.state_names,
        state_units=problem.state_units,
    )
    first = first_contradiction(contradicting.reshape(-1, contradicting.shape[-1]))
    possible = policy.converged & (first == NO_CONTRADICTION)

    def if_possible(leaf: Array) -> Array:
        return jnp.where(possible.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, jnp.nan)

    return jax.tree.map(if_possible, beliefs), policy.converged, first


def _smoothed(
    joint: Joint,
    means: Float[Array, "T z trial"],
    covs: Float[Array, "T z z trial"],
    whitened: Whitened,
) -> tuple[Float[Array, "T z trial"], Float[Array, "T z z trial"]]:
    """The mean and covariance of z given all samples, by Bryson and Frazier's recursion.

    The recursion carries backwards what later samples say about z, as a score and its covariance,
    so that no covariance of z is inverted: many are singular here.
    """

    def step(carry: Any, at: Any) -> Any:
        score, information = carry  # from the samples after this one
        mean, cov, sample, (F, sensing) = at
        smoothed_mean = mean - jnp.einsum("ijb,jb->ib", cov, score)
        removed = jnp.einsum("ijb,jkb,klb->ilb", cov, information, cov)

        # Through what was sensed after this sample, if that is a half of the step; through this
        # sample, and then one step back in time.
        if sensing is not None:
            score, information = _back(sensing, score, information)
        rows, gain, e = sample.rows, sample.gain, sample.innovation
        kept = jnp.eye(mean.shape[0])[:, :, None] - jnp.einsum("oib,ojb->ijb", gain, rows)
        score = jnp.einsum("jib,jb->ib", kept, score) - jnp.einsum("oib,ob->ib", rows, e)
        information = jnp.einsum("jib,jkb,klb->ilb", kept, information, kept) + jnp.einsum(
            "oib,ojb->ijb", rows, rows
        )
        return _back(F, score, information), (
            smoothed_mean,
            cov - (removed + jnp.swapaxes(removed, 0, 1)) / 2,
        )

    nothing = (jnp.zeros_like(means[0]), jnp.zeros_like(covs[0]))
    # Nothing comes before the first sample, and nothing is sensed between it and z_1.
    z = len(means[0])
    into = jnp.concatenate([jnp.zeros((1, z, z)), joint.F])
    sensing = None
    if joint.sensing is not None:
        sensing = jnp.concatenate([jnp.eye(z)[None], joint.sensing.F])
    _, smoothed = lax.scan(step, nothing, (means, covs, whitened, (into, sensing)), reverse=True)
    return smoothed


def _back(
    F: Float[Array, "z z"], score: Float[Array, "z trial"], information: Float[Array, "z z trial"]
) -> tuple[Float[Array, "z trial"], Float[Array, "z z trial"]]:
    """What is known of z' = F z from later samples, as what is known of z."""
    return F.T @ score, jnp.einsum("ji,jkb,kl->ilb", F, information, F)
