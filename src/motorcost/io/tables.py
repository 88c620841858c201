"""From a table with a row for each sample to movements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from motorcost import checks
from motorcost.data.movements import Movements
from motorcost.errors import InputError
from motorcost.io.columns import Columns, Named

if TYPE_CHECKING:
    from pandas import DataFrame

_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6}


def from_frame(
    frame: DataFrame,
    *,
    trial: str | Sequence[str] = "trial",
    time: str = "time",
    channels: Named | None = None,
    units: Mapping[str, str] | None = None,
    time_unit: str = "s",
    conditions: Named | None = None,
    rate: float | None = None,
    source: str = "the table",
) -> Movements:
    """Movements from a pandas `DataFrame` with a row for each sample.

    - `trial`: the column that tells the trials apart, or several, as in `["subject", "trial"]`.
      A table without one is a single trial. The rows of a trial need not be next to each other.
    - `time`: the column of times, which increase within a trial, in `time_unit`: s, ms or us.
    - `rate`: samples a second, for a table without times.
    - `channels`: columns that were recorded, or {your name: column}. Left out: all columns of
      numbers that change within some trial.
    - `conditions`: likewise, columns that have one value in each trial. Left out: all such.
    - `units`: what channels and conditions are measured in, by (your) name.
    - `source`: what errors and notes call the table.
    """
    columns = Columns(frame, source)
    checks.one_of("time unit", time_unit, list(_SECOND))
    rows, labels = _trials(columns, trial)
    single = isinstance(trial, str) and trial not in columns.names
    taken = {time} | ({trial} if isinstance(trial, str) else set(trial))
    clock = _times(columns, time, time_unit, rate, rows, labels, single)

    notes = []
    short = sum(len(each) == 1 for each in rows)
    if short == len(rows):
        raise InputError(f"{source}: needs trials of two samples or more, got one sample in each")
    if short:
        notes.append(f"{short} of {len(rows)} trials left out: they have one sample")
    which = [i for i, each in enumerate(rows) if len(each) > 1]
    rows, clock = [rows[i] for i in which], [clock[i] for i in which]
    labels = [labels[i] for i in which]

    named = {} if channels is None else columns.named(channels)
    fixed = {} if conditions is None else columns.named(conditions)
    taken |= {*named.values(), *fixed.values()}
    values = {name: _one_a_trial(columns, column, rows, labels) for name, column in fixed.items()}
    order = np.concatenate(rows)
    for name in columns.names if channels is None or conditions is None else ():
        if name in taken:
            continue
        array, empty = columns.values(name)
        if empty[order].all():
            notes.append(f"column {name!r} left out: it is empty")
        elif _first_values(array, empty, rows)[1] is None:
            if conditions is None:
                values[name] = _one_a_trial(columns, name, rows, labels)
        elif channels is None and columns.mostly_numbers(name):
            named[name] = name
        elif channels is None:
            notes.append(f"column {name!r} left out: text that changes within a trial")
    if not named:
        raise InputError(
            f"{source}: needs a column of numbers that change within a trial, got "
            f"{', '.join(columns.names)}: name them, as in channels=['x']"
        )
    samples = np.column_stack([columns.numbers(column) for column in named.values()])
    for name, column in zip(named, samples.T, strict=True):
        if np.isnan(column[order]).all():
            raise InputError(f"{source}: column {named[name]!r} needs numbers, got none")
    given = dict(units or {})
    for name in given:
        checks.one_of("channel or condition", name, [*named, *values])
    notes += _missing(samples, rows, labels) + ([] if rate else _uneven(clock))
    return Movements(
        samples=tuple(samples[each] for each in rows),
        times=tuple(clock),
        channels={name: given.get(name, "") for name in named},
        conditions=values,
        condition_units={name: given.get(name, "") for name in values},
        labels=tuple(labels),
        notes=tuple(f"{source}: {note}" for note in notes),
    )


def _trials(columns: Columns, trial: str | Sequence[str]) -> tuple[list[np.ndarray], list[str]]:
    """The rows of each trial, in the order in which the trials first appear, and their names."""
    import pandas as pd

    names = [trial] if isinstance(trial, str) else list(trial)
    if names == [trial] and trial not in columns.names:
        return [np.arange(len(columns.rows))], ["1"]
    key, texts = np.zeros(len(columns.rows), int), []
    for name in names:
        array, empty = columns.values(columns.known(name))
        if empty.any():
            columns.wrong(int(np.argmax(empty)), name, "the trial's name", "nothing")
        codes, found = pd.factorize(array)
        key = pd.factorize(key * len(found) + codes)[0]
        texts.append([f"{value:g}" if isinstance(value, float) else str(value) for value in array])
    rows = np.split(np.argsort(key, kind="stable"), np.cumsum(np.bincount(key))[:-1])
    return rows, ["/".join(text[each[0]] for text in texts) for each in rows]


def _times(
    columns: Columns,
    time: str,
    unit: str,
    rate: float | None,
    rows: list[np.ndarray],
    labels: list[str],
    single: bool,
) -> list[np.ndarray]:
    if rate is not None:
        checks.positive(rate=rate)
        return [np.arange(len(each)) / rate for each in rows]
    columns.known(time, "; name the column of times, as in time='t', or give rate=")
    clock = columns.numbers(time) / _SECOND[unit]
    if np.isnan(clock).any():
        columns.wrong(int(np.argmax(np.isnan(clock))), time, "a time", "nothing")
    for label, each in zip(labels, rows, strict=True):
        late = np.flatnonzero(np.diff(clock[each]) <= 0)
        if not late.size:
            continue
        before, at = each[late[0]], each[late[0] + 1]
        then, now = columns.numbers(time)[[before, at]]
        got = f"{now:.10g} again, as in row {columns.rows[before]}"
        if now < then:
            got = f"{now:.10g} after {then:.10g} in row {columns.rows[before]}"
        if single:
            got += "; if these are several trials, name the column that numbers them, trial='...'"
        columns.wrong(int(at), time, f"times that increase within trial {label}", got)
    return [clock[each] for each in rows]


def _first_values(
    array: np.ndarray, empty: np.ndarray, rows: list[np.ndarray]
) -> tuple[np.ndarray, int | None]:
    """The row of each trial's first value (-1: none), and a row that has another value than its
    trial began with, if there is one; empty fields agree with any."""
    order, counts = np.concatenate(rows), [len(each) for each in rows]
    places = np.where(empty[order], len(order), np.arange(len(order)))
    first = np.minimum.reduceat(places, np.cumsum([0, *counts[:-1]]))
    begun = order[np.minimum(first, len(order) - 1)]
    other = ~empty[order] & (array[order] != array[np.repeat(begun, counts)])
    changed = int(order[np.argmax(other)]) if other.any() else None
    return np.where(first < len(order), begun, -1), changed


def _one_a_trial(
    columns: Columns, name: str, rows: list[np.ndarray], labels: list[str]
) -> np.ndarray:
    """The value of a condition in each trial; NaN, or "" for text, where it is empty."""
    array, empty = columns.values(name)
    first, changed = _first_values(array, empty, rows)
    if changed is not None:
        label = next(label for label, each in zip(labels, rows, strict=True) if changed in each)
        columns.wrong(changed, name, f"one value throughout trial {label}", array[changed])
    if array.dtype.kind == "O":
        return np.array([str(array[i]) if i >= 0 else "" for i in first])
    return array[first] if (first >= 0).all() else np.where(first >= 0, array[first], np.nan)


def _missing(samples: np.ndarray, rows: list[np.ndarray], labels: list[str]) -> list[str]:
    gone = np.isnan(samples).any(axis=1)
    count = sum(int(gone[each].sum()) for each in rows)
    if not count:
        return []
    longest, where = max(
        ((_longest_run(gone[each]), label) for label, each in zip(labels, rows, strict=True)),
        key=lambda found: found[0],
    )
    total = sum(len(each) for each in rows)
    return [f"{count} of {total} samples missing, longest run {longest} in trial {where}"]


def _longest_run(true: np.ndarray) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], true, [False]]).astype(int)))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def _uneven(clock: list[Any]) -> list[str]:
    gaps = np.concatenate([np.diff(each) for each in clock])
    usual = float(np.median(gaps))
    if np.abs(gaps - usual).max() <= 0.1 * usual:
        return []
    low, high = gaps.min(), gaps.max()
    return [f"sampled unevenly: {low:.3g} to {high:.3g} s apart, {usual:.3g} s at the median"]
