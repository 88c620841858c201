"""The engine: from starts to maxima with their information, of one data set or of thousands.

`fit` is the case of one data set, a recovery study and a bootstrap that of many. All take the same
way: every search of every data set in step, the best of each data set polished by Newton's method,
and one meaning of `converged`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from motorcost.fitting.batching import BatchedObjective
from motorcost.fitting.derivative_free import Method, search_by_values
from motorcost.fitting.maxima import AGREEMENT, REACH, SAME_PLACE, distinct, further_starts
from motorcost.fitting.optimise import EvaluateCurved, Found, search_by_gradient
from motorcost.fitting.polishing import polish, trial_scores

# Rounds of looking around the ends of the searches, at most.
ROUNDS = 3
# Searches stop where a step promises less than this, in log likelihood per sample.
TOLERANCE = 1e-10
# The same on the way, while log likelihoods are rough.
ROUGH_TOLERANCE = 1e-7
# A search stops at a jump when a line search gains less than this, in log likelihood per sample.
CREEPING = 3e-6
# Two standard errors of a parameter, by a rough curvature, are at most its support: a curvature of
# a few scores can be far too small.
SUPPORT_IN_ERRORS = 2.0
# Evaluations that a search is given by default, times one more than the number of parameters.
EVALUATIONS_BY_GRADIENT = 50
EVALUATIONS_BY_VALUES = 200


@dataclass(frozen=True)
class Maximum:
    """A maximum of the log likelihood (or log posterior) of one data set.

    - `point` on the search scale, `value` and observed `information` there; NaN information if the
      search was interrupted.
    - `searches`: how many searches ended at it.
    - `converged`: whether it is one.
    - `trial_scores` (N, p): the derivative of each trial's log likelihood there.
    """

    point: np.ndarray
    value: float
    information: np.ndarray
    searches: int
    converged: bool
    trial_scores: np.ndarray | None = None


@dataclass(frozen=True)
class Nearby:
    """Points (F, p) that are nearly as probable as a maximum and far from it, and their log
    likelihoods (or log posteriors)."""

    points: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Maxima:
    """The maxima that the searches of one data set found, the highest first.

    - `starts`: where each search came to, with values as log likelihoods.
    - `nearby`: what the searches came by, as far as intervals need it.
    """

    maxima: tuple[Maximum, ...]
    starts: tuple[Found, ...]
    interrupted: bool
    nearby: Nearby | None = None

    @property
    def best(self) -> Maximum:
        """The highest."""
        return self.maxima[0]

    @property
    def agreed(self) -> int:
        """How many of the searches found the highest."""
        return agreeing(self.starts)


def agreeing(starts: Sequence[Found]) -> int:
    """How many of the searches found the highest maximum."""
    best = max(start.value for start in starts)
    return sum(best - start.value < AGREEMENT for start in starts)


def default_evaluations(method: Method, n_parameters: int) -> int:
    """How many points a search may try unless the user says otherwise."""
    by = EVALUATIONS_BY_GRADIENT if method == "gradient" else EVALUATIONS_BY_VALUES
    return by * (1 + n_parameters)


def search_all(
    evaluate: EvaluateCurved,
    starts: np.ndarray,
    bounds: np.ndarray,
    *,
    scale: float,
    max_evaluations: int,
    method: Method = "gradient",
    tolerance: float = TOLERANCE,
    tick: Callable[[int], None] = lambda done: None,
) -> tuple[list[Found], bool]:
    """Climb from all `starts` (S, p) in step, and tell whether the user interrupted.

    `evaluate` gives log likelihoods, gradients and rough curvatures; `scale` is the number of
    samples (see `to_minimise`), and `tolerance` what a step must promise for each of them. The
    values that are returned are log likelihoods again.
    """
    width = bounds[..., 1] - bounds[..., 0]
    least = np.where(width > 0, (SUPPORT_IN_ERRORS / np.where(width > 0, width, 1.0)) ** 2, 0.0)

    def compressed(which: np.ndarray, points: np.ndarray) -> Any:
        values, gradients, curvatures = evaluate(which, points)
        if curvatures is not None:
            of_points = np.broadcast_to(least, starts.shape)[which]
            curvatures = curvatures + of_points[:, :, None] * np.eye(starts.shape[1])
        return to_minimise(values, gradients, curvatures, scale)

    if method == "gradient":
        found, interrupted = search_by_gradient(
            compressed,
            starts,
            bounds,
            tolerance=tolerance,
            max_evaluations=max_evaluations,
            creeping=CREEPING,
            tick=tick,
        )
    else:
        found, interrupted = search_by_values(
            compressed, starts, bounds, method=method, max_evaluations=max_evaluations, tick=tick
        )
    return [replace(f, value=float(scale * np.sinh(-f.value))) for f in found], interrupted


def maximise(
    batched: BatchedObjective,
    starts: np.ndarray,
    *,
    max_evaluations: int | None = None,
    method: Method = "gradient",
    tick: Callable[[int], None] = lambda done: None,
    stage: Callable[[str], None] = lambda what: None,
) -> list[Maxima | None]:
    """The maxima of each data set, from its `starts` (data sets, starts, p); None for a data set
    none of whose starts is possible (starts of NaN are left out).

    Where the searches ended, what is around is looked at and searched again (`further_starts`), as
    long as that leads higher. Polishing uses gradients even if the method does not. An
    interruption (Ctrl-C) ends the searches where they are. `tick` is called with the number of
    searches that have ended, `stage` with the name of what begins after them.
    """
    D, K, p = starts.shape
    most = default_evaluations(method, p) if max_evaluations is None else max_evaluations
    ends: list[list[Found]] = [[] for _ in range(D)]

    def search(which: np.ndarray, points: np.ndarray, told: Any = lambda done: None) -> bool:
        found, interrupted = climb(batched, which, points, most, method, told)
        for d, end in zip(which, found, strict=True):
            ends[d].append(end)
        return interrupted

    possible = np.flatnonzero(np.isfinite(starts).all(axis=2).ravel())
    interrupted = search(possible // K, starts.reshape(-1, p)[possible], tick)
    maxima: list[tuple[Maximum, ...]] = []
    if not interrupted:
        try:
            stage("looking around where the searches ended")
            interrupted = _search_again(batched, ends, search)
            stage("refining the maxima, and their curvature")
            maxima = [] if interrupted else _polished(batched, ends, search)
            maxima = _with_scores(batched, maxima)
        except KeyboardInterrupt:
            interrupted = True
    return [
        Maxima(maxima[d] if maxima else (_unpolished(found),), tuple(found), interrupted)
        if found
        else None
        for d, found in enumerate(ends)
    ]


def climb(
    batched: BatchedObjective,
    which: np.ndarray,
    points: np.ndarray,
    max_evaluations: int,
    method: Method,
    tick: Callable[[int], None],
) -> tuple[list[Found], bool]:
    """Climb from `points` (S, p) of the data sets `which`, and tell whether the user interrupted.

    By gradients, a search climbs the rough log likelihood first. Where that turns out to be another
    one than the exact, because the agent's policy is not that of the lowest minimum, it goes on
    with the exact one.
    """
    search = partial(
        search_all,
        bounds=batched.objective.bounds,
        scale=batched.objective.n_samples,
        method=method,
        tick=tick,
    )
    if method != "gradient":
        values = batched.values_only()
        return search(
            lambda rows, points: values.with_curvatures(which[rows], points),
            points,
            max_evaluations=max_evaluations,
        )
    rough = batched.roughly()
    found, interrupted = search(
        lambda rows, points: rough.with_curvatures(which[rows], points),
        points,
        max_evaluations=max_evaluations,
        tolerance=ROUGH_TOLERANCE,
    )
    if interrupted or not found:
        return found, interrupted
    exact = batched(which, np.stack([end.point for end in found]))[0]
    ends = [replace(end, value=float(value)) for end, value in zip(found, exact, strict=True)]
    # Not those that are too far below the best to become a maximum that matters.
    best = {d: max(exact[which == d], default=-np.inf) for d in set(which.tolist())}
    with np.errstate(invalid="ignore"):  # impossible ends have -inf, and are left out below
        off = np.array([end.value for end in found]) - exact
        below = np.array([best[d] for d in which.tolist()]) - exact
    # A search that stopped at a jump may find none there when it looks more carefully.
    stopped = np.array([not end.converged for end in found]) & (below < REACH)
    another = ~(np.abs(off) < AGREEMENT) & (below < 5 * REACH)
    again = np.flatnonzero(np.isfinite(exact) & (another | stopped))
    left = max_evaluations - max((ends[i].evaluations for i in again), default=max_evaluations)
    if left <= 0:
        return ends, False
    further, interrupted = search(
        lambda rows, points: batched.with_curvatures(which[again[rows]], points),
        np.stack([ends[i].point for i in again]),
        max_evaluations=left,
        tick=lambda done: None,  # these were counted as ended
    )
    for i, end in zip(again, further, strict=True):
        ends[i] = replace(end, evaluations=end.evaluations + ends[i].evaluations)
    return ends, interrupted


Search = Callable[[np.ndarray, np.ndarray], bool]


def _search_again(batched: BatchedObjective, ends: list[list[Found]], search: Search) -> bool:
    """Look around the ends of the searches and search again from there, for as long as that leads
    higher in some data set; true if the user interrupted."""
    supports = batched.objective.supports
    left = set(range(len(ends)))
    for _ in range(ROUNDS):
        before = {d: _highest(ends[d]) for d in left}
        which, points = further_starts(
            batched,
            batched.roughly(),
            [found if d in left else [] for d, found in enumerate(ends)],
            supports,
        )
        if not len(which):
            return False
        if search(which, points):
            return True
        left = {d for d in left if _highest(ends[d]) > before[d] + AGREEMENT}
        if not left:
            return False
    return False


def _highest(found: Sequence[Found]) -> float:
    return max((end.value for end in found), default=-np.inf)


def _polished(
    batched: BatchedObjective, ends: list[list[Found]], search: Search
) -> list[tuple[Maximum, ...]]:
    """The different maxima of each data set, polished. A maximum that a higher point refutes is
    searched for again from there."""
    supports = batched.objective.supports
    width = np.array([support.width for support in supports])
    p = len(supports)
    for attempt in range(ROUNDS):
        hills = distinct(batched, ends, width)
        which = np.repeat(np.arange(len(hills)), [len(found) for found in hills])
        flat = [hill for found in hills for hill in found]
        if not flat:
            return [() for _ in hills]
        points = np.stack([hill.point for hill in flat])
        values = np.array([hill.value for hill in flat])
        polished = polish(batched, supports, points, values, which)
        refuted = np.isfinite(polished.higher).all(axis=1)
        if attempt == ROUNDS - 1 or not refuted.any():
            break
        if search(which[refuted], polished.higher[refuted]):
            raise KeyboardInterrupt
    of_data_set: list[list[Maximum]] = [[] for _ in hills]
    for i, (d, hill) in enumerate(zip(which, flat, strict=True)):
        maximum = Maximum(
            point=polished.points[i],
            value=float(polished.values[i]),
            information=polished.information[i].reshape(p, p),
            searches=hill.searches,
            converged=bool(polished.converged[i]),
        )
        of_data_set[d].append(maximum)
    return [_without_failures(found, width) for found in of_data_set]


def _without_failures(found: list[Maximum], width: np.ndarray) -> tuple[Maximum, ...]:
    """The maxima, highest first: the best whether it settled or not, and others that did, unless
    polishing led them to a higher one."""
    kept: list[Maximum] = []
    for maximum in sorted(found, key=lambda m: -m.value):
        apart = all(np.abs((maximum.point - k.point) / width).max() > SAME_PLACE for k in kept)
        if not kept or (maximum.converged and apart):
            kept.append(maximum)
    return tuple(kept)


def _with_scores(
    batched: BatchedObjective, maxima: list[tuple[Maximum, ...]]
) -> list[tuple[Maximum, ...]]:
    """The same, with the scores of the trials at each maximum."""
    which = np.repeat(np.arange(len(maxima)), [len(found) for found in maxima])
    if not len(which):
        return maxima
    points = np.stack([maximum.point for found in maxima for maximum in found])
    scores = iter(trial_scores(batched.per_trial, batched.objective.supports, points, which))
    return [tuple(replace(m, trial_scores=next(scores)) for m in found) for found in maxima]


def _unpolished(found: list[Found]) -> Maximum:
    """The best end of searches that were interrupted."""
    best = max(found, key=lambda end: end.value)
    nothing = np.full((len(best.point),) * 2, np.nan)
    return Maximum(best.point, best.value, nothing, agreeing(found), converged=False)


def to_minimise(
    values: np.ndarray, gradients: np.ndarray, curvatures: np.ndarray | None, scale: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """What a search sees of log likelihoods (S,), their gradients (S, p) and minus their rough
    second derivatives.

    `scale` is the size of values that matter, the number of samples. Far from any sensible point a
    log likelihood is -1e10 and falls by orders of magnitude with each step: this is minus its
    inverse hyperbolic sine, which is straight near zero and a logarithm far away.
    """
    small = values / scale
    with np.errstate(invalid="ignore"):
        slope = 1.0 / scale / np.hypot(1.0, small)
        scaled = None if curvatures is None else curvatures * slope[:, None, None]
        return -np.arcsinh(small), -gradients * slope[:, None], scaled
