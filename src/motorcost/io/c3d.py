"""C3D files of motion capture, and the exams of KINARM robots, which are archives of them."""

from __future__ import annotations

import io
import warnings
import zipfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from motorcost.errors import InputError, shown
from motorcost.io.limits import Budget, require_few_columns

if TYPE_CHECKING:
    from pandas import DataFrame

_AXES = ("x", "y", "z")
# What KINARM's software writes into an exam: `raw/common.c3d` and a file for each trial.
_COMMON = "common.c3d"
_HANDS = ("Right_Hand", "Left_Hand")
# What a frame takes in memory beside its numbers, while it is read.
_FRAME_BYTES = 1000


def read_c3d(path: Path, max_bytes: int) -> tuple[DataFrame, dict[str, str], list[str]]:
    """The points of a C3D file as a table, the units of its columns, and notes.

    A file is one trial. Columns: time (s), NAME_x, NAME_y, NAME_z for each point, NaN where it was
    not seen, and the analog channels if they were sampled as often as the points.
    """
    import pandas as pd

    with path.open("rb") as stream:
        columns, units, notes, _ = _content(stream, path.name, Budget(path.name, max_bytes))
    return pd.DataFrame(columns), units, notes


def read_kinarm(path: Path, max_bytes: int) -> tuple[DataFrame, dict[str, str], list[str]]:
    """The trials of a KINARM exam as a table, the units of its columns, and notes.

    Columns: trial, time (s), Right_HandX, Right_HandY, Left_HandX, Left_HandY, the analog channels,
    and as conditions the entries of the group TRIAL that are one number or text.
    """
    import pandas as pd

    budget = Budget(path.name, max_bytes)
    parts: list[DataFrame] = []
    units: dict[str, str] = {}
    notes: list[str] = []
    for name, content in _members(path, budget):
        source = f"{path.name}, {name}"
        columns, units, notes, facts = _content(io.BytesIO(content), source, budget, hands=True)
        rows = len(columns["time"])
        columns = {_kinarm_name(column): values for column, values in columns.items()}
        facts = {fact: value for fact, value in facts.items() if fact not in columns}
        label = facts.pop("trial_num", "") or len(parts) + 1
        parts.append(
            pd.DataFrame(
                {"trial": np.full(rows, str(label), object)}
                | columns
                | {fact: np.full(rows, value, object) for fact, value in facts.items()}
            )
        )
    if len({str(part["trial"].iloc[0]) for part in parts if len(part)}) < len(parts):
        parts = [part.assign(trial=str(i + 1)) for i, part in enumerate(parts)]
    names = {name for part in parts for name in part.columns}
    require_few_columns(path.name, len(names))
    budget.take(8 * len(names) * sum(map(len, parts)))
    frame = pd.concat(parts, ignore_index=True)
    return frame, {_kinarm_name(name): unit for name, unit in units.items()}, notes


def _members(path: Path, budget: Budget) -> list[tuple[str, bytes]]:
    """The trials' files of an exam, in the order of their names, which is that of recording."""
    needed = f"{shown(path.name)}: needs a KINARM exam, an archive with raw/{_COMMON} and one .c3d "
    try:
        with zipfile.ZipFile(path) as archive:
            found = {}
            for item in archive.infolist():
                folder, _, name = item.filename.replace("\\", "/").rpartition("/")
                if folder.lower() == "raw" and name.lower().endswith(".c3d"):
                    if item.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                        raise ValueError("a method of compression")
                    budget.take(item.file_size)
                    found[name] = item
            trials = sorted(name for name in found if name.lower() != _COMMON)
            if len(trials) == len(found) or not trials:
                raise InputError(f"{needed}per trial, got {len(found)} C3D files in raw/")
            return [(name, archive.read(found[name])) for name in trials]
    except InputError:
        raise
    except Exception:  # damaged files make zipfile raise nearly anything
        raise InputError(f"{needed}per trial, got one that is damaged or something else") from None


def _kinarm_name(column: str) -> str:
    """Right_Hand_x as Right_HandX, which is what KINARM's own software calls it."""
    for hand in _HANDS:
        for axis in _AXES:
            if column == f"{hand}_{axis}":
                return f"{hand}{axis.upper()}"
    return column


def _content(
    stream: IO[bytes], source: str, budget: Budget, *, hands: bool = False
) -> tuple[dict[str, np.ndarray], dict[str, str], list[str], dict[str, Any]]:
    """The columns of a C3D file, their units, notes, and the facts of its group TRIAL.

    With `hands`, two points are KINARM's hands, the right one first.
    """
    import c3d

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on metadata that a file does not need to be read
            reader = c3d.Reader(stream)
            _require_room(reader, stream, budget)
            rate = float(reader.point_rate)
            frames = [(points, analog) for _, points, analog in reader.read_frames()]
        expected = reader.last_frame - reader.first_frame + 1
        if len(frames) < expected or not rate > 0:
            raise ValueError("frames that are missing, or no rate")
        return _columns(reader, frames, rate, hands=hands)
    except InputError:
        raise
    except Exception as error:  # damaged files make the reader raise nearly anything
        raise InputError(
            f"{shown(source)}: needs a C3D file, got one that is damaged or something else "
            f"({type(error).__name__})"
        ) from None


def _require_room(reader: Any, stream: IO[bytes], budget: Budget) -> None:
    """Raise if a file has less content than its header says, or more than the budget allows."""
    frames = reader.last_frame - reader.first_frame + 1
    require_few_columns(budget.source, 3 * reader.point_used + reader.analog_used)
    values = 4 * reader.point_used + reader.analog_used * reader.analog_per_frame
    if frames < 1 or reader.point_used < 0 or values < 1:
        raise ValueError("no frames")
    position = stream.tell()
    room = stream.seek(0, io.SEEK_END)
    stream.seek(position)
    if frames * values * (4 if reader.point_scale < 0 else 2) > room:
        raise ValueError("frames that are missing")
    budget.take(frames * (values * 8 + _FRAME_BYTES))


def _columns(
    reader: Any, frames: list[tuple[np.ndarray, np.ndarray]], rate: float, *, hands: bool
) -> tuple[dict[str, np.ndarray], dict[str, str], list[str], dict[str, Any]]:
    points = np.array([frame for frame, _ in frames], float)
    positions = np.where(points[:, :, 3:4] < 0, np.nan, points[:, :, :3])
    names = _names(_texts(reader, "POINT", "LABELS"), points.shape[1], "point")
    if hands and len(names) == len(_HANDS):
        names = list(_HANDS)
    unit = next(iter(_texts(reader, "POINT", "UNITS")), "")
    columns = {"time": np.arange(len(frames)) / rate}
    units: dict[str, str] = {}
    for i, name in enumerate(names):
        for j, axis in enumerate(_AXES):
            columns[f"{name}_{axis}"] = positions[:, i, j]
            units[f"{name}_{axis}"] = unit
    notes = []
    if reader.analog_used and reader.analog_per_frame == 1:
        analog = np.array([frame for _, frame in frames], float)[:, :, 0]
        labels = _names(_texts(reader, "ANALOG", "LABELS"), analog.shape[1], "analog", columns)
        analog_units = [*_texts(reader, "ANALOG", "UNITS"), *[""] * len(labels)]
        columns |= dict(zip(labels, analog.T, strict=True))
        units |= dict(zip(labels, analog_units, strict=False))
    elif reader.analog_used:
        notes.append(f"{reader.analog_used} analog channels left out: another rate than the points")
    return columns, units, notes, _facts(reader)


def _names(labels: list[str], count: int, default: str, taken: Any = ()) -> list[str]:
    """A name for each of `count` points or channels, all different."""
    names: list[str] = []
    for i in range(count):
        name = labels[i] if i < len(labels) and labels[i] else f"{default}_{i + 1}"
        names.append(name if name not in names and name not in taken else f"{name}_{i + 1}")
    return names


def _texts(reader: Any, group: str, name: str) -> list[str]:
    """The texts of a parameter and of its continuations (LABELS2, ...); none if it is missing."""
    found: list[str] = []
    for part in (name, *(f"{name}{i}" for i in range(2, 10))):
        parameter = reader.get(f"{group}:{part}")
        if parameter is None:
            break
        entries = parameter.string_array if parameter.dimensions[1:] else [parameter.string_value]
        found += [str(entry).strip().strip("\0").strip() for entry in np.ravel(entries)]
    return found


def _facts(reader: Any) -> dict[str, Any]:
    """The entries of the group TRIAL that are one number or text, by name in lower case."""
    group = reader.get("TRIAL")
    facts: dict[str, Any] = {}
    for name, parameter in group.param_items() if group is not None else ():
        if parameter.bytes_per_element == -1 and not parameter.dimensions[1:]:
            facts[name.lower()] = parameter.string_value.strip().strip("\0")
        elif parameter.num_elements == 1:
            number = {1: "int8_value", 2: "int16_value", 4: "float_value"}
            facts[name.lower()] = getattr(parameter, number[parameter.bytes_per_element])
    return facts
