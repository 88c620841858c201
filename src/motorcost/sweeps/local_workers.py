"""Dask workers on this machine: one process each, started, watched and ended by the sweep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import dask.config
from distributed import SchedulerPlugin

from motorcost.errors import InputError

# The one address that other machines cannot reach: who reaches a worker can run code there.
LOCALHOST = "127.0.0.1"
# How many processes in a row may fail to reach the scheduler before their place stays empty.
MOST_STARTS = 3
# Seconds after which a process that is not with the scheduler, or not any more, is killed.
MOST_SECONDS_AWAY = 300
# Seconds that processes are given to end by themselves before they are killed.
SECONDS_TO_END = 3


@dataclass
class _Place:
    """Where one worker belongs."""

    process: subprocess.Popen[bytes] | None = None
    name: str = ""  # of the worker that the process is
    last_seen: float = 0.0  # at the scheduler, or when the process was started
    failed: int = 0  # processes in a row that did not reach the scheduler


class LocalWorkers(SchedulerPlugin):
    """Worker processes of this machine, which are replaced when they die.

    A place whose processes die before they have reached the scheduler, `MOST_STARTS` in a row, is
    given up, and the others go on without it. All end by themselves when the scheduler is gone,
    even if this process is killed.

    Workers are started by the command `dask worker`: Dask's own `LocalCluster` would start them by
    `multiprocessing`, which runs the user's script again in each of them, and so begins the sweep
    again unless the script has a guard against it.
    """

    def __init__(self, scheduler: Any, workers: int) -> None:
        self._scheduler = scheduler
        self._places = [_Place() for _ in range(workers)]
        self._arrived: set[str] = set()  # every worker that ever was with the scheduler
        self._started = 0
        self._reason = ""  # why the last process could not be started
        scheduler.add_plugin(self, name="motorcost-local-workers")

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Note who has come; the scheduler calls this, in its own thread.

        A look now and then would miss those that come, run a cell and die of it in between.
        """
        self._arrived.add(scheduler.workers[worker].name)

    def __enter__(self) -> LocalWorkers:
        for place in self._places:
            self._start(place)
        return self

    def __exit__(self, *_: object) -> None:
        processes = [place.process for place in self._places if place.process is not None]
        for process in processes:
            process.terminate()
        deadline = time.monotonic() + SECONDS_TO_END
        for process in processes:
            try:
                process.wait(max(deadline - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                _kill(process)

    def replace_dead(self) -> None:
        """Start another process for each that has died; raise if none can be started."""
        # The scheduler runs in another thread: the list is made in one step.
        present = {worker.name for worker in list(self._scheduler.workers.values())}
        now = time.monotonic()
        for place in self._places:
            if place.name in present:
                place.last_seen = now
            elif place.process is not None and now > place.last_seen + MOST_SECONDS_AWAY:
                _kill(place.process)
            if place.process is not None and (code := place.process.poll()) is not None:
                self._ended(place, f"exit code {code}")
            if place.process is None and place.failed < MOST_STARTS:
                self._start(place)
        if all(place.failed >= MOST_STARTS for place in self._places):
            raise InputError(
                f"no worker process can be started ({self._reason}): try "
                f"{sys.executable} -m dask worker --help"
            )

    def _ended(self, place: _Place, reason: str) -> None:
        place.failed = 0 if place.name in self._arrived else place.failed + 1
        place.process, self._reason = None, reason

    def _start(self, place: _Place) -> None:
        self._started += 1
        place.name, place.last_seen = f"motorcost-{self._started}", time.monotonic()
        try:
            place.process = _started(self._scheduler.address, place.name)
        except OSError as error:  # no such program, too many processes, no memory
            self._ended(place, str(error))


def _started(scheduler: str, name: str) -> subprocess.Popen[bytes]:
    options = {
        "name": name,
        "nthreads": 1,
        "host": LOCALHOST,
        "dashboard-address": f"{LOCALHOST}:0",
        # Dask would share the machine's memory out by cores and stop workers that need more.
        "memory-limit": 0,
        "death-timeout": 60,
    }
    command = [sys.executable, "-m", "dask", "worker", scheduler, "--no-nanny"]
    command += [word for option, value in options.items() for word in (f"--{option}", str(value))]
    # One thread for NumPy's matrices and the like, unless the user wants more.
    usual = dask.config.get("distributed.nanny.pre-spawn-environ", {})
    environment = {
        **{variable: str(value) for variable, value in usual.items() if value is not None},
        **os.environ,
        # Modules beside the user's script can be imported by the workers too.
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        # What a cell raises is raised here, and need not be logged there too.
        "DASK_LOGGING__DISTRIBUTED": "critical",
    }
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        # A Ctrl-C at the terminal reaches this process alone, which then ends the workers.
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and those that it has started."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:  # on Windows
        process.kill()
    with suppress(subprocess.TimeoutExpired):  # stuck in the kernel: it ends when it gets out
        process.wait(SECONDS_TO_END)
