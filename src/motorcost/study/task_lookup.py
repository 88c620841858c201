"""Tasks by name: those of motorcost, and functions in files of the user's own."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from motorcost import checks, tasks
from motorcost.errors import InputError
from motorcost.fitting.specification import refuse_free_delay, takes_arguments
from motorcost.model.observer import ObserverSpec
from motorcost.model.problem import Problem
from motorcost.tasks.declarations import Task

TASKS = (
    "reaching",
    "planar_reaching",
    "posture",
    "saccade",
    "planar_saccade",
    "tracking",
    "pursuit",
    "subjective_pursuit",
    "random_problem",
)


def find_task(name: str, problem_seed: int = 0, folder: Path = Path()) -> Task:
    """Find a task by name.

    - `name`: one of `TASKS`, or `file.py:function`. The file is run, as an import would.
    - `problem_seed`: which of the random problems, for "random_problem".
    - `folder`: what the file's path is relative to.
    """
    if ":" in name:
        file, _, function = name.rpartition(":")
        return _function_in(folder / file, function)
    checks.one_of("task", name, TASKS)
    if name == "random_problem":
        return tasks.random_problem(jax.random.key(problem_seed))
    return getattr(tasks, name)


def _function_in(path: Path, function: str) -> Task:
    if not path.is_file():
        raise InputError(f"there is no file {path} to find the task {function} in")
    spec = importlib.util.spec_from_file_location(f"motorcost task {path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where data classes in it look themselves up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise InputError(f"{path} does not run: {type(error).__name__}: {error}") from None
    task = getattr(module, function, None)
    if not callable(task):
        raise InputError(f"{path} has no function {function}")
    return task


def make_problem(task: Task, name: str, values: Mapping[str, Any]) -> Problem:
    """The problem that a task makes; raises if it makes something else."""
    problem = task(**values)
    if not isinstance(problem, Problem):
        raise InputError(f"the task {name} must make a Problem, got {type(problem).__name__}")
    return problem


def check_free_name(
    name: str, task: Task, task_name: str, states: Sequence[str] | None, fixed: Mapping[str, Any]
) -> None:
    """Raise unless a parameter of the task, or the recording noise of a state, has this name.

    `states` are those that were recorded; any of the task's if None.
    """
    refuse_free_delay(name)
    taken = takes_arguments(task)
    if name in (*taken, *ObserverSpec(states or ()).parameters):
        return
    recorded = states or example_problem(task, task_name, fixed).state_names
    checks.one_of("parameter", name, [*taken, *ObserverSpec(recorded).parameters])


def example_problem(task: Task, name: str, fixed: Mapping[str, Any]) -> Problem:
    """The problem that a task makes with its defaults, for the names and units of its states.

    It is traced rather than computed, so that nothing is compiled: its matrices have shapes but no
    values.
    """

    try:
        return jax.eval_shape(lambda: make_problem(task, name, fixed))
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"the task {name} does not run with defaults for what is not fixed: "
            f"{type(error).__name__}: {error}"
        ) from None
