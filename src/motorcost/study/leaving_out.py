"""Steps of a preparation that leave out trials by what was measured of them: how far the target is,
how long the recording, how near to the goal the movement ends."""

from __future__ import annotations

import numpy as np

from motorcost import checks
from motorcost.data.movements import Movements
from motorcost.errors import InputError
from motorcost.tasks.targets import distances, target_names

# What a preparation calls the distance from the line to the goal.
LATERAL = "lateral"


def least(
    movements: Movements,
    target: float | None = None,
    duration: float | None = None,
    way: float | None = None,
) -> Movements:
    """The trials whose target is at least so far, whose recording is at least so long, and whose
    movement gets at least so near to the goal: `way` is a share of the way there."""
    if target is not None:
        far = distances(movements.conditions) >= target
        movements = movements.keep(far, f"the target is nearer than {target:g}")
    if duration is not None:
        long = durations(movements) >= duration
        movements = movements.keep(long, f"shorter than {duration:g} s")
    if way is not None:
        if not 0 < way <= 1:
            raise InputError(f"way is a share of the way to the goal, from 0 to 1, got {way:g}")
        arrived = _shares_of_the_way(movements) >= way
        movements = movements.keep(arrived, f"they end before {100 * way:g} % of the way")
    return movements


def most(movements: Movements, duration: float) -> Movements:
    """The trials whose recording is at most so long, in seconds."""
    checks.positive(duration=duration)
    return movements.keep(durations(movements) <= duration, f"longer than {duration:g} s")


def durations(movements: Movements) -> np.ndarray:
    """Seconds from the first sample of each trial to its last."""
    return np.array([time[-1] - time[0] if len(time) else 0.0 for time in movements.times], float)


def _shares_of_the_way(movements: Movements) -> np.ndarray:
    """One minus how far from its goal each movement ends, relative to where it starts; NaN where a
    trial has no sample."""
    names = target_names(movements.conditions)
    in_plane = names[0] != "target"
    if in_plane:
        channels = [name.removeprefix("target_") for name in names]
    else:
        aside = [LATERAL] if LATERAL in movements.channels else []
        channels = [next(name for name in movements.channels if name != LATERAL), *aside]
    unit = movements.common_unit(channels)
    index = movements.columns(channels)
    goals = np.zeros((len(movements), len(channels)))
    goals[:, : len(names)] = movements.points(names, unit)
    shares = np.full(len(movements), np.nan)
    for i, (samples, goal) in enumerate(zip(movements.samples, goals, strict=True)):
        present = samples[~np.isnan(samples[:, index]).any(axis=1)][:, index]
        if len(present):
            way, left = (np.linalg.norm(goal - point) for point in (present[0], present[-1]))
            shares[i] = 1 - left / way if way > 0 else np.nan
    return shares
