"""Sweeps in this process: rows, keys, failures, arguments and progress."""

import functools
import subprocess
import sys

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import pytest
from sweeping import GRID, draw, draw_many, same

from motorcost.errors import ConvergenceError, InputError
from motorcost.sweeps import SweepProgress, sweep

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
@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_the_ways_to_call_agree(call, batch_size):
    one_by_one = sweep(draw, GRID, repetitions=2)
    table = sweep(
        draw if call == "vmap" else draw_many, GRID, repetitions=2, call=call, batch_size=batch_size
    )
    pd.testing.assert_frame_equal(table[list(one_by_one)], one_by_one, rtol=1e-12)


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
    run = functools.partial(sweep, function, GRID, call=call, batch_size=3)
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


def test_static_columns_and_strings_come_as_they_are():
    shapes = []

    def average(key, task, trials, effort):
        shapes.append((task, trials))  # when traced
        return {"mean": jax.random.normal(key, (trials,)).mean() * effort, "known": task == "a"}

    grid = {"effort": [1.0, 2.0, 3.0], "task": ["a", "b"], "trials": [5, 7]}
    table = sweep(average, grid, call="vmap", static=["trials"], batch_size=2)
    assert sorted(shapes) == [("a", 5), ("a", 7), ("b", 5), ("b", 7)]  # each compiled once
    assert table["task"].tolist() == ["a", "a", "b", "b"] * 3
    one_by_one = sweep(average, grid)
    np.testing.assert_allclose(table["mean"], one_by_one["mean"], rtol=1e-12)
    assert table["known"].tolist() == (table["task"] == "a").tolist()

    def check(keys, task, trials, effort):
        assert isinstance(trials, int)
        assert isinstance(task, str)
        assert isinstance(effort, np.ndarray)
        assert len(effort) == len(keys) == 2  # the last batch of three cells is filled up
        return {"sum": effort + trials}

    table = sweep(check, grid, call="arrays", static=["trials"], batch_size=2)
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


def test_a_batch_that_fails_is_run_row_by_row():
    def fussy_many(keys, a):
        assert len(a) == 4
        if (a == 2).any():
            raise ConvergenceError("no")
        return {"x": 10 * a, "failed": np.where(a == 1, "odd", "")}

    table = sweep(fussy_many, {"a": range(6)}, call="arrays", batch_size=4)
    assert table["failed"].tolist() == ["", "odd", "ConvergenceError: no", "", "", ""]
    np.testing.assert_array_equal(table["x"], [0, 10, np.nan, 30, 40, 50])

    def fussy_traced(key, a):
        return {"x": eqx.error_if(10 * a, a == 2, "too much")}

    table = sweep(fussy_traced, {"a": range(6)}, call="vmap", batch_size=4)
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
        ({}, "mapping .* without any name"),
        ({"x": np.zeros(2)}, "'x' must be one number .* shape \\(2,\\) .*a=1, repetition 0"),
        ({"x": None}, "'x' must be one number .* NoneType"),
        ({"x": 1j}, "'x' must be one number"),
        ({"repetition": 1}, "'repetition', which cannot name a column"),
        ({"a": 1}, "must not return 'a', which is swept"),
        ({"failed": "no"}, "must not return 'failed'.* raise an error"),
    ],
)
def test_what_is_no_row_is_refused(returned, words):
    with pytest.raises(InputError, match=words):
        sweep(lambda key, a: returned, {"a": [1]})


def test_arrays_of_another_length_are_refused():
    with pytest.raises(InputError, match=r"'x' must .* 4 cells, .* got \(3,\)"):
        sweep(lambda keys, a: {"x": a[:3]}, {"a": range(4)}, call="arrays", batch_size=4)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_columns_that_change_are_refused(batch_size):
    def changing(key, a):
        return {"x": 1} if a < 2 else {"y": 1}

    with pytest.raises(InputError, match=r"returned y for a=2.* but x for another cell"):
        sweep(changing, {"a": range(4)}, batch_size=batch_size)
    with pytest.raises(InputError, match="'x' must be strings or numbers, got both"):
        sweep(lambda key, a: {"x": "s" if a == 2 else a}, {"a": range(4)}, batch_size=batch_size)


def test_types_do_not_depend_on_the_order_of_rows():
    def mixed(key, a):
        return {"number": 0.5 if a == 1 else a, "whole": True if a == 1 else a}

    for order in ([0, 1, 2], [1, 2, 0]):
        for batch_size in (1, 2):
            table = sweep(mixed, {"a": order}, batch_size=batch_size)
            assert (table["number"].dtype, table["whole"].dtype) == (float, int)


# Arguments


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"over": {}}, "at least one cell"),
        ({"over": {"a": []}}, "at least one cell"),
        ({"over": []}, "at least one cell"),
        ({"over": 3}, "a mapping from names"),
        ({"over": {"a": 3}}, r"over\['a'\] must be a list"),
        ({"over": {"a": "abc"}}, r"over\['a'\] must be a list"),
        ({"over": {"a": [1, "b"]}}, "must have one type, got int and str"),
        ({"over": {"a": [1, True]}}, "one type, got bool and int"),
        ({"over": {"a": [1.0, float("nan")]}}, "missing values"),
        ({"over": {"a": [None]}}, "must be numbers, booleans or strings"),
        ({"over": {"a": [2**70]}}, "must fit 64 bits"),
        ({"over": {"a": [1, 1.0]}}, "twice .* repetitions"),
        ({"over": {"key": [1]}}, "which the sweep itself uses"),
        ({"over": {"failed": [1]}}, "which the sweep itself uses"),
        ({"over": {"repetition": [1]}}, "which the sweep itself uses"),
        ({"over": {3: [1]}}, "names in over must be strings"),
        ({"over": [{"a": 1}, {"b": 1}]}, r"a in the first and b in over\[1\]"),
        ({"repetitions": 0}, "repetitions .* at least 1"),
        ({"repetitions": range(3, 3)}, r"as range\(10, 30\), got range\(3, 3\)"),
        ({"repetitions": range(-1, 3)}, r"got range\(-1, 3\)"),
        ({"repetitions": range(0, 9, 2)}, r"got range\(0, 9, 2\)"),
        ({"repetitions": [0, 1]}, "repetitions .* whole number"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**32}, "seed"),
        ({"call": "all"}, "unknown call"),
        ({"batch_size": 0}, "batch_size .* at least 1"),
        ({"static": ["b"]}, "unknown name in static"),
        ({"static": "a"}, "list of names"),
        ({"workers": 0}, "workers .* at least 1"),
        ({"workers": 1, "scheduler": "tcp://127.0.0.1:1"}, "not both"),
        ({"function": 3}, "must be a function"),
        ({"function": lambda key, b: {"x": b}}, r"\(key=..., a=...\), but takes \(key, b\)"),
        ({"function": lambda a: {"x": a}}, "unexpected keyword argument 'key'"),
        ({"function": lambda keys, a: {"x": a}}, r'function of keys is swept with call="arrays"'),
        ({"call": "arrays"}, r'function of key is swept with call="each" or "vmap"'),
        ({"over": {"a": {1, 2}}}, r"over\['a'\] must be a list"),
        ({"progress": True}, "progress must be a function"),
        ({"folder": "/nowhere/at/all"}, "does not exist"),
    ],
)
def test_bad_arguments_are_refused(change, words, as_users_call_it):
    arguments = {"function": lambda key, a: {"x": a}, "over": {"a": [1]}} | change
    with pytest.raises(InputError, match=words) as caught:
        sweep(**arguments)
    assert "\n" not in str(caught.value)


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
    def outer(**arguments):
        return inner(10, **arguments)

    assert sweep(outer, {"a": [1]})["x"].tolist() == [11]
    with pytest.raises(InputError, match="takes"):
        sweep(inner, {"a": [1]})


# Progress


def test_progress_says_how_far_it_is(capsys):
    reports = []
    sweep(fussy, {"a": range(6)}, progress=reports.append)
    assert [(report.done, report.failed, report.total) for report in reports] == [
        *((0, 0, 6), (1, 0, 6), (2, 0, 6), (3, 1, 6), (4, 1, 6), (5, 1, 6), (6, 2, 6))
    ]
    assert reports[0].seconds_left is None
    assert all(report.seconds_left >= 0 for report in reports[1:])
    assert {(report.workers, report.dashboard) for report in reports} == {(0, None)}
    assert str(SweepProgress(120, 2, 750, 180.0, 2, "http://here")) == (
        "120 of 750 done, 2 failed, 630 left, about 3 min; 2 workers, http://here"
    )
    assert str(SweepProgress(5, 0, 5, 0.0)) == "5 of 5 done, 0 failed"


def test_the_time_left_does_not_count_the_start_again(monkeypatch):
    clock, reports = [0.0], []
    monkeypatch.setattr("motorcost.sweeps.progress.time.monotonic", lambda: clock[0])

    def slow_at_first(key, a):
        clock[0] += 100.0 if a == 0 else 1.0
        return {"x": a}

    sweep(slow_at_first, {"a": range(6)}, progress=reports.append)
    assert [report.seconds_left for report in reports] == [None, 500.0, 4.0, 3.0, 2.0, 1.0, 0.0]


def test_importing_is_quick():
    code = (
        "import sys, motorcost.sweeps; print({'pandas','distributed','pyarrow'} & {*sys.modules})"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "set()"


def test_without_dask_an_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    monkeypatch.delitem(sys.modules, "motorcost.sweeps.cluster", raising=False)
    monkeypatch.delattr("motorcost.sweeps.cluster", raising=False)
    with pytest.raises(InputError, match=r"need cloudpickle: pip install 'motorcost\[dask\]'"):
        sweep(draw, GRID, workers=1)
