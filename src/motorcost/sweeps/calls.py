"""Calling the function on the rows of a batch, and distinguishing failures of a cell from bugs."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from motorcost.errors import InputError, PrecisionError
from motorcost.sweeps.cells import RESERVED, Batch, Call, Value, describe

# Longer messages are cut, because a table is read by people.
LONGEST_REASON = 500
# Errors of the program or the machine rather than of a cell: they would come back in all cells.
BUGS = (
    TypeError,
    NameError,
    AttributeError,
    KeyError,
    ImportError,
    NotImplementedError,
    MemoryError,
    PrecisionError,
    jax.errors.JAXIndexError,
)


class ResultError(InputError):
    """What the function returned cannot be a row of a table."""


@dataclass(frozen=True)
class Outcome:
    """The results of a batch: columns with one value per row, None where the row failed.

    `failed` has one string per row: why it failed, or "".
    """

    columns: Mapping[str, Sequence[Value | None]]
    failed: Sequence[str]


@dataclass(frozen=True)
class Work:
    """The batches to run, by number.

    - `function`, `call`: the function, and how it is called.
    - `pending`: the numbers of the batches; `batch`: makes the batch of a number.
    - `keep`: called with the number and the outcome of every batch as soon as it is there.
    """

    function: Callable[..., Any]
    call: Call
    pending: Sequence[int]
    batch: Callable[[int], Batch]
    keep: Callable[[int, Outcome], None]


class Caller:
    """Calls a function as the user asked for, and keeps what was compiled."""

    def __init__(self, function: Callable[..., Any], call: Call) -> None:
        self._function = function
        self._call = call
        # One program per set of static values. Batches that share them come after each other.
        self._compiled = functools.lru_cache(maxsize=16)(self._compile)

    def __call__(self, batch: Batch, called: Callable[[], None] = lambda: None) -> Outcome:
        """Run a batch. Bugs are raised, other errors become rows that failed.

        `called` is called after every call of the function.
        """
        if self._call == "each":
            keys = _keys(batch.seed, batch.bits)
            rows = []
            for row in range(len(batch)):
                rows.append(self._call_on_row(batch, row, keys[row]))
                called()
            return _joined(batch, rows)
        try:
            outcome = self._call_on_batch(batch)
            called()
            return outcome
        except Exception as error:
            called()
            _raise_bugs(error, "one of the cells from " + _words(batch, 0))
            if len(batch) == 1:
                return Outcome({}, [_reason(error)])
        # At least one row failed, and the others with it: run every row by itself.
        return _joined(batch, [self(batch.single(row), called) for row in range(len(batch))])

    def _call_on_row(self, batch: Batch, row: int, key: Any) -> Outcome:
        try:
            result = self._function(key=key, **batch.cell(row))
            # JAX computes while Python goes on: its errors show when the numbers are asked for.
            found = {name: [_scalar(name, value)] for name, value in _items(result)}
            if "failed" in found:
                raise ResultError(
                    "the function must not return 'failed', which the sweep fills in: raise an "
                    "error instead"
                )
        except Exception as error:
            _raise_bugs(error, _words(batch, row))
            return Outcome({}, [_reason(error)])
        return Outcome(found, [""])

    def _call_on_batch(self, batch: Batch) -> Outcome:
        filled = np.resize(np.arange(len(batch)), batch.size)
        keys = _keys(batch.seed, batch.bits[filled])
        columns = {name: np.array(values)[filled] for name, values in batch.columns.items()}
        if self._call == "vmap":
            result = self._compiled(tuple(batch.static.items()))(keys, columns)
        else:
            result = self._function(keys=keys, **columns, **batch.static)
        found = {
            name: _values(name, value, batch.size)[: len(batch)] for name, value in _items(result)
        }
        failed = found.pop("failed", [""] * len(batch))
        if not all(isinstance(reason, str) for reason in failed):
            raise ResultError("the column 'failed' must be strings, empty where a row did not fail")
        return Outcome(found, [_one_line(str(reason)) for reason in failed])

    def _compile(self, static: tuple[tuple[str, Value], ...]) -> Callable[..., Any]:
        def call_on_cell(key: Any, cell: Mapping[str, Any]) -> Any:
            return self._function(key=key, **cell, **dict(static))

        # Not `jax.jit`, whose errors do not contain the message of `eqx.error_if`.
        return eqx.filter_jit(jax.vmap(call_on_cell))


@jax.jit
def _folded(root: Any, bits: Any) -> Any:
    def fold(pair: Any) -> Any:
        return jax.random.fold_in(jax.random.fold_in(root, pair[0]), pair[1])

    return jax.vmap(fold)(bits)


def _keys(seed: int, bits: np.ndarray) -> Any:
    return _folded(jax.random.key(seed), bits)


def _joined(batch: Batch, rows: Sequence[Outcome]) -> Outcome:
    """The outcome of a batch from those of its rows, which must have the same columns."""
    names: list[str] | None = None
    for row, outcome in enumerate(rows):
        if not outcome.columns:
            continue
        names = list(outcome.columns) if names is None else names
        if set(names) != set(outcome.columns):
            raise ResultError(
                f"the function returned {', '.join(outcome.columns)} for {_words(batch, row)}, "
                f"but {', '.join(names)} for another cell: every cell needs the same columns"
            )
    columns = {
        name: [outcome.columns[name][0] if outcome.columns else None for outcome in rows]
        for name in names or ()
    }
    return Outcome(columns, [outcome.failed[0] for outcome in rows])


def _items(result: Any) -> list[tuple[str, Any]]:
    if not isinstance(result, Mapping) or not result:
        raise ResultError(
            f"the function must return a mapping from names to values, got {type(result).__name__}"
            + (" without any name" if isinstance(result, Mapping) else "")
        )
    for name in result:
        if not isinstance(name, str) or (name in RESERVED and name != "failed"):
            raise ResultError(f"the function returned {name!r}, which cannot name a column")
    return list(result.items())


def _values(name: str, values: Any, size: int) -> list[Value]:
    if isinstance(values, (list, tuple)):
        array = np.fromiter(values, object, len(values))
    else:
        array = np.asarray(values)
    if array.shape != (size,):
        raise ResultError(
            f"the column {name!r} must have one value for each of the {size} cells, that is shape "
            f"({size},), got {array.shape}"
        )
    return [_scalar(name, value) for value in array.tolist()]


def _scalar(name: str, value: Any) -> Value:
    if not isinstance(value, (bool, int, float, str)):
        array = np.asarray(value)
        if array.ndim or array.dtype.kind not in "biufU":
            got = f"an array of shape {array.shape}" if array.ndim else type(value).__name__
            raise ResultError(
                f"the column {name!r} must be one number or string per cell, got {got}"
            )
        value = array.item()
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(value)
    return value


def _raise_bugs(error: Exception, where: str) -> None:
    """Raise an error that is no result of a cell, with a note of where it happened."""
    if isinstance(error, ResultError):
        raise ResultError(f"{error} (in {where})") from None
    # JAX has one class for all errors of its runtime, and XLA's status code only in the message.
    out_of_memory = isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(
        error
    )
    if out_of_memory or isinstance(error, BUGS):
        error.add_note(f"in the sweep's cell {where}")
        raise error


def _words(batch: Batch, row: int) -> str:
    return describe(batch.cell(row), batch.repetitions[row])


def _reason(error: Exception) -> str:
    name, text = type(error).__name__, str(error)
    # Equinox puts the message of `eqx.error_if` between a traceback, which differs between a
    # worker and this process, and advice. The message alone is kept.
    message = re.search(rf"\bequinox\.{name}: (.*?)\n\n-----", text, re.DOTALL)
    return _one_line(f"{name}: {message[1] if message else text}")


def _one_line(text: str) -> str:
    return " ".join(text.split())[:LONGEST_REASON]
