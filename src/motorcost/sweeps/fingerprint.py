"""Whether a function is still the same one, in another process and on another day."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
import textwrap
import types
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def fingerprint(function: Callable[..., Any]) -> str:
    """A checksum of a function's code and of what it was made with.

    It covers the source, the defaults, what the function closes over, the fields of objects, and,
    of the function's own module, the functions that it calls and the constants that it uses.
    What it imports from elsewhere is told by name only.
    """
    text = json.dumps(_describe(function, ()))
    return hashlib.sha256(text.encode()).hexdigest()


def full_name(function: Any) -> str:
    """The module and name of a function, or of the type of an object that can be called."""
    if isinstance(function, functools.partial):
        return full_name(function.func)
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', None)}.{named.__qualname__}"


def _describe(value: Any, within: tuple[int, ...]) -> Any:
    """Plain lists and strings that are the same in every process: no addresses, no hashes."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return [type(value).__name__, repr(value)]
    if id(value) in within:  # a function that calls itself, a list that holds itself
        return "again"
    within = (*within, id(value))
    inside = functools.partial(_describe, within=within)
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        return _array(value, inside)
    if isinstance(value, functools.partial):
        return ["partial", inside(value.func), inside(value.args), inside(value.keywords)]
    if isinstance(value, types.MethodType):
        return ["method", inside(value.__func__), inside(value.__self__)]
    if isinstance(value, types.FunctionType):
        return _function(value, inside)
    if isinstance(value, types.CodeType):
        consts = [inside(each) for each in value.co_consts]
        return ["code", value.co_code.hex(), value.co_names, value.co_varnames, consts]
    if isinstance(value, types.ModuleType):
        return ["module", value.__name__]
    if isinstance(value, type):
        return ["type", full_name(value), _source(value)]
    if isinstance(value, Mapping):
        items = [[inside(name), inside(each)] for name, each in value.items()]
        return ["mapping", sorted(items, key=json.dumps)]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, [inside(each) for each in value]]
    if isinstance(value, (set, frozenset)):
        return ["set", sorted((inside(each) for each in value), key=json.dumps)]
    if dataclasses.is_dataclass(value):
        named = [field.name for field in dataclasses.fields(value)]
        fields = [[name, inside(getattr(value, name, None))] for name in named]
        return ["fields", inside(type(value)), fields]
    if hasattr(value, "__wrapped__"):  # jitted, cached
        return ["wrapped", full_name(type(value)), inside(value.__wrapped__)]
    if hasattr(value, "to_dict") and hasattr(value, "columns"):  # a table of pandas
        return ["table", [[inside(name), inside(value[name].tolist())] for name in value]]
    return _other(value, inside)


def _array(value: Any, inside: Callable[[Any], Any]) -> Any:
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return ["key", inside(jax.random.key_data(value))]
    array = np.asarray(value)
    if array.dtype.hasobject:
        return ["objects", array.shape, inside(array.ravel().tolist())]
    return ["array", str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).hexdigest()]


def _function(function: types.FunctionType, inside: Callable[[Any], Any]) -> Any:
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(inside(cell.cell_contents))
        except ValueError:  # a name that is not bound yet
            cells.append("unbound")
    return [
        "function",
        full_name(function),
        _source(function) or inside(function.__code__),
        inside(function.__defaults__),
        inside(function.__kwdefaults__),
        cells,
        [[name, inside(value)] for name, value in _globals(function)],
    ]


def _globals(function: types.FunctionType) -> list[tuple[str, Any]]:
    """What a function uses of its own module: constants and functions, sorted by name."""

    def names(code: types.CodeType) -> set[str]:
        nested = (each for each in code.co_consts if isinstance(each, types.CodeType))
        return set(code.co_names).union(*map(names, nested))

    def ours(value: Any) -> bool:
        if isinstance(value, types.FunctionType):
            return value.__module__ == function.__module__
        if isinstance(value, tuple):
            return all(ours(each) for each in value)
        return value is None or isinstance(value, (bool, int, float, str))

    # Dunders are where the code lies (__file__), not what it does.
    used = sorted(name for name in names(function.__code__) if not name.startswith("__"))
    known = function.__globals__
    return [(name, known[name]) for name in used if name in known and ours(known[name])]


def _source(value: Any) -> str | None:
    try:
        text = textwrap.dedent(inspect.getsource(value))
    except (OSError, TypeError):  # typed at a prompt, or not written in Python
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def _other(value: Any, inside: Callable[[Any], Any]) -> Any:
    try:
        state = vars(value)
    except TypeError:
        state = None
    if isinstance(value, types.BuiltinFunctionType) or not state:
        text = repr(value)
        # An address says where this process keeps it, nothing about what it is.
        return ["other", full_name(value), "" if " at 0x" in text else text]
    return ["object", inside(type(value)), inside(state)]
