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
    """What is varied, how often, and the function that gives a row. See `motorcost.sweep`.

    Experiments that need the same rows declare sweeps of the same name, which run once.
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
        """How many there will be."""
        if isinstance(self.over, Mapping):
            return self.repetitions * math.prod(len(values) for values in self.over.values())
        return self.repetitions * len(self.over)

    def run(self, folder: Path | None = None, **how: Any) -> pd.DataFrame:
        """The rows, from `folder` as far as they are there already."""
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
    """A number that came out, with its standard error over repetitions where there are any; the
    paper's, where it reports one; and, where they differ, why."""

    name: str
    ours: float
    error: float | None = None
    paper: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper.

    - `part`: which part of the paper; `about`: what is varied, measured and drawn.
    - `scales`: by scale, the settings: how many of everything. When it is carried out they also
      have the `seed`, for what is drawn besides the sweeps' keys.
    - `sweeps`, `numbers`, `draw`: of settings (and tables, by the sweeps' names), what to run,
      what comes out, and what there is to see. Pictures are named.
    - `deviations`: everything that is not as in the paper, or that the paper leaves open.
    - `data`: the public data set that it needs, if any; the settings then have its folder as
      `data`.
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
