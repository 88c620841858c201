"""What searches came by beyond the intervals that standard errors give.

Standard errors take the log likelihood for a parabola. Where it is a ridge that bends, or has a
second maximum that slopes down to the first, they are far too small. Searches that begin at many
places climb along such ridges, and have evaluated points there: those within half the quantile of
chi-square of the best are in the interval by the profile likelihood, whatever the others are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from motorcost.fitting.batching import BatchedObjective
from motorcost.fitting.engine import Maxima, Nearby, maximise
from motorcost.fitting.intervals import drop_of, wald_ends
from motorcost.fitting.visited import Visited
from motorcost.tasks.supports import Support

# Levels of confidence for which the furthest points are looked for.
LEVELS = (0.8, 0.9, 0.95, 0.99)
# How many points to evaluate on each side of an interval, in one round after the other. Nearly
# always the furthest is what it seemed to be, and nothing more is evaluated. Where it is refuted,
# others near it probably are too, and several on the way back are evaluated at once. After the last
# round an interval reaches the furthest point that was confirmed: evaluations are bounded.
CANDIDATES = (1, 4, 4)


def maximise_and_note(
    batched: BatchedObjective, starts: np.ndarray, **options: Any
) -> list[Maxima | None]:
    """The maxima of each data set as `maximise` finds them, with the points that the searches came
    by and that are beyond the intervals by standard errors."""
    visited = Visited(len(starts))
    found = maximise(batched.noting(visited), starts, **options)
    supports = batched.objective.supports
    passed = [_Passed(*points_and_values) for points_and_values in visited.of_data_sets()]
    try:
        for count in CANDIDATES:
            chosen = [
                _furthest(maxima, of_set, supports, count)
                for maxima, of_set in zip(found, passed, strict=True)
            ]
            _evaluate(batched, passed, chosen)
    except KeyboardInterrupt:
        return [maxima and replace(maxima, interrupted=True) for maxima in found]
    if not any(of_set.exact.any() for of_set in passed):
        return found
    return [
        maxima and replace(maxima, nearby=of_set.confirmed(len(supports)))
        for maxima, of_set in zip(found, passed, strict=True)
    ]


class _Passed:
    """The points that the searches of one data set came by, each once, and their values.

    The way to a maximum is computed roughly, and what is said of a point must be exact: `exact`
    tells the values that were computed again.
    """

    def __init__(self, points: np.ndarray, values: np.ndarray) -> None:
        best_first = np.argsort(-values, kind="stable")  # of a point with several, the highest
        _, first = np.unique(points[best_first], axis=0, return_index=True)
        once = best_first[first]
        self.points, self.values = points[once], values[once]
        self.exact = np.zeros(len(once), bool)

    def confirmed(self, n_parameters: int) -> Nearby:
        """The points whose values are exact; whether these are high enough depends on the level."""
        points = self.points[self.exact].reshape(-1, n_parameters)
        return Nearby(points, self.values[self.exact])


def _evaluate(
    batched: BatchedObjective, passed: Sequence[_Passed], chosen: Sequence[np.ndarray]
) -> None:
    """Compute the values of chosen points of all data sets exactly."""
    counts = [len(indices) for indices in chosen]
    if not sum(counts):
        return
    points = [of_set.points[indices] for of_set, indices in zip(passed, chosen, strict=True)]
    which = np.repeat(np.arange(len(passed)), counts)
    values = batched(which, np.concatenate([part for part in points if len(part)]))[0]
    parts = np.split(values, np.cumsum(counts)[:-1])
    for of_set, indices, own in zip(passed, chosen, parts, strict=True):
        of_set.values[indices], of_set.exact[indices] = own, True


def _furthest(
    maxima: Maxima | None, passed: _Passed, supports: Sequence[Support], count: int
) -> np.ndarray:
    """Which points to evaluate: those beyond the intervals that reach furthest in a coordinate, at
    some level, and others between them and the interval, up to `count` on each side where the
    furthest is not known to be true."""
    chosen: set[int] = set()
    if maxima is None or maxima.interrupted or not maxima.best.converged:
        return np.array([], int)
    for level in LEVELS:
        ends = wald_ends(maxima.maxima, supports, level)
        allowed = np.flatnonzero(maxima.best.value - passed.values < drop_of(level))
        if not len(allowed):
            continue
        for k in np.flatnonzero(np.isfinite(ends).all(axis=1)):
            for sign, end in zip((-1, 1), ends[k], strict=True):
                beyond = sign * (passed.points[allowed, k] - end)
                outside = allowed[beyond > 0]
                chosen |= _spread(outside, beyond[beyond > 0], passed.exact, count)
    return np.array(sorted(chosen), int)


def _spread(outside: np.ndarray, beyond: np.ndarray, exact: np.ndarray, count: int) -> set[int]:
    """Up to `count` of the points that are outside of an interval: the furthest, and those nearest
    to places spread between it and the end, none of them nearer than what is known to be true."""
    if not len(outside) or exact[outside[beyond.argmax()]]:
        return set()
    true = exact[outside]
    known = beyond[true].max(initial=0.0)
    further = beyond > known
    outside, beyond = outside[further], beyond[further]
    chosen: list[int] = []
    for place in np.linspace(beyond.max(), known, count, endpoint=False):
        distance = np.abs(beyond - place)
        distance[chosen] = np.inf
        if np.isfinite(distance).any():
            chosen.append(int(distance.argmin()))
    return {int(outside[i]) for i in chosen}
