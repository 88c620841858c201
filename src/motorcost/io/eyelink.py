"""EyeLink recordings as text: the .asc files that SR Research's edf2asc makes of .edf files.

A line is a sample (a time and numbers), a message (MSG), the begin or end of a recording (START,
END), what its samples are (SAMPLES), or an event (ESACC, EBLINK). Times are in milliseconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from motorcost.errors import InputError, shown
from motorcost.io.columns import spread
from motorcost.io.limits import Budget, require_few_columns

if TYPE_CHECKING:
    from pandas import DataFrame

# A message may begin with the milliseconds by which it is late.
_TRIAL = re.compile(r"^(?:-?\d+\s+)?TRIALID\b\s*(.*)$")
_RESULT = re.compile(r"^(?:-?\d+\s+)?TRIAL(?:_RESULT\b|\s+OK\b)")
_VARIABLE = re.compile(r"^(?:-?\d+\s+)?!V\s+TRIAL_VAR\s+(\S+)\s*(.*)$")
_EVENTS = {"ESACC": "saccade", "EBLINK": "blink"}
_MISSING = ("", ".", "NA", "NaN", "nan", "UNDEFINED", "MISSING", "MISSING_DATA")
_EYES = ("LEFT", "RIGHT")
_VALUES = ("x", "y", "pupil")
# What a sample takes in memory while it is read.
_SAMPLE_BYTES = 200


@dataclass
class _Trial:
    """A trial as its messages tell: its name, and the values of its variables."""

    name: str
    variables: dict[str, str] = field(default_factory=dict)


class _Recording:
    """What has been read of a file: samples, the trial of each (-1: none), events and trials."""

    def __init__(self, source: str, *, by_message: bool) -> None:
        self.source, self.by_message = source, by_message
        self.eyes: tuple[str, ...] = ()
        self.met: set[tuple[str, ...]] = set()
        self.units: set[str] = set()
        self.trials: list[_Trial] = []
        self.current = -1
        self.samples: list[tuple[int, int, float, list[float]]] = []
        self.events: list[tuple[str, float, float]] = []

    def begin(self, name: str) -> None:
        """Begin a trial, which later samples belong to."""
        self.trials.append(_Trial(name.strip()))
        self.current = len(self.trials) - 1

    def message(self, text: str) -> None:
        """Take a message: the begin or the end of a trial, or a variable of it."""
        if found := _TRIAL.match(text):
            self.begin(found[1])
        elif _RESULT.match(text) and self.by_message:
            self.current = -1
        elif (found := _VARIABLE.match(text)) and self.trials:
            self.trials[-1].variables[found[1]] = found[2].strip()

    def layout(self, words: list[str]) -> None:
        """Take what a START or SAMPLES line says of the samples that follow."""
        self.eyes = tuple(eye for eye in _EYES if eye in words) or self.eyes
        if words[0] == "SAMPLES":
            self.units.add("px" if "GAZE" in words else "")

    def sample(self, row: int, words: list[str]) -> None:
        """Take a line of a time and of x, y and pupil for each eye."""
        eyes = self.eyes or ("LEFT",)
        if len(words) < 1 + 3 * len(eyes):
            raise InputError(
                f"{self.source}: row {row}: needs a time and x, y, pupil of {len(eyes)} eye(s), "
                f"got {len(words)} fields"
            )
        values = [self.number(row, word) for word in words[: 1 + 3 * len(eyes)]]
        nothing = [np.nan] * 3
        by_eye = {eye: values[1 + 3 * i : 4 + 3 * i] for i, eye in enumerate(eyes)}
        # A lost eye has a pupil of size 0.
        by_eye = {eye: nothing if np.isnan(seen[0]) else seen for eye, seen in by_eye.items()}
        self.met.add(eyes)
        both = [value for eye in _EYES for value in by_eye.get(eye, nothing)]
        self.samples.append((row, self.current, values[0], both))

    def event(self, row: int, words: list[str]) -> None:
        """Take a saccade or a blink, which its line says when it has ended."""
        if len(words) >= 4:
            first, last = (self.number(row, word) for word in words[2:4])
            self.events.append((_EVENTS[words[0]], first, last))

    def number(self, row: int, word: str) -> float:
        """A number, NaN where it is missing."""
        if word == ".":
            return np.nan
        try:
            return float(word)
        except ValueError:
            raise InputError(
                f"{self.source}: row {row}: needs a number, got '{shown(word)}'"
            ) from None


def read_eyelink(path: Path, max_bytes: int) -> tuple[DataFrame, dict[str, str], list[str]]:
    """The samples of an .asc file as a table, the units of its columns, and notes.

    Columns: trial, time (s), x, y and pupil (left_x, ... right_pupil where both eyes were
    recorded), saccade and blink (1 during one), and a condition for each `!V TRIAL_VAR`. A trial
    begins at the message TRIALID and ends at TRIAL_RESULT or the next TRIALID; in a file without
    such messages each recording (START to END) is a trial.
    """
    source = shown(path.name)
    lines = _lines(path, source)
    recording = _Recording(source, by_message=any("TRIALID" in line for line in lines))
    budget = Budget(path.name, max_bytes)
    for row, line in enumerate(lines, start=1):
        words = line.split()
        if not words:
            continue
        if words[0][0].isdigit():
            budget.take(_SAMPLE_BYTES)
            recording.sample(row, words)
        elif words[0] == "MSG":
            recording.message(line.split(None, 2)[2] if len(words) > 2 else "")
        elif words[0] in ("START", "SAMPLES"):
            recording.layout(words)
            if words[0] == "START" and not recording.by_message:
                recording.begin("")
        elif words[0] == "END" and not recording.by_message:
            recording.current = -1
        elif words[0] in _EVENTS:
            recording.event(row, words)
    return _table(recording, budget)


def _lines(path: Path, source: str) -> list[str]:
    data = path.read_bytes()
    if b"\0" in data:
        raise InputError(f"{source}: needs text that edf2asc made, got a binary file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n").split("\n")


def _table(recording: _Recording, budget: Budget) -> tuple[DataFrame, dict[str, str], list[str]]:
    """The table of a recording, the units of its columns, and notes."""
    import pandas as pd

    kept = [sample for sample in recording.samples if sample[1] >= 0]
    if not kept:
        raise InputError(
            f"{recording.source}: needs EyeLink samples within trials, got none of "
            f"{len(recording.samples)} samples in {len(recording.trials)} trials"
        )
    notes = []
    outside = len(recording.samples) - len(kept)
    if outside:
        notes.append(f"{outside} samples left out: they are in no trial")
    which = np.array([sample[1] for sample in kept])
    times = np.array([sample[2] for sample in kept])
    columns, notes_on_eyes = _channels(recording, np.array([sample[3] for sample in kept]))
    unit = "px" if recording.units == {"px"} or not recording.units else ""
    units = {name: unit for name in columns if not name.endswith("pupil")}
    for event in dict.fromkeys(kind for kind, _, _ in recording.events):
        columns[event] = _during(times, recording.events, event)
    conditions, notes_on_variables = _conditions(recording.trials, list(columns))
    require_few_columns(recording.source, len(columns) + len(conditions))
    budget.take(8 * len(kept) * (len(columns) + len(conditions)))
    frame = pd.DataFrame(
        {"trial": spread(_labels(recording.trials), which), "time": times / 1000}
        | columns
        | {name: spread(values, which) for name, values in conditions.items()},
        index=pd.Index([sample[0] for sample in kept]),
    )
    return frame, units, notes + notes_on_eyes + notes_on_variables


def _channels(recording: _Recording, values: np.ndarray) -> tuple[dict[str, np.ndarray], list[str]]:
    """The columns of positions and pupils, and notes. One eye has plain names."""
    if any(len(eyes) == 2 for eyes in recording.met):
        names = [f"{eye.lower()}_{value}" for eye in _EYES for value in _VALUES]
        return dict(zip(names, values.T, strict=True)), []
    notes = []
    if len(recording.met) > 1:
        notes.append("some recordings are of the left eye, some of the right")
    # All values of an eye that was not recorded are missing.
    single = np.where(np.isnan(values[:, :3]), values[:, 3:], values[:, :3])
    return dict(zip(_VALUES, single.T, strict=True)), notes


def _during(times: np.ndarray, events: list[tuple[str, float, float]], kind: str) -> np.ndarray:
    """1 for samples within an event of a kind, 0 for others."""
    order = np.argsort(times, kind="stable")
    change = np.zeros(len(times) + 1)
    for name, first, last in events:
        if name == kind:
            change[np.searchsorted(times, first, "left", sorter=order)] += 1
            change[np.searchsorted(times, last, "right", sorter=order)] -= 1
    within = np.empty(len(times))
    within[order] = np.cumsum(change[:-1]) > 0
    return within


def _labels(trials: list[_Trial]) -> np.ndarray:
    """What trials are called: as their messages say if that tells them apart, else by number."""
    names = [trial.name for trial in trials]
    if all(names) and len(set(names)) == len(names):
        return np.array(names, object)
    return np.array([str(i + 1) for i in range(len(trials))], object)


def _conditions(trials: list[_Trial], taken: list[str]) -> tuple[dict[str, np.ndarray], list[str]]:
    """For each variable its value in each trial, and notes on those that had to be renamed."""
    columns: dict[str, np.ndarray] = {}
    notes = []
    if len(set(_labels(trials)) & {trial.name for trial in trials}) < len(trials):
        for trial in trials:
            if trial.name:
                trial.variables.setdefault("trial_id", trial.name)
    reserved = {"trial", "time", *taken}
    for name in dict.fromkeys(name for trial in trials for name in trial.variables):
        column = name if name not in reserved else f"{name}_var"
        if column != name:
            notes.append(f"the variable '{shown(name)}' is called '{shown(column)}'")
        values = [trial.variables.get(name, "") for trial in trials]
        columns[column] = np.array(
            [None if value in _MISSING else value for value in values], object
        )
    return columns, notes
