"""Points that the searches evaluated."""

from __future__ import annotations

import numpy as np

# Points further below the best than this are forgotten: more than half the 99.9 % quantile of
# chi-square with one degree of freedom, so that no interval that users ask for reaches them.
FAR_BELOW = 5.5
# Points are sorted out whenever so many have come together.
MOST_POINTS = 100_000


class Visited:
    """The points of each data set that were evaluated and are not far below its best."""

    def __init__(self, data_sets: int) -> None:
        self._best = np.full(data_sets, -np.inf)
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._count = 0

    def note(self, which: np.ndarray, points: np.ndarray, values: np.ndarray) -> None:
        """Take notice of the values of data sets `which` at `points` (S, p)."""
        finite = np.isfinite(values)
        self._parts.append((which[finite], points[finite], values[finite]))
        np.maximum.at(self._best, which[finite], values[finite])
        self._count += int(finite.sum())
        if self._count > MOST_POINTS:
            self._parts = [self._near()]
            self._count = len(self._parts[0][0])

    def of_data_sets(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The points of each data set that are not far below its best (V, p), and their values."""
        if not self._parts:
            return [(np.zeros((0, 0)), np.zeros(0)) for _ in self._best]
        which, points, values = self._near()
        order = np.argsort(which, kind="stable")
        ends = np.searchsorted(which[order], np.arange(1, len(self._best)))
        parts = (np.split(array[order], ends) for array in (points, values))
        return list(zip(*parts, strict=True))

    def _near(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        which, points, values = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        near = values >= self._best[which] - FAR_BELOW
        return which[near], points[near], values[near]
