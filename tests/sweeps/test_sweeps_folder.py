"""Sweeps into a folder: what is kept on disk, continued, and refused."""

import errno
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jax
import pandas as pd
import pytest
from sweeping import GRID, StopError, contents, draw, draw_many, draw_too, same, stop_at

from motorcost.errors import InputError
from motorcost.sweeps import folder as on_disk
from motorcost.sweeps import sweep

# The cells that functions of these tests were called with.
CALLS = []


def test_a_finished_sweep_is_read_not_run(tmp_path):
    CALLS.clear()

    def counted(key, a):
        CALLS.append(a)
        if a == 1:
            raise ValueError("no")
        return {"x": jax.random.normal(key), "n": a, "word": str(a), "ok": a > 1}

    folder = tmp_path / "results"
    first = sweep(counted, {"a": range(3)}, folder=folder)
    assert CALLS == [0, 1, 2]
    assert sorted(contents(folder)) == ["sweep.json", "table.parquet"]
    before = contents(folder)
    reports = []
    # Nothing listens there: a finished sweep asks for nobody.
    again = sweep(
        *(counted, {"a": range(3)}),
        folder=str(folder),
        scheduler="tcp://127.0.0.1:1",
        progress=reports.append,
    )
    assert CALLS == [0, 1, 2]
    same(first, again)
    same(first, sweep(counted, {"a": range(3)}))
    same(first, pd.read_parquet(folder / "table.parquet"))
    assert [(report.done, report.failed) for report in reports] == [(3, 1)]
    assert contents(folder) == before


@pytest.mark.parametrize("call", ["each", "vmap", "arrays"])
def test_an_interrupted_sweep_goes_on(call, tmp_path):
    function = draw_many if call == "arrays" else draw
    run = functools.partial(sweep, function, GRID, repetitions=3, call=call, batch_size=4)
    folder = tmp_path / "results"
    with pytest.raises(StopError):
        run(folder=folder, progress=stop_at(8))
    assert sorted(contents(folder)) == ["parts/00000.parquet", "parts/00001.parquet", "sweep.json"]
    part = pd.read_parquet(folder / "parts" / "00001.parquet")
    same(part, run()[4:8].reset_index(drop=True))
    # What a killed process leaves behind goes away.
    for name in ("parts/.00002-abc.parquet", ".table-abc.parquet", ".sweep-abc.json"):
        (folder / name).write_bytes(b"half")
    reports = []
    table = run(folder=folder, progress=reports.append)
    assert [report.done for report in reports] == [8, 12, 16, 18]
    same(table, run())
    assert sorted(contents(folder)) == ["sweep.json", "table.parquet"]


@pytest.mark.parametrize("batch_size", [1, 4])
def test_an_interrupt_that_the_function_swallows(batch_size, tmp_path):
    """As `mc.fit` does, which returns what it has: such a row is not kept."""
    CALLS.clear()

    def swallowing(key, a):
        CALLS.append(a)
        try:
            if CALLS == [0, 1, 2, 3, 4, 5]:
                signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            return {"x": -1}
        return {"x": a}

    run = functools.partial(
        sweep, swallowing, {"a": range(8)}, folder=tmp_path, batch_size=batch_size
    )
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert signal.getsignal(signal.SIGINT) is before
    assert CALLS == [0, 1, 2, 3, 4, 5]
    assert run()["x"].tolist() == list(range(8))
    assert CALLS[6:] == ([5, 6, 7] if batch_size == 1 else [4, 5, 6, 7])


def test_an_interrupt_that_a_call_with_many_cells_swallows(tmp_path):
    CALLS.clear()

    def swallowing(keys, a):
        CALLS.append(a.tolist())
        try:
            if len(CALLS) == 2:
                signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            return {"x": -a}
        return {"x": a}

    run = functools.partial(
        sweep, swallowing, {"a": range(6)}, folder=tmp_path, call="arrays", batch_size=2
    )
    with pytest.raises(KeyboardInterrupt):
        run()
    assert run()["x"].tolist() == list(range(6))
    assert CALLS == [[0, 1], [2, 3], [2, 3], [4, 5]]


def test_killed_between_the_table_and_the_parts(tmp_path, monkeypatch):
    unlink = Path.unlink

    def refuse(path, missing_ok=False):
        if path.name == "00001.parquet":
            raise StopError
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with pytest.raises(StopError):
            sweep(draw, GRID, folder=tmp_path)
    assert {"table.parquet", "parts/00001.parquet"} < set(contents(tmp_path))
    assert "parts/00000.parquet" not in contents(tmp_path)

    def never(progress):
        assert progress.done == progress.total

    same(sweep(draw, GRID, folder=tmp_path, progress=never), sweep(draw, GRID))
    assert sorted(contents(tmp_path)) == ["sweep.json", "table.parquet"]


@pytest.mark.parametrize("finished", [True, False])
def test_failed_ones_are_run_again(finished, tmp_path):
    folder, repaired = tmp_path / "results", tmp_path / "repaired"

    def moody(key, a):
        CALLS.append(a)
        if a in (1, 4) and not repaired.exists():
            raise ValueError("not today")
        return {"x": a, "even": a % 2 == 0}

    run = functools.partial(sweep, moody, {"a": range(6)}, folder=folder, batch_size=2)
    if finished:
        run()
    else:
        with pytest.raises(StopError):
            run(progress=stop_at(4))
    repaired.touch()
    CALLS.clear()
    if finished:
        assert run()["failed"].tolist() == ["", "ValueError: not today"] + [""] * 2 + [
            "ValueError: not today",
            "",
        ]
        assert CALLS == []
        # Interrupted on the way, what was repaired stays repaired.
        with pytest.raises(StopError):
            run(retry_failed=True, progress=stop_at(4))
        assert CALLS == [0, 1]
    table = run(retry_failed=True)
    assert CALLS == [0, 1, 4, 5]
    same(table, sweep(moody, {"a": range(6)}))  # types too
    assert table["x"].dtype == int
    assert table["even"].dtype == bool
    same(run(), table)
    assert sorted(contents(folder)) == ["sweep.json", "table.parquet"]


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 1}, "holds another sweep (seed 0 there, 1 here): choose another folder"),
        ({"repetitions": 2}, "repetitions 1 there, 2 here"),
        ({"repetitions": range(1, 4)}, "repetitions 1 there, 1 to 3 here"),
        ({"batch_size": 2}, "batch_size 1 there, 2 here"),
        ({"call": "vmap"}, "call each there, vmap here; batch_size 1 there, 32 here"),
        ({"over": {"effort": [1e-5], "trials": [10]}}, "it has other cells"),
        ({"function": draw_too}, "draw there, sweeping.draw_too here"),
    ],
)
def test_another_sweep_is_refused(change, words, finished, tmp_path):
    folder = tmp_path / "results"
    if finished:
        sweep(draw, GRID, folder=folder)
    else:
        with pytest.raises(StopError):
            sweep(draw, GRID, folder=folder, progress=stop_at(2))
    before = contents(folder)
    with pytest.raises(InputError) as caught:
        sweep(**({"function": draw, "over": GRID, "folder": folder} | change))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert contents(folder) == before


@pytest.mark.parametrize("change", [{"seed": 1}, {"function": draw_too}, {"over": {"a": [1]}}])
def test_a_folder_without_results_is_taken_over(change, tmp_path):
    """As after a mistake in the function, or among the cells, that ended the first of them."""

    def mistaken(key, effort, trials):
        return {"x": not_there}

    folder = tmp_path / "results"
    with pytest.raises(NameError):
        sweep(mistaken, GRID, folder=folder)
    assert sorted(contents(folder)) == ["sweep.json"]
    arguments = {"function": draw, "over": GRID} | change
    if "a" in arguments["over"]:
        arguments["function"] = lambda key, a: {"x": a}
    table = sweep(**arguments, folder=folder)
    same(sweep(**arguments, folder=folder), table)
    same(table, sweep(**arguments))


def test_a_table_of_another_sweep_that_appears_is_refused(tmp_path, monkeypatch):
    """Between the first look into the folder and reading what is there."""
    sweep(draw, GRID, folder=tmp_path / "theirs")
    folder = tmp_path / "results"
    check = on_disk.Folder.check

    def check_and_then_finish(self):
        check(self)
        if not folder.exists():
            shutil.copytree(tmp_path / "theirs", folder)

    monkeypatch.setattr(on_disk.Folder, "check", check_and_then_finish)
    with pytest.raises(InputError, match="seed 0 there, 1 here"):
        sweep(draw, GRID, folder=folder, seed=1)


def test_single_precision_is_another_sweep(tmp_path):
    sweep(draw, GRID, folder=tmp_path)
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(InputError, match="bits of JAX's numbers 64 there, 32 here"):
            sweep(draw, GRID, folder=tmp_path)
    finally:
        jax.config.update("jax_enable_x64", True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ({"motorcost": "0.0.1"}, "motorcost 0.0.1 there"),
        ({"jax": "0.1"}, "jax 0.1 there"),
        ({"format": 1}, "format 1, and this motorcost knows format 2"),
        ({"version": "3"}, "results of version 3 of the function, and this call states version 1"),
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ("\xff\x00", "cannot be read"),
    ],
)
def test_results_of_another_version_are_refused(text, words, tmp_path):
    with pytest.raises(StopError):
        sweep(draw, GRID, folder=tmp_path, progress=stop_at(2))
    about = tmp_path / "sweep.json"
    if isinstance(text, dict):
        text = json.dumps(json.loads(about.read_text()) | text)
    about.write_text(text, "latin-1")
    before = contents(tmp_path)
    with pytest.raises(InputError, match=words) as caught:
        sweep(draw, GRID, folder=tmp_path)
    assert "\n" not in str(caught.value)
    assert contents(tmp_path) == before


def test_a_folder_of_somebody_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("words")
    with pytest.raises(InputError, match=r"holds other files \(thesis.tex\) and no sweep.json"):
        sweep(draw, GRID, folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(InputError, match="it is a file"):
        sweep(draw, GRID, folder=tmp_path / "thesis.tex")
    with pytest.raises(InputError, match="does not exist"):
        sweep(draw, GRID, folder=tmp_path / "a" / "b")
    # What a sweep leaves that was killed before it began is not somebody else's.
    begun = tmp_path / "begun"
    begun.mkdir()
    for name in (".lock", ".sweep-abc.json"):
        (begun / name).touch()
    same(sweep(draw, GRID, folder=begun), sweep(draw, GRID))
    assert sorted(contents(begun)) == ["sweep.json", "table.parquet"]


@pytest.mark.parametrize("name", ["parts/00001.parquet", "table.parquet"])
@pytest.mark.parametrize("damage", ["cut", "empty", "another's"])
def test_damaged_files_are_refused(name, damage, tmp_path):
    folder = tmp_path / "results"
    if name == "table.parquet":
        sweep(draw, GRID, folder=folder)
    else:
        with pytest.raises(StopError):
            sweep(draw, GRID, folder=folder, progress=stop_at(3))
    path = folder / name
    good = path.read_bytes()
    if damage == "another's":
        pd.DataFrame({"effort": [1.0], "failed": [""]}).to_parquet(path)
    else:
        path.write_bytes(good[: len(good) // 2] if damage == "cut" else b"")
    before = contents(folder)
    with pytest.raises(InputError, match=f"{path.name} cannot be read") as caught:
        sweep(draw, GRID, folder=folder)
    assert "\n" not in str(caught.value)
    assert contents(folder) == before
    path.write_bytes(good)
    same(sweep(draw, GRID, folder=folder), sweep(draw, GRID))


@pytest.mark.parametrize("where", ["part", "table"])
def test_a_full_disk_keeps_what_there_is(where, tmp_path, monkeypatch):
    write = on_disk.write

    def full(path, table):
        if path.stem == ("table" if where == "table" else "00003"):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, table)

    rows = 6 if where == "table" else 3
    with monkeypatch.context() as patch:
        patch.setattr(on_disk, "write", full)
        with pytest.raises(
            InputError, match=f"No space left .*: {rows} rows are kept, and the sam"
        ):
            sweep(draw, GRID, folder=tmp_path)
    assert len(list((tmp_path / "parts").iterdir())) == rows
    reports = []
    same(sweep(draw, GRID, folder=tmp_path, progress=reports.append), sweep(draw, GRID))
    assert reports[0].done == rows


LIMITED = """
import resource, signal, sys
from motorcost.sweeps import sweep

def draw(key, a):
    return {"x": a} | {f"column_{i}": 0.5 for i in range(20)}

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
sweep(draw, {"a": range(3)}, folder=sys.argv[1])
"""


def test_a_real_limit_on_files(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path / "results"], capture_output=True, text=True
    )
    last = ended.stderr.strip().splitlines()[-1]
    assert "InputError: cannot write into" in last
    assert "0 rows are kept" in last
    assert list((tmp_path / "results" / "parts").iterdir()) == []  # no half files


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"cannot (make|write)"):
        sweep(draw, GRID, folder="/proc/results")  # not even by root
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match="no permission"):
        sweep(draw, GRID, folder=tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_a_finished_sweep_is_read_from_where_nothing_can_be_written(tmp_path, monkeypatch):
    table = sweep(draw, GRID, folder=tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    same(sweep(draw, GRID, folder=tmp_path), table)


HOLDING = """
import sys
from filelock import FileLock
with FileLock(sys.argv[1], timeout=0):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_sweeps_into_one_folder_are_refused(tmp_path):
    with pytest.raises(StopError):
        sweep(draw, GRID, folder=tmp_path, progress=stop_at(2))
    before = contents(tmp_path)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDING, tmp_path / ".lock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(InputError, match="another sweep is writing into"):
            sweep(draw, GRID, folder=tmp_path)
        assert contents(tmp_path) == before
        holder.kill()
    # The lock was the operating system's: it ended with the process.
    same(sweep(draw, GRID, folder=tmp_path), sweep(draw, GRID))


def test_a_sweep_within_a_sweep_into_one_folder_is_refused(tmp_path):
    def again(progress):
        sweep(draw, GRID, folder=tmp_path)

    with pytest.raises(InputError, match="another sweep is writing into"):
        sweep(draw, GRID, folder=tmp_path, progress=again)
