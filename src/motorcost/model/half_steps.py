"""Parts of a step of the solver's passes: filter gains, and steps in which an agent acts or senses.

With `sense_first`, a step is one in which the agent acts and senses nothing, and then one in which
it senses the state that this led to while nothing moves. Each is the ordinary step with K = 0, or
with A = 1 and B = V = 0.

Matrices may have a batch on the last axes.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

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


def with_sensory_noise(
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


def costs_before_sensing(
    Px: Float[Array, "n n *batch"],
    Pe: Float[Array, "n n *batch"],
    H: Float[Array, "k n *batch"],
    D: Float[Array, "d k n *batch"],
    K: Float[Array, "n k *batch"],
) -> tuple[Float[Array, "n n *batch"], Float[Array, "n n *batch"]]:
    """The costs to go before a state is sensed, from those after."""
    before = with_sensory_noise(Px, Pe, D, K) if D.shape[0] else Px
    return before, congruence(transposed(_uncorrected(K, H)), Pe)


def _uncorrected(
    K: Float[Array, "n k *batch"], H: Float[Array, "k n *batch"]
) -> Float[Array, "n n *batch"]:
    """1 - K H: what is left of an error after it was sensed."""
    KH = mm(K, H)
    return jnp.eye(len(KH)).reshape(*KH.shape[:2], *[1] * (KH.ndim - 2)) - KH


def moments_after_action(
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


def moments_after_sensing(
    moments: tuple[Array, Array, Array],
    H: Array,
    W: Array,
    D: Array,
    E: Array,
    *,
    noiseless: bool,
    uncorrelated: bool,
) -> tuple[tuple[Array, Array, Array], Array, Array]:
    """The second moments after a state was sensed, while nothing moves, the filter gains, and the
    second moment of the innovation."""
    Se, Sh, She = moments
    Sx = Se + Sh + She + transposed(She)
    sense_noise = mmT(W, W)
    for j in range(D.shape[0]):
        sense_noise = sense_noise + congruence(D[j], Sx)
    HSe = mm(H, Se)
    M = symmetrised(mmT(HSe, H) + sense_noise)
    K = filter_gains(M, HSe, mm(H, Sx), H, noiseless=noiseless)
    left, EE, KNK = _uncorrected(K, H), mmT(E, E), congruence(K, sense_noise)
    Se_next = congruence(left, Se) + KNK + EE
    Sh_next = Sh + congruence(K, M) + EE
    She_next = She
    if not uncorrelated:
        cross = mmT(mmT(She, H), K)
        Sh_next = Sh_next + cross + transposed(cross)
        She_next = mmT(She + mm(K, HSe), left) - KNK - EE
    if noiseless:
        Se_next = without_rounding(Se_next, Se_next + Sh_next + She_next + transposed(She_next))
    return (symmetrised(Se_next), symmetrised(Sh_next), She_next), K, M


def filter_gains(
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


def without_rounding(
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
