"""Sweeping: which rows are still to be run, and running them here or on Dask workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motorcost import checks
from motorcost.errors import InputError
from motorcost.sweeps import interrupts
from motorcost.sweeps.calls import Caller, Outcome, Work
from motorcost.sweeps.cells import Call, batch_maker, divide
from motorcost.sweeps.folder import Folder, read, refused_as
from motorcost.sweeps.progress import Reporter, SweepProgress
from motorcost.sweeps.request import Request, check_where, read_request
from motorcost.sweeps.table import Gathered, to_frame

if TYPE_CHECKING:
    from pandas import DataFrame


def sweep(
    function: Callable[..., Any],
    over: Any,
    *,
    repetitions: int | range = 1,
    seed: int = 0,
    call: Call = "each",
    batch_size: int | None = None,
    static: Sequence[str] = (),
    version: str | int = 1,
    folder: Path | str | None = None,
    workers: int | None = None,
    scheduler: Any = None,
    retry_failed: bool = False,
    progress: Callable[[SweepProgress], Any] | None = None,
) -> DataFrame:
    """Run a function over many cells and return a table with one row per run.

    - `over`: a mapping from names to values (a cell is a combination of values, the first name
      varies slowest), or a table of cells: a pandas `DataFrame`, or a list of mappings.
    - `repetitions`: how often each cell is run; `range(10, 30)` adds to 10 that were run before.
      A random key depends on `seed`, the values of the cell and the repetition alone.
    - `call`: "each" calls `function(key=key, effort=1e-5, ...)`, which returns a mapping from
      names to numbers or strings. "vmap" does the same under `jax.vmap`. "arrays" calls
      `function(keys=keys, effort=array, ...)` with many cells; it returns an array for each name,
      in which `failed` may be strings that say why a cell failed, "" where it did not.
    - `batch_size`: rows in one call and in one file; 1 for "each", otherwise 32.
    - `static`: names whose value is the same within one call and is passed as a plain value,
      because shapes depend on it. Names whose values are strings are always static.
    - `version`: of the function, for you to change when its results change (see `folder`).
    - `folder`: where results are kept. The same call continues there after an interruption, or
      reads the finished table; one with another `version`, seed or cells is refused.
    - `workers`: the number of processes on this machine; this process alone if left out.
    - `scheduler`: a Dask scheduler instead: its address, a `distributed.Client`, or a cluster.
    - `retry_failed`: run failed rows again, with those of the same batch.
    - `progress`: called with a `SweepProgress` at the start and after every change.

    The table has the swept names, `repetition`, what the function returned, and `failed`: the
    error that a run ended in, or "". Bugs (`TypeError`, `KeyError`, ...) are raised instead.

    Examples
    --------
    >>> def double(key, value):
    ...     return {"doubled": 2 * value}
    >>> mc.sweep(double, {"value": [1, 2]})[["value", "doubled"]].values.tolist()
    [[1, 2], [2, 4]]
    """
    asked = {"repetitions": repetitions, "seed": seed, "call": call, "batch_size": batch_size}
    request = read_request(function, over, **asked, static=static, version=version)
    check_where(workers, scheduler)
    if progress is not None:
        checks.takes("progress", progress, "progress")
    run = _Run(request, workers, scheduler, retry_failed=retry_failed, progress=progress)
    return run.in_memory() if folder is None else run.in_folder(Path(folder))


class _Run:
    """One call of `sweep`: what was asked for, and what has been gathered so far."""

    def __init__(
        self,
        request: Request,
        workers: int | None,
        scheduler: Any,
        *,
        retry_failed: bool,
        progress: Callable[[SweepProgress], Any] | None,
    ) -> None:
        self._request, self._workers, self._scheduler = request, workers, scheduler
        self._retry_failed, self._progress = retry_failed, progress
        self._batches = divide(request.cells, request.static, request.batch_size)
        self._gathered = Gathered(request.cells, self._batches)

    def in_memory(self) -> DataFrame:
        """Run everything, and write nothing."""
        self._run_missing(None)
        return to_frame(self._gathered.table())

    def in_folder(self, path: Path) -> DataFrame:
        """Run what is not in the folder yet, keeping results as they come."""
        store = Folder(path, self._request.description())
        store.check()
        if store.finished():
            _load(store, self._gathered)
            store.check()  # again: the table may be of another sweep that has just finished
            if not self._gathered.missing(retry_failed=self._retry_failed):
                Reporter(self._progress, self._gathered).tell()
                return to_frame(self._gathered.table())
        with store.held():
            _load(store, self._gathered)
            try:
                self._run_missing(store)
            except KeyboardInterrupt as interrupt:
                interrupt.add_note(
                    f"{self._gathered.done} of {self._gathered.total} rows are kept in "
                    f"{store.path}: the same call continues from there"
                )
                raise
            table = self._gathered.table()
            with _disk_errors(store, self._gathered):
                store.finish(table)
        return to_frame(table)

    def _run_missing(self, store: Folder | None) -> None:
        """Run the batches without results, here or on workers; keep what they give in `store`."""
        gathered, request = self._gathered, self._request
        pending = gathered.missing(retry_failed=self._retry_failed)
        gathered.forget(pending)
        reporter = Reporter(self._progress, gathered)
        make = batch_maker(request.cells, request.static, request.seed, request.batch_size)

        def keep(number: int, outcome: Outcome) -> None:
            if store is not None:
                part = gathered.part(number, outcome)
                with _disk_errors(store, gathered):
                    store.write_part(number, part)
            gathered.add(number, outcome)
            reporter.call_ended()

        work = Work(
            function=request.function,
            call=request.call,
            pending=pending,
            batch=lambda number: make(self._batches[number]),
            keep=keep,
        )
        if not pending or (self._workers is None and self._scheduler is None):
            _run_here(work, reporter)
        else:
            _run_on_dask(work, reporter, self._workers, self._scheduler)


def _run_here(work: Work, reporter: Reporter) -> None:
    reporter.tell()
    caller = Caller(work.function, work.call)
    with interrupts.noticed() as check:
        for number in work.pending:
            work.keep(number, caller(work.batch(number), check))


def _run_on_dask(work: Work, reporter: Reporter, workers: int | None, scheduler: Any) -> None:
    with interrupts.postponed() as check:
        try:
            from motorcost.sweeps import cluster  # slow to import
        except ModuleNotFoundError as error:
            raise InputError(
                f"sweeps on several processes or on Dask need {error.name}: "
                "pip install 'motorcost[dask]'; without workers= and scheduler= a sweep runs in "
                "this process"
            ) from None

        dispatch = cluster.Dispatch(work, reporter.workers_counted, check)
        with cluster.connected(workers, scheduler) as connection:
            reporter.dashboard = connection.client.dashboard_link
            dispatch.run(connection)


@contextmanager
def _disk_errors(store: Folder, gathered: Gathered) -> Iterator[None]:
    """Say what is safe when the disk is full or gone."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot write into {store.path} ({error}): {gathered.done} rows are kept, and the "
            "same call continues from there"
        ) from error


def _load(store: Folder, gathered: Gathered) -> None:
    """Take what is on disk. Parts are newer than the table, where there are both."""
    if (path := store.table()) is not None:
        table = read(path)
        with refused_as(path):
            gathered.add_table(table)
    for number, path in store.parts():
        part = read(path)
        with refused_as(path):
            gathered.add_part(number, part)
