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
    """The history of the last evaluations: how g(x) and the residual g(x) - x changed.

    Histories are dropped by `remembered` alone: copies of the arrays would take as long as the
    evaluations themselves.
    """

    image_changes: Float[Array, "memory i j k *batch"]
    residual_changes: Float[Array, "memory i j k *batch"]
    remembered: Bool[Array, "memory *batch"]  # which of the changes count
    products: Float[Array, "memory memory *batch"]  # inner products of the residuals' changes
    image: Unknown  # the last g(x)
    residual: Unknown  # the last g(x) - x
    size: Float[Array, "*batch"]  # norm of the last residual; infinite without a history

    @classmethod
    def empty(cls, x: Unknown) -> Acceleration:
        """A history without evaluations, for unknowns of the shape of `x`."""
        batch, changes = x.shape[3:], jnp.zeros((MEMORY, *x.shape))
        none, infinite = jnp.zeros((MEMORY, *batch), bool), jnp.full(batch, jnp.inf)
        return cls(changes, changes, none, jnp.zeros((MEMORY, MEMORY, *batch)), x, x, infinite)

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
        slot = step % MEMORY
        image_changes = self.image_changes.at[slot].set(image - self.image)
        residual_changes = self.residual_changes.at[slot].set(residual - self.residual)
        is_newest = (jnp.arange(MEMORY) == slot).reshape(MEMORY, *[1] * size.ndim)
        remembered = (self.remembered | is_newest) & ~restart

        def with_remembered(change: Unknown) -> Float[Array, "memory *batch"]:
            return jnp.where(remembered, inner_product(residual_changes, change), 0.0)

        newest_products = with_remembered(residual - self.residual)
        products = jnp.where(is_newest[None], newest_products[:, None], self.products)
        products = jnp.where(is_newest[:, None], newest_products[None], products)
        products = jnp.where(remembered[None] & remembered[:, None], products, 0.0)
        weights = solve_semidefinite(
            products, with_remembered(residual)[:, None], _COLLINEAR * diagonal(products)
        )[:, 0]
        # Written out: a sum over the first axis is computed element by element.
        following = image - sum(weights[k] * image_changes[k] for k in range(MEMORY))
        return following, Acceleration(
            image_changes, residual_changes, remembered, products, image, residual, size
        )
