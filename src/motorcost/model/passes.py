"""The two passes of an iteration of the solver (appendix B of the paper).

The backward pass gives the control gains L that are optimal for filter gains K, the forward pass
the filter gains that are optimal for L. Problems may have a batch on the last axes, after those of
the matrices.

Both take the estimate to be unbiased, E[x | xh] = xh, which noise in the estimate (E) makes untrue.
Then control gains are optimal only if they know what to expect of the state given the estimate,

    E[x | xh] = (I + bias) xh,

and filter gains only if they know which estimate leads to the lowest cost at a state x,

    xh = (I + wanted) x.

`biased_backward_pass` takes `bias` and returns `wanted`, the forward pass can take `wanted` and
returns what `bias` is computed from. With E = 0 both are zero.

With `sense_first` the agent acts and then senses what this led to (`half_steps`).
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from motorcost.model.half_steps import (
    costs_before_sensing,
    filter_gains,
    moments_after_action,
    moments_after_sensing,
    with_sensory_noise,
    without_rounding,
)
from motorcost.model.policy import FilterGains, Gains
from motorcost.model.problem import Problem
from motorcost.numerics.linalg import (
    congruence,
    mm,
    mmT,
    solve_semidefinite,
    symmetrised,
    transposed,
)

# A matrix of the size of A for each step.
Square = Float[Array, "steps n n *batch"]


def backward_pass(problem: Problem, K: FilterGains) -> Gains:
    """The control gains that are optimal for these filter gains."""
    p = problem

    def step(carry: Any, at: Any) -> Any:
        Px, Pe = carry  # the cost to go of a unit of state, and of a unit of estimation error
        A, B, C, H, D, Q, R, K = at
        if p.sense_first:
            Px, Pe = costs_before_sensing(Px, Pe, H, D, K)
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
            Px_next = with_sensory_noise(Px_next, Pe, D, K)
        return (symmetrised(Px_next), symmetrised(Pe_next)), L

    end = (p.Q[-1], jnp.zeros_like(p.Q[-1]))
    _, L = lax.scan(step, end, (p.A, p.B, p.C, p.H, p.D, p.Q[:-1], p.R, K), reverse=True)
    return L


def biased_backward_pass(problem: Problem, K: FilterGains, bias: Square) -> tuple[Gains, Square]:
    """The control gains that are optimal for these filter gains if E[x | xh] = (I + bias) xh, and
    the `wanted` of each step's result.

    Each control gain is optimal given the later control gains, all filter gains, and the
    distribution of state and estimate at its time.
    """
    p = problem

    def step(carry: Any, at: Any) -> Any:
        # The cost to go of a state x and an error e = x - xh is x' Px x + 2 x' Pxe e + e' Pe e.
        Px, Pxe, Pe = carry
        A, B, C, H, D, Q, R, K, bias = at
        # The minimum over e is at e = -wanted x. Where an error costs nothing, none is wanted.
        wanted = solve_semidefinite(Pe, transposed(Pxe))
        N = R
        for i in range(C.shape[0]):  # this noise moves the state, and the error by as much
            N = N + congruence(transposed(C[i]), Px + Pxe + transposed(Pxe) + Pe)
        A_K, PxB = A - mm(K, H), mm(Px, B)
        BPA, BXA = mm(transposed(PxB), A), mm(mm(transposed(B), Pxe), A_K)
        # R is positive definite, and so is M: no pivot is zero.
        M = symmetrised(N + mm(transposed(B), PxB))
        L = solve_semidefinite(M, BPA + mm(BPA + BXA, bias), jnp.zeros_like(M[0]))

        # With u = -L (x - e), x' = (A - B L) x + B L e and e' = (A - K H) e, up to noise.
        BL = mm(B, L)
        A_L = A - BL
        uu = congruence(transposed(L), N)
        crossed = mm(mm(transposed(BL), Pxe), A_K)
        Px_next = Q + congruence(transposed(A_L), Px) + uu
        Pxe_next = mm(transposed(A_L), mm(Px, BL) + mm(Pxe, A_K)) - uu
        Pe_next = congruence(transposed(BL), Px) + congruence(transposed(A_K), Pe) + uu
        Pe_next = Pe_next + crossed + transposed(crossed)
        KPK = congruence(transposed(K), Pe)
        for j in range(D.shape[0]):
            Px_next = Px_next + congruence(transposed(D[j]), KPK)
        return (symmetrised(Px_next), Pxe_next, symmetrised(Pe_next)), (L, wanted)

    zero = jnp.zeros_like(p.Q[-1])
    matrices = (p.A, p.B, p.C, p.H, p.D, p.Q[:-1], p.R, K, bias)
    return lax.scan(step, (p.Q[-1], zero, zero), matrices, reverse=True)[1]


class Forward(NamedTuple):
    """The result of a forward pass.

    - `K`: the filter gains.
    - `cost`: the exact expected cost of control and filter gains together.
    - `estimates`: the second moment of the estimate xh at each step.
    - `crossed`: the second moment of the estimate and its error x - xh at each step.
    - `innovations`: the second moment of the innovation y - H xh at each step.
    """

    K: FilterGains
    cost: Float[Array, "*batch"]
    estimates: Square
    crossed: Square
    innovations: Float[Array, "steps k k *batch"]

    @property
    def bias(self) -> Square:
        """How the expected state differs from the estimate: E[x | xh] = (I + bias) xh.

        Where the estimate has no variance, no bias is assumed.
        """
        return jax.vmap(lambda Sh, She: transposed(solve_semidefinite(Sh, She)))(
            self.estimates, self.crossed
        )


def forward_pass(problem: Problem, L: Gains, wanted: Square | None = None) -> Forward:
    """The filter gains that are optimal for these control gains, and the expected cost of both.

    With `wanted`, each filter gain is optimal given the earlier filter gains, all control gains and
    the cost to go from which `wanted` was computed; without, if the estimate should be the state.
    """
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
        A, B, C, V, H, W, D, E, Q, R, L, wanted = at
        Sx = Se + Sh if uncorrelated else Se + Sh + She + transposed(She)
        sense_noise = mmT(W, W)
        for j in range(D.shape[0]):
            sense_noise = sense_noise + congruence(D[j], Sx)
        HSe = mm(H, Se)
        M = symmetrised(mmT(HSe, H) + sense_noise)
        A_L = A - mm(B, L)
        HSeA = mmT(HSe, A)
        if wanted is not None:  # K M = ((I + wanted) A Se + wanted (A - B L) She) H'
            HSeA = HSeA + mmT(HSeA + mmT(mmT(H, She), A_L), wanted)
        K = filter_gains(M, HSeA, mm(H, Sx), H, noiseless=noiseless)

        # The paper shortens these with the formula for K. Written out they hold for any K
        # and stay positive semidefinite whatever the rounding.
        A_K = A - mm(K, H)
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
            Se_next = without_rounding(Se_next, Sx_next)
        after = (symmetrised(Se_next), symmetrised(Sh_next), She_next)
        return after, (K, cost, Sh, She, M)

    matrices = (p.A, p.B, p.C, p.V, p.H, p.W, p.D, p.E, p.Q[:-1], p.R, L, wanted)
    walk: Any = step
    if p.sense_first:
        walk = partial(_sense_first_step, noiseless=noiseless, uncorrelated=uncorrelated)
    (Se, Sh, She), (K, costs, *moments) = lax.scan(walk, _initial_moments(p), matrices)
    final_cost = jnp.sum(p.Q[-1] * (Se + Sh + She + transposed(She)), axis=(0, 1))
    return Forward(K, jnp.sum(costs, axis=0) + final_cost, *moments)


def _sense_first_step(carry: Any, at: Any, *, noiseless: bool, uncorrelated: bool) -> Any:
    A, B, C, V, H, W, D, E, Q, R, L, _ = at
    Se, Sh, She = carry
    uu = congruence(L, Sh)
    cost = jnp.sum(Q * (Se + Sh + She + transposed(She)), axis=(0, 1))
    cost = cost + jnp.sum(R * uu, axis=(0, 1))
    acted = moments_after_action(carry, uu, A, B, C, V, L, uncorrelated=uncorrelated)
    after, K, M = moments_after_sensing(
        acted, H, W, D, E, noiseless=noiseless, uncorrelated=uncorrelated
    )
    return after, (K, cost, Sh, She, M)


def _initial_moments(p: Problem) -> tuple[Array, Array, Array]:
    """Second moments of the first error, of the first estimate, and between the two."""
    m1 = p.initial_belief
    return (
        p.initial_state_cov,
        m1[:, None] * m1[None, :] + p.initial_belief_cov,
        jnp.zeros_like(p.initial_state_cov),
    )
