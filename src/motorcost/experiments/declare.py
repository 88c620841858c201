"""What an experiment of the paper consists of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from motorcost.report.page import Picture
from motorcost.sweeps import sweep

if TYPE_CHECKING:
    import pandas as pd

Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "laptop", "paper")

Settings = Mapping[str, Any]
Tables = Mapping[str, "pd.DataFrame"]


@dataclass(frozen=True)
class Sweep:
    """A sweep that an experiment needs, with the arguments of `motorcost.sweep`.

    Experiments that need the same rows declare sweeps of the same name, which run once. Change the
    `version` when the function of a sweep gives other numbers than before.
    """

    name: str
    function: Callable[..., Any]
    over: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
    repetitions: int = 1
    call: Literal["each", "vmap", "arrays"] = "arrays"
    batch_size: int | None = None
    static: tuple[str, ...] = ()
    version: int = 1

    @property
    def rows(self) -> int:
        """The number of rows."""
        if isinstance(self.over, Mapping):
            return self.repetitions * math.prod(len(values) for values in self.over.values())
        return self.repetitions * len(self.over)

    def run(self, folder: Path | None = None, **how: Any) -> pd.DataFrame:
        """Run the sweep, as far as its rows are not in `folder` yet, and return the table."""
        return sweep(
            self.function,
            self.over,
            repetitions=self.repetitions,
            call=self.call,
            batch_size=None if self.batch_size is None else min(self.batch_size, self.rows),
            static=self.static,
            version=self.version,
            folder=folder,
            **how,
        )


@dataclass(frozen=True)
class Number:
    """A result of an experiment.

    - `ours`, `error`: our number, and its standard error over repetitions where there are any.
    - `paper`: the paper's number, where it reports one; `note`: why they differ.
    """

    name: str
    ours: float
    error: float | None = None
    paper: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper.

    - `part`: which part of the paper; `about`: what is varied, measured and drawn.
    - `scales`: the settings of each scale, such as numbers of trials. When it is carried
      out they also have the `seed`, for random numbers that do not come from the keys of sweeps.
    - `sweeps`: a function of the settings that returns the sweeps to run.
    - `numbers`, `draw`: functions of the settings and of the tables, by the names of their sweeps,
      that return the results and the pictures.
    - `deviations`: every difference from the paper, and what the paper leaves open.
    - `data`: the public data sets of which it needs one, if any; the settings then have its folder
      as `data`.
    """

    name: str
    part: str
    title: str
    about: str
    scales: Mapping[Scale, Settings]
    sweeps: Callable[[Settings], Sequence[Sweep]]
    numbers: Callable[[Settings, Tables], Sequence[Number]]
    draw: Callable[[Settings, Tables], Sequence[Picture]]
    deviations: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
