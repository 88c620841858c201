"""The folder of a fit: its files change together, and one fit at a time works in it.

A new result is first written into a hidden folder inside, `.new-...`. Once it is complete, that
folder is renamed to `.next`, and this is the moment at which the new result replaces the old one.
Its files are then moved to their places: the old files are removed except for fit.json, fit.json is
replaced, and the other new files follow. So the files in place are always of one result, and a
process that is killed in between leaves `.next` behind: readers look there first, and whoever holds
the folder next moves the rest. No file is copied, so a full disk does not stop it.

Folders are not exchanged as a whole, because the user's own files are among ours, because a folder
may be the working directory or a mounted disk, and because links to another folder are not
understood by every file system and by programs that share files.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from motorcost.errors import InputError
from motorcost.io.files import written_whole
from motorcost.io.locks import held
from motorcost.study.result import NEXT, RESULT, read_result
from motorcost.sweeps.interrupts import postponed

README = "README.md"
REPORT = "report.html"
FIGURES = "figures"
# The state of a fit that was interrupted, beside the result of another that was finished.
STATE = "interrupted.json"
# The draws of a posterior, whose folder has other files by the names of these.
POSTERIOR = "posterior.nc"

_DRAFT = re.compile(r"\.new-[0-9a-f]{16}|\.interrupted-[0-9a-f]{16}\.json")
# Files that may be removed if a result lists them as its own: a result may come from elsewhere.
_OWN = re.compile(rf"{re.escape(README)}|{re.escape(REPORT)}|{FIGURES}/[\w-]+\.png")


class ResultFolder:
    """A folder with the result of a fit. What is not of the fit is left as it is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep every other fit out of the folder, and finish what a killed one left undone."""
        with held(self.path, "fit"):
            self._check_places()
            with postponed():
                self._tidy()
                self._move_into_place()
            yield

    def previous(self) -> dict[str, Any] | None:
        """The result of the latest fit here, finished or interrupted, to go on from."""
        for name in (STATE, RESULT):
            if (self.path / name).is_file():
                return read_result(self.path / name)
        return None

    @property
    def finished(self) -> bool:
        """Whether a fit is here that was not interrupted."""
        return (self.path / RESULT).is_file() and not read_result(self.path)["interrupted"]

    def may_write(self, name: str) -> bool:
        """Whether a file is not there, or is one that an earlier fit wrote."""
        return not (self.path / name).exists() or name in self._own_files()

    def keep_state(self, result: Mapping[str, Any]) -> None:
        """Write down where an interrupted fit was, without touching the result that is there."""
        with written_whole(self.path / STATE) as draft:
            draft.write_text(as_json(dict(result) | {"interrupted": True}), "utf-8")

    @contextmanager
    def replaced(self, result: Mapping[str, Any]) -> Iterator[Path]:
        """A new folder to write all files of a result into, which then replace the old ones.

        Should that fail or be interrupted, `result` is kept as the state of an interrupted fit, so
        that the search is not lost.
        """
        draft = self.path / f".new-{secrets.token_hex(8)}"
        try:
            draft.mkdir()
            yield draft
        except BaseException as error:
            shutil.rmtree(draft, ignore_errors=True)  # first, to make room on a full disk
            with suppress(OSError):
                self.keep_state(result)
            if isinstance(error, OSError):
                error.filename = self._in_place(draft, error.filename)
            raise
        with postponed():  # a Ctrl-C waits until the folder is as it should be
            draft.rename(self.path / NEXT)
            self._move_into_place()

    def _in_place(self, draft: Path, filename: Any) -> str:
        """The name that a file in a draft is going to have, for messages."""
        file = (draft if filename is None else Path(os.fsdecode(filename))).absolute()
        for folder in (draft.absolute(), draft.resolve()):
            if file.is_relative_to(folder):
                return str(self.path / file.relative_to(folder))
        return str(file)

    def _move_into_place(self) -> None:
        """Move the files of a new result that is complete to their places, or those left."""
        new = self.path / NEXT
        if not new.is_dir():
            return
        if (new / RESULT).exists():  # none was moved yet
            names = {file.relative_to(new).as_posix() for file in _files(new)} - {RESULT}
            for name in sorted(names.union(self._own_files())):
                (self.path / name).unlink(missing_ok=True)
            (new / RESULT).replace(self.path / RESULT)
        for file in _files(new):
            place = self.path / file.relative_to(new)
            place.parent.mkdir(exist_ok=True)
            file.replace(place)
        (self.path / STATE).unlink(missing_ok=True)  # what it was needed for is done
        shutil.rmtree(new)

    def _own_files(self) -> list[str]:
        """The files that the result in place lists as its own, besides itself."""
        try:
            files = json.loads((self.path / RESULT).read_text("utf-8"))["files"]
            return [name for name in files if _OWN.fullmatch(name)]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return []

    def _tidy(self) -> None:
        """Remove drafts of processes that were killed."""
        for path in self.path.iterdir():
            if _DRAFT.fullmatch(path.name):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _check_places(self) -> None:
        """Raise if something else is where files of a result go; asked before long work."""
        if (self.path / POSTERIOR).exists():
            raise InputError(
                f"{self.path} holds a posterior: write the fit into a folder of its own"
            )
        for name in (RESULT, REPORT, STATE):
            if (self.path / name).is_dir():
                raise InputError(f"cannot write {self.path / name}: it is a folder")
        figures = self.path / FIGURES
        if figures.is_symlink() or (figures.exists() and not figures.is_dir()):
            raise InputError(f"cannot write into {figures}: it is no folder of its own")


def as_json(result: Mapping[str, Any]) -> str:
    """A result as the text of a file."""
    return json.dumps(result, indent=2, allow_nan=False) + "\n"


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if not path.is_dir())
