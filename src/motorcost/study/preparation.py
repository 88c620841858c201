"""From recordings to what a model takes: the steps that a study names, units, and the grid."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from motorcost import checks
from motorcost.data.movements import Movements
from motorcost.errors import InputError, errors_at
from motorcost.fitting.specification import takes_arguments
from motorcost.model.problem import Problem
from motorcost.study.leaving_out import least, most
from motorcost.study.selection import SELECTING, Step, keep_only, keep_range
from motorcost.tasks.declarations import Task, defaults_of, parameter_units
from motorcost.tasks.plausible_units import check_scale, note_of_assumed, wanted_units
from motorcost.tasks.targets import numeric


@dataclass(frozen=True)
class StepRecord:
    """What one step of a preparation did.

    - `step`, `arguments`: its name and what it was given; `read` and `model` stand for reading the
      files and for placing the trials on the model's grid.
    - `before`, `after`: the number of trials. `read` has no number before it.
    - `samples`: the number of samples after it.
    - `notes`: what it did to them, in words.
    - `unit`: of the channels that a `cut` measures, where that is known.
    """

    step: str
    arguments: dict[str, Any]
    before: int | None
    after: int
    samples: int
    notes: tuple[str, ...] = ()
    unit: str = ""

    @property
    def left_out(self) -> int:
        """How many trials the step left out."""
        return 0 if self.before is None else self.before - self.after


@dataclass(frozen=True)
class Prepared:
    """Recordings as they were read (`recorded`) and after all steps (`movements`), with a record
    of each step."""

    recorded: Movements
    movements: Movements
    steps: tuple[StepRecord, ...]


def check_steps(steps: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[Step, ...]:
    """Steps of a preparation, if there are such steps and they take such arguments."""
    for step, arguments in steps:
        checks.one_of("step", step, list(_STEPS))
        try:
            inspect.signature(_STEPS[step]).bind(None, **arguments)
        except TypeError as error:
            raise InputError(f"the step {step} cannot be done: {error}") from None
    return tuple((step, dict(arguments)) for step, arguments in steps)


def prepared(
    recorded: Movements, steps: Sequence[Step], written_at: Mapping[str, str] | None = None
) -> Prepared:
    """The movements after all steps, in their order, and what each step did.

    `written_at`: where steps are written, by key as in `prepare.cut`; errors begin with it.
    """
    recorded = _that_have_samples(recorded)
    places = {f"prepare.{step}": f"[prepare] {step}" for step in _STEPS if step not in SELECTING}
    places |= written_at or {}
    records = [_record("read", {}, None, recorded)]
    movements = recorded
    for step, arguments in steps:
        before = movements
        with errors_at(places.get(f"prepare.{step}")):
            movements = _STEPS[step](before, **arguments)
            if not len(movements):
                raise InputError(f"{step} leaves none of {len(before)} trials")
        records.append(_record(step, arguments, before, movements))
    return Prepared(recorded, movements, tuple(records))


def _that_have_samples(recorded: Movements) -> Movements:
    """The trials that have a sample; all if none has, which whoever takes them says."""
    there = np.array([np.isfinite(samples).any() for samples in recorded.samples], bool)
    if there.all() or not there.any():
        return recorded
    missing = np.flatnonzero(~there)
    which = recorded.name_trials(~there)
    named = f"trial {recorded.labels[missing[0]]}" if len(missing) == 1 else which
    return recorded[there].noted(f"{named} left out: no sample of {', '.join(recorded.channels)}")


def _record(
    step: str, arguments: dict[str, Any], before: Movements | None, after: Movements
) -> StepRecord:
    samples = sum(len(times) for times in after.times)
    if before is None:
        return StepRecord(step, arguments, None, len(after), samples, after.notes)
    notes = after.notes[len(before.notes) :]
    unit = _unit_of_cut(before, arguments) if step == "cut" else ""
    return StepRecord(step, arguments, len(before), len(after), samples, notes, unit)


def _unit_of_cut(movements: Movements, arguments: Mapping[str, Any]) -> str:
    """The unit of the channels whose speed cuts movements."""
    usual = inspect.signature(Movements.cut).parameters["channels"].default
    return movements.common_unit(arguments.get("channels", usual))


def _keep(movements: Movements, where: str) -> Movements:
    """The trials in which a condition is true, or, after "not ", false; after "has ", those in
    which it is not missing."""
    how, _, name = where.rpartition(" ") if where.startswith(("not ", "has ")) else ("", "", where)
    checks.one_of("condition", name.strip(), list(movements.conditions))
    values = movements.conditions[name.strip()]
    if how.strip() == "has":
        missing = np.isnan(values) if values.dtype.kind == "f" else values == ""
        return movements.keep(~np.broadcast_to(missing, values.shape), f"they have no {name}")
    true = numeric(name.strip(), values).astype(bool)
    return movements.keep(~true if how else true, f"only those with {where} are kept")


_STEPS: dict[str, Callable[..., Movements]] = {
    "keep": _keep,
    "scale": Movements.scaled,
    "units": Movements.in_units,
    "along": Movements.along,
    "centred": Movements.centred,
    "cut": Movements.cut,
    "least": least,
    "most": most,
    "only": keep_only,
    "trials": keep_range,
}


@dataclass(frozen=True)
class ForModel:
    """What a model takes of a study's movements, and where its trials come from."""

    task: Task
    task_name: str
    fixed: Mapping[str, Any]
    states: Sequence[str] | None
    groups: Collection[str]
    named_conditions: Collection[str]
    dt: float | None

    def select(self, movements: Movements, problem: Problem) -> tuple[Movements, float]:
        """The channels and conditions that the model takes, in its units, and its step.

        Kept are the channels that are states of the task (all of `states`, if they are named) and
        the conditions that it takes or that `groups` name; a note tells of other conditions only
        where the user named them. The step is that of the recording unless `dt` is given.
        """
        movements = _select_channels(movements, problem, self.states, self.task_name)
        movements = _select_conditions(movements, self.task, self.fixed, self.groups)
        unused = [name for name in self.named_conditions if name not in movements.conditions]
        if unused:
            note = f"conditions that {self.task_name} does not take: {', '.join(unused)}"
            movements = movements.noted(note)
        movements = in_model_units(movements, problem, parameter_units(self.task))
        check_scale(
            movements.samples,
            list(movements.channels),
            movements.conditions,
            problem=problem,
            task=self.task,
            fixed=self.fixed,
        )
        if self.dt is not None:
            return movements, self.dt
        dt = sampling_interval(movements)
        return movements.noted(f"the model steps by {dt:g} s, as the recording does"), dt


def _select_channels(
    movements: Movements, problem: Problem, states: Sequence[str] | None, task_name: str
) -> Movements:
    """Only the channels that are states of the problem, at least one of which there must be."""
    channels = list(movements.channels if states is None else states)
    kept = [name for name in channels if name in problem.state_names]
    if states is None and channels and not kept:
        position = problem.state_names[0]
        raise InputError(
            f"no column is a state of {task_name} ({', '.join(problem.state_names)}), got "
            f"{', '.join(channels)}: say which is the {position}, as in channels = {{ {position} = "
            f'"{channels[0]}" }}, or turn movements in the plane onto the line to their goal with '
            "[prepare] along"
        )
    if states is not None or not kept:
        for name in channels or ["(none)"]:
            checks.one_of(f"state of {task_name} recorded", name, problem.state_names)
    dropped = [name for name in channels if name not in kept]
    movements = movements.select(channels=kept)
    if not dropped:
        return movements
    return movements.noted(f"columns that are not states of {task_name}: {', '.join(dropped)}")


def _select_conditions(
    movements: Movements, task: Task, fixed: Mapping[str, Any], groups: Collection[str]
) -> Movements:
    """Only the conditions that the task takes, or that form groups."""
    for name in groups:
        if name not in movements.conditions:
            known = ", ".join(movements.conditions) or "none"
            raise InputError(f"no condition {name!r} to form groups by; there are: {known}")
    takes = takes_arguments(task)
    kept = [name for name in movements.conditions if name in takes or name in groups]
    defaults = defaults_of(task)
    for name in kept:
        if name in fixed:
            raise InputError(f"{name} is fixed, but the trials have it as a condition too")
        if isinstance(defaults.get(name, ""), (int, float, type(None))) and name not in groups:
            _require_values(name, movements)
    return movements.select(conditions=kept)


def _require_values(name: str, movements: Movements) -> None:
    """Raise where a condition that the task takes is no number, or is missing in some trial."""
    missing = np.isnan(numeric(name, movements.conditions[name]))
    if missing.any():
        trials = movements.name_trials(missing)
        raise InputError(
            f"the condition {name!r} is missing in {trials}: fill it in, or leave these trials out "
            f'with [prepare] keep = "has {name}"'
        )


def in_model_units(
    movements: Movements, problem: Problem, parameter_units: Mapping[str, str]
) -> Movements:
    """Channels in the units of the states, conditions in those of the task's parameters.

    What has no unit is taken to be in the model's, and a note says so.
    """
    units = movements.channels | movements.condition_units
    wanted = wanted_units(
        problem, parameter_units, list(movements.channels), list(movements.condition_units)
    )
    assumed = {name: wanted[name] for name in units if not units[name] and wanted[name]}
    if assumed:
        movements = replace(
            movements,
            channels={name: assumed.get(name, u) for name, u in movements.channels.items()},
            condition_units=movements.condition_units
            | {name: unit for name, unit in assumed.items() if name in movements.conditions},
        ).noted(note_of_assumed(assumed))
    return movements.in_units(
        **{
            name: wanted[name]
            for name, unit in units.items()
            if unit and wanted[name] not in ("", unit)
        }
    )


def sampling_interval(movements: Movements) -> float:
    """Seconds between samples, at the median."""
    gaps = np.concatenate([np.zeros(0), *[np.diff(times) for times in movements.times]])
    if not gaps.size:
        raise InputError("no trial has two samples")
    return float(f"{float(np.median(gaps)):.9g}")
