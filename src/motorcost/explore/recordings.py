"""Files that the page may open, and what is read from them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from motorcost import tasks
from motorcost.errors import InputError, shown
from motorcost.explore.knobs import knobs_of
from motorcost.explore.scene import Setting
from motorcost.io.registry import FORMATS, format_of
from motorcost.model.observer import SHARED_NOISE
from motorcost.model.trials import Trials
from motorcost.study.document import read_document
from motorcost.study.overview import look_at
from motorcost.study.settings import Study
from motorcost.study.task_lookup import TASKS, example_problem, find_task

STUDY = ".toml"
DATA = tuple(ending for format in FORMATS for ending in format.endings)
# The largest file that is taken from the browser.
MOST_BYTES = 100 * 2**20
# The recording noise to begin with where some states are not recorded, as a share of the range.
_USUAL_NOISE = 0.01
# Files that the list shows.
_MOST_FILES = 500
# Files of any kind that are looked at for them.
_MOST_LOOKED_AT = 50_000


class Folder:
    """The folder whose recordings and studies the page may open: these, and nothing outside."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def files(self) -> list[str]:
        """The recordings and studies in the folder and the folders in it, by relative path: the
        first of them, if there are many. A large folder is not looked through to its end."""
        return sorted(islice(self._walk(), _MOST_FILES))

    def _walk(self) -> Iterator[str]:
        looked_at = 0
        for place, folders, names in os.walk(self.root):
            looked_at += len(names)
            if looked_at > _MOST_LOOKED_AT:
                return
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                path = Path(place, name)
                is_named_so = path.suffix.lower() in (STUDY, *DATA) and not name.startswith(".")
                if is_named_so and path.is_file() and self._holds(path):
                    yield path.relative_to(self.root).as_posix()

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

    def relative(self, file: Path) -> Path:
        """The path of a file of the folder, from there."""
        return Path(file.resolve().relative_to(self.root).as_posix())

    def _holds(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self.root)


@dataclass(frozen=True)
class Recording:
    """Recorded movements, ready for a model.

    - `name`: of the file; `study`: how it is read, prepared and modelled.
    - `trials`: on the model's grid; `warnings`, `notes`: what looks wrong, and what was done.
    - `source`: what the page was set to when it simulated them; None if it did not.
    - `is_study`: whether a study file says how they are modelled.
    """

    name: str
    study: Study
    trials: Trials
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    source: Setting | None = None
    is_study: bool = False

    @property
    def is_simulated(self) -> bool:
        """Whether the page simulated them."""
        return self.source is not None

    @property
    def usual_noise(self) -> float:
        """The SD of the recording noise that the study has; the largest, if channels differ."""
        return max(_noises(self.study))

    @property
    def delay(self) -> int:
        """The steps by which the study delays all senses; the fewest that it compares."""
        return next((steps for steps in self.study.delay if isinstance(steps, int)), 0)

    @property
    def values(self) -> dict[str, Any]:
        """What the study fixes, and a typical value of what it infers that the task has not by
        default, so that all of it has sliders."""
        task, study = self.study.task, self.study
        usual, typical = tasks.defaults(task), tasks.typical_values(task)
        inferred = {n: typical[n] for n in study.free if n in usual and usual[n] is None}
        return inferred | study.fixed

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
        own, _, function = file.model.task.rpartition(":")
        folder.require([path.parent / own])
    study = Study.read(path)
    folder.require(study.files)
    found = _recording(study, name or path.name)
    # Paths as one would write them in the folder.
    study = replace(study, files=tuple(map(folder.relative, study.files)))
    if ":" in file.model.task:
        study = replace(study, task_name=f"{folder.relative(path.parent / own)}:{function}")
    notes = (*found.notes, *_simplified(study, found.values))
    return replace(found, study=study, notes=notes, is_study=True)


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


def simulated(trials: Trials, setting: Setting, file: str) -> Recording:
    """Movements simulated in a setting, as data. A file of them would have the name `file`."""
    costs = tasks.default_costs(setting.task)
    study = Study(file, setting.task, costs, task_name=setting.task_name)
    return Recording(f"{len(trials)} simulated movements", study, trials, source=setting)


def task_names() -> list[str]:
    """The tasks that the page offers."""
    return [name for name in TASKS if name != "random_problem"]


def _recording(study: Study, name: str) -> Recording:
    prepared = study.prepared()
    trials, notes = study.trials(prepared.movements)
    if len(trials) == 0:
        raise InputError(f"{shown(name)} holds no trials after its preparation")
    lead = study.lead[0] if len(study.lead) == 1 else 0.0
    warnings = look_at(study, prepared).warnings
    return Recording(name, study, trials.with_lead(lead), warnings, tuple(notes))


def _noises(study: Study) -> list[float]:
    """The SDs of the recording noise of a study: of all channels, or one for each."""
    noise = study.noise
    return np.ravel(list(noise.values()) if isinstance(noise, Mapping) else noise).tolist()


def _simplified(study: Study, values: Mapping[str, Any]) -> Iterator[str]:
    """What a study has that the page shows otherwise, in sentences. `values` are the study's."""
    if len(study.lead) > 1:
        yield "the study compares several leads; this page takes none"
    if len(study.delay) > 1:
        yield "the study compares several delays; this page has one at a time"
    if any(isinstance(steps, Mapping) for steps in study.delay):
        yield "the study delays senses by name; this page delays all of them alike"
    if any(support is not None and support.per for support in study.free.values()):
        yield "the study has values of each group; this page has one for all"
    if len(set(_noises(study))) > 1:
        yield "the study has a recording noise of each channel; this page has one, here the largest"
    offered = {SHARED_NOISE, *knobs_of(study.task, values)}
    if others := ", ".join(name for name in study.free if name not in offered):
        yield f"the study infers {others}; this page does not"
    if study.priors:
        yield "a fit adds the priors of the study; the log likelihood that is shown has none"
