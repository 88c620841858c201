"""Columns of a table, and errors that say where in it something is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from motorcost import checks
from motorcost.errors import InputError, shown, shown_list

if TYPE_CHECKING:
    from pandas import DataFrame

# Text that is longer is not tried as a number, which would copy it into an error.
_LONGEST_NUMBER = 400
Named = Mapping[str, str] | Sequence[str]


def as_pairs(names: Named) -> dict[str, str]:
    """Columns by the caller's names for them."""
    return dict(names) if isinstance(names, Mapping) else {name: name for name in names}


def spread(values: np.ndarray, trials: np.ndarray) -> Any:
    """The value of the trial that each row belongs to, as a column of a table.

    A text takes its memory once, however many rows have it, which in a column of text it does not.
    """
    import pandas as pd

    return values[trials] if values.dtype.kind not in "OU" else pd.Categorical(values).take(trials)


class Columns:
    """The columns of a table by name: numbers, or objects (text, None where a field is empty).

    `rows` are what its rows are called: line numbers of a text file, else the frame's index.
    """

    def __init__(self, frame: DataFrame, source: str) -> None:
        self.source = shown(source)
        self.names = [str(name) for name in frame.columns]
        self.rows = frame.index.to_numpy()
        try:
            checks.distinct("columns", self.names)
        except InputError as error:
            raise InputError(f"{self.source}: {error}") from None
        if not len(frame):
            raise InputError(f"{self.source}: needs rows of samples, got only a header")
        self._values = {name: _plain(frame.iloc[:, i]) for i, name in enumerate(self.names)}

    def known(self, name: str, hint: str = "") -> str:
        """`name` itself if there is such a column; otherwise raise, and say which there are."""
        if name in self.names:
            return name
        near = checks.similar(name, self.names)
        meant = f"did you mean {near}? " if near else ""
        raise InputError(
            f"{self.source}: unknown column '{shown(name)}': {meant}known: "
            f"{shown_list(self.names)}{hint}"
        )

    def named(self, names: Named) -> dict[str, str]:
        """The columns by the caller's names for them."""
        pairs = as_pairs(names)
        for column in pairs.values():
            self.known(column)
        return pairs

    def wrong(self, position: int, name: str, need: str, got: Any) -> NoReturn:
        """Raise, saying where, what is needed and what is there."""
        where = f"{self.source}: row {shown(self.rows[position])}, column '{shown(name)}'"
        raise InputError(f"{where}: needs {need}, got {got}")

    def values(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """A column as it is, numbers where all of it is, and which fields are empty."""
        values = self._values[name]
        if values.dtype.kind == "O" and not self.texts(name).size:
            values = self.numbers(name)
        if values.dtype.kind == "O":
            return values, np.array([value is None for value in values])
        return values, np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)

    def texts(self, name: str) -> np.ndarray:
        """Where in a column there is something that is no number."""
        values = self._values[name]
        if values.dtype.kind != "O":
            return np.array([], int)
        return np.flatnonzero([_number(value) is None for value in values])

    def mostly_numbers(self, name: str) -> bool:
        """Whether a column was meant to be numbers, whatever else is in it."""
        return 2 * self.texts(name).size < len(self.rows)

    def numbers(self, name: str) -> np.ndarray:
        """A column as finite numbers, NaN where a field is empty; otherwise raise."""
        values = self._values[name]
        if values.dtype.kind == "O":
            bad = self.texts(name)
            if bad.size:
                got = str(values[bad[0]])
                comma = " (numbers take a decimal point)" if re.match(r"^-?\d+,\d+$", got) else ""
                self.wrong(int(bad[0]), name, "a number", f"'{shown(got)}'{comma}")
            values = np.array([_number(value) for value in values])
        array = values.astype(float)
        if np.isinf(array).any():
            at = int(np.flatnonzero(np.isinf(array))[0])
            self.wrong(at, name, "a finite number", array[at])
        return array


def _plain(series: Any) -> np.ndarray:
    """A column of a frame as an array of numbers, or of objects with None for empty fields."""
    values: np.ndarray
    empty = series.isna().to_numpy()
    if getattr(series.dtype, "kind", "O") in "biuf":
        if not empty.any():
            values = np.asarray(series.to_numpy())
            return values if values.dtype.kind in "biuf" else values.astype(float)
        return np.asarray(series.to_numpy(dtype=float, na_value=np.nan))
    if hasattr(series, "cat"):  # the categories themselves, rather than a copy for every row
        return np.array([*series.cat.categories, None], object)[series.cat.codes.to_numpy()]
    values = series.to_numpy(dtype=object, copy=True)
    values[empty] = None
    return values


def _number(value: Any) -> float | None:
    """A field as a number, NaN if it is empty, None if it is no number."""
    if value is None:
        return np.nan
    if isinstance(value, str) and (
        len(value) > _LONGEST_NUMBER or "_" in value or not value.isascii()
    ):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
