"""Fits in files: `Fit.save` and `mc.load`.

A file is a NumPy archive (.npz). Its entry `header` is text in JSON: the numbers of the fit, what
was free and fixed, and the names of task and observer. The other entries are the trials. Nothing in
it is code.
"""

import json
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import asdict, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from motorcost import checks
from motorcost.errors import InputError
from motorcost.fitting.delays import DelayFit
from motorcost.fitting.engine import Maximum, Nearby
from motorcost.fitting.fitted import Fit
from motorcost.fitting.leads import LeadFit
from motorcost.fitting.optimise import Found
from motorcost.fitting.specification import make_objective
from motorcost.io.arrays import read_npz
from motorcost.io.files import written_whole
from motorcost.io.functions import found_observer, found_task, observer_record, task_record
from motorcost.io.limits import GIBIBYTE
from motorcost.model.observer import Observer
from motorcost.model.problem import Problem
from motorcost.model.trials import Trials
from motorcost.tasks.declarations import Task
from motorcost.tasks.supports import Support

KIND = "motorcost fit"
FORMAT = 2
# Classes that may be stored in a fit, besides numbers, text, arrays and tuples.
_CLASSES: dict[str, Any] = {
    "Found": Found,
    "LeadFit": LeadFit,
    "DelayFit": DelayFit,
    "Maximum": Maximum,
    "Nearby": Nearby,
}
# What reading something else, or only a part of a file, may raise.
_UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
)


def save_fit(fit: Fit, path: Path) -> None:
    """Write a fit to a file, whole or not at all; see `Fit.save`."""
    objective = fit.objective
    conditions = fit.conditions
    header = {
        "kind": KIND,
        "format": FORMAT,
        "versions": {name: version(name) for name in ("motorcost", "jax", "numpy")},
        "names": list(fit.names),
        "task": task_record(objective.task),
        "observer": observer_record(objective.observer),
        "free": {c.parameter: asdict(c.support) for c in objective.coordinates},
        "fixed": {name: _encoded(f"fixed {name}", value) for name, value in objective.fixed},
        "channels": dict(zip(fit.trials.channel_names, fit.trials.channel_units, strict=True)),
        "conditions": {name: fit.trials.condition_units.get(name, "") for name in conditions},
        "fit": {
            field.name: _encoded(field.name, getattr(fit, field.name))
            for field in fields(fit)
            if field.name != "objective"
        },
    }
    arrays = {
        name: np.asarray(getattr(fit.trials, name))
        for name in ("observed", "times", "lengths", "starts")
        if getattr(fit.trials, name) is not None
    }
    for i, (name, values) in enumerate(conditions.items()):
        if values.dtype.hasobject:
            raise InputError(f"the condition {name} cannot be saved: make it numbers or text")
        arrays[f"condition_{i}"] = values
    arrays["header"] = np.frombuffer(json.dumps(header).encode("utf-8"), np.uint8)
    with written_whole(path) as draft, draft.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def load(
    path: str | Path,
    *,
    task: Task | None = None,
    observer: Callable[[Problem], Observer] | None = None,
) -> Fit:
    """Read a fit that `Fit.save` wrote.

    Parameters
    ----------
    path : str or Path
        The file.
    task, observer : callable, optional
        The task and the observer of the fit, where the file does not have them: those that were
        defined in a notebook or a script, or as a lambda. Where given, they are used instead of
        what the file names.

    Returns
    -------
    Fit
        With the same estimates, errors and trials as the one that was saved.

    Notes
    -----
    The file holds no code, but it may name a task or an observer of an installed module, which is
    then imported and called: load files from people you trust.

    Examples
    --------
    >>> fit.save("fit.npz")
    >>> mc.load("fit.npz").names
    ('effort',)
    """
    checks.require_float64()
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    header, arrays = _read(path)
    try:
        free = {name: Support(**support) for name, support in header["free"].items()}
        fixed = {name: _decoded(value) for name, value in header["fixed"].items()}
        numbers = {name: _decoded(value) for name, value in header["fit"].items()}
        trials = _trials(header, arrays)
        names = tuple(header["names"])
        task_named, observer_named = dict(header["task"]), dict(header["observer"])
    except _UNREADABLE:
        raise _damaged(path) from None
    given = task is not None or observer is not None
    try:
        task = found_task(task_named, str(path)) if task is None else task
        observer = found_observer(observer_named, str(path)) if observer is None else observer
        objective = make_objective(task, trials, free, fixed=fixed, observer=observer)
    except InputError:
        raise
    except _UNREADABLE:
        if given:  # then it may be a fault of what was given
            raise
        raise _damaged(path) from None
    try:
        fit = Fit(objective=objective, **numbers)
        count = len(names)
        whole = fit.point.shape == (count,) and fit.information.shape == (count, count)
        whole = whole and objective.names == names
    except _UNREADABLE:
        raise _damaged(path) from None
    if not whole:
        raise _damaged(path)
    return fit


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a file."""
    try:
        arrays = read_npz(path, GIBIBYTE)
        header = json.loads(arrays.pop("header").tobytes().decode("utf-8"))
        kind, number = header["kind"], header["format"]
    except _UNREADABLE:
        raise _damaged(path) from None
    if kind != KIND or not isinstance(number, int):
        raise _damaged(path)
    if number > FORMAT:
        raise InputError(
            f"{path}: was written by a newer version of motorcost (format {number}); this version "
            f"reads format {FORMAT}"
        )
    return header, arrays


def _damaged(path: Path) -> InputError:
    return InputError(f"{path}: is not a file that Fit.save wrote, or it is damaged")


def _trials(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Trials:
    starts = arrays.get("starts")
    return Trials(
        arrays["observed"],
        jnp.asarray(arrays["times"]),
        channels=header["channels"],
        starts=None if starts is None else jnp.asarray(starts),
        lengths=arrays["lengths"],
        conditions={name: arrays[f"condition_{i}"] for i, name in enumerate(header["conditions"])},
        condition_units=header["conditions"],
    )


def _encoded(name: str, value: Any) -> Any:
    """A value as JSON can hold it, so that `_decoded` gives the same value back."""
    if isinstance(value, np.ndarray):
        return {"array": value.ravel().tolist(), "shape": list(value.shape)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return {"tuple": [_encoded(name, part) for part in value]}
    for kind, stored in _CLASSES.items():
        if isinstance(value, stored):
            parts = {field.name: getattr(value, field.name) for field in fields(value)}
            return {kind: {part: _encoded(name, content) for part, content in parts.items()}}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InputError(f"{name} cannot be saved: it is a {type(value).__name__}")


def _decoded(value: Any) -> Any:
    """What `_encoded` was given."""
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return np.array(value["array"]).reshape(value["shape"])
    if "tuple" in value:
        return tuple(_decoded(part) for part in value["tuple"])
    ((kind, parts),) = value.items()
    return _CLASSES[kind](**{name: _decoded(content) for name, content in parts.items()})
