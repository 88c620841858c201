"""Tasks and observers as they are stored in a file: by name, never as code.

A record is a mapping that JSON can hold. `name` is what people call the function; one of the
other keys says how to find it again, if it can be found at all.
"""

import importlib
import importlib.util
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from motorcost import tasks
from motorcost.errors import InputError
from motorcost.model.observer import ObserverSpec
from motorcost.tasks.declarations import Task
from motorcost.tasks.late_senses import delayed


def name_of(function: Any) -> str:
    """Return what to call a task or an observer."""
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)


def task_record(task: Task) -> dict[str, Any]:
    """Return the record of a task: built in, made by `random_problem`, or of a module."""
    record: dict[str, Any] = {"name": name_of(task)}
    if any(getattr(tasks, name) is task for name in tasks.__all__):
        return record | {"built_in": record["name"]}
    delayed_by = getattr(task, "delayed_by", {})
    if delayed_by.get("function") is task:
        of_task = task_record(delayed_by["task"])
        return record | {"delayed": {"task": of_task, "steps": delayed_by["steps"]}}
    drawn_with = getattr(task, "drawn_with", {})
    if drawn_with.get("task") is task:
        return record | {"random_problem": _plain_arguments(drawn_with)}
    return record | _in_module(task)


def found_task(record: Mapping[str, Any], where: str) -> Task:
    """Return the task of a record; `where` names the file in messages."""
    if "built_in" in record and record["built_in"] in tasks.__all__:
        return getattr(tasks, record["built_in"])
    if "delayed" in record:
        within = record["delayed"]
        return delayed(found_task(within["task"], where), within["steps"])
    if "random_problem" in record:
        arguments = dict(record["random_problem"])
        key = arguments.pop("key")
        data = jnp.array(key["data"], jnp.uint32)
        return tasks.random_problem(
            jax.random.wrap_key_data(data, impl=key["implementation"]), **arguments
        )
    task = _from_module(record, where, "task")
    if "steps" not in inspect.signature(task).parameters:
        raise InputError(
            f"{where}: {record['function']} is no task any more, because it does not take steps: "
            "pass the task, as in mc.load(path, task=my_task)"
        )
    return task


def observer_record(observer: Any) -> dict[str, Any]:
    """Return the record of an observer: an `ObserverSpec`, or a function of a module."""
    if isinstance(observer, ObserverSpec):
        noise = list(observer.noise) if isinstance(observer.noise, tuple) else observer.noise
        return {"name": "ObserverSpec", "states": list(observer.states), "noise": noise}
    return {"name": name_of(observer)} | _in_module(observer)


def found_observer(record: Mapping[str, Any], where: str) -> Callable[..., Any]:
    """Return the observer of a record; `where` names the file in messages."""
    if "states" in record:
        return ObserverSpec(record["states"], record["noise"])
    return _from_module(record, where, "observer")


def _plain_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `random_problem`, with the random key as whole numbers."""
    key = arguments["key"]
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(key)
    drawn = {
        "data": np.asarray(jax.random.key_data(key)).tolist(),
        "implementation": str(jax.random.key_impl(key)),
    }
    numbers = {name: value for name, value in arguments.items() if name not in ("task", "key")}
    return {"key": drawn} | {name: np.asarray(value).item() for name, value in numbers.items()}


def _in_module(function: Any) -> dict[str, str]:
    """Where a function can be imported from; nothing if an import would not find this very one."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not name or module == "__main__":
        return {}
    # A task read from a file by its path has a module that another process cannot import.
    if not all(part.isidentifier() for part in f"{module}.{name}".split(".")):
        return {}
    try:
        found = _imported(module, name)
    except (ImportError, AttributeError):
        return {}
    return {"function": f"{module}:{name}"} if found is function else {}


def _from_module(record: Mapping[str, Any], where: str, kind: str) -> Callable[..., Any]:
    needed = f"pass it, as in mc.load(path, {kind}=my_{kind})"
    if "function" not in record:
        raise InputError(f"{where}: the {kind} {record['name']} is not in the file: {needed}")
    module, _, name = record["function"].partition(":")
    try:
        function = _imported(module, name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"{where}: the {kind} {record['function']} cannot be imported ({error}): {needed}"
        ) from None
    if not callable(function):
        raise InputError(f"{where}: {record['function']} is no function any more: {needed}")
    return function


def _imported(module: str, name: str) -> Any:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found
