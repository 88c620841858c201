"""Any number of searches for a maximum by gradients, in step.

Each is a quasi-Newton search within bounds (BFGS, with projection onto the bounds and a
backtracking line search). All take their next point together, so that a batch is one call however
many searches there are, and no search waits for another's arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# The longest first step of a search, and of any, on the line (mostly of logarithms).
_FIRST_STEP, _LONGEST = 0.5, 2.0
# A step must bring at least this fraction of what the slope promises.
_PROMISE = 1e-4


class Climb:
    """The state of all searches: ask `points`, tell it `answers`, until `done`.

    It minimises; values that are not finite are walls.
    """

    def __init__(self, starts: np.ndarray, bounds: np.ndarray, tolerance: float) -> None:
        S, p = starts.shape
        self.bounds, self.tolerance = bounds, tolerance
        self.points = np.clip(starts, *bounds.T)
        self.best, self.value = self.points.copy(), np.full(S, np.inf)
        self.gradient, self.inverse = np.zeros((S, p)), np.tile(np.eye(p), (S, 1, 1))
        self.direction, self.length = np.zeros((S, p)), np.ones(S)
        self.fresh = np.ones(S, bool)  # nothing known of the curvature yet
        self.done = np.zeros(S, bool)
        self.converged = np.zeros(S, bool)

    def tell(self, values: np.ndarray, gradients: np.ndarray) -> None:
        """What was found at `points`, which then are the next ones to ask for."""
        with np.errstate(over="ignore", invalid="ignore"):  # far from any sense slopes are huge
            self._tell(values, gradients)

    def _tell(self, values: np.ndarray, gradients: np.ndarray) -> None:
        finite = np.isfinite(values) & np.isfinite(gradients).all(axis=1)
        values, gradients = np.where(finite, values, np.inf), np.nan_to_num(gradients)
        first = np.isinf(self.value)
        moved = self.points - self.best
        slope = (self.gradient * moved).sum(axis=1)
        better = finite & (first | (values <= self.value + _PROMISE * np.minimum(slope, 0.0)))
        taken = better & ~self.done

        self._learn(taken & ~first, moved, gradients - self.gradient)
        rejected = ~taken & ~self.done
        self._shorten(rejected, values, slope)
        self.best = np.where(taken[:, None], self.points, self.best)
        self.value = np.where(taken, values, self.value)
        self.gradient = np.where(taken[:, None], gradients, self.gradient)
        self._aim(taken)
        # A start that is itself a wall leads nowhere; nor do steps that have become too short.
        stuck = (rejected & first) | (rejected & (self.length < 1e-8))
        self.done |= stuck
        self.points = self.best + self.length[:, None] * self.direction
        self.points = np.clip(self.points, *self.bounds.T)

    def _learn(self, which: np.ndarray, moved: np.ndarray, change: np.ndarray) -> None:
        """BFGS's update of the inverse curvature, where there is curvature."""
        along = (moved * change).sum(axis=1)
        square = (change**2).sum(axis=1)
        curved = which & (along > 1e-10 * np.sqrt(square * (moved**2).sum(axis=1)))
        if not curved.any():
            return
        s, y, along = moved[curved], change[curved], along[curved]
        H = self.inverse[curved]
        fresh = self.fresh[curved]
        H[fresh] = (along[fresh] / square[curved][fresh])[:, None, None] * np.eye(s.shape[1])
        Hy = np.einsum("sij,sj->si", H, y)
        grow = (along + (y * Hy).sum(axis=1)) / along**2
        cross = (Hy[:, :, None] * s[:, None, :]) / along[:, None, None]
        H = H + grow[:, None, None] * s[:, :, None] * s[:, None, :] - cross - cross.swapaxes(1, 2)
        self.inverse[curved] = H
        self.fresh[curved] = False

    def _shorten(self, which: np.ndarray, values: np.ndarray, slope: np.ndarray) -> None:
        """The minimum of the parabola through what is known, within reason."""
        with np.errstate(invalid="ignore", divide="ignore"):
            part = -slope / (2 * (values - self.value - slope))
        part = np.where(np.isfinite(part), np.clip(part, 0.1, 0.5), 0.1)
        self.length = np.where(which, self.length * part, self.length)

    def _aim(self, which: np.ndarray) -> None:
        """A new direction where a step was taken, and whether there is anywhere to go."""
        g = self.gradient
        outwards = ((self.best <= self.bounds[:, 0]) & (g > 0)) | (
            (self.best >= self.bounds[:, 1]) & (g < 0)
        )
        inside = np.where(outwards, 0.0, g)
        direction = -np.einsum("sij,sj->si", self.inverse, inside)
        direction = np.where(outwards, 0.0, direction)
        promised = -(inside * direction).sum(axis=1)
        # Bounds can turn a direction uphill: then straight down.
        direction = np.where((promised > 0)[:, None], direction, -inside)
        largest = np.abs(direction).max(axis=1)
        limit = np.where(self.fresh, _FIRST_STEP, _LONGEST)
        steep = np.abs(inside).max(axis=1)
        long = (largest > limit) | (self.fresh & (largest > 0))
        scale = np.where(long, limit / np.where(largest > 0, largest, 1.0), 1.0)
        self.direction = np.where(which[:, None], direction * scale[:, None], self.direction)
        self.length = np.where(which, 1.0, self.length)
        small = (promised < 2 * self.tolerance) & ~self.fresh
        settled = which & (small | (steep < 1e-12))
        self.done |= settled
        self.converged |= settled


def climb(
    evaluate: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    starts: np.ndarray,
    bounds: np.ndarray,
    tolerance: float,
    most: int,
) -> Climb:
    """Minimise from all `starts` (S, p) within `bounds` (p, 2), until no step promises more than
    `tolerance`, or `most` points were tried. `evaluate` gets NaN for searches that are done."""
    state = Climb(starts, bounds, tolerance)
    for _ in range(most):
        if state.done.all():
            break
        state.tell(*evaluate(np.where(state.done[:, None], np.nan, state.points)))
    return state
