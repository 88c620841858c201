"""Speeds, movements within a recording, and lines from start to goal, of one trial's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

# Names of positions, from those that a preparation makes to those that files and tasks have.
_POSITIONS = (("position",), ("angle",), ("x", "y", "z"), ("x", "y"), ("x",), ("cursor",))


def positions_among(names: Sequence[str], *first: tuple[str, ...]) -> tuple[str, ...]:
    """The names that say where the hand, eye or cursor is: the first known ones that are all among
    `names`, after those of `first`; () if there are none."""
    known = (*first, *_POSITIONS)
    return next((found for found in known if found and set(found) <= set(names)), ())


def position_states(names: Sequence[str]) -> tuple[str, ...]:
    """The states of a task that say where the hand, eye or cursor is; its first, if their names do
    not tell."""
    return positions_among(names) or (names[0],)


def speed(samples: np.ndarray, times: np.ndarray, smooth: float = 0.0) -> np.ndarray:
    """Speed at each sample (time, channel), by central differences on the samples' own times.

    A missing sample has no speed (NaN) and is skipped by the differences of its neighbours.
    `smooth` seconds: each speed is the mean of those around it, so many seconds in all.
    """
    result = np.full(len(samples), np.nan)
    present = ~np.isnan(samples).any(axis=1)
    if present.sum() < 2:
        return result
    t = times[present]
    speeds = np.sqrt((np.gradient(samples[present], t, axis=0) ** 2).sum(axis=1))
    if smooth > 0:
        # Half a microsecond of slack, so that rounding of the times does not decide which samples
        # count.
        reach = smooth / 2 + 5e-7
        first, last = np.searchsorted(t, t - reach), np.searchsorted(t, t + reach, side="right")
        sums = np.concatenate([[0.0], np.cumsum(speeds)])
        speeds = (sums[last] - sums[first]) / (last - first)
    result[present] = speeds
    return result


@dataclass(frozen=True)
class Movement:
    """The part of a recording in which something moved."""

    window: slice
    peak: float  # speed
    _: KW_ONLY
    moved: bool
    open_ended: bool  # the recording starts or ends within the movement


def movement(
    samples: np.ndarray,
    times: np.ndarray,
    *,
    threshold: float | None,
    fraction: float | None,
    margin: float,
    smooth: float,
) -> Movement:
    """The movement around the peak of speed.

    It reaches from the last sample before the peak whose speed is below `threshold` (or below
    `fraction` of the peak) to the first such sample after it, and is `margin` seconds wider on
    both sides.
    """
    speeds = speed(samples, times, smooth)
    peak = float(np.nanmax(speeds, initial=0.0))
    least = threshold if threshold is not None else (fraction or 0.0) * peak
    if not peak > least:
        return Movement(slice(0, 0), peak, moved=False, open_ended=False)
    at = int(np.nanargmax(speeds))
    slow, present = np.flatnonzero(speeds < least), np.flatnonzero(~np.isnan(speeds))
    before, after = slow[slow < at], slow[slow > at]
    first = before[-1] if before.size else present[0]
    last = after[0] if after.size else present[-1]
    # A microsecond more, so that rounding does not lose the sample at the margin's end.
    reach = margin + 1e-6 if margin else 0.0
    low = int(np.searchsorted(times, times[first] - reach))
    high = int(np.searchsorted(times, times[last] + reach, side="right"))
    open_ended = not (before.size and after.size)
    return Movement(slice(low, high), peak, moved=True, open_ended=open_ended)


def along_line(samples: np.ndarray, start: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Samples (time, 2) as distance along the line from `start` to `goal`, and to its left."""
    ahead = (goal - start) / np.linalg.norm(goal - start)
    left = np.array([-ahead[1], ahead[0]])
    return (samples - start) @ np.column_stack([ahead, left])
