"""Files that the page may open, and what is read from them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from motorcost import tasks
from motorcost.errors import InputError, shown
from motorcost.io.registry import FORMATS, format_of
from motorcost.model.observer import SHARED_NOISE
from motorcost.model.trials import Trials
from motorcost.study.document import read_document
from motorcost.study.overview import look_at
from motorcost.study.settings import Study
from motorcost.study.task_lookup import TASKS, example_problem, find_task
from motorcost.tasks.declarations import Task

STUDY = ".toml"
DATA = tuple(ending for format in FORMATS for ending in format.endings)
# The largest file that is taken from the browser.
MOST_BYTES = 100 * 2**20
# The recording noise to begin with where some states are not recorded, as a share of the range.
_USUAL_NOISE = 0.01
# Files that the list shows.
_MOST_FILES = 500


class Folder:
    """The folder whose recordings and studies the page may open: these, and nothing outside."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def files(self) -> list[str]:
        """The recordings and studies in the folder and the folders in it, by relative path."""
        found = []
        for path in sorted(self.root.rglob("*")):
            inside = path.relative_to(self.root)
            if any(part.startswith(".") for part in inside.parts):
                continue
            if path.suffix.lower() in (STUDY, *DATA) and path.is_file() and self._holds(path):
                found.append(inside.as_posix())
            if len(found) == _MOST_FILES:
                break
        return found

    def path(self, name: str) -> Path:
        """The file of a name from `files`; raises for all others."""
        path = self.root / name
        if Path(name).is_absolute() or not self._holds(path):
            raise InputError(f"{shown(name)} is not in the folder that this page may open")
        if path.suffix.lower() not in (STUDY, *DATA):
            raise InputError(
                f"{shown(name)} is neither a study ({STUDY}) nor a recording ({', '.join(DATA)})"
            )
        if not path.is_file():
            raise InputError(f"there is no file {shown(name)}")
        return path

    def require(self, files: Iterable[Path]) -> None:
        """Raise if one of these files, which a study needs, is not in the folder."""
        for file in files:
            if not self._holds(file):
                raise InputError(
                    f"the study needs {shown(file.name)}, which is not in the folder that this "
                    "page may open: start motorcost explore with --folder"
                )

    def _holds(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self.root)


@dataclass(frozen=True)
class Recording:
    """Recorded movements, ready for a model.

    - `name`: of the file; `study`: how it is read, prepared and modelled.
    - `trials`: on the model's grid; `warnings`, `notes`: what looks wrong, and what was done.
    """

    name: str
    study: Study
    trials: Trials
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_simulated: bool = False

    @property
    def usual_noise(self) -> float:
        """The SD of the recording noise that the study has, the same for all channels."""
        noise = self.study.noise
        return float(noise) if np.ndim(noise) == 0 and not isinstance(noise, Mapping) else 0.0

    def condition(self, trial: int) -> dict[str, float]:
        """The conditions of a trial that are numbers, by name."""
        conditions = self.trials.conditions
        takes = tasks.parameters(self.study.task)
        return {
            name: float(values[trial])
            for name, values in conditions.items()
            if name in takes and np.issubdtype(values.dtype, np.number)
        }


def open_study(path: Path, folder: Folder, name: str | None = None) -> Recording:
    """The recordings of a study file; they, and a file of its task, must lie in the folder."""
    _, file = read_document(path)
    if ":" in file.model.task:
        own, _, _ = file.model.task.rpartition(":")
        folder.require([path.parent / own])
    study = Study.read(path)
    folder.require(study.files)
    found = _recording(study, name or path.name)
    inside = tuple(file.resolve().relative_to(folder.root) for file in study.files)
    return replace(found, study=replace(study, files=inside))  # as one would write them there


def open_data(
    path: Path, task_name: str, reading: Mapping[str, Any], *, name: str | None = None
) -> Recording:
    """A recording for one of the built-in tasks. `reading` are options of `mc.io.read`."""
    format_of(path.name)
    task = find_task(task_name)
    channels = reading.get("channels")
    study = Study(
        path,
        task,
        tasks.default_costs(task),
        task_name=task_name,
        reading=reading,
        states=list(channels) if channels else None,
    )
    found = _recording(study, name or path.name)
    study = replace(study, files=(Path(name or path.name),))
    known = {*found.trials.channel_names, *found.trials.conditions}
    if not known.issuperset(example_problem(task, task_name, {}).state_names):
        # Positions of a camera, say, which nobody records without noise.
        samples = np.asarray(found.trials.observed)
        noise = _USUAL_NOISE * float(np.nanmax(samples) - np.nanmin(samples))
        study = replace(study, noise=noise, free={**study.free, SHARED_NOISE: None})
    return replace(found, study=study)


def uploaded(name: str, content: bytes, task_name: str, reading: Mapping[str, Any]) -> Recording:
    """A recording that was sent by the browser. Nothing of it is executed, and no copy is kept."""
    file = Path(name).name
    if Path(file).suffix.lower() not in DATA:
        raise InputError(f"{shown(file)} is not a recording: these are {', '.join(DATA)}")
    if len(content) > MOST_BYTES:
        raise InputError(f"{shown(file)} is too large: at most {MOST_BYTES // 2**20} MB")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"recording{Path(file).suffix.lower()}"
        path.write_bytes(content)
        try:
            return open_data(path, task_name, reading, name=file)
        except InputError as error:
            raise InputError(str(error).replace(path.name, shown(file))) from None


def simulated(trials: Trials, task: Task, task_name: str, file: str) -> Recording:
    """Simulated movements, taken as data. A file of them would have the name `file`."""
    study = Study(file, task, tasks.default_costs(task), task_name=task_name)
    name = f"{len(trials)} simulated movements"
    return Recording(name, study, trials, is_simulated=True)


def task_names() -> list[str]:
    """The tasks that the page offers."""
    return [name for name in TASKS if name != "random_problem"]


def _recording(study: Study, name: str) -> Recording:
    prepared = study.prepared()
    trials, notes = study.trials(prepared.movements)
    if len(trials) == 0:
        raise InputError(f"{shown(name)} holds no trials after its preparation")
    lead = study.lead[0] if len(study.lead) == 1 else 0.0
    notes = tuple(notes)
    if len(study.lead) > 1:
        notes = (*notes, "the study compares several leads; this page takes none")
    if any(support is not None and support.per for support in study.free.values()):
        notes = (*notes, "the study has values of each group; this page has one for all")
    warnings = look_at(study, prepared).warnings
    return Recording(name, study, trials.with_lead(lead), warnings, notes)
