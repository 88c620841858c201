"""World and agent as one linear system in z = (x, xh).

    z' = F z + G zeta + sum_i eps_i Gi xh + sum_j del_j Dj x

with F = [[A, -B L], [K H, A^ - B^ L - K H^]], G = blockdiag(V, [K W, E]),
Gi = [-C_i L; 0] and Dj = [0; K D_j] (the paper's equation 7, in the notation of its appendix C,
with the slips there put right).

Moments of many trials have the trials on the last axis: mean (z, trial), covariance
(z, z, trial). Every operation is then arithmetic on vectors of trials.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from motorcost.model.policy import Policy
from motorcost.model.problem import Problem

Mean = Float[Array, "z trial"]
# An axis of length one stands for a covariance that all trials share.
Cov = Float[Array, "z z #trial"]


class Joint(eqx.Module):
    """The matrices of the joint system, one per step along the first axis."""

    F: Float[Array, "*steps z z"]
    GG: Float[Array, "*steps z z"]  # G G', the covariance of the additive noise
    L: Float[Array, "*steps m n"]
    C: Float[Array, "*steps c n m"]
    K: Float[Array, "*steps n k"]
    D: Float[Array, "*steps d k n"]


def joint_system(problem: Problem, policy: Policy) -> Joint:
    """Return the joint system of a world and a policy, which may be solved for another world."""
    policy.require_fit(problem)
    p, b, L, K = problem, policy.believed, policy.L, policy.K

    def blocks(rows: list[list[Array]]) -> Array:
        return jnp.concatenate([jnp.concatenate(row, axis=-1) for row in rows], axis=-2)

    def zeros(*shape: int) -> Array:
        return jnp.zeros((steps, *shape))

    steps, n, v = p.V.shape
    w, e = p.W.shape[-1], p.E.shape[-1]
    G = blocks([[p.V, zeros(n, w + e)], [zeros(n, v), K @ p.W, p.E]])
    return Joint(
        F=blocks([[p.A, -p.B @ L], [K @ p.H, b.A - b.B @ L - K @ b.H]]),
        GG=G @ jnp.swapaxes(G, -1, -2),
        L=L,
        C=p.C,
        K=K,
        D=p.D,
    )


def joint_start(problem: Problem) -> tuple[Float[Array, " z"], Float[Array, "z z"]]:
    """Return mean and covariance of z_1: xh_1 ~ N(m_1, P_1) and x_1 = xh_1 + N(0, Sigma_1)."""
    m1, P, S = problem.initial_belief, problem.initial_belief_cov, problem.initial_state_cov
    return jnp.concatenate([m1, m1]), jnp.block([[P + S, P], [P, P]])


def predict(at: Joint, mean: Mean, cov: Cov) -> tuple[Mean, Cov]:
    """Return mean and covariance of z one step later; exact for any distribution of z.

    Without signal-dependent noise a covariance that all trials share stays one.
    """
    n = mean.shape[0] // 2
    after = jnp.einsum("ij,jkb,lk->ilb", at.F, cov, at.F) + at.GG[:, :, None]
    if has_signal_dependent_noise(at):
        second_moment = cov + mean[:, None] * mean[None, :]
        xx, hh = second_moment[:n, :n], second_moment[n:, n:]
        # sum_i Gi hh Gi' and sum_j Dj xx Dj', through the controls and senses, which are few.
        uu = jnp.einsum("aj,jkb,ck->acb", at.L, hh, at.L)
        motor = jnp.einsum("ija,acb,ikc->jkb", at.C, uu, at.C)
        ss = jnp.einsum("iaj,jkb,ick->acb", at.D, xx, at.D)
        sensory = jnp.einsum("ja,acb,kc->jkb", at.K, ss, at.K)
        after = after.at[:n, :n].add(motor).at[n:, n:].add(sensory)
    return at.F @ mean, (after + jnp.swapaxes(after, 0, 1)) / 2


def has_signal_dependent_noise(system: Joint | Problem) -> bool:
    """Whether there is noise that grows with the control or the state. Any batch is on the first
    axes."""
    return bool(system.C.shape[-3] or system.D.shape[-3])


def state_covariances(
    joint: Joint, mean_1: Float[Array, " z"], cov_1: Float[Array, "z z"]
) -> Float[Array, "T n n"]:
    """The covariance of the state x over all trials at every time, given no samples; without
    derivatives."""
    n = mean_1.shape[0] // 2

    def step(carry: Any, at: Any) -> Any:
        after = predict(at, *carry)
        return after, after[1][:n, :n, 0]

    start = (mean_1[:, None], cov_1[:, :, None])
    later = lax.scan(step, *lax.stop_gradient((start, joint)))[1]
    return jnp.concatenate([lax.stop_gradient(cov_1[None, :n, :n]), later])
