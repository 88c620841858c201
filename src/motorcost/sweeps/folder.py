"""What a sweep keeps on disk: which sweep it is, parts while it runs, the table at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motorcost.errors import InputError

if TYPE_CHECKING:
    from pyarrow import Table

# The layout of the folder. What has another number is refused, not guessed at.
FORMAT = 1
# What `sweep.json` holds, in words; where there is only a checksum, what its difference means.
_WORDS = {
    "motorcost": "motorcost",
    "jax": "jax",
    "function": "the function",
    "seed": "seed",
    "repetitions": "repetitions",
    "call": "call",
    "together": "together",
    "apart": "apart",
    "precision": "bits of JAX's numbers",
}
_CHANGED = {"fingerprint": "the function has changed", "cells": "it has other cells"}
_DRAFT = re.compile(r"\.(\d+|sweep|table)-.*\.(parquet|json)")


class Folder:
    """A folder of results. Files in it are whole: each is written elsewhere and then renamed.

    A process that is killed loses no file that has its name, because the system has it, written
    or not; only a machine that loses power could, and for that nothing waits for the disk.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path = path
        # As JSON gives it back, so that what was written can be compared with what would be.
        self._about = json.loads(json.dumps({"format": FORMAT, **about}))
        self._sweep, self._table = path / "sweep.json", path / "table.parquet"
        self._parts = path / "parts"

    def check(self) -> None:
        """Raise if the folder holds anything but this very sweep; writes nothing."""
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise InputError(f"cannot write into {self.path}: it is a file")
        if not self._sweep.exists():
            others = [each.name for each in self.path.iterdir() if not _ours(each.name)]
            if others:
                raise InputError(
                    f"{self.path} holds other files ({min(others)}) and no sweep.json: choose "
                    "another folder"
                )
            return
        try:
            there = json.loads(self._sweep.read_text())
        except (OSError, ValueError) as error:
            raise _unreadable(self._sweep, error) from error
        if not isinstance(there, dict) or "format" not in there:
            raise _unreadable(self._sweep, "it does not say which sweep it is")
        if there["format"] != FORMAT:
            raise InputError(
                f"{self.path} was written in format {there['format']}, and this motorcost knows "
                f"format {FORMAT}: choose another folder, or the motorcost that wrote it"
            )
        if (differences := self._differences(there)) and not self._empty():
            raise InputError(
                f"{self.path} holds another sweep ({'; '.join(differences)}): choose another "
                "folder, or delete it"
            )

    def _empty(self) -> bool:
        """Whether no results are here, be it because a mistake ended the first cell."""
        # In this order: who finishes writes the table first, and then removes the parts.
        return next(self.parts(), None) is None and not self._table.exists()

    def finished(self) -> bool:
        """Whether there is nothing left to do here, and so nothing to be locked."""
        return self._table.exists() and not self._parts.exists()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder, which is made if need be, against every other sweep."""
        from filelock import FileLock, Timeout

        from motorcost.io.files import check_folder, written_whole

        check_folder(self.path)
        try:
            self.path.mkdir(exist_ok=True)
            # A lock of the operating system, which ends with the process however it ends. The
            # substitute for file systems without such locks would stay behind after a kill.
            lock = FileLock(self.path / ".lock", timeout=0, fallback_to_soft=False)
            lock.acquire()
        except (Timeout, RuntimeError):  # RuntimeError: this very thread holds it already
            raise InputError(
                f"another sweep is writing into {self.path}: wait for it, or choose another folder"
            ) from None
        except OSError as error:
            raise InputError(f"cannot write into {self.path}: {error}") from error
        try:
            self.check()  # again: somebody may have been quicker
            self._tidy()
            if self._empty():  # then any other sweep that it was meant for is no loss
                with written_whole(self._sweep) as draft:
                    draft.write_text(json.dumps(self._about, indent=2) + "\n")
            yield
        finally:
            lock.release()

    def parts(self) -> Iterator[tuple[int, Path]]:
        """The numbers and files of the chunks that are there, in order."""
        files = self._parts.iterdir() if self._parts.exists() else ()
        numbered = [each for each in files if re.fullmatch(r"\d{5,}\.parquet", each.name)]
        yield from sorted((int(each.stem), each) for each in numbered)

    def table(self) -> Path | None:
        """The file of the whole table, if it is there."""
        return self._table if self._table.exists() else None

    def write_part(self, number: int, part: Table) -> None:
        """Keep what a chunk gave."""
        self._parts.mkdir(exist_ok=True)
        write(self._parts / f"{number:05}.parquet", part)

    def finish(self, table: Table) -> None:
        """Keep the whole table, and then no parts. Killed in between, it is done once more."""
        write(self._table, table)
        for _, path in self.parts():
            path.unlink()
        # What somebody else put there stays.
        if self._parts.exists() and not any(self._parts.iterdir()):
            self._parts.rmdir()

    def _tidy(self) -> None:
        """Remove drafts of processes that were killed; only who holds the folder may."""
        for folder in (self.path, self._parts):
            for each in folder.iterdir() if folder.exists() else ():
                if _DRAFT.fullmatch(each.name):
                    each.unlink()

    def _differences(self, there: Mapping[str, Any]) -> list[str]:
        unlike = [name for name in self._about if there.get(name) != self._about[name]]
        words = [
            f"{_WORDS[name]} {_shown(there.get(name))} there, {_shown(self._about[name])} here"
            for name in unlike
            if name in _WORDS
        ]
        # The function's name says more than that its code is another one.
        changed = [name for name in unlike if name in _CHANGED]
        if "function" in unlike and "fingerprint" in changed:
            changed.remove("fingerprint")
        return words + [_CHANGED[name] for name in changed]


def write(path: Path, table: Table) -> None:
    """Write a table to a Parquet file, whole or not at all."""
    from pyarrow import parquet

    from motorcost.io.files import written_whole

    with written_whole(path) as draft:
        parquet.write_table(table, draft)


def read(path: Path) -> Table:
    """The table in a Parquet file."""
    from pyarrow import ArrowException, parquet

    try:
        return parquet.ParquetFile(path).read()
    except (ArrowException, OSError, ValueError) as error:
        raise _unreadable(path, error) from error


@contextmanager
def refused_as(path: Path) -> Iterator[None]:
    """Name the file in what is wrong with it."""
    try:
        yield
    except InputError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, why: object) -> InputError:
    reason = " ".join(str(why).split())
    return InputError(f"{path} cannot be read ({reason}): delete it, or choose another folder")


def _ours(name: str) -> bool:
    """Whether a file is of a sweep that was killed before it began."""
    return name == ".lock" or bool(_DRAFT.fullmatch(name))


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "unknown" if value is None else str(value)
