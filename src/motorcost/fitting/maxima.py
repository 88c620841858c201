"""Group the end points of searches into maxima, and choose where to search again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motorcost.fitting.optimise import Evaluate, Found
from motorcost.tasks.supports import Support

# Searches that end within this of the best log likelihood found the same maximum.
AGREEMENT = 0.01
# A maximum this far below the best is exp(10) times less probable, and of no interest.
REACH = 10.0
# Maxima that are told apart in each data set.
MOST_MAXIMA = 5
# Ends of searches are the same if they are this close in every coordinate, as a fraction of its
# support, or if the log likelihood between them falls by no more than this below the lower one.
SAME_PLACE = 0.02
SAME_HILL = 0.1
BETWEEN = (0.2, 0.4, 0.6, 0.8)
# Values of each coordinate, over its whole support, at which the likelihood is looked at while the
# others stay.
SCANNED = 6
# If such a value, this far away (as a fraction of the support), is so little below the maximum, the
# search may have ended on a plateau: where a noise vanishes, for instance.
PLATEAU_WIDTH, PLATEAU_DROP = 0.15, 0.5
# Searches that are begun again in one round, of each kind.
MOST_AGAIN = 3
# Distances on the search scale at which a way past a jump is looked for.
PAST_A_JUMP = (0.02, 0.1, 0.3)


@dataclass(frozen=True)
class Hill:
    """The highest end of the searches that came to one maximum, and how many did."""

    point: np.ndarray
    value: float
    searches: int


def distinct(
    evaluate: Evaluate, ends: Sequence[Sequence[Found]], width: np.ndarray
) -> list[list[Hill]]:
    """The different maxima among the ends of each data set's searches, the highest first.

    Two ends belong to one maximum if the straight line between them does not lead through lower
    values.
    """
    kept = [_different_places(searches, width) for searches in ends]
    pairs = [(d, i, j) for d, found in enumerate(kept) for j in range(len(found)) for i in range(j)]
    lowest: dict[tuple[int, int, int], float] = {}
    if pairs:
        along = np.array(BETWEEN)[:, None]
        points = np.stack(
            [kept[d][i].point + along * (kept[d][j].point - kept[d][i].point) for d, i, j in pairs]
        )
        data_sets = np.repeat([d for d, _, _ in pairs], len(BETWEEN))
        values, _ = evaluate(data_sets, points.reshape(-1, points.shape[2]))
        values = np.where(np.isfinite(values), values, -np.inf).reshape(len(pairs), -1)
        lowest = dict(zip(pairs, values.min(axis=1).tolist(), strict=True))
    result = []
    for d, found in enumerate(kept):
        tops: list[int] = []
        for j, end in enumerate(found):
            if all(lowest[d, i, j] < end.value - SAME_HILL for i in tops):
                tops.append(j)
        result.append([_hill(found[j], ends[d], width) for j in tops])
    return result


def _different_places(searches: Sequence[Found], width: np.ndarray) -> list[Found]:
    """The highest ends within reach that lie in different places, the highest first."""
    possible = [s for s in searches if np.isfinite(s.value)]
    kept: list[Found] = []
    for end in sorted(possible, key=lambda s: -s.value):
        within = end.value > max(s.value for s in possible) - REACH
        apart = all(np.abs((end.point - k.point) / width).max() > SAME_PLACE for k in kept)
        if within and apart and len(kept) < MOST_MAXIMA:
            kept.append(end)
    return kept


def _hill(top: Found, searches: Sequence[Found], width: np.ndarray) -> Hill:
    there = [
        s
        for s in searches
        if abs(s.value - top.value) < AGREEMENT
        and np.abs((s.point - top.point) / width).max() <= 0.5
    ]
    return Hill(top.point, top.value, max(len(there), 1))


def further_starts(
    evaluate: Evaluate,
    roughly: Evaluate,
    ends: Sequence[Sequence[Found]],
    supports: Sequence[Support],
) -> tuple[np.ndarray, np.ndarray]:
    """Where to search again: the numbers of data sets (S,), and points (S, p). Far from the ends,
    values need only be known `roughly`.

    - Where the likelihood is higher than at the best end, found by changing one coordinate.
    - From the best end with a coordinate in the middle of its support, if the likelihood hardly
      depends on it: searches end on plateaus where a noise vanishes.
    - Beyond a jump of the likelihood, for good searches that could not take another step.
    """
    bests = [max(searches, key=lambda s: s.value, default=None) for searches in ends]
    which = [d for d, best in enumerate(bests) if best is not None and np.isfinite(best.value)]
    again: list[tuple[int, np.ndarray]] = []
    points = {d: _scan(bests[d].point, supports) for d in which}  # type: ignore[union-attr]
    values = _evaluated(roughly, points)
    for d in which:
        best = bests[d]
        assert best is not None
        drops = best.value - values[d]
        higher = np.argsort(drops.ravel())[: np.count_nonzero(drops < -AGREEMENT)]
        flat = points[d].reshape(-1, len(supports))
        again += [(d, flat[i]) for i in higher[:MOST_AGAIN]]
        if not higher.size:
            resets = _off_plateaus(best.point, points[d], drops, supports)
            again += [(d, start) for start in resets]
    return _joined(again + _past_jumps(evaluate, ends, supports), len(supports))


def _scan(point: np.ndarray, supports: Sequence[Support]) -> np.ndarray:
    """The point with each coordinate at values over its support (p, SCANNED, p)."""
    scanned = np.tile(point, (len(supports), SCANNED, 1))
    for k, support in enumerate(supports):
        scanned[k, :, k] = _over(support)
    return scanned


def _over(support: Support) -> np.ndarray:
    """Values on the search scale from one end of a support to the other."""
    low, high = support.bounds
    reach = support.width / 2
    return np.linspace(max(low, support.middle - reach), min(high, support.middle + reach), SCANNED)


def _off_plateaus(
    point: np.ndarray, scanned: np.ndarray, drops: np.ndarray, supports: Sequence[Support]
) -> list[np.ndarray]:
    """The point with coordinates that hardly matter moved to the middle of their support."""
    starts = []
    for k, support in enumerate(supports):
        away = np.abs(scanned[k, :, k] - point[k]) > PLATEAU_WIDTH * support.width
        if (away & (drops[k] < PLATEAU_DROP)).any():
            start = point.copy()
            start[k] = support.middle
            starts.append(start)
    return starts[:MOST_AGAIN]


def _past_jumps(
    evaluate: Evaluate, ends: Sequence[Sequence[Found]], supports: Sequence[Support]
) -> list[tuple[int, np.ndarray]]:
    """The best points around good searches that could not take another step."""
    stuck: dict[int, list[Found]] = {}
    for d, searches in enumerate(ends):
        best = max((s.value for s in searches), default=-np.inf)
        candidates = [s for s in searches if not s.converged and s.value > best - 5 * REACH]
        if candidates:
            stuck[d] = sorted(candidates, key=lambda s: -s.value)[:MOST_AGAIN]
    bounds = np.array([support.bounds for support in supports])
    p = len(supports)
    directions = np.concatenate([np.eye(p), -np.eye(p)])
    around = np.concatenate([h * directions for h in PAST_A_JUMP])
    points = {
        d: np.clip(np.stack([s.point + around for s in searches]), *bounds.T)
        for d, searches in stuck.items()
    }
    values = _evaluated(evaluate, points)
    again = []
    for d, searches in stuck.items():
        for s, tried, value in zip(searches, points[d], values[d], strict=True):
            if value.max() > s.value:
                again.append((d, tried[np.argmax(value)]))
    return again


def _evaluated(evaluate: Evaluate, points: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """The values at the points of each data set, in the shape of these; -inf if impossible."""
    if not points:
        return {}
    p = next(iter(points.values())).shape[-1]
    counts = [array.size // p for array in points.values()]
    which = np.repeat(list(points), counts)
    values, _ = evaluate(which, np.concatenate([array.reshape(-1, p) for array in points.values()]))
    values = np.where(np.isfinite(values), values, -np.inf)
    parts = np.split(values, np.cumsum(counts)[:-1])
    return {d: part.reshape(points[d].shape[:-1]) for d, part in zip(points, parts, strict=True)}


def _joined(starts: list[tuple[int, np.ndarray]], p: int) -> tuple[np.ndarray, np.ndarray]:
    if not starts:
        return np.zeros(0, int), np.zeros((0, p))
    return np.array([d for d, _ in starts]), np.stack([point for _, point in starts])
