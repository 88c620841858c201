"""Units of recordings that were not given, or that cannot be right for a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from motorcost.errors import InputError
from motorcost.model.problem import Problem
from motorcost.tasks.declarations import Task, defaults_of, parameter_units
from motorcost.tasks.targets import TARGETS, distances

# Beyond this ratio of a recording's extent to the target's distance, units are wrong.
SCALE = 30.0


def wanted_units(
    problem: Problem,
    parameter_units: Mapping[str, str],
    channels: Sequence[str],
    conditions: Sequence[str],
) -> dict[str, str]:
    """By name of a channel or condition, the unit in which a model takes it; "" where it has none.

    Reaching has a state `velocity` and a parameter `velocity`, the weight of a cost.
    """
    of_states = dict(zip(problem.state_names, problem.state_units, strict=True))
    return {
        **{name: of_states.get(name, "") for name in channels},
        **{name: parameter_units.get(name, of_states.get(name, "")) for name in conditions},
    }


def note_of_assumed(units: Mapping[str, str]) -> str:
    """A note that names what had no unit, and the unit in which it was taken to be."""
    listed = ", ".join(f"{name} in {unit}" for name, unit in units.items())
    return f"no units were given; taken for granted: {listed}"


def unit_in_a_study(channel: str, unit: str) -> str:
    """How a study, or an option of the command, says the unit of a channel."""
    return f'units = {{ {channel} = "{unit}" }}'


def unit_in_python(channel: str, unit: str) -> str:
    """How arrays in Python say the unit of a channel."""
    return f'mc.Trials.recorded(..., channels={{"{channel}": "{unit}"}})'


def check_scale(
    trials: Sequence[np.ndarray],
    channels: Sequence[str],
    conditions: Mapping[str, Any],
    *,
    problem: Problem,
    task: Task,
    fixed: Mapping[str, Any],
    say_unit: Callable[[str, str], str] = unit_in_a_study,
) -> None:
    """Raise where recordings and their target cannot be in the same unit.

    `trials` are arrays (time, channel) in the units of the problem; NaN where a sample is missing.
    `say_unit` writes how the user says the unit of a channel.
    """
    defaults = defaults_of(task)
    names = [name for name in ("target", *TARGETS) if name in defaults]
    if not names or not len(trials):
        return
    unit = parameter_units(task)[names[0]]
    known = defaults | dict(fixed) | dict(conditions)
    distance = float(np.median(distances({name: known[name] for name in names})))
    state_units = dict(zip(problem.state_names, problem.state_units, strict=True))
    measured = [name for name in channels if state_units.get(name) == unit and name not in names]
    # In the plane a movement may lie along one axis: its channels are measured together.
    together = len(names) > 1
    for chosen in [measured] if together else [[name] for name in measured]:
        name = ", ".join(chosen)
        extent = _extent(trials, [list(channels).index(channel) for channel in chosen])
        if distance > 0 and extent > 0 and not 1 / SCALE < extent / distance < SCALE:
            raise InputError(
                f"{name} {'cover' if together else 'covers'} {extent:.3g} {unit} in a trial, but "
                f"the target is at {distance:.3g} {unit}: one of them is in another unit "
                f"({say_unit(chosen[0], 'mm')}), or the target of the trials is not given"
            )


def _extent(trials: Sequence[np.ndarray], columns: Sequence[int]) -> float:
    """How far a trial reaches in these channels, at the median."""
    chosen = [samples[:, columns] for samples in trials]
    extents: list[Any] = [
        np.linalg.norm(np.nanmax(samples, axis=0) - np.nanmin(samples, axis=0))
        for samples in chosen
        if np.isfinite(samples).any(axis=0).all()
    ]
    return float(np.median(extents or [0.0]))
