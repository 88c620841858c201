"""What identifies a swept function: its full name, and the settings that it was made with; and
trials, by a checksum.

The code itself is not compared: a changed comment would refuse results that are still right, and
a changed function of another file would not be noticed. The user states a version instead.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from motorcost.model.trials import Trials

# Longer descriptions of a setting are cut, and end in a checksum of the whole.
LONGEST_SETTING = 200
_SHOWN = 60


def full_name(function: Any) -> str:
    """The module and name of a function, or of the type of an object that can be called."""
    if isinstance(function, functools.partial):
        return full_name(function.func)
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', None)}.{named.__qualname__}"


def settings_of(function: Callable[..., Any]) -> dict[str, str]:
    """The settings that a function was made with, by name, as text that can be compared.

    These are the arguments of a `functools.partial` and the fields of a data class, such as
    `Recovery`. Of their values, numbers, strings, lists, mappings, nested data classes and the
    contents of arrays are compared; functions, classes and all other objects only by their name.
    A function has no settings: what it closes over and its defaults are not looked at.
    """
    if isinstance(function, functools.partial):
        positional = {f"argument {i}": value for i, value in enumerate(function.args)}
        values = positional | function.keywords
        return settings_of(function.func) | {n: _cut(_describe(v)) for n, v in values.items()}
    if dataclasses.is_dataclass(function) and not isinstance(function, type):
        return {name: _cut(_describe(value)) for name, value in _fields(function).items()}
    return {}


def checksum_of_trials(trials: Trials) -> str:
    """SHA-256 of trials: of samples, times, lengths, starts and conditions."""
    digest = hashlib.sha256(",".join(trials.channel_names).encode())
    parts = [trials.observed, trials.times, trials.lengths, trials.starts]
    for part in [part for part in parts if part is not None]:
        digest.update(np.ascontiguousarray(part).tobytes())
    for name, values in sorted(trials.conditions.items()):
        digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def _describe(value: Any) -> str:
    """Text that is the same in every process for the same value: no addresses, no hashes."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    if isinstance(value, (np.ndarray, jax.Array)):
        return _describe_array(value)
    if isinstance(value, Mapping):
        items = sorted(f"{_describe(name)}: {_describe(item)}" for name, item in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, (list, tuple)):
        items = [_describe(item) for item in value]
        return f"[{', '.join(items)}]" if isinstance(value, list) else f"({', '.join(items)})"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(_describe(item) for item in value)) + "}"
    if isinstance(value, functools.partial):
        return f"partial({full_name(value)}, {settings_of(value)})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = (f"{name}={_describe(item)}" for name, item in _fields(value).items())
        return f"{full_name(value)}({', '.join(fields)})"
    return full_name(value)


def _describe_array(array: np.ndarray | jax.Array) -> str:
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        return f"key {_describe_array(jax.random.key_data(array))}"
    plain = np.ascontiguousarray(array)
    if plain.dtype.hasobject:
        return _describe(plain.tolist())
    return f"array of {plain.dtype}, shape {plain.shape}, checksum {_checksum(plain.tobytes())}"


def _fields(value: Any) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(value)]
    return {name: getattr(value, name, None) for name in names}


def _cut(text: str) -> str:
    if len(text) <= LONGEST_SETTING:
        return text
    return f"{text[:_SHOWN]}... (checksum {_checksum(text.encode())})"


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
