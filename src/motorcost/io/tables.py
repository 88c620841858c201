"""From a table with a row for each sample to movements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from motorcost import checks
from motorcost.data.movements import Movements
from motorcost.errors import InputError, shown, shown_list
from motorcost.io.columns import Columns, Named

if TYPE_CHECKING:
    from pandas import DataFrame

# A text of this length is a condition; longer ones are notes, and would take the memory of as many
# characters for every trial.
_LONGEST_CONDITION = 1000
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
      Of several, all but `trial` are conditions too.
    - `time`: the column of times, which increase within a trial, in `time_unit`: s, ms or us.
    - `rate`: samples per second, for a table without times.
    - `channels`: columns that were recorded, or {your name: column}. Left out: all columns of
      numbers that change within some trial.
    - `conditions`: likewise, columns that have one value in each trial. Left out: all such.
    - `units`: what channels and conditions are measured in, by (your) name.
    - `source`: what errors and notes call the table.

    Examples
    --------
    >>> table = pd.DataFrame(
    ...     {"trial": [1, 1, 2, 2], "time": [0, 10, 0, 10], "x": [0.0, 1.5, 0.0, 1.2]}
    ... )
    >>> movements = mc.io.from_frame(table, time_unit="ms", units={"x": "mm"})
    >>> len(movements), movements.channels
    (2, {'x': 'mm'})
    """
    columns = Columns(frame, source)
    source = columns.source
    checks.one_of("time unit", time_unit, list(_SECOND))
    keys = [trial] if isinstance(trial, str) else list(trial)
    rows, labels = _trials(columns, trial)
    single = isinstance(trial, str) and trial not in columns.names
    clock = _times(columns, time, time_unit, rate, rows, labels, single=single)
    rows, clock, labels, notes = _long_enough(source, rows, clock, labels)
    # Of several columns that tell trials apart, all but their number describe the trials too.
    numbers = set(keys) if len(keys) == 1 else {"trial"}
    channel_columns, condition_columns, chosen = _chosen_columns(
        columns, channels, conditions, rows, {time} | numbers
    )
    values = {
        name: _one_per_trial(columns, column, rows, labels)
        for name, column in condition_columns.items()
    }
    samples = _samples(columns, channel_columns, np.concatenate(rows))
    known_units = dict(units or {})
    for name in known_units:
        checks.one_of("channel or condition", name, [*channel_columns, *values])
    notes += chosen + _missing(samples, rows, labels) + ([] if rate else _uneven(clock))
    return Movements(
        samples=tuple(samples[index] for index in rows),
        times=tuple(clock),
        channels={name: known_units.get(name, "") for name in channel_columns},
        conditions=values,
        condition_units={name: known_units.get(name, "") for name in values},
        labels=tuple(labels),
        notes=tuple(f"{source}: {note}" for note in notes),
    )


def _long_enough(
    source: str, rows: list[np.ndarray], clock: list[np.ndarray], labels: list[str]
) -> tuple[list[np.ndarray], list[np.ndarray], list[str], list[str]]:
    """Rows, times and labels of the trials of two samples or more, and a note on the others."""
    kept = [i for i, index in enumerate(rows) if len(index) > 1]
    if not kept:
        raise InputError(f"{source}: needs trials of two samples or more, got one sample in each")
    short = len(rows) - len(kept)
    notes = [f"{short} of {len(rows)} trials left out: they have one sample"] if short else []
    return [rows[i] for i in kept], [clock[i] for i in kept], [labels[i] for i in kept], notes


def _chosen_columns(
    columns: Columns,
    channels: Named | None,
    conditions: Named | None,
    rows: list[np.ndarray],
    taken: set[str],
) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Columns of channels and of conditions by the caller's names, and notes on those left out.

    Where the caller names none, columns of numbers that change within a trial are channels, and
    columns that never do are conditions.
    """
    channel_columns = {} if channels is None else columns.named(channels)
    condition_columns = {} if conditions is None else columns.named(conditions)
    taken = taken | {*channel_columns.values(), *condition_columns.values()}
    notes: list[str] = []
    if channels is not None and conditions is not None:
        return channel_columns, condition_columns, notes
    order = np.concatenate(rows)
    for name in (name for name in columns.names if name not in taken):
        array, empty = columns.values(name)
        if empty[order].all():
            notes.append(f"column '{shown(name)}' left out: it is empty")
        elif _first_values(array, empty, rows)[1] is None:
            if conditions is None and _is_long(array):
                notes.append(
                    f"column '{shown(name)}' left out: text of over {_LONGEST_CONDITION} characters"
                )
            elif conditions is None:
                condition_columns[name] = name
        elif channels is None and columns.mostly_numbers(name):
            channel_columns[name] = name
        elif channels is None:
            notes.append(f"column '{shown(name)}' left out: text that changes within a trial")
    return channel_columns, condition_columns, notes


def _samples(columns: Columns, channels: dict[str, str], order: np.ndarray) -> np.ndarray:
    """The channels' columns side by side. `order` are the rows that are used."""
    if not channels:
        for name in columns.names:
            if columns.values(name)[1][order].all():
                _no_numbers(columns, name)
        raise InputError(
            f"{columns.source}: needs a column of numbers that change within a trial, got "
            f"{shown_list(columns.names)}: name them (channels=['x'], --channel x)"
        )
    samples = np.column_stack([columns.numbers(column) for column in channels.values()])
    for column, values in zip(channels.values(), samples.T, strict=True):
        if np.isnan(values[order]).all():
            _no_numbers(columns, column)
    return samples


def _no_numbers(columns: Columns, name: str) -> NoReturn:
    raise InputError(f"{columns.source}: column '{shown(name)}' needs numbers, got none")


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
    return rows, ["/".join(text[index[0]] for text in texts) for index in rows]


def _times(
    columns: Columns,
    time: str,
    unit: str,
    rate: float | None,
    rows: list[np.ndarray],
    labels: list[str],
    *,
    single: bool,
) -> list[np.ndarray]:
    if rate is not None:
        checks.positive(rate=rate)
        return [np.arange(len(index)) / rate for index in rows]
    columns.known(time, "; name the column of times, as in time='t', or give rate=")
    clock = columns.numbers(time) / _SECOND[unit]
    if np.isnan(clock).any():
        columns.wrong(int(np.argmax(np.isnan(clock))), time, "a time", "nothing")
    for label, index in zip(labels, rows, strict=True):
        late = np.flatnonzero(np.diff(clock[index]) <= 0)
        if not late.size:
            continue
        before, at = index[late[0]], index[late[0] + 1]
        then, now = columns.numbers(time)[[before, at]]
        got = f"{now:.10g} again, as in row {shown(columns.rows[before])}"
        if now < then:
            got = f"{now:.10g} after {then:.10g} in row {shown(columns.rows[before])}"
        if single:
            got += "; if these are several trials, name the column that numbers them, trial='...'"
        elif now < then:
            got += (
                "; if numbers of trials repeat, name every column that tells trials apart, "
                "trial=['subject', 'trial']"
            )
        columns.wrong(int(at), time, f"times that increase within trial {shown(label)}", got)
    return [clock[index] for index in rows]


def _first_values(
    array: np.ndarray, empty: np.ndarray, rows: list[np.ndarray]
) -> tuple[np.ndarray, int | None]:
    """The row of each trial's first value (-1: none), and a row that has another value than its
    trial began with, if there is one; empty fields agree with any."""
    order, counts = np.concatenate(rows), [len(index) for index in rows]
    places = np.where(empty[order], len(order), np.arange(len(order)))
    first = np.minimum.reduceat(places, np.cumsum([0, *counts[:-1]]))
    begun = order[np.minimum(first, len(order) - 1)]
    other = ~empty[order] & (array[order] != array[np.repeat(begun, counts)])
    changed = int(order[np.argmax(other)]) if other.any() else None
    return np.where(first < len(order), begun, -1), changed


def _one_per_trial(
    columns: Columns, name: str, rows: list[np.ndarray], labels: list[str]
) -> np.ndarray:
    """The value of a condition in each trial; NaN, or "" for text, where it is empty."""
    array, empty = columns.values(name)
    first, changed = _first_values(array, empty, rows)
    if changed is not None:
        of_rows = zip(labels, rows, strict=True)
        label = next(label for label, index in of_rows if changed in index)
        columns.wrong(
            changed, name, f"one value throughout trial {shown(label)}", shown(array[changed])
        )
    if _is_long(array):
        at = int(np.argmax([value is not None and len(str(value)) for value in array]))
        need = f"text of at most {_LONGEST_CONDITION} characters"
        columns.wrong(at, name, need, f"{len(str(array[at]))}")
    if array.dtype.kind == "O":
        return np.array([str(array[i]) if i >= 0 else "" for i in first])
    return array[first] if (first >= 0).all() else np.where(first >= 0, array[first], np.nan)


def _is_long(array: np.ndarray) -> bool:
    """Whether a column has text that is too long for a condition."""
    return array.dtype.kind == "O" and any(
        isinstance(value, str) and len(value) > _LONGEST_CONDITION for value in array
    )


def _missing(samples: np.ndarray, rows: list[np.ndarray], labels: list[str]) -> list[str]:
    # A trial without any sample is left out by whoever takes the trials, who says so.
    there = [not np.isnan(samples[index]).all() for index in rows]
    rows = [index for index, has in zip(rows, there, strict=True) if has]
    labels = [label for label, has in zip(labels, there, strict=True) if has]
    gone = np.isnan(samples).any(axis=1)
    count = sum(int(gone[index].sum()) for index in rows)
    if not count:
        return []
    longest, where = max(
        ((_longest_run(gone[index]), label) for label, index in zip(labels, rows, strict=True)),
        key=lambda found: found[0],
    )
    total = sum(len(index) for index in rows)
    return [f"{count} of {total} samples missing, longest run {longest} in trial {shown(where)}"]


def _longest_run(true: np.ndarray) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], true, [False]]).astype(int)))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def _uneven(clock: list[Any]) -> list[str]:
    gaps = np.concatenate([np.diff(times) for times in clock])
    usual = float(np.median(gaps))
    if np.abs(gaps - usual).max() <= 0.1 * usual:
        return []
    low, high = gaps.min(), gaps.max()
    return [f"sampled unevenly: {low:.3g} to {high:.3g} s apart, {usual:.3g} s at the median"]
