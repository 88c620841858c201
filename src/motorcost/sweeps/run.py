"""Sweeping: which cells are still to be run, and running them here or on Dask."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from motorcost import checks
from motorcost.errors import InputError
from motorcost.sweeps import interrupts
from motorcost.sweeps.calls import Caller, Outcome
from motorcost.sweeps.cells import (
    CALLS,
    Batch,
    Call,
    Cells,
    batch_maker,
    check_apart,
    cut,
    read_cells,
    read_repetitions,
)
from motorcost.sweeps.fingerprint import fingerprint, full_name
from motorcost.sweeps.folder import Folder, read, refused_as
from motorcost.sweeps.table import Gathered, to_frame

if TYPE_CHECKING:
    from pandas import DataFrame

# Cells in one call where the call takes many: enough to pay, few enough to be lost when killed.
_TOGETHER = 32


@dataclass(frozen=True)
class Standing:
    """How far a sweep is: rows `done`, `failed` among them, and in `total`.

    `seconds_left` is None until something was done in this run. `workers` is the number of Dask's
    workers, 0 in this process; `dashboard` the address of the page where Dask shows its work.
    """

    done: int
    failed: int
    total: int
    seconds_left: float | None = None
    workers: int = 0
    dashboard: str | None = None

    def __str__(self) -> str:
        words = [f"{self.done} of {self.total} done", f"{self.failed} failed"]
        if left := self.total - self.done:
            words.append(f"{left} left")
            if self.seconds_left is not None:
                words.append(f"about {_duration(self.seconds_left)}")
        return "; ".join(filter(None, [", ".join(words), self.where]))

    @property
    def where(self) -> str:
        """The workers and Dask's page, in words, if there are any."""
        if self.dashboard is None:
            return ""
        return f"{self.workers} worker{'' if self.workers == 1 else 's'}, {self.dashboard}"


def sweep(
    function: Callable[..., Any],
    over: Any,
    *,
    repetitions: int | range = 1,
    seed: int = 0,
    call: Call = "each",
    together: int | None = None,
    apart: Sequence[str] = (),
    folder: Path | str | None = None,
    workers: int | None = None,
    scheduler: Any = None,
    retry_failed: bool = False,
    progress: Callable[[Standing], Any] | None = None,
) -> DataFrame:
    """A function's results over many cells, as a table with a row for each run.

    - `over`: a mapping from names to values (all combinations of them, the first name slowest),
      or a table of cells: a pandas `DataFrame`, or a list of mappings with the same names.
    - `repetitions`: how often each cell is run, each time with another random key. Keys depend
      on `seed`, the cell's values and the repetition, and on nothing else. After 10, more of them
      are `range(10, 30)`.
    - `call`: "each": `function(key=key, effort=1e-5, ...)` returns a mapping from names to
      numbers or strings. "vmap": the same, but for JAX, which runs many cells at once: what the
      function returns are JAX's scalars. "arrays": `function(keys=keys, effort=array, ...)` gets
      many cells and returns an array for each name, in which `failed` may be strings that say
      why a cell failed, "" where it did not.
    - `together`: cells in one call and in one file on disk; 1 for "each", otherwise 32.
    - `apart`: names whose value must be the same in one call, and is passed as it is: numbers
      that shapes depend on. Strings are always kept apart.
    - `folder`: where results are kept as they come. The same call goes on from there after an
      interruption, and when all is done reads the table. Left out: nothing is written.
    - `workers`: that many processes on this machine. Left out: this process.
    - `scheduler`: a Dask scheduler instead: its address, a `distributed.Client`, or a cluster.
    - `retry_failed`: run those again that failed (and what was run together with them).
    - `progress`: called with a `Standing` at the start and whenever it changes; `print` will do.

    The table has the swept names, `repetition` (from 0), what the function returned, and `failed`:
    the error that a cell ended in, with missing results, or "". What is a mistake in the program
    (`TypeError`, `KeyError`, too little memory and the like) is raised instead.
    """
    cells, apart, together = _checked(
        function, over, repetitions, seed, call, together, apart, workers, scheduler, progress
    )
    chunks = cut(cells, apart, together)
    gathered = Gathered(cells, chunks)
    store = None
    if folder is not None:
        about = _about(function, cells, seed, call, together, apart)
        store = Folder(Path(folder), about)
        store.check()
        if store.finished():
            _load(store, gathered)
            store.check()  # again: the table may be of another sweep that has just finished
            if not gathered.missing(retry_failed):
                _Report(progress, gathered, cells.total).tell()
                return to_frame(gathered.table())
    with store.held() if store else nullcontext():
        if store:
            _load(store, gathered)
        pending = gathered.missing(retry_failed)
        gathered.forget(pending)
        report = _Report(progress, gathered, cells.total)
        make = batch_maker(cells, apart, seed, together)

        def keep(number: int, outcome: Outcome) -> None:
            if store:
                part = gathered.part(number, outcome)
                with _kept(store, gathered):
                    store.write_part(number, part)
            gathered.add(number, outcome)
            report.kept()

        work = _Work(function, call, pending, lambda number: make(chunks[number]), keep)
        try:
            if not pending or (workers is None and scheduler is None):
                _run_here(work, report)
            else:
                _run_on_dask(work, report, workers, scheduler)
        except KeyboardInterrupt as interrupt:
            if store:
                interrupt.add_note(
                    f"{gathered.done} of {cells.total} rows are kept in {store.path}: the same "
                    "call goes on from there"
                )
            raise
        table = gathered.table()
        if store:
            with _kept(store, gathered):
                store.finish(table)
    return to_frame(table)


@dataclass(frozen=True)
class _Work:
    """The chunks to be run, by number, how each is made, and what to do with what it gives."""

    function: Callable[..., Any]
    call: Call
    pending: Sequence[int]
    batch: Callable[[int], Batch]
    keep: Callable[[int, Outcome], None]


def _run_here(work: _Work, report: _Report) -> None:
    report.tell()
    caller = Caller(work.function, work.call)
    with interrupts.noticed() as check:
        for number in work.pending:
            work.keep(number, caller(work.batch(number), check))


def _run_on_dask(work: _Work, report: _Report, workers: int | None, scheduler: Any) -> None:
    with interrupts.postponed() as check:
        from motorcost.sweeps import cluster  # slow to import

        sent = cluster.pickled(work.function)
        with cluster.connected(workers, scheduler) as client:
            report.dashboard = client.dashboard_link
            cluster.run_on(
                client, sent, work.call, work.pending, work.batch, work.keep, report.looked, check
            )


class _Report:
    """Tells the user how far the sweep is."""

    def __init__(
        self, progress: Callable[[Standing], Any] | None, gathered: Gathered, total: int
    ) -> None:
        self._progress, self._gathered, self._total = progress, gathered, total
        self._since, self._began, self._calls = gathered.done, time.monotonic(), 0
        self._first_round = True
        self._pace: float | None = None  # seconds for a row
        self._workers: int | None = None
        self._at_once = 0  # calls on all workers, beside this process
        self.dashboard: str | None = None

    def tell(self) -> None:
        """Tell it now."""
        if self._progress is None:
            return
        left = self._total - self._gathered.done
        standing = Standing(
            self._gathered.done,
            self._gathered.failed,
            self._total,
            None if self._pace is None else self._pace * left,
            self._workers or 0,
            self.dashboard,
        )
        self._progress(standing)

    def kept(self) -> None:
        """Take note that a call has ended, and tell."""
        self._calls += 1
        now, rows = time.monotonic(), self._gathered.done - self._since
        round_is_over = self._calls > self._at_once
        if rows and (self._first_round or round_is_over):
            self._pace = (now - self._began) / rows
        if self._first_round and round_is_over:
            # It took longer than others will: processes were started and programs compiled.
            self._first_round = False
            self._since, self._began, self._calls = self._gathered.done, now, 0
        self.tell()

    def looked(self, workers: int, at_once: int) -> None:
        """Take the number of workers, and of calls that they run at once; tell if it is news."""
        self._at_once = at_once
        if workers != self._workers:
            self._workers = workers
            self.tell()


@contextmanager
def _kept(store: Folder, gathered: Gathered) -> Iterator[None]:
    """Say what is safe when the disk is full or gone."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot write into {store.path} ({error}): {gathered.done} rows are kept, and the "
            "same call goes on from there"
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


def _checked(
    function: Any,
    over: Any,
    repetitions: Any,
    seed: Any,
    call: Any,
    together: Any,
    apart: Any,
    workers: Any,
    scheduler: Any,
    progress: Any,
) -> tuple[Cells, tuple[str, ...], int]:
    checks.one_of("call", call, CALLS)
    if checks.whole("seed", seed, 0, "of the random keys") >= 2**32:
        raise InputError(f"seed (of the random keys) must be below 2**32, got {seed}")
    if workers is not None:
        checks.whole("workers", workers, 1, "processes on this machine")
        if scheduler is not None:
            raise InputError("give workers (on this machine) or a scheduler, not both")
    if together is None:
        together = 1 if call == "each" else _TOGETHER
    checks.whole("together", together, 1, "cells in one call")
    if progress is not None:
        checks.takes("progress", progress, "standing")
    cells = read_cells(over, read_repetitions(repetitions))
    apart = check_apart(apart, cells, call)
    _check_function(function, call, cells, apart)
    return cells, apart, int(together)


def _check_function(function: Any, call: Call, cells: Cells, apart: Sequence[str]) -> None:
    """Raise if it cannot be called as it will be: before the first cell, not in all of them."""
    keys = "keys" if call == "arrays" else "key"
    try:
        checks.takes("function", function, **{keys: ...}, **cells.columns)
    except InputError as error:
        other = "key" if call == "arrays" else "keys"
        if callable(function) and other in inspect.signature(function).parameters:
            hint = 'call="each" or "vmap"' if call == "arrays" else 'call="arrays"'
            raise InputError(f"{error} (sweep what takes {other} with {hint})") from None
        raise
    if hasattr(function, "check_columns"):
        function.check_columns(cells.columns, apart)


def _about(
    function: Callable[..., Any],
    cells: Cells,
    seed: int,
    call: Call,
    together: int,
    apart: Sequence[str],
) -> Mapping[str, Any]:
    """Everything that results depend on, to be compared when a sweep goes on."""
    return {
        "motorcost": version("motorcost"),
        "jax": jax.__version__,
        "precision": 64 if jax.config.jax_enable_x64 else 32,  # type: ignore[attr-defined]
        "function": full_name(function),
        "fingerprint": fingerprint(function),
        "cells": cells.checksum(),
        "repetitions": _written(cells.repetitions),
        "seed": int(seed),
        "call": call,
        "together": together,
        "apart": list(apart),
    }


def _written(repetitions: range) -> int | str:
    return f"{repetitions.start} to {repetitions[-1]}" if repetitions.start else repetitions.stop


def _duration(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
