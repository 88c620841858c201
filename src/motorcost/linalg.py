"""Solving with covariance matrices that may be singular.

Noise can be degenerate: a target that is seen without error, a start that is known exactly.
Then a covariance has zero directions, in which nothing can be learnt. Cholesky's factorisation
extends to that case without choosing a jitter: where the pivot is zero the rest of its column
is zero too, because the matrix is positive semidefinite, and the direction drops out.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

# A pivot below this fraction of its diagonal entry is what rounding leaves of a zero.
RANK_TOLERANCE = 1e-13

# Eigenvalues of a semidefinite matrix come out this far below zero by rounding alone.
EIGENVALUE_ROUNDING = 1e-10

# Up to this size the elimination is written out step by step, which compiles to plain
# arithmetic; above it, a loop keeps the program small.
_UNROLLED = 8


def loop(n: int, body: Callable[[Any, Any], Any], carry: Any) -> Any:
    """`carry` after body(0, carry), body(1, ..), .. body(n - 1, ..): written out if n is small."""
    if n > _UNROLLED:
        return lax.fori_loop(0, n, body, carry)
    for j in range(n):
        carry = body(j, carry)
    return carry


def symmetrised(M: Float[Array, "*batch n n"]) -> Float[Array, "*batch n n"]:
    """The symmetric part, to keep rounding from accumulating in a recursion."""
    return (M + jnp.swapaxes(M, -1, -2)) / 2


def definiteness(M: np.ndarray) -> np.ndarray:
    """The lowest eigenvalue of each symmetric matrix after scaling its diagonal to one.

    Positive for a definite matrix, not below -EIGENVALUE_ROUNDING for a semidefinite one. The
    scaling keeps a large entry from hiding a wrong sign beside it.
    """
    return np.linalg.eigvalsh(_scaled(M, np))[..., 0]


def is_definite(M: Float[Array, "*batch n n"], semi: bool = False) -> Bool[Array, "*batch"]:
    """Whether each symmetric matrix is positive definite, or (`semi`) semidefinite, as
    `definiteness` tells it; for traced code, where batches of eigenvalues are slow and, on
    machines with few cores, have been seen to hang.

    Elimination of M - s I meets only positive pivots if and only if all eigenvalues exceed s.
    """
    rest = _scaled(M, jnp) + (EIGENVALUE_ROUNDING if semi else 0.0) * jnp.eye(M.shape[-1])

    def eliminate(j: Any, carry: Any) -> Any:
        rest, positive = carry
        pivot = rest[..., j, j]
        column = rest[..., :, j]
        over = jnp.where(pivot > 0, pivot, 1.0)[..., None, None]
        rest = rest - column[..., :, None] * column[..., None, :] / over
        return rest, positive & (pivot > 0)

    return loop(M.shape[-1], eliminate, (rest, jnp.ones(M.shape[:-2], bool)))[1]


def _scaled(M: Any, xp: Any) -> Any:
    """M with its diagonal scaled to one; `xp` is jax.numpy or numpy."""
    diagonal = xp.diagonal(M, axis1=-2, axis2=-1)
    scale = xp.sqrt(xp.where(diagonal > 0, diagonal, 1.0))
    return M / (scale[..., :, None] * scale[..., None, :])


def semidefinite_cholesky(
    M: Float[Array, "n n"], floor: Float[Array, " n"] | None = None
) -> Float[Array, "n n"]:
    """Lower triangular L with L L' = M, for M symmetric positive semidefinite.

    Columns of directions without variance are zero: those whose pivot is not above `floor`. It
    should be what rounding can leave of a zero, by default a fraction of the diagonal; where M
    is itself a small difference of large numbers, the caller knows better.
    """
    n = M.shape[0]
    floor = RANK_TOLERANCE * jnp.diagonal(M) if floor is None else floor
    rows = jnp.arange(n)

    def eliminate(j: Any, carry: Any) -> Any:
        rest, L = carry
        pivot = rest[j, j]
        varies = pivot > floor[j]
        # The inner `where` keeps the derivative of the branch not taken finite.
        root = jnp.sqrt(jnp.where(varies, pivot, 1.0))
        column = jnp.where(varies & (rows >= j), rest[:, j] / root, 0.0)
        return rest - jnp.outer(column, column), L.at[:, j].set(column)

    return loop(n, eliminate, (M, jnp.zeros_like(M)))[1]


def solve_semidefinite(
    M: Float[Array, "n n"], B: Float[Array, "n k"], floor: Float[Array, " n"] | None = None
) -> Float[Array, "n k"]:
    """X with M X = B, for M symmetric positive semidefinite and B in its range; zero in the
    directions without variance (see `semidefinite_cholesky` for `floor`).

    Its derivative is that of the equation, with those directions held as they are.
    """
    M_now, floor_now = lax.stop_gradient((M, floor))
    return lax.custom_linear_solve(
        lambda X: M @ X, B, lambda _, B: _substitute(M_now, B, floor_now), symmetric=True
    )


def solve_least(
    M: Float[Array, "n n"], B: Float[Array, "n k"], floor: Float[Array, " n"]
) -> Float[Array, "n k"]:
    """As `solve_semidefinite`, but of all X the least, measured in units of root `floor`."""
    M_now, unit = lax.stop_gradient((M, jnp.sqrt(jnp.where(floor > 0, floor, 1.0))))

    def pseudo_inverse(_: Any, B: Any) -> Any:
        values, vectors = jnp.linalg.eigh(M_now / jnp.outer(unit, unit))
        varies = values > 1.0  # of floors
        inverse = jnp.where(varies, 1.0 / jnp.where(varies, values, 1.0), 0.0)
        least = vectors @ (inverse[:, None] * (vectors.T @ (B / unit[:, None])))
        return least / unit[:, None]

    return lax.custom_linear_solve(lambda X: M @ X, B, pseudo_inverse, symmetric=True)


def _substitute(
    M: Float[Array, "n n"], B: Float[Array, "n k"], floor: Float[Array, " n"] | None
) -> Float[Array, "n k"]:
    n = M.shape[0]
    L = semidefinite_cholesky(M, floor)
    varies = jnp.diagonal(L) > 0
    scale = jnp.where(varies, 1.0 / jnp.where(varies, jnp.diagonal(L), 1.0), 0.0)

    def forward(j: Any, Z: Any) -> Any:
        return Z.at[j].set((B[j] - L[j] @ Z) * scale[j])

    Z = loop(n, forward, jnp.zeros_like(B))

    def backward(i: Any, X: Any) -> Any:
        j = n - 1 - i
        return X.at[j].set((Z[j] - L[:, j] @ X) * scale[j])

    return loop(n, backward, jnp.zeros_like(B))
