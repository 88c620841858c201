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

# The layout of the folder. A folder with another number is refused.
FORMAT = 2
# What `sweep.json` holds, in the words of a message.
_WORDS = {
    "motorcost": "motorcost",
    "jax": "jax",
    "function": "the function",
    "seed": "seed",
    "repetitions": "repetitions",
    "call": "call",
    "batch_size": "batch_size",
    "static": "static",
    "precision": "bits of JAX's numbers",
}
_DRAFT = re.compile(r"\.(\d+|sweep|table)-.*\.(parquet|json)")


class Folder:
    """A folder of results. Every file in it is complete: it is written as a draft, then renamed.

    A process that is killed loses no file that was renamed, because the operating system has it
    already. Only a machine that loses power could, and nothing waits for the disk on that account.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path = path
        # As JSON gives it back, so that what was written can be compared with what would be.
        self._about = json.loads(json.dumps({"format": FORMAT, **about}))
        self._sweep, self._table = path / "sweep.json", path / "table.parquet"
        self._parts = path / "parts"

    def check(self) -> None:
        """Raise if the folder holds anything but this very sweep. This writes nothing."""
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise InputError(f"cannot write into {self.path}: it is a file")
        if not self._sweep.exists():
            others = [file.name for file in self.path.iterdir() if not _ours(file.name)]
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
        if not self._empty():
            self._check_same(there)

    def _empty(self) -> bool:
        """Whether there are no results, for instance because a bug ended the first cell."""
        # In this order, because a sweep that finishes writes the table and then removes the parts.
        return next(self.parts(), None) is None and not self._table.exists()

    def finished(self) -> bool:
        """Whether nothing is left to be written here, so that no lock is needed."""
        return self._table.exists() and not self._parts.exists()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep every other sweep out of the folder, which is made if need be."""
        from motorcost.io.files import written_whole
        from motorcost.io.locks import held

        with held(self.path, "sweep"):
            self.check()  # again: another sweep may have begun since
            self._tidy()
            if self._empty():  # a description of another sweep is then replaced without loss
                with written_whole(self._sweep) as draft:
                    draft.write_text(json.dumps(self._about, indent=2) + "\n")
            yield

    def parts(self) -> Iterator[tuple[int, Path]]:
        """The numbers and files of the batches that are there, in order."""
        files = self._parts.iterdir() if self._parts.exists() else ()
        numbered = [file for file in files if re.fullmatch(r"\d{5,}\.parquet", file.name)]
        yield from sorted((int(file.stem), file) for file in numbered)

    def table(self) -> Path | None:
        """The file of the whole table, if it is there."""
        return self._table if self._table.exists() else None

    def write_part(self, number: int, part: Table) -> None:
        """Keep the results of a batch."""
        self._parts.mkdir(exist_ok=True)
        write(self._parts / f"{number:05}.parquet", part)

    def finish(self, table: Table) -> None:
        """Write the whole table, then remove the parts. If killed in between, this is repeated."""
        write(self._table, table)
        for _, path in self.parts():
            path.unlink()
        # Files that are not ours stay.
        if self._parts.exists() and not any(self._parts.iterdir()):
            self._parts.rmdir()

    def _tidy(self) -> None:
        """Remove drafts of processes that were killed. Needs the lock of `held`."""
        for folder in (self.path, self._parts):
            for file in folder.iterdir() if folder.exists() else ():
                if _DRAFT.fullmatch(file.name):
                    file.unlink()

    def _check_same(self, there: Mapping[str, Any]) -> None:
        """Raise unless `there`, the description in the folder, is that of this sweep."""
        here = self._about
        differences = [
            _difference(words, there.get(name), here[name])
            for name, words in _WORDS.items()
            if there.get(name) != here[name]
        ]
        if there.get("function") == here["function"]:
            differences += _setting_differences(there.get("settings") or {}, here["settings"])
        if there.get("cells") != here["cells"]:
            differences.append("it has other cells")
        version = there.get("version")
        if not differences and version != here["version"]:
            raise InputError(
                f"{self.path} holds results of version {_shown(version)} of the function, and this "
                f"call states version {here['version']}: choose another folder, or state "
                f"version={version!r}"
            )
        if version != here["version"]:
            differences.append(_difference("version", version, here["version"]))
        if differences:
            raise InputError(
                f"{self.path} holds another sweep ({'; '.join(differences)}): choose another "
                "folder, or delete it"
            )


def _setting_differences(there: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    names = [*there, *(name for name in here if name not in there)]
    return [
        _difference(f"the function's {name}", there.get(name), here.get(name))
        for name in names
        if there.get(name) != here.get(name)
    ]


def _difference(words: str, there: Any, here: Any) -> str:
    return f"{words} {_shown(there)} there, {_shown(here)} here"


def write(path: Path, table: Table) -> None:
    """Write a table to a Parquet file, completely or not at all."""
    from pyarrow import parquet

    from motorcost.io.files import written_whole

    with written_whole(path) as draft:
        parquet.write_table(table, draft)


def read(path: Path) -> Table:
    """Read the table in a Parquet file."""
    from pyarrow import ArrowException, parquet

    try:
        return parquet.ParquetFile(path).read()
    except (ArrowException, OSError, ValueError) as error:
        raise _unreadable(path, error) from error


@contextmanager
def refused_as(path: Path) -> Iterator[None]:
    """Name the file in errors about its content."""
    try:
        yield
    except InputError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, why: object) -> InputError:
    reason = " ".join(str(why).split())
    return InputError(f"{path} cannot be read ({reason}): delete it, or choose another folder")


def _ours(name: str) -> bool:
    """Whether a file may be left by a sweep that was killed before it began."""
    return name in (".lock", ".lock.json") or bool(_DRAFT.fullmatch(name))


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "unknown" if value is None else str(value)
