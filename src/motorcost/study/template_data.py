"""What a study's template says of recordings that are there: how they are read and prepared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from motorcost import io
from motorcost.data.movements import Movements
from motorcost.errors import InputError
from motorcost.io import datasets
from motorcost.io.text import read_text
from motorcost.study.preparation import sampling_interval

# Names of columns, in lower case, that number trials and that have times, with the unit of these.
_TRIALS = ("trial", "trial_id", "trial_number", "trial_no", "trialnr", "trial_index")
_TIMES = {
    "time": "s",
    "t": "s",
    "time_s": "s",
    "t_s": "s",
    "seconds": "s",
    "time_ms": "ms",
    "t_ms": "ms",
    "time_us": "us",
    "t_us": "us",
}
_TEXT = (".csv", ".tsv", ".txt")
# Conditions that are the coordinates of a goal.
_GOALS = (("target_x", "target_y"), ("goal_x", "goal_y"), ("end_x", "end_y"))
# Steps of a reaching model, in seconds, that a recording's own intervals may serve as.
_STEPS = (0.006, 0.015)
_DT = 0.01
_LINE_TASKS = ("reaching",)
_PLANE_TASKS = ("reaching", "planar_reaching")
# What made the recordings of public data sets ready for a task, in the order of the steps.
_OF_DATASETS = {
    ("pointing", "reaching"): (
        'keep = "outward"',
        'scale = { factor = 0.00026, unit = "m", names = ["x", "y", "target_x", "target_y"] }'
        "   # a guess: the size of a pixel is not known",
        'along = { goal = ["target_x", "target_y"] }',
        'cut = { speed = 0.05, channels = ["position", "lateral"] }',
    ),
    ("saccades", "saccade"): (
        'along = { goal = ["end_x", "end_y"], start = ["start_x", "start_y"], '
        'names = ["angle", "lateral"] }',
        "least = { target = 4.0 }",
        'cut = { speed = 30.0, channels = ["angle", "lateral"], smooth = 0.003, margin = 0.01 }',
    ),
}
_DT_OF_SACCADES = 0.002


@dataclass(frozen=True)
class Described:
    """Parts of a template that depend on the recordings.

    - `reading`: the values of keys of [data], by name; `comments`: what was found in the file.
    - `prepare`: lines of [prepare] that hold for these recordings; empty if nobody knows.
    - `states`: the states that were recorded, if the preparation decides that; `dt`: the step.
    """

    reading: dict[str, str] = field(
        default_factory=lambda: {"trial": "trial", "time": "time", "time_unit": "s"}
    )
    comments: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    dt: float | None = None


def described(task_name: str, data: Path, folder: Path) -> Described:
    """What is known of recordings; nothing if the file is not there, or cannot be read."""
    path = data if data.is_absolute() or data.is_file() else folder / data
    if not path.is_file():
        return Described()
    name = datasets.recognised(path)
    if name is not None:
        return _of_dataset(name, task_name)
    reading = {"trial": "trial", "time": "time", "time_unit": "s"}
    try:
        guessed = _guessed(path)
        reading |= guessed
        movements = io.read(path, **guessed)
    except InputError as error:
        return Described(reading, (str(error),))
    names = ", ".join([*movements.channels, *movements.conditions])
    comments = (f"Found in {data.name}: {names}.",)
    prepare = _prepared(task_name, movements)
    line = bool(prepare) and task_name in _LINE_TASKS
    return Described(
        reading=reading,
        comments=comments,
        prepare=prepare,
        states=("position",) if line else (),
        dt=_step(task_name, movements),
    )


def _of_dataset(name: str, task_name: str) -> Described:
    prepare = _OF_DATASETS.get((name, task_name), ())
    return Described(
        reading={"dataset": name},
        prepare=prepare,
        states=({"reaching": "position", "saccade": "angle"}[task_name],) if prepare else (),
        dt=(_DT if task_name == "reaching" else _DT_OF_SACCADES) if prepare else None,
    )


def _guessed(path: Path) -> dict[str, Any]:
    """Options of `io.read` for a table of text whose columns have other names than expected."""
    if path.suffix.lower() not in _TEXT:
        return {}
    columns = [str(name) for name in read_text(path, [])[0].columns]
    result: dict[str, Any] = {}
    trial = _first(columns, _TRIALS)
    if trial is not None and trial != "trial":
        result["trial"] = trial
    time = _first(columns, tuple(_TIMES))
    if time is not None and time != "time":
        result |= {"time": time, "time_unit": _TIMES[time.lower()]}
    return result


def _first(columns: Sequence[str], known: Sequence[str]) -> str | None:
    """The column with the first of these names, whatever its case."""
    by_name = {name.lower(): name for name in reversed(columns)}
    return next((by_name[name] for name in known if name in by_name), None)


def _prepared(task_name: str, movements: Movements) -> tuple[str, ...]:
    """Steps for movements in the plane with goals."""
    if task_name not in _PLANE_TASKS or not {"x", "y"} <= set(movements.channels):
        return ()
    goal = next((names for names in _GOALS if set(names) <= set(movements.conditions)), None)
    if goal is None:
        return ()
    named = f'["{goal[0]}", "{goal[1]}"]'
    if task_name == "planar_reaching":
        return (f"centred = {{ goal = {named} }}", "cut = { speed = 0.05 }")
    return (
        f'# units = {{ x = "m", y = "m", {goal[0]} = "m", {goal[1]} = "m" }}   # first, if [data] '
        "says that they are in mm: the cut is at 0.05 of the channels' unit per second",
        f"along = {{ goal = {named} }}",
        'cut = { speed = 0.05, channels = ["position", "lateral"] }',
    )


def _step(task_name: str, movements: Movements) -> float | None:
    """The step of a reaching model, if the recording's intervals are too long or too short."""
    if task_name not in _PLANE_TASKS:
        return None
    interval = sampling_interval(movements)
    return None if _STEPS[0] <= interval <= _STEPS[1] else _DT
