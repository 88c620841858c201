"""Files that are written whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from motorcost.errors import InputError


def check_writable(path: Path) -> Path:
    """`path` itself, if a file can be written there. Asked before long work rather than after.

    Examples
    --------
    >>> from pathlib import Path
    >>> mc.io.check_writable(Path("trials.csv")).name
    'trials.csv'
    """
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"cannot write {path}: the folder {folder} does not exist")
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise InputError(f"cannot write {path}: no permission")
    return path


def check_folder(folder: Path) -> None:
    """Raise unless results can be written into a folder; asked before long work.

    Examples
    --------
    >>> from pathlib import Path
    >>> mc.io.check_folder(Path("results"))  # raises where a file is in the way
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"cannot write into {folder}: it is a file")
    if not folder.parent.is_dir():
        raise InputError(f"cannot make {folder}: the folder {folder.parent} does not exist")
    if not os.access(folder if folder.exists() else folder.parent, os.W_OK):
        raise InputError(f"cannot write into {folder}: no permission")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A path to write to, which replaces `path` once the block ends without an error.

    A symbolic link is followed. A pipe or a device is written to directly. Errors of the operating
    system, such as that of a full disk, name `path`.

    Examples
    --------
    >>> from pathlib import Path
    >>> with mc.io.written_whole(Path("table.txt")) as path:
    ...     _ = path.write_text("all or nothing")
    >>> Path("table.txt").read_text()
    'all or nothing'
    """
    check_writable(path)
    path = path.resolve()
    if path.exists() and not path.is_file():
        with _named(path, path):
            yield path
        return
    # Not tempfile, whose files only their owner can read: a file made plainly has the permissions
    # that the user's umask gives to all files.
    draft = path.with_name(f".{path.stem}-{secrets.token_hex(8)}{path.suffix}")
    try:
        with _named(path, draft):
            draft.touch(exist_ok=False)
            yield draft
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _named(path: Path, draft: Path) -> Iterator[None]:
    """Name a file in errors of the operating system: that of writing to a full disk names none,
    and that of opening a file names the draft."""
    try:
        yield
    except OSError as error:
        if error.filename is None or Path(os.fsdecode(error.filename)) == draft:
            error.filename = str(path)
        raise


def printable(text: object) -> str:
    r"""The text without what UTF-8 cannot encode: bytes of a file's name that are not UTF-8, which
    Python keeps as surrogates, become escapes such as \udcff."""
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")
