"""Run a filter over models, conditions and blocks of trials.

The arrays of a group have the axes (condition, trial, ...), and where several models are compared
(model, condition, trial, ...). A filter takes one problem's trials, on the last axis.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import CustomVJPPrimal, SymbolicZero
from jaxtyping import Array, Float, Int

from motorcost.inference.elimination import NO_CONTRADICTION
from motorcost.numerics.linalg import map_batches, map_leading_axis

# Trials that a filter works on at once: enough to fill the arithmetic, few enough to stay in the
# cache. Memory does not grow with the number of trials beyond this.
BLOCK = 127

# Trials of several conditions that a filter works on at once, on a CPU: a condition with few trials
# alone does not fill the arithmetic.
TOGETHER = 64

# Takes a setting, samples (time, channel, trial) and starts (state, trial) or None, and returns the
# log likelihood of each trial and the index of its first contradiction.
Filter = Callable[[Any, Array, Array | None], tuple[Array, Array]]


def run_conditions(
    run: Filter,
    settings: Any,
    samples: Float[Array, "C N T o"],
    starts: Float[Array, "C N n"] | None,
    weights: Float[Array, "C N"] | None,
) -> tuple[Float[Array, "C *N"], Int[Array, "C *N"], Float[Array, "C N"]]:
    """The log likelihood of each condition's trials and their first contradictions; with
    `weights`, the weighted total of each condition and its first contradiction. Third, the log
    likelihood of each trial in either case, without derivatives if there are weights."""
    if weights is None:
        values, first = _map_conditions(partial(run_blocks, run), settings, samples, starts)
        return values, first, values
    return _map_conditions(partial(weighted_total, run), settings, samples, starts, weights)


def _map_conditions(run: Callable[..., Any], settings: Any, samples: Array, *others: Any) -> Any:
    """What `run` returns for each condition; on a CPU, several that have few trials are computed
    together, and on an accelerator all."""
    together = TOGETHER // samples.shape[1]
    if together <= 1 or samples.shape[0] == 1 or jax.default_backend() != "cpu":
        return map_leading_axis(run, settings, samples, *others)
    return map_batches(jax.vmap(run), together, settings, samples, *others)


def run_models(
    run: Filter,
    settings: Any,
    shared_samples: Float[Array, "C N T o"],
    samples: Float[Array, "S C N T o"] | None,
    starts: Float[Array, "C N n"] | None,
    weights: Float[Array, "S C N"] | None,
) -> tuple[Float[Array, "S C *N"], Int[Array, "S C *N"], Float[Array, "S C N"]]:
    """`run_conditions` for each of S models, with samples of each model's own or shared ones."""

    def run_model(setting: Any, samples: Any, weights: Any) -> Any:
        data = shared_samples if samples is None else samples
        return run_conditions(run, setting, data, starts, weights)

    return map_leading_axis(run_model, settings, samples, weights)


def run_blocks(
    run: Filter,
    setting: Any,
    samples: Float[Array, "N T o"],
    starts: Float[Array, "N n"] | None,
) -> tuple[Float[Array, " N"], Int[Array, " N"]]:
    """What `run` returns for each trial, for a block of trials at a time."""
    N = samples.shape[0]
    blocks = -(-N // BLOCK)
    size = -(-N // blocks)

    def in_blocks(values: Array, fill: float) -> Array:
        """(N, ...) as (block, ..., trial), filled up."""
        pad = [(0, blocks * size - N)] + [(0, 0)] * (values.ndim - 1)
        filled = jnp.pad(values, pad, constant_values=fill)
        return jnp.moveaxis(filled.reshape(blocks, size, *values.shape[1:]), 1, -1)

    parts = (in_blocks(samples, jnp.nan), None if starts is None else in_blocks(starts, 0.0))
    if blocks == 1:
        return run(setting, *jax.tree.map(lambda leaf: leaf[0], parts))
    # Derivatives run each block again rather than keep the intermediate values of all blocks.
    of_block = jax.checkpoint(lambda block: run(setting, *block))
    values, first = lax.map(of_block, parts)
    return values.reshape(-1)[:N], first.reshape(-1)[:N]


def weighted_total(
    run: Filter,
    setting: Any,
    samples: Float[Array, "N T o"],
    starts: Float[Array, "N n"] | None,
    weights: Float[Array, " N"],
) -> tuple[Float[Array, ""], Int[Array, ""], Float[Array, " N"]]:
    """The sum over trials, each counted by its weight, the first contradiction among those that
    count, and the log likelihood of each trial, which has no derivative.

    The gradient by the setting is computed together with the value: the filter's intermediate
    values are then dropped at once, instead of being kept until the reverse pass reaches them.
    """
    leaves, tree = jax.tree.flatten(setting)

    def total_of(leaves: list[Array], data: Any) -> tuple[Array, Array, Array]:
        samples, starts, weights = data
        values, first = run_blocks(run, jax.tree.unflatten(tree, leaves), samples, starts)
        counts = weights > 0
        total = jnp.where(counts, weights * values, 0.0).sum()
        return total, jnp.where(counts, first, NO_CONTRADICTION).min(), values

    def value_and_slopes(leaves: list[Any], data: Any) -> Any:
        data = jax.tree.map(lambda leaf: leaf.value, data, is_leaf=_is_primal)
        return _value_and_slopes(total_of, leaves, data)

    def scaled(slopes: dict[int, Array], cotangents: Any) -> Any:
        by_total = cotangents[0]
        if isinstance(by_total, SymbolicZero):
            slopes = {}
        # A total that does not matter has no derivative, even where its own is not a number.
        matters = by_total != 0
        products = {i: jnp.where(matters, by_total * slope, 0.0) for i, slope in slopes.items()}
        return [products.get(i) for i in range(len(leaves))], None

    total = jax.custom_vjp(total_of)
    total.defvjp(value_and_slopes, scaled, symbolic_zeros=True)
    return total(leaves, (samples, starts, weights))


def _value_and_slopes(total_of: Any, leaves: list[CustomVJPPrimal], data: Any) -> Any:
    """The total, and its gradient by those leaves that derivatives are wanted of, by their place;
    zeros, not computed, if no trial counts."""
    values = [leaf.value for leaf in leaves]
    places = [i for i, leaf in enumerate(leaves) if leaf.perturbed]

    def of_perturbed(perturbed: list[Array]) -> tuple[Array, tuple[Array, Array]]:
        at = dict(zip(places, perturbed, strict=True))
        total, *others = total_of([at.get(i, value) for i, value in enumerate(values)], data)
        return total, tuple(others)

    def computed(perturbed: list[Array]) -> Any:
        return jax.value_and_grad(of_perturbed, has_aux=True)(perturbed)

    def zeros(perturbed: list[Array]) -> Any:
        return jax.tree.map(
            lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(computed, perturbed)
        )

    perturbed, weights = [values[i] for i in places], data[2]
    (total, others), slopes = lax.cond((weights > 0).any(), computed, zeros, perturbed)
    return (total, *others), dict(zip(places, slopes, strict=True))


def _is_primal(leaf: Any) -> bool:
    return isinstance(leaf, CustomVJPPrimal)
