"""How commands compute: on which device, and keeping what JAX compiles for the next command."""

import hashlib
import os
import platform
import sys
import warnings
from contextlib import suppress
from enum import StrEnum
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import jax
import typer

from motorcost.errors import InputError

MOST_BYTES_KEPT = 100 * 2**20  # a fit of a new kind of data adds about two million


class DeviceKind(StrEnum):
    """What `--device` takes."""

    cpu = "cpu"
    gpu = "gpu"


def prepare(device: DeviceKind | None) -> DeviceKind | None:
    """Set JAX up before a command computes: typer calls this whether `--device` is given or not."""
    if device is not None:
        use_device(device)
    keep_compiled_programs()
    return device


Device = Annotated[
    DeviceKind | None,
    typer.Option("--device", callback=prepare, help="Where to compute; JAX chooses if left out."),
]


def set_up_jax() -> None:
    """Double precision, and nothing on the terminal that a user of the command cannot act on."""
    jax.config.update("jax_enable_x64", True)
    if "JAX_LOGGING_LEVEL" not in os.environ:
        # XLA would otherwise print pages when it loads a program that it kept, about preferences
        # of the compiler that it takes for features which the processor lacks.
        jax.config.update("jax_logging_level", "CRITICAL")
    # A program that cannot be kept, or read again, is compiled: nothing to worry users with.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation")


def use_device(device: DeviceKind) -> None:
    """Compute there, whatever JAX_PLATFORMS says. Must run before JAX has computed anything."""
    if device is DeviceKind.cpu:
        jax.config.update("jax_platforms", "cpu")  # a GPU is not even asked for its memory
        return
    jax.config.update("jax_platforms", None)
    try:
        jax.devices("gpu")
    except RuntimeError as error:
        if not entry_points(group="jax_plugins"):
            message = "JAX has no support for GPUs here: pip install 'jax[cuda13]' (for NVIDIA's)"
        else:
            message = f"JAX finds no GPU that it can use (see nvidia-smi): {error}"
        raise InputError(f"--device gpu: {message}") from None


def keep_compiled_programs() -> None:
    """Let JAX keep what it compiles in a folder, so that the same kind of data compiles once.

    The folder that JAX_COMPILATION_CACHE_DIR names comes first. One that cannot be written to is
    no error: commands then compile every time.
    """
    if os.environ.get("MOTORCOST_CACHE", "").lower() == "off":
        jax.config.update("jax_enable_compilation_cache", False)
        return
    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        try:
            folder = cache_folder()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # who can write can run code
        except (OSError, RuntimeError):  # RuntimeError: there is no home folder
            return
        if not os.access(folder, os.W_OK):
            return
        with suppress(OSError):  # another command may be deleting the same files
            forget_oldest(folder.parent, MOST_BYTES_KEPT)
        jax.config.update("jax_compilation_cache_dir", str(folder))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        # A fit compiles a few large programs and a hundred small ones, which add up.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def cache_folder() -> Path:
    """Where this system keeps what programs can make again, with a part for each processor."""
    home = Path.home()
    if sys.platform == "win32":
        caches = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        caches = home / "Library" / "Caches"
    else:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return caches / "motorcost" / "programs" / _processor()


def _processor() -> str:
    """Differs where compiled programs may: homes are shared by machines that are not alike, and
    a program with instructions that a processor lacks would crash there."""
    described = [platform.machine(), platform.processor()]
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(errors="replace").splitlines()
        fields = ("model name", "flags", "CPU part", "Features")
        described += sorted({line for line in lines if line.startswith(fields)})
    return hashlib.sha256("\n".join(described).encode()).hexdigest()[:16]


def _last_used(entry: tuple[Path, os.stat_result]) -> float:
    _, stat = entry
    return max(stat.st_atime, stat.st_mtime)


def forget_oldest(folder: Path, most: int) -> None:
    """Delete the files that were used longest ago until the rest has at most so many bytes.

    JAX can do so itself (jax_compilation_cache_max_size), but needs another package for it, locks
    the folder at every program, and fails where the lock does.
    """
    files = [(file, file.stat()) for file in folder.rglob("*") if file.is_file()]
    total = sum(stat.st_size for _, stat in files)
    for file, stat in sorted(files, key=_last_used):
        if total <= most:
            return
        file.unlink(missing_ok=True)
        total -= stat.st_size
