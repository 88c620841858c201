"""Running batches on Dask: on processes of this machine, or on a cluster."""

from __future__ import annotations

import functools
import logging
import queue
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
from motorcost.sweeps.local_workers import LOCALHOST, LocalWorkers

# Batches under way per thread of a worker: one that runs, and some that wait at the worker. Few,
# so that the scheduler holds little and workers that join later find work.
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


@dataclass(frozen=True)
class Connection:
    """A Dask client, and a function that looks after its workers, where they are ours.

    It is called every second or so, and raises if no worker can ever come.
    """

    client: Any
    look_after_workers: Callable[[], None] = lambda: None


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
    """A scheduler in this process, and workers in others."""
    cluster = LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=0,
        host=LOCALHOST,
        dashboard_address=f"{LOCALHOST}:0",
        silence_logs=logging.ERROR,
    )
    try:
        with (
            LocalWorkers(cluster.scheduler, workers) as processes,
            Client(cluster, set_as_default=False) as client,  # type: ignore[no-untyped-call]
        ):
            yield Connection(client, processes.replace_dead)
    finally:
        with suppress(TimeoutError):  # no worker is left that could hold it up for longer
            cluster.close(timeout=PATIENCE)


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
        # By key: what a batch gave, or what was raised instead.
        self._finished: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
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
                    connection.look_after_workers()
                    self._look(client)
                if not self._waiting and not self._running:
                    self._waiting, self._suspects = self._suspects, self._waiting
                    self._alone = True
                while self._waiting and len(self._running) < (1 if self._alone else self._room):
                    self._submit(client, self._waiting.popleft())
                with suppress(queue.Empty):
                    self._take(*self._finished.get(timeout=LOOK))
        except KeyboardInterrupt:
            self._keep_the_rest()
            raise
        finally:
            with suppress(Exception):  # the scheduler may be gone
                client.cancel([future for _, future in self._running.values()])

    def _keep_the_rest(self) -> None:
        with suppress(queue.Empty):
            while True:
                key, given = self._finished.get_nowait()
                if isinstance(given, Outcome):
                    self._work.keep(self._running[key][0], given)

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
        client.loop.add_callback(self._fetch, future)

    async def _fetch(self, future: Any) -> None:
        """Wait for what a batch gives, in the client's thread.

        A worker may die between the end of a batch and this: the batch is then run again, for
        which there must be another worker. The sweep goes on looking after them meanwhile.
        """
        try:
            given = await future
        except BaseException as error:  # of any kind: it is raised where it is taken
            given = error
        self._finished.put((future.key, given))

    def _take(self, key: Any, outcome: Any) -> None:
        """Keep what a batch gave, or note that its workers died."""
        number, _ = self._running.pop(key)
        try:
            if isinstance(outcome, BaseException):
                with _reachable():
                    raise outcome
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
