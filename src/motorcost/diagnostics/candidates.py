"""The conditions that an experiment could have, and what is the same in all of them."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from motorcost import checks
from motorcost.diagnostics.precision import wide_supports
from motorcost.errors import InputError, shown
from motorcost.fitting.objective import Objective
from motorcost.fitting.specification import (
    Free,
    default_numbers,
    make_objective,
    supports_of,
    takes_arguments,
)
from motorcost.model.observer import ObserverLike, ObserverSpec, resolve_observer
from motorcost.model.problem import Problem
from motorcost.model.trials import Trials
from motorcost.tasks.declarations import Task, parameters

# By name, the values of each condition, of which all combinations are candidates; or the
# candidates themselves.
Candidates = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]

# The condition that is not the task's: of how many samples one is recorded.
EVERY = "every"
# Each candidate is simulated many times and needs a policy of its own.
MOST_CANDIDATES = 1000


@dataclass(frozen=True)
class Candidate:
    """A condition that trials could have.

    `conditions` are by name, as the user gave them; `steps`, `dt` and `every` apply whether they
    are among them or not.
    """

    conditions: dict[str, Any]
    steps: int
    dt: float
    every: int

    @property
    def label(self) -> str:
        """The conditions in a line: `target=0.1, steps=30`."""
        parts = self.conditions.items()
        return ", ".join(
            f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in parts
        )


@dataclass(frozen=True)
class Setting:
    """What is the same in all candidates.

    - `free`: what is to be inferred, as in `fit`; `at`: its assumed true values.
    - `fixed`: values of other arguments of the task, conditions included.
    """

    task: Task
    free: Free
    at: dict[str, float]
    fixed: dict[str, Any]
    observer: ObserverLike

    def problem(self, conditions: Mapping[str, Any]) -> Problem:
        """The problem under the conditions of a candidate, at the assumed true values."""
        takes = takes_arguments(self.task)
        values = self.fixed | self.at | dict(conditions)
        return self.task(**{name: value for name, value in values.items() if name in takes})

    def objective(self, chosen: Sequence[Candidate], counts: Sequence[int]) -> Objective:
        """The objective of an experiment with so many trials of each candidate, whose samples are
        yet to be simulated: 0 where there will be one. All candidates have the same dt."""
        rows = [c for c, n in zip(chosen, counts, strict=True) for _ in range(n)]
        problem = self.problem(chosen[0].conditions)
        observer = resolve_observer(problem, self.observer)
        T = max(row.steps for row in rows)
        observed = np.full((len(rows), T, len(observer.channel_names)), np.nan)
        for samples, row in zip(observed, rows, strict=True):
            samples[: row.steps : row.every] = 0.0
        names = [n for n in chosen[0].conditions if n not in ("steps", "dt", EVERY)]
        trials = Trials(
            checks.jax_array(observed),
            checks.jax_array(np.arange(T) * chosen[0].dt),
            channels=dict(zip(observer.channel_names, observer.channel_units, strict=True)),
            lengths=[row.steps for row in rows],
            conditions={name: np.array([row.conditions[name] for row in rows]) for name in names},
        )
        return make_objective(
            self.task,
            trials,
            wide_supports(self.task, self.free, self.at, self.observer, trials),
            fixed={n: v for n, v in self.fixed.items() if n not in ("steps", "dt", *names)},
            observer=self.observer,
        )


def make_setting(
    task: Task, free: Free, values: Mapping[str, Any], observer: ObserverLike
) -> Setting:
    """The setting that the user describes; see `design` for the arguments."""
    if not callable(task) or isinstance(task, Problem):
        raise InputError(f"a task is a function that makes a Problem, got {task!r}")
    noises = observer.parameters if isinstance(observer, ObserverSpec) else ()
    takes = takes_arguments(task)
    for name, value in values.items():
        checks.one_of("parameter", name, [*takes, *noises])
        checks.numbers(name, value)
    _check_free(task, free, observer, noises)
    usual = dict(default_numbers(task))
    at: dict[str, float] = {}
    for name in free:
        value = values.get(name, usual.get(name))
        if value is None and isinstance(observer, ObserverSpec):
            value = observer.usual_noise(name)
        if value is None:
            raise InputError(f"{name} is free: `values` must have its assumed true value")
        at[name] = float(value)
    if isinstance(observer, ObserverSpec):
        observer = observer.with_noises({n: v for n, v in values.items() if n in noises})
    fixed = {name: value for name, value in values.items() if name in takes and name not in at}
    if observer is None:
        names = Setting(task, free, at, fixed, None).problem({}).state_names
        observer = ObserverSpec(names)
    return Setting(task, free, at, fixed, observer)


def _check_free(task: Task, free: Free, observer: Any, noises: Sequence[str]) -> None:
    """Raise unless these can be inferred, each with one value for all trials."""
    if isinstance(free, str) or not isinstance(free, (Mapping, Sequence)) or not free:
        supports_of(task, free, observer)  # which says what is wrong
    # Recording noise has no usual support before there are trials.
    given = dict(free) if isinstance(free, Mapping) else dict.fromkeys(free)
    of_task = {name: support for name, support in given.items() if name not in noises}
    found = supports_of(task, of_task, observer) if of_task else {}
    if any(support.per is not None for support in found.values()):
        raise InputError("a design has no groups: leave out `per` of what is free")


def make_candidates(setting: Setting, candidates: Candidates, every: int) -> list[Candidate]:
    """The candidates that the user describes, each of which the task can make a problem of."""
    chosen = _combinations(candidates)
    names = list(dict.fromkeys(name for row in chosen for name in row))
    for name in names:
        _check_name(setting, name)
    checks.whole(EVERY, every, 1, "of how many samples one is recorded")
    signature = inspect.signature(setting.task).parameters
    usual = {n: signature[n].default for n in names if n in signature} | setting.fixed
    usual[EVERY] = every
    found = []
    for row in chosen:
        conditions = {name: row.get(name, usual.get(name)) for name in names}
        found.append(_candidate(setting, conditions, every))
    checks.distinct("candidates", [candidate.label for candidate in found])
    return found


def _combinations(candidates: Candidates) -> list[Mapping[str, Any]]:
    """The candidates one by one: all combinations of values, or as listed."""
    message = (
        "candidates must be values by condition, as in {'target': [0.05, 0.1]}, or a list of "
        "conditions, as in [{'target': 0.05}]"
    )
    if isinstance(candidates, Mapping):
        for name, values in candidates.items():
            if isinstance(values, str) or not isinstance(values, (Sequence, np.ndarray)):
                raise InputError(f"{message}: {name} needs a list of values, got {values!r}")
            if len(values) == 0:
                raise InputError(f"there are no candidates: {name} has no values")
        size = int(np.prod([float(len(values)) for values in candidates.values()]))
        _check_size(size if candidates else 0)
        combinations = itertools.product(*candidates.values())
        return [dict(zip(candidates, row, strict=True)) for row in combinations]
    if isinstance(candidates, str) or not isinstance(candidates, Sequence):
        raise InputError(f"{message}, got {candidates!r}")
    _check_size(len(candidates))
    for row in candidates:
        if not isinstance(row, Mapping) or not row:
            raise InputError(f"{message}, got {row!r} in it")
    return list(candidates)


def _check_size(size: int) -> None:
    if not size:
        raise InputError("there are no candidates: name conditions and their values")
    if size > MOST_CANDIDATES:
        raise InputError(f"there can be at most {MOST_CANDIDATES} candidates, got {size}")


def _check_name(setting: Setting, name: str) -> None:
    """Raise unless this is a condition that an experimenter can choose."""
    takes = takes_arguments(setting.task)
    if name in setting.at:
        raise InputError(f"{shown(name)} cannot be both free and a candidate")
    if name in setting.fixed:
        raise InputError(f"{shown(name)} cannot be both a candidate and among the values")
    conditions = takes
    if hasattr(setting.task, "parameters"):
        declared = parameters(setting.task)
        conditions = [n for n in takes if declared[n].role == "condition"]
    if name in takes and name not in conditions:
        raise InputError(
            f"{shown(name)} is no condition of the task, so it cannot be a candidate; these can: "
            f"{', '.join([*conditions, EVERY])}"
        )
    checks.one_of("condition", name, [*conditions, EVERY])


def _candidate(setting: Setting, conditions: dict[str, Any], every: int) -> Candidate:
    """A candidate, if its conditions are possible. Errors name it."""
    conditions = {n: v.item() if hasattr(v, "item") else v for n, v in conditions.items()}
    label = Candidate(conditions, 0, 0.0, 1).label
    of_task = {name: value for name, value in conditions.items() if name != EVERY}
    try:
        for name, value in conditions.items():
            if not isinstance(value, str):
                checks.numbers(name, value)
        every = checks.whole(EVERY, conditions.get(EVERY, every), 1, "of how many samples one")
        problem = jax.eval_shape(lambda: setting.problem(of_task))
        if not isinstance(problem, Problem):
            raise InputError(f"the task must make a Problem, got {type(problem).__name__}")
        if every > problem.steps - 1:
            raise InputError(f"every {every}th of {problem.steps} samples is only the first")
    except (InputError, TypeError, ValueError) as error:
        raise InputError(f"candidate {shown(label)}: {error}") from None
    values = setting.fixed | conditions
    dt = values.get("dt", dict(default_numbers(setting.task)).get("dt"))
    if dt is None:  # a task with a step of its own
        dt = setting.problem(of_task).dt
    return Candidate(conditions, problem.steps, float(dt), every)
