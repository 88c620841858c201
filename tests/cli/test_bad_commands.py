"""Commands that cannot be carried out: one line, exit code 2, and nothing is written."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import motorcost as mc
from made import made_analysis, made_fit, recorded
from motorcost import cli
from motorcost.io.locks import held
from motorcost.report import read_result, result_of
from motorcost.study.document import read_document

HUGE = "9" * 20
FIT = ("--task", "reaching", "--free", "effort", "--noise", "1e-3", "--quick")
STUDY = """\
[data]
file = "trials.csv"
[model]
task = "reaching"
[free]
effort = "usual"
"""
TASKS = """\
import motorcost as mc
def number(effort=1.0):
    return 3
def nothing(effort=1.0):
    pass
def several(effort=1.0):
    return mc.tasks.reaching(), mc.tasks.reaching()
def raising(effort=1.0):
    raise KeyError("effort")
not_a_function = 3
"""


def run(monkeypatch, *arguments):
    """The console script, in this process; returns its exit code."""
    monkeypatch.setattr(sys, "argv", ["motorcost", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with recordings, in which commands run. A command that searches has gone too far."""
    times = np.arange(8) * 0.03
    rows = [(trial, t, 0.1 * t * trial, 0.1) for trial in range(1, 15) for t in times]
    table = pd.DataFrame(rows, columns=["trial", "time", "position", "target"])
    table.to_csv(tmp_path / "trials.csv", index=False)
    table.groupby("trial").head(1).to_csv(tmp_path / "one.csv", index=False)
    np.savez(tmp_path / "stacked.npz", samples=np.ones((3, 8, 1)), dt=0.03)
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "mine.py").write_text(TASKS)
    monkeypatch.setattr("motorcost.study.analysis.fit", lambda *_, **__: pytest.fail("searched"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder):
    """All files but locks, which stay, and what Python compiled."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in files if path.suffix != ".pyc" and path.name != ".lock")


def refused(monkeypatch, capsys, folder, *arguments):
    """The one line that a command says."""
    before = files(folder)
    assert run(monkeypatch, *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("motorcost: ")
    assert err.count("\n") == 1
    assert files(folder) == before
    return err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("simulate", "reaching", "--trials", HUGE), f"at most 2147483647, got {HUGE}"),
        (("simulate", "reaching", "--set", f"steps={HUGE}"), f"at most 2147483647, got {HUGE}"),
        (("demo", "--trials", HUGE), f"at most 2147483647, got {HUGE}"),
        (("precision", "reaching", "--trials", HUGE), f"at most 2147483647, got {HUGE}"),
        (
            ("simulate", "reaching", "--seed", "-1"),
            "'--seed': Input should be greater than or equal to 0",
        ),
        (("demo", "--seed", "-1"), "'--seed': Input should be greater than or equal to 0"),
        (
            ("precision", "reaching", "--seed", "-1"),
            "'--seed': Input should be greater than or equal to 0",
        ),
        (
            ("reproduce", "fig2a", "--seed", "-1"),
            "'--seed': Input should be greater than or equal to 0",
        ),
        (
            ("fit", "study.toml", "--seed", "-1"),
            "'--seed': Input should be greater than or equal to 0",
        ),
        (("demo", "-o", ""), "'-o' / '--output': needs the name of a folder, got nothing"),
        (("reproduce", "fig2a", "-o", ""), "needs the name of a folder, got nothing"),
        (("fit", "study.toml", "-o", ""), "needs the name of a folder, got nothing"),
        (("simulate", "reaching", "-o", ""), "it is a folder"),
        (
            ("fit", "study.toml", "-q", "--trials", HUGE),
            f"--trials: trials {HUGE}: there are only 14 trials",
        ),
        (("fit", "study.toml", "--trials", "9" * 5000), "trials must be FIRST:LAST"),
        (
            ("look", "study.toml", "--trials", HUGE),
            f"--trials: trials {HUGE}: there are only 14 trials",
        ),
        (("simulate", "mine.py:number"), "the task mine.py:number must make a Problem, got int"),
        (("simulate", "mine.py:several"), "must make a Problem, got tuple"),
        (("simulate", "mine.py:not_a_function"), "mine.py has no function not_a_function"),
        (
            ("fit", "one.csv", "-q", *FIT),
            "needs trials of two samples or more, got one sample in each",
        ),
        (("look", "one.csv", "--task", "reaching"), "needs trials of two samples or more"),
    ],
)
def test_one_line(monkeypatch, capsys, folder, arguments, message):
    assert message in refused(monkeypatch, capsys, folder, *arguments)


@pytest.mark.parametrize(("name", "kind"), [("number", "int"), ("nothing", "NoneType"),
                                            ("several", "tuple")])  # fmt: skip
@pytest.mark.parametrize("command", ["fit", "look"])
def test_a_task_that_makes_something_else(monkeypatch, capsys, folder, command, name, kind):
    task = ("--task", f"mine.py:{name}")
    task += ("--free", "effort=1:2", "-q") if command == "fit" else ()
    said = refused(monkeypatch, capsys, folder, command, "trials.csv", *task)
    assert f"the task mine.py:{name} must make a Problem, got {kind}" in said


def test_a_task_that_does_not_run(monkeypatch, capsys, folder):
    task = ("--task", "mine.py:raising", "--free", "effort=1:2", "-q")
    said = refused(monkeypatch, capsys, folder, "fit", "trials.csv", *task)
    assert "the task mine.py:raising does not run with defaults" in said
    assert "KeyError: 'effort'" in said


@pytest.mark.parametrize("which", [f"1:{HUGE}", f"1:9:{HUGE}", f":{HUGE}:{HUGE}"])
def test_a_range_may_end_beyond_the_last_trial(which):
    movements = mc.Study("trials.csv", "reaching", ["effort"]).movements()
    from motorcost.study.selection import keep_range

    assert len(keep_range(movements, which)) == (14 if which == f"1:{HUGE}" else 1)


@pytest.mark.parametrize("file", ["trials.csv", "stacked.npz"])
@pytest.mark.parametrize(
    ("trial", "message"),
    [
        ("[]", "[data] trial: must be text in quotes, as \"effort\" or a list of 1, got []"),
        ("[[\"trial\"]]", "[data] trial.0: must be text in quotes"),
        ("[1, 2]", "[data] trial.0: must be text in quotes"),
        ("[\"trial\", \"nowhere\"]", "unknown column 'nowhere'"),
    ],
)  # fmt: skip
def test_a_study_whose_trial_is_a_list(monkeypatch, capsys, folder, file, trial, message):
    text = STUDY.replace('"trials.csv"', f'"{file}"\ntrial = {trial}')
    (folder / "list.toml").write_text(text)
    assert message in refused(monkeypatch, capsys, folder, "fit", "list.toml", "-q")


def test_columns_of_trials_are_names():
    for trial in ([], [["trial"]], [1]):
        with pytest.raises(mc.InputError, match="trial must be the name of a column, or a list"):
            mc.io.read("stacked.npz", trial=trial)
    assert len(mc.io.read("trials.csv", trial=["trial"])) == 14


def test_bobyqa_that_is_not_installed_is_said_before_anything_is_read(monkeypatch, capsys, folder):
    monkeypatch.setitem(sys.modules, "pybobyqa", None)
    monkeypatch.setattr(mc.Study, "prepared", lambda _: pytest.fail("read"))
    said = refused(monkeypatch, capsys, folder, "fit", "trials.csv", *FIT, "--method", "bobyqa")
    assert "pip install 'motorcost[bobyqa]'" in said
    (folder / "b.toml").write_text(STUDY + '[fit]\nmethod = "bobyqa"\n')
    said = refused(monkeypatch, capsys, folder, "fit", "b.toml")
    assert "b.toml, line 8: [fit] method: method='bobyqa' needs Py-BOBYQA" in said


@pytest.mark.parametrize("part", ["a", '"a b"', '""', r'"\""', r'"\\"', "'a'", "'\"'", "é"])
@pytest.mark.parametrize("key", ["{} = 1", "[{}]", "[[{}]]", "x = {{ {} = 1 }}", "a = 1\n{} = 1"])
def test_a_key_of_many_parts_is_refused_quickly(tmp_path, part, key):
    file = tmp_path / "long.toml"
    for between in (".", " . "):
        file.write_text(key.format(between.join([part] * 30_000)))
        began = time.monotonic()
        with pytest.raises(mc.InputError, match=r"long\.toml.*is not valid TOML"):
            read_document(file)
        assert time.monotonic() - began < 1.0


@pytest.mark.parametrize(
    "command", [("compare", "fit", "other"), ("fit", "study.toml", "-o", "fit")]
)
def test_a_damaged_result_is_said(monkeypatch, capsys, folder, command):
    for name in ("fit", "other"):
        (folder / name).mkdir()
        result = result_of(made_analysis(made_fit(["effort"], recorded())))
        (folder / name / "fit.json").write_text(json.dumps(result))
    assert read_result(folder / "fit") == result
    for part in ("estimates", "starts", "data", "converged", "settings"):
        damaged = {key: value for key, value in result.items() if key != part}
        (folder / "fit" / "fit.json").write_text(json.dumps(damaged))
        said = refused(monkeypatch, capsys, folder, *command)
        assert f"is not a fit.json that this version can read: {part}: field required" in said
    (folder / "fit" / "fit.json").write_text(json.dumps(result)[:-900])
    assert "it is not JSON" in refused(monkeypatch, capsys, folder, *command)


def test_a_second_fit_is_told_who_is_at_work(monkeypatch, capsys, folder):
    (folder / "fit").mkdir()
    with held(folder / "fit", "fit"):
        said = refused(monkeypatch, capsys, folder, "fit", "study.toml", "-q", "-o", "fit")
        assert f"another fit is writing into fit (process {os.getpid()} on " in said


def test_a_full_disk_names_the_file(monkeypatch, capsys, folder):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    monkeypatch.setattr(importlib.import_module("motorcost.cli.app"), "set_up_jax", lambda: None)
    command = ("simulate", "reaching", "--trials", "2", "-o", "/dev/full")
    assert run(monkeypatch, *command) == 2
    assert capsys.readouterr().err == "motorcost: /dev/full: No space left on device\n"


@pytest.mark.parametrize("ignored", [False, True])
def test_sigterm_is_ctrl_c(folder, ignored):
    """Also where Ctrl-C is ignored, as in the background jobs of a shell."""
    handler = "signal.SIG_IGN" if ignored else "signal.default_int_handler"
    code = f"""
import signal, time, motorcost.study.analysis as analysis
signal.signal(signal.SIGINT, {handler})
def analyse(*_, **__):
    print("ready", flush=True)
    time.sleep(60)
analysis.analyse = analyse
from motorcost import cli
cli.main()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, "fit", "study.toml", "-q", "-o", "fit"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        assert (folder / "fit" / ".lock.json").exists()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "motorcost: interrupted\n"
    assert not (folder / "fit").exists()
