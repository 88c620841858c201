"""Fixed points x = g(x) in fewer steps, by Anderson's acceleration.

The last few steps tell how the gap g(x) - x answers to moves of x. Of all combinations of them,
the one after which the gap would be least is where to go on. Where a step made things worse, what
was learnt is forgotten and the plain step to g(x) taken. For a linear g it is GMRES with a short
memory.

Every lane (the axes after the third) has a fixed point of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from motorcost.linalg import diagonal, solve_semidefinite

Unknown = Float[Array, "i j k *lanes"]

# Steps that are remembered. More did not settle sooner (benchmarks/NOTES.md).
MEMORY = 3
# A step that is this close to a combination of others (its squared sine) tells nothing new.
_COLLINEAR = 1e-11


class Acceleration(NamedTuple):
    """What the last steps taught: how g(x) and the gap changed in each of them."""

    images: Float[Array, "memory i j k *lanes"]
    gaps: Float[Array, "memory i j k *lanes"]
    products: Float[Array, "memory memory *lanes"]  # of the gaps' changes with each other
    image: Unknown  # the last g(x)
    gap: Unknown  # the last g(x) - x
    size: Float[Array, "*lanes"]  # of the last gap; infinite before the first

    @classmethod
    def empty(cls, x: Unknown) -> Acceleration:
        """Nothing learnt yet."""
        lanes, past = x.shape[3:], jnp.zeros((MEMORY, *x.shape))
        unknown = jnp.full(lanes, jnp.inf)
        return cls(past, past, jnp.zeros((MEMORY, MEMORY, *lanes)), x, x, unknown)

    def next(self, x: Unknown, image: Unknown, step: Any) -> tuple[Unknown, Acceleration]:
        """Where to go on from x, whose image is g(x), and what is known then. `step` counts."""
        gap = image - x
        size = jnp.sqrt(_dot(gap, gap))
        forget = ~(size < self.size) | jnp.isinf(self.size)
        slot = (jnp.arange(MEMORY) == step % MEMORY).reshape(-1, *[1] * x.ndim)

        def remembered(past: Array, newest: Array) -> Array:
            return jnp.where(forget, 0.0, jnp.where(slot, newest, past))

        images = remembered(self.images, image - self.image)
        gaps = remembered(self.gaps, gap - self.gap)
        with_newest = _dot(gaps, gap - self.gap)
        here = slot.reshape(-1, *[1] * (x.ndim - 3))
        products = jnp.where(here[None], with_newest[:, None], self.products)
        products = jnp.where(here[:, None], with_newest[None], products)
        products = jnp.where(forget, 0.0, products)
        towards = _dot(gaps, gap)[:, None]
        share = solve_semidefinite(products, towards, _COLLINEAR * diagonal(products))
        tried = image - (share.reshape(MEMORY, 1, 1, 1, *size.shape) * images).sum(axis=0)
        return tried, Acceleration(images, gaps, products, image, gap, size)


def _dot(a: Float[Array, "*any i j k *lanes"], b: Unknown) -> Float[Array, "*any *lanes"]:
    axis = a.ndim - b.ndim
    return (a * b).sum(axis=(axis, axis + 1, axis + 2))


def settle_linear(matvec: Callable[[Unknown], Unknown], b: Unknown) -> Unknown:
    """x with matvec(x) = b, for a matvec near one, as the sweeps' linearisation is. The bound on
    its steps is there only so that it ends."""
    enough = 1e-13 * jnp.sqrt(_dot(b, b))

    def open_(known: Acceleration) -> Bool[Array, "*lanes"]:
        return known.size > enough

    def improve(carry: Any) -> Any:
        x, known, step = carry
        tried, after = known.next(x, x + b - matvec(x), step)
        # What is settled stays: rounding would drive it about.
        kept = [jnp.where(open_(known), new, old) for new, old in zip(after, known, strict=True)]
        x = jnp.where(open_(known) & open_(after), tried, x)
        return x, Acceleration(*kept), step + 1

    start = (b, Acceleration.empty(b), 0)
    x, *_ = lax.while_loop(lambda c: open_(c[1]).any() & (c[2] < 10_000), improve, start)
    return x
