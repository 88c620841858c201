"""The two passes of an iteration of the solver (appendix B of the paper).

The backward pass gives the control gains L that are optimal for filter gains K, the forward pass
the filter gains that are optimal for L. Problems may have a batch on the last axes, after those of
the matrices.

With `sense_first`, a step is one in which the agent acts and senses nothing, and then one in which
it senses the state that this led to while nothing moves. Each is the ordinary step with K = 0, or
with A = 1 and B = V = 0.
"""

from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from motorcost.model.policy import FilterGains, Gains
from motorcost.model.problem import Problem
from motorcost.numerics.linalg import (
    RANK_TOLERANCE,
    congruence,
    diagonal,
    mm,
    mmT,
    semidefinite_cholesky,
    solve_least,
    solve_semidefinite,
    symmetrised,
    transposed,
)


def backward_pass(problem: Problem, K: FilterGains) -> Gains:
    """The control gains that are optimal for these filter gains."""
    p = problem

    def step(carry: Any, at: Any) -> Any:
        Px, Pe = carry  # the cost to go of a unit of state, and of a unit of estimation error
        A, B, C, H, D, Q, R, K = at
        if p.sense_first:
            Px, Pe = _before_sensing(Px, Pe, H, D, K)
        PxA, PxB = mm(Px, A), mm(Px, B)
        M = R + mm(transposed(B), PxB)
        for i in range(C.shape[0]):
            M = M + congruence(transposed(C[i]), Px + Pe)
        BPA = mm(transposed(B), PxA)
        # R is positive definite, and so is M: no pivot is zero.
        L = solve_semidefinite(symmetrised(M), BPA, jnp.zeros_like(M[0]))
        saved = mm(transposed(BPA), L)
        Px_next = Q + mm(transposed(A), PxA) - saved
        kept = A if p.sense_first else A - mm(K, H)
        Pe_next = saved + congruence(transposed(kept), Pe)
        if D.shape[0] and not p.sense_first:
            Px_next = _with_sensory_noise(Px_next, Pe, D, K)
        return (symmetrised(Px_next), symmetrised(Pe_next)), L

    end = (p.Q[-1], jnp.zeros_like(p.Q[-1]))
    _, L = lax.scan(step, end, (p.A, p.B, p.C, p.H, p.D, p.Q[:-1], p.R, K), reverse=True)
    return L


def _with_sensory_noise(
    Px: Float[Array, "n n *batch"],
    Pe: Float[Array, "n n *batch"],
    D: Float[Array, "d k n *batch"],
    K: Float[Array, "n k *batch"],
) -> Float[Array, "n n *batch"]:
    """The cost to go of a unit of state, with that of the sensory noise which grows with it."""
    KPK = congruence(transposed(K), Pe)
    for j in range(D.shape[0]):
        Px = Px + congruence(transposed(D[j]), KPK)
    return Px


def _before_sensing(
    Px: Float[Array, "n n *batch"],
    Pe: Float[Array, "n n *batch"],
    H: Float[Array, "k n *batch"],
    D: Float[Array, "d k n *batch"],
    K: Float[Array, "n k *batch"],
) -> tuple[Float[Array, "n n *batch"], Float[Array, "n n *batch"]]:
    """The costs to go before a state is sensed, from those after."""
    before = _with_sensory_noise(Px, Pe, D, K) if D.shape[0] else Px
    return before, congruence(transposed(_uncorrected(K, H)), Pe)


def _uncorrected(
    K: Float[Array, "n k *batch"], H: Float[Array, "k n *batch"]
) -> Float[Array, "n n *batch"]:
    """1 - K H: what is left of an error after it was sensed."""
    KH = mm(K, H)
    return jnp.eye(len(KH)).reshape(*KH.shape[:2], *[1] * (KH.ndim - 2)) - KH


class Forward(NamedTuple):
    """The result of a forward pass.

    - `K`: the filter gains.
    - `cost`: the exact expected cost of control and filter gains together.
    - `estimates`: the second moment of the estimate xh at each step.
    """

    K: FilterGains
    cost: Float[Array, "*batch"]
    estimates: Float[Array, "steps n n *batch"]


def forward_pass(problem: Problem, L: Gains) -> Forward:
    """The filter gains that are optimal for these control gains, and the expected cost of both."""
    p = problem
    # Senses without any noise leave no error in what they measure. Then many gains are equally
    # good, of which the least must be taken: others amplify rounding error.
    noiseless = p.W.shape[2] == 0 and p.D.shape[1] == 0
    # The estimate of an optimal filter is uncorrelated with its error, unless the estimate has
    # noise of its own: then there is no cross moment to follow.
    uncorrelated = p.E.shape[2] == 0

    def step(carry: Any, at: Any) -> Any:
        # Second moments (means included) of the error e = x - xh, of the estimate xh, and between
        # the two.
        Se, Sh, She = carry
        A, B, C, V, H, W, D, E, Q, R, L = at
        Sx = Se + Sh if uncorrelated else Se + Sh + She + transposed(She)
        sense_noise = mmT(W, W)
        for j in range(D.shape[0]):
            sense_noise = sense_noise + congruence(D[j], Sx)
        HSe = mm(H, Se)
        M = symmetrised(mmT(HSe, H) + sense_noise)
        K = _filter_gains(M, mmT(HSe, A), mm(H, Sx), H, noiseless=noiseless)

        # The paper shortens these with the formula for K. Written out they hold for any K
        # and stay positive semidefinite whatever the rounding.
        A_L, A_K = A - mm(B, L), A - mm(K, H)
        EE = mmT(E, E)
        uu = congruence(L, Sh)
        KNK = congruence(K, sense_noise)
        Se_next = congruence(A_K, Se) + KNK + mmT(V, V) + EE
        for i in range(C.shape[0]):
            Se_next = Se_next + congruence(C[i], uu)
        Sh_next = congruence(A_L, Sh) + congruence(K, M) + EE
        She_next = She
        if not uncorrelated:
            across = mm(A_L, She)
            cross = mmT(mmT(across, H), K)
            Sh_next = Sh_next + cross + transposed(cross)
            She_next = mmT(across + mm(K, HSe), A_K) - KNK - EE
        cost = jnp.sum(Q * Sx, axis=(0, 1)) + jnp.sum(R * uu, axis=(0, 1))
        if noiseless:
            Sx_next = Se_next + Sh_next + She_next + transposed(She_next)
            Se_next = _without_rounding(Se_next, Sx_next)
        after = (symmetrised(Se_next), symmetrised(Sh_next), She_next)
        return after, (K, cost, Sh)

    matrices = (p.A, p.B, p.C, p.V, p.H, p.W, p.D, p.E, p.Q[:-1], p.R, L)
    walk: Any = step
    if p.sense_first:
        walk = partial(_sense_first_step, noiseless=noiseless, uncorrelated=uncorrelated)
    (Se, Sh, She), (K, costs, estimates) = lax.scan(walk, _initial_moments(p), matrices)
    final_cost = jnp.sum(p.Q[-1] * (Se + Sh + She + transposed(She)), axis=(0, 1))
    return Forward(K, jnp.sum(costs, axis=0) + final_cost, estimates)


def _sense_first_step(carry: Any, at: Any, *, noiseless: bool, uncorrelated: bool) -> Any:
    A, B, C, V, H, W, D, E, Q, R, L = at
    Se, Sh, She = carry
    uu = congruence(L, Sh)
    cost = jnp.sum(Q * (Se + Sh + She + transposed(She)), axis=(0, 1))
    cost = cost + jnp.sum(R * uu, axis=(0, 1))
    acted = _acted(carry, uu, A, B, C, V, L, uncorrelated=uncorrelated)
    after, K = _sensed(acted, H, W, D, E, noiseless=noiseless, uncorrelated=uncorrelated)
    return after, (K, cost, Sh)


def _acted(
    moments: tuple[Array, Array, Array],
    uu: Array,
    A: Array,
    B: Array,
    C: Array,
    V: Array,
    L: Array,
    *,
    uncorrelated: bool,
) -> tuple[Array, Array, Array]:
    """The second moments of error, estimate and between the two after an action, of which nothing
    is sensed. `uu` is the second moment of the control."""
    Se, Sh, She = moments
    A_L = A - mm(B, L)
    Se = congruence(A, Se) + mmT(V, V)
    for i in range(C.shape[0]):
        Se = Se + congruence(C[i], uu)
    She = She if uncorrelated else mmT(mm(A_L, She), A)
    return symmetrised(Se), symmetrised(congruence(A_L, Sh)), She


def _sensed(
    moments: tuple[Array, Array, Array],
    H: Array,
    W: Array,
    D: Array,
    E: Array,
    *,
    noiseless: bool,
    uncorrelated: bool,
) -> tuple[tuple[Array, Array, Array], Array]:
    """The second moments after a state was sensed, while nothing moves, and the filter gains."""
    Se, Sh, She = moments
    Sx = Se + Sh + She + transposed(She)
    sense_noise = mmT(W, W)
    for j in range(D.shape[0]):
        sense_noise = sense_noise + congruence(D[j], Sx)
    HSe = mm(H, Se)
    M = symmetrised(mmT(HSe, H) + sense_noise)
    K = _filter_gains(M, HSe, mm(H, Sx), H, noiseless=noiseless)
    left, EE, KNK = _uncorrected(K, H), mmT(E, E), congruence(K, sense_noise)
    Se_next = congruence(left, Se) + KNK + EE
    Sh_next = Sh + congruence(K, M) + EE
    She_next = She
    if not uncorrelated:
        cross = mmT(mmT(She, H), K)
        Sh_next = Sh_next + cross + transposed(cross)
        She_next = mmT(She + mm(K, HSe), left) - KNK - EE
    if noiseless:
        Se_next = _without_rounding(Se_next, Se_next + Sh_next + She_next + transposed(She_next))
    return (symmetrised(Se_next), symmetrised(Sh_next), She_next), K


def _initial_moments(p: Problem) -> tuple[Array, Array, Array]:
    """Second moments of the first error, of the first estimate, and between the two."""
    m1 = p.initial_belief
    return (
        p.initial_state_cov,
        m1[:, None] * m1[None, :] + p.initial_belief_cov,
        jnp.zeros_like(p.initial_state_cov),
    )


def _filter_gains(
    M: Float[Array, "k k *batch"],
    HSeA: Float[Array, "k n *batch"],
    HSx: Float[Array, "k n *batch"],
    H: Float[Array, "k n *batch"],
    *,
    noiseless: bool,
) -> Float[Array, "n k *batch"]:
    """K with K M = A Se H', where M is the second moment of the innovation.

    The size of the sensed states (the diagonal of H Sx H') decides which innovations are zero up
    to rounding.
    """
    sensed = (HSx * H).sum(axis=1)
    floor = RANK_TOLERANCE * jnp.maximum(sensed, 0.0)
    solve = solve_least if noiseless else solve_semidefinite
    return transposed(solve(M, HSeA, floor))


def _without_rounding(
    Se: Float[Array, "n n *batch"], Sx: Float[Array, "n n *batch"]
) -> Float[Array, "n n *batch"]:
    """Se without the directions in which it is zero up to rounding.

    Which errors are zero decides the next gains, and only the size of the states can tell a zero
    from a small number. Otherwise rounding error would grow until it looked like an error of
    estimation.
    """
    floor = RANK_TOLERANCE * jnp.maximum(diagonal(Sx), 0.0)
    L = semidefinite_cholesky(lax.stop_gradient(symmetrised(Se)), lax.stop_gradient(floor))
    return symmetrised(Se) + lax.stop_gradient(mmT(L, L) - symmetrised(Se))
