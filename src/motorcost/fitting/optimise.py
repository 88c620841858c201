"""Searches for the lowest value of many functions at once, by their gradients.

Each search is a quasi-Newton method within bounds: BFGS with a memory of the last steps, with
projection onto the bounds and a line search for the weak Wolfe conditions (Lewis and Overton 2013),
which keep the estimate of the curvature positive and hold up where a function jumps. Where a rough
curvature is known at every point, BFGS corrects that rather than a multiple of the identity: a
third of the evaluations are then enough (`python benchmarks/lab.py`). All searches take their next
point together, so that thousands of them cost one batched evaluation per round.

Written here because no library runs bounded searches in step: SciPy's L-BFGS-B runs one search at a
time, so that points could be batched only with a thread for each, and even alone takes a hundred
times as long between two evaluations (`python benchmarks/searches.py`: 4 µs against 766);
Optimistix's BFGS knows no bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# Values and gradients of several searches' points: ((S,), (S, p)) -> (S,), (S, p). The first
# argument numbers the searches, so that each may have data of its own.
Evaluate = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
# The same with rough second derivatives (S, p, p), positive semidefinite, or None if unknown.
EvaluateCurved = Callable[
    [np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray | None]
]

# The longest first step, in any coordinate of the search scale (mostly of natural logarithms).
FIRST_STEP = 0.5
# The longest of all later steps.
LONGEST_STEP = 2.0
# Armijo's condition: a step must lower the value by this fraction of what the slope promises.
SUFFICIENT_DECREASE = 1e-4
# Wolfe's condition: the slope must have flattened to this fraction, or the step is too short.
FLATTENED = 0.9
# Points that a line search may try before it is given up.
LINE_SEARCH_POINTS = 25
# A line search has crossed a jump where the value rises by more than JUMP times what the slope
# explains. It stops when the slope promises less, up to the jump, than this fraction of its gain so
# far.
JUMP = 10.0
LEFT_BEFORE_A_JUMP = 0.1
# A search stops after two line searches in a row that ended at a jump and gained less than this
# multiple of the tolerance.
CREEPING = 30.0
# A projected gradient below this is zero but for rounding.
FLAT = 1e-12
# Steps that are remembered: more than there are parameters, mostly.
MEMORY = 10
# A step shows curvature if the gradient changed along it by at least this fraction of its length.
LEAST_CURVATURE = 1e-10
# A rough curvature is scaled to that of the newest step if it is off by more than this, on the log
# scale.
TRUSTED = 2.0
# Added to a rough curvature, relative to its largest entry, so that it can be inverted.
RIDGE = 1e-10


@dataclass(frozen=True)
class Found:
    """Where one search came to: the best point that it saw, and why it stopped."""

    point: np.ndarray
    value: float
    evaluations: int
    converged: bool
    message: str


class Searches:
    """The state of all searches: evaluate `points`, call `tell`, until all are `done`.

    It minimises. `starts` is (S, p), `bounds` (p, 2) or (S, p, 2); a coordinate whose bounds are
    equal is held. Values that are not finite are walls from which the line search steps back.
    A search has converged when its model of the function promises less than `tolerance` twice in
    a row. One that gains less than `creeping` on two lines in a row, because the value jumps across
    them, stops without having converged.
    """

    def __init__(
        self,
        starts: np.ndarray,
        bounds: np.ndarray,
        tolerance: float,
        creeping: float | None = None,
    ) -> None:
        S, p = starts.shape
        bounds = np.broadcast_to(bounds, (S, p, 2))
        self.low, self.high = bounds[..., 0], bounds[..., 1]
        self.tolerance = tolerance
        self.creeping = CREEPING * tolerance if creeping is None else creeping
        self.points = np.clip(starts, self.low, self.high)
        self.done = np.zeros(S, bool)
        self.converged = np.zeros(S, bool)
        self.evaluations = np.zeros(S, int)
        # The best point so far, which on a line is the last one that was low enough.
        self.best, self.value = self.points.copy(), np.full(S, np.inf)
        self._gradient = np.zeros((S, p))
        # The line that is being searched: where it begins, and its direction.
        self._origin, self._origin_value = self.points.copy(), np.full(S, np.inf)
        self._origin_gradient, self._direction = np.zeros((S, p)), np.zeros((S, p))
        # Steps along it: the one tried, the longest that was too short, the shortest too long.
        self._step, self._short, self._long = np.ones(S), np.zeros(S), np.full(S, np.inf)
        self._long_value = np.full(S, np.inf)
        self._tried = np.zeros(S, int)
        # What is known of the curvature: the last steps with the changes of the gradient, the
        # newest last, and a rough one at the best point, NaN where there is none.
        self._moves, self._changes = np.zeros((S, MEMORY, p)), np.zeros((S, MEMORY, p))
        self._rough = np.full((S, p, p), np.nan)
        self._fresh = np.ones(S, bool)  # nothing is known, or nothing is to be trusted
        self._settled = np.zeros(S, int)  # directions in a row that promised next to nothing
        self._crept = np.zeros(S, int)  # lines in a row that were given up and gained as little

    def tell(
        self, values: np.ndarray, gradients: np.ndarray, curvatures: np.ndarray | None = None
    ) -> None:
        """Take values, gradients and rough curvatures at `points`, and choose the next points."""
        if curvatures is None:
            curvatures = np.broadcast_to(np.nan, self._rough.shape)
        with np.errstate(over="ignore", invalid="ignore"):  # slopes are huge far from any maximum
            self._tell(values, gradients, curvatures)

    def _tell(self, values: np.ndarray, gradients: np.ndarray, curvatures: np.ndarray) -> None:
        active = ~self.done
        self.evaluations += active
        finite = np.isfinite(values) & np.isfinite(gradients).all(axis=1)
        values, gradients = np.where(finite, values, np.inf), np.nan_to_num(gradients)
        first = active & np.isinf(self._origin_value)
        self._take(first & finite, values, gradients, curvatures)
        self.done |= first & ~finite  # a start that is itself a wall leads nowhere
        ended = first & finite

        moved = self.points - self._origin
        slope = (self._origin_gradient * moved).sum(axis=1)
        limit = self._origin_value + SUFFICIENT_DECREASE * np.minimum(slope, 0.0)
        on_line = active & ~first
        low_enough = on_line & finite & (values <= limit)
        self._take(low_enough & (values <= self.value), values, gradients, curvatures)
        clipped = self._clipped()
        steep = (gradients * moved).sum(axis=1) < FLATTENED * slope
        too_short = low_enough & steep & ~clipped & (self._length() < LONGEST_STEP)
        too_long = on_line & ~low_enough
        self._tried += on_line
        self._narrow(too_short, too_long, values, slope)
        given_up = on_line & (too_short | too_long)
        given_up &= (self._tried >= LINE_SEARCH_POINTS) | self._is_at_a_jump()
        ended |= (on_line & ~too_short & ~too_long) | given_up
        little = self._origin_value - self.value < self.creeping
        self._crept = np.where(ended, np.where(given_up & little, self._crept + 1, 0), self._crept)
        self._turn(ended)
        self.done |= self._crept >= 2
        points = self._origin + self._step[:, None] * self._direction
        self.points = np.clip(points, self.low, self.high)

    def _take(
        self,
        which: np.ndarray,
        values: np.ndarray,
        gradients: np.ndarray,
        curvatures: np.ndarray,
    ) -> None:
        """Remember the points of these searches as their best."""
        self.best[which], self.value[which] = self.points[which], values[which]
        self._gradient[which], self._rough[which] = gradients[which], curvatures[which]

    def _length(self) -> np.ndarray:
        return self._step * np.abs(self._direction).max(axis=1)

    def _is_at_a_jump(self) -> np.ndarray:
        """Whether the value jumps between the longest step that was low enough and the shortest
        that was not, and next to nothing is left to gain before that. A line without a step that
        was low enough has gained nothing yet."""
        crossed = np.isfinite(self._long)
        width = np.where(crossed, self._long - self._short, 0.0)
        promised = np.abs((self._gradient * self._direction).sum(axis=1)) * width
        rise = np.where(crossed, self._long_value - self.value, -np.inf)
        gained = LEFT_BEFORE_A_JUMP * (self._origin_value - self.value)
        little = promised < np.where(self._short > 0, gained, self.creeping)
        return crossed & (rise > JUMP * promised) & little

    def _clipped(self) -> np.ndarray:
        """Whether the bounds cut the step short: a longer one need not change anything."""
        wanted = self._origin + self._step[:, None] * self._direction
        return (wanted != self.points).any(axis=1)

    def _narrow(
        self, too_short: np.ndarray, too_long: np.ndarray, values: np.ndarray, slope: np.ndarray
    ) -> None:
        """The next step to try on the same line: twice as long while none was too long, else
        between the two that are known, nearer to the minimum of a parabola if there is one."""
        self._short = np.where(too_short, self._step, self._short)
        self._long = np.where(too_long, self._step, self._long)
        self._long_value = np.where(too_long, values, self._long_value)
        with np.errstate(invalid="ignore", divide="ignore"):
            parabola = -slope / (2 * (values - self._origin_value - slope)) * self._step
        width = self._long - self._short
        bracketed = np.isfinite(self._long)
        inner = self._short + np.where(np.isfinite(width), width, 0.0) * 0.5
        lowest, highest = self._short + 0.1 * width, self._short + 0.5 * width
        usable = too_long & np.isfinite(parabola) & (self._short == 0)
        inner = np.where(usable, np.clip(parabola, lowest, highest), inner)
        # After a wall nothing is known but that the step was far too long.
        inner = np.where(too_long & np.isinf(values), self._short + 0.1 * width, inner)
        step = np.where(bracketed, inner, 2.0 * self._step)
        self._step = np.where(too_short | too_long, step, self._step)

    def _turn(self, ended: np.ndarray) -> None:
        """Begin a new line at the best point of searches whose line has ended, or stop them."""
        moved = self.best - self._origin
        known = ended & np.isfinite(self._origin_value)
        improved = known & (self.value < self._origin_value)
        self._learn(improved, moved, self._gradient - self._origin_gradient)
        self._fresh &= ~((ended & ~known) | improved) | ~self._is_rough()
        # Nothing better on the line: the curvature may be wrong. Forget it once, then stop.
        stuck = known & ~improved
        self.done |= stuck & self._fresh
        self._forget(stuck & ~self._fresh)
        self._origin = np.where(ended[:, None], self.best, self._origin)
        self._origin_value = np.where(ended, self.value, self._origin_value)
        self._origin_gradient = np.where(ended[:, None], self._gradient, self._origin_gradient)
        self._aim(ended & ~self.done)

    def _forget(self, which: np.ndarray) -> None:
        """Trust nothing that is known of the curvature, until the next point that is better."""
        self._moves[which] = self._changes[which] = 0.0
        self._fresh |= which

    def _is_rough(self) -> np.ndarray:
        """Whether a rough curvature is known at the best point."""
        return np.isfinite(self._rough).all(axis=(1, 2)) & self._rough.any(axis=(1, 2))

    def _learn(self, which: np.ndarray, moved: np.ndarray, change: np.ndarray) -> None:
        """Remember the last step, where it shows positive curvature."""
        along = (moved * change).sum(axis=1)
        size = np.sqrt((moved**2).sum(axis=1) * (change**2).sum(axis=1))
        curved = which & (along > LEAST_CURVATURE * size)
        for memory, newest in ((self._moves, moved), (self._changes, change)):
            memory[curved, :-1] = memory[curved, 1:]
            memory[curved, -1] = newest[curved]
        self._fresh[curved] = False

    def _inverse_times(self, vector: np.ndarray, inside: np.ndarray) -> np.ndarray:
        """The inverse curvature times a vector of each search, by BFGS's two loops over the
        remembered steps, among the coordinates that are `inside` the bounds."""
        moves = np.where(inside[:, None], self._moves, 0.0)
        changes = np.where(inside[:, None], self._changes, 0.0)
        along, square = (moves * changes).sum(axis=2), (changes**2).sum(axis=2)
        curved = along > LEAST_CURVATURE * np.sqrt(square * (moves**2).sum(axis=2))
        inverse = np.where(curved, 1.0 / np.where(curved, along, 1.0), 0.0)
        weights = np.zeros_like(inverse)
        for k in reversed(range(MEMORY)):
            weights[:, k] = inverse[:, k] * (moves[:, k] * vector).sum(axis=1)
            vector = vector - weights[:, k, None] * changes[:, k]
        newest = MEMORY - 1 - curved[:, ::-1].argmax(axis=1)[:, None]
        shown = np.take_along_axis(np.where(curved, along, 0.0), newest, axis=1)[:, 0]
        change = np.take_along_axis(changes, newest[:, :, None], axis=1)[:, 0]
        result = self._without_steps(vector, inside, change, shown)
        for k in range(MEMORY):
            back = inverse[:, k] * (changes[:, k] * result).sum(axis=1)
            result = result + (weights[:, k] - back)[:, None] * moves[:, k]
        return result

    def _without_steps(
        self, vector: np.ndarray, inside: np.ndarray, change: np.ndarray, shown: np.ndarray
    ) -> np.ndarray:
        """The inverse curvature times a vector, before the remembered steps correct it: the rough
        one, or a multiple of the identity, with the scale of the newest step. That changed the
        gradient by `change`, whose product with the step is `shown`; 0 if there is none."""
        square, known = (change**2).sum(axis=1), shown > 0
        result = np.where(known, shown / np.where(known, square, 1.0), 1.0)[:, None] * vector
        rough = self._is_rough() & ~self._fresh
        if rough.any():
            by_vector, by_change = (
                self._roughly(rough, part[rough], inside[rough]) for part in (vector, change)
            )
            expected = (change[rough] * by_change).sum(axis=1)
            known = known[rough] & (expected > 0)
            factor = np.where(known, shown[rough] / np.where(known, expected, 1.0), 1.0)
            factor = np.where(np.abs(np.log(factor)) > TRUSTED, factor, 1.0)
            result[rough] = factor[:, None] * by_vector
        return result

    def _roughly(self, which: np.ndarray, vector: np.ndarray, inside: np.ndarray) -> np.ndarray:
        """The inverse of the rough curvatures of these searches times a vector of each."""
        p = vector.shape[1]
        both = inside[:, :, None] & inside[:, None, :]
        largest = np.abs(self._rough[which]).max(axis=(1, 2))
        ridge = np.where(inside, RIDGE * largest[:, None] + 1e-300, 1.0)
        matrix = np.where(both, self._rough[which], 0.0) + ridge[:, :, None] * np.eye(p)
        return np.linalg.solve(matrix, vector[:, :, None])[:, :, 0]

    def _aim(self, which: np.ndarray) -> None:
        """A new direction, and whether there is anything left to gain along it."""
        g = self._gradient
        at_edge = ((self.best <= self.low) & (g > 0)) | ((self.best >= self.high) & (g < 0))
        inside = np.where(at_edge, 0.0, g)
        direction = -self._inverse_times(inside, ~at_edge)
        direction = np.where(at_edge, 0.0, direction)
        promised = -(inside * direction).sum(axis=1)
        # Bounds can turn a direction uphill: then straight down.
        direction = np.where((promised > 0)[:, None], direction, -inside)
        largest = np.abs(direction).max(axis=1)
        limit = np.where(self._fresh, FIRST_STEP, LONGEST_STEP)
        scaled = (largest > limit) | (self._fresh & (largest > 0))
        scale = np.where(scaled, limit / np.where(largest > 0, largest, 1.0), 1.0)
        self._direction = np.where(which[:, None], direction * scale[:, None], self._direction)
        self._step = np.where(which, 1.0, self._step)
        self._short = np.where(which, 0.0, self._short)
        self._long = np.where(which, np.inf, self._long)
        self._tried = np.where(which, 0, self._tried)
        small = (promised < 2 * self.tolerance) & ~self._fresh
        self._settled = np.where(which, np.where(small, self._settled + 1, 0), self._settled)
        flat = np.abs(inside).max(axis=1) < FLAT
        settled = which & ((self._settled >= 2) | flat)
        self.done |= settled
        self.converged |= settled


def search_by_gradient(
    evaluate: EvaluateCurved,
    starts: np.ndarray,
    bounds: np.ndarray,
    *,
    tolerance: float,
    max_evaluations: int,
    creeping: float | None = None,
    tick: Callable[[int], None] = lambda done: None,
) -> tuple[list[Found], bool]:
    """Minimise from all `starts` (S, p), and tell whether the user interrupted.

    `evaluate` gets the numbers and points of the searches that are not done. `tick` is called
    after every round with how many are.
    """
    state = Searches(starts, bounds, tolerance, creeping)
    interrupted = False
    try:
        while not (stopped := state.done | (state.evaluations >= max_evaluations)).all():
            active = np.flatnonzero(~stopped)
            values, gradients = np.full(len(starts), np.inf), np.zeros_like(starts)
            values[active], gradients[active], rough = evaluate(active, state.points[active])
            curvatures = None
            if rough is not None:
                curvatures = np.full((*starts.shape, starts.shape[1]), np.nan)
                curvatures[active] = rough
            state.done |= stopped
            state.tell(values, gradients, curvatures)
            tick(int(state.done.sum()))
    except KeyboardInterrupt:
        interrupted = True
    messages = np.where(
        state.converged,
        "converged",
        np.where(
            np.isinf(state.value),
            "no finite value at the start",
            np.where(
                state.done & (state.evaluations < max_evaluations),
                "no step improves",
                "interrupted" if interrupted else "out of evaluations",
            ),
        ),
    )
    found = [
        Found(point, float(value), int(count), bool(converged), str(message))
        for point, value, count, converged, message in zip(
            state.best, state.value, state.evaluations, state.converged, messages, strict=True
        )
    ]
    return found, interrupted
