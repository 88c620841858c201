"""Sweeps in this process: rows, keys, failures, and what is kept on disk."""

import errno
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from motorcost.errors import ConvergenceError, InputError
from motorcost.sweeps import Standing, sweep
from motorcost.sweeps import folder as on_disk
from motorcost.sweeps.fingerprint import fingerprint

GRID = {"effort": [1e-5, 1e-3], "trials": [10, 20, 30]}


def draw(key, effort, trials):
    noise = jax.random.normal(key)
    return {"estimate": effort + noise, "twice": 2 * trials, "large": trials > 10}


def draw_too(key, effort, trials):
    return draw(key, effort, trials)


def draw_many(keys, effort, trials):
    noise = jax.vmap(jax.random.normal)(keys)
    return {"estimate": effort + noise, "twice": 2 * trials, "large": trials > 10}


# What functions of these tests were called with. Not in a closure, whose changes would be noticed.
CALLS = []


def same(a, b):
    pd.testing.assert_frame_equal(a, b, check_exact=True)


def contents(folder):
    """Every file's bytes, but the lock's, which has none."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


class StopError(Exception):
    """Raised by a test's progress, in the place of an interruption."""


def stop_at(done):
    def progress(standing):
        if standing.done == done:
            raise StopError

    return progress


# Rows


def test_rows_are_in_order_with_the_right_types():
    table = sweep(draw, GRID, repetitions=2)
    assert list(table) == [
        *("effort", "trials", "repetition"),
        *("estimate", "twice", "large", "failed"),
    ]
    assert table["effort"].tolist() == [1e-5] * 6 + [1e-3] * 6
    assert table["trials"].tolist() == [10, 10, 20, 20, 30, 30] * 2
    assert table["repetition"].tolist() == [0, 1] * 6
    assert table["twice"].tolist() == [20, 20, 40, 40, 60, 60] * 2
    assert table["failed"].tolist() == [""] * 12
    assert table["estimate"].nunique() == 12  # each run has randomness of its own
    kinds = {name: table[name].dtype.kind for name in table}
    assert kinds["effort"] + kinds["trials"] + kinds["repetition"] == "fii"
    assert kinds["estimate"] + kinds["twice"] + kinds["large"] == "fib"


@pytest.mark.parametrize("call", ["vmap", "arrays"])
@pytest.mark.parametrize("together", [1, 4, 100])
def test_the_ways_to_call_agree(call, together):
    each = sweep(draw, GRID, repetitions=2)
    table = sweep(
        draw if call == "vmap" else draw_many, GRID, repetitions=2, call=call, together=together
    )
    pd.testing.assert_frame_equal(table[list(each)], each, rtol=1e-12)


def test_a_table_of_cells_is_what_a_grid_is():
    cells = [
        {"effort": effort, "trials": trials}
        for effort in GRID["effort"]
        for trials in GRID["trials"]
    ]
    same(sweep(draw, cells), sweep(draw, GRID))
    same(sweep(draw, pd.DataFrame(cells)), sweep(draw, GRID))
    as_arrays = {name: np.array(values) for name, values in GRID.items()}
    same(sweep(draw, as_arrays), sweep(draw, GRID))


@pytest.mark.parametrize("call", ["each", "vmap", "arrays"])
def test_a_row_does_not_depend_on_the_grid_around_it(call):
    function = draw_many if call == "arrays" else draw
    run = functools.partial(sweep, function, seed=3, call=call, repetitions=2)
    table = run(GRID)
    other = run({"trials": [40, 30], "effort": [0.5, 1e-3, 7]})
    (a,) = table.query("effort == 1e-3 and trials == 30 and repetition == 1").to_dict("records")
    (b,) = other.query("effort == 1e-3 and trials == 30 and repetition == 1").to_dict("records")
    assert a == b
    # ... but on the seed, the values and the repetition
    assert not np.isin(run(GRID, seed=4)["estimate"], table["estimate"]).any()


@pytest.mark.parametrize("call", ["each", "arrays"])
def test_repetitions_can_be_added_later(call):
    function = draw_many if call == "arrays" else draw
    run = functools.partial(sweep, function, GRID, call=call, together=3)
    parts = [run(repetitions=2), run(repetitions=range(2, 5))]
    order = [*GRID, "repetition"]
    joined = pd.concat(parts).sort_values(order, kind="stable", ignore_index=True)
    same(joined, run(repetitions=5).sort_values(order, kind="stable", ignore_index=True))


def test_whole_numbers_have_the_key_that_they_have_as_floats():
    def number(key, a):
        return {"x": jax.random.normal(key)}

    whole, floats = sweep(number, {"a": [1, 2]}), sweep(number, {"a": [1, 2.5]})
    assert whole["x"][0] == floats["x"][0]
    assert whole["x"][1] != floats["x"][1]


def test_columns_apart_and_strings_come_as_they_are():
    shapes = []

    def average(key, task, trials, effort):
        shapes.append((task, trials))  # when traced
        return {"mean": jax.random.normal(key, (trials,)).mean() * effort, "known": task == "a"}

    grid = {"effort": [1.0, 2.0, 3.0], "task": ["a", "b"], "trials": [5, 7]}
    table = sweep(average, grid, call="vmap", apart=["trials"], together=2)
    assert sorted(shapes) == [("a", 5), ("a", 7), ("b", 5), ("b", 7)]  # each compiled once
    assert table["task"].tolist() == ["a", "a", "b", "b"] * 3
    each = sweep(average, grid)
    np.testing.assert_allclose(table["mean"], each["mean"], rtol=1e-12)
    assert table["known"].tolist() == (table["task"] == "a").tolist()

    def check(keys, task, trials, effort):
        assert isinstance(trials, int)
        assert isinstance(task, str)
        assert isinstance(effort, np.ndarray)
        assert len(effort) == len(keys) == 2  # the last chunk of three cells is filled up
        return {"sum": effort + trials}

    table = sweep(check, grid, call="arrays", apart=["trials"], together=2)
    assert table["failed"].tolist() == [""] * 12
    assert table["sum"].tolist() == (table["effort"] + table["trials"]).tolist()


# Failures


def fussy(key, a):
    if a in (2, 5):
        raise ConvergenceError(f"the gains did not\nsettle at {a}")
    return {"x": 10 * a, "word": f"w{a}"}


def test_errors_are_rows():
    table = sweep(fussy, {"a": range(6)})
    reasons = {2: "ConvergenceError: the gains did not settle at 2"}
    reasons[5] = reasons[2].replace("2", "5")
    assert table["failed"].tolist() == [reasons.get(a, "") for a in range(6)]
    assert table["x"].dtype == float
    np.testing.assert_array_equal(table["x"], [0, 10, np.nan, 30, 40, np.nan])
    assert table["word"].isna().tolist() == [False, False, True] * 2


def test_long_reasons_are_cut():
    def long(key, a):
        raise ValueError("x" * 1000)

    (reason,) = sweep(long, {"a": [1]})["failed"]
    assert reason.startswith("ValueError: xxx")
    assert len(reason) == 500


def test_a_chunk_that_fails_is_taken_apart():
    def fussy_many(keys, a):
        assert len(a) == 4
        if (a == 2).any():
            raise ConvergenceError("no")
        return {"x": 10 * a, "failed": np.where(a == 1, "odd", "")}

    table = sweep(fussy_many, {"a": range(6)}, call="arrays", together=4)
    assert table["failed"].tolist() == ["", "odd", "ConvergenceError: no", "", "", ""]
    np.testing.assert_array_equal(table["x"], [0, 10, np.nan, 30, 40, 50])

    def fussy_traced(key, a):
        return {"x": eqx.error_if(10 * a, a == 2, "too much")}

    table = sweep(fussy_traced, {"a": range(6)}, call="vmap", together=4)
    assert [bool(reason) for reason in table["failed"]] == [a == 2 for a in range(6)]
    assert table["failed"][2] == "EquinoxRuntimeError: too much"
    np.testing.assert_array_equal(table["x"], [0, 10, np.nan, 30, 40, 50])


@pytest.mark.parametrize(
    "bug", [TypeError, NameError, AttributeError, ImportError, NotImplementedError, MemoryError]
)
@pytest.mark.parametrize("call", ["each", "arrays"])
def test_bugs_are_raised(bug, call):
    def broken(a, key=None, keys=None):
        if np.any(a == 1):
            raise bug("broken")
        return {"x": a}

    with pytest.raises(bug, match="broken") as caught:
        sweep(broken, {"a": range(3)}, call=call)
    assert ("a=1, repetition 0" if call == "each" else "a=0") in caught.value.__notes__[0]


def test_too_little_memory_is_raised():
    def large(key, a):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")

    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        sweep(large, {"a": [1]})


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (3.0, "must return a mapping .* got float .*a=1"),
        ({}, "mapping .* of nothing"),
        ({"x": np.zeros(2)}, "'x' must be a number .* shape \\(2,\\) .*a=1, repetition 0"),
        ({"x": None}, "'x' must be a number .* NoneType"),
        ({"x": 1j}, "'x' must be a number"),
        ({"repetition": 1}, "'repetition', which cannot name a column"),
        ({"a": 1}, "'a', which is a name that is swept"),
        ({"failed": "no"}, "raise an error"),
    ],
)
def test_what_is_no_row_is_refused(returned, words):
    with pytest.raises(InputError, match=words):
        sweep(lambda key, a: returned, {"a": [1]})


def test_arrays_of_another_length_are_refused():
    with pytest.raises(InputError, match=r"'x' must .* 4 cells, .* got \(3,\)"):
        sweep(lambda keys, a: {"x": a[:3]}, {"a": range(4)}, call="arrays", together=4)


@pytest.mark.parametrize("together", [1, 4])
def test_columns_that_change_are_refused(together):
    def changing(key, a):
        return {"x": 1} if a < 2 else {"y": 1}

    with pytest.raises(InputError, match=r"returned y for a=2.* but x for another cell"):
        sweep(changing, {"a": range(4)}, together=together)
    with pytest.raises(InputError, match="'x' must be strings or numbers, got both"):
        sweep(lambda key, a: {"x": "s" if a == 2 else a}, {"a": range(4)}, together=together)


def test_types_do_not_depend_on_the_order_of_rows():
    def mixed(key, a):
        return {"number": 0.5 if a == 1 else a, "whole": True if a == 1 else a}

    for order in ([0, 1, 2], [1, 2, 0]):
        for together in (1, 2):
            table = sweep(mixed, {"a": order}, together=together)
            assert (table["number"].dtype, table["whole"].dtype) == (float, int)


# Arguments


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"over": {}}, "a cell or more"),
        ({"over": {"a": []}}, "a cell or more"),
        ({"over": []}, "a cell or more"),
        ({"over": 3}, "a mapping from names"),
        ({"over": {"a": 3}}, r"over\['a'\] must be a list"),
        ({"over": {"a": "abc"}}, r"over\['a'\] must be a list"),
        ({"over": {"a": [1, "b"]}}, "one type, got int and str"),
        ({"over": {"a": [1, True]}}, "one type, got bool and int"),
        ({"over": {"a": [1.0, float("nan")]}}, "missing values"),
        ({"over": {"a": [None]}}, "must be numbers"),
        ({"over": {"a": [2**70]}}, "64 bits"),
        ({"over": {"a": [1, 1.0]}}, "twice .* repetitions"),
        ({"over": {"key": [1]}}, "uses that name"),
        ({"over": {"failed": [1]}}, "uses that name"),
        ({"over": {"repetition": [1]}}, "uses that name"),
        ({"over": {3: [1]}}, "names that are strings"),
        ({"over": [{"a": 1}, {"b": 1}]}, r"a in the first and b in over\[1\]"),
        ({"repetitions": 0}, "repetitions .* at least 1"),
        ({"repetitions": range(3, 3)}, r"as range\(10, 30\), got range\(3, 3\)"),
        ({"repetitions": range(-1, 3)}, r"got range\(-1, 3\)"),
        ({"repetitions": range(0, 9, 2)}, r"got range\(0, 9, 2\)"),
        ({"repetitions": [0, 1]}, "repetitions .* whole number"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**32}, "seed"),
        ({"call": "all"}, "unknown call"),
        ({"together": 0}, "together .* at least 1"),
        ({"apart": ["b"]}, "unknown name in apart"),
        ({"apart": "a"}, "list of names"),
        ({"workers": 0}, "workers .* at least 1"),
        ({"workers": 1, "scheduler": "tcp://127.0.0.1:1"}, "not both"),
        ({"function": 3}, "must be a function"),
        ({"function": lambda key, b: {"x": b}}, r"\(key=..., a=...\), but takes \(key, b\)"),
        ({"function": lambda a: {"x": a}}, "unexpected keyword argument 'key'"),
        ({"function": lambda keys, a: {"x": a}}, r'what takes keys with call="arrays"'),
        ({"call": "arrays"}, r'what takes key with call="each" or "vmap"'),
        ({"over": {"a": {1, 2}}}, r"over\['a'\] must be a list"),
        ({"progress": True}, "progress must be a function"),
        ({"folder": "/nowhere/at/all"}, "does not exist"),
    ],
)
def test_bad_arguments_are_refused(change, words, as_users_call_it):
    given = {"function": lambda key, a: {"x": a}, "over": {"a": [1]}} | change
    with pytest.raises(InputError, match=words) as caught:
        sweep(**given)
    assert "\n" not in str(caught.value)


# Progress


def test_progress_says_how_far_it_is(capsys):
    seen = []
    sweep(fussy, {"a": range(6)}, progress=seen.append)
    assert [(each.done, each.failed, each.total) for each in seen] == [
        *((0, 0, 6), (1, 0, 6), (2, 0, 6), (3, 1, 6), (4, 1, 6), (5, 1, 6), (6, 2, 6))
    ]
    assert seen[0].seconds_left is None
    assert all(each.seconds_left >= 0 for each in seen[1:])
    assert {(each.workers, each.dashboard) for each in seen} == {(0, None)}
    assert str(Standing(120, 2, 750, 180.0, 2, "http://here")) == (
        "120 of 750 done, 2 failed, 630 left, about 3 min; 2 workers, http://here"
    )
    assert str(Standing(5, 0, 5, 0.0)) == "5 of 5 done, 0 failed"


def test_the_time_left_does_not_count_the_start_again(monkeypatch):
    clock, seen = [0.0], []
    monkeypatch.setattr("motorcost.sweeps.run.time.monotonic", lambda: clock[0])

    def slow_at_first(key, a):
        clock[0] += 100.0 if a == 0 else 1.0
        return {"x": a}

    sweep(slow_at_first, {"a": range(6)}, progress=seen.append)
    assert [each.seconds_left for each in seen] == [None, 500.0, 4.0, 3.0, 2.0, 1.0, 0.0]


# Folders


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
    seen = []
    # Nothing listens there: a finished sweep asks for nobody.
    again = sweep(
        *(counted, {"a": range(3)}),
        folder=str(folder),
        scheduler="tcp://127.0.0.1:1",
        progress=seen.append,
    )
    assert CALLS == [0, 1, 2]
    same(first, again)
    same(first, sweep(counted, {"a": range(3)}))
    same(first, pd.read_parquet(folder / "table.parquet"))
    assert [(each.done, each.failed) for each in seen] == [(3, 1)]
    assert contents(folder) == before


@pytest.mark.parametrize("call", ["each", "vmap", "arrays"])
def test_an_interrupted_sweep_goes_on(call, tmp_path):
    function = draw_many if call == "arrays" else draw
    run = functools.partial(sweep, function, GRID, repetitions=3, call=call, together=4)
    folder = tmp_path / "results"
    with pytest.raises(StopError):
        run(folder=folder, progress=stop_at(8))
    assert sorted(contents(folder)) == ["parts/00000.parquet", "parts/00001.parquet", "sweep.json"]
    part = pd.read_parquet(folder / "parts" / "00001.parquet")
    same(part, run()[4:8].reset_index(drop=True))
    # What a killed process leaves behind goes away.
    for name in ("parts/.00002-abc.parquet", ".table-abc.parquet", ".sweep-abc.json"):
        (folder / name).write_bytes(b"half")
    seen = []
    table = run(folder=folder, progress=seen.append)
    assert [each.done for each in seen] == [8, 12, 16, 18]
    same(table, run())
    assert sorted(contents(folder)) == ["sweep.json", "table.parquet"]


@pytest.mark.parametrize("together", [1, 4])
def test_an_interrupt_that_the_function_swallows(together, tmp_path):
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

    run = functools.partial(sweep, swallowing, {"a": range(8)}, folder=tmp_path, together=together)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert signal.getsignal(signal.SIGINT) is before
    assert CALLS == [0, 1, 2, 3, 4, 5]
    assert run()["x"].tolist() == list(range(8))
    assert CALLS[6:] == ([5, 6, 7] if together == 1 else [4, 5, 6, 7])


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
        sweep, swallowing, {"a": range(6)}, folder=tmp_path, call="arrays", together=2
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

    def never(standing):
        assert standing.done == standing.total

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

    run = functools.partial(sweep, moody, {"a": range(6)}, folder=folder, together=2)
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
        ({"together": 2}, "together 1 there, 2 here"),
        ({"call": "vmap"}, "call each there, vmap here; together 1 there, 32 here"),
        ({"over": {"effort": [1e-5], "trials": [10]}}, "it has other cells"),
        ({"function": draw_too}, "draw there, test_sweeps.draw_too here"),
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
    given = {"function": draw, "over": GRID} | change
    if "a" in given["over"]:
        given["function"] = lambda key, a: {"x": a}
    table = sweep(**given, folder=folder)
    same(sweep(**given, folder=folder), table)
    same(table, sweep(**given))


def test_names_that_the_sweep_uses_itself_can_be_swept():
    table = sweep(
        lambda key, function, what, seed: {"x": f"{function}{what}{seed}"},
        {"function": ["a", "b"], "what": [1], "seed": [2]},
    )
    assert table["x"].tolist() == ["a12", "b12"]


def test_a_decorator_may_take_other_arguments():
    def inner(model, key, a):
        return {"x": model + a}

    @functools.wraps(inner)
    def outer(**given):
        return inner(10, **given)

    assert sweep(outer, {"a": [1]})["x"].tolist() == [11]
    with pytest.raises(InputError, match="takes"):
        sweep(inner, {"a": [1]})


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
        ({"format": 2}, "format 2, and this motorcost knows format 1"),
        ({"fingerprint": "0"}, "the function has changed"),
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
    seen = []
    same(sweep(draw, GRID, folder=tmp_path, progress=seen.append), sweep(draw, GRID))
    assert seen[0].done == rows


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
    def again(standing):
        sweep(draw, GRID, folder=tmp_path)

    with pytest.raises(InputError, match="another sweep is writing into"):
        sweep(draw, GRID, folder=tmp_path, progress=again)


# Fingerprints


@dataclass(frozen=True)
class Study:
    level: float
    inner: object = None

    def __call__(self, key, a):
        return {"x": self.level * a}


class Module(eqx.Module):
    weights: jax.Array
    label: str = eqx.field(static=True)

    def __call__(self, key, a):
        return {"x": a}


class Plain:
    def __init__(self, level):
        self.level = level

    def __call__(self, key, a):
        return {"x": self.level * a}


def closing(level):
    return lambda key, a: {"x": level * a}


def with_default(level):
    def function(key, a, level=level):
        return {"x": level * a}

    return function


MAKERS = {
    "closure": closing,
    "default": with_default,
    "partial": lambda level: functools.partial(draw, effort=level),
    "dataclass": Study,
    "nested": lambda level: Study(1.0, inner=closing(level)),
    "module": lambda level: Module(jnp.array([level]), "a"),
    "plain": Plain,
    "mapping": lambda level: functools.partial(draw, effort={"b": 1, "a": [level]}),
    "table": lambda level: closing(pd.DataFrame({"a": [*range(100), level]})),
    "jitted": lambda level: jax.jit(closing(level)),
}


@pytest.mark.parametrize("name", MAKERS)
def test_fingerprints_tell_functions_apart(name):
    make = MAKERS[name]
    assert fingerprint(make(1.0)) == fingerprint(make(1.0))
    assert fingerprint(make(1.0)) != fingerprint(make(2.0))


def test_fingerprints_see_the_code_and_what_it_uses():
    def named(text):
        names = {"__name__": "script"}
        exec(text, names)
        return fingerprint(names["f"])

    text = "N = 3\ndef g(a): return a * N\ndef f(key, a): return {'x': g(a)}"
    assert named(text) == named(text)
    assert named(text) != named(text.replace("N = 3", "N = 4"))
    assert named(text) != named(text.replace("a * N", "a + N"))
    assert named(text) != named(text.replace("'x'", "'y'"))


def test_fingerprints_are_the_same_in_another_process():
    code = (
        "import test_sweeps as t; from motorcost.sweeps.fingerprint import fingerprint;"
        "print([fingerprint(make(1.0)) for make in t.MAKERS.values()])"
    )
    here = str([fingerprint(make(1.0)) for make in MAKERS.values()])
    environment = os.environ | {"PYTHONHASHSEED": "7", "JAX_ENABLE_X64": "1"}
    there = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == here


def test_importing_is_quick():
    code = (
        "import sys, motorcost.sweeps; print({'pandas','distributed','pyarrow'} & {*sys.modules})"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "set()"
