"""Measures of single movements: how long, how far, how fast, and how near to the goal they end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motorcost.data import kinematics

# Share of a trial's duration over which its speeds are averaged, for a peak that noise of the
# recording does not make.
_SMOOTHED = 0.05
# Share of a trial's samples over which the velocity at its beginning is measured.
_FIRST_PART = 0.06


@dataclass(frozen=True)
class Measures:
    """Of each trial (arrays of one length); lengths are in the channels' unit, times in seconds.

    - `samples`, `missing`: how many there are, and how many of them have a missing channel.
    - `duration`: from the first sample to the last; it and what follows is NaN for a trial with
      fewer than two samples that are not missing.
    - `distance`: the largest distance from the first sample.
    - `peak_speed`: the largest speed.
    - `first_speed`: the mean velocity over the first samples towards the farthest one, as a
      fraction of the peak speed; a few percent for a movement that starts from rest.
    - `goal_distance`: from the first sample to the goal; NaN where no goal is known.
    - `end_error`: from the last sample to the goal, or, if the goal moves, the root mean square
      of the distance to it.
    - `ends`: the last sample minus the goal (trial, channel).
    - `longest_gap`: the longest time between two samples.
    """

    samples: np.ndarray
    missing: np.ndarray
    duration: np.ndarray
    distance: np.ndarray
    peak_speed: np.ndarray
    first_speed: np.ndarray
    goal_distance: np.ndarray
    end_error: np.ndarray
    ends: np.ndarray
    longest_gap: np.ndarray

    def __getitem__(self, which: np.ndarray) -> Measures:
        """The measures of some of the trials."""
        return Measures(**{name: values[which] for name, values in vars(self).items()})


def measure(
    samples: Sequence[np.ndarray], times: Sequence[np.ndarray], goals: Sequence[np.ndarray] | None
) -> Measures:
    """Measure trials, each an array (time, channel) with its times.

    `goals` are points (channel,), or paths (time, channel) of a goal that moves; None if no goal
    is known.
    """
    width = samples[0].shape[1] if samples else 0
    given = [np.full(width, np.nan)] * len(samples) if goals is None else goals
    rows = [_measure(*trial) for trial in zip(samples, times, given, strict=True)]
    columns = {
        name: np.array([row[name] for row in rows], float)
        for name in ("duration", "distance", "peak_speed", "first_speed", "goal_distance")
    }
    return Measures(
        **columns,
        samples=np.array([len(time) for time in times], int),
        missing=np.array([int(np.isnan(trial).any(axis=1).sum()) for trial in samples], int),
        end_error=np.array([row["end_error"] for row in rows], float),
        ends=np.array([row["end"] for row in rows], float).reshape(-1, width),
        longest_gap=np.array([np.diff(time).max(initial=0.0) for time in times], float),
    )


def _measure(samples: np.ndarray, times: np.ndarray, goal: np.ndarray) -> dict[str, object]:
    present = ~np.isnan(samples).any(axis=1)
    position, t = samples[present], times[present]
    if len(t) < 2:
        nothing = dict.fromkeys(
            ("duration", "distance", "peak_speed", "first_speed", "goal_distance", "end_error"),
            np.nan,
        )
        return nothing | {"end": np.full(samples.shape[1], np.nan)}
    path = np.broadcast_to(goal, samples.shape)[present]
    moves = bool((path != path[0]).any())
    away = np.linalg.norm(position - position[0], axis=1)
    off = np.linalg.norm(position - path, axis=1)
    peak = float(np.max(kinematics.speed(position, t, _SMOOTHED * float(t[-1] - t[0]))))
    return {
        "duration": float(times[-1] - times[0]),
        "distance": float(away.max()),
        "peak_speed": peak,
        "first_speed": _first_speed(position, t, int(away.argmax())) / peak if peak > 0 else 0.0,
        "goal_distance": float(off[0]),
        "end_error": float(np.sqrt(np.mean(off**2))) if moves else float(off[-1]),
        "end": position[-1] - path[-1],
    }


def _first_speed(position: np.ndarray, t: np.ndarray, farthest: int) -> float:
    """The mean velocity over the first samples, towards the farthest.

    Its sign is kept, so that the recording's noise cancels in a median over trials.
    """
    if farthest == 0:
        return 0.0
    ahead = position[farthest] - position[0]
    last = max(1, round(_FIRST_PART * len(t)))
    covered = (position[last] - position[0]) @ ahead / np.linalg.norm(ahead)
    return float(covered / (t[last] - t[0]))
