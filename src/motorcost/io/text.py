"""Text files of columns, read so that errors can name the line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from motorcost.errors import InputError, shown
from motorcost.io.limits import require_few_columns

if TYPE_CHECKING:
    from pandas import DataFrame

_EMPTY = ["", "NA", "N/A", "NaN", "nan", "NAN", "NULL", "null", "-nan"]


def read_text(path: Path, trial: list[str]) -> tuple[DataFrame, list[str]]:
    """The table in a text file, its index the line numbers, and notes. Columns are separated by
    commas, semicolons or tabs. The columns `trial` are kept as they are written."""
    import pandas as pd

    text = _decoded(path)
    if not text.strip():
        raise InputError(
            f"{shown(path.name)}: needs a header and rows of samples, got an empty file"
        )
    separator = _separator(path, text)
    records = _records(path, text, separator)
    header = next(([name.strip() for name in fields] for _, fields in records if fields), [])
    require_few_columns(path.name, len(header))
    lines = _even(path, records, len(header))
    named = [i for i, name in enumerate(header) if name]
    body = text.split("\n", int(lines[0]) - 1)[-1] if lines.size else ""
    # Before 3.1 pandas rounds the last digit unless told not to; since then it warns when told.
    old = tuple(int(part) for part in pd.__version__.split(".")[:2]) < (3, 1)
    exactly: dict[str, Any] = {"float_precision": "round_trip"} if old else {}
    try:
        # With numbers for names, so that pandas does not rename columns that are there twice.
        frame = pd.read_csv(
            io.StringIO(body or "\n"),
            sep=separator,
            header=None,
            names=list(range(len(header))),
            dtype={i: str for i, name in enumerate(header) if name in trial},
            keep_default_na=False,
            na_values=_EMPTY,
            skip_blank_lines=False,
            skipinitialspace=True,
            low_memory=False,
            index_col=False,
            **exactly,
        )
    except (ValueError, OverflowError) as error:
        raise InputError(f"{shown(path.name)}: {shown(error, 200)}") from None
    if len(frame) != max(len(lines), 1):
        raise InputError(
            f"{shown(path.name)}: needs quotes in pairs, got lines that they run across"
        )
    frame.index = pd.Index(lines if lines.size else [2])
    frame = frame[named].set_axis([header[i] for i in named], axis=1)
    empty = frame.isna().all(axis=1)
    notes = []
    if len(named) < len(header):
        notes.append(f"{len(header) - len(named)} columns without a name left out")
    if empty.any() and not empty.all():
        notes.append(f"{int(empty.sum())} empty rows left out")
    return frame[~empty], notes


def _decoded(path: Path) -> str:
    data = path.read_bytes()
    binary = InputError(f"{shown(path.name)}: needs text, got a binary file")
    if b"\0" in data:
        raise binary
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
        if any("\x7f" <= character <= "\x9f" for character in set(text)):
            raise binary from None
    if any(character < " " and character not in "\t\n\r" for character in set(text)):
        raise binary
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _separator(path: Path, text: str) -> str:
    if path.suffix.lower() == ".tsv":
        return "\t"
    header = text.lstrip("\n").split("\n", 1)[0]
    return max(",;\t", key=header.count)


def _records(path: Path, text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Each record's line number and fields."""
    reader = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True, strict=True)
    line = 1
    try:
        for fields in reader:
            yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{shown(path.name)}: row {line}: needs quotes in pairs, got {shown(error)}"
        ) from None


def _even(path: Path, records: Iterator[tuple[int, list[str]]], width: int) -> np.ndarray:
    """The line number of each record, all of which need as many fields as the header."""
    lines = []
    for line, fields in records:
        if len(fields) not in (0, width):
            raise InputError(
                f"{shown(path.name)}: row {line}: needs {width} fields, as in the header, got "
                f"{len(fields)}"
            )
        lines.append(line)
    return np.array(lines, int)
