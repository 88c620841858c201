"""Sweeps on real clusters of processes on this machine."""

import contextlib
import dataclasses
import functools
import logging
import os
import signal
import sys
import threading
import time
import types

import dask
import distributed
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import psutil
import pytest
from sweeping import same

from motorcost.errors import InputError
from motorcost.sweeps import cluster as on_dask
from motorcost.sweeps import local_workers, sweep

GRID = {"effort": [1e-5, 1e-3, 0.1], "trials": [10, 20], "task": ["reaching"]}


@contextlib.contextmanager
def cluster(workers, allowed_failures=3):
    """A client of a cluster like a user's own."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": allowed_failures}),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as processes,
        distributed.Client(processes) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    """One cluster of two workers for several tests. A worker that a test kills is replaced."""
    with cluster(2) as client:
        yield client


@functools.partial(jax.jit, static_argnames=("trials", "task"))
def draw(key, effort, trials, task):
    # Sums of many numbers, which come out differently if they are summed differently.
    noise = jax.random.normal(key, (trials,))
    return {
        "sum": jnp.exp(noise).sum() * effort,
        "form": noise @ jnp.outer(noise, jnp.exp(noise)) @ noise,
        "wide": noise.dtype == jnp.float64,
        "letters": len(task),
    }


def draw_many(keys, effort, trials, task):
    found = jax.vmap(lambda key, effort: draw(key, effort, trials, task))(keys, effort)
    rough = np.abs(np.asarray(found["sum"])) > 1e3
    return found | {"failed": np.where(rough, "rough", "")}


def test_rows_do_not_depend_on_who_runs_them(client, tmp_path):
    calls = {
        "each": (draw, {"batch_size": 2}),
        "vmap": (draw, {"batch_size": 4, "static": ["trials"]}),
        "arrays": (draw_many, {"batch_size": 4, "static": ["trials"]}),
    }
    here = {
        call: sweep(function, GRID, repetitions=3, seed=1, call=call, **options)
        for call, (function, options) in calls.items()
    }
    assert all(table["wide"].all() for table in here.values())
    for call, (function, options) in calls.items():
        reports = []
        there = sweep(
            *(function, GRID),
            repetitions=3,
            seed=1,
            call=call,
            folder=tmp_path / call,
            scheduler=client,
            progress=reports.append,
            **options,
        )
        same(there, here[call])
        assert {report.workers for report in reports} == {2}
        done = [report.done for report in reports]
        assert done[0] == 0
        assert done == sorted(done)
        assert done[-1] == 18
        assert reports[-1].dashboard == client.dashboard_link
    assert client.status == "running"  # a user's own is left as it was


def scale(key, a):
    return {"x": a * 2.5, "word": str(a)}


def listening(process):
    """The addresses that a process and its children can be reached at."""
    processes = [process, *process.children(recursive=True)]
    sockets = [socket for member in processes for socket in member.net_connections("tcp")]
    return [socket.laddr.ip for socket in sockets if socket.status == psutil.CONN_LISTEN]


def test_processes_of_its_own(tmp_path, monkeypatch):
    """A function of no module, which imports a module beside the user's script."""
    (tmp_path / "beside_the_script.py").write_text("FACTOR = 2.5\n")
    monkeypatch.syspath_prepend(tmp_path)
    traces, addresses = tmp_path / "traces", []

    def traced(key, a):
        import beside_the_script

        with traces.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return {"x": a * beside_the_script.FACTOR}

    def look(progress):
        if progress.done == 12:
            addresses.extend(listening(psutil.Process()))

    table = sweep(traced, {"a": range(12)}, call="vmap", batch_size=2, workers=1, progress=look)
    same(table, sweep(scale, {"a": range(12)}).drop(columns="word"))
    (process,) = traces.read_text().split()  # compiled once, not for each batch
    assert int(process) != os.getpid()
    assert not psutil.pid_exists(int(process))
    # The scheduler, its page, the worker: no other machine reaches them.
    assert len(addresses) >= 3
    assert set(addresses) == {"127.0.0.1"}


def test_bugs_are_raised_from_workers(client):

    def broken(key, a):
        return {"x": undefined}

    with pytest.raises(NameError, match="undefined") as caught:
        sweep(broken, {"a": range(20)}, scheduler=client)
    assert "a=" in caught.value.__notes__[0]

    lock = threading.Lock()
    with pytest.raises(InputError, match="cannot be sent to other processes"):
        sweep(lambda key, a: {"x": lock.locked()}, {"a": [1]}, scheduler=client)


# Python imports this first of all, in every process that finds it on its path.
DIE_FIRST = """
import os, pathlib, sys
folder = pathlib.Path(__file__).parent
for number in range({times} if "worker" in sys.orig_argv else 0):
    try:
        (folder / f"death-{{number}}").touch(exist_ok=False)
    except FileExistsError:
        continue
    os._exit(7)
"""


@pytest.fixture
def deaths(tmp_path, monkeypatch):
    """A function that lets as many worker processes die before they can reach a scheduler."""

    def die(times):
        (tmp_path / "sitecustomize.py").write_text(DIE_FIRST.format(times=times))
        monkeypatch.syspath_prepend(tmp_path)

    before = set(psutil.Process().children(recursive=True))
    yield die
    assert set(psutil.Process().children(recursive=True)) <= before


def died(tmp_path):
    return len(list(tmp_path.glob("death-*")))


def test_workers_that_die_while_they_start_are_replaced(deaths, tmp_path):
    deaths(2)
    same(sweep(scale, {"a": range(6)}, workers=1), sweep(scale, {"a": range(6)}))
    assert died(tmp_path) == 2


def test_the_others_go_on_without_a_worker_that_cannot_be_started(deaths, tmp_path, monkeypatch):
    monkeypatch.setattr(local_workers, "MOST_STARTS", 1)
    deaths(1)
    reports = []
    table = sweep(scale, {"a": range(6)}, workers=2, progress=reports.append)
    same(table, sweep(scale, {"a": range(6)}))
    assert died(tmp_path) == 1
    assert max(report.workers for report in reports) == 1


def test_workers_that_cannot_be_started(deaths, tmp_path, monkeypatch):
    deaths(1000)
    message = r"^no worker process can be started \(exit code 7\): try .* -m dask worker --help$"
    with pytest.raises(InputError, match=message):
        sweep(scale, {"a": [1]}, workers=2, folder=tmp_path / "results")
    assert died(tmp_path) == 2 * local_workers.MOST_STARTS
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    with pytest.raises(InputError, match=r"can be started \(\[Errno 2\] .*nothing'\): try"):
        sweep(scale, {"a": [1]}, workers=1, folder=tmp_path / "results")
    same(sweep(scale, {"a": [1]}, folder=tmp_path / "results"), sweep(scale, {"a": [1]}))


def test_a_process_that_never_comes_is_killed(tmp_path, monkeypatch):
    """As if it hung while it starts."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(local_workers, "MOST_SECONDS_AWAY", 0.1)
    with pytest.raises(InputError, match=r"can be started \(exit code -9\)"):
        sweep(scale, {"a": [1]}, workers=1)


def test_a_worker_that_died_as_soon_as_it_had_come_could_be_started(monkeypatch):
    """Although no look has ever found it at the scheduler."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setattr(local_workers, "MOST_STARTS", 1)
    scheduler = types.SimpleNamespace(address="", workers={}, add_plugin=lambda *_, **__: None)
    with local_workers.LocalWorkers(scheduler, 1) as processes:
        (place,) = processes._places
        came = {"tcp://worker": types.SimpleNamespace(name=place.name)}
        processes.add_worker(types.SimpleNamespace(workers=came), "tcp://worker")
        place.process.wait()
        processes.replace_dead()
        place.process.wait()
        with pytest.raises(InputError, match="no worker process can be started"):
            processes.replace_dead()


class DeadlyToSend:
    """Kills the process that sends it away, once."""

    def __init__(self, outcome, marker):
        self.outcome, self.marker = outcome, marker

    def __reduce__(self):
        if not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return dataclasses.replace, (self.outcome,)


def test_a_worker_dies_with_the_result(tmp_path, monkeypatch):
    """After a batch has ended, before the sweep has fetched what it gave."""
    run_batch = on_dask._run_batch

    def run_and_die(*arguments):
        return DeadlyToSend(run_batch(*arguments), tmp_path / "death-0")

    monkeypatch.setattr(on_dask, "_run_batch", run_and_die)
    monkeypatch.setattr(local_workers, "MOST_STARTS", 1)
    same(sweep(scale, {"a": [1]}, workers=1), sweep(scale, {"a": [1]}))
    assert died(tmp_path) == 1


def test_a_worker_is_killed(client):
    def slow(key, a):
        time.sleep(0.1)
        return {"x": a * 2.5, "word": str(a), "process": 0 * os.getpid()}

    killed = []

    def kill_one(progress):
        if progress.done >= 4 and not killed:
            killed.append(client.run(os.getpid).popitem()[1])
            os.kill(killed[0], signal.SIGKILL)

    table = sweep(slow, {"a": range(24)}, scheduler=client, progress=kill_one)
    assert killed
    same(table.drop(columns="process"), sweep(scale, {"a": range(24)}))


def test_a_cell_kills_its_worker(client, tmp_path):
    """Once: it is run again. Always: it has failed, and nobody else."""
    marker = tmp_path / "marker"

    def deadly(key, a):
        if a == 3 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if a == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"x": a * 2.5, "word": str(a)}

    expected = sweep(scale, {"a": range(8)})
    table = sweep(deadly, {"a": [0, 1, 2, 3, 4, 6, 7]}, scheduler=client)
    assert marker.exists()
    same(table, expected.drop(5).reset_index(drop=True))
    folder = tmp_path / "results"
    with cluster(2, allowed_failures=0) as unforgiving:  # so that it need not die as often
        table = sweep(deadly, {"a": range(8)}, scheduler=unforgiving, folder=folder)
    assert table["failed"][5].startswith("KilledWorker: ")
    same(table.drop(5), expected.drop(5))
    same(pd.read_parquet(folder / "table.parquet"), table)


def test_workers_that_join_later():
    reports = []
    with cluster(0) as client:

        def join(progress):
            reports.append(progress)
            if len(reports) == 1:
                assert progress.workers == 0
                client.cluster.scale(1)

        table = sweep(scale, {"a": range(30)}, scheduler=client.cluster, progress=join)
    same(table, sweep(scale, {"a": range(30)}))
    assert reports[-1].workers == 1
    assert str(reports[0]).startswith("0 of 30 done, 0 failed, 30 left; 0 workers, http")


def test_a_scheduler_that_does_not_answer(monkeypatch, tmp_path, as_users_call_it):
    monkeypatch.setattr(on_dask, "PATIENCE", 1)
    with pytest.raises(InputError, match=r"no Dask scheduler answers at tcp://127.0.0.1:1$"):
        sweep(scale, {"a": [1]}, scheduler="tcp://127.0.0.1:1", folder=tmp_path)
    with pytest.raises(InputError, match="scheduler must be the address"):
        sweep(scale, {"a": [1]}, scheduler=3, folder=tmp_path)
    same(sweep(scale, {"a": [1]}, folder=tmp_path), sweep(scale, {"a": [1]}))
