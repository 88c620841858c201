"""What is swept: cells, the batches that their rows are run in, and the randomness of each row.

A cell is one combination of swept values. A row is one run of a cell, and a batch is the rows that
are run in one call of the function and kept in one file.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from motorcost import checks
from motorcost.errors import InputError

Value = bool | int | float | str
# How the function is called: with one cell, with traced cells, or with columns.
Call = Literal["each", "vmap", "arrays"]
CALLS: tuple[Call, ...] = ("each", "vmap", "arrays")
# Names that the table or the call has another use for.
RESERVED = ("key", "keys", "repetition", "failed")


@dataclass(frozen=True)
class Cells:
    """The cells of a sweep: `columns` has a value for each cell, by name; a column has one type.

    Each cell is run once for each of the `repetitions`. The rows of the first cell come first.
    """

    columns: Mapping[str, Sequence[Value]]
    repetitions: range

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(next(iter(self.columns.values())))

    @property
    def total(self) -> int:
        """The number of rows."""
        return self.size * len(self.repetitions)

    def cell(self, row: int) -> dict[str, Value]:
        """The values of a row's cell, by name."""
        return {name: self.column(name, [row])[0] for name in self.columns}

    def repetition(self, row: int) -> int:
        """The repetition of its cell that a row is."""
        return self.repetitions[row % len(self.repetitions)]

    def column(self, name: str, rows: Iterable[int]) -> list[Value]:
        """The values that a swept name, or "repetition", has in the given rows."""
        if name == "repetition":
            return [self.repetition(row) for row in rows]
        return [self.columns[name][row // len(self.repetitions)] for row in rows]

    @property
    def names(self) -> tuple[str, ...]:
        """The first columns of the table: the swept names, and the repetition."""
        return (*self.columns, "repetition")

    def checksum(self) -> str:
        """A checksum that is the same for the same cells in the same order, on any machine."""
        return hashlib.sha256(_canonical(dict(self.columns), sort=False)).hexdigest()


@dataclass(frozen=True)
class Batch:
    """The rows of one call, ready to be sent to the process that runs them.

    - `columns`, `repetitions`: one value per row.
    - `static`: by name, the values that all rows share and that stay plain Python values.
    - `bits`: two numbers per row that its random key is made of (see `fold`), besides `seed`.
    - `size`: the number of rows to fill up to, so that only one shape is compiled.
    """

    columns: Mapping[str, Sequence[Value]]
    static: Mapping[str, Value]
    repetitions: Sequence[int]
    bits: np.ndarray
    seed: int
    size: int

    def __len__(self) -> int:
        return len(self.repetitions)

    def cell(self, row: int) -> dict[str, Value]:
        """The values of a row's cell, by name."""
        return {name: values[row] for name, values in self.columns.items()} | dict(self.static)

    def single(self, row: int) -> Batch:
        """One of the rows as a batch, to be filled up to the same size."""
        columns = {name: [values[row]] for name, values in self.columns.items()}
        only = slice(row, row + 1)
        bits, repetitions = self.bits[only], self.repetitions[only]
        return Batch(columns, self.static, repetitions, bits, self.seed, self.size)


def read_cells(over: Any, repetitions: range) -> Cells:
    """The cells that a user asks for: a grid, or a table with one row per cell."""
    if hasattr(over, "to_dict") and hasattr(over, "columns"):  # pandas', without importing it
        columns = {name: over[name].tolist() for name in over.columns}
    elif isinstance(over, Mapping):
        columns = _grid(over)
    elif isinstance(over, Sequence) and not isinstance(over, str):
        columns = _columns_of_list(over)
    else:
        raise InputError(
            "over must be a mapping from names to values, or a table of cells, got "
            f"{type(over).__name__}"
        )
    for name in columns:
        if not isinstance(name, str):
            raise InputError(f"the names in over must be strings, got {name!r}")
        if name in RESERVED:
            raise InputError(f"over must not have the name {name!r}, which the sweep itself uses")
    if not columns or not all(len(values) for values in columns.values()):
        raise InputError("over must have at least one cell, got none")
    cells = Cells({name: _column(name, values) for name, values in columns.items()}, repetitions)
    _refuse_duplicates(cells)
    return cells


def read_repetitions(repetitions: Any) -> range:
    """The repetitions that a user asks for: a number of them, counted from 0, or a range."""
    if not isinstance(repetitions, range):
        return range(checks.whole("repetitions", repetitions, 1, "runs of each cell"))
    if not repetitions or repetitions.start < 0 or repetitions.step != 1:
        raise InputError(
            "repetitions must be a number or a range without gaps, as range(10, 30), got "
            f"{repetitions}"
        )
    return repetitions


def divide(cells: Cells, static: Sequence[str], batch_size: int) -> list[Sequence[int]]:
    """The rows of each batch: at most `batch_size`, all with the same values of `static`.

    Batches depend on nothing else, so that neither workers nor interruptions change a number.
    """
    if not static:
        groups: Iterable[Sequence[int]] = [range(cells.total)]
    else:
        by_value: dict[tuple[Value, ...], list[int]] = {}
        for row in range(cells.total):
            values = tuple(cells.column(name, [row])[0] for name in static)
            by_value.setdefault(values, []).append(row)
        groups = by_value.values()
    return [
        group[first : first + batch_size]
        for group in groups
        for first in range(0, len(group), batch_size)
    ]


def batch_maker(
    cells: Cells, static: Sequence[str], seed: int, size: int
) -> Callable[[Sequence[int]], Batch]:
    """A function that makes a batch of the rows with the given numbers."""

    def make(rows: Sequence[int]) -> Batch:
        return Batch(
            columns={n: cells.column(n, rows) for n in cells.columns if n not in static},
            static={name: cells.column(name, rows[:1])[0] for name in static},
            repetitions=[cells.repetition(row) for row in rows],
            bits=np.stack([fold(cells.cell(row), cells.repetition(row)) for row in rows]),
            seed=seed,
            size=size,
        )

    return make


def fold(cell: Mapping[str, Value], repetition: int) -> np.ndarray:
    """Two numbers of 32 bits that the random key of a row is made of, besides the seed.

    They depend on the cell's values and the repetition, not on the grid around it: a cell gives
    the same row in any sweep. 1 and 1.0 are the same value.
    """
    digest = hashlib.sha256(_canonical([dict(cell), repetition])).digest()
    return np.frombuffer(digest[:8], dtype=">u4").astype(np.uint32)


def _grid(over: Mapping[Any, Any]) -> dict[Any, list[Any]]:
    for name, values in over.items():
        # A set has another order in every process, and then seems to be another sweep.
        if isinstance(values, (str, bytes, Set)) or not hasattr(values, "__iter__"):
            raise InputError(f"over[{name!r}] must be a list of values, got {values!r}")
    combinations = list(itertools.product(*over.values()))
    return {name: [cell[i] for cell in combinations] for i, name in enumerate(over)}


def _columns_of_list(over: Sequence[Any]) -> dict[Any, list[Any]]:
    for i, cell in enumerate(over):
        if not isinstance(cell, Mapping):
            raise InputError(f"over[{i}] must be a mapping from names to values, got {cell!r}")
        if cell.keys() != over[0].keys():
            raise InputError(
                f"over must have the same names in every cell, got {', '.join(map(str, over[0]))} "
                f"in the first and {', '.join(map(str, cell))} in over[{i}]"
            )
    return {name: [cell[name] for cell in over] for name in (over[0] if over else ())}


def _column(name: str, values: Sequence[Any]) -> list[Value]:
    plain = [_plain(name, value) for value in values]
    types = {type(value) for value in plain}
    if types == {int, float}:
        return [float(value) for value in plain]
    if len(types) > 1:
        words = " and ".join(sorted(kind.__name__ for kind in types))
        raise InputError(f"the values of over[{name!r}] must have one type, got {words}")
    return plain


def _plain(name: str, value: Any) -> Value:
    if isinstance(value, np.generic) or (hasattr(value, "item") and np.ndim(value) == 0):
        value = value.item()
    if not isinstance(value, (bool, int, float, str)):
        raise InputError(
            f"the values of over[{name!r}] must be numbers, booleans or strings, got {value!r}"
        )
    if isinstance(value, float) and math.isnan(value):
        raise InputError(f"over[{name!r}] must not have missing values (NaN)")
    if isinstance(value, int):
        bounds = np.iinfo(np.int64)
        if not bounds.min <= value <= bounds.max:
            raise InputError(f"the values of over[{name!r}] must fit 64 bits, got {value}")
    # A member of an enumeration or a number of a library becomes a value of Python's own type.
    return next(kind(value) for kind in (bool, int, float, str) if isinstance(value, kind))


def _refuse_duplicates(cells: Cells) -> None:
    # Duplicates would have the same key and so the same row, and pass for two results.
    seen: dict[tuple[Value, ...], int] = {}
    for i, cell in enumerate(zip(*cells.columns.values(), strict=True)):
        if (first := seen.setdefault(cell, i)) != i:
            raise InputError(
                f"over has the cell {describe(cells.cell(i * len(cells.repetitions)))} twice "
                f"(numbers {first} and {i}): to run a cell more than once, give repetitions"
            )


def describe(cell: Mapping[str, Value], repetition: int | None = None) -> str:
    """A cell in words, for error messages."""
    words = [f"{name}={value!r}" for name, value in cell.items()]
    return ", ".join(words if repetition is None else [*words, f"repetition {repetition}"])


def _canonical(value: Any, *, sort: bool = True) -> bytes:
    """JSON that is the same for equal values, of which 1 and 1.0 are a pair."""

    def plainest(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plainest(item) for name, item in value.items()}
        if isinstance(value, list):
            return [plainest(item) for item in value]
        whole = isinstance(value, float) and value.is_integer()
        return int(value) if whole else value

    return json.dumps(plainest(value), sort_keys=sort, separators=(",", ":")).encode()


def read_static(static: Any, cells: Cells, call: Call) -> tuple[str, ...]:
    """The names whose value is the same in one call: those asked for, and those of strings."""
    if isinstance(static, str):
        raise InputError(f"static must be a list of names, as in static=[{static!r}], got a string")
    for name in static:
        checks.one_of("name in static", name, tuple(cells.columns))
    if call == "each":
        return ()  # each call has one cell, with plain values
    strings = {name for name, values in cells.columns.items() if isinstance(values[0], str)}
    return tuple(name for name in cells.columns if name in strings or name in static)
