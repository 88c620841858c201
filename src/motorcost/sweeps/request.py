"""What a call of `sweep` asks for, checked before anything is run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from typing import Any

import jax
import numpy as np

from motorcost import checks
from motorcost.errors import InputError
from motorcost.sweeps.cells import (
    CALLS,
    Call,
    Cells,
    read_cells,
    read_repetitions,
    read_static,
)
from motorcost.sweeps.identity import full_name, settings_of

# Rows in one call where a call takes many: enough to pay, few enough to be lost when killed.
_BATCH_SIZE = 32


@dataclass(frozen=True)
class Request:
    """Everything that the rows of a sweep depend on.

    - `static`: the swept names whose value is the same within one call.
    - `version`: of the function, as the user states it.

    The other fields are as in `sweep`.
    """

    function: Callable[..., Any]
    cells: Cells
    seed: int
    call: Call
    batch_size: int
    static: tuple[str, ...]
    version: str

    def description(self) -> Mapping[str, Any]:
        """Everything that results depend on, to be compared when a sweep is continued."""
        return {
            "motorcost": installed_version("motorcost"),
            "jax": jax.__version__,
            "precision": 64 if jax.config.jax_enable_x64 else 32,  # type: ignore[attr-defined]
            "function": full_name(self.function),
            "version": self.version,
            "settings": settings_of(self.function),
            "cells": self.cells.checksum(),
            "repetitions": _written(self.cells.repetitions),
            "seed": self.seed,
            "call": self.call,
            "batch_size": self.batch_size,
            "static": list(self.static),
        }


def read_request(
    function: Any,
    over: Any,
    *,
    repetitions: Any,
    seed: Any,
    call: Any,
    batch_size: Any,
    static: Any,
    version: Any,
) -> Request:
    """Check the arguments of `sweep` that rows depend on, and fill in what was left out."""
    checks.one_of("call", call, CALLS)
    if checks.whole("seed", seed, 0, "of the random keys", most=2**64) >= 2**32:
        raise InputError(f"seed (of the random keys) must be below 2**32, got {seed}")
    if batch_size is None:
        batch_size = 1 if call == "each" else _BATCH_SIZE
    checks.whole("batch_size", batch_size, 1, "rows in one call")
    if isinstance(version, bool) or not isinstance(version, (str, int, np.integer)):
        raise InputError(
            f"version (of the function) must be a string or a whole number, got {version!r}"
        )
    cells = read_cells(over, read_repetitions(repetitions))
    static = read_static(static, cells, call)
    _check_function(function, call, cells, static)
    return Request(function, cells, int(seed), call, int(batch_size), static, str(version))


def check_where(workers: Any, scheduler: Any) -> None:
    """Raise unless the sweep is told one place to run in, or none (this process)."""
    if workers is None:
        return
    checks.whole("workers", workers, 1, "processes on this machine")
    if scheduler is not None:
        raise InputError("give workers (on this machine) or a scheduler, not both")


def _check_function(function: Any, call: Call, cells: Cells, static: Sequence[str]) -> None:
    """Raise if the function cannot be called as the sweep will, before the first cell is run."""
    keys = "keys" if call == "arrays" else "key"
    try:
        checks.takes("function", function, **{keys: ...}, **cells.columns)
    except InputError as error:
        other = "key" if call == "arrays" else "keys"
        if callable(function) and other in inspect.signature(function).parameters:
            hint = 'call="each" or "vmap"' if call == "arrays" else 'call="arrays"'
            raise InputError(f"{error} (a function of {other} is swept with {hint})") from None
        raise
    if hasattr(function, "check_columns"):
        function.check_columns(cells.columns, static)


def _written(repetitions: range) -> int | str:
    return f"{repetitions.start} to {repetitions[-1]}" if repetitions.start else repetitions.stop
