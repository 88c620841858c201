"""Exact means, covariances and expected cost of any policy in any world."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from motorcost.model.joint import joint_start, joint_system, predict
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem


class Moments(eqx.Module):
    """Mean and covariance over trials of z = (x, xh) at every time: states, then estimates."""

    mean: Float[Array, "T z"]
    cov: Float[Array, "T z z"]

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

    @property
    def _n(self) -> int:
        return self.mean.shape[-1] // 2


@jax.jit
def moments(problem: Problem, policy: Policy) -> Moments:
    """Return the exact mean and covariance over trials of states and beliefs at every time."""
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
    )


@jax.jit
def expected_cost(problem: Problem, policy: Policy) -> Float[Array, ""]:
    """Return the exact expected cost of a policy in the world of a problem.

    The cost is that of `problem`. The policy may have been solved for another problem, or for the
    beliefs of an agent that are wrong.
    """
    z = moments(problem, policy)
    xx = z.state_cov + jnp.einsum("ti,tj->tij", z.state_mean, z.state_mean)
    hh = z.belief_cov + jnp.einsum("ti,tj->tij", z.belief_mean, z.belief_mean)
    uu = policy.L @ hh[:-1] @ jnp.swapaxes(policy.L, -1, -2)
    return jnp.sum(problem.Q * xx) + jnp.sum(problem.R * uu)
