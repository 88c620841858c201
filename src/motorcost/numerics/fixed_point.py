"""Fixed points x = g(x) in fewer steps, by Anderson's acceleration.

The last few steps tell how the gap g(x) - x answers to moves of x. Of all combinations of them,
the one after which the gap would be least is where to go on. Where a step made things worse, what
was learnt is forgotten and the plain step to g(x) taken. For a linear g it is GMRES with a short
memory; but some linear equations need a long one, and get it (`solve_linear`).

Every lane (the axes after the third) has a fixed point of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from motorcost.numerics.linalg import diagonal, solve_semidefinite

Unknown = Float[Array, "i j k *lanes"]

# Steps that are remembered. More did not settle sooner (benchmarks/NOTES.md).
MEMORY = 3
# A step that is this close to a combination of others (its squared sine) tells nothing new.
_COLLINEAR = 1e-11
# Of a linear equation: what of the right side is as good as nothing, and with how much left it
# counts as solved; steps that are remembered (with 3 of them some equations are never solved), and
# the most steps; what part of the gap a step must close to be followed by another like it.
_EXACT, _SOLVED, _REMEMBERED, _MOST, _HELPFUL = 1e-13, 1e-6, 20, 500, 0.1


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
        size = _size(gap)
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


def solve_linear(matvec: Callable[[Unknown], Unknown], b: Unknown) -> Unknown:
    """x with matvec(x) = b, for a matvec near one, as the sweeps' linearisation is; NaN where it
    is not found.

    By generalised conjugate residuals: each step goes along the gap that is left, without what
    the last steps did, as far as makes the gap least. Where that hardly helps, the next step goes
    along the effect of this one: otherwise it could be the same again.
    """
    norm = _size(b)

    def improve(so_far: _Settling) -> _Settling:
        move, effect = so_far.ahead, matvec(so_far.ahead)
        whole = _size(effect)
        for _ in range(2):  # once would leave rounding of what is taken away
            share = _dot(so_far.effects, effect).reshape(-1, 1, 1, 1, *norm.shape)
            effect = effect - (share * so_far.effects).sum(axis=0)
            move = move - (share * so_far.moves).sum(axis=0)
        size = _size(effect)
        # Lanes that are done stay, for rounding would drive them about; and where there is no
        # direction left, what there is would be blown up.
        going = so_far.open & (size > _EXACT * whole)
        scale = jnp.where(going, 1.0 / jnp.where(going, size, 1.0), 0.0)
        move, effect = (jnp.where(going, each * scale, 0.0) for each in (move, effect))
        length = _dot(effect, so_far.gap)
        gap = so_far.gap - length * effect
        helps = jnp.abs(length) > _HELPFUL * _size(so_far.gap)
        slot = so_far.step % _REMEMBERED
        return _Settling(
            step=so_far.step + 1,
            x=so_far.x + length * move,
            gap=gap,
            ahead=jnp.where(helps, gap, effect),
            moves=so_far.moves.at[slot].set(move),
            effects=so_far.effects.at[slot].set(effect),
            open=going & (_size(gap) > _EXACT * norm),
        )

    none = jnp.zeros((_REMEMBERED, *b.shape))
    start = _Settling(jnp.array(0), jnp.zeros_like(b), b, b, none, none, norm > 0)
    last = lax.while_loop(lambda s: s.open.any() & (s.step < _MOST), improve, start)
    return jnp.where(_size(last.gap) <= _SOLVED * norm, last.x, jnp.nan)


class _Settling(NamedTuple):
    step: Int[Array, ""]
    x: Unknown
    gap: Unknown  # b - matvec(x)
    ahead: Unknown  # where the next step goes
    moves: Float[Array, "remembered i j k *lanes"]
    effects: Float[Array, "remembered i j k *lanes"]  # matvec of the moves; orthonormal
    open: Bool[Array, "*lanes"]


def _size(a: Unknown) -> Float[Array, "*lanes"]:
    return jnp.sqrt(_dot(a, a))
