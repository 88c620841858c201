"""Files that are written whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from motorcost.errors import InputError


def check_writable(path: Path) -> Path:
    """`path` itself, if a file can be written there; better asked before long work than after."""
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"cannot write {path}: the folder {folder} does not exist")
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise InputError(f"cannot write {path}: no permission")
    return path


def check_folder(folder: Path) -> None:
    """Raise unless results can be written into a folder; better asked before long work."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"cannot write into {folder}: it is a file")
    if not folder.parent.is_dir():
        raise InputError(f"cannot make {folder}: the folder {folder.parent} does not exist")
    if not os.access(folder if folder.exists() else folder.parent, os.W_OK):
        raise InputError(f"cannot write into {folder}: no permission")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` once the block ends without error.

    A link is followed. What is no ordinary file (a pipe, a device) is written to as it is.
    """
    check_writable(path)
    path = path.resolve()
    if path.exists() and not path.is_file():
        yield path
        return
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        # mkstemp makes files that only their owner can read; a result is an ordinary file.
        umask = os.umask(0)
        os.umask(umask)
        draft.chmod(0o666 & ~umask)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
