"""What looks wrong with trials that are on a model's grid already, as `mc.fit` gets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from motorcost.data.measures import measure
from motorcost.data.movements import Movements
from motorcost.errors import InputError
from motorcost.fitting.specification import takes_arguments
from motorcost.model.trials import Trials
from motorcost.study.overview import time_constants
from motorcost.study.positions import viewed_positions
from motorcost.study.settings import Study
from motorcost.study.suspicions import Inspected, suspicions_of_trials
from motorcost.tasks.declarations import Task


def doubts(task: Task, trials: Trials, fixed: Mapping[str, Any]) -> tuple[str, ...]:
    """What `mc.look` would warn of, as far as trials alone tell it; in sentences, nothing compiled.

    Trials say nothing of how they were read and prepared. What does not go from rest to a goal
    (posture, tracking) is not looked at.
    """
    movements = _movements_of(trials, takes_arguments(task))
    if movements is None:
        return ()
    study = Study((), task, (), fixed=fixed, dt=trials.dt, lead=trials.lead)
    try:
        viewed, goals, default = viewed_positions(movements, study)
    except InputError:  # a task that needs more than it has defaults for
        return ()
    if goals is None or any(goal.ndim > 1 and (goal != goal[0]).any() for goal in goals):
        return ()
    goals = [goal if goal.ndim == 1 else goal[0] for goal in goals]
    inspected = Inspected(
        movements=viewed,
        measures=measure(viewed.samples, viewed.times, goals),
        unit=viewed.common_unit(list(viewed.channels)),
        step=trials.dt,
        time_constants=time_constants(study),
        turned=len(viewed.channels) == 1,
        default_goal=default,
        leads=trials.lead > 0,
        of_arrays=True,
    )
    return suspicions_of_trials(inspected, ("all",) * len(trials))


def _movements_of(trials: Trials, kept: Sequence[str]) -> Movements | None:
    """Trials as recordings, with the conditions that are `kept`: their samples from the first that
    is there to the last. None if a trial has fewer than two."""
    observed, times = np.asarray(trials.observed), np.asarray(trials.times)
    there = np.isfinite(observed).any(axis=2)
    if (there.sum(axis=1) < 2).any():
        return None
    ends = [np.flatnonzero(row)[[0, -1]] for row in there]
    windows = [slice(first, last + 1) for first, last in ends]
    return Movements(
        samples=tuple(trial[window] for trial, window in zip(observed, windows, strict=True)),
        times=tuple(times[window] for window in windows),
        channels=dict(zip(trials.channel_names, trials.channel_units, strict=True)),
        conditions={
            name: values
            for name, values in trials.conditions.items()
            if name in kept and name not in trials.channel_names
        },
        condition_units=trials.condition_units,
    )
