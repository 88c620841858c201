"""Which channels of recordings are positions, and where the goals are in them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from motorcost.data.kinematics import position_states, positions_among
from motorcost.data.movements import Movements
from motorcost.errors import InputError
from motorcost.model import units
from motorcost.study.settings import Study
from motorcost.study.task_lookup import example_problem
from motorcost.tasks.declarations import defaults_of

# Beginnings of the names of conditions that are the coordinates of a goal.
_GOALS = ("target", "goal", "end")
# What a preparation calls the distance from the line to the goal.
_LATERAL = "lateral"


def viewed_positions(
    movements: Movements, study: Study | None
) -> tuple[Movements, list[np.ndarray] | None, float | None]:
    """The channels to measure, the goals in them, and the default goal if that is what they are."""
    channels = _channels(movements, study)
    viewed = _converted(movements.select(channels=channels), study)
    unit = viewed.channels[channels[0]]
    if "target" in movements.channels and "target" not in channels:
        column = movements.columns(["target"])
        aside = [np.zeros((len(trial), len(channels) - 1)) for trial in movements.samples]
        factor = _factor(movements.channels["target"], unit)
        return (
            viewed,
            [
                np.hstack([factor * trial[:, column], rest])
                for trial, rest in zip(movements.samples, aside, strict=True)
            ],
            None,
        )
    points, default = _points(movements, channels, study, unit)
    return viewed, None if points is None else list(points), default


def _channels(movements: Movements, study: Study | None) -> list[str]:
    """The channels that are positions: of the task, of what the preparation made, or x and y."""
    of_task: tuple[str, ...] = ()
    if study is not None:
        problem = example_problem(study.task, study.task_name, study.fixed)
        of_task = position_states(problem.state_names)
    known = list(movements.channels)
    found = positions_among(known, of_task) or (known[0],)
    chosen = [*found]
    if len(found) == 1 and _LATERAL in known and found[0] != _LATERAL:
        chosen.append(_LATERAL)
    unit = movements.channels[chosen[0]]
    return [name for name in chosen if movements.channels[name] == unit]


def _converted(viewed: Movements, study: Study | None) -> Movements:
    """The channels in the unit of the task's first state, as far as their own is known."""
    if study is None:
        return viewed
    problem = example_problem(study.task, study.task_name, study.fixed)
    wanted = dict(zip(problem.state_names, problem.state_units, strict=True))
    names = list(viewed.channels)
    unit, new = viewed.channels[names[0]], wanted.get(names[0], "")
    factor = _factor(unit, new)
    if np.isnan(factor):
        return viewed
    return viewed.scaled(factor, new or unit, names)


def _factor(old: str, new: str) -> float:
    """The factor between units: 1 where one is not known, NaN where there is none."""
    if not old or not new:
        return 1.0
    try:
        return units.factor("channel", old, new)
    except InputError:
        return np.nan


def _points(
    movements: Movements, channels: Sequence[str], study: Study | None, unit: str
) -> tuple[np.ndarray | None, float | None]:
    """The goal of each trial (trial, channel), NaN where it is missing; None if none is known.
    And the task's default target, where that is the goal."""
    known = movements.conditions
    aside = np.zeros((len(movements), len(channels) - 1))
    if len(channels) == 1 or _LATERAL in channels:
        if "target" in known and known["target"].dtype.kind in "biuf":
            old = movements.condition_units["target"]
            target = _factor(old, unit) * known["target"].astype(float)
            return np.column_stack([target, aside]), None
        defaults = {} if study is None else defaults_of(study.task) | study.fixed
        if "target" not in defaults:
            return None, None
        target = np.full(len(movements), float(defaults["target"]))
        fixed = study is not None and "target" in study.fixed
        return np.column_stack([target, aside]), None if fixed else float(defaults["target"])
    for beginning in _GOALS:
        names = [f"{beginning}_{channel}" for channel in channels]
        if all(name in known and known[name].dtype.kind in "biuf" for name in names):
            factors = [_factor(movements.condition_units[name], unit) for name in names]
            columns = [f * known[name] for f, name in zip(factors, names, strict=True)]
            return np.column_stack(columns).astype(float), None
    return None, None
