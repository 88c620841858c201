"""From the arguments of `fit` to an objective: checks of the task, the trials and what is free."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from motorcost import checks
from motorcost.errors import InputError
from motorcost.fitting.objective import (
    Coordinate,
    DataSets,
    Grouping,
    Objective,
    step_and_structure,
)
from motorcost.model.observer import Observer, ObserverLike, ObserverSpec, resolve_observer
from motorcost.model.problem import Problem
from motorcost.model.trials import Trials, trials_in_model_units
from motorcost.tasks import parameter_units, typical_values
from motorcost.tasks import parameters as declared_parameters
from motorcost.tasks.declarations import Task
from motorcost.tasks.plausible_units import (
    check_scale,
    note_of_assumed,
    unit_in_python,
    wanted_units,
)
from motorcost.tasks.supports import LogUniform, Support
from motorcost.tasks.targets import TARGETS

Free = Mapping[str, Support | None] | Sequence[str]  # None, or a name alone: the usual support

# The usual support of recording noise, as fractions of the range of the samples.
LEAST_NOISE = 1e-5
MOST_NOISE = 0.5


def make_objective(
    task: Task,
    trials: Trials,
    free: Free,
    *,
    fixed: Mapping[str, Any] | None = None,
    observer: ObserverLike = None,
) -> Objective:
    """The objective of these trials. See `fit` for the arguments."""
    checks.require_float64()
    if not callable(task) or isinstance(task, Problem):
        raise InputError(f"a task is a function that makes a Problem, got {task!r}")
    check_trials(trials)
    maker = _observer_maker(observer, trials)
    step = float(trials.times[1] - trials.times[0])
    values = _fixed_values(task, fixed or {}, step)
    supports = supports_of(task, free, maker, trials)
    _check_roles(supports, values, trials)
    groupings = _groupings(task, supports, trials)
    objective = Objective(
        trials=_for_task(task, trials, groupings),
        task=task,
        observer=maker,
        coordinates=coordinates_of(supports, maker, groupings),
        fixed=tuple(values.items()),
        groupings=groupings,
        defaults=default_numbers(task),
    )
    objective = _in_model_units(objective)
    dt, structure = step_and_structure(objective, DataSets())
    if not np.isclose(dt, step, rtol=1e-6):  # a task with a step of its own
        _wrong_step(step, dt)
    return dataclasses.replace(objective, structure=structure)


def default_numbers(task: Task) -> tuple[tuple[str, float], ...]:
    """The defaults of a task's arguments that are numbers, as far as its signature tells; what is
    declared as typical where the default is 0 for "none"."""
    try:
        arguments = inspect.signature(task).parameters.values()
    except (TypeError, ValueError):  # not every function of C has a signature
        return ()
    values = {a.name: a.default for a in arguments}
    if hasattr(task, "parameters"):
        values |= typical_values(task)
    numbers = {name: value for name, value in values.items() if isinstance(value, (int, float))}
    return tuple((name, float(value)) for name, value in numbers.items())


def _in_model_units(objective: Objective) -> Objective:
    """The objective with its trials in the units of the task, and notes on what was converted and
    what had no unit."""
    trials, declared = objective.trials, hasattr(objective.task, "parameters")
    if not declared and not any((*trials.channel_units, *trials.condition_units.values())):
        return objective  # nothing has a unit, so the task need not be traced for those of its own
    problem, units = _middle_problem(objective), parameter_units(objective.task)
    wanted = wanted_units(problem, units, trials.channel_names, list(trials.condition_units))
    given = dict(zip(trials.channel_names, trials.channel_units, strict=True))
    given |= trials.condition_units
    assumed = {name: wanted[name] for name in given if not given[name] and wanted[name]}
    trials, notes = trials_in_model_units(trials, problem, units)
    if assumed:
        notes = (*notes, note_of_assumed(assumed))
    return dataclasses.replace(objective, trials=trials, notes=notes)


def check_units(objective: Objective) -> None:
    """Raise where trials and their target cannot be in the same unit.

    For what a user recorded: simulated agents may hardly move, or move too far.
    """
    trials = objective.trials
    free = {coordinate.parameter for coordinate in objective.coordinates}
    if free & {"target", *TARGETS} or not hasattr(objective.task, "parameters"):
        return
    check_scale(
        [x[:T] for x, T in zip(np.asarray(trials.observed), trials.lengths, strict=True)],
        trials.channel_names,
        trials.conditions,
        problem=_middle_problem(objective),
        task=objective.task,
        fixed=dict(objective.fixed),
        say_unit=unit_in_python,
    )


def _middle_problem(objective: Objective) -> Problem:
    """The problem in the middle of the supports, for its names and units: nothing is compiled."""
    middle = jnp.array([support.middle for support in objective.supports])
    return jax.eval_shape(objective.first_problem, middle)[0]


def coordinates_of(
    supports: Mapping[str, Support], observer: Any, groupings: Sequence[Grouping] = ()
) -> tuple[Coordinate, ...]:
    """A coordinate for each free parameter, or for each group that has its own value of it."""
    groups = {grouping.label: grouping.groups for grouping in groupings}
    noises = _noises(observer)
    return tuple(
        Coordinate(name, support, group, name in noises)
        for name, support in supports.items()
        for group in ((None,) if support.per is None else groups[support.per])
    )


def takes_arguments(task: Task) -> list[str]:
    """The names of the arguments of a task."""
    if hasattr(task, "parameters"):
        return list(declared_parameters(task))
    return list(inspect.signature(task).parameters)


def supports_of(
    task: Task, free: Free, observer: Any, trials: Trials | None = None
) -> dict[str, Support]:
    """Where each free parameter can lie, by name: as given, or the task's usual support.

    Recording noise has a usual support only where `trials` tell the range of what was recorded.
    """
    if isinstance(free, str) or not isinstance(free, (Mapping, Sequence)):
        raise InputError(f"free must name parameters with their support, got {free!r}")
    if not free:
        raise InputError("nothing is free: name at least one parameter to infer")
    names = [*takes_arguments(task), *_noises(observer)]
    for name in free:
        refuse_free_delay(name)
    supports: dict[str, Support] = {}
    for name, support in (free if isinstance(free, Mapping) else dict.fromkeys(free)).items():
        checks.one_of("parameter", name, names)
        if support is None:
            support = _usual_support(task, name, observer, trials)
        if not isinstance(support, Support):
            raise InputError(
                f"the support of {name} must be made by LogUniform(low, high), Uniform, LogNormal "
                f"or Normal, got {support!r}"
            )
        supports[name] = support
    common, *of_channels = _noises(observer) or ("",)
    if common in supports and any(name in supports for name in of_channels):
        raise InputError(f"{common} stands for all channels: free it or theirs, not both")
    return supports


def refuse_free_delay(name: str) -> None:
    """Raise if this is the name of a delay, which cannot be free."""
    if name == "delay" or name.endswith("_delay"):
        raise InputError(
            f"{name} cannot be free: a delay is a whole number of steps, without a "
            "derivative. Compare several instead, as in delay=[4, 8, 12]"
        )


def _noises(observer: Any) -> tuple[str, ...]:
    """The names of the observer's noises that can be free."""
    return observer.parameters if isinstance(observer, ObserverSpec) else ()


def check_trials(trials: Any) -> None:
    """Raise unless these are trials that can be fitted."""
    if not isinstance(trials, Trials):
        what = "recordings (Movements)" if hasattr(trials, "on_grid") else type(trials).__name__
        raise InputError(
            f"fitting needs Trials, got {what}: mc.io.read(file).trials(dt=...) makes them from a "
            "file, mc.Trials.recorded(samples, dt=...) from arrays"
        )
    if len(trials) == 0:
        raise InputError("there are no trials")


def check_task(task: Task, trials: Trials, fixed: Mapping[str, Any]) -> None:
    """Raise unless a task makes a problem for the shortest of these trials, which has the states
    that known starts have. Nothing is compiled."""
    takes = takes_arguments(task)
    shortest = int(np.argmin(trials.lengths))
    given = {"steps": int(trials.lengths[shortest]), "dt": trials.dt}
    given |= {name: values[shortest].item() for name, values in trials.conditions.items()}
    arguments = {name: value for name, value in given.items() if name in takes} | dict(fixed)
    problem = jax.eval_shape(lambda: task(**arguments))
    count = len(problem.state_names)
    if trials.starts is not None and trials.starts.shape[-1] != count:
        raise InputError(
            f"the starts of the trials have {trials.starts.shape[-1]} states, the task has "
            f"{count}: known starts cannot be those of several delays, fit each by itself"
        )


def _observer_maker(observer: ObserverLike, trials: Trials) -> Any:
    """The observer as a function of the problem, whatever it was given as."""
    if observer is None:
        return ObserverSpec(trials.channel_names)
    if isinstance(observer, Observer):
        return FixedObserver(observer)
    if not callable(observer):
        raise InputError(
            "observer must be an Observer, an mc.ObserverSpec(['position'], noise=1e-3), or a "
            f"function from a problem to an Observer, got {observer!r}"
        )
    return observer


class FixedObserver:
    """One observer for all problems, which therefore need the same number of steps."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer

    def __call__(self, problem: Problem) -> Observer:
        """The observer, if it was made for a problem of this size."""
        return resolve_observer(problem, self.observer)


def _fixed_values(task: Task, fixed: Mapping[str, Any], step: float) -> dict[str, Any]:
    """The fixed parameters as plain numbers where they are, with the trials' time step."""
    takes = takes_arguments(task)
    for name in fixed:
        checks.one_of("parameter", name, takes)
    values = {
        name: value.item() if np.ndim(value) == 0 and hasattr(value, "item") else value
        for name, value in fixed.items()
    }
    if "dt" in takes and not np.isclose(values.setdefault("dt", step), step, rtol=1e-6):
        _wrong_step(step, values["dt"])
    return values


def _check_roles(supports: Mapping[str, Support], fixed: Mapping[str, Any], trials: Trials) -> None:
    """Raise if a parameter is two of free, fixed and a condition."""
    for name in (*supports, *fixed):
        if name == "steps":
            raise InputError("steps cannot be free or fixed: the trials' lengths determine it")
        if name in fixed and name in trials.conditions:
            raise InputError(f"{name} cannot be fixed: it is a condition of the trials")
    for name in supports:
        if name in fixed:
            raise InputError(f"{name} cannot be both free and fixed")
        if name in trials.conditions:
            raise InputError(f"{name} cannot be free: it is a condition of the trials")


def _wrong_step(trials: float, problem: float) -> NoReturn:
    raise InputError(
        f"the trials are on a grid of {trials:g} s, the problem steps by {problem:g} s"
    )


def _usual_support(task: Task, name: str, observer: Any, trials: Trials | None) -> Support:
    if name in _noises(observer) and trials is not None:
        _, *of_channels = _noises(observer)
        samples = np.asarray(trials.observed)
        if name in of_channels and len(of_channels) == samples.shape[-1]:
            samples = samples[..., of_channels.index(name)]
        return usual_noise(samples)
    declared = declared_parameters(task) if hasattr(task, "parameters") else {}
    support = declared[name].support if name in declared else None
    if support is None:
        raise InputError(
            f"{name} has no usual support: give one, as in "
            f"free={{'{name}': mc.LogUniform(low, high)}}"
        )
    return support


def usual_noise(samples: np.ndarray) -> Support:
    """Return where the SD of the recording noise of these samples can lie."""
    size = float(np.nanmax(samples) - np.nanmin(samples)) or 1.0
    return LogUniform(LEAST_NOISE * size, MOST_NOISE * size)


def _groupings(task: Task, supports: Mapping[str, Support], trials: Trials) -> tuple[Grouping, ...]:
    takes = takes_arguments(task)
    labels = dict.fromkeys(s.per for s in supports.values() if s.per is not None)
    for label in labels:
        if label not in trials.conditions:
            known = ", ".join(trials.conditions) or "none"
            raise InputError(
                f"the trials have no condition {label!r} to group them by; there are: {known}"
            )
    return tuple(
        Grouping(label, tuple(np.unique(trials.conditions[label]).tolist()), label in takes)
        for label in labels
    )


def _for_task(task: Task, trials: Trials, groupings: Sequence[Grouping]) -> Trials:
    """The trials with the conditions that the task takes and the numbers of their groups.

    Both are real numbers where they can be: such trials run together.
    """
    takes = takes_arguments(task)
    conditions: dict[str, Any] = {}
    for name, values in trials.conditions.items():
        if name in takes:
            whole = values.dtype.kind in "iu" and not _takes_whole(task, name)
            conditions[name] = values.astype(float) if whole else values
    for grouping in groupings:
        if not grouping.task_takes_it:
            numbers = {group: float(i) for i, group in enumerate(grouping.groups)}
            values = trials.conditions[grouping.label].tolist()
            conditions[grouping.label] = np.array([numbers[value] for value in values])
    return Trials(
        trials.observed,
        trials.times,
        starts=trials.starts,
        channels=dict(zip(trials.channel_names, trials.channel_units, strict=True)),
        lengths=trials.lengths,
        conditions=conditions,
        condition_units={n: u for n, u in trials.condition_units.items() if n in takes},
    )


def _takes_whole(task: Task, name: str) -> bool:
    return isinstance(inspect.signature(task).parameters[name].default, int)
