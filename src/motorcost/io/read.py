"""Recordings from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from motorcost import checks
from motorcost.data.movements import Movements
from motorcost.errors import InputError
from motorcost.io.arrays import read_npz, to_table
from motorcost.io.columns import Named
from motorcost.io.matlab import from_dream, is_dream, read_mat
from motorcost.io.tables import from_frame
from motorcost.io.text import read_text

if TYPE_CHECKING:
    from pandas import DataFrame

_FORMATS = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv",
    ".parquet": "parquet", ".npz": "npz", ".mat": "mat",
}  # fmt: skip
GIBIBYTE = 2**30


def read(
    path: Path | str,
    *,
    trial: str | Sequence[str] = "trial",
    time: str = "time",
    channels: Named | None = None,
    units: Mapping[str, str] | None = None,
    time_unit: str = "s",
    conditions: Named | None = None,
    rate: float | None = None,
    format: str | None = None,
    max_bytes: int = GIBIBYTE,
) -> Movements:
    """Movements from a file: .csv, .tsv, .txt, .parquet, .npz or .mat.

    Most files are tables with a row for each sample; `trial`, `time`, `channels`, `units`,
    `time_unit`, `conditions` and `rate` are then as in `from_frame`. Text has a header, columns
    separated by commas, semicolons or tabs, a decimal point, and empty fields or NA for what is
    missing. Errors name the row (the first below the header is row 2 in text, 0 elsewhere).

    Files of arrays (.npz, .mat) hold the columns by name; or `samples` (trial, time, channel)
    with `channels` (names), `times` or `dt`, and an array for each condition. A .mat file may also
    be arranged as `Subject(i).Trial(j)` with `Time` and `HandPos`, as in the DREAM database; its
    channels are x, y (and z).

    - `format`: csv, parquet, npz or mat, where the file's name does not say it.
    - `max_bytes`: a larger file is refused.

    `.notes` say what was left out, is missing or unevenly sampled. Nothing in a file is executed.
    """
    path = Path(path)
    kind = _format(path, format, max_bytes)
    keys = [trial] if isinstance(trial, str) else list(trial)
    if not keys or not all(isinstance(key, str) for key in keys):
        raise InputError(f"trial must be the name of a column, or a list of names, got {trial!r}")
    try:
        table = _table(path, kind, keys, time, max_bytes)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    if isinstance(table, Movements):
        return _chosen(table, channels, units, conditions)
    frame, file_units, notes = table
    result = from_frame(
        frame,
        trial=trial,
        time=time,
        channels=channels,
        units=units,
        time_unit=time_unit,
        conditions=conditions,
        rate=rate,
        source=path.name,
    )
    # The file's own units hold for channels that keep their names, unless the caller knows better.
    channel_units = {
        name: unit or file_units.get(name, "") for name, unit in result.channels.items()
    }
    result = replace(result, channels=channel_units)
    return result.noted(*[f"{path.name}: {note}" for note in notes])


def _table(
    path: Path, kind: str, trial: list[str], time: str, max_bytes: int
) -> tuple[DataFrame, dict[str, str], list[str]] | Movements:
    """The table in a file, the units that it knows, and notes; movements where the file is
    arranged by subjects and trials."""
    if kind == "csv":
        frame, notes = read_text(path, trial)
        return frame, {}, notes
    if kind == "parquet":
        return _parquet(path), {}, []
    arrays = (read_npz if kind == "npz" else read_mat)(path, max_bytes)
    if kind == "mat" and is_dream(arrays):
        return from_dream(arrays, path.name)
    return to_table(arrays, trial, time, path.name)


def _format(path: Path, format: str | None, max_bytes: int) -> str:
    if not path.exists():
        raise InputError(f"{path}: there is no such file")
    if not path.is_file():
        raise InputError(f"{path}: needs a file, got {'a folder' if path.is_dir() else 'none'}")
    size = path.stat().st_size
    if size > max_bytes:
        raise InputError(
            f"{path.name}: has {size} bytes, more than max_bytes={max_bytes}: raise it if memory "
            "allows"
        )
    if size == 0:
        raise InputError(f"{path.name}: needs samples, got an empty file")
    if format is not None:
        return checks.one_of("format", format, sorted(set(_FORMATS.values())))
    suffix = path.suffix.lower()
    if suffix in (".xlsx", ".xls", ".ods"):
        raise InputError(f"{path.name}: is a spreadsheet: save it as CSV and read that")
    if suffix not in _FORMATS:
        raise InputError(
            f"{path.name}: needs one of {', '.join(_FORMATS)}, got {suffix or 'no suffix'!r}: "
            "say format='csv' if it is one"
        )
    return _FORMATS[suffix]


def _parquet(path: Path) -> DataFrame:
    import pandas as pd

    try:
        frame = pd.read_parquet(path, engine="pyarrow")
    except Exception as error:  # damaged files make Arrow raise nearly anything
        raise InputError(
            f"{path.name}: needs a Parquet file, got one that is damaged or something else "
            f"({type(error).__name__})"
        ) from None
    return frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index()


def _chosen(
    movements: Movements,
    channels: Named | None,
    units: Mapping[str, str] | None,
    conditions: Named | None,
) -> Movements:
    """Only the named channels and conditions, by their new names, in the units they are in."""
    for part, names in (("channels", channels), ("conditions", conditions)):
        if names is not None:
            pairs = dict(names) if isinstance(names, Mapping) else {name: name for name in names}
            movements = movements.select(**{part: list(pairs.values())})
            movements = movements.rename(**{column: name for name, column in pairs.items()})
    for name, unit in (units or {}).items():
        movements = movements.scaled(1.0, unit, [name])
    return movements
