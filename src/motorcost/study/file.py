"""From a study file to the arguments of a `Study`: what the schema alone cannot decide."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from motorcost import checks
from motorcost.errors import InputError
from motorcost.fitting.leads import leads_of
from motorcost.fitting.specification import takes_arguments
from motorcost.io import datasets
from motorcost.study import schema
from motorcost.study.cuts import check_cuts
from motorcost.study.document import Document, read_document
from motorcost.study.selection import trial_range
from motorcost.study.settings import check_bootstrap, check_method
from motorcost.study.task_lookup import check_free_name, example_problem, find_task
from motorcost.tasks.declarations import Task, defaults_of
from motorcost.tasks.supports import Support


def read_study(path: Path) -> dict[str, Any]:
    """The arguments of `Study` that a file stands for."""
    document, file = read_document(path)
    with document.at("model", "task"):
        task = find_task(file.model.task, file.model.problem_seed, path.parent)
    fixed = _fixed(document, file, task)
    with document.at("fit", "method"):
        check_method(file.fit.method)
    with document.at("model", "lead"):
        lead = leads_of(file.model.lead)
    with document.at("report", "bootstrap"):
        check_bootstrap(file.report.bootstrap)
    _check_states(document, file, task, fixed)
    steps = _steps(document, file.prepare)
    with document.at("report", "cuts"):
        check_cuts(file.report.cuts, steps)
    return {
        "title": file.title,
        "files": [path.parent / name for name in file.data.file],
        "dataset": file.data.dataset,
        "reading": _reading(document, file.data),
        "prepare": steps,
        "task": task,
        "task_name": file.model.task,
        "dt": file.model.dt,
        "lead": lead,
        "delay": file.model.delay,
        "fixed": fixed,
        "free": _free(document, file, task, fixed),
        **file.observer.model_dump(),
        **file.fit.model_dump(),
        **file.report.model_dump(),
        "written_at": _places(document),
    }


def _places(document: Document) -> dict[str, str]:
    """Where the file says how to read and prepare recordings: what is wrong with that is known only
    when they are there."""
    steps = {f"prepare.{step}": ("prepare", step) for step in document.values.get("prepare", {})}
    data = ("data", "units") if "units" in document.values["data"] else ("data",)
    locations = {**steps, "data": data, "observer.states": ("observer", "states")}
    return {key: document.place(location) for key, location in locations.items()}


def _check_states(
    document: Document, file: schema.StudyFile, task: Task, fixed: dict[str, Any]
) -> None:
    """Raise where the task has no such state, as far as it runs with its defaults."""
    try:
        known = example_problem(task, file.model.task, fixed).state_names
    except InputError:  # which is said when the trials are made
        return
    with document.at("observer", "states"):
        for state in file.observer.states or ():
            checks.one_of(f"state of {file.model.task}", state, known)


def _reading(document: Document, data: schema.Data) -> dict[str, Any]:
    """The options of the reader: of a table in the file, or of a public data set."""
    options = data.model_dump(exclude_unset=True, exclude={"file", "dataset", "options"})
    if data.dataset is None:
        with document.at("data", "options"):
            if data.options is not None:
                raise InputError("are those of a data set, and dataset is missing")
        return options
    with document.at("data", "dataset"):
        reader = datasets.describe(data.dataset).reader
    for key in options:
        with document.at("data", key):
            raise InputError(f"the data set {data.dataset} is read as it is: leave {key} out")
    known = list(inspect.signature(reader).parameters)[1:]
    for option in data.options or {}:
        with document.at("data", "options", option):
            checks.one_of("option", option, known)
    return data.options or {}


def _steps(document: Document, prepare: schema.Prepare) -> list[tuple[str, dict[str, Any]]]:
    """The steps of the preparation in the file's order, which the schema does not keep."""
    arguments = prepare.model_dump(exclude_unset=True)
    arguments |= {} if prepare.keep is None else {"keep": {"where": prepare.keep}}
    if prepare.trials is not None:
        with document.at("prepare", "trials"):
            trial_range(prepare.trials)
        arguments["trials"] = {"which": prepare.trials}
    return [(step, arguments[step]) for step in document.values.get("prepare", {})]


def _fixed(document: Document, file: schema.StudyFile, task: Task) -> dict[str, Any]:
    """Fixed parameters as the task takes them: whole where its default is a whole number."""
    defaults = defaults_of(task)
    values: dict[str, Any] = {}
    for name, value in file.model.fixed.items():
        location = ("model", "fixed", name)
        with document.at(*location):
            checks.one_of("parameter", name, takes_arguments(task))
            values[name] = value
            if isinstance(defaults.get(name), int):
                values[name] = document.value(location)  # as written: the schema made it a float
                if not isinstance(values[name], int):
                    raise InputError(f"must be a whole number, got {values[name]!r}")
    return values


def _free(
    document: Document, file: schema.StudyFile, task: Task, fixed: dict[str, Any]
) -> dict[str, Support | None]:
    """Where each free parameter can lie; None for the task's usual support."""
    with document.at("free"):
        if not file.free:
            raise InputError("name at least one parameter to infer")
    supports = {}
    for name, declared in file.free.items():
        with document.at("free", name):
            check_free_name(name, task, file.model.task, file.observer.states, fixed)
            supports[name] = schema.support_of(declared)
    return supports
