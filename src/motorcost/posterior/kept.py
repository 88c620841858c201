"""What a sampler has done so far, kept on disk, so that a sampling that is interrupted goes on.

A folder of small files: which sampling it is (`sampling.json`), and a file of arrays for each
stage that is done: the maxima, the places where chains begin, pieces of chains with the state of
the sampler after them. Every file is written whole or not at all, so that a process that is killed
leaves what was done before. Numbers are read back bit by bit, and the random numbers of what comes
next follow from them: the draws are those of an undisturbed run.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from motorcost.errors import InputError
from motorcost.io.files import written_whole
from motorcost.io.locks import held
from motorcost.sweeps.identity import settings_of

# Which sampling the files are of.
DESCRIPTION = "sampling.json"
# Numbers may differ between versions of these.
_PACKAGES = ("motorcost", "jax", "numpyro")

Arrays = Mapping[str, np.ndarray]


class Kept:
    """The stages of one sampling, by name; without a folder, nothing is kept."""

    def __init__(self, folder: Path | None = None, about: Mapping[str, str] | None = None) -> None:
        self._folder, self._about = folder, dict(about or {})

    def read(self, stage: str) -> dict[str, np.ndarray] | None:
        """The arrays of a stage, if it was done."""
        if self._folder is None or not (file := self._folder / f"{stage}.npz").exists():
            return None
        try:
            # Opened here, because NumPy leaves a file open that turns out to be damaged.
            with file.open("rb") as opened, np.load(opened, allow_pickle=False) as found:
                return dict(found)
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise InputError(
                f"{file} cannot be read ({error}): delete {self._folder} to sample from the "
                "beginning"
            ) from None

    def write(self, stage: str, arrays: Arrays) -> None:
        """Keep the arrays of a stage, in place of those of an earlier call."""
        if self._folder is None:
            return
        if not (self._folder / DESCRIPTION).exists():
            with written_whole(self._folder / DESCRIPTION) as draft:
                draft.write_text(json.dumps(self._about, indent=2) + "\n", "utf-8")
        with written_whole(self._folder / f"{stage}.npz") as draft:
            np.savez(draft, **arrays)  # type: ignore[arg-type]

    def once(self, stage: str, compute: Callable[[], Arrays]) -> Arrays:
        """The arrays of a stage, computed only if it was not done before."""
        found = self.read(stage)
        if found is None:
            found = {name: np.asarray(value) for name, value in compute().items()}
            self.write(stage, found)
        return found


@contextmanager
def kept_in(folder: Path | str | None, function: Callable[..., Any]) -> Iterator[Kept]:
    """The stages in a folder of the sampling that `function` is: a `functools.partial` of what
    samples, whose arguments must be those of the sampling that the folder holds."""
    if folder is None:
        yield Kept()
        return
    path = Path(folder)
    about = settings_of(function) | {name: version(name) for name in _PACKAGES}
    with held(path, "sampling"):
        _check_same(path, about)
        for draft in path.glob(".*.npz"):  # of a process that was killed while it wrote
            draft.unlink()
        yield Kept(path, about)


def _check_same(path: Path, about: Mapping[str, str]) -> None:
    """Raise if a folder holds something else than this very sampling."""
    file = path / DESCRIPTION
    if not file.exists():
        others = sorted(p.name for p in path.iterdir() if not p.name.startswith("."))
        if others:
            raise InputError(
                f"{path} holds other files ({others[0]}) and no {DESCRIPTION}: choose another "
                "folder"
            )
        return
    try:
        there = dict(json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{file} cannot be read ({error}): delete {path}") from None
    differences = [
        f"{name} {there.get(name, 'none')} there, {about.get(name, 'none')} here"
        for name in sorted(there.keys() | about.keys())
        if there.get(name) != about.get(name)
    ]
    if differences:
        raise InputError(
            f"{path} holds another sampling ({'; '.join(differences)}): choose another folder, or "
            "delete it"
        )
