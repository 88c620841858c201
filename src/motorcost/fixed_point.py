"""Fixed points x = g(x) in fewer steps, by Anderson's acceleration.

The last few steps tell how the gap g(x) - x answers to moves of x. Of all combinations of them,
the one after which the gap would be least is where to go on. Where a step made things worse, what
was learnt is forgotten and the plain step to g(x) taken. For a linear g it is GMRES with a short
memory; but some linear equations need a long one, and get it (`settle_linear`).

Every lane (the axes after the third) has a fixed point of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from motorcost.linalg import diagonal, solve_semidefinite

Unknown = Float[Array, "i j k *lanes"]

# Steps that are remembered. More did not settle sooner (benchmarks/NOTES.md).
MEMORY = 3
# A step that is this close to a combination of others (its squared sine) tells nothing new.
_COLLINEAR = 1e-11
# Of a linear equation: what of the right side may be left, steps that are remembered (with 3 of
# them some equations are never solved), and the most steps.
_EXACT, _REMEMBERED, _MOST = 1e-13, 20, 500


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

    def forgotten(self, where: Bool[Array, "*lanes"]) -> Acceleration:
        """The same, but in these lanes the next step is a plain one."""
        return self._replace(size=jnp.where(where, jnp.inf, self.size))

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
    """x with matvec(x) = b, for a matvec near one, as the sweeps' linearisation is.

    By generalised conjugate residuals: each step goes along the gap that is left, without what the
    last steps did, as far as makes the gap least. So it never grows, whatever the matvec; the
    bound on the steps is there only so that it ends.
    """
    norm = jnp.sqrt(_dot(b, b))

    def is_open(gap: Unknown) -> Bool[Array, "*lanes"]:
        return jnp.sqrt(_dot(gap, gap)) > _EXACT * norm

    def improve(so_far: _Settling) -> _Settling:
        step, x, gap, moves, effects = so_far
        move, effect = gap, matvec(gap)
        for _ in range(2):  # once would leave rounding of what is taken away
            share = _dot(effects, effect).reshape(-1, 1, 1, 1, *norm.shape)
            effect = effect - (share * effects).sum(axis=0)
            move = move - (share * moves).sum(axis=0)
        size = jnp.sqrt(_dot(effect, effect))
        # Lanes that are done stay: rounding would drive them about.
        done = ~is_open(gap) | (size == 0)
        scale = jnp.where(done, 0.0, 1.0 / jnp.where(done, 1.0, size))
        move, effect = (jnp.where(done, 0.0, each * scale) for each in (move, effect))
        length = _dot(effect, gap)
        return _Settling(
            step + 1,
            x + length * move,
            jnp.where(size == 0, 0.0, gap - length * effect),
            moves.at[step % _REMEMBERED].set(move),
            effects.at[step % _REMEMBERED].set(effect),
        )

    def go_on(so_far: _Settling) -> Bool[Array, ""]:
        return is_open(so_far.gap).any() & (so_far.step < _MOST)

    none = jnp.zeros((_REMEMBERED, *b.shape))
    start = _Settling(jnp.array(0), jnp.zeros_like(b), b, none, none)
    x = lax.while_loop(go_on, improve, start).x
    return jnp.where(jnp.isfinite(norm), x, jnp.nan)


class _Settling(NamedTuple):
    step: Int[Array, ""]
    x: Unknown
    gap: Unknown  # b - matvec(x)
    moves: Float[Array, "remembered i j k *lanes"]
    effects: Float[Array, "remembered i j k *lanes"]  # matvec of the moves; orthonormal
