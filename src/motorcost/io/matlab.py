"""MATLAB files, of version 7.3 and earlier ones."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from motorcost.data.movements import Movements
from motorcost.errors import InputError, shown
from motorcost.io.hdf5 import require_safe
from motorcost.io.mat5 import require_sound

_AXES = ("x", "y", "z")


def read_mat(path: Path, max_bytes: int) -> dict[str, Any]:
    """The variables of a MATLAB file, structures as dictionaries."""
    import h5py
    import pymatreader

    try:
        require_sound(path, max_bytes)
        is_hdf5 = h5py.is_hdf5(path)
        if is_hdf5:
            require_safe(path, max_bytes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # objects and strings, which become None
            read = pymatreader.read_mat(path, ignore_fields=["#subsystem#"])
    except InputError:
        raise
    except Exception as error:  # damaged files make SciPy and h5py raise nearly anything
        raise InputError(
            f"{shown(path.name)}: needs a MATLAB file, got one that is damaged or something else "
            f"({type(error).__name__})"
        ) from None
    # Variables of version 7.3 come in any order, another one in every run.
    names = sorted(read) if is_hdf5 else list(read)
    return {name: read[name] for name in names if not name.startswith(("__", "#"))}


def is_dream(variables: dict[str, Any]) -> bool:
    """Whether a file is arranged as in the Database for Reaching Experiments and Models."""
    subject = variables.get("Subject")
    return isinstance(subject, (dict, list)) and any(
        "Trial" in entry for entry in _entries(subject)
    )


def from_dream(variables: dict[str, Any], source: str) -> Movements:
    """Movements from `Subject(i).Trial(j)` with the fields `Time` (s) and `HandPos` (time, axis).

    The channels are x, y (and z). Conditions: `subject`, the last row of `TargetPos` as target_x,
    target_y, and every field that is one number or text in all trials.
    """
    samples, times, labels, fields = [], [], [], []
    short, source = 0, shown(source)
    for s, subject in enumerate(_entries(variables["Subject"]), start=1):
        for t, trial in enumerate(_entries(subject.get("Trial", [])), start=1):
            where = f"{source}: Subject({s}).Trial({t})"
            time = np.atleast_1d(_floats(trial.get("Time"), f"{where}.Time"))
            if time.ndim != 1:
                raise InputError(f"{where}.Time: needs one axis, got shape {time.shape}")
            if time.size < 2:
                short += 1
                continue
            if (np.diff(time) <= 0).any():
                raise InputError(f"{where}.Time: needs times that increase")
            samples.append(_by_time(trial.get("HandPos"), len(time), f"{where}.HandPos"))
            times.append(time)
            labels.append(f"{s}/{t}")
            fields.append({"subject": s} | _conditions(trial, f"{where}.TargetPos"))
    if not samples:
        raise InputError(f"{source}: needs trials of two samples or more, got none")
    if len({trial.shape[1] for trial in samples}) > 1:
        raise InputError(f"{source}: HandPos needs as many axes in all trials")
    shared = [name for name in fields[0] if all(name in trial for trial in fields)]
    note = f"{source}: {short} trials left out: they have fewer than two samples"
    return Movements(
        samples=tuple(samples),
        times=tuple(times),
        channels=dict.fromkeys(_AXES[: samples[0].shape[1]], ""),
        conditions={name: np.array([trial[name] for trial in fields]) for name in shared},
        labels=tuple(labels),
        notes=(note,) if short else (),
    )


def _conditions(trial: dict[str, Any], where: str) -> dict[str, Any]:
    found = {
        name: value
        for name, value in trial.items()
        if isinstance(value, (str, int, float, np.number)) and name not in _AXES
    }
    if trial.get("TargetPos") is not None and np.size(trial["TargetPos"]):
        last = np.atleast_2d(_floats(trial["TargetPos"], where))[-1]
        found |= {f"target_{axis}": value for axis, value in zip(_AXES, last, strict=False)}
    return found


def _entries(struct: Any) -> list[dict[str, Any]]:
    """The elements of a structure array, which is stored as a list for each field; or of a cell
    array of structures."""
    if isinstance(struct, list):
        return [entry for cell in struct for entry in _entries(cell)]
    if not isinstance(struct, dict):
        return []
    sizes = {len(value) if isinstance(value, list) else 0 for value in struct.values()}
    if len(sizes) != 1 or sizes == {0}:
        return [struct]
    return [{name: value[i] for name, value in struct.items()} for i in range(sizes.pop())]


def _floats(value: Any, where: str) -> np.ndarray:
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{where}: needs numbers, got {type(value).__name__}") from None
    if value is None or np.isinf(array).any():
        raise InputError(f"{where}: needs finite numbers, got {'none' if value is None else 'inf'}")
    return array


def _by_time(value: Any, count: int, where: str) -> np.ndarray:
    array = _floats(value, where)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim == 2 and array.shape[0] != count and array.shape[1] == count:
        array = array.T
    if array.ndim != 2 or array.shape[0] != count or array.shape[1] not in (1, 2, 3):
        raise InputError(
            f"{where}: needs shape (time, axis) = ({count}, 1 to 3), got {array.shape}"
        )
    return array
