"""A study: everything about an analysis in one file that can be shared.

`Study.read` takes a TOML file, `motorcost init` writes one with comments, and the command line's
options make one without a file.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax

from motorcost import checks, io, tasks
from motorcost.data.movements import Movements, concatenate_movements
from motorcost.errors import InputError
from motorcost.fitting.derivative_free import METHODS, Method
from motorcost.fitting.specification import takes_arguments
from motorcost.io import datasets
from motorcost.model.problem import Problem
from motorcost.model.trials import Trials
from motorcost.study import schema as toml
from motorcost.study.preparation import (
    check_scale,
    in_model_units,
    interval,
    numeric,
    prepared,
    steps_from,
)
from motorcost.tasks.declare import Task
from motorcost.tasks.supports import LogNormal, LogUniform, Normal, Support, Uniform

TASKS = ("reaching", "saccade", "tracking", "random_problem")


@dataclass(frozen=True)
class Study:
    """Data, preparation, model, what is free, and how to fit it.

    - `files`, `dataset` and `reading`: what `io.read` (or `datasets.load`) is given.
    - `prepare`: steps in order, each a name of a method of `Movements` and its arguments.
    - `task`, `fixed`, `free`, `noise`, `states`, `dt`: the model; `dt` None is the recording's.
    - `seed`, `starts`, `method`, `priors`: the fit.
    - `title`, `folds`, `bootstrap`, `baselines`, `profiles`: the report.
    """

    files: tuple[Path, ...]
    task_name: str
    free: dict[str, Support | None]
    task: Task
    dataset: str | None = None
    reading: dict[str, Any] = field(default_factory=dict)
    prepare: tuple[tuple[str, dict[str, Any]], ...] = ()
    fixed: dict[str, Any] = field(default_factory=dict)
    states: tuple[str, ...] | None = None
    noise: Any = 0.0
    dt: float | None = None
    seed: int = 0
    starts: int = 10
    method: Method = "gradient"
    priors: bool = False
    title: str = ""
    folds: int = 5
    bootstrap: int = 0
    baselines: bool = True
    profiles: bool = True

    @staticmethod
    def read(path: Path) -> Study:
        """The study in a TOML file. Paths in it are relative to the file."""
        root = toml.read_toml(path)
        root.only("title", "data", "prepare", "model", "free", "observer", "fit", "report")
        data, model, observer = root.table("data"), root.table("model"), root.table("observer")
        fitting, report = root.table("fit"), root.table("report")
        reading_keys = (
            "trial", "time", "time_unit", "channels", "units", "conditions", "rate", "format",
        )  # fmt: skip
        data.only("file", "dataset", "options", *reading_keys)
        model.only("task", "dt", "problem_seed", "fixed")
        observer.only("states", "noise")
        fitting.only("seed", "starts", "method", "priors")
        report.only("folds", "bootstrap", "baselines", "profiles")

        files = data.need("file", toml.texts)
        kinds: dict[str, Callable[[Any], Any]] = {
            "trial": lambda it: it if isinstance(it, str) else toml.texts(it),
            "time": toml.text,
            "time_unit": toml.text,
            "channels": toml.named,
            "units": toml.of_texts,
            "conditions": toml.named,
            "rate": toml.number,
            "format": toml.text,
        }
        given = {key: data.get(key, kind) for key, kind in kinds.items() if key in data.values}
        dataset = data.get("dataset", lambda it: datasets.describe(toml.text(it)).name)
        if dataset is not None:
            for key in given:
                with data.at(key):
                    raise InputError(f"the data set {dataset} is read as it is: leave it out")
            given = data.get("options", partial(_reader_options, dataset), {})
        elif "options" in data.values:
            with data.at("options"):
                raise InputError("are those of a dataset, which is not named")
        name = model.need("task", toml.text)
        with model.at("task"):
            task = find_task(name, model.get("problem_seed", toml.whole, 0), path.parent)
        free_table = root.table("free")
        free = {key: free_table.get(key, support_from) for key in free_table.values}
        fixed_table = model.table("fixed")
        fixed = {
            key: fixed_table.get(key, partial(fixed_value, task, key)) for key in fixed_table.values
        }
        for table, keys in ((free_table, free), (fixed_table, fixed)):
            for key in keys:
                with table.at(key):
                    if not key.startswith("recording_noise"):
                        checks.one_of("parameter", key, takes_arguments(task))
        if not free:
            with free_table.at():
                raise InputError("name at least one parameter to infer")
        return Study(
            files=tuple(path.parent / file for file in files),
            dataset=dataset,
            reading=given,
            prepare=tuple(steps_from(root.table("prepare"))),
            task_name=name,
            task=task,
            free=free,
            fixed=fixed,
            states=observer.get("states", lambda it: tuple(toml.texts(it))),
            noise=observer.get("noise", noise_from, 0.0),
            dt=model.get("dt", _step),
            seed=fitting.get("seed", toml.whole, 0),
            starts=fitting.get("starts", toml.whole, 10),
            method=fitting.get(
                "method", lambda it: checks.one_of("method", toml.text(it), METHODS), METHODS[0]
            ),
            priors=fitting.get("priors", toml.truth, False),
            title=root.get("title", toml.text, ""),
            folds=report.get("folds", toml.whole, 5),
            bootstrap=report.get("bootstrap", _experiments, 0),
            baselines=report.get("baselines", toml.truth, True),
            profiles=report.get("profiles", toml.truth, True),
        )

    def movements(self) -> Movements:
        """The recordings, read and prepared; their notes say what was done."""
        if self.dataset is not None:
            parts = [datasets.load(self.dataset, file, **self.reading) for file in self.files]
        else:
            parts = [io.read(file, **self.reading) for file in self.files]
            if len(parts) > 1 and not any("subject" in part.conditions for part in parts):
                stems = [file.stem for file in self.files]
                if len(set(stems)) < len(stems):
                    stems = [f"{file.parent.name}/{file.stem}" for file in self.files]
                checks.distinct("files", stems)
                named = zip(parts, stems, strict=True)
                parts = [part.with_conditions(subject=stem) for part, stem in named]
        return prepared(concatenate_movements(parts), self.prepare)

    def trials(self, movements: Movements | None = None) -> tuple[Trials, tuple[str, ...]]:
        """The trials on the model's grid, in the model's units, with notes on what was done."""
        movements = self.movements() if movements is None else movements
        problem = _example(self.task, self.task_name, self.fixed)
        units = dict(zip(problem.state_names, problem.state_units, strict=True))
        channels = list(movements.channels) if self.states is None else list(self.states)
        known = [name for name in channels if name in units]
        if self.states is not None or not known:
            for name in channels or ["(none)"]:
                checks.one_of(f"state of {self.task_name} recorded", name, list(units))
        takes = takes_arguments(self.task)
        labels = {support.per for support in self.free.values() if support and support.per}
        for label in labels - set(movements.conditions):
            known_labels = ", ".join(movements.conditions) or "none"
            raise InputError(f"no condition {label!r} to tell levels by; there are: {known_labels}")
        kept = [name for name in movements.conditions if name in takes or name in labels]
        notes = list(movements.notes)
        dropped = [name for name in channels if name not in known]
        if dropped:
            notes.append(f"columns that are no states of {self.task_name}: {', '.join(dropped)}")
        unused = [name for name in self.reading.get("conditions", ()) if name not in kept]
        if unused and self.dataset is None:
            notes.append(f"conditions that {self.task_name} does not take: {', '.join(unused)}")
        defaults = tasks.defaults(self.task) if hasattr(self.task, "parameters") else {}
        for name in kept:
            if name in self.fixed:
                raise InputError(f"{name} is fixed, but the trials have it as a condition too")
            if isinstance(defaults.get(name), (int, float)) and name not in labels:
                numeric(name, movements.conditions[name])
        movements = movements.select(known, kept)
        movements = in_model_units(movements, units, self.task, notes)
        check_scale(movements, self.task, self.fixed)
        dt = interval(movements) if self.dt is None else self.dt
        if self.dt is None:
            notes.append(f"the model steps by {dt:g} s, as the recording does")
        placed = movements.on_grid(dt)
        notes += [note for note in placed.notes if note not in notes]
        return placed.trials(dt), tuple(notes)

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the estimates, but for the data, as text: to tell studies apart."""
        supports = {name: "usual" if it is None else repr(it) for name, it in self.free.items()}
        kept = ("task_name", "fixed", "states", "noise", "dt", "seed", "method", "priors")
        rest = {name: str(getattr(self, name)) for name in (*kept, "reading", "prepare")}
        return {"free": supports, **rest}


def find_task(name: str, problem_seed: int = 0, folder: Path = Path()) -> Task:
    """A built-in task by name, or `file.py:function` of your own."""
    if ":" in name:
        file, _, function = name.rpartition(":")
        path = folder / file
        if not path.is_file():
            raise InputError(f"there is no file {path} to find the task {function} in")
        spec = importlib.util.spec_from_file_location(f"motorcost task {path.stem}", path)
        if spec is None or spec.loader is None:
            raise InputError(f"{path} is no Python file")
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
    checks.one_of("task", name, TASKS)
    if name == "random_problem":
        return tasks.random_problem(jax.random.key(problem_seed))
    return getattr(tasks, name)


def support_from(value: Any) -> Support | None:
    """A support as written in a study: "usual", [low, high] or a table."""
    if value == "usual":
        return None
    if isinstance(value, list):
        if len(value) != 2:
            raise InputError(f"must be [low, high], got {value!r}")
        return LogUniform(toml.number(value[0]), toml.number(value[1]))
    table = toml.mapping(value)
    for key in table:
        checks.one_of("key", key, ("low", "high", "scale", "median", "mean", "sd", "per"))
    per = toml.text(table["per"]) if "per" in table else None
    numbers = {key: toml.number(table[key]) for key in ("low", "high", "sd") if key in table}
    scale = checks.one_of("scale", toml.text(table.get("scale", "log")), ("log", "linear"))
    try:
        if "median" in table:
            return LogNormal(toml.number(table["median"]), per=per, **numbers)
        if "mean" in table:
            return Normal(toml.number(table["mean"]), per=per, **numbers)
        return (LogUniform if scale == "log" else Uniform)(per=per, **numbers)
    except TypeError:
        raise InputError(
            "needs low and high, or median and sd, or mean and sd; got "
            + (", ".join(table) or "nothing")
        ) from None


def fixed_value(task: Task, name: str, value: Any) -> Any:
    """A fixed parameter as the task takes it: whole numbers stay whole."""
    defaults = tasks.defaults(task) if hasattr(task, "parameters") else {}
    if isinstance(defaults.get(name), int):
        return toml.whole(value)
    return toml.number(value)


def _example(task: Task, name: str, fixed: dict[str, Any]) -> Problem:
    """The task's problem, for the names and units of its states."""
    try:
        problem = task(**fixed)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"the task {name} does not run with defaults for what is not fixed: "
            f"{type(error).__name__}: {error}"
        ) from None
    if not isinstance(problem, Problem):
        raise InputError(f"the task {name} must make a Problem, got {type(problem).__name__}")
    return problem


def noise_from(value: Any) -> Any:
    """Recording noise: one number, or a table of numbers by channel."""
    if isinstance(value, dict):
        return {name: toml.number(each) for name, each in value.items()}
    return toml.number(value)


def _reader_options(dataset: str, value: Any) -> dict[str, Any]:
    known = list(inspect.signature(datasets.describe(dataset).reader).parameters)[1:]
    for key in toml.mapping(value):
        checks.one_of("option", key, known)
    return value


def _experiments(value: Any) -> int:
    return check_bootstrap(toml.whole(value))


def check_bootstrap(n: int) -> int:
    """A number of experiments to bootstrap from: 0 is none, and one tells nothing."""
    if n < 0 or n == 1:
        raise InputError(f"bootstrap must be 0 (none) or at least 2 experiments, got {n}")
    return n


def _step(value: Any) -> float:
    dt = toml.number(value)
    if not 0 < dt < math.inf:
        raise InputError(f"must be seconds, more than 0, got {dt:g}")
    return dt
