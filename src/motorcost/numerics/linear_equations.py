"""Linear equations of which only the product with a vector is known.

The unknown is an array (i, j, k, *batch): every element of the batch is an equation of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

Unknown = Float[Array, "i j k *batch"]

# A residual below this fraction of the right side, or a direction of which orthogonalisation
# leaves less than this fraction, is rounding error.
_ROUNDING = 1e-13

# An equation counts as solved if its residual is at most this fraction of the right side, or the
# fraction that the caller tolerates.
_SOLVED = 1e-6

# Number of search directions that are kept. With 3, as in the solver's acceleration, some
# equations of the implicit derivative are never solved (benchmarks/NOTES.md).
_MEMORY = 20

# The largest number of products, for equations on which the method does not converge.
_MAX_STEPS = 500

# A step that shortens the residual by less than this fraction of it is not followed by one along
# the residual, which would hardly have changed.
_MIN_PROGRESS = 0.1

# Up to this tolerance the steps are made orthogonal twice: the second time removes the rounding
# error of the first.
_ORTHOGONAL_TWICE = 1e-9


def inner_product(a: Float[Array, "*any i j k *batch"], b: Unknown) -> Float[Array, "*any *batch"]:
    """The inner product over the axes i, j and k, for every element of the batch."""
    axis = a.ndim - b.ndim
    return (a * b).sum(axis=(axis, axis + 1, axis + 2))


def norm(a: Unknown) -> Float[Array, "*batch"]:
    """The Euclidean norm over the axes i, j and k, for every element of the batch."""
    return jnp.sqrt(inner_product(a, a))


class _State(NamedTuple):
    """Vectors of all equations, which come first: batched products of matrices and vectors are then
    fast."""

    step: Int[Array, ""]
    x: Float[Array, "batch d"]
    residual: Float[Array, "batch d"]  # b - matvec(x)
    direction: Float[Array, "batch d"]  # along which the next step goes
    directions: Float[Array, "batch memory d"]
    products: Float[Array, "batch memory d"]  # matvec of the directions; orthonormal
    unsolved: Bool[Array, " batch"]


def solve_linear(
    matvec: Callable[[Unknown], Unknown], b: Unknown, *, tolerance: Any = _ROUNDING
) -> Unknown:
    """Solve matvec(x) = b for a linear function near the identity; NaN where no x is found.

    The residual is at most the fraction `tolerance` of b, where rounding allows it.

    The linearisation of the solver's iterations is such a function. The method is that of
    generalised conjugate residuals: each step goes along the residual, made orthogonal (in the
    products) to the steps before, as far as makes the residual least. Where such a step hardly
    helps, the next one goes along its product instead: otherwise it would be the same again.
    """
    shape, count = b.shape, math.prod(b.shape[3:])

    def as_vectors(unknown: Unknown) -> Float[Array, "batch d"]:
        return unknown.reshape(-1, count).T

    def as_unknown(vectors: Float[Array, "batch d"]) -> Unknown:
        return vectors.T.reshape(shape)

    right_side = as_vectors(b)
    size = _norms(right_side)
    rounds = jnp.where(tolerance < _ORTHOGONAL_TWICE, 2, 1)

    def advance(state: _State) -> _State:
        product = as_vectors(matvec(as_unknown(state.direction)))
        full_length = _norms(product)

        def made_orthogonal(_: Any, pair: Any) -> Any:
            direction, product = pair
            weights = jnp.einsum("bmd,bd->bm", state.products, product)
            direction = direction - jnp.einsum("bm,bmd->bd", weights, state.directions)
            return direction, product - jnp.einsum("bm,bmd->bd", weights, state.products)

        direction, product = lax.fori_loop(0, rounds, made_orthogonal, (state.direction, product))
        length = _norms(product)
        # Solved equations stay as they are, since further steps would only add rounding error.
        # Where the product lies in the span of those before, normalising what is left of it
        # would turn rounding error into a direction.
        active = state.unsolved & (length > _ROUNDING * full_length)
        scale = jnp.where(active, 1.0 / jnp.where(active, length, 1.0), 0.0)[:, None]
        direction = jnp.where(active[:, None], direction * scale, 0.0)
        product = jnp.where(active[:, None], product * scale, 0.0)
        distance = (product * state.residual).sum(axis=1)
        residual = state.residual - distance[:, None] * product
        helps = jnp.abs(distance) > _MIN_PROGRESS * _norms(state.residual)
        slot = state.step % _MEMORY
        return _State(
            step=state.step + 1,
            x=state.x + distance[:, None] * direction,
            residual=residual,
            direction=jnp.where(helps[:, None], residual, product),
            directions=state.directions.at[:, slot].set(direction),
            products=state.products.at[:, slot].set(product),
            unsolved=active & (_norms(residual) > tolerance * size),
        )

    empty = jnp.zeros((count, _MEMORY, right_side.shape[1]))
    zero = jnp.zeros_like(right_side)
    start = _State(jnp.array(0), zero, right_side, right_side, empty, empty, size > 0)
    last = lax.while_loop(
        lambda state: state.unsolved.any() & (state.step < _MAX_STEPS), advance, start
    )
    solved = _norms(last.residual) <= jnp.maximum(_SOLVED, tolerance) * size
    return as_unknown(jnp.where(solved[:, None], last.x, jnp.nan))


def _norms(vectors: Float[Array, "batch d"]) -> Float[Array, " batch"]:
    return jnp.sqrt((vectors**2).sum(axis=1))
