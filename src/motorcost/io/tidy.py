"""Tidy tables: a row for each sample, a column for each channel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from motorcost.errors import InputError
from motorcost.io.files import written_whole
from motorcost.trials import Trials

if TYPE_CHECKING:
    from pandas import DataFrame


def to_frame(trials: Trials, conditions: Mapping[str, Any] | None = None) -> DataFrame:
    """Trials as a pandas `DataFrame`: trial (from 1), time (s), channels, then conditions.

    A condition is one value for all trials, or one for each.
    """
    import pandas as pd

    conditions = conditions or {}
    N, T, _ = trials.observed.shape
    taken = ("trial", "time", *trials.channel_names)
    for name, value in conditions.items():
        if name in taken:
            raise InputError(f"the condition {name!r} has the name of another column")
        if np.shape(value) not in ((), (N,)):
            raise InputError(
                f"the condition {name!r} must be one value or one for each of {N} trials, "
                f"got shape {np.shape(value)}"
            )
    samples = np.asarray(trials.observed).reshape(N * T, -1)
    return pd.DataFrame(
        {
            "trial": np.repeat(np.arange(1, N + 1), T),
            "time": np.tile(np.asarray(trials.times), N),
            **{name: samples[:, i] for i, name in enumerate(trials.channel_names)},
            **{
                name: np.repeat(np.broadcast_to(np.asarray(value), (N,)), T)
                for name, value in conditions.items()
            },
        }
    )


def write_csv(
    trials: Trials, where: Path | str | TextIO, conditions: Mapping[str, Any] | None = None
) -> None:
    """Write a tidy CSV file, whole or not at all. Numbers are written so that they read back
    exactly."""
    frame = to_frame(trials, conditions)
    if not isinstance(where, (str, Path)):
        frame.to_csv(where, index=False)
        return
    with written_whole(Path(where)) as draft:
        frame.to_csv(draft, index=False)
