"""Carry an experiment out, and keep what came of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from motorcost.errors import InputError
from motorcost.experiments.declare import SCALES, Experiment, Number, Scale, Sweep
from motorcost.io import check_folder, written_whole
from motorcost.study.result import device_name, plain
from motorcost.sweeps import Standing

FORMAT = 1


@dataclass(frozen=True)
class Outcome:
    """What came of an experiment at one scale.

    - `pictures`: files in `figures/`, by what they show.
    - `seconds`: of all its sweeps and of drawing, over all the times that it was begun.
    - `rows`, `failed`: how many there are, and how many of them did not work out.
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
    together: int | None = None,
    seed: int = 0,
    command: str = "",
    progress: Callable[[str, Standing], None] | None = None,
    **how: Any,
) -> Outcome:
    """Run the experiment's sweeps, or what is left of them, draw what they show, and write both
    into `folder`. `together` is how many fits run in one call, if not what the experiment says;
    `how` says where sweeps run: `workers`, `scheduler`, `retry_failed`."""
    settings = dict(experiment.scales[scale]) | {"seed": seed}
    if together is not None and "together" in settings:
        settings["together"] = together
    if experiment.data:
        settings["data"] = data
    check_folder(folder)
    for each in (folder, folder / "tables", folder / "figures"):
        each.mkdir(exist_ok=True)
    tables, seconds = {}, 0.0
    for plan in experiment.sweeps(settings):
        tell = None if progress is None else _telling(progress, f"{experiment.name} {plan.name}")
        where = folder / "tables" / f"{plan.name}-{scale}"
        tables[plan.name], took = _timed(plan, where, seed=seed, progress=tell, **how)
        seconds += took
    began = time.monotonic()
    numbers = tuple(experiment.numbers(settings, tables))
    pictures = {}
    for picture in experiment.draw(settings, tables):
        file = f"{experiment.name}-{picture.name}-{scale}.png"
        _write(folder / "figures" / file, picture.png)
        pictures[file] = picture.alt
    outcome = Outcome(
        experiment=experiment.name,
        scale=scale,
        numbers=numbers,
        pictures=pictures,
        seconds=seconds + time.monotonic() - began,
        rows=sum(len(table) for table in tables.values()),
        failed=sum(int((table["failed"] != "").sum()) for table in tables.values()),
        command=command,
        machine=_machine(how),
    )
    content = plain({"format": FORMAT, "version": version("motorcost"), **asdict(outcome)})
    _write(folder / f"{experiment.name}-{scale}.json", json.dumps(content, indent=1).encode())
    return outcome


def _telling(progress: Callable[[str, Standing], None], what: str) -> Callable[[Standing], None]:
    return lambda standing: progress(what, standing)


def _timed(plan: Sweep, where: Path, **how: Any) -> tuple[Any, float]:
    """A sweep's table, and how long it took: now, and the times before that it was interrupted."""
    clock = where.with_suffix(".seconds")
    try:
        before = float(clock.read_text("utf-8"))
    except (OSError, ValueError):
        before = 0.0
    was_done = (where / "table.parquet").exists()
    began = time.monotonic()
    try:
        table = plan.run(where, **how)
    finally:
        took = before if was_done else before + time.monotonic() - began
        if where.is_dir() and not was_done:
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
    """Of each experiment that was carried out in a folder, the outcome of largest scale."""
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
            Number(**{**each, "ours": float("nan") if each["ours"] is None else each["ours"]})
            for each in content.pop("numbers")
        )
        return Outcome(numbers=numbers, **content)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InputError(f"{file}: is no outcome that this version can read") from None
