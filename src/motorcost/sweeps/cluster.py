"""Running batches on Dask: on processes of this machine, or on a cluster."""

from __future__ import annotations

import functools
import logging
import os
import queue
import signal
import subprocess
import sys
import time
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import jax
from distributed import CancelledError, Client, KilledWorker, LocalCluster
from distributed.comm.addressing import get_address_host_port

from motorcost.errors import InputError
from motorcost.sweeps.calls import Caller, Outcome, Work
from motorcost.sweeps.cells import Batch, Call

# Batches under way per thread of a worker: one that runs, and some that wait at the worker. Few,
# so that the scheduler holds little and workers that join later find work.
IN_FLIGHT = 3
# Seconds until a scheduler must have answered.
PATIENCE = 10
# Seconds between two looks at which workers there are.
LOOK = 1.0
# Seconds that local workers are given to end by themselves before they are killed.
SECONDS_TO_END = 3
# The one address that other machines cannot reach: who reaches a worker can run code there.
LOCALHOST = "127.0.0.1"
_ADDRESSED = "scheduler must be the address of a Dask scheduler, as in 'tcp://host:8786'"
# Settings of JAX that change numbers; a worker takes over those of the process that sweeps.
_SETTINGS = (
    "jax_enable_x64",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_default_matmul_precision",
)


@dataclass(frozen=True)
class Connection:
    """A Dask client, and a function that raises if its workers can never come."""

    client: Any
    check_workers: Callable[[], None] = lambda: None


@contextmanager
def connected(workers: int | None, scheduler: Any) -> Iterator[Connection]:
    """Connect to a new local cluster of `workers` processes, or to a cluster that is there."""
    if workers is not None:
        with _local(workers) as connection:
            yield connection
    elif isinstance(scheduler, Client):
        if scheduler.asynchronous:
            raise InputError("scheduler must be a client that is not asynchronous")
        yield Connection(scheduler)
    elif isinstance(scheduler, str) or hasattr(scheduler, "scheduler_address"):
        if isinstance(scheduler, str):
            _check_address(scheduler)
        try:
            client = Client(  # type: ignore[no-untyped-call]
                scheduler, timeout=PATIENCE, set_as_default=False
            )
        except (OSError, ValueError) as error:
            address = getattr(scheduler, "scheduler_address", scheduler)
            raise InputError(f"no Dask scheduler answers at {address}") from error
        with client:
            yield Connection(client)
    else:
        raise InputError(f"{_ADDRESSED}, a client or a cluster, got {scheduler!r}")


def _check_address(address: str) -> None:
    """Raise where no scheduler can be: a client would take its time to find out."""
    if address.startswith("inproc://"):
        return
    try:
        get_address_host_port(address)
    except ValueError as error:
        raise InputError(f"{_ADDRESSED}, got {address!r}: {error}") from None


@contextmanager
def _local(workers: int) -> Iterator[Connection]:
    """A scheduler in this process, and workers that the command `dask worker` starts.

    `LocalCluster` would start workers by `multiprocessing`, which runs the user's script again in
    each of them, and so begins the sweep again unless the script has a guard against it.
    """
    cluster = LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=0,
        host=LOCALHOST,
        dashboard_address=f"{LOCALHOST}:0",
        silence_logs=logging.ERROR,
    )
    with (
        cluster,
        _worker_processes(cluster.scheduler_address, workers) as check,
        Client(cluster, set_as_default=False) as client,  # type: ignore[no-untyped-call]
    ):
        yield Connection(client, check)


@contextmanager
def _worker_processes(scheduler: str, workers: int) -> Iterator[Callable[[], None]]:
    """Start worker processes and end them; the function raises if they could not be started.

    A process that watches over the workers replaces those that die. All of them end by themselves
    when the scheduler is gone, even if this process is killed.
    """
    options = {
        "nworkers": workers,
        "nthreads": 1,
        "host": LOCALHOST,
        "dashboard-address": f"{LOCALHOST}:0",
        # Dask would share the machine's memory out by cores and stop workers that need more.
        "memory-limit": 0,
        "death-timeout": 60,
    }
    command = [sys.executable, "-m", "dask", "worker", scheduler]
    command += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    environment = {
        # Modules beside the user's script can be imported by the workers too.
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        # What a cell raises is raised here, and need not be logged there too.
        "DASK_LOGGING__DISTRIBUTED": "critical",
    }
    process = subprocess.Popen(
        command,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        # A Ctrl-C at the terminal reaches this process alone, which then ends the workers.
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )

    def check() -> None:
        if (code := process.poll()) is not None:
            raise InputError(
                f"the worker processes ended by themselves (exit code {code}): try "
                f"{sys.executable} -m dask worker --help"
            )

    try:
        yield check
    finally:
        process.terminate()
        try:
            process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            _kill_group(process)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:  # on Windows: the workers end when they find their scheduler gone
        process.kill()
    process.wait()


def pickled(function: Callable[..., Any]) -> bytes:
    """A function as it is sent to workers: with all its code if it is of a script or notebook."""
    try:
        return cloudpickle.dumps(function)
    except Exception as error:  # whatever the function's parts raise when they are taken apart
        raise InputError(f"the function cannot be sent to other processes: {error}") from error


class Dispatch:
    """The batches of a sweep on their way to workers and back.

    - `workers_counted`: told the numbers of workers and of their threads now and then.
    - `check_interrupt`: raises where a Ctrl-C takes effect, if there was one.

    A worker that dies takes the batches along that wait at it. Those that were there too often
    become suspects: they are run again at the end, one at a time with nothing beside them, which
    tells the batch that kills its worker from those that were only near it.
    """

    def __init__(
        self,
        work: Work,
        workers_counted: Callable[[int, int], None],
        check_interrupt: Callable[[], None],
    ) -> None:
        self._work, self._function = work, pickled(work.function)
        self._workers_counted, self._check_interrupt = workers_counted, check_interrupt
        self._settings = {n: getattr(jax.config, n) for n in _SETTINGS if hasattr(jax.config, n)}
        self._token = uuid.uuid4().hex
        self._waiting, self._suspects = deque(work.pending), deque[int]()
        self._alone = False  # whether suspects are being run
        self._running: dict[Any, tuple[int, Any]] = {}  # by key: the batch's number, its future
        self._finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._room, self._next_look = 0, 0.0

    def run(self, connection: Connection) -> None:
        """Run all batches, and keep what each gives as soon as it is there.

        Without any worker this waits for one.
        """
        client = connection.client
        try:
            while self._waiting or self._running or self._suspects:
                self._check_interrupt()
                if time.monotonic() >= self._next_look:
                    connection.check_workers()
                    self._look(client)
                if not self._waiting and not self._running:
                    self._waiting, self._suspects = self._suspects, self._waiting
                    self._alone = True
                while self._waiting and len(self._running) < (1 if self._alone else self._room):
                    self._submit(client, self._waiting.popleft())
                with suppress(queue.Empty):
                    self._take(self._finished.get(timeout=LOOK))
        except KeyboardInterrupt:
            for number, future in self._running.values():
                if future.status == "finished":
                    self._work.keep(number, future.result())
            raise
        finally:
            with suppress(Exception):  # the scheduler may be gone
                client.cancel([future for _, future in self._running.values()])

    def _look(self, client: Any) -> None:
        """Count the workers, and make room for as many batches as they can have under way."""
        with _reachable():
            threads = client.nthreads()
        self._workers_counted(len(threads), sum(threads.values()))
        self._room = IN_FLIGHT * max(sum(threads.values()), 1)
        self._next_look = time.monotonic() + LOOK

    def _submit(self, client: Any, number: int) -> None:
        key = (f"sweep-{self._token}" + ("-alone" if self._alone else ""), number)
        batch, work = self._work.batch(number), self._work
        with warnings.catch_warnings():
            # A function that closes over much data is large; each batch needs it all the same.
            warnings.filterwarnings("ignore", message="Sending large graph")
            future = client.submit(
                _run_batch, self._function, work.call, self._settings, batch, key=key, pure=False
            )
        self._running[key] = (number, future)
        future.add_done_callback(self._finished.put)

    def _take(self, future: Any) -> None:
        """Keep what a batch gave, or note that its workers died."""
        number, _ = self._running.pop(future.key)
        try:
            with _reachable():
                outcome = future.result()
        except KilledWorker:
            if not self._alone:
                self._suspects.append(number)
                return
            reason = "KilledWorker: every worker that ran it died (too little memory?)"
            outcome = Outcome({}, [reason] * len(self._work.batch(number)))
        self._work.keep(number, outcome)


@contextmanager
def _reachable() -> Iterator[None]:
    """Say in words that the scheduler is gone; what a cell raises never comes here as these."""
    try:
        yield
    except (OSError, CancelledError) as error:
        raise InputError(
            "the Dask scheduler went away, or the sweep's work was cancelled there: what is in "
            "the sweep's folder is kept, and the same call continues from there"
        ) from error


@functools.lru_cache(maxsize=4)
def _caller(function: bytes, call: Call) -> Caller:
    return Caller(cloudpickle.loads(function), call)


def _run_batch(function: bytes, call: Call, settings: Mapping[str, Any], batch: Batch) -> Outcome:
    """Run a batch, in a worker. What was compiled for the last one is still there."""
    for name, value in settings.items():
        if getattr(jax.config, name) != value:
            jax.config.update(name, value)
    return _caller(function, call)(batch)
