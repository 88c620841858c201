import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import jax
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from made import made_analysis, made_fit, recorded
from motorcost import cli
from motorcost.cli import fit as command_module
from motorcost.fitting.leads import LeadFit, choice_in_words
from motorcost.study.settings import Study
from motorcost.study.task_lookup import find_task

DESIGN = ("design", "--task", "reaching", "--candidates", "target=0.1")


def run(monkeypatch, *arguments):
    """The console script, in this process; returns its exit code."""
    monkeypatch.setattr(sys, "argv", ["motorcost", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code


def test_simulate_writes_what_the_library_simulates(monkeypatch, tmp_path, capsys):
    table, picture = tmp_path / "trials.csv", tmp_path / "trials.png"
    code = run(
        monkeypatch, "simulate", "reaching", "--set", "effort=1e-4", "--set", "steps=8",
        "--trials", 14, "--seed", 3, "-o", table, "--plot", picture,
    )  # fmt: skip
    assert code == 0
    assert sorted(os.listdir(tmp_path)) == ["trials.csv", "trials.png"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    problem = mc.tasks.reaching(effort=1e-4, steps=8)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=14, key=jax.random.key(3))
    frame = pd.read_csv(table)
    assert_allclose(frame.force, np.ravel(trials.states[:, :, 2]), rtol=1e-14)
    assert "expected cost" in capsys.readouterr().err


def test_simulate_to_standard_output_with_an_observer_and_conditions(monkeypatch, capsys):
    code = run(
        monkeypatch, "simulate", "saccade", "--trials", 2, "--observe", "angle, velocity",
        "--noise", 0.5, "--delay", 2,
    )  # fmt: skip
    assert code == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "trial,time,angle,velocity,start,target,hold_start,hold_target"
    assert len(lines) == 1 + 2 * 40


def test_random_problems_are_chosen_by_seed(monkeypatch, capsys):
    tables = []
    for seed in (1, 1, 2):
        arguments = ("--trials", 1, "--set", "steps=5", "--problem-seed", seed)
        assert run(monkeypatch, "simulate", "random_problem", *arguments) == 0
        tables.append(capsys.readouterr().out)
    assert tables[0] == tables[1] != tables[2]


def test_parameters_are_listed(monkeypatch, capsys):
    assert run(monkeypatch, "simulate", "tracking", "--parameters") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in mc.tasks.parameters(mc.tasks.tracking))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "reeching"], "unknown task 'reeching': did you mean reaching"),
        (
            ["simulate", "reaching", "--set", "efort=1"],
            "--set: unknown parameter 'efort': did you mean",
        ),
        (["simulate", "reaching", "--set", "effort"], "--set needs NAME=VALUE, got 'effort'"),
        (["simulate", "reaching", "--set", "effort=big"], "effort must be a number, got 'big'"),
        (["simulate", "reaching", "--set", "effort=nan"], "effort must be finite, got nan"),
        (["simulate", "reaching", "--set", "steps=2.5"], "steps must be a whole number"),
        (["simulate", "reaching", "--set", "motor_noise=-1"], "motor_noise must not be negative"),
        (["simulate", "reaching", "--trials", "0"], "must be at least 1, got 0"),
        (["simulate", "reaching", "--trials", "many"], "--trials"),
        (["simulate", "reaching", "--observe", "hand"], "unknown state 'hand'"),
        (["simulate", "reaching", "--noise", "-1"], "noise must not be negative"),
        (["simulate", "reaching", "--delay", "-1"], "must be at least 0, got -1"),
        (["simulate", "reaching", "--delay", "2,3"], "is one number, or by sense, got 2,3"),
        (["simulate", "reaching", "--delay", "felt=2,felt=3"], "senses of --delay must differ"),
        (["simulate", "pursuit", "--delay", "seen=3"], "one delay for all its senses: --delay 3"),
        (["simulate", "reaching", "-o", "nowhere/t.csv"], "the folder nowhere does not exist"),
        (["simulate", "reaching", "-o", "."], "it is a folder"),
        (["simulate", "reaching", "-o", "t.png", "--plot", "t.png"], "cannot both be t.png"),
        (["simulate", "reaching", "--seed", str(2**64)], "too large"),
        (["simulate", "reaching", "--plot", "t.txt"], "must end in .png, .svg or .pdf"),
        (["simulate", "reaching", "--trails", "5"], "No such option: --trails"),
        (["simulate", "reaching", "--device", "tpu"], "'tpu' is not one of 'cpu', 'gpu'"),
        (["simulate"], "Missing argument"),
        (["demo", "-o", "nowhere/demo"], "the folder nowhere does not exist"),
        (["demo", "--trials", "19"], "trials must be at least 20, got 19"),
        (["fit"], "Missing argument"),
        (["fit", "t.csv"], "--task is missing: which of reaching, planar_reaching"),
        (["fit", "t.csv", "--task", "reaching"], "--free is missing: name what to infer"),
        (["fit", "t.toml"], "t.toml: there is no such file"),
        (["compare", "a", "b"], "a: needs a folder with fit.json"),
        (["compare", "a", "a"], "fits must differ from each other, got 'a' twice"),
        (["init", "no/study.toml"], "the folder no does not exist"),
        (["init", "--task", "reeching"], "unknown task 'reeching': did you mean reaching"),
        (["precision", "reaching", "--free", "efort"], "unknown parameter 'efort': did you mean"),
        (["precision", "reaching", "--trials", "ten"], "--trials must be whole numbers, got 'ten'"),
        (["precision", "reaching", "--trials", "0"], "must be at least 1, got 0"),
        (["precision", "reaching", "--observe", "hand"], "unknown state 'hand'"),
        (["precision", "reaching", "--noise", "-1"], "noise must not be negative"),
        (["design"], "--task is missing: which of reaching, planar_reaching"),
        (["design", "--task", "reeching"], "unknown task 'reeching': did you mean reaching"),
        ([*DESIGN, "--free", "efort"], "unknown parameter 'efort': did you mean"),
        ([*DESIGN, "--free", "effort", "--trials", "0"], "must be at least 1, got 0"),
        ([*DESIGN, "--free", "target"], "target has no usual support"),
        ([*DESIGN], "--free is missing: name what to infer"),
        ([*DESIGN, "--free", "effort", "--candidates", "step=8"], "unknown parameter 'step'"),
        ([*DESIGN, "--free", "effort", "--candidates", "tau=1"], "tau is no condition of the task"),
        ([*DESIGN, "--free", "effort", "--candidates", "effort=1"], "both free and a candidate"),
        ([*DESIGN, "--free", "effort", "--candidates", "steps=1"], "candidate target=0.1, steps=1"),
        ([*DESIGN, "--free", "effort", "--candidates", "steps"], "--candidates needs NAME=VALUES"),
        ([*DESIGN, "--free", "effort", "--candidates", "target=1"], "has target twice"),
        ([*DESIGN, "--free", "effort", "--candidates", "every=x"], "must be whole numbers"),
        ([*DESIGN, "--free", "effort", "--observe", "hand"], "unknown state 'hand'"),
        ([*DESIGN, "--free", "effort", "--criterion", "best"], "unknown criterion 'best'"),
        ([*DESIGN, "--free", "effort", "--check", "1"], "--check must be at least 2"),
        ([*DESIGN, "--free", "effort", "-o", "no/design"], "the folder no does not exist"),
        (["design", "--task", "reaching", "--free", "effort"], "--candidates is missing"),
        (["datasets", "pointin"], "unknown data set 'pointin': did you mean pointing"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(monkeypatch, tmp_path, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.startswith("motorcost: ")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_no_convergence_is_exit_code_1(monkeypatch, capsys):
    def fails(*args, **kwargs):
        raise mc.ConvergenceError("did not settle")

    monkeypatch.setattr(mc, "solve", fails)
    assert run(monkeypatch, "simulate", "reaching") == 1
    assert capsys.readouterr().err == "motorcost: did not settle\n"


def test_help_without_arguments(monkeypatch, capsys):
    assert run(monkeypatch) == 0
    assert "simulate" in capsys.readouterr().out


def test_a_reader_that_leaves_early_is_no_error():
    command = f"{sys.executable} -m motorcost simulate reaching --trials 2000 | head -n 1"
    command += "; exit ${PIPESTATUS[0]}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout == "trial,time,position,velocity,force,muscle,target\n"
    assert done.stderr == ""


def test_interruption_is_said(tmp_path):
    # Where the tests run in the background, interruptions would be ignored.
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{listen}; from motorcost import cli; print('ready', flush=True); cli.main()"
    command = [sys.executable, "-c", code, "simulate", "tracking", "--trials", "40000"]
    # As users run it: programs compiled in a hurry, as in these tests, answer slowly.
    usual = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    with subprocess.Popen(
        [*command, "-o", tmp_path / "t.csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=usual,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(2)  # it is at work by now, and far from done
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "motorcost: interrupted\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("busy", [False, True])
def test_an_interrupt_that_python_drops_is_raised_again(busy):
    # Python ignores what is raised in a callback of the garbage collector; JAX has such a one.
    # On a busy machine the thread that raises it again is slow to start, here for the first time.
    code = """
import gc, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from motorcost import cli
start = threading.Timer.start
def start_slowly(timer):
    threading.Timer.start = start
    start(timer)
    time.sleep(1)
if BUSY:
    threading.Timer.start = start_slowly
def collecting(*_):
    gc.callbacks.remove(collecting)
    signal.raise_signal(signal.SIGINT)
@cli.app.command()
def wait():
    gc.callbacks.append(collecting)
    gc.collect()
    time.sleep(60)
sys.argv = ["motorcost", "wait"]
cli.main()
""".replace("BUSY", str(busy))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert done.returncode == 130
    assert done.stderr == "motorcost: interrupted\n"


def test_version(monkeypatch, capsys):
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"motorcost {mc.__version__}\n"


FIT = ("--task", "reaching", "--free", "effort", "--noise", "1e-3", "--starts", 5, "--quick")
STUDY = """\
[data]
file = "trials.csv"
[model]
task = "reaching"
[free]
effort = "usual"
[observer]
noise = 1e-3
[fit]
starts = 5
[report]
profiles = false
baselines = false
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with simulated trials, a study of them, and its fit."""
    folder = tmp_path_factory.mktemp("fits")
    (folder / "study.toml").write_text(STUDY)
    with pytest.MonkeyPatch.context() as monkeypatch:
        size = ("--set", "steps=8", "--set", "dt=0.03", "--trials", 14)
        seen = ("--observe", "position", "--noise", "1e-3", "-o", folder / "trials.csv")
        assert run(monkeypatch, "simulate", "reaching", *size, *seen) == 0
        assert run(monkeypatch, "fit", folder / "study.toml", "-q", "-o", folder / "fit") == 0
    return folder


@pytest.fixture
def without_search(monkeypatch, without_drawing):
    """Makes motorcost fit find what it is told to, and draw nothing."""

    def find(**changed):
        analysis = made_analysis(made_fit(["effort"], recorded(), **changed))
        analysis.interrupted = analysis.fit.interrupted
        monkeypatch.setattr("motorcost.study.analysis.analyse", lambda *_, **__: analysis)
        return analysis

    return find


def result_in(folder):
    return json.loads((folder / "fit.json").read_text(), parse_constant=pytest.fail)


def test_options_and_a_study_file_find_the_same(monkeypatch, folder, tmp_path, capsys):
    code = run(monkeypatch, "fit", folder / "trials.csv", *FIT, "-o", tmp_path / "fit")
    assert code == 0
    said = capsys.readouterr()
    assert "Report: " in said.out
    assert "The agent's position ends" in said.out
    assert "searching ..." in said.err.splitlines()
    by_options, by_file = result_in(tmp_path / "fit"), result_in(folder / "fit")
    for key in ("estimates", "standard_errors", "intervals", "log_likelihood", "starts", "data"):
        assert by_options[key] == by_file[key]
    assert by_options["checks"]["channels"]["position"]["n"] > 0
    assert by_options["cross_validated_log_likelihood"] < by_options["log_likelihood"]
    figures = {file.name for file in (tmp_path / "fit" / "figures").iterdir()}
    assert {"estimates.png", "data-and-model.png", "innovations.png", "starts.png"} <= figures
    assert (tmp_path / "fit" / "report.html").stat().st_size > 10_000


@pytest.mark.usefixtures("without_drawing")
def test_leads_are_handed_on_and_reported(monkeypatch, folder, tmp_path, capsys):
    tried = (LeadFit(0.0, 100.0, 80.0, 1, 1, True), LeadFit(0.06, 90.0, 70.0, 1, 1, True))
    found = {"leads": tried, "notes": (choice_in_words(tried, tried[0]),)}
    analysis = made_analysis(made_fit(["effort"], recorded(), **found))
    asked = []

    def without_search(study, **_):
        asked.append(study.lead)
        return analysis

    monkeypatch.setattr("motorcost.study.analysis.analyse", without_search)
    command = ("fit", folder / "trials.csv", *FIT, "--lead", "0,0.06", "-o", tmp_path / "fit")
    assert run(monkeypatch, *command) == 0
    assert asked == [(0.0, 0.06)]
    assert "of 2 leads, 0 s was chosen" in capsys.readouterr().out
    assert [found["lead"] for found in result_in(tmp_path / "fit")["leads"]] == [0.0, 0.06]
    assert "When the movements began" in (tmp_path / "fit" / "report.html").read_text("utf-8")


@pytest.mark.slow
def test_leads_are_compared_and_reported(monkeypatch, folder, tmp_path, capsys):
    leads = ("--lead", "0,0.06", "--starts", 1, "--quick")
    run(monkeypatch, "fit", folder / "trials.csv", *FIT, *leads, "-o", tmp_path / "fit")
    assert "of 2 leads, 0 s was chosen" in capsys.readouterr().out
    result = result_in(tmp_path / "fit")
    assert [found["lead"] for found in result["leads"]] == [0.0, pytest.approx(0.06)]
    assert result["lead"] == 0
    assert result["leads"][0]["log_likelihood"] == result["log_likelihood"]
    assert "When the movements began" in (tmp_path / "fit" / "report.html").read_text("utf-8")


def test_the_library_finds_what_the_command_finds(folder):
    found = result_in(folder / "fit")
    trials, _ = Study.read(folder / "study.toml").trials()
    assert found["n_trials"] == len(trials) == 14
    fit = mc.fit(
        mc.tasks.reaching,
        trials,
        ["effort"],
        key=jax.random.key(0),
        n_starts=5,
        observer=mc.ObserverSpec(["position"], noise=1e-3),
    )
    assert_allclose(found["estimates"]["effort"], fit.estimates["effort"])


@pytest.mark.usefixtures("without_drawing")
def test_quiet_says_nothing_and_json_only_json(monkeypatch, folder, tmp_path, capsys):
    study = folder / "study.toml"
    assert run(monkeypatch, "fit", study, "--quiet", "-o", tmp_path / "fit") == 0
    assert capsys.readouterr() == ("", "")
    assert run(monkeypatch, "fit", study, "--json", "-o", tmp_path / "fit") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out, parse_constant=pytest.fail) == result_in(tmp_path / "fit")


def test_a_fit_that_did_not_settle_is_exit_code_1(monkeypatch, without_search, tmp_path, folder):
    without_search(converged=False)
    code = run(monkeypatch, "fit", folder / "study.toml", "-q", "-o", tmp_path / "fit")
    assert code == 1
    assert result_in(tmp_path / "fit")["converged"] is False


@pytest.mark.usefixtures("without_drawing")
def test_an_interruption_is_exit_code_130_and_the_next_run_goes_on(
    monkeypatch, folder, tmp_path, capsys
):
    @contextmanager
    def interrupting(quiet):
        def progress(what, done, total):
            if what == "searching" and done:
                raise KeyboardInterrupt

        yield progress

    def stop(code):
        raise SystemExit(code)

    command = ("fit", folder / "study.toml", "-q", "-o", tmp_path / "fit")
    with monkeypatch.context() as patched:
        patched.setattr(command_module, "showing_progress", interrupting)
        patched.setattr(os, "_exit", stop)
        assert run(patched, *command) == 130
    assert "the same command goes on from there" in capsys.readouterr().err
    assert result_in(tmp_path / "fit")["interrupted"] is True
    assert run(monkeypatch, *command) == 0
    done, straight = result_in(tmp_path / "fit"), result_in(folder / "fit")
    assert done["interrupted"] is False
    assert "went on from 5 searches that had been interrupted" in done["notes"]
    assert_allclose(done["estimates"]["effort"], straight["estimates"]["effort"], rtol=1e-3)


@pytest.mark.slow
def test_a_signal_interrupts_a_fit(folder, tmp_path):
    command = [sys.executable, "-m", "motorcost", "fit", folder / "study.toml"]
    with subprocess.Popen(
        [*command, "-o", tmp_path / "fit"], stderr=subprocess.PIPE, text=True
    ) as process:
        while process.stderr.readline() != "searching ...\n":
            assert process.poll() is None
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert err.splitlines()[-1].startswith("motorcost: interrupted: what there is lies in")
    assert result_in(tmp_path / "fit")["interrupted"] is True


def test_a_study_file_takes_a_device(monkeypatch, folder, without_search, tmp_path):
    without_search()
    command = ("fit", folder / "study.toml", "-q", "-o", tmp_path / "fit")
    assert run(monkeypatch, *command, "--device", "cpu") == 0


@pytest.mark.parametrize(
    "told",
    [("--task", "reaching"), ("--free", "effort"), ("--noise", "1"), ("--dt", "0"),
     ("--bootstrap", "9"), ("--priors",)],
)  # fmt: skip
def test_a_study_file_takes_no_options_that_it_says_itself(
    monkeypatch, folder, tmp_path, capsys, told
):
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "fit", folder / "study.toml", *told) == 2
    err = capsys.readouterr().err
    assert f"says everything about the study: write what {told[0]} says into it" in err
    assert not list(tmp_path.iterdir())


def test_options_change_a_study_for_one_run(monkeypatch, folder, tmp_path):
    (tmp_path / "trials.csv").write_text((folder / "trials.csv").read_text())
    text = STUDY.replace('effort = "usual"', 'effort = "usual"\ntau = "usual"')
    (tmp_path / "study.toml").write_text(text)
    asked = []

    def seen(study, **_):
        asked.append(study)
        raise mc.InputError("enough")

    monkeypatch.setattr("motorcost.study.analysis.analyse", seen)
    command = ("fit", tmp_path / "study.toml", "-o", tmp_path)
    changes = ("--starts", 3, "--seed", 9, "--set", "tau=0.05", "--trials", "2:4")
    assert run(monkeypatch, *command) == 2
    assert run(monkeypatch, *command, *changes, "--only", "target=0.1") == 2
    plain, changed = asked
    assert (plain.starts, plain.seed, plain.fixed, plain.prepare) == (5, 0, {}, ())
    assert (changed.starts, changed.seed, changed.fixed) == (3, 9, {"tau": 0.05})
    assert list(changed.free) == ["effort"]
    assert changed.movements().labels == ("2", "3", "4")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--only", "target=0.2"), "--only: no trial has target = 0.2; there are 0.1"),
        (("--only", "subject=nobody"), "unknown condition 'subject'"),
        (("--only", "target"), "--only needs NAME=VALUE, as in subject=s01, got 'target'"),
        (("--trials", "20:1"), "--trials: trials 20:1: the last must not come before the first"),
        (("--trials", "15:20"), "--trials: trials 15:20: there are only 14 trials"),
    ],
)
@pytest.mark.parametrize("command", ["fit", "look"])
def test_changes_of_a_study_that_cannot_be_are_one_line(
    monkeypatch, folder, tmp_path, capsys, command, options, message
):
    output = ("-q", "-o", tmp_path / "fit") if command == "fit" else ()
    assert run(monkeypatch, command, folder / "study.toml", *output, *options) == 2
    assert_one_line(capsys, message)


def test_something_must_be_left_to_infer(monkeypatch, folder, tmp_path, capsys):
    command = ("fit", folder / "study.toml", "-q", "-o", tmp_path / "fit")
    assert run(monkeypatch, *command, "--set", "effort=1e-5") == 2
    assert_one_line(capsys, "--set leaves nothing to infer: effort is all there was")


def test_fit_warns_before_it_searches(monkeypatch, folder, tmp_path, capsys):
    def stop(*_, **__):
        raise mc.InputError("enough")

    monkeypatch.setattr("motorcost.study.analysis.fit", stop)
    assert run(monkeypatch, "fit", folder / "study.toml", "-o", tmp_path / "fit") == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "reading ..."
    assert lines[1].startswith("Warning: movements end 7")
    assert lines[2].startswith("Warning: 1 of 14 trials (14) hardly move")
    assert lines[3] == "compiling the likelihood of 14 trials, 8 steps ..."


def test_look_prints_a_table_and_draws_a_picture(monkeypatch, folder, tmp_path, capsys):
    picture = tmp_path / "look.png"
    assert run(monkeypatch, "look", folder / "study.toml", "-o", picture) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "peak speed (m/s)" in out
    assert "Warning: 1 of 14 trials (14) hardly move" in out
    assert picture.read_bytes().startswith(b"\x89PNG")
    by_options = ("--task", "reaching", "--trials", "1:13")
    assert run(monkeypatch, "look", folder / "trials.csv", *by_options) == 0
    assert "hardly move" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("study.toml", "--task", "reaching"), "says everything about the recordings: write what"),
        (("study.toml", "--time-column", "t"), "write what --time-column says into it"),
        (("trials.csv", "-o", "look.txt"), "the name must end in .png, .svg, .pdf"),
        (("trials.csv", "-o", "no/look.png"), "the folder no does not exist"),
        (("trials.csv", "--dt", "0.01"), "dt is the step of a model: name its task too"),
        (("nothing.csv",), "there is no such file"),
    ],
)
def test_a_look_that_cannot_be_is_one_line(monkeypatch, folder, capsys, arguments, message):
    monkeypatch.chdir(folder)
    assert run(monkeypatch, "look", *arguments) == 2
    assert_one_line(capsys, message)


def test_quick_leaves_out_what_a_study_asks_for(monkeypatch, tmp_path):
    (tmp_path / "study.toml").write_text(STUDY.replace("false", "true"))
    asked = []

    def seen(study, **_):
        asked.append((study.profiles, study.baselines))
        raise mc.InputError("enough")

    monkeypatch.setattr("motorcost.study.analysis.analyse", seen)
    for more in ((), ("--quick",)):
        assert run(monkeypatch, "fit", tmp_path / "study.toml", "-o", tmp_path, *more) == 2
    assert asked == [(True, True), (False, False)]


def changed(column, value):
    return lambda frame: frame.astype({column: object}).assign(**{column: value(frame)})


def text_at(frame):
    return [*frame.position[:5], "abc", *frame.position[6:]]


BAD = [
    (lambda f: f.drop(columns="position"), (), "needs a column of numbers that change"),
    (lambda f: f.drop(columns="time"), (), "unknown column 'time': known: trial, position, target"),
    (changed("position", text_at), (), "row 7, column 'position': needs a number, got 'abc'"),
    (lambda f: f[::-1], (), "row 3, column 'time': needs times that increase within trial 14"),
    (lambda f: pd.concat([f[:3], f[2:]]), (), "row 5, column 'time': needs times that increase"),
    (lambda f: f.groupby("trial").head(1), (), "needs trials of two samples or more"),
    (lambda f: f[:0], (), "needs rows of samples, got only a header"),
    (lambda f: f.assign(position=f.position * 1000), (), "one of them is in another unit"),
    (lambda f: f.assign(position=np.nan), (), "column 'position' needs numbers, got none"),
    (lambda f: f.assign(target="left"), (), "the condition 'target' must be numbers, got 'left'"),
    (
        lambda f: f.assign(target=np.where(f.trial == 2, np.nan, 0.1)),
        (),
        "the condition 'target' is missing in 1 of 14 trials (2): fill it in, or leave these",
    ),
    (lambda f: f.assign(dt=0.03), (), "dt cannot be a condition"),
    (None, ("--unit", "position=parsec"), "'position' is in parsec, which has no fixed size in m"),
    (None, ("--unit", "position=deg"), "'position' is angle in deg: it cannot be in m"),
    (None, ("--dt", "10"), "no trial has samples in two model steps of 10 s"),
    (None, ("--dt", "0"), "dt must be positive, got 0"),
    (None, ("--lead", "-0.1"), "lead must not be negative, got -0.1"),
    (None, ("--lead", "0,soon"), "--lead must be a number, got 'soon'"),
    (None, ("--lead", "0,0.3"), "lead must be shorter than the shortest trial, which lasts 0.21"),
    (None, ("--set", "target=0.2"), "target is fixed, but the trials have it as a condition too"),
    (None, ("--set", "dt=0.01"), "on a grid of 0.03 s, the problem steps by 0.01 s"),
    (None, ("--set", "steps=8"), "steps cannot be free or fixed: the trials' lengths determine it"),
    (None, ("--free", "steps=2:9"), "steps cannot be free or fixed: the trials' lengths"),
    (None, ("--free", "target"), "target has no usual support"),
    (None, ("--free", "target=0.01:1"), "target cannot be free: it is a condition of the trials"),
    (None, ("--set", "effort=1"), "effort cannot be both free and fixed"),
    (None, ("--free", "efort"), "unknown parameter 'efort': did you mean effort"),
    (None, ("--free", "force=3:1"), "a parameter needs low < high"),
    (None, ("--free", "force=1"), "--free needs NAME or NAME=LOW:HIGH, got 'force=1'"),
    (None, ("--per", "effort=subject"), "no condition 'subject' to form groups by"),
    (None, ("--per", "force=subject"), "unknown free parameter 'force'"),
    (None, ("--starts", "0"), "must be at least 1, got 0"),
    (None, ("--bootstrap", "1"), "bootstrap must be 0 (none) or at least 2 data sets, got 1"),
    (None, ("--seed", str(2**70)), "too large"),
    (None, ("--method", "newton"), "unknown method 'newton'"),
    (None, ("--noise", "-1"), "noise must not be negative"),
    (None, ("--noise", "hand=1"), "unknown recorded state 'hand'"),
    (None, ("--noise", "little"), "--noise must be a number, got 'little'"),
    (None, ("--channel", "hand=position"), "unknown state of reaching recorded 'hand'"),
    (None, ("--condition", "target=position"), "needs one value throughout trial 1"),
    (None, ("--time-unit", "min"), "unknown time unit 'min'"),
    (None, ("--task", "nofile.py:f"), "there is no file nofile.py to find the task f in"),
    (None, ("-o", "no/where"), "the folder no does not exist"),
    (None, ("-o", "trials.csv"), "cannot write into trials.csv: it is a file"),
]


@pytest.mark.parametrize(("change", "options", "message"), BAD)
def test_a_fit_that_cannot_be_is_one_line(
    monkeypatch, folder, tmp_path, capsys, change, options, message
):
    frame = pd.read_csv(folder / "trials.csv")
    (frame if change is None else change(frame)).to_csv(tmp_path / "trials.csv", index=False)
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "fit", "trials.csv", *FIT, "-q", "-o", "fit", *options) == 2
    assert_one_line(capsys, message)
    assert [file.name for file in tmp_path.iterdir()] == ["trials.csv"]


def assert_one_line(capsys, message):
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("motorcost: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "needs samples, got an empty file"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9, "needs text, got a binary file"),
        (None, "there is no such file"),
    ],
)
def test_files_that_hold_no_trials_are_said(monkeypatch, tmp_path, capsys, content, message):
    file = tmp_path / "t.csv"
    if content is not None:
        file.write_bytes(content)
    assert run(monkeypatch, "fit", file, *FIT, "-q", "-o", tmp_path / "fit") == 2
    assert_one_line(capsys, message)
    assert not (tmp_path / "fit").exists()


def test_a_folder_is_no_recording(monkeypatch, tmp_path, capsys):
    assert run(monkeypatch, "fit", tmp_path, *FIT, "-q", "-o", tmp_path / "fit") == 2
    assert_one_line(capsys, "needs a file, got a folder")


def test_a_folder_that_cannot_be_written_to_is_said_at_once(monkeypatch, folder, tmp_path, capsys):
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.W_OK)
    assert run(monkeypatch, "fit", folder / "trials.csv", *FIT, "-o", tmp_path) == 2
    assert_one_line(capsys, "no permission")


@pytest.mark.slow
def test_samples_that_a_model_without_noise_cannot_make(monkeypatch, folder, tmp_path, capsys):
    command = ("fit", folder / "trials.csv", *FIT, "--noise", 0, "-q", "-o", tmp_path / "fit")
    assert run(monkeypatch, *command) == 2
    assert_one_line(capsys, "contradicts the model at step 0")
    assert not (tmp_path / "fit").exists()


OWN = """\
import motorcost as mc
def gentle(effort=1e-5, target=0.1, steps=30, dt=0.01):
    return mc.tasks.reaching(effort=effort, target=target, steps=steps, dt=dt)
"""


def test_a_task_of_ones_own_on_the_command_line(monkeypatch, folder, tmp_path, capsys):
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    seen = []

    def only_read(study, **_):
        seen.append(study)
        raise mc.InputError("enough")

    monkeypatch.setattr("motorcost.study.analysis.analyse", only_read)
    command = ("fit", folder / "trials.csv", "--task", "mine.py:gentle", "--free")
    assert run(monkeypatch, *command, "effort=1e-8:1e-2", "--set", "target=0.2") == 2
    assert seen[0].fixed == {"target": 0.2}
    assert run(monkeypatch, *command, "effort", "--set", "targt=0.2") == 2
    assert "unknown parameter 'targt': did you mean target" in capsys.readouterr().err


def test_compare_the_same_and_different_data(monkeypatch, folder, without_search, tmp_path, capsys):
    for name, ll in (("one", 100.0), ("two", 90.0)):
        without_search(log_likelihood=ll)
        run(monkeypatch, "fit", folder / "study.toml", "-q", "-o", tmp_path / name)
    assert run(monkeypatch, "compare", tmp_path / "one", tmp_path / "two") == 0
    lines = {line.split("  ")[0]: line.split() for line in capsys.readouterr().out.splitlines()}
    assert lines["AIC - best"][-2:] == ["0", "20"]
    assert run(monkeypatch, "compare", tmp_path / "one", folder / "fit", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[0] == {"": "task", "one": "reaching", "fit": "reaching"}
    assert "standard errors apart" in next(row for row in rows if "ratio" in row[""])["fit"]


def test_compare_says_what_it_cannot_read(monkeypatch, folder, tmp_path, capsys):
    (tmp_path / "fit.json").write_text('{"format": 1, "data": []}')
    assert run(monkeypatch, "compare", folder / "fit", tmp_path) == 2
    assert_one_line(capsys, "is not a fit.json that this version can read")
    assert run(monkeypatch, "compare", folder / "fit", folder) == 2
    assert_one_line(capsys, "needs a folder with fit.json")
    assert run(monkeypatch, "compare", folder / "fit") == 2
    assert_one_line(capsys, "a comparison needs two fits or more")


def test_init_writes_a_study_of_the_data_and_never_over_one(monkeypatch, folder, tmp_path, capsys):
    study = tmp_path / "my study.toml"
    command = ("init", study, "--data", folder / "trials.csv")
    assert run(monkeypatch, *command) == 0
    assert f"motorcost fit '{study}' -o fit/" in capsys.readouterr().out
    assert "# Found in trials.csv: position, target." in study.read_text()
    trials, _ = Study.read(study).trials()
    assert len(trials) == 14
    before = study.read_text()
    assert run(monkeypatch, *command, "--task", "saccade") == 2
    assert_one_line(capsys, "is there already: choose another name, or --force")
    assert study.read_text() == before
    assert run(monkeypatch, *command, "--task", "saccade", "--force") == 0
    assert Study.read(study).task_name == "saccade"


@pytest.mark.slow
@pytest.mark.parametrize("task", ["reaching", "saccade", "tracking", "random_problem"])
def test_what_init_writes_fits_simulated_trials(monkeypatch, tmp_path, task):
    monkeypatch.chdir(tmp_path)
    size = () if task in ("reaching", "saccade") else ("--set", "steps=8")
    if task == "reaching":  # whose study is one of recorded positions
        size = ("--observe", "position", "--noise", "1e-3")
    assert run(monkeypatch, "simulate", task, *size, "--trials", 12, "-o", "trials.csv") == 0
    assert run(monkeypatch, "init", "--task", task) == 0
    text = (tmp_path / "study.toml").read_text().replace("starts = 10", "starts = 2")
    text = text.replace("lead = [0, 0.05, 0.1]", "lead = 0.0")
    (tmp_path / "study.toml").write_text(text)
    code = run(monkeypatch, "fit", "study.toml", "--quick", "-q")
    result = result_in(tmp_path / "fit")
    assert code == (0 if result["converged"] else 1)
    assert result["n_trials"] == 12
    declared = mc.tasks.parameters(find_task(task))
    costs = {n for n, p in declared.items() if p.role == "cost"}
    assert costs <= set(result["estimates"])
    assert (costs == set(result["estimates"])) == (task != "reaching")


def test_precision_says_which_error_bars_to_expect(monkeypatch, capsys):
    code = run(
        monkeypatch, "precision", "reaching", "--free", "effort", "--set", "steps=8",
        "--set", "dt=0.03", "--trials", "25,100", "--observe", "position", "--noise", "1e-3",
    )  # fmt: skip
    assert code == 0
    header, effort, *_ = capsys.readouterr().out.splitlines()
    assert header.split() == ["parameter", "at", "25", "trials", "100", "trials"]
    name, value, few, _, many, _ = effort.split()
    assert (name, value) == ("effort", "1e-05")
    assert_allclose(float(few) / float(many), 2.0, rtol=0.02)


def test_design_says_which_conditions_and_how_many_trials(monkeypatch, tmp_path, capsys):
    folder = tmp_path / "design"
    arguments = (
        "design", "--task", "reaching", "--free", "effort", "--trials", 20,
        "--candidates", "target=0.05,0.2", "--set", "steps=8", "--set", "dt=0.03",
        "--channels", "position", "--noise", "1e-3", "--simulated", 100, "-o", folder,
    )  # fmt: skip
    assert run(monkeypatch, *arguments) == 0
    out = capsys.readouterr().out
    assert f"Report: {folder / 'design.html'}" in out
    table = pd.read_csv(folder / "design.csv")
    assert table.trials.sum() == table.equal.sum() == table.single.sum() == 20
    assert list(table.target) == [0.05, 0.2]
    (errors,) = pd.read_csv(folder / "design-errors.csv").to_dict("records")
    assert errors["parameter"] == "effort"
    assert errors["design"] <= errors["equal"]
    assert f"{100 * errors['design']:.3g} %" in out
    assert (folder / "design.png").read_bytes().startswith(b"\x89PNG")
    assert "motorcost design --task reaching" in (folder / "design.html").read_text()

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    monkeypatch.setattr("motorcost.report.design.write_report", interrupted)
    monkeypatch.setattr("os._exit", sys.exit)
    assert run(monkeypatch, *arguments, "-q") == 130
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_datasets_are_listed(monkeypatch, capsys):
    assert run(monkeypatch, "datasets") == 0
    out = capsys.readouterr().out
    assert all(f"{name}: " in out for name in mc.datasets.names())
    assert run(monkeypatch, "datasets", "saccades") == 0
    assert capsys.readouterr().out.startswith("saccades: six people")


@pytest.mark.parametrize(
    "command",
    ["simulate", "demo", "look", "fit", "compare", "init", "precision", "design", "datasets"],
)
def test_help_shows_an_example(monkeypatch, capsys, command):
    assert run(monkeypatch, command, "--help") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert re.search(rf"Examples?: motorcost {command}", out)
    assert "context" not in out.lower()
