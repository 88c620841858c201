"""Anderson's acceleration of the iteration x -> g(x) towards a fixed point x = g(x).

The last few evaluations show how the residual g(x) - x changes with x. The next x is the
combination of them for which, were g linear, the residual would be least. Where the residual grew,
the history is dropped and the next x is g(x) itself, as in the plain iteration.

For a linear g this is GMRES with a short memory. Some linear equations need a longer memory: see
`linear_equations`.

Every element of the batch (the axes after the third) has a fixed point and a history of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from motorcost.numerics.linalg import diagonal, solve_semidefinite
from motorcost.numerics.linear_equations import Unknown, inner_product, norm

# Number of evaluations that are remembered. With more the solver needed no fewer iterations
# (benchmarks/iterations.py).
MEMORY = 3

# Squared sine of the angle between a change of the residual and the span of the other changes,
# below which it is treated as a combination of them: it would divide by rounding error.
_COLLINEAR = 1e-11


class Acceleration(NamedTuple):
    """The history of the last evaluations: how g(x) and the residual g(x) - x changed."""

    image_changes: Float[Array, "memory i j k *batch"]
    residual_changes: Float[Array, "memory i j k *batch"]
    products: Float[Array, "memory memory *batch"]  # inner products of the residuals' changes
    image: Unknown  # the last g(x)
    residual: Unknown  # the last g(x) - x
    size: Float[Array, "*batch"]  # norm of the last residual; infinite without a history

    @classmethod
    def empty(cls, x: Unknown) -> Acceleration:
        """A history without evaluations, for unknowns of the shape of `x`."""
        batch, changes = x.shape[3:], jnp.zeros((MEMORY, *x.shape))
        infinite = jnp.full(batch, jnp.inf)
        return cls(changes, changes, jnp.zeros((MEMORY, MEMORY, *batch)), x, x, infinite)

    def without_history(self, where: Bool[Array, "*batch"]) -> Acceleration:
        """The same, but where `where` is true the next step is a plain one."""
        return self._replace(size=jnp.where(where, jnp.inf, self.size))

    def next(self, x: Unknown, image: Unknown, step: Any) -> tuple[Unknown, Acceleration]:
        """The next x, and the history with the evaluation `image` = g(x) added.

        `step` is the number of evaluations before this one; it decides which of the remembered
        changes is overwritten.
        """
        residual = image - x
        size = norm(residual)
        restart = ~(size < self.size) | jnp.isinf(self.size)
        slot = (jnp.arange(MEMORY) == step % MEMORY).reshape(-1, *[1] * x.ndim)

        def with_newest(changes: Array, newest: Array) -> Array:
            return jnp.where(restart, 0.0, jnp.where(slot, newest, changes))

        image_changes = with_newest(self.image_changes, image - self.image)
        residual_changes = with_newest(self.residual_changes, residual - self.residual)
        newest_products = inner_product(residual_changes, residual - self.residual)
        row = slot.reshape(-1, *[1] * (x.ndim - 3))
        products = jnp.where(row[None], newest_products[:, None], self.products)
        products = jnp.where(row[:, None], newest_products[None], products)
        products = jnp.where(restart, 0.0, products)
        right_side = inner_product(residual_changes, residual)[:, None]
        weights = solve_semidefinite(products, right_side, _COLLINEAR * diagonal(products))
        weights = weights.reshape(MEMORY, 1, 1, 1, *size.shape)
        following = image - (weights * image_changes).sum(axis=0)
        return following, Acceleration(
            image_changes, residual_changes, products, image, residual, size
        )
