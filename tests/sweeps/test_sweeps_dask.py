"""Sweeps on real clusters of processes on this machine."""

import contextlib
import functools
import logging
import os
import signal
import threading
import time

import dask
import distributed
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from motorcost.errors import InputError
from motorcost.sweeps import cluster as on_dask
from motorcost.sweeps import sweep

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
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as processes,
        distributed.Client(processes) as client,
    ):
        yield client


def same(a, b):
    pd.testing.assert_frame_equal(a, b, check_exact=True)


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


def test_rows_do_not_depend_on_who_runs_them(tmp_path):
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
    for workers in (1, 2):
        with cluster(workers) as client:
            for call, (function, options) in calls.items():
                seen = []
                there = sweep(
                    *(function, GRID),
                    repetitions=3,
                    seed=1,
                    call=call,
                    folder=tmp_path / f"{call}-{workers}",
                    scheduler=client,
                    progress=seen.append,
                    **options,
                )
                same(there, here[call])
                assert {each.workers for each in seen} == {workers}
                assert seen[0].done == 0
                assert [each.done for each in seen] == sorted(each.done for each in seen)
                assert seen[-1].done == 18
                assert seen[-1].dashboard == client.dashboard_link
            assert client.status == "running"  # a user's own is left as it was


def scale(key, a):
    return {"x": a * 2.5, "word": str(a)}


def test_processes_of_its_own(tmp_path):
    """Functions of no module, bugs, and what cannot be sent, on clusters that sweep starts."""
    factor, traces = 2.5, tmp_path / "traces"

    def traced(key, a):
        with traces.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return {"x": a * factor}

    table = sweep(traced, {"a": range(12)}, call="vmap", batch_size=2, workers=1)
    same(table, sweep(scale, {"a": range(12)}).drop(columns="word"))
    (process,) = traces.read_text().split()  # compiled once, not for each chunk
    assert int(process) != os.getpid()

    def broken(key, a):
        return {"x": undefined}

    with pytest.raises(NameError, match="undefined") as caught:
        sweep(broken, {"a": range(20)}, workers=1)
    assert "a=" in caught.value.__notes__[0]

    lock = threading.Lock()
    with pytest.raises(InputError, match="cannot be sent to other processes"):
        sweep(lambda key, a: {"x": lock.locked()}, {"a": [1]}, workers=1)


def test_a_worker_is_killed():
    def slow(key, a):
        time.sleep(0.1)
        return {"x": a * 2.5, "word": str(a), "process": 0 * os.getpid()}

    killed = []
    with cluster(2) as client:

        def kill_one(standing):
            if standing.done >= 4 and not killed:
                killed.append(client.run(os.getpid).popitem()[1])
                os.kill(killed[0], signal.SIGKILL)

        table = sweep(slow, {"a": range(24)}, scheduler=client, progress=kill_one)
        assert killed
        same(table.drop(columns="process"), sweep(scale, {"a": range(24)}))


def test_a_cell_kills_its_worker(tmp_path):
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
    with cluster(2) as client:
        table = sweep(deadly, {"a": [0, 1, 2, 3, 4, 6, 7]}, scheduler=client)
        assert marker.exists()
        same(table, expected.drop(5).reset_index(drop=True))
    with cluster(2, allowed_failures=0) as client:  # so that it need not die as often
        folder = tmp_path / "results"
        table = sweep(deadly, {"a": range(8)}, scheduler=client, folder=folder)
    assert table["failed"][5].startswith("KilledWorker: ")
    same(table.drop(5), expected.drop(5))
    same(pd.read_parquet(folder / "table.parquet"), table)


def test_workers_that_join_later():
    seen = []
    with cluster(0) as client:

        def join(standing):
            seen.append(standing)
            if len(seen) == 1:
                assert standing.workers == 0
                client.cluster.scale(1)

        table = sweep(scale, {"a": range(30)}, scheduler=client.cluster, progress=join)
    same(table, sweep(scale, {"a": range(30)}))
    assert seen[-1].workers == 1
    assert str(seen[0]).startswith("0 of 30 done, 0 failed, 30 left; 0 workers, http")


def test_a_scheduler_that_does_not_answer(monkeypatch, tmp_path, as_users_call_it):
    monkeypatch.setattr(on_dask, "PATIENCE", 1)
    with pytest.raises(InputError, match=r"no Dask scheduler answers at tcp://127.0.0.1:1$"):
        sweep(scale, {"a": [1]}, scheduler="tcp://127.0.0.1:1", folder=tmp_path)
    with pytest.raises(InputError, match="scheduler must be the address"):
        sweep(scale, {"a": [1]}, scheduler=3, folder=tmp_path)
    same(sweep(scale, {"a": [1]}, folder=tmp_path), sweep(scale, {"a": [1]}))
