"""Steps of a preparation that need the shape of a movement: cutting it out, and turning it.

They are methods of `Movements`, whose docstrings say what they take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from motorcost import checks
from motorcost.data import kinematics
from motorcost.errors import InputError

if TYPE_CHECKING:
    from motorcost.data.movements import Movements


def cut(
    movements: Movements,
    speed: float | None,
    channels: Sequence[str],
    *,
    fraction: float | None,
    margin: float,
    smooth: float,
) -> Movements:
    """Each trial cut to its movement; see `Movements.cut`."""
    if (speed is None) == (fraction is None):
        raise InputError("cut needs either a speed or a fraction of the peak speed")
    checks.positive(**({"speed": speed} if fraction is None else {"fraction": fraction}))
    if fraction is not None and fraction >= 1:
        raise InputError(f"fraction must be below 1, got {fraction:g}")
    checks.nonnegative(margin=margin, smooth=smooth)
    unit = movements.common_unit(channels)
    index = movements.columns(channels)
    found = [
        kinematics.movement(
            samples[:, index],
            times,
            threshold=speed,
            fraction=fraction,
            margin=margin,
            smooth=smooth,
        )
        for samples, times in zip(movements.samples, movements.times, strict=True)
    ]
    per_second = f"{unit}/s" if unit else "units/s"
    if not any(movement.moved for movement in found):
        raise InputError(
            f"no movement to cut: the fastest of {len(movements)} trials reaches "
            f"{max((movement.peak for movement in found), default=0):.3g} {per_second}"
            + ("" if speed is None else f", below speed={speed:g}")
        )
    open_ended = sum(movement.moved and movement.open_ended for movement in found)
    windows = [movement.window for movement in found]
    result = movements.with_samples(
        [samples[window] for samples, window in zip(movements.samples, windows, strict=True)],
        [times[window] for times, window in zip(movements.times, windows, strict=True)],
        movements.channels,
    ).keep(
        np.array([movement.moved for movement in found]),
        f"never faster than {speed or 0:g} {per_second}",
    )
    if not open_ended:
        return result
    count = f"{open_ended} of {len(result)} trials"
    return result.noted(f"the recording starts or ends within the movement in {count}")


def along(
    movements: Movements,
    goal: Sequence[str],
    start: Sequence[str] | None,
    channels: Sequence[str],
    names: Sequence[str],
) -> Movements:
    """Each trial turned and shifted onto the line from its start to its goal; see
    `Movements.along`."""
    if "target" in movements.conditions:
        raise InputError("there is a condition 'target' already: rename it before along(...)")
    unit, positions, starts, goals = _ways(movements, goal, start, channels)
    turned = movements.with_samples(
        [
            kinematics.along_line(samples, first, last)
            for samples, first, last in zip(positions, starts, goals, strict=True)
        ],
        movements.times,
        dict.fromkeys(names, unit),
    ).with_conditions(target=np.array([np.linalg.norm(line) for line in goals - starts]))
    return replace(turned, condition_units=turned.condition_units | {"target": unit})


def centred(
    movements: Movements,
    goal: Sequence[str],
    start: Sequence[str] | None,
    channels: Sequence[str],
) -> Movements:
    """Each trial shifted so that it starts at 0; see `Movements.centred`."""
    unit, positions, starts, goals = _ways(movements, goal, start, channels)
    names = [f"target_{name}" for name in channels]
    taken = [name for name in names if name in movements.conditions and name not in goal]
    if taken:
        raise InputError(f"there is a condition {taken[0]!r} already: rename it before centred")
    kept = [name for name in movements.conditions if name not in goal]
    via = [f"via_{name}" for name in channels]
    shifted = movements.select(channels, kept).with_samples(
        [samples - first for samples, first in zip(positions, starts, strict=True)],
        movements.times,
        dict.fromkeys(channels, unit),
    )
    ways = dict(zip(names, (goals - starts).T, strict=True))
    if set(via) <= set(kept):
        ways |= dict(zip(via, (movements.points(via, unit) - starts).T, strict=True))
    shifted = shifted.with_conditions(**ways)
    return replace(shifted, condition_units=shifted.condition_units | dict.fromkeys(ways, unit))


def _ways(
    movements: Movements,
    goal: Sequence[str],
    start: Sequence[str] | None,
    channels: Sequence[str],
) -> tuple[str, list[np.ndarray], np.ndarray, np.ndarray]:
    """The unit of the channels, their samples, and where each trial starts and is to end."""
    unit = movements.common_unit(channels)
    index = movements.columns(channels)
    positions = [samples[:, index] for samples in movements.samples]
    for what, names in (("goal", goal), ("start", start)):
        if names is not None and len(names) != len(channels):
            raise InputError(
                f"{what} needs one condition for each of {', '.join(channels)}, got "
                f"{', '.join(names)}"
            )
    goals = movements.points(goal, unit)
    starts = (
        _first(movements, positions, channels) if start is None else movements.points(start, unit)
    )
    for names_of_points, points in ((goal, goals), (start or (), starts)):
        missing = ~np.isfinite(points).all(axis=1)
        if missing.any():
            raise InputError(
                f"{', '.join(names_of_points)} are missing in {movements.name_trials(missing)}: "
                "fill them in, or leave these trials out with [prepare] "
                f'keep = "has {names_of_points[0]}"'
            )
    for label, first, last in zip(movements.labels, starts, goals, strict=True):
        if np.array_equal(first, last):
            place = ", ".join(f"{coordinate:g}" for coordinate in last)
            raise InputError(f"trial {label} starts at its goal, ({place}): there is no way to go")
    return unit, positions, starts, goals


def _first(
    movements: Movements, positions: Sequence[np.ndarray], channels: Sequence[str]
) -> np.ndarray:
    """The first sample of each trial that is not missing."""
    starts = []
    for label, samples in zip(movements.labels, positions, strict=True):
        present = samples[~np.isnan(samples).any(axis=1)]
        if not len(present):
            raise InputError(f"trial {label} has no sample of {', '.join(channels)}")
        starts.append(present[0])
    return np.array(starts).reshape(-1, len(channels))
