"""Exact means, covariances and expected cost of any policy in any world."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from motorcost.model.joint import joint_start, joint_system, predict
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.numerics.compiling import lean_jit

if TYPE_CHECKING:
    from motorcost.plots.style import CaptionedFigure


class Moments(eqx.Module):
    """Mean and covariance over trials of z = (x, xh) at every time: states, then estimates.

    `times` are in seconds, `state_names` and `state_units` those of the problem.

    Examples
    --------
    >>> found = mc.moments(problem, policy)
    >>> found.state_cov.shape  # (time, state, state)
    (12, 5, 5)
    """

    mean: Float[Array, "T z"]
    cov: Float[Array, "T z z"]
    times: Float[Array, " T"]
    state_names: tuple[str, ...] = eqx.field(static=True)
    state_units: tuple[str, ...] = eqx.field(static=True)

    @property
    def state_mean(self) -> Float[Array, "T n"]:
        """Mean of the states."""
        return self.mean[:, : self._n]

    @property
    def state_cov(self) -> Float[Array, "T n n"]:
        """Covariance of the states."""
        return self.cov[:, : self._n, : self._n]

    @property
    def belief_mean(self) -> Float[Array, "T n"]:
        """Mean of the agent's estimates."""
        return self.mean[:, self._n :]

    @property
    def belief_cov(self) -> Float[Array, "T n n"]:
        """Covariance of the agent's estimates, over trials."""
        return self.cov[:, self._n :, self._n :]

    def plot(self, states: Sequence[str] | None = None) -> "CaptionedFigure":
        """Draw mean and SD of states and estimates over time; see `mc.plots.plot_moments`."""
        from motorcost.plots.beliefs import plot_moments

        return plot_moments(self, states)

    @property
    def _n(self) -> int:
        return self.mean.shape[-1] // 2


@partial(lean_jit, jit=jax.jit)
def moments(problem: Problem, policy: Policy) -> Moments:
    """Return the exact mean and covariance over trials of states and beliefs at every time.

    Examples
    --------
    >>> mean = mc.moments(problem, policy).state_mean
    >>> mean.shape
    (12, 5)
    """
    return moments_from(problem, policy, *joint_start(problem))


def moments_from(
    problem: Problem, policy: Policy, mean_1: Float[Array, " z"], cov_1: Float[Array, "z z"]
) -> Moments:
    """Return what `moments` returns, for a start other than the problem's.

    `mean_1` and `cov_1` are of z = (x, xh) at the first step.
    """

    def step(carry: Any, at: Any) -> Any:
        after = predict(at, *carry)
        return after, after

    start = (mean_1[:, None], cov_1[:, :, None])  # a batch of one trial
    _, (mean, cov) = lax.scan(step, start, joint_system(problem, policy))
    return Moments(
        mean=jnp.concatenate([mean_1[None], mean[..., 0]]),
        cov=jnp.concatenate([cov_1[None], cov[..., 0]]),
        times=problem.times,
        state_names=problem.state_names,
        state_units=problem.state_units,
    )


@partial(lean_jit, jit=jax.jit)
def expected_cost(problem: Problem, policy: Policy) -> Float[Array, ""]:
    """Return the exact expected cost of a policy in the world of a problem.

    The cost is that of `problem`. The policy may have been solved for another problem, or for the
    beliefs of an agent that are wrong.

    Examples
    --------
    >>> print(f"{mc.expected_cost(problem, policy):.2e}")
    9.66e-03
    """
    z = moments(problem, policy)
    xx = z.state_cov + jnp.einsum("ti,tj->tij", z.state_mean, z.state_mean)
    hh = z.belief_cov + jnp.einsum("ti,tj->tij", z.belief_mean, z.belief_mean)
    uu = policy.L @ hh[:-1] @ jnp.swapaxes(policy.L, -1, -2)
    return jnp.sum(problem.Q * xx) + jnp.sum(problem.R * uu)
