"""The lowest of the minima of the expected cost to which a fixed set of starts leads.

With strong signal-dependent noise the expected cost can have several minima, between which no
path leads downhill. Iterations from one start find one of them; which one changes abruptly with the
problem, and near such a change they hardly move. A policy that is to be a function of its problem
must therefore be looked for from several starts:

1. the linear-quadratic regulator of the problem without signal-dependent noise;
2. the minimum that the first start led to, after two iterations with four times the motor noise;
3. filter gains of zero (no senses), after two iterations with half the motor noise;
4. the minimum that the first start led to, after one with a tenth of the senses' noise.

Of 1,280 random problems of the reaching task, 60 had several minima by 21 starts. These four are
the best of about a hundred variants on those 60 (`benchmarks/minima.py` draws such problems).
Wherever another start found a lower minimum, the first
one had converged slowly: several minima need control and estimation to depend on each other
strongly, and then one iteration leaves much to the next. Where the first start converges fast the
others are therefore left out, and elsewhere a start is abandoned as soon as its gains approach
those of the first.
"""

from itertools import combinations
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from motorcost.model.alternation import (
    Noise,
    Progress,
    iterate_from_regulator,
    iteration,
    largest_change,
    separates,
)
from motorcost.model.policy import Minima
from motorcost.model.problem import Problem
from motorcost.numerics.linalg import batch_size

# For each start: whether it begins with the gains that the first start led to (or with filter gains
# of zero), what its noises are multiplied by at the beginning, and how many iterations are made
# before the problem's own noises return. The first start's are those of `iterate_from_regulator`.
STARTS = 4
_FROM_FOUND = (False, True, False, True)
_CONTROL_NOISE = (1.0, 4.0, 0.5, 1.0)
_SENSE_NOISE = (1.0, 1.0, 1.0, 0.1)
_ITERATIONS_BEFORE = (0, 2, 2, 1)

# The first start converged fast if an iteration reduced the change of the gains to this fraction,
# on average: with a tolerance of 1e-10, within 12 iterations. At the
# 22 of 1,280 random problems where it missed the lowest minimum it had taken at least 14.
_FAST = 0.15

# The number of iterations for which the first start is waited for before the others begin.
_PATIENCE = 40

# The number of iterations after which a start is given up if another one has found a lower cost.
# Beyond the end of a minimum the gains hardly move for any number of iterations, and the cost is
# above that of another minimum there.
_GIVE_UP = 20

# Gains that change no control by more than this fraction of its size belong to the same minimum.
_SAME = 1e-2

# A start has merged with the first if its gains are closer than _MERGED, or closer than
# _APPROACHING and closer than _APPROACH times the distance before the last iteration.
_MERGED = 1e-3
_APPROACHING = 0.2
_APPROACH = 0.5

# A minimum that costs more than another by this fraction is not the lowest, so that only its cost
# matters, for which the gains need to converge to _ROUGH only: an error of the gains changes the
# cost by its square.
_HIGHER = 1e-6
_ROUGH = 1e-4

# Another start's minimum is preferred to the first start's if it is lower by this fraction.
_LOWER = 1e-9


class Lowest(NamedTuple):
    """The iterations that led to the lowest minimum, and all minima."""

    progress: Progress
    minima: Minima


def lowest_minimum(problem: Problem, tolerance: Any, max_iterations: int) -> Lowest:
    """Look for minima from all starts, and take the lowest."""
    patience = max_iterations if separates(problem) else min(_PATIENCE, max_iterations)
    first = iterate_from_regulator(problem, tolerance, max_iterations, patience)
    costs = jnp.full((STARTS, *first.cost.shape), jnp.nan)
    costs = costs.at[0].set(jnp.where(first.converged, first.cost, jnp.nan))
    alone = Lowest(first, Minima(first.converged.astype(int), costs))
    if separates(problem):
        return alone
    slow = tolerance ** (1 / jnp.maximum(first.iterations, 1)) > _FAST
    wanted = slow | ~first.converged

    # From here on the batch has exactly one axis.
    batch = first.cost.shape
    flat_problem, flat_alone = jax.tree.map(
        lambda leaf: leaf.reshape(*leaf.shape[: leaf.ndim - len(batch)], wanted.size),
        (problem, alone),
    )
    found = _look_further(flat_problem, flat_alone, wanted.ravel(), tolerance, max_iterations)
    return jax.tree.map(lambda leaf, like: leaf.reshape(like.shape), found, alone)


def _look_further(
    problem: Problem,
    found: Lowest,
    wanted: Bool[Array, " batch"],
    tolerance: Any,
    max_iterations: int,
) -> Lowest:
    """The same, with the other starts tried for those elements of the batch that want it.

    These are put together in smaller batches, so that the others cost no time.
    """
    count = wanted.size
    size = max(1, min(count, batch_size(problem.B.shape[1]) // STARTS))
    # Slow ones together: a batch takes as long as its slowest element.
    order = jnp.argsort(jnp.where(wanted, -found.progress.iterations, 1))

    def next_batch(carry: tuple[Any, Lowest]) -> tuple[Any, Lowest]:
        number, found = carry
        positions = number * size + jnp.arange(size)
        index = order[jnp.minimum(positions, count - 1)]
        present = positions < wanted.sum()
        part, first = jax.tree.map(lambda leaf: leaf[..., index], (problem, found.progress))
        lowest = _from_all_starts(part, first, present, tolerance, max_iterations)
        target = jnp.where(present, index, count)
        return number + 1, jax.tree.map(
            lambda old, new: old.at[..., target].set(new, mode="drop"), found, lowest
        )

    return lax.while_loop(
        lambda carry: carry[0] * size < wanted.sum(), next_batch, (jnp.array(0), found)
    )[1]


def _from_all_starts(
    problem: Problem,
    first: Progress,
    present: Bool[Array, " batch"],
    tolerance: Any,
    max_iterations: int,
) -> Lowest:
    """Iterate from all starts at once, side by side on the last axis, and take the lowest."""
    size = present.size
    problems = jax.tree.map(_repeated, problem)
    per_start = [jnp.repeat(jnp.array(v), size) for v in (_CONTROL_NOISE, _SENSE_NOISE)]
    noise = Noise(control=per_start[0], sense=per_start[1])

    def advance(carry: Any) -> Any:
        step, progress, distance = carry
        lowest = _lowest_cost(progress)
        higher = progress.cost > lowest * (1 + _HIGHER)
        own_tolerance = jnp.where(higher, jnp.maximum(_ROUGH, tolerance), tolerance)
        progress = iteration(problems, noise, own_tolerance, max_iterations, step, progress)
        nearer = _distance_to_first(progress)
        merged = (nearer <= _MERGED) | ((nearer <= _APPROACHING) & (nearer <= _APPROACH * distance))
        hopeless = (progress.iterations >= _GIVE_UP) & (progress.cost > _lowest_cost(progress))
        own = progress.iterations > 0
        halted = progress.halted | (own & ~progress.converged & (merged | hopeless))
        return step + 1, progress._replace(halted=halted), nearer

    start = _all_starts(problem, first, present, max_iterations)
    infinite = jnp.full(STARTS * size, jnp.inf)
    _, last, _ = lax.while_loop(
        lambda carry: carry[1].active(max_iterations).any(),
        advance,
        (jnp.array(_PATIENCE), start, infinite),
    )
    return _take_lowest(last)


def _repeated(leaf: Array) -> Array:
    """The same element of the batch for every start: start 1 of all elements, then start 2, ..."""
    return jnp.concatenate([leaf] * STARTS, axis=-1)


def _by_start(leaf: Array) -> Array:
    """The last axis split into starts and elements of the batch."""
    return leaf.reshape(*leaf.shape[:-1], STARTS, leaf.shape[-1] // STARTS)


def _all_starts(
    problem: Problem, first: Progress, present: Bool[Array, " batch"], max_iterations: int
) -> Progress:
    """What every start begins with; the first one has already begun."""
    empty = Progress.empty(problem, max_iterations)
    before = [jnp.full(present.size, -count) for count in _ITERATIONS_BEFORE]
    found = empty._replace(L=first.L, K=first.K, estimates=first.estimates)
    others = [
        (found if from_found else empty)._replace(iterations=count)
        for from_found, count in zip(_FROM_FOUND[1:], before[1:], strict=True)
    ]
    parts = (first, *others)
    together = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=-1), *parts)
    return together._replace(halted=_repeated(~present))


def _lowest_cost(progress: Progress) -> Float[Array, " starts_batch"]:
    """The lowest cost of the starts that have converged, for every start alike."""
    costs = jnp.where(progress.converged, progress.cost, jnp.inf)
    return _repeated(_by_start(costs).min(axis=-2))


def _distance_to_first(progress: Progress) -> Float[Array, " starts_batch"]:
    """How much the controls differ from those of the first start, relative to their size.

    Infinite for the first start itself, and where it has not converged.
    """
    L, estimates = (
        _repeated(_by_start(leaf)[..., 0, :]) for leaf in (progress.L, progress.estimates)
    )
    converged = _by_start(progress.converged)[0]
    others = jnp.arange(STARTS)[:, None] > 0
    distance = _by_start(largest_change(progress.L - L, L, estimates))
    return jnp.where(others & converged, distance, jnp.inf).ravel()


def _take_lowest(progress: Progress) -> Lowest:
    """The start with the lowest cost, and the costs of all distinct minima, lowest first."""
    by_start = jax.tree.map(_by_start, progress)
    costs = jnp.where(by_start.converged, by_start.cost, jnp.inf)  # (start, batch)
    handicap = jnp.where(jnp.arange(STARTS) > 0, 1 + _LOWER, 1.0)[:, None]
    chosen = (costs * handicap).argmin(axis=0)  # the first start if none has converged
    taken = jax.tree.map(
        lambda leaf: jnp.take_along_axis(leaf, chosen.reshape(*[1] * (leaf.ndim - 1), -1), axis=-2)[
            ..., 0, :
        ],
        by_start,
    )
    lowest = costs.min(axis=0)
    distinct = _distinct(by_start, jnp.isfinite(costs))
    # The lowest cost is that of the policy, whichever of equal minima it belongs to.
    ordered = jnp.sort(jnp.where(distinct, costs, jnp.nan), axis=0)
    ordered = ordered.at[0].set(jnp.where(jnp.isfinite(lowest), lowest, jnp.nan))
    return Lowest(taken, Minima(distinct.sum(axis=0), ordered))


def _distinct(
    by_start: Progress, converged: Bool[Array, "starts batch"]
) -> Bool[Array, "starts batch"]:
    """Which starts have converged, and to another minimum than any start before them."""
    pairs = list(combinations(range(STARTS), 2))
    before, after = (jnp.array(side) for side in zip(*pairs, strict=True))
    L, estimates = by_start.L[..., before, :], by_start.estimates[..., before, :]
    distances = largest_change(by_start.L[..., after, :] - L, L, estimates)
    distinct = [converged[0]]
    for j in range(1, STARTS):
        known = [distinct[i] & (distances[pairs.index((i, j))] <= _SAME) for i in range(j)]
        distinct.append(converged[j] & ~jnp.stack(known).any(axis=0))
    return jnp.stack(distinct)
