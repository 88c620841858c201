"""Small matrices, many at once.

The first two axes are the matrix; any others are lanes: parameter sets or trials that run side
by side. With the lanes last, every line is plain arithmetic on vectors of them.

Solving is with covariance matrices that may be singular. Noise can be degenerate: a target that
is seen without error, a start that is known exactly. Then a covariance has zero directions, in
which nothing can be learnt. Cholesky's factorisation extends to that case without choosing a
jitter: where the pivot is zero the rest of its column is zero too, because the matrix is positive
semidefinite, and the direction drops out.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from motorcost.checks import EIGENVALUE_ROUNDING

# A pivot below this fraction of its diagonal entry is what rounding leaves of a zero.
RANK_TOLERANCE = 1e-13

# Up to this size the elimination is written out step by step, which compiles to plain
# arithmetic; above it, a loop keeps the program small.
_UNROLLED = 4

# A product of fewer multiplications than this is written as multiply-and-add, which XLA turns
# into vector instructions across lanes: on a CPU 5 to 10 times faster than its batched matrix
# products. From 32 kB of intermediate on it fuses chains of such products, and computes each of
# their elements over and over.
_FEW_PRODUCTS = 4096

# On an accelerator there is no such limit, and small matrix products are slow at any number.
_SMALL = 16


def loop(n: int, body: Callable[[Any, Any], Any], carry: Any) -> Any:
    """`carry` after body(0, carry), body(1, ..), .. body(n - 1, ..): written out if n is small."""
    if n > _UNROLLED:
        return lax.fori_loop(0, n, body, carry)
    for j in range(n):
        carry = body(j, carry)
    return carry


def batch_size(n: int) -> int:
    """How many matrices of size n to work on side by side."""
    if jax.default_backend() != "cpu":
        return 1 << 16
    return int(np.clip((_FEW_PRODUCTS - 1) // n**3, 4, 64)) // 4 * 4


def map_leading_axis(run: Callable[..., Any], *stacked: Any) -> Any:
    """What `run` gives for each entry along the first axis: on a CPU one after the other, each
    with its own lanes, on an accelerator all at once."""
    if jax.tree.leaves(stacked)[0].shape[0] == 1:
        alone = run(*jax.tree.map(lambda leaf: leaf[0], stacked))
        return jax.tree.map(lambda leaf: leaf[None], alone)
    if jax.default_backend() == "cpu":
        return lax.map(lambda each: run(*each), stacked)
    return jax.vmap(run)(*stacked)


def mm(A: Float[Array, "i j *#lanes"], B: Float[Array, "j k *#lanes"]) -> Float[Array, "i k ..."]:
    """The product A B, in every lane; either may be the same in all (have no lanes)."""
    more = max(A.ndim, B.ndim)
    lanes = np.broadcast_shapes(A.shape[2:], B.shape[2:])
    (i, j), k = A.shape[:2], B.shape[1]
    on_cpu = jax.default_backend() == "cpu"
    few = i * j * k * math.prod(lanes) < _FEW_PRODUCTS if on_cpu else max(i, j, k) <= _SMALL
    if few:
        A, B = (X.reshape(*X.shape, *[1] * (more - X.ndim)) for X in (A, B))
        return (A[:, :, None] * B[None]).sum(axis=1)
    return jnp.einsum("ij...,jk...->ik...", A, B)


def transposed(M: Float[Array, "i j *lanes"]) -> Float[Array, "j i *lanes"]:
    """The transpose, in every lane."""
    return jnp.swapaxes(M, 0, 1)


def mmT(A: Float[Array, "i j *#lanes"], B: Float[Array, "k j *#lanes"]) -> Float[Array, "i k ..."]:
    """The product A B', in every lane."""
    return mm(A, transposed(B))


def congruence(
    A: Float[Array, "i j *#lanes"], M: Float[Array, "j j *#lanes"]
) -> Float[Array, "i i ..."]:
    """A M A', in every lane."""
    return mmT(mm(A, M), A)


def symmetrised(M: Float[Array, "n n *lanes"]) -> Float[Array, "n n *lanes"]:
    """The symmetric part, to keep rounding from accumulating in a recursion."""
    return (M + transposed(M)) / 2


def diagonal(M: Float[Array, "n n *lanes"]) -> Float[Array, "n *lanes"]:
    """The diagonal, in every lane."""
    return jnp.stack([M[i, i] for i in range(M.shape[0])])


def is_definite(M: Float[Array, "n n *lanes"], semi: bool = False) -> Bool[Array, "*lanes"]:
    """Whether each symmetric matrix is positive definite, or (`semi`) semidefinite, as
    `checks.definiteness` tells it; for traced code, where batches of eigenvalues are slow and, on
    machines with few cores, have been seen to hang.

    Elimination of M - s I meets only positive pivots if and only if all eigenvalues exceed s.
    """
    n = M.shape[0]
    on_diagonal = diagonal(M)
    scale = 1.0 / jnp.sqrt(jnp.where(on_diagonal > 0, on_diagonal, 1.0))
    shift = (EIGENVALUE_ROUNDING if semi else 0.0) * jnp.eye(n)
    rest = M * scale[:, None] * scale[None, :] + shift.reshape(n, n, *[1] * (M.ndim - 2))

    def eliminate(j: Any, carry: Any) -> Any:
        rest, positive = carry
        pivot, column = rest[j, j], rest[:, j]
        over = jnp.where(pivot > 0, pivot, 1.0)
        rest = rest - column[:, None] * (column / over)[None, :]
        return rest, positive & (pivot > 0)

    return loop(n, eliminate, (rest, jnp.ones(M.shape[2:], bool)))[1]


def semidefinite_cholesky(
    M: Float[Array, "n n *lanes"], floor: Float[Array, "n *lanes"] | None = None
) -> Float[Array, "n n *lanes"]:
    """Lower triangular L with L L' = M, for M symmetric positive semidefinite.

    Columns of directions without variance are zero: those whose pivot is not above `floor`. It
    should be what rounding can leave of a zero, by default a fraction of the diagonal; where M
    is itself a small difference of large numbers, the caller knows better.
    """
    n = M.shape[0]
    floor = RANK_TOLERANCE * diagonal(M) if floor is None else floor
    rows = jnp.arange(n).reshape(n, *[1] * (M.ndim - 2))

    def eliminate(j: Any, carry: Any) -> Any:
        rest, L = carry
        pivot = rest[j, j]
        varies = pivot > floor[j]
        # The inner `where` keeps the derivative of the branch not taken finite.
        root = jnp.sqrt(jnp.where(varies, pivot, 1.0))
        column = jnp.where(varies & (rows >= j), rest[:, j] / root, 0.0)
        here = (jnp.arange(n) == j).reshape(1, n, *[1] * (M.ndim - 2))
        return rest - column[:, None] * column[None, :], jnp.where(here, column[:, None], L)

    return loop(n, eliminate, (M, jnp.zeros_like(M)))[1]


def solve_semidefinite(
    M: Float[Array, "n n *lanes"],
    B: Float[Array, "n k *lanes"],
    floor: Float[Array, "n *lanes"] | None = None,
) -> Float[Array, "n k *lanes"]:
    """X with M X = B, for M symmetric positive semidefinite and B in its range; zero in the
    directions without variance (see `semidefinite_cholesky` for `floor`).

    Its derivative is that of the equation, with those directions held as they are.
    """
    M_now, floor_now = lax.stop_gradient((M, floor))
    return lax.custom_linear_solve(
        lambda X: mm(M, X), B, lambda _, B: _substitute(M_now, B, floor_now), symmetric=True
    )


def solve_least(
    M: Float[Array, "n n *lanes"], B: Float[Array, "n k *lanes"], floor: Float[Array, "n *lanes"]
) -> Float[Array, "n k *lanes"]:
    """As `solve_semidefinite`, but of all X the least, measured in units of root `floor`."""
    M_now, unit = lax.stop_gradient((M, jnp.sqrt(jnp.where(floor > 0, floor, 1.0))))

    def pseudo_inverse(_: Any, B: Any) -> Any:
        scaled = jnp.moveaxis(M_now / (unit[:, None] * unit[None, :]), (0, 1), (-2, -1))
        values, vectors = jnp.linalg.eigh(scaled)
        values = jnp.moveaxis(values, -1, 0)
        vectors = jnp.moveaxis(vectors, (-2, -1), (0, 1))
        varies = values > 1.0  # of floors
        inverse = jnp.where(varies, 1.0 / jnp.where(varies, values, 1.0), 0.0)
        least = mm(vectors, inverse[:, None] * mm(transposed(vectors), B / unit[:, None]))
        return least / unit[:, None]

    return lax.custom_linear_solve(lambda X: mm(M, X), B, pseudo_inverse, symmetric=True)


def _substitute(
    M: Float[Array, "n n *lanes"],
    B: Float[Array, "n k *lanes"],
    floor: Float[Array, "n *lanes"] | None,
) -> Float[Array, "n k *lanes"]:
    """Gauss and Jordan's elimination in order, without exchange of rows: its pivots are
    Cholesky's, and each of its steps is one line of arithmetic on all that is left."""
    n = M.shape[0]
    floor = RANK_TOLERANCE * diagonal(M) if floor is None else floor

    def eliminate(j: Any, both: Any) -> Any:
        pivot = both[j, j]
        varies = pivot > floor[j]
        inverse = jnp.where(varies, 1.0 / jnp.where(varies, pivot, 1.0), 0.0)
        row = both[j] * inverse
        here = (jnp.arange(n) == j).reshape(n, *[1] * (M.ndim - 1))
        return jnp.where(here, row, both - both[:, j][:, None] * row)

    return loop(n, eliminate, jnp.concatenate([M, B], axis=1))[:, n:]
