"""Solving with covariance matrices that may be singular.

Noise can be degenerate: a target that is seen without error, a start that is known exactly.
Then a covariance has zero directions, in which nothing can be learnt. Cholesky's factorisation
extends to that case without choosing a jitter: where the pivot is zero the rest of its column
is zero too, because the matrix is positive semidefinite, and the direction drops out.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

# A pivot below this fraction of its diagonal entry is what rounding leaves of a zero.
RANK_TOLERANCE = 1e-13

# Up to this size the elimination is written out step by step, which compiles to plain
# arithmetic; above it, a loop keeps the program small.
_UNROLLED = 8


def _loop(n: int, body: Callable[[Any, Any], Any], carry: Any) -> Any:
    if n > _UNROLLED:
        return lax.fori_loop(0, n, body, carry)
    for j in range(n):
        carry = body(j, carry)
    return carry


def symmetrised(M: Float[Array, "*batch n n"]) -> Float[Array, "*batch n n"]:
    """The symmetric part, to keep rounding from accumulating in a recursion."""
    return (M + jnp.swapaxes(M, -1, -2)) / 2


def semidefinite_cholesky(M: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Lower triangular L with L L' = M, for M symmetric positive semidefinite.

    Columns of directions without variance are zero.
    """
    n = M.shape[0]
    floor = RANK_TOLERANCE * jnp.diagonal(M)
    rows = jnp.arange(n)

    def eliminate(j: Any, carry: Any) -> Any:
        rest, L = carry
        pivot = rest[j, j]
        varies = pivot > floor[j]
        # The inner `where` keeps the derivative of the branch not taken finite.
        root = jnp.sqrt(jnp.where(varies, pivot, 1.0))
        column = jnp.where(varies & (rows >= j), rest[:, j] / root, 0.0)
        return rest - jnp.outer(column, column), L.at[:, j].set(column)

    return _loop(n, eliminate, (M, jnp.zeros_like(M)))[1]


def solve_semidefinite(M: Float[Array, "n n"], B: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """X with M X = B, for M symmetric positive semidefinite and B in its range.

    Its derivative is that of the equation, not of the elimination.
    """
    return lax.custom_linear_solve(
        lambda X: M @ X, B, lambda _, B: _eliminate(lax.stop_gradient(M), B), symmetric=True
    )


def _eliminate(M: Float[Array, "n n"], B: Float[Array, "n k"]) -> Float[Array, "n k"]:
    n = M.shape[0]
    L = semidefinite_cholesky(M)
    varies = jnp.diagonal(L) > 0
    scale = jnp.where(varies, 1.0 / jnp.where(varies, jnp.diagonal(L), 1.0), 0.0)

    def forward(j: Any, Z: Any) -> Any:
        return Z.at[j].set((B[j] - L[j] @ Z) * scale[j])

    Z = _loop(n, forward, jnp.zeros_like(B))

    def backward(i: Any, X: Any) -> Any:
        j = n - 1 - i
        return X.at[j].set((Z[j] - L[:, j] @ X) * scale[j])

    return _loop(n, backward, jnp.zeros_like(B))
