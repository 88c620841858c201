"""Recordings from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from motorcost.data.movements import Movements
from motorcost.errors import InputError, shown
from motorcost.io.arrays import read_npz, to_table
from motorcost.io.c3d import read_c3d, read_kinarm
from motorcost.io.columns import Named, as_pairs
from motorcost.io.eyelink import read_eyelink
from motorcost.io.limits import GIBIBYTE
from motorcost.io.matlab import from_dream, is_dream, read_mat
from motorcost.io.nwb import read_nwb
from motorcost.io.parquet import read_parquet
from motorcost.io.registry import format_of
from motorcost.io.tables import from_frame
from motorcost.io.text import read_text

if TYPE_CHECKING:
    from pandas import DataFrame

# Formats whose times are known to be in some unit, which their readers convert to seconds.
_KNOW_THEIR_TIMES = ("eyelink", "nwb", "c3d", "kinarm")


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
    """Movements from a file; `formats` lists the formats.

    Most files are tables with a row for each sample; `trial`, `time`, `channels`, `units`,
    `time_unit`, `conditions` and `rate` are then as in `from_frame`. Text has a header, columns
    separated by commas, semicolons or tabs, a decimal point, and empty fields or NA for what is
    missing. Errors name the row (the first below the header is row 2 in text, 0 elsewhere).

    Files of arrays (.npz, .mat) hold the columns by name; or `samples` (trial, time, channel)
    with `channels` (names), `times` or `dt`, and an array for each condition. A .mat file may also
    be arranged as `Subject(i).Trial(j)` with `Time` and `HandPos`, as in the DREAM database; its
    channels are x, y (and z).

    EyeLink (.asc), C3D, KINARM and NWB files know their trials, times and units: `time_unit` does
    not apply to them.

    - `format`: the name of one of `formats`, where the file's name does not say it.
    - `max_bytes`: a file that is larger, or unpacks to more, is refused before it is unpacked.

    `.notes` say what was left out, is missing or unevenly sampled. Nothing in a file is executed.

    Examples
    --------
    >>> mc.io.write_csv(positions, "trials.csv")
    >>> movements = mc.io.read("trials.csv")
    >>> len(movements), movements.channels
    (8, {'position': ''})
    """
    path = Path(path)
    _require_file(path, max_bytes)
    kind = format_of(path.name, format)
    keys = [trial] if isinstance(trial, str) else list(trial)
    if not keys or not all(isinstance(key, str) for key in keys):
        raise InputError(f"trial must be the name of a column, or a list of names, got {trial!r}")
    columns = as_pairs(channels or [])
    table = _table(path, kind.name, keys, time, list(columns.values()), max_bytes)
    if isinstance(table, Movements):
        return _chosen(table, channels, units, conditions)
    frame, file_units, notes = table
    result = from_frame(
        frame,
        trial=trial,
        time=time,
        channels=channels,
        units=units,
        time_unit="s" if kind.name in _KNOW_THEIR_TIMES else time_unit,
        conditions=conditions,
        rate=rate,
        source=path.name,
    )
    # The file's own units hold unless the caller knows better.
    units_known = {
        name: unit or file_units.get(columns.get(name, name), "")
        for name, unit in result.channels.items()
    }
    notes = [f"{shown(path.name)}: {note}" for note in notes]
    return replace(result, channels=units_known).noted(*notes)


def _table(
    path: Path, kind: str, trial: list[str], time: str, wanted: list[str], max_bytes: int
) -> tuple[DataFrame, dict[str, str], list[str]] | Movements:
    """The table in a file, the units that it knows, and notes; movements where the file is
    arranged by subjects and trials. `wanted` are the columns that the caller asks for."""
    try:
        return _read(path, kind, trial, time, wanted, max_bytes)
    except OSError as error:
        reason = shown(error.strerror or error, 200)
        raise InputError(f"{shown(path, 200)}: cannot be read: {reason}") from None


def _read(
    path: Path, kind: str, trial: list[str], time: str, wanted: list[str], max_bytes: int
) -> tuple[DataFrame, dict[str, str], list[str]] | Movements:
    if kind == "csv":
        frame, notes = read_text(path, trial)
        return frame, {}, notes
    if kind == "parquet":
        return read_parquet(path, max_bytes), {}, []
    if kind == "nwb":
        return read_nwb(path, max_bytes, wanted)
    if kind in ("eyelink", "c3d", "kinarm"):
        reader = {"eyelink": read_eyelink, "c3d": read_c3d, "kinarm": read_kinarm}[kind]
        return reader(path, max_bytes)
    arrays = (read_npz if kind == "npz" else read_mat)(path, max_bytes)
    if kind == "mat" and is_dream(arrays):
        return from_dream(arrays, path.name)
    return to_table(arrays, trial, time, path.name, max_bytes)


def _require_file(path: Path, max_bytes: int) -> None:
    """Raise unless there is a file of some bytes, but not too many."""
    try:
        there, is_file, is_folder = path.exists(), path.is_file(), path.is_dir()
    except (OSError, ValueError) as error:  # a name that no file can have
        raise InputError(f"{shown(path, 200)}: cannot be read: {shown(error, 200)}") from None
    if not there:
        raise InputError(f"{shown(path, 200)}: there is no such file")
    if not is_file:
        got = "a folder" if is_folder else "none"
        raise InputError(f"{shown(path, 200)}: needs a file, got {got}")
    size = path.stat().st_size
    if size > max_bytes:
        raise InputError(
            f"{shown(path.name)}: has {size} bytes, more than max_bytes={max_bytes}: raise it if "
            "memory allows"
        )
    if size == 0:
        raise InputError(f"{shown(path.name)}: needs samples, got an empty file")


def _chosen(
    movements: Movements,
    channels: Named | None,
    units: Mapping[str, str] | None,
    conditions: Named | None,
) -> Movements:
    """Only the named channels and conditions, by their new names, in the units they are in."""
    for part, names in (("channels", channels), ("conditions", conditions)):
        if names is not None:
            pairs = as_pairs(names)
            movements = movements.select(**{part: list(pairs.values())})
            movements = movements.rename(**{column: name for name, column in pairs.items()})
    for name, unit in (units or {}).items():
        movements = movements.scaled(1.0, unit, [name])
    return movements
