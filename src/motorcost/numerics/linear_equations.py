"""Linear equations of which only the product with a vector is known.

The unknown is an array (i, j, k, *batch): every element of the batch is an equation of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

Unknown = Float[Array, "i j k *batch"]

# A residual below this fraction of the right side, or a direction of which orthogonalisation
# leaves less than this fraction, is rounding error.
_ROUNDING = 1e-13

# An equation counts as solved if its residual is at most this fraction of the right side.
_TOLERANCE = 1e-6

# Number of search directions that are kept. With 3, as in the solver's acceleration, some
# equations of the implicit derivative are never solved (benchmarks/NOTES.md).
_MEMORY = 20

# The largest number of products, for equations on which the method does not converge.
_MAX_STEPS = 500

# A step that shortens the residual by less than this fraction of it is not followed by one along
# the residual, which would hardly have changed.
_MIN_PROGRESS = 0.1


def inner_product(a: Float[Array, "*any i j k *batch"], b: Unknown) -> Float[Array, "*any *batch"]:
    """The inner product over the axes i, j and k, for every element of the batch."""
    axis = a.ndim - b.ndim
    return (a * b).sum(axis=(axis, axis + 1, axis + 2))


def norm(a: Unknown) -> Float[Array, "*batch"]:
    """The Euclidean norm over the axes i, j and k, for every element of the batch."""
    return jnp.sqrt(inner_product(a, a))


class _State(NamedTuple):
    step: Int[Array, ""]
    x: Unknown
    residual: Unknown  # b - matvec(x)
    direction: Unknown  # along which the next step goes
    directions: Float[Array, "memory i j k *batch"]
    products: Float[Array, "memory i j k *batch"]  # matvec of the directions; orthonormal
    unsolved: Bool[Array, "*batch"]


def solve_linear(matvec: Callable[[Unknown], Unknown], b: Unknown) -> Unknown:
    """Solve matvec(x) = b for a linear function near the identity; NaN where no x is found.

    The linearisation of the solver's iterations is such a function. The method is that of
    generalised conjugate residuals: each step goes along the residual, made orthogonal (in the
    products) to the steps before, as far as makes the residual least. Where such a step hardly
    helps, the next one goes along its product instead: otherwise it would be the same again.
    """
    size = norm(b)

    def advance(state: _State) -> _State:
        direction, product = state.direction, matvec(state.direction)
        full_length = norm(product)
        for _ in range(2):  # the second round removes the rounding error of the first
            weights = inner_product(state.products, product).reshape(-1, 1, 1, 1, *size.shape)
            product = product - (weights * state.products).sum(axis=0)
            direction = direction - (weights * state.directions).sum(axis=0)
        length = norm(product)
        # Solved equations stay as they are, since further steps would only add rounding error.
        # Where the product lies in the span of those before, normalising what is left of it
        # would turn rounding error into a direction.
        active = state.unsolved & (length > _ROUNDING * full_length)
        scale = jnp.where(active, 1.0 / jnp.where(active, length, 1.0), 0.0)
        direction = jnp.where(active, direction * scale, 0.0)
        product = jnp.where(active, product * scale, 0.0)
        distance = inner_product(product, state.residual)
        residual = state.residual - distance * product
        helps = jnp.abs(distance) > _MIN_PROGRESS * norm(state.residual)
        slot = state.step % _MEMORY
        return _State(
            step=state.step + 1,
            x=state.x + distance * direction,
            residual=residual,
            direction=jnp.where(helps, residual, product),
            directions=state.directions.at[slot].set(direction),
            products=state.products.at[slot].set(product),
            unsolved=active & (norm(residual) > _ROUNDING * size),
        )

    empty = jnp.zeros((_MEMORY, *b.shape))
    start = _State(jnp.array(0), jnp.zeros_like(b), b, b, empty, empty, size > 0)
    last = lax.while_loop(
        lambda state: state.unsolved.any() & (state.step < _MAX_STEPS), advance, start
    )
    return jnp.where(norm(last.residual) <= _TOLERANCE * size, last.x, jnp.nan)
