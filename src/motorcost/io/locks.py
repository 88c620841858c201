"""One process at a time in a folder, and who it is."""

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from motorcost.errors import InputError
from motorcost.io.files import check_folder

LOCK = ".lock"
# Who holds the lock: beside it, because Windows lets nobody read a file that is locked.
HOLDER = ".lock.json"


@contextmanager
def held(folder: Path, work: str) -> Iterator[None]:
    """Keep every other process that asks for a folder out of it.

    - `folder`: made if it is missing, and removed at the end if nothing was written into it.
    - `work`: what is done in it, for the message that another process gets: "fit" or "sweep".
    """
    from filelock import FileLock, Timeout

    check_folder(folder)
    is_new = not folder.exists()
    try:
        folder.mkdir(exist_ok=True)
        # A lock of the operating system, which ends with the process however it ends. The
        # substitute for file systems without such locks would stay behind after a kill.
        lock = FileLock(folder / LOCK, timeout=0, fallback_to_soft=False)
        lock.acquire()
    except (Timeout, RuntimeError):  # RuntimeError: this very thread holds it already
        raise InputError(_occupied(folder, work)) from None
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error}") from error
    try:
        with suppress(OSError):  # it informs others, and is not worth failing for
            (folder / HOLDER).write_text(json.dumps(_this_process(work)), "utf-8")
        yield
    finally:
        with suppress(OSError):
            (folder / HOLDER).unlink(missing_ok=True)
            if is_new and [file.name for file in folder.iterdir()] == [LOCK]:
                # Before it is released: whoever opened it already finds that it is gone, and
                # tries again.
                (folder / LOCK).unlink()
                folder.rmdir()
        lock.release()


def _this_process(work: str) -> dict[str, str | int]:
    since = datetime.now().astimezone().isoformat(" ", "seconds")
    return {"work": work, "host": platform.node(), "process": os.getpid(), "since": since}


def _occupied(folder: Path, work: str) -> str:
    """Who is at work in a folder, as far as that is known, in words."""
    who = ""
    with suppress(OSError, ValueError, KeyError, TypeError):
        at_work = json.loads((folder / HOLDER).read_text("utf-8"))
        work = str(at_work["work"])
        who = f" (process {at_work['process']} on {at_work['host']}, since {at_work['since']})"
    return f"another {work} is writing into {folder}{who}: wait for it, or choose another folder"
