"""From the results of batches to one table, which does not depend on the order they come in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from motorcost.errors import InputError
from motorcost.sweeps.calls import Outcome
from motorcost.sweeps.cells import Cells, Value, describe

if TYPE_CHECKING:
    from pyarrow import Table

# Metadata of the table's file: the types that columns had before values were missing.
_KINDS = b"motorcost.kinds"


class Gathered:
    """The results so far, by the number of the batch.

    `total` is the number of rows of the sweep, `done` of those with a result, and `failed` of
    those that failed.
    """

    def __init__(self, cells: Cells, batches: Sequence[Sequence[int]]) -> None:
        self._cells, self._batches = cells, batches
        self._outcomes: dict[int, Outcome] = {}
        self._is_text: dict[str, bool] = {}  # by column, whether its values are strings
        self.total = cells.total
        self.done = 0
        self.failed = 0

    def add(self, number: int, outcome: Outcome) -> None:
        """Take the outcome of a batch, which replaces an earlier one of the same batch."""
        self._check(number, outcome)
        self.forget([number])
        self.done += len(outcome.failed)
        self.failed += _count(outcome)
        self._outcomes[number] = outcome

    def forget(self, numbers: Iterable[int]) -> None:
        """Drop the outcomes of batches that are run again."""
        for number in numbers:
            if (old := self._outcomes.pop(number, None)) is not None:
                self.done -= len(old.failed)
                self.failed -= _count(old)

    def missing(self, *, retry_failed: bool) -> list[int]:
        """The numbers of the batches to run."""

        def undone(number: int) -> bool:
            outcome = self._outcomes.get(number)
            return outcome is None or (retry_failed and bool(_count(outcome)))

        return [number for number in range(len(self._batches)) if undone(number)]

    def table(self) -> Table:
        """All rows in their order. Needs every batch."""
        import pyarrow as pa

        numbers = range(len(self._batches))
        found: dict[str, list[Any]] = {}
        failed = [""] * self._cells.total
        for number in numbers:  # in order, so that the first batch orders the columns
            outcome = self._outcomes[number]
            for name, values in outcome.columns.items():
                column = found.setdefault(name, [None] * self._cells.total)
                for row, value in zip(self._batches[number], values, strict=True):
                    column[row] = value
            for row, reason in zip(self._batches[number], outcome.failed, strict=True):
                failed[row] = reason
        columns = _swept(self._cells, range(self._cells.total))
        kinds = {}
        for name, values in found.items():
            kind = _kind(values)
            if kind in (bool, int) and None in values:
                # pandas has no missing whole numbers, only NaN among floats. The type is noted, so
                # that the column has it again if the missing rows are run again.
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
        results = {n: values for n, values in columns.items() if n not in self._cells.names}
        for number, rows in enumerate(self._batches):
            picked = {name: [values[row] for row in rows] for name, values in results.items()}
            self.add(number, Outcome(picked, [failed[row] for row in rows]))

    def part(self, number: int, outcome: Outcome) -> Table:
        """The outcome of one batch, as a table with the cells beside it."""
        import pyarrow as pa

        self._check(number, outcome)
        columns = _swept(self._cells, self._batches[number])
        for name, values in outcome.columns.items():
            columns[name] = _array(values, _kind(values))
        columns["failed"] = _array(outcome.failed, str)
        return pa.table(columns)

    def add_part(self, number: int, part: Table) -> None:
        """Take the outcome of a batch from a table that `part` made before."""
        if number >= len(self._batches):
            raise InputError(f"this sweep has {len(self._batches)} parts")
        _expect(part, self._cells, self._batches[number])
        columns = {name: part.column(name).to_pylist() for name in part.column_names}
        failed = columns.pop("failed")
        results = {n: values for n, values in columns.items() if n not in self._cells.names}
        self.add(number, Outcome(results, failed))

    def _check(self, number: int, outcome: Outcome) -> None:
        """Raise unless the columns are those of the other batches."""
        if not outcome.columns:
            return  # all failed
        row = self._batches[number][0]
        where = describe(self._cells.cell(row), self._cells.repetition(row))
        for name in outcome.columns:
            if name in self._cells.columns:
                raise InputError(f"the function must not return {name!r}, which is swept")
        if self._is_text and self._is_text.keys() != outcome.columns.keys():
            raise InputError(
                f"the function returned {', '.join(outcome.columns)} for {where}, but "
                f"{', '.join(self._is_text)} for another cell: every cell needs the same columns"
            )
        for name, values in outcome.columns.items():
            are_text = {isinstance(value, str) for value in values if value is not None}
            if name in self._is_text and are_text:
                are_text.add(self._is_text[name])
            if len(are_text) > 1:
                raise InputError(
                    f"the column {name!r} must be strings or numbers, got both (one of them in "
                    f"the cells from {where})"
                )
            if are_text:
                self._is_text[name] = are_text.pop()


def to_frame(table: Table) -> Any:
    """The table for pandas, the same from memory as from disk."""
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
        raise InputError("its rows are not those of this sweep")


def _kind(values: Iterable[Value | None]) -> type:
    """The one type that holds all of the values."""
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
    return pa.array([None if value is None else kind(value) for value in values], stored[kind])
