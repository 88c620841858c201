"""From what chunks gave to one table, the same whatever the order they came in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from motorcost.errors import InputError
from motorcost.sweeps.calls import Outcome
from motorcost.sweeps.cells import Cells, Value, describe

if TYPE_CHECKING:
    from pyarrow import Table

# Where the file of the whole table says of which type a column was before values were missing.
_KINDS = b"motorcost.kinds"


class Gathered:
    """What has been found so far, by the number of the chunk."""

    def __init__(self, cells: Cells, chunks: Sequence[Sequence[int]]) -> None:
        self._cells, self._chunks = cells, chunks
        self._outcomes: dict[int, Outcome] = {}
        self._texts: dict[str, bool] = {}  # the columns, and whether they are strings
        self.done = 0  # rows
        self.failed = 0

    def add(self, number: int, outcome: Outcome) -> None:
        """Take what a chunk gave; it replaces what the same chunk gave before."""
        self._check(number, outcome)
        self.forget([number])
        self.done += len(outcome.failed)
        self.failed += _count(outcome)
        self._outcomes[number] = outcome

    def forget(self, numbers: Iterable[int]) -> None:
        """Drop what some chunks gave, because they are run again."""
        for number in numbers:
            if (old := self._outcomes.pop(number, None)) is not None:
                self.done -= len(old.failed)
                self.failed -= _count(old)

    def missing(self, retry_failed: bool) -> list[int]:
        """The numbers of the chunks to run."""

        def undone(number: int) -> bool:
            outcome = self._outcomes.get(number)
            return outcome is None or (retry_failed and bool(_count(outcome)))

        return [number for number in range(len(self._chunks)) if undone(number)]

    def table(self) -> Table:
        """All rows in their order. Needs every chunk."""
        import pyarrow as pa

        numbers = range(len(self._chunks))
        found: dict[str, list[Any]] = {}
        failed = [""] * self._cells.total
        for number in numbers:  # in order, so that the first chunk orders the columns
            outcome = self._outcomes[number]
            for name, values in outcome.columns.items():
                column = found.setdefault(name, [None] * self._cells.total)
                for row, value in zip(self._chunks[number], values, strict=True):
                    column[row] = value
            for row, reason in zip(self._chunks[number], outcome.failed, strict=True):
                failed[row] = reason
        columns = _swept(self._cells, range(self._cells.total))
        kinds = {}
        for name, values in found.items():
            kind = _kind(values)
            if kind in (bool, int) and None in values:
                # pandas has no missing whole numbers: NaN, among floats. It is remembered what
                # they were, in case that the missing ones are run again.
                kinds[name] = kind.__name__
                kind = float
            columns[name] = _array(values, kind)
        columns["failed"] = _array(failed, str)
        return pa.table(columns).replace_schema_metadata({_KINDS: json.dumps(kinds)})

    def add_table(self, table: Table) -> None:
        """Take the rows of a whole table that `table` made before."""
        kinds = json.loads((table.schema.metadata or {}).get(_KINDS, "{}"))
        casts = {"int": int, "bool": bool}
        _expect(table, self._cells, range(self._cells.total))
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
        for name, kind in kinds.items():
            cast = casts[kind]
            columns[name] = [None if value is None else cast(value) for value in columns[name]]
        failed = columns.pop("failed")
        results = {name: each for name, each in columns.items() if name not in self._cells.names}
        for number, rows in enumerate(self._chunks):
            picked = {name: [values[row] for row in rows] for name, values in results.items()}
            self.add(number, Outcome(picked, [failed[row] for row in rows]))

    def part(self, number: int, outcome: Outcome) -> Table:
        """What one chunk gave, as a table with the cells beside it."""
        import pyarrow as pa

        self._check(number, outcome)
        columns = _swept(self._cells, self._chunks[number])
        for name, values in outcome.columns.items():
            columns[name] = _array(values, _kind(values))
        columns["failed"] = _array(outcome.failed, str)
        return pa.table(columns)

    def add_part(self, number: int, part: Table) -> None:
        """Take what a chunk gave before, as `part` wrote it."""
        if number >= len(self._chunks):
            raise InputError(f"this sweep has {len(self._chunks)} parts")
        _expect(part, self._cells, self._chunks[number])
        columns = {name: part.column(name).to_pylist() for name in part.column_names}
        failed = columns.pop("failed")
        results = {name: each for name, each in columns.items() if name not in self._cells.names}
        self.add(number, Outcome(results, failed))

    def _check(self, number: int, outcome: Outcome) -> None:
        """Raise unless the columns are those of the other chunks."""
        if not outcome.columns:
            return  # all failed
        row = self._chunks[number][0]
        where = describe(self._cells.cell(row), self._cells.repetition(row))
        for name in outcome.columns:
            if name in self._cells.columns:
                raise InputError(f"the function returned {name!r}, which is a name that is swept")
        if self._texts and self._texts.keys() != outcome.columns.keys():
            raise InputError(
                f"the function returned {', '.join(outcome.columns)} for {where}, but "
                f"{', '.join(self._texts)} for another cell: every cell needs the same columns"
            )
        for name, values in outcome.columns.items():
            texts = {isinstance(value, str) for value in values if value is not None}
            if name in self._texts and texts:
                texts.add(self._texts[name])
            if len(texts) > 1:
                raise InputError(
                    f"the column {name!r} must be strings or numbers, got both (one of them in "
                    f"the cells from {where})"
                )
            if texts:
                self._texts[name] = texts.pop()


def to_frame(table: Table) -> Any:
    """A pandas table, the same from memory as from disk."""
    return table.replace_schema_metadata(None).to_pandas()


def _count(outcome: Outcome) -> int:
    return sum(bool(reason) for reason in outcome.failed)


def _swept(cells: Cells, rows: Sequence[int]) -> dict[str, Any]:
    columns = {name: cells.column(name, rows) for name in cells.names}
    return {name: _array(values, _kind(values)) for name, values in columns.items()}


def _expect(table: Table, cells: Cells, rows: Sequence[int]) -> None:
    wanted = {name: cells.column(name, rows) for name in cells.names}
    if "failed" not in table.column_names or any(
        name not in table.column_names or table.column(name).to_pylist() != values
        for name, values in wanted.items()
    ):
        raise InputError("it has other rows than this sweep")


def _kind(values: Iterable[Value | None]) -> type:
    """The one type that holds all of some values."""
    types = {type(value) for value in values if value is not None}
    for kind in (str, float, int, bool):
        if kind in types:
            return kind
    return float


def _array(values: Sequence[Value | None], kind: type) -> Any:
    import pyarrow as pa

    stored: Mapping[type, Any] = {
        str: pa.string(),
        float: pa.float64(),
        int: pa.int64(),
        bool: pa.bool_(),
    }
    return pa.array([None if each is None else kind(each) for each in values], stored[kind])
