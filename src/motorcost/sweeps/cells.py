"""What is swept: cells, the chunks that they are run in, and the randomness of each."""

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
    """What is swept: `columns` has a value for each cell, by name; a column has one type.

    Each cell is run once for each of the `repetitions`; a row is one run: those of the first cell
    come first.
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
        """Which run of its cell a row is."""
        return self.repetitions[row % len(self.repetitions)]

    def column(self, name: str, rows: Iterable[int]) -> list[Value]:
        """The values that a swept name, or "repetition", has in some rows."""
        if name == "repetition":
            return [self.repetition(row) for row in rows]
        return [self.columns[name][row // len(self.repetitions)] for row in rows]

    @property
    def names(self) -> tuple[str, ...]:
        """The table's first columns: what is swept, and the repetition."""
        return (*self.columns, "repetition")

    def checksum(self) -> str:
        """The same for the same cells in the same order, anywhere."""
        return hashlib.sha256(_canonical(dict(self.columns), sort=False)).hexdigest()


@dataclass(frozen=True)
class Batch:
    """The rows of one chunk, ready to be sent to wherever they are run.

    `columns` and `repetitions` have a value for each row, `bits` two numbers (see `fold`).
    `plain` are values that all rows share and that stay plain Python. `size` is the number of
    rows to fill up to, so that only one shape is compiled.
    """

    columns: Mapping[str, Sequence[Value]]
    plain: Mapping[str, Value]
    repetitions: Sequence[int]
    bits: np.ndarray
    seed: int
    size: int

    def __len__(self) -> int:
        return len(self.repetitions)

    def cell(self, row: int) -> dict[str, Value]:
        """The values of a row's cell, by name."""
        return {name: values[row] for name, values in self.columns.items()} | dict(self.plain)

    def one(self, row: int) -> Batch:
        """One of the rows by itself, to be filled up to the same size."""
        columns = {name: [values[row]] for name, values in self.columns.items()}
        only = slice(row, row + 1)
        bits, repetitions = self.bits[only], self.repetitions[only]
        return Batch(columns, self.plain, repetitions, bits, self.seed, self.size)


def read_cells(over: Any, repetitions: range) -> Cells:
    """The cells that a user asks for: a grid, or a table with a row for each."""
    if hasattr(over, "to_dict") and hasattr(over, "columns"):  # pandas', without importing it
        given = {name: over[name].tolist() for name in over.columns}
    elif isinstance(over, Mapping):
        given = _grid(over)
    elif isinstance(over, Sequence) and not isinstance(over, str):
        given = _listed(over)
    else:
        raise InputError(
            "over must be a mapping from names to values, or a table of cells, got "
            f"{type(over).__name__}"
        )
    for name in given:
        if not isinstance(name, str):
            raise InputError(f"over must have names that are strings, got {name!r}")
        if name in RESERVED:
            raise InputError(f"over must not have {name!r}: the sweep itself uses that name")
    if not given or not all(len(values) for values in given.values()):
        raise InputError("over must have a cell or more, got none")
    cells = Cells({name: _column(name, values) for name, values in given.items()}, repetitions)
    _refuse_twins(cells)
    return cells


def read_repetitions(repetitions: Any) -> range:
    """How often, from 0 on; or which ones."""
    if not isinstance(repetitions, range):
        return range(checks.whole("repetitions", repetitions, 1, "runs of each cell"))
    if not repetitions or repetitions.start < 0 or repetitions.step != 1:
        raise InputError(
            "repetitions must be one or more that follow each other, as range(10, 30), got "
            f"{repetitions}"
        )
    return repetitions


def cut(cells: Cells, apart: Sequence[str], together: int) -> list[Sequence[int]]:
    """The rows of each chunk: at most `together`, all with the same values of `apart`.

    Chunks depend on nothing else, so that neither workers nor interruptions change a number.
    """
    if not apart:
        groups: Iterable[Sequence[int]] = [range(cells.total)]
    else:
        by_value: dict[tuple[Value, ...], list[int]] = {}
        for row in range(cells.total):
            values = tuple(cells.column(name, [row])[0] for name in apart)
            by_value.setdefault(values, []).append(row)
        groups = by_value.values()
    return [
        group[first : first + together]
        for group in groups
        for first in range(0, len(group), together)
    ]


def batch_maker(
    cells: Cells, apart: Sequence[str], seed: int, size: int
) -> Callable[[Sequence[int]], Batch]:
    """A function that makes the batch of some rows."""

    def make(rows: Sequence[int]) -> Batch:
        return Batch(
            columns={name: cells.column(name, rows) for name in cells.columns if name not in apart},
            plain={name: cells.column(name, rows[:1])[0] for name in apart},
            repetitions=[cells.repetition(row) for row in rows],
            bits=np.stack([fold(cells.cell(row), cells.repetition(row)) for row in rows]),
            seed=seed,
            size=size,
        )

    return make


def fold(cell: Mapping[str, Value], repetition: int) -> np.ndarray:
    """Two numbers of 32 bits that a row's random key is made of, besides the seed.

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


def _listed(over: Sequence[Any]) -> dict[Any, list[Any]]:
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
        words = " and ".join(sorted(each.__name__ for each in types))
        raise InputError(f"over[{name!r}] must be values of one type, got {words}")
    return plain


def _plain(name: str, value: Any) -> Value:
    if isinstance(value, np.generic) or (hasattr(value, "item") and np.ndim(value) == 0):
        value = value.item()
    if not isinstance(value, (bool, int, float, str)):
        raise InputError(
            f"over[{name!r}] must be numbers, True and False, or strings, got {value!r}"
        )
    if isinstance(value, float) and math.isnan(value):
        raise InputError(f"over[{name!r}] must not have missing values (NaN)")
    if isinstance(value, int):
        bounds = np.iinfo(np.int64)
        if not bounds.min <= value <= bounds.max:
            raise InputError(f"over[{name!r}] must be numbers of 64 bits, got {value}")
    # A string of an enumeration, a number of a library: what is left is Python's own.
    return next(kind(value) for kind in (bool, int, float, str) if isinstance(value, kind))


def _refuse_twins(cells: Cells) -> None:
    # Twins would have the same key and so the same row, and pass for two results.
    seen: dict[tuple[Value, ...], int] = {}
    for i, cell in enumerate(zip(*cells.columns.values(), strict=True)):
        if (first := seen.setdefault(cell, i)) != i:
            raise InputError(
                f"over has the cell {describe(cells.cell(i * len(cells.repetitions)))} twice "
                f"(numbers {first} and {i}): to run a cell more than once, give repetitions"
            )


def describe(cell: Mapping[str, Value], repetition: int | None = None) -> str:
    """A cell in words, for errors."""
    words = [f"{name}={value!r}" for name, value in cell.items()]
    return ", ".join(words if repetition is None else [*words, f"repetition {repetition}"])


def _canonical(value: Any, sort: bool = True) -> bytes:
    def plainest(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plainest(each) for name, each in value.items()}
        if isinstance(value, list):
            return [plainest(each) for each in value]
        whole = isinstance(value, float) and value.is_integer()
        return int(value) if whole else value

    return json.dumps(plainest(value), sort_keys=sort, separators=(",", ":")).encode()


def check_apart(apart: Sequence[str], cells: Cells, call: Call) -> tuple[str, ...]:
    """The columns that are the same in one call: those asked for, and those of strings."""
    if isinstance(apart, str):
        raise InputError(f"apart must be a list of names, as in apart=[{apart!r}], got a string")
    for name in apart:
        checks.one_of("name in apart", name, tuple(cells.columns))
    if call == "each":
        return ()  # each call has one cell, with plain values
    strings = {name for name, values in cells.columns.items() if isinstance(values[0], str)}
    return tuple(name for name in cells.columns if name in strings or name in apart)
