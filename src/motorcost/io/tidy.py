"""Tidy tables: a row for each sample, a column for each channel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import numpy as np

from motorcost import checks
from motorcost.io.files import written_whole
from motorcost.model.trials import Trials

if TYPE_CHECKING:
    from pandas import DataFrame


def to_frame(trials: Trials) -> DataFrame:
    """Trials as a pandas `DataFrame`: trial (from 1), time (s), channels, then conditions.

    Time 0 is the first sample; the steps of a lead before it, which were not observed, have no row.
    """
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


def write_csv(trials: Trials, where: Path | str | TextIO) -> None:
    """Write a tidy CSV file, whole or not at all. Numbers are written so that they read back
    exactly; a missing sample is an empty field."""
    frame = to_frame(trials)
    if not isinstance(where, (str, Path)):
        frame.to_csv(where, index=False)
        return
    with written_whole(Path(where)) as draft:
        frame.to_csv(draft, index=False)
