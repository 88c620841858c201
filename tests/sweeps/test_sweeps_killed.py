"""A sweep that is killed at any moment continues, and ends with the table it would have had."""

import collections
import os
import random
import runpy
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from motorcost.sweeps import sweep
from strategies import in_time

# What users write: a script without a guard. It notes every call in a file.
SCRIPT = """
import os, sys, time
import jax
from motorcost.sweeps import sweep

def slow(key, a, b):
    with open(os.environ["CALLS"], "a") as calls:
        calls.write(f"{a} {b} {os.getpid()}\\n")
    time.sleep(float(os.environ["SECONDS"]))
    if a == 7:
        raise ValueError(f"seven, and {b}")
    return {"x": int(jax.random.key_data(key)[0]) / 3, "n": a, "word": b}

GRID = {"a": range(40), "b": ["left", "right"]}

if len(sys.argv) > 1 and sys.argv[1] == "run":
    workers = int(os.environ.get("WORKERS", "0")) or None
    table = sweep(
        slow, GRID, seed=5, folder="results", workers=workers,
        progress=lambda progress: print(progress, flush=True),
    )
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def started(script, **environment):
    return subprocess.Popen(
        [sys.executable, script, "run"],
        cwd=script.parent,
        env=os.environ
        | {"CALLS": str(script.parent / "calls"), "SECONDS": "0.02", "JAX_ENABLE_X64": "1"}
        | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def calls(script):
    """How often each cell was called so far."""
    path = script.parent / "calls"
    lines = path.read_text().splitlines() if path.exists() else []
    return collections.Counter(tuple(line.split()[:2]) for line in lines)


def kept(script):
    """The cells that have a file on disk."""
    parts = (script.parent / "results" / "parts").glob("[0-9]*.parquet")
    cells = [(str(a), b) for a in range(40) for b in ("left", "right")]
    return {cells[int(part.stem)] for part in parts}


def undisturbed(script, monkeypatch):
    monkeypatch.setenv("CALLS", os.devnull)
    monkeypatch.setenv("SECONDS", "0")
    names = runpy.run_path(str(script))
    return sweep(names["slow"], names["GRID"], seed=5)


def test_killed_again_and_again(script, monkeypatch):
    moments = random.Random(0)
    finished = {}  # by cell, how often it had been called when its file was first there
    for _ in range(5):
        with started(script) as process:
            for _ in range(moments.randint(1, 8)):  # before, at and after the first rows
                assert "done" in process.stdout.readline()
            time.sleep(moments.uniform(0.0, 0.1))
            process.kill()
        assert process.returncode == -signal.SIGKILL
        so_far = calls(script)
        for cell in kept(script):
            finished.setdefault(cell, so_far[cell])
    assert not (script.parent / "results" / "table.parquet").exists()
    assert len(finished) >= 10
    with started(script) as process:
        output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert output.startswith(f"{len(finished)} of 80 done")

    # Nothing finished was run again, and each kill cost one call at most.
    after = calls(script)
    assert {cell: after[cell] for cell in finished} == finished
    assert len(after) == 80
    assert sum(after.values()) <= 80 + 5

    table = pd.read_parquet(script.parent / "results" / "table.parquet")
    pd.testing.assert_frame_equal(table, undisturbed(script, monkeypatch), check_exact=True)
    assert (table["failed"] != "").sum() == 2
    assert sorted(path.name for path in (script.parent / "results").iterdir()) == [
        ".lock",
        "sweep.json",
        "table.parquet",
    ]


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def workers_end(script):
    """Wait until no process is left that a cell ran in."""
    lines = (script.parent / "calls").read_text().splitlines()
    pids = {int(line.split()[2]) for line in lines}
    assert pids
    for _ in range(600):
        if all(map(gone, pids)):
            return pids
        time.sleep(0.1)
    raise AssertionError(f"still there: {[pid for pid in pids if not gone(pid)]}")


@pytest.mark.slow
def test_killed_and_interrupted_with_workers(script, monkeypatch):
    """With two processes that work: kill -9, then Ctrl-C, then to the end."""
    finished = {}
    for end in (signal.SIGKILL, signal.SIGINT):
        with started(script, WORKERS="2", SECONDS="0.3") as process:
            while "2 workers" not in (line := process.stdout.readline()):
                assert " worker" in line
            for _ in range(6):
                assert "2 workers" in process.stdout.readline()
            # As at a terminal, Ctrl-C goes to all processes of the group; workers have their own.
            (os.kill if end == signal.SIGKILL else os.killpg)(process.pid, end)
            _, errors = process.communicate()
        assert process.returncode == -end
        if end == signal.SIGINT:
            *_, name, note = errors.strip().splitlines()
            assert name == "KeyboardInterrupt"
            assert "of 80 rows are kept in results: the same call continues" in note
            assert errors.count("Traceback") == 1
            assert " - distributed" not in errors  # as its log would begin
        workers_end(script)
        so_far = calls(script)
        for cell in kept(script):
            finished.setdefault(cell, so_far[cell])
    assert len(finished) >= 10
    with started(script, WORKERS="2") as process:
        _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert errors == ""
    assert len(workers_end(script)) >= 5  # two that were killed, two interrupted, and the last
    after = calls(script)
    assert {cell: after[cell] for cell in finished} == finished
    assert len(after) == 80
    table = pd.read_parquet(script.parent / "results" / "table.parquet")
    pd.testing.assert_frame_equal(table, undisturbed(script, monkeypatch), check_exact=True)


def killed_while_it_starts(process, moments):
    """Before the first row: while Python, JAX or the workers start."""
    time.sleep(moments.uniform(0.0, 3.0))
    process.kill()


def killed_among_rows(process, moments):
    """When up to three more rows are there, and some time later."""
    rows = int(process.stdout.readline().split()[0]) + moments.randint(0, 3)
    while int(process.stdout.readline().split()[0]) < rows:
        pass
    time.sleep(moments.uniform(0.0, 0.1))
    process.kill()


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "seconds"), [("0", "0.2"), ("2", "1")])
def test_twenty_kills(script, workers, seconds, monkeypatch):
    """At random moments, every tenth of them during start-up: nothing is lost, nothing mixed."""
    moments = random.Random(int(workers))
    finished, rows = {}, []  # as above; how many were on disk after each kill
    for kill in range(20):
        with started(script, WORKERS=workers, SECONDS=seconds) as process:
            (killed_while_it_starts if kill % 10 == 0 else killed_among_rows)(process, moments)
        assert process.returncode == -signal.SIGKILL
        so_far, there = calls(script), kept(script)
        assert there >= finished.keys()
        for cell in there:
            finished.setdefault(cell, so_far[cell])
        rows.append(len(there))
    print(f"rows on disk after each kill, {workers} workers: {rows}")
    assert not (script.parent / "results" / "table.parquet").exists()
    assert 20 <= rows[-1] < 80
    with started(script, WORKERS=workers) as process:
        output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert errors == ""
    assert output.startswith(f"{rows[-1]} of 80 done")
    workers_end(script)
    after = calls(script)
    print(f"calls of 80 cells: {sum(after.values())}")
    assert {cell: after[cell] for cell in finished} == finished
    assert len(after) == 80
    table = pd.read_parquet(script.parent / "results" / "table.parquet")
    pd.testing.assert_frame_equal(table, undisturbed(script, monkeypatch), check_exact=True)


@pytest.mark.parametrize("seconds", in_time([0.2, 0.8], 0.2))
def test_interrupted_while_workers_start(script, seconds):
    with started(script, WORKERS="2") as process:
        while not (script.parent / "results" / "sweep.json").exists():
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == -signal.SIGINT
    assert errors.strip().splitlines()[-2] == "KeyboardInterrupt"
    assert errors.count("Traceback") == 1
