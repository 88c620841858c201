"""Arrays by name, as NumPy and MATLAB files hold them, as one table."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from motorcost.errors import InputError, shown
from motorcost.io.columns import spread
from motorcost.io.limits import Budget, require_few_columns

if TYPE_CHECKING:
    from pandas import DataFrame


def read_npz(path: Path, max_bytes: int) -> dict[str, Any]:
    """The arrays of an .npz file. Python objects are not loaded."""
    budget = Budget(path.name, max_bytes)
    try:
        with zipfile.ZipFile(path) as archive:
            members = [item for item in archive.infolist() if item.filename.endswith(".npy")]
            for member in members:
                # Other methods, which NumPy does not write, unpack without a limit.
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise ValueError("a method of compression")
                with archive.open(member) as stream:
                    budget.take(max(member.file_size, _npy_bytes(stream, path.name)))
            arrays = {}
            for member in members:
                with archive.open(member) as stream:
                    arrays[member.filename.removesuffix(".npy")] = np.lib.format.read_array(
                        stream, allow_pickle=False
                    )
            return arrays
    except InputError:
        raise
    except Exception:  # damaged files make zipfile and NumPy raise nearly anything
        raise InputError(
            f"{shown(path.name)}: needs an .npz file, got one that is damaged"
        ) from None


def read_npy(path: Path, max_bytes: int) -> np.ndarray:
    """The array of an .npy file. Python objects are not loaded. Damaged files raise ValueError."""
    with path.open("rb") as stream:
        size = _npy_bytes(stream, path.name)
        Budget(path.name, max_bytes).take(size)
        if size > path.stat().st_size:
            raise ValueError("content that ends early")
        stream.seek(0)
        return np.lib.format.read_array(stream, allow_pickle=False)


def _npy_bytes(stream: IO[bytes], source: str) -> int:
    """The size of an .npy file, by what its header says of the array."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    else:  # version 3 differs in the names of fields only
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    if dtype.hasobject:
        raise InputError(
            f"{shown(source)}: needs arrays of numbers or text, got Python objects, which are not "
            "loaded"
        )
    if min(shape, default=0) < 0:
        raise ValueError("an axis of a negative length")
    # An entry without content takes no byte in the file, but does in a table.
    return stream.tell() + math.prod(shape) * max(dtype.itemsize, 1)


def to_table(
    arrays: dict[str, Any], trial: list[str], time: str, source: str, max_bytes: int
) -> tuple[DataFrame, dict[str, str], list[str]]:
    """A table with a row for each sample, the units of its columns, and notes.

    Either each array is a column, or `samples` has axes (trial, time, channel), and then
    `channels` names the channels, `units` their units, `times` the times of all trials or of each
    (trial, time), or `dt` the seconds between samples, and arrays with a value for each trial are
    conditions.
    """
    import pandas as pd

    source = shown(source)
    require_few_columns(source, len(arrays))
    plain = {name: np.atleast_1d(_text_or_numbers(value)) for name, value in arrays.items()}
    if "samples" in plain:
        columns, units, others = _stacked(plain, trial, time, source, max_bytes)
    else:
        keys = [name for name in (time, *trial) if name in plain] or list(plain)
        if not keys:
            raise InputError(f"{source}: needs arrays, got none")
        size = plain[keys[0]].size
        columns = {name: array for name, array in plain.items() if array.shape == (size,)}
        units, others = {}, [name for name in plain if name not in columns]
    for name in (name for name in columns if columns[name].dtype.kind == "c"):
        raise InputError(f"{source}: '{shown(name)}' needs real numbers, got complex ones")
    frame = pd.DataFrame(columns)
    return (
        frame,
        units,
        [f"'{shown(name)}' left out: its shape is that of no column" for name in others],
    )


def _stacked(
    arrays: dict[str, np.ndarray], trial: list[str], time: str, source: str, max_bytes: int
) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    samples = arrays.pop("samples")
    names = [str(name).strip() for name in arrays.pop("channels", np.array([]))]
    units = [str(unit).strip() for unit in arrays.pop("units", np.array([]))]
    if samples.dtype.kind not in "biuf":
        raise InputError(f"{source}: 'samples' needs numbers, got {samples.dtype}")
    # MATLAB drops axes of length 1, so the number of channels says which are left.
    if samples.ndim == 2 and names:
        samples = samples[:, :, None] if len(names) == 1 else samples[None]
    elif samples.ndim == 1 and len(names) == 1:
        samples = samples[None, :, None]
    if samples.ndim != 3:
        raise InputError(
            f"{source}: 'samples' needs the axes (trial, time, channel), got {samples.shape}"
        )
    N, T, o = samples.shape
    require_few_columns(source, o + len(arrays))
    # The table has a column for each channel and each condition, and those of trials and times.
    Budget(source, max_bytes).take(8 * N * T * (o + len(arrays) + 2))
    names = names or [f"channel_{i + 1}" for i in range(o)]
    if len(names) != o or len(units) not in (0, o):
        raise InputError(
            f"{source}: needs a name (and a unit) for each of {o} channels, got {len(names)} "
            f"(and {len(units)})"
        )
    columns = {trial[0]: np.repeat(np.arange(1, N + 1), T)}
    if "times" in arrays or "dt" in arrays:
        columns[time] = _times(arrays, N, T, source)
    columns |= {name: samples[:, :, i].ravel() for i, name in enumerate(names)}
    fixed = {
        name: spread(array, np.repeat(np.arange(N), T))
        for name, array in arrays.items()
        if array.shape == (N,) and name not in columns
    }
    others = [name for name in arrays if name not in fixed and name not in trial]
    return columns | fixed, dict(zip(names, units, strict=False)), others


def _times(arrays: dict[str, np.ndarray], N: int, T: int, source: str) -> np.ndarray:
    times = arrays.pop("times", None)
    step = arrays.pop("dt", np.array([]))
    if times is None:
        times = np.arange(T) * step[0] if step.shape == (1,) and step.dtype.kind in "iuf" else step
    if times.shape not in ((T,), (N, T)) or times.dtype.kind not in "iuf":
        raise InputError(
            f"{source}: 'times' needs numbers of shape (time,) = ({T},) or (trial, time) = "
            f"({N}, {T}), got {times.shape}"
        )
    return np.broadcast_to(times, (N, T)).ravel()


def _text_or_numbers(value: Any) -> np.ndarray:
    """An array of numbers or of text, from what a file's reader returns."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return np.array(value, dtype=str)
    try:
        array = np.asarray(value)
    except ValueError:  # a list of unlike things
        array = np.array([], dtype=float).reshape(0, 0, 0, 0)
    if array.dtype.kind == "S":
        return np.char.decode(array, "latin-1")
    # Neither numbers nor text: a shape that fits nothing, so that it is left out.
    return array if array.dtype.kind in "biufcU" else np.zeros((0, 0, 0, 0))
