"""Running chunks on Dask: on processes of this machine, or on a cluster."""

from __future__ import annotations

import functools
import logging
import multiprocessing.spawn
import queue
import signal
import time
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import jax
from distributed import CancelledError, Client, KilledWorker, LocalCluster, WorkerPlugin
from distributed.comm.addressing import get_address_host_port

from motorcost.errors import InputError
from motorcost.sweeps import interrupts
from motorcost.sweeps.calls import Caller, Outcome
from motorcost.sweeps.cells import Batch, Call

# Chunks under way for each thread of a worker: one that runs, and some that wait at its door.
# Few, so that the scheduler holds little and workers that join later find work.
IN_FLIGHT = 3
# Seconds until a scheduler must have answered.
PATIENCE = 10
# Seconds between two looks at which workers there are.
LOOK = 1.0
_ADDRESSED = "scheduler must be the address of a Dask scheduler, as in 'tcp://host:8786'"
# Settings of JAX that change numbers; a worker takes over those of the process that sweeps.
_SETTINGS = (
    "jax_enable_x64",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_default_matmul_precision",
)


class Quiet(WorkerPlugin):
    """What workers of a local cluster leave to the process that started them.

    A Ctrl-C reaches every process at the terminal; the one that sweeps ends the others.
    """

    def setup(self, worker: Any) -> None:
        """Called in each worker as it starts."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # What a cell raises is raised here, and need not be logged there too.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)


@contextmanager
def connected(workers: int | None, scheduler: Any) -> Iterator[Any]:
    """A client of a new local cluster of `workers` processes, or of one that is there."""
    if workers is not None:
        with _local(workers) as client:
            yield client
    elif isinstance(scheduler, Client):
        if scheduler.asynchronous:
            raise InputError("scheduler must be a client that is not asynchronous")
        yield scheduler
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
            yield client
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
def _local(workers: int) -> Iterator[Any]:
    with _main_left_alone():
        with interrupts.kept_from_children():
            # Dask would share the machine's memory out by cores and stop workers that need more.
            cluster = LocalCluster(  # type: ignore[no-untyped-call]
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
                memory_limit=None,
                silence_logs=logging.ERROR,
                plugins=(Quiet(),),
            )
        with cluster, Client(cluster, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            yield client


@contextmanager
def _main_left_alone() -> Iterator[None]:
    """Let new processes not run the user's script again, which would begin the sweep again.

    Functions of the script are sent whole, so that workers need nothing else of it.
    """
    prepare = multiprocessing.spawn.get_preparation_data

    def without_main(name: str) -> dict[str, Any]:
        data = prepare(name)
        if not name.startswith("Dask Worker"):  # the user's own processes are as ever
            return data
        return {key: value for key, value in data.items() if not key.startswith("init_main")}

    multiprocessing.spawn.get_preparation_data = without_main
    try:
        yield
    finally:
        multiprocessing.spawn.get_preparation_data = prepare


def pickled(function: Callable[..., Any]) -> bytes:
    """A function as it is sent to workers: with all its code if it is of a script or notebook."""
    try:
        return cloudpickle.dumps(function)
    except Exception as error:  # whatever the function's parts raise when they are taken apart
        raise InputError(f"the function cannot be sent to other processes: {error}") from error


def run_on(
    client: Any,
    function: bytes,
    call: Call,
    pending: Iterable[int],
    batch: Callable[[int], Batch],
    keep: Callable[[int, Outcome], None],
    looked: Callable[[int, int], None],
    interrupted: Callable[[], None],
) -> None:
    """Run chunks by their numbers, and keep what each gives as soon as it is there.

    `looked` is told the numbers of workers and of their threads now and then. Without any, it
    waits for some. `interrupted` does what a Ctrl-C does, if there was one.
    """
    settings = {name: getattr(jax.config, name) for name in _SETTINGS if hasattr(jax.config, name)}
    token = uuid.uuid4().hex
    waiting, suspects = deque(pending), deque[int]()
    alone = False
    running: dict[Any, tuple[int, Any]] = {}
    finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
    room, next_look = 0, 0.0

    def submit(number: int) -> None:
        key = (f"sweep-{token}" + ("-alone" if alone else ""), number)
        with warnings.catch_warnings():
            # A function that closes over much data is large; each chunk needs it all the same.
            warnings.filterwarnings("ignore", message="Sending large graph")
            future = client.submit(
                _work, function, call, settings, batch(number), key=key, pure=False
            )
        running[key] = (number, future)
        future.add_done_callback(finished.put)

    def take(future: Any) -> None:
        number, _ = running.pop(future.key)
        try:
            with _reachable():
                outcome = future.result()
        except KilledWorker:
            if alone:
                reason = "KilledWorker: every worker that ran it died (too little memory?)"
                keep(number, Outcome({}, [reason] * len(batch(number))))
            else:
                suspects.append(number)
        else:
            keep(number, outcome)

    try:
        while waiting or running or suspects:
            interrupted()
            if time.monotonic() >= next_look:
                with _reachable():
                    threads = client.nthreads()
                looked(len(threads), sum(threads.values()))
                room = IN_FLIGHT * max(sum(threads.values()), 1)
                next_look = time.monotonic() + LOOK
            if not waiting and not running:
                # A worker that dies takes those along that wait at its door. What was there too
                # often is run again with nothing beside it: that tells who is to blame.
                waiting, suspects, alone = suspects, waiting, True
            while waiting and len(running) < (1 if alone else room):
                submit(waiting.popleft())
            with suppress(queue.Empty):
                take(finished.get(timeout=LOOK))
    except KeyboardInterrupt:
        for number, future in running.values():
            if future.status == "finished":
                keep(number, future.result())
        raise
    finally:
        with suppress(Exception):  # the scheduler may be gone
            client.cancel([future for _, future in running.values()])


@contextmanager
def _reachable() -> Iterator[None]:
    """Say in words that the scheduler is gone; what a cell raises never comes here as these."""
    try:
        yield
    except (OSError, CancelledError) as error:
        raise InputError(
            "the Dask scheduler went away, or the sweep's work was cancelled there: what is in "
            "the sweep's folder is kept, and the same call goes on from there"
        ) from error


@functools.lru_cache(maxsize=4)
def _caller(function: bytes, call: Call) -> Caller:
    return Caller(cloudpickle.loads(function), call)


def _work(function: bytes, call: Call, settings: Mapping[str, Any], batch: Batch) -> Outcome:
    """Run a chunk, in a worker. What was compiled for the last one is still there."""
    for name, value in settings.items():
        if getattr(jax.config, name) != value:
            jax.config.update(name, value)
    return _caller(function, call)(batch)
