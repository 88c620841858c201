"""Neurodata Without Borders (.nwb): positions and other behaviour, cut into trials.

The files are HDF5 with a documented layout; only the few objects below are opened.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from motorcost.errors import InputError, shown, shown_list
from motorcost.io.columns import spread
from motorcost.io.hdf5 import child, dataset_bytes, has, require_sound_heaps, text_bytes
from motorcost.io.limits import Budget, require_few_columns

if TYPE_CHECKING:
    from pandas import DataFrame

_AXES = ("x", "y", "z")
_CONTAINERS = ("BehavioralTimeSeries", "Position", "EyeTracking", "CompassDirection")
_SERIES = ("SpatialSeries", "TimeSeries")
_UNITS = {
    "meters": "m", "metres": "m", "meter": "m", "centimeters": "cm", "millimeters": "mm",
    "pixels": "px", "pixel": "px", "degrees": "deg", "radians": "rad", "unknown": "", "n/a": "",
    "au": "", "a.u.": "",
}  # fmt: skip
_TIMES_OF_TRIALS = ("start_time", "stop_time")
# What a text takes in memory beside its characters.
_TEXT_BYTES = 64


@dataclass(frozen=True)
class _Series:
    """One recorded series: its samples by column, their unit, and their times."""

    name: str
    columns: dict[str, np.ndarray]
    unit: str
    times: np.ndarray


def read_nwb(
    path: Path, max_bytes: int, wanted: list[str]
) -> tuple[DataFrame, dict[str, str], list[str]]:
    """The behaviour in an NWB file as a table, the units of its columns, and notes.

    Columns: time (s), NAME_x, NAME_y, NAME_z of each `SpatialSeries`, NAME of each other series of
    behaviour; with a table of trials, `trial` and its columns as conditions. Series that were
    sampled at other times than the first (or the first of the columns `wanted`) are left out.
    """
    import h5py

    source = shown(path.name)
    try:
        require_sound_heaps(path)
        with h5py.File(path, "r") as file:
            reader = _Reader(source, Budget(path.name, max_bytes), path)
            series = reader.all_series(file)
            series, notes = _on_one_clock(series, wanted, source)
            frame, more = reader.table(file, series)
    except InputError:
        raise
    except Exception as error:  # damaged files make h5py raise nearly anything
        raise InputError(
            f"{source}: needs an NWB file, got one that is damaged or something else "
            f"({type(error).__name__})"
        ) from None
    units = {name: part.unit for part in series for name in part.columns}
    return frame, units, notes + more


class _Reader:
    def __init__(self, source: str, budget: Budget, path: Path) -> None:
        self.source, self.budget, self.path = source, budget, path

    def child(self, group: Any, name: str) -> Any:
        return child(self.source, group, name, soft=True)

    def find(self, group: Any, *names: str) -> Any:
        """What lies under a path of names; None if there is nothing."""
        for name in names:
            if not has(group, name):
                return None
            group = self.child(group, name)
        return group

    def all_series(self, file: Any) -> list[_Series]:
        """Every series of positions or behaviour."""
        found = [self.series(item, name) for item, name in self.candidates(file)]
        if not found:
            raise InputError(
                f"{self.source}: needs a SpatialSeries or BehavioralTimeSeries under processing or "
                "acquisition, got none"
            )
        checked: dict[str, None] = {}
        for part in found:
            for column in part.columns:
                if column in checked:
                    raise InputError(
                        f"{self.source}: needs series of different names, got '{shown(column)}' "
                        "twice"
                    )
                checked[column] = None
        return found

    def candidates(self, file: Any) -> Iterator[tuple[Any, str]]:
        modules = self.find(file, "processing")
        groups = [self.child(modules, name) for name in sorted(modules)] if modules else []
        for group in [*groups, self.find(file, "acquisition")]:
            if group is None or not hasattr(group, "keys"):
                continue
            for name in sorted(group):
                item = self.child(group, name)
                if _kind(item) in _CONTAINERS:
                    for inner in sorted(item):
                        part = self.child(item, inner)
                        if _kind(part) in _SERIES:
                            yield part, inner
                elif _kind(item) == "SpatialSeries":
                    yield item, name

    def series(self, group: Any, name: str) -> _Series:
        data = self.child(group, "data")
        values = self.numbers(data, f"{name}/data")
        scale, shift = (float(data.attrs.get(key, usual)) for key, usual in
                        (("conversion", 1.0), ("offset", 0.0)))  # fmt: skip
        values = values * scale + shift if (scale, shift) != (1.0, 0.0) else values
        if values.ndim not in (1, 2):
            raise InputError(f"{self.source}: '{shown(name)}' needs one or two axes")
        if has(group, "timestamps"):
            times = self.numbers(self.child(group, "timestamps"), f"{name}/timestamps")
        else:
            start = self.child(group, "starting_time")
            times = float(start[()]) + np.arange(len(values)) / float(start.attrs["rate"])
        if times.shape != values.shape[:1]:
            raise InputError(
                f"{self.source}: '{shown(name)}' needs a time for each of {len(values)} samples, "
                f"got {times.size}"
            )
        require_few_columns(self.source, math.prod(values.shape[1:]))
        columns = {name: values} if values.ndim == 1 else _by_axis(name, values, _kind(group))
        unit = _text(data.attrs.get("unit", ""))
        return _Series(name, columns, _UNITS.get(unit.lower(), unit), times)

    def numbers(self, dataset: Any, name: str) -> np.ndarray:
        """The numbers of a data set as floats."""
        size = dataset_bytes(self.source, dataset, self.budget.left)
        if dataset.dtype.kind not in "biuf":
            raise InputError(f"{self.source}: '{shown(name)}' needs numbers, got {dataset.dtype}")
        self.budget.take(max(size, 8 * dataset.size))
        return np.asarray(dataset[()], float)

    def texts(self, dataset: Any) -> np.ndarray | None:
        """The texts of a data set; None where it cannot be told beforehand how long they are."""
        self.budget.take(dataset_bytes(self.source, dataset, self.budget.left))
        size = 0 if dataset.dtype.kind == "S" else text_bytes(dataset, self.path)
        if size is None:
            return None
        self.budget.take(size + _TEXT_BYTES * dataset.size)
        return np.array([_text(value) for value in dataset[()]], object)

    def table(self, file: Any, series: list[_Series]) -> tuple[DataFrame, list[str]]:
        """The samples of one clock, cut into trials if the file has any."""
        import pandas as pd

        times = series[0].times
        columns = {name: array for part in series for name, array in part.columns.items()}
        trials = self.find(file, "intervals", "trials")
        if trials is None:
            return pd.DataFrame({"time": times} | columns), []
        start, stop = (self.numbers(self.child(trials, name), name) for name in _TIMES_OF_TRIALS)
        if (np.diff(times) <= 0).any() or np.isnan(times).any():
            raise InputError(f"{self.source}: '{shown(series[0].name)}' needs times that increase")
        spans = _spans(times, start, stop)
        rows = sum(len(span) for span in spans)
        facts, notes = self.conditions(trials, len(start), ["trial", "time", *columns])
        require_few_columns(self.source, len(columns) + len(facts))
        self.budget.take(8 * rows * (2 + len(columns) + len(facts)))
        if not rows:
            raise InputError(f"{self.source}: needs samples within its trials, got none")
        empty = sum(not len(span) for span in spans)
        if empty:
            notes.append(f"{empty} of {len(spans)} trials left out: they have no samples")
        order = np.concatenate([*spans])
        which = np.repeat(np.arange(len(spans)), [len(span) for span in spans])
        content = {"trial": spread(self.labels(trials, len(start)), which), "time": times[order]}
        content |= {name: array[order] for name, array in columns.items()}
        return pd.DataFrame(
            content | {name: spread(fact, which) for name, fact in facts.items()}
        ), notes

    def labels(self, trials: Any, count: int) -> np.ndarray:
        """What trials are called: their ids if these tell them apart, else numbers from 1."""
        numbers = self.numbers(self.child(trials, "id"), "id") if has(trials, "id") else None
        if numbers is None or numbers.shape != (count,) or len(np.unique(numbers)) < count:
            numbers = np.arange(1, count + 1)
        return np.array([f"{number:.0f}" for number in numbers], object)

    def conditions(
        self, trials: Any, count: int, taken: list[str]
    ) -> tuple[dict[str, np.ndarray], list[str]]:
        """The columns of the table of trials that have one value per trial, and notes."""
        found: dict[str, np.ndarray] = {}
        notes = []
        for name in sorted(trials):
            column = self.child(trials, name)
            if name in ("id", *_TIMES_OF_TRIALS) or _kind(column) == "VectorIndex":
                continue
            plain = hasattr(column, "shape") and column.shape == (count,)
            ragged = has(trials, f"{name}_index")
            is_text = plain and (column.dtype.kind == "S" or _is_text(column))
            if not plain or ragged or not (is_text or column.dtype.kind in "biuf"):
                notes.append(f"column '{shown(name)}' of the trials left out: not one value each")
                continue
            values = self.texts(column) if is_text else self.numbers(column, name)
            if values is None:
                notes.append(f"column '{shown(name)}' of the trials left out: packed text")
                continue
            found[name if name not in taken else f"{name}_condition"] = values
        return found, notes


def _on_one_clock(
    series: list[_Series], wanted: list[str], source: str
) -> tuple[list[_Series], list[str]]:
    """The series that share the times of the first that is wanted, and notes on the others."""
    chosen = [part for part in series if any(name in part.columns for name in wanted)]
    clock = (chosen or series)[0].times
    kept = [part for part in series if np.array_equal(part.times, clock)]
    others = [part.name for part in series if part not in kept]
    for part in chosen:
        if part.name in others:
            raise InputError(
                f"{source}: '{shown(part.name)}' and '{shown(chosen[0].name)}' were sampled at "
                "different times: read them one by one"
            )
    note = f"left out: {shown_list(others)}, sampled at other times than {shown(kept[0].name)}"
    return kept, [note] if others else []


def _by_axis(name: str, values: np.ndarray, kind: str) -> dict[str, np.ndarray]:
    count = values.shape[1]
    spatial = kind == "SpatialSeries" and count <= len(_AXES)
    axes = _AXES[:count] if spatial else [str(i + 1) for i in range(count)]
    return {f"{name}_{axis}": values[:, i] for i, axis in enumerate(axes)}


def _spans(times: np.ndarray, start: np.ndarray, stop: np.ndarray) -> list[range]:
    """The samples of each trial: from its start to its stop, which is the next one's if that
    starts there."""
    first = np.searchsorted(times, start, "left")
    last = np.searchsorted(times, stop, "right")
    shared = np.isin(stop, start)
    last = np.where(shared, np.searchsorted(times, stop, "left"), last)
    return [range(a, max(a, b)) for a, b in zip(first.tolist(), last.tolist(), strict=True)]


def _kind(item: Any) -> str:
    return _text(item.attrs.get("neurodata_type", ""))


def _is_text(dataset: Any) -> bool:
    import h5py

    return h5py.check_string_dtype(dataset.dtype) is not None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
