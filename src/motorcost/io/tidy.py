"""Tidy tables: a row for each sample, a column for each channel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import numpy as np

from motorcost import checks
from motorcost.data.movements import Movements
from motorcost.io.files import written_whole
from motorcost.model.trials import Trials

if TYPE_CHECKING:
    from pandas import DataFrame


def to_frame(recorded: Trials | Movements) -> DataFrame:
    """Trials or movements as a pandas `DataFrame`: trial, time (s), channels, then conditions.

    Of `Trials`, which are numbered from 1, time 0 is the first sample; the steps of a lead before
    it, which were not observed, have no row. `Movements` keep their labels, unless two have the
    same, and their times.

    Examples
    --------
    >>> mc.io.to_frame(positions).columns.tolist()
    ['trial', 'time', 'position']
    """
    return _of_movements(recorded) if isinstance(recorded, Movements) else _of_trials(recorded)


def _of_movements(movements: Movements) -> DataFrame:
    import pandas as pd

    names = ["trial", "time", *movements.channels, *movements.conditions]
    checks.distinct("columns", names)
    counts = [len(times) for times in movements.times]
    labels = movements.labels
    if len(set(labels)) < len(labels):
        labels = tuple(str(i + 1) for i in range(len(movements)))
    samples = np.concatenate([np.zeros((0, len(movements.channels))), *movements.samples])
    conditions = {
        name: np.repeat(values.astype(object) if values.dtype.kind == "U" else values, counts)
        for name, values in movements.conditions.items()
    }
    return pd.DataFrame(
        {
            "trial": np.repeat(np.array(labels, object), counts),
            "time": np.concatenate([np.zeros(0), *movements.times]),
            **{name: samples[:, i] for i, name in enumerate(movements.channels)},
            **conditions,
        }
    )


def _of_trials(trials: Trials) -> DataFrame:
    import pandas as pd

    conditions = trials.conditions
    N, T, _ = trials.observed.shape
    checks.distinct("columns", ["trial", "time", *trials.channel_names, *conditions])
    samples = np.asarray(trials.observed).reshape(N * T, -1)
    frame = pd.DataFrame(
        {
            "trial": np.repeat(np.arange(1, N + 1), T),
            "time": np.tile(np.asarray(trials.times), N),
            **{name: samples[:, i] for i, name in enumerate(trials.channel_names)},
            **{name: np.repeat(values, T) for name, values in conditions.items()},
        }
    )
    within = (np.arange(T) < trials.lengths[:, None]) & (np.arange(T) >= trials.lead_steps)
    return frame[within.ravel()].reset_index(drop=True)


def write_csv(trials: Trials | Movements, where: Path | str | TextIO) -> None:
    """Write a tidy CSV file, whole or not at all. Numbers are written so that they read back
    exactly; a missing sample is an empty field.

    Examples
    --------
    >>> mc.io.write_csv(positions, "trials.csv")
    >>> pd.read_csv("trials.csv").columns.tolist()
    ['trial', 'time', 'position']
    """
    frame = to_frame(trials)
    if not isinstance(where, (str, Path)):
        frame.to_csv(where, index=False)
        return
    with written_whole(Path(where)) as draft:
        frame.to_csv(draft, index=False)
