"""Linear algebra of many small matrices at once.

The first two axes of an array are those of the matrix. Any further axes are the batch: parameter
sets or trials that are computed together. With the batch on the last axis every operation becomes
arithmetic on vectors, which is faster than batched matrix products for matrices of this size.

Covariance matrices may be singular here, because noise can be degenerate: a target that is sensed
without error, a start that is known exactly. The Cholesky factorisation extends to that case
without a jitter on the diagonal: where a pivot is zero the rest of its column is zero too, because
the matrix is positive semidefinite, and the direction is left out.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from motorcost.checks import EIGENVALUE_ROUNDING, array_module, jax_array

# A pivot below this fraction of its diagonal entry is zero up to rounding.
RANK_TOLERANCE = 1e-13

# Up to this size the elimination is unrolled, which compiles to plain arithmetic; above it, a loop
# keeps the program small.
_MAX_UNROLLED = 4

# A product of fewer multiplications than this is written as multiply-and-add, which XLA turns
# into vector instructions across the batch: on a CPU 5 to 10 times faster than its batched matrix
# products. With an intermediate of 32 kB or more XLA fuses chains of such products, and computes
# their elements repeatedly.
_MAX_MULTIPLY_ADDS = 4096

# On an accelerator multiply-and-add is faster for any size of the batch, up to matrices of this
# size.
_MAX_MULTIPLY_ADD_SIZE = 16


def loop(n: int, body: Callable[[Any, Any], Any], carry: Any) -> Any:
    """Return body(n - 1, ... body(1, body(0, carry))), unrolled if n is small."""
    if n > _MAX_UNROLLED:
        return lax.fori_loop(0, n, body, carry)
    for j in range(n):
        carry = body(j, carry)
    return carry


def batch_size(n: int) -> int:
    """The number of problems with n x n matrices that are computed together fastest."""
    if jax.default_backend() != "cpu":
        return 1 << 16
    return int(np.clip((_MAX_MULTIPLY_ADDS - 1) // n**3, 4, 64)) // 4 * 4


def map_leading_axis(run: Callable[..., Any], *stacked: Any) -> Any:
    """Apply `run` to every entry along the first axis of the arguments, and stack the results.

    On a CPU the entries run one after the other, since `run` itself works on a batch on the last
    axis; on an accelerator they run at once.
    """
    if jax.tree.leaves(stacked)[0].shape[0] == 1:
        return with_leading_axis(run(*first_entry(stacked)))
    if jax.default_backend() == "cpu":
        return lax.map(lambda entry: run(*entry), stacked)
    return jax.vmap(run)(*stacked)


def map_batches(run: Callable[..., Any], size: int, *stacked: Any) -> Any:
    """Apply `run` to at most `size` entries along the first axis of the arguments at a time, and
    join the results.

    `run` takes and returns arrays with that axis. The last batch is filled up with copies of the
    last entry.
    """
    count = jax.tree.leaves(stacked)[0].shape[0]
    batches = -(-count // size)
    if batches == 1:
        return run(*stacked)
    size = -(-count // batches)

    def in_batches(leaf: Array) -> Array:
        copies = jnp.broadcast_to(leaf[-1:], (batches * size - count, *leaf.shape[1:]))
        return jnp.concatenate([leaf, copies]).reshape(batches, size, *leaf.shape[1:])

    results = lax.map(lambda batch: run(*batch), jax.tree.map(in_batches, stacked))
    return jax.tree.map(lambda leaf: leaf.reshape(batches * size, *leaf.shape[2:])[:count], results)


def with_leading_axis(tree: Any) -> Any:
    """The same arrays with an axis of length one before the others."""
    return jax.tree.map(lambda leaf: entries(leaf, None), tree)


def first_entry(tree: Any) -> Any:
    """The first entry of each array along its first axis."""
    return jax.tree.map(lambda leaf: entries(leaf, 0), tree)


def entries(array: Any, index: Any) -> Array:
    """`array[index]` as a JAX array, which is not compiled if the array is concrete."""
    return jax_array(array_module(array).asarray(array)[index])


def with_entries(array: Any, index: Any, values: Any) -> Array:
    """The array with `values` at `index`, which is not compiled if both are concrete."""
    if array_module(array, values) is np:
        changed = np.array(array)
        changed[index] = values
        return jax_array(changed)
    return jnp.asarray(array).at[index].set(values)


def at_places(array: Array, places: Sequence[int] | np.ndarray, axis: int = 0) -> Array:
    """The entries of an array at these places along an axis, known in advance and in increasing
    order.

    They are taken as slices, one for each run of places that follow each other: a gather's
    derivative adds up its entries in a loop, one after the other.
    """
    runs = _runs(places)
    if runs == [(0, array.shape[axis])]:
        return array
    parts = [lax.slice_in_dim(array, begin, end, axis=axis) for begin, end in runs]
    return jnp.concatenate(parts, axis=axis) if parts else lax.slice_in_dim(array, 0, 0, axis=axis)


def with_places(array: Array, places: Sequence[int] | np.ndarray, values: Array) -> Array:
    """The array with these `values` at these places along the first axis (see `at_places`)."""
    parts, done, used = [], 0, 0
    for begin, end in _runs(places):
        parts += [array[done:begin], values[used : used + end - begin]]
        done, used = end, used + end - begin
    return jnp.concatenate([*parts, array[done:]])


def _runs(places: Sequence[int] | np.ndarray) -> list[tuple[int, int]]:
    """Beginnings and ends of the runs of places that follow each other."""
    runs: list[tuple[int, int]] = []
    for place in map(int, places):
        if runs and runs[-1][1] == place:
            runs[-1] = (runs[-1][0], place + 1)
        else:
            runs.append((place, place + 1))
    return runs


def mm(A: Float[Array, "i j *#batch"], B: Float[Array, "j k *#batch"]) -> Float[Array, "i k ..."]:
    """The product A B. A factor without a batch is the same for all elements of the other's."""
    ndim = max(A.ndim, B.ndim)
    batch = np.broadcast_shapes(A.shape[2:], B.shape[2:])
    (i, j), k = A.shape[:2], B.shape[1]
    if jax.default_backend() == "cpu":
        small = i * j * k * math.prod(batch) < _MAX_MULTIPLY_ADDS
    else:
        small = max(i, j, k) <= _MAX_MULTIPLY_ADD_SIZE
    if small:
        A, B = (X.reshape(*X.shape, *[1] * (ndim - X.ndim)) for X in (A, B))
        return (A[:, :, None] * B[None]).sum(axis=1)
    return jnp.einsum("ij...,jk...->ik...", A, B)


def transposed(M: Float[Array, "i j *batch"]) -> Float[Array, "j i *batch"]:
    """The transposed matrix."""
    return jnp.swapaxes(M, 0, 1)


def mmT(A: Float[Array, "i j *#batch"], B: Float[Array, "k j *#batch"]) -> Float[Array, "i k ..."]:
    """The product A B'."""
    return mm(A, transposed(B))


def congruence(
    A: Float[Array, "i j *#batch"], M: Float[Array, "j j *#batch"]
) -> Float[Array, "i i ..."]:
    """The product A M A'."""
    return mmT(mm(A, M), A)


def symmetrised(M: Float[Array, "n n *batch"]) -> Float[Array, "n n *batch"]:
    """The symmetric part, which keeps rounding from accumulating in a recursion."""
    return (M + transposed(M)) / 2


def diagonal(M: Float[Array, "n n *batch"]) -> Float[Array, "n *batch"]:
    """The diagonal entries."""
    return jnp.stack([M[i, i] for i in range(M.shape[0])])


def is_definite(M: Float[Array, "n n *batch"], *, semi: bool = False) -> Bool[Array, "*batch"]:
    """Whether a symmetric matrix is positive definite or, with `semi`, positive semidefinite.

    The decision is that of `checks.definiteness`. It is made without eigenvalues, so that it can
    be used in traced code: there, batches of eigenvalues are slow, and on machines with few cores
    they have been seen to hang. Elimination of M - s I meets only positive pivots if and only if
    all eigenvalues exceed s.
    """
    n = M.shape[0]
    entries = diagonal(M)
    scale = 1.0 / jnp.sqrt(jnp.where(entries > 0, entries, 1.0))
    shift = (EIGENVALUE_ROUNDING if semi else 0.0) * jnp.eye(n)
    rest = M * scale[:, None] * scale[None, :] + shift.reshape(n, n, *[1] * (M.ndim - 2))

    def eliminate(j: Any, carry: Any) -> Any:
        rest, positive = carry
        pivot, column = rest[j, j], rest[:, j]
        divisor = jnp.where(pivot > 0, pivot, 1.0)
        rest = rest - column[:, None] * (column / divisor)[None, :]
        return rest, positive & (pivot > 0)

    return loop(n, eliminate, (rest, jnp.ones(M.shape[2:], bool)))[1]


def semidefinite_cholesky(
    M: Float[Array, "n n *batch"], floor: Float[Array, "n *batch"] | None = None
) -> Float[Array, "n n *batch"]:
    """Lower triangular L with L L' = M, for M symmetric positive semidefinite.

    A direction has no variance, and its column is zero, if its pivot is at most `floor`: the
    largest value that rounding can leave of a zero. The default is a fraction of the diagonal.
    Where M is itself a small difference of large numbers, its rounding error is larger, and the
    caller must give the floor.
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
        is_column = (jnp.arange(n) == j).reshape(1, n, *[1] * (M.ndim - 2))
        return rest - column[:, None] * column[None, :], jnp.where(is_column, column[:, None], L)

    return loop(n, eliminate, (M, jnp.zeros_like(M)))[1]


def solve_semidefinite(
    M: Float[Array, "n n *batch"],
    B: Float[Array, "n k *batch"],
    floor: Float[Array, "n *batch"] | None = None,
) -> Float[Array, "n k *batch"]:
    """Solve M X = B, for M symmetric positive semidefinite and B in its range.

    X is zero in the directions without variance (see `semidefinite_cholesky` for `floor`). Its
    derivative is that of the equation, with the set of those directions held fixed.
    """
    M_fixed, floor_fixed = lax.stop_gradient((M, floor))
    return lax.custom_linear_solve(
        lambda X: mm(M, X), B, lambda _, B: _eliminate(M_fixed, B, floor_fixed), symmetric=True
    )


def solve_least(
    M: Float[Array, "n n *batch"], B: Float[Array, "n k *batch"], floor: Float[Array, "n *batch"]
) -> Float[Array, "n k *batch"]:
    """Solve M X = B as `solve_semidefinite` does, but for the X of least norm.

    The norm is measured in units of the square root of `floor`.
    """
    M_fixed, unit = lax.stop_gradient((M, jnp.sqrt(jnp.where(floor > 0, floor, 1.0))))

    def pseudo_inverse(_: Any, B: Any) -> Any:
        scaled = jnp.moveaxis(M_fixed / (unit[:, None] * unit[None, :]), (0, 1), (-2, -1))
        values, vectors = jnp.linalg.eigh(scaled)
        values = jnp.moveaxis(values, -1, 0)
        vectors = jnp.moveaxis(vectors, (-2, -1), (0, 1))
        varies = values > 1.0  # in units of the floor
        inverse = jnp.where(varies, 1.0 / jnp.where(varies, values, 1.0), 0.0)
        least = mm(vectors, inverse[:, None] * mm(transposed(vectors), B / unit[:, None]))
        return least / unit[:, None]

    return lax.custom_linear_solve(lambda X: mm(M, X), B, pseudo_inverse, symmetric=True)


def _eliminate(
    M: Float[Array, "n n *batch"],
    B: Float[Array, "n k *batch"],
    floor: Float[Array, "n *batch"] | None,
) -> Float[Array, "n k *batch"]:
    """X with M X = B, by Gauss-Jordan elimination in order, without exchange of rows.

    Its pivots are those of the Cholesky factorisation.
    """
    n = M.shape[0]
    floor = RANK_TOLERANCE * diagonal(M) if floor is None else floor

    def eliminate(j: Any, augmented: Any) -> Any:
        pivot = augmented[j, j]
        varies = pivot > floor[j]
        inverse = jnp.where(varies, 1.0 / jnp.where(varies, pivot, 1.0), 0.0)
        row = augmented[j] * inverse
        is_row = (jnp.arange(n) == j).reshape(n, *[1] * (M.ndim - 1))
        return jnp.where(is_row, row, augmented - augmented[:, j][:, None] * row)

    return loop(n, eliminate, jnp.concatenate([M, B], axis=1))[:, n:]
