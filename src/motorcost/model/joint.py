"""World and agent as one linear system in z = (x, xh).

    z' = F z + G zeta + sum_i eps_i Gi xh + sum_j del_j Dj x

with F = [[A, -B L], [K H, A^ - B^ L - K H^]], G = blockdiag(V, [K W, E]),
Gi = [-C_i L; 0] and Dj = [0; K D_j] (the paper's equation 7, in the notation of its appendix C,
with the slips there put right).

If the agent senses a state before it acts on it (`Problem.sense_first`), a step is a step of this
kind in which it acts and senses nothing (K = 0), and then another in which it senses while nothing
moves (A = 1, B = V = C = 0).

Moments of many trials have the trials on the last axis: mean (z, trial), covariance
(z, z, trial). Every operation is then arithmetic on vectors of trials.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.numerics.linalg import at_places

Mean = Float[Array, "z trial"]
# Of all entries of z, or of those that vary. An axis of length one stands for a covariance that all
# trials share.
Cov = Float[Array, "v v #trial"]


class Joint(eqx.Module):
    """The matrices of the joint system, one per step along the first axis. Of the z entries, x
    belong to the state and h to the estimate: n each, unless some are left out (see `among`)."""

    F: Float[Array, "*steps z z"]
    GG: Float[Array, "*steps z z"]  # G G', the covariance of the additive noise
    L: Float[Array, "*steps m h"]
    C: Float[Array, "*steps c x m"]
    K: Float[Array, "*steps h k"]
    D: Float[Array, "*steps d k x"]
    sensing: Joint | None = None  # the second half of the steps, if sensing comes after acting

    def among(self, entries: tuple[int, ...]) -> Joint:
        """What moves the covariance of these entries of z, if no other entry varies."""
        n = self.K.shape[-2]
        x, h = [i for i in entries if i < n], [i - n for i in entries if i >= n]
        return Joint(
            F=at_places(at_places(self.F, entries, axis=-2), entries, axis=-1),
            GG=at_places(at_places(self.GG, entries, axis=-2), entries, axis=-1),
            L=at_places(self.L, h, axis=-1),
            C=at_places(self.C, x, axis=-2),
            K=at_places(self.K, h, axis=-2),
            D=at_places(self.D, x, axis=-1),
            sensing=None if self.sensing is None else self.sensing.among(entries),
        )

    def is_all_that_varies(
        self, entries: tuple[int, ...], cov_1: Float[Array, "z z"]
    ) -> Bool[Array, ""]:
        """Whether no other entry of z than these varies."""
        z, n = cov_1.shape[0], cov_1.shape[0] // 2
        others = np.array([i for i in range(z) if i not in entries], int)
        x, h = others[others < n], others[others >= n] - n
        moved = [
            self.F[:, others][..., list(entries)],
            self.GG[:, others],
            cov_1[others],
            self.C[..., x, :],
            self.K[:, None, h] @ self.D,
        ]
        alone = ~jnp.stack([(part != 0).any() for part in moved]).any()
        if self.sensing is None:
            return alone
        return alone & self.sensing.is_all_that_varies(entries, cov_1)


def joint_system(problem: Problem, policy: Policy) -> Joint:
    """Return the joint system of a world and a policy, which may be solved for another world."""
    policy.require_fit(problem)
    p, b, L, K = problem, policy.believed, policy.L, policy.K

    def zeros(*shape: int) -> Array:
        return jnp.zeros((steps, *shape))

    steps, n, v = p.V.shape
    w, e = p.W.shape[-1], p.E.shape[-1]
    if p.sense_first:
        return _acting_then_sensing(p, policy)
    G = _blocks([[p.V, zeros(n, w + e)], [zeros(n, v), K @ p.W, p.E]])
    return Joint(
        F=_blocks([[p.A, -p.B @ L], [K @ p.H, b.A - b.B @ L - K @ b.H]]),
        GG=G @ jnp.swapaxes(G, -1, -2),
        L=L,
        C=p.C,
        K=K,
        D=p.D,
    )


def _acting_then_sensing(p: Problem, policy: Policy) -> Joint:
    """The joint system of an agent that senses a state before it acts on it."""
    b, L, K = policy.believed, policy.L, policy.K
    steps, n, _ = p.V.shape
    m, k = L.shape[1], K.shape[2]
    nothing = jnp.zeros((steps, n, n))
    still = jnp.broadcast_to(jnp.eye(n), (steps, n, n))
    V = jnp.concatenate([p.V, jnp.zeros_like(p.V)], axis=-2)
    N = jnp.concatenate([K @ p.W, p.E], axis=-1)
    N = jnp.concatenate([jnp.zeros_like(N), N], axis=-2)
    return Joint(
        F=_blocks([[p.A, -p.B @ L], [nothing, b.A - b.B @ L]]),
        GG=V @ jnp.swapaxes(V, -1, -2),
        L=L,
        C=p.C,
        K=jnp.zeros((steps, n, k)),
        D=jnp.zeros((steps, 0, k, n)),
        sensing=Joint(
            F=_blocks([[still, nothing], [K @ p.H, still - K @ b.H]]),
            GG=N @ jnp.swapaxes(N, -1, -2),
            L=jnp.zeros((steps, m, n)),
            C=jnp.zeros((steps, 0, n, m)),
            K=K,
            D=p.D,
        ),
    )


def _blocks(rows: list[list[Array]]) -> Array:
    return jnp.concatenate([jnp.concatenate(row, axis=-1) for row in rows], axis=-2)


def joint_start(problem: Problem) -> tuple[Float[Array, " z"], Float[Array, "z z"]]:
    """Return mean and covariance of z_1: xh_1 ~ N(m_1, P_1) and x_1 = xh_1 + N(0, Sigma_1)."""
    m1, P, S = problem.initial_belief, problem.initial_belief_cov, problem.initial_state_cov
    return jnp.concatenate([m1, m1]), jnp.block([[P + S, P], [P, P]])


def predict(at: Joint, mean: Mean, cov: Cov, varying: Joint | None = None) -> tuple[Mean, Cov]:
    """Return mean and covariance of z one step later; exact for any distribution of z.

    Without signal-dependent noise a covariance that all trials share stays one. If `cov` is that of
    some entries of z, outside of which nothing varies, `varying` is what `Joint.among` returns for
    them.
    """
    return sense(at, *act(at, mean, cov, varying), varying)


def sense(at: Joint, mean: Mean, cov: Cov, varying: Joint | None = None) -> tuple[Mean, Cov]:
    """Return mean and covariance of z after a state was sensed that `act` led to, if that is a half
    of its own; unchanged otherwise."""
    if at.sensing is None:
        return mean, cov
    return act(at.sensing, mean, cov, None if varying is None else varying.sensing)


def act(at: Joint, mean: Mean, cov: Cov, varying: Joint | None = None) -> tuple[Mean, Cov]:
    """Return what `predict` returns, or if sensing is a half of its own, mean and covariance of z
    before it."""
    n = mean.shape[0] // 2
    among = at if varying is None else varying
    x = among.C.shape[-2]  # the number of entries that belong to the state
    after = jnp.einsum("ij,jkb,lk->ilb", among.F, cov, among.F) + among.GG[:, :, None]
    if has_signal_dependent_noise(at):
        # Second moments: sum_i Gi hh Gi' and sum_j Dj xx Dj', through the controls and senses,
        # which are few.
        h = after.shape[0] - x
        if at.C.shape[-3]:
            u = at.L @ mean[n:]
            uu = jnp.einsum("aj,jkb,ck->acb", among.L, cov[x:, x:], among.L)
            uu = uu + u[:, None] * u[None, :]
            motor = jnp.einsum("ija,acb,ikc->jkb", among.C, uu, among.C)
            after = after + jnp.pad(motor, ((0, h), (0, h), (0, 0)))
        if at.D.shape[-3]:
            s = jnp.einsum("iaj,jb->iab", at.D, mean[:n])
            ss = jnp.einsum("iaj,jkb,ick->acb", among.D, cov[:x, :x], among.D)
            ss = ss + jnp.einsum("iab,icb->acb", s, s)
            sensory = jnp.einsum("ja,acb,kc->jkb", among.K, ss, among.K)
            after = after + jnp.pad(sensory, ((x, 0), (x, 0), (0, 0)))
    return at.F @ mean, (after + jnp.swapaxes(after, 0, 1)) / 2


def can_vary(problem: Problem) -> Bool[Array, " z"]:
    """Which entries of z = (x, xh) can vary over trials, with whatever gains are optimal."""
    p, b = problem, problem.as_believed

    def rows(M: Float[Array, "steps *any n c"]) -> Bool[Array, " n"]:
        return (M != 0).any(axis=(*range(M.ndim - 2), M.ndim - 1))

    def closed(varies: Bool[Array, " n"], A: Float[Array, "steps n n"]) -> Bool[Array, " n"]:
        """What these entries change in the course of time, too."""
        depends = (A != 0).any(axis=0)
        return lax.fori_loop(
            0,
            A.shape[-1],
            lambda _, varies: varies | (depends & varies[None]).any(axis=1),
            varies,
        )

    at_first = [jnp.diagonal(cov) != 0 for cov in (p.initial_belief_cov, p.initial_state_cov)]
    # The agent corrects what it can err in.
    err = jnp.diagonal(b.initial_state_cov) != 0
    corrected = closed(err | rows(b.V) | rows(b.E) | rows(b.C), b.A)
    if b.method == "optimal" and b.E.shape[-1]:
        # It may also use what it cannot err in, such as a known target, as a memory.
        corrected = jnp.ones_like(corrected)
    state = at_first[0] | at_first[1] | rows(p.V) | rows(p.C) | rows(p.B)
    estimate = at_first[0] | at_first[1] | corrected | rows(p.E) | rows(b.B)
    return jnp.concatenate([closed(state, p.A), closed(estimate, b.A)])


def has_signal_dependent_noise(system: Joint | Problem) -> bool:
    """Whether there is noise that grows with the control or the state. Any batch is on the first
    axes."""
    second = system.sensing if isinstance(system, Joint) else None
    here = bool(system.C.shape[-3] or system.D.shape[-3])
    return here or (second is not None and has_signal_dependent_noise(second))


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
