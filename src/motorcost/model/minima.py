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

What is found does not depend on which problems are solved together: a start knows what the first
two have led to before it begins, and nothing of those that are iterated beside it.
"""

from itertools import combinations
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from motorcost.model.alternation import Noise, Progress, iteration, largest_change, separates
from motorcost.model.policy import FilterGains, Gains, Minima
from motorcost.model.problem import Problem

# For each start: whether it begins with the gains that the first start led to (or with filter gains
# of zero), what its noises are multiplied by at the beginning, and how many iterations both passes
# are made with these noises before the problem's own return. The first start makes none: only its
# first backward pass is that of the problem without signal-dependent noise, which finds the
# linear-quadratic regulator, finite and stable wherever the problem can be controlled at all.
STARTS = 4
_FROM_FOUND = (False, True, False, True)
_CONTROL_NOISE = (0.0, 4.0, 0.5, 1.0)
_STATE_NOISE = (0.0, 1.0, 1.0, 1.0)
_SENSE_NOISE = (1.0, 1.0, 1.0, 0.1)
_ITERATIONS_BEFORE = (0, 2, 2, 1)

# The first start converged fast if an iteration reduced the change of the gains to this fraction,
# on average: with a tolerance of 1e-10, within 12 iterations. At the
# 22 of 1,280 random problems where it missed the lowest minimum it had taken at least 14.
_FAST = 0.15

# The number of iterations for which the first start is waited for before the others begin. It goes
# on after them.
_PATIENCE = 40

# The number of iterations after which a start is given up if it costs more than the first, or the
# first if it costs more than another. Beyond the end of a minimum the gains hardly move for any
# number of iterations, and the cost is above that of another minimum there.
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


class Accuracy(NamedTuple):
    """How carefully a policy is looked for; the numbers may be traced.

    - `tolerance`: iterations stop when another one would change no control by more than this
      fraction of its size.
    - `derivative`: the linear equation of the derivative is solved up to this fraction of its right
      side.
    - `every_start`: whether the other starts are tried wherever the first converges slowly;
      otherwise only where it does not converge at all.
    """

    tolerance: Any
    derivative: Any
    every_start: Any = True


class Found(NamedTuple):
    """What a start has led to: gains, and what is known of them (see `Progress`)."""

    L: Gains
    K: FilterGains
    cost: Float[Array, "*batch"]
    estimates: Float[Array, "steps n n *batch"]
    iterations: Int[Array, "*batch"]
    converged: Bool[Array, "*batch"]
    finite: Bool[Array, "*batch"]
    costs: Float[Array, "max_iterations *batch"]

    @classmethod
    def of(cls, progress: Progress) -> "Found":
        """What is kept of the iterations when they end."""
        return cls(**{name: getattr(progress, name) for name in cls._fields})


class Lowest(NamedTuple):
    """What the start with the lowest minimum has led to, and all minima."""

    found: Found
    minima: Minima


class _Jobs(NamedTuple):
    """Starts that are iterated side by side, on the last axis.

    - `element`: the problem, as its place in the batch.
    - `start`: the number of the start.
    - `present`: false for what only fills up the last axis.
    - `place`: where each start of each element is on the last axis; the number of elements where
      it is not.
    """

    element: Int[Array, " jobs"]
    start: Int[Array, " jobs"]
    present: Bool[Array, " jobs"]
    place: Int[Array, " starts_batch"]


def lowest_minimum(
    problem: Problem, accuracy: Accuracy, max_iterations: int, *, first_only: bool = False
) -> Lowest:
    """Look for minima from all starts, or from the first only, and take the lowest."""
    batch = problem.dt.shape
    # From here on the batch has exactly one axis.
    flat = jax.tree.map(
        lambda leaf: leaf.reshape(*leaf.shape[: leaf.ndim - len(batch)], problem.dt.size), problem
    )
    first_only = first_only or separates(problem)
    lowest = _take_lowest(_from_all_starts(flat, accuracy, max_iterations, first_only=first_only))
    return jax.tree.map(lambda leaf: leaf.reshape(*leaf.shape[:-1], *batch), lowest)


def _from_all_starts(
    problem: Problem, accuracy: Accuracy, max_iterations: int, *, first_only: bool
) -> Found:
    """What each start has led to: on the last axis, the first start of all elements of the batch,
    then the second, and so on.

    First the first start is tried for all elements, then the others for those elements that want
    it, the second before the rest, then the first start goes on where it has not converged and no
    other is better. At any time as many starts as there are elements are iterated side by side: one
    program does all.
    """
    count, tolerance = problem.dt.size, accuracy.tolerance
    patience = max_iterations if first_only else min(_PATIENCE, max_iterations)
    empty = Found.of(Progress.empty(problem, max_iterations))
    nothing = jax.tree.map(lambda leaf: jnp.concatenate([leaf] * STARTS, axis=-1), empty)

    def rounds(wanted: Bool[Array, " batch"]) -> Any:
        """The number of rounds after which the other starts have been tried."""
        return 1 + wanted.any() + lax.div((STARTS - 2) * wanted.sum() + count - 1, count)

    def unfinished(found: Found) -> Bool[Array, " batch"]:
        first = jax.tree.map(lambda leaf: leaf[..., :count], found)
        more = (first.iterations >= patience) & (first.iterations < max_iterations)
        return more & first.finite & ~first.converged

    def another_round(carry: Any) -> Any:
        number, wanted, found = carry
        going_on = (number == rounds(wanted)) & unfinished(found).any()
        return (number == 0) | (number < rounds(wanted)) | going_on

    def next_round(carry: Any) -> Any:
        number, wanted, found = carry
        is_first, is_last = number == 0, number == rounds(wanted)
        first = _first_start(is_first | unfinished(found))
        others = _other_starts(found, wanted, number)
        jobs = jax.tree.map(lambda a, b: jnp.where(is_first | is_last, a, b), first, others)
        limit = jnp.where(is_first, patience, max_iterations)
        last = _taken(_iterate(problem, found, jobs, tolerance, limit), jobs.place)
        here = jobs.place < count
        found = jax.tree.map(lambda old, new: jnp.where(here, new, old), found, last)
        slow = tolerance ** (1 / jnp.maximum(found.iterations[:count], 1)) > _FAST
        slow &= jnp.asarray(accuracy.every_start)
        wanted = jnp.where(is_first, slow | ~found.converged[:count], wanted)
        return number + 1, wanted & (not first_only), found

    begin = jnp.array(0), jnp.zeros(count, bool), nothing
    return lax.while_loop(another_round, next_round, begin)[2]


def _taken(tree: Any, index: Int[Array, " taken"]) -> Any:
    """These places on the last axis of every array; places beyond its end are the last."""
    return jax.tree.map(lambda leaf: jnp.take(leaf, index, axis=-1, mode="clip"), tree)


def _first_start(wanted: Bool[Array, " batch"]) -> _Jobs:
    """The first start of the elements that want it."""
    count = wanted.size
    element = jnp.arange(count)
    absent = jnp.full((STARTS - 1) * count, count)
    place = jnp.concatenate([jnp.where(wanted, element, count), absent])
    return _Jobs(element, jnp.zeros_like(element), wanted, place)


def _other_starts(found: Found, wanted: Bool[Array, " batch"], number: Any) -> _Jobs:
    """The starts of the round with this number: the second start of all elements in a round of its
    own, then the third of all, then the fourth."""
    count, elements = wanted.size, wanted.sum()
    # Slow ones together: a round takes as long as its slowest element.
    order = jnp.argsort(jnp.where(wanted, -found.iterations[:count], 1))
    second = number == 1
    begin = jnp.where(second, 0, (number - 2) * count)
    job = begin + jnp.arange(count)
    divisor = jnp.maximum(elements, 1)
    element = order[lax.rem(job, divisor)]
    start = jnp.where(second, 1, jnp.minimum(2 + lax.div(job, divisor), STARTS - 1))
    present = job < jnp.where(second, 1, STARTS - 2) * elements
    # The other way round: on which place of the last axis is which start of which element?
    number_of_start = jnp.arange(STARTS)[:, None]
    place = (number_of_start - jnp.where(second, 1, 2)) * elements + jnp.argsort(order) - begin
    in_round = jnp.where(second, number_of_start == 1, number_of_start >= 2)
    here = wanted & in_round & (place >= 0) & (place < count)
    return _Jobs(element, start, present, jnp.where(here, place, count).ravel())


def _iterate(problem: Problem, found: Found, jobs: _Jobs, tolerance: Any, limit: Any) -> Found:
    """Iterate until every job has converged, failed, made `limit` iterations or been given up."""
    part, first = _taken(problem, jobs.element), _taken(found, jobs.element)
    other = jobs.start > 0
    lowest = _by_start(jnp.where(found.converged, found.cost, jnp.inf)).min(axis=0)
    # The first start's cost only falls, so that it counts before it has converged.
    known = _taken(lowest, jobs.element)
    known = jnp.where(other, jnp.minimum(first.cost, known), known)
    noise = Noise(*(jnp.array(v)[jobs.start] for v in (_CONTROL_NOISE, _STATE_NOISE, _SENSE_NOISE)))

    def advance(carry: Any) -> Any:
        step, progress, distance = carry
        higher = progress.cost > known * (1 + _HIGHER)
        own_tolerance = jnp.where(higher, jnp.maximum(_ROUGH, tolerance), tolerance)
        progress = iteration(part, noise, own_tolerance, limit, step, progress)
        nearer = largest_change(progress.L - first.L, first.L, first.estimates)
        nearer = jnp.where(other & first.converged, nearer, jnp.inf)
        merged = (nearer <= _MERGED) | ((nearer <= _APPROACHING) & (nearer <= _APPROACH * distance))
        hopeless = (progress.iterations >= _GIVE_UP) & (progress.cost > known)
        own = progress.iterations > 0
        halted = progress.halted | (own & ~progress.converged & (merged | hopeless))
        return step + 1, progress._replace(halted=halted), nearer

    start = _beginning(part, first, jobs)
    begin = jnp.array(0), start, jnp.full(jobs.start.shape, jnp.inf)
    last = lax.while_loop(lambda carry: carry[1].active(limit).any(), advance, begin)[1]
    return Found.of(last)


def _beginning(problem: Problem, first: Found, jobs: _Jobs) -> Progress:
    """What every job begins with. The first start begins with what it has led to so far."""
    empty = Progress.empty(problem, first.costs.shape[0])
    before = -jnp.array(_ITERATIONS_BEFORE)[jobs.start]
    is_first = jobs.start == 0
    from_found = jnp.array(_FROM_FOUND)[jobs.start] | is_first

    def where(condition: Any, taken: Any, otherwise: Any) -> Any:
        return jnp.where(condition, taken, otherwise)

    return empty._replace(
        L=where(from_found, first.L, empty.L),
        K=where(from_found, first.K, empty.K),
        estimates=where(from_found, first.estimates, empty.estimates),
        cost=where(is_first, first.cost, empty.cost),
        iterations=where(is_first, first.iterations, before),
        costs=where(is_first, first.costs, empty.costs),
        halted=~jobs.present,
    )


def _by_start(leaf: Array) -> Array:
    """The last axis split into starts and elements of the batch."""
    return leaf.reshape(*leaf.shape[:-1], STARTS, leaf.shape[-1] // STARTS)


def _take_lowest(found: Found) -> Lowest:
    """The start with the lowest cost, and the costs of all distinct minima, lowest first."""
    costs = _by_start(jnp.where(found.converged, found.cost, jnp.inf))
    handicap = jnp.where(jnp.arange(STARTS) > 0, 1 + _LOWER, 1.0)[:, None]
    chosen = (costs * handicap).argmin(axis=0)  # the first start if none has converged
    count = chosen.size
    taken = _taken(found, chosen * count + jnp.arange(count))
    lowest = costs.min(axis=0)
    distinct = _distinct(found)
    # The lowest cost is that of the policy, whichever of equal minima it belongs to.
    ordered = jnp.sort(jnp.where(distinct, costs, jnp.nan), axis=0)
    ordered = ordered.at[0].set(jnp.where(jnp.isfinite(lowest), lowest, jnp.nan))
    return Lowest(taken, Minima(distinct.sum(axis=0), ordered))


def only_minimum(cost: Float[Array, "*batch"], converged: Bool[Array, "*batch"]) -> Minima:
    """The minima where a single one was looked for."""
    costs = jnp.full((STARTS, *cost.shape), jnp.nan)
    return Minima(converged.astype(int), costs.at[0].set(jnp.where(converged, cost, jnp.nan)))


def _distinct(found: Found) -> Bool[Array, "starts batch"]:
    """Which starts have converged, and to another minimum than any start before them."""
    pairs = list(combinations(range(STARTS), 2))
    before, after = (jnp.array(side) for side in zip(*pairs, strict=True))
    count = found.cost.size // STARTS

    def of_starts(starts: Int[Array, " pairs"]) -> Found:
        return _taken(found, (starts[:, None] * count + jnp.arange(count)).ravel())

    L, estimates = of_starts(before).L, of_starts(before).estimates
    distances = largest_change(of_starts(after).L - L, L, estimates).reshape(len(pairs), count)
    converged = _by_start(found.converged)
    distinct = [converged[0]]
    for j in range(1, STARTS):
        known = [distinct[i] & (distances[pairs.index((i, j))] <= _SAME) for i in range(j)]
        distinct.append(converged[j] & ~jnp.stack(known).any(axis=0))
    return jnp.stack(distinct)
