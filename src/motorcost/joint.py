"""World and agent as one linear system in z = (x, xh).

    z' = F z + G zeta + sum_i eps_i Gi xh + sum_j del_j Dj x

with F = [[A, -B L], [K H, A^ - B^ L - K H^]], G = blockdiag(V, [K W, E]),
Gi = [-C_i L; 0] and Dj = [0; K D_j] (the paper's equation 7, in the notation of its appendix C,
with the slips there put right).
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from motorcost.linalg import symmetrised
from motorcost.problem import Problem
from motorcost.solver import Policy


class Joint(eqx.Module):
    """The joint system's matrices, one for each step: first axis T-1."""

    F: Float[Array, "steps z z"]
    GG: Float[Array, "steps z z"]  # G G', the covariance of the noise that is always there
    Gi: Float[Array, "steps c z n"]
    Dj: Float[Array, "steps d z n"]


def joint_system(problem: Problem, policy: Policy) -> Joint:
    """The system that this policy forms with this world, whatever world it was made for."""
    p, b, L, K = problem, policy.believed, policy.L, policy.K

    def blocks(rows: list[list[Array]]) -> Array:
        return jnp.concatenate([jnp.concatenate(row, axis=-1) for row in rows], axis=-2)

    def zeros(*like: int) -> Array:
        return jnp.zeros((steps, *like))

    steps, n, v = p.V.shape
    w, e = p.W.shape[-1], p.E.shape[-1]
    KH_believed = K @ b.H
    G = blocks([[p.V, zeros(n, w + e)], [zeros(n, v), K @ p.W, p.E]])
    CL = p.C @ L[:, None]
    KD = K[:, None] @ p.D
    return Joint(
        F=blocks([[p.A, -p.B @ L], [K @ p.H, b.A - b.B @ L - KH_believed]]),
        GG=G @ jnp.swapaxes(G, -1, -2),
        Gi=jnp.concatenate([-CL, jnp.zeros_like(CL)], axis=-2),
        Dj=jnp.concatenate([jnp.zeros_like(KD), KD], axis=-2),
    )


def joint_start(problem: Problem) -> tuple[Float[Array, " z"], Float[Array, "z z"]]:
    """Mean and covariance of z_1: xh_1 ~ N(m_1, P_1) and x_1 = xh_1 + N(0, Sigma_1)."""
    m1, P, S = problem.initial_belief, problem.initial_belief_cov, problem.initial_state_cov
    return jnp.concatenate([m1, m1]), jnp.block([[P + S, P], [P, P]])


def predict(
    joint_step: Joint, mean: Float[Array, " z"], cov: Float[Array, "z z"]
) -> tuple[Float[Array, " z"], Float[Array, "z z"]]:
    """Mean and covariance of z one step later; exact whatever the distribution of z."""
    s, n = joint_step, mean.shape[0] // 2
    second_moment = cov + jnp.outer(mean, mean)
    x, h = second_moment[:n, :n], second_moment[n:, n:]
    noise = (
        s.GG
        + jnp.einsum("iaj,jk,ibk->ab", s.Gi, h, s.Gi)
        + jnp.einsum("iaj,jk,ibk->ab", s.Dj, x, s.Dj)
    )
    return s.F @ mean, symmetrised(s.F @ cov @ s.F.T + noise)
