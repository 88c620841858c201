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


def maximise_and_note(
    batched: BatchedObjective, starts: np.ndarray, **options: Any
) -> list[Maxima | None]:
    """The maxima of each data set as `maximise` finds them, with the points that the searches came
    by and that are beyond the intervals by standard errors."""
    visited = Visited(len(starts))
    found = maximise(batched.noting(visited), starts, **options)
    supports = batched.objective.supports
    furthest = [
        _furthest(maxima, points, values, supports)
        for maxima, (points, values) in zip(found, visited.of_data_sets(), strict=True)
    ]
    which = np.repeat(np.arange(len(found)), [len(points) for points in furthest])
    if not len(which):
        return found
    try:
        # The way to a maximum is computed roughly: what is said of these points must be exact.
        values = batched(which, np.concatenate(furthest))[0]
    except KeyboardInterrupt:
        return [maxima and replace(maxima, interrupted=True) for maxima in found]
    values_of = np.split(values, np.cumsum([len(points) for points in furthest])[:-1])
    return [
        maxima and replace(maxima, nearby=Nearby(points, own))
        for maxima, points, own in zip(found, furthest, values_of, strict=True)
    ]


def _furthest(
    maxima: Maxima | None, points: np.ndarray, values: np.ndarray, supports: Sequence[Support]
) -> np.ndarray:
    """The points that are beyond the intervals and reach furthest in a coordinate, at some level:
    (F, p)."""
    nothing = np.zeros((0, len(supports)))
    if maxima is None or maxima.interrupted or not maxima.best.converged:
        return nothing
    chosen: set[int] = set()
    for level in LEVELS:
        ends = wald_ends(maxima.maxima, supports, level)
        allowed = np.flatnonzero(maxima.best.value - values < drop_of(level))
        for k in np.flatnonzero(np.isfinite(ends).all(axis=1) & (len(allowed) > 0)):
            of_coordinate = points[allowed, k]
            if of_coordinate.min() < ends[k, 0]:
                chosen.add(int(allowed[of_coordinate.argmin()]))
            if of_coordinate.max() > ends[k, 1]:
                chosen.add(int(allowed[of_coordinate.argmax()]))
    return points[sorted(chosen)] if chosen else nothing
