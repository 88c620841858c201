import os
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost import cli


def run(monkeypatch, *arguments):
    """The console script, in this process; returns its exit code."""
    monkeypatch.setattr(sys, "argv", ["motorcost", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code


def test_simulate_writes_what_the_library_simulates(monkeypatch, tmp_path, capsys):
    table, picture = tmp_path / "trials.csv", tmp_path / "trials.png"
    code = run(
        monkeypatch, "simulate", "reaching", "--set", "effort=1e-4", "--set", "steps=20",
        "--trials", 5, "--seed", 3, "-o", table, "--plot", picture,
    )  # fmt: skip
    assert code == 0
    assert sorted(os.listdir(tmp_path)) == ["trials.csv", "trials.png"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    problem = mc.tasks.reaching(effort=1e-4, steps=20)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=5, key=jax.random.key(3))
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
        (["simulate", "reaching", "--set", "efort=1"], "unknown parameter 'efort': did you mean"),
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
        (["simulate", "reaching", "-o", "nowhere/t.csv"], "the folder nowhere does not exist"),
        (["simulate", "reaching", "-o", "."], "it is a folder"),
        (["simulate", "reaching", "-o", "t.png", "--plot", "t.png"], "cannot both be t.png"),
        (["simulate", "reaching", "--seed", str(2**64)], "too large"),
        (["simulate", "reaching", "--plot", "t.txt"], "must end in .png, .svg or .pdf"),
        (["simulate", "reaching", "--trails", "5"], "No such option: --trails"),
        (["simulate"], "Missing argument"),
        (["demo", "-o", "nowhere/demo"], "the folder nowhere does not exist"),
        (["demo", "--trials", "1"], "trials must be at least 2"),
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
    command = [sys.executable, "-m", "motorcost", "simulate", "tracking", "--trials", "200000"]
    with subprocess.Popen(
        [*command, "-o", tmp_path / "t.csv"], stderr=subprocess.PIPE, text=True
    ) as process:
        time.sleep(4)  # it is compiling or simulating by now, and far from done
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "motorcost: interrupted\n"
    assert not list(tmp_path.iterdir())


def test_version(monkeypatch, capsys):
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"motorcost {mc.__version__}\n"
