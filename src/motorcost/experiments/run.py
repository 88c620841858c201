"""Carrying an experiment out, and keeping its outcome."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from motorcost.errors import InputError
from motorcost.experiments.declare import (
    SCALES,
    Experiment,
    Number,
    Scale,
    Settings,
    Sweep,
    Tables,
)
from motorcost.io import check_folder, written_whole
from motorcost.study.result import device_name, plain
from motorcost.sweeps import SweepProgress

FORMAT = 1


@dataclass(frozen=True)
class Outcome:
    """The outcome of an experiment at one scale.

    - `pictures`: what the files in `figures/` show, by their names.
    - `seconds`: the time of all sweeps and of drawing, including runs that were interrupted.
    - `rows`, `failed`: the number of rows in all tables, and of those that failed.
    - `command`, `machine`: how and where it was carried out.
    """

    experiment: str
    scale: Scale
    numbers: tuple[Number, ...]
    pictures: dict[str, str]
    seconds: float
    rows: int
    failed: int
    command: str
    machine: str


def reproduce(
    experiment: Experiment,
    scale: Scale,
    folder: Path,
    *,
    data: Path | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    command: str = "",
    progress: Callable[[str, SweepProgress], None] | None = None,
    **how: Any,
) -> Outcome:
    """Carry an experiment out at one scale, and write its tables, figures and outcome.

    - `folder`: where all is written. What is there of an earlier run is not run again.
    - `data`: the folder with recordings, for an experiment that needs them.
    - `batch_size`: the number of fits in one call, if not the experiment's own.
    - `command`: how a user would repeat this, for the page with the results.
    - `progress`: called with the name of the work and a `SweepProgress`.
    - `how`: where sweeps run, as for `sweep`: `workers`, `scheduler`, `retry_failed`.
    """
    settings = dict(experiment.scales[scale]) | {"seed": seed}
    if batch_size is not None and "batch_size" in settings:
        settings["batch_size"] = batch_size
    if experiment.data:
        settings["data"] = data
    check_folder(folder)
    for path in (folder, folder / "tables", folder / "figures"):
        path.mkdir(exist_ok=True)
    tables, seconds = {}, 0.0
    for plan in experiment.sweeps(settings):
        tell = None if progress is None else partial(progress, f"{experiment.name} {plan.name}")
        table_folder = folder / "tables" / f"{plan.name}-{scale}"
        tables[plan.name], took = _timed(plan, table_folder, seed=seed, progress=tell, **how)
        seconds += took
    began = time.monotonic()
    outcome = Outcome(
        experiment=experiment.name,
        scale=scale,
        numbers=tuple(experiment.numbers(settings, tables)),
        pictures=_draw(experiment, scale, settings, tables, folder / "figures"),
        seconds=seconds + time.monotonic() - began,
        rows=sum(len(table) for table in tables.values()),
        failed=sum(int((table["failed"] != "").sum()) for table in tables.values()),
        command=command,
        machine=_machine(how),
    )
    content = plain({"format": FORMAT, "version": version("motorcost"), **asdict(outcome)})
    _write(folder / f"{experiment.name}-{scale}.json", json.dumps(content, indent=1).encode())
    return outcome


def _draw(
    experiment: Experiment, scale: Scale, settings: Settings, tables: Tables, folder: Path
) -> dict[str, str]:
    """Write the pictures of an experiment; returns what they show, by file."""
    pictures = {}
    for picture in experiment.draw(settings, tables):
        file = f"{experiment.name}-{picture.name}-{scale}.png"
        _write(folder / file, picture.png)
        pictures[file] = picture.alt
    return pictures


def _timed(plan: Sweep, folder: Path, **how: Any) -> tuple[Any, float]:
    """The table of a sweep, and the seconds that it took, including runs that were interrupted."""
    clock = folder.with_suffix(".seconds")
    try:
        before = float(clock.read_text("utf-8"))
    except (OSError, ValueError):
        before = 0.0
    was_done = (folder / "table.parquet").exists()
    began = time.monotonic()
    try:
        table = plan.run(folder, **how)
    finally:
        took = before if was_done else before + time.monotonic() - began
        if folder.is_dir() and not was_done:
            _write(clock, f"{took:.3f}".encode())
    return table, took


def _write(path: Path, content: bytes) -> None:
    with written_whole(path) as draft:
        draft.write_bytes(content)


def _machine(how: dict[str, Any]) -> str:
    if how.get("scheduler") is not None:
        return "a Dask cluster"
    cores = os.cpu_count() or 1
    device = device_name()
    where = f"{cores} CPU cores" if device == "cpu" else device
    return where + (f", {how['workers']} workers" if how.get("workers") else "")


def outcomes(folder: Path) -> list[Outcome]:
    """The outcomes in a folder, of each experiment the one of largest scale."""
    from motorcost.experiments import NAMES

    found = []
    for name in NAMES:
        for scale in reversed(SCALES):
            file = folder / f"{name}-{scale}.json"
            if file.exists():
                found.append(_read(file))
                break
    return found


def _read(file: Path) -> Outcome:
    try:
        content = json.loads(file.read_text("utf-8"))
        if content.pop("format") != FORMAT:
            raise ValueError
        content.pop("version")
        numbers = tuple(
            Number(**{**fields, "ours": float("nan") if fields["ours"] is None else fields["ours"]})
            for fields in content.pop("numbers")
        )
        return Outcome(numbers=numbers, **content)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InputError(
            f"{file} is no outcome of an experiment that this version can read"
        ) from None
