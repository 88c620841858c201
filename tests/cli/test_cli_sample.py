import json
import os
import sys

import jax
import numpy as np
import pytest
import typer
import xarray

import motorcost as mc
from motorcost import cli
from motorcost.cli import options
from motorcost.cli import sample as command_module
from motorcost.posterior.nuts import TARGET_ACCEPT
from motorcost.posterior.sampling import METHODS
from motorcost.report import posterior as report

STUDY = """
[data]
file = "trials.csv"
[model]
task = "reaching"
fixed = { dt = 0.05 }
[free]
effort = [1e-7, 1e-3]
[observer]
noise = 1e-3
[fit]
starts = 3
"""


def run(monkeypatch, *arguments):
    """The console script, in this process; returns its exit code."""
    monkeypatch.setattr(sys, "argv", ["motorcost", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ten reaches of two people, as a table."""
    folder = tmp_path_factory.mktemp("recorded")
    problem = mc.tasks.reaching(effort=1e-5, steps=6, dt=0.05)
    observer = mc.ObserverSpec(["position"], noise=1e-3)
    trials = mc.simulate(
        problem, mc.solve(problem), n_trials=10, key=jax.random.key(0), observer=observer
    )
    position = np.asarray(trials.observed)[..., 0]
    rows = [
        f"{trial},{0.05 * t:g},{value},{'ab'[trial % 2]},{'young' if trial % 2 else 'old'}"
        for trial, samples in enumerate(position)
        for t, value in enumerate(samples)
    ]
    header = "trial,time,position,subject,age"
    (folder / "trials.csv").write_text("\n".join([header, *rows]))
    return folder


def options_of(folder):
    return (
        "sample", folder / "trials.csv", "--task", "reaching", "--free", "effort=1e-7:1e-3",
        "--noise", 1e-3, "--set", "dt=0.05",
    )  # fmt: skip


def test_a_posterior_is_written_and_read_again(monkeypatch, folder, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "shrinkage-force.png").write_text("of an earlier posterior")
    (tmp_path / "out" / "notes.txt").write_text("the user's own")
    settings = ("--method", "laplace", "--draws", 50, "--chains", 2, "--starts", 1)
    code = run(
        monkeypatch, *options_of(folder), *settings, "--no-predictive", "--seed", 3,
        "-o", tmp_path / "out",
    )  # fmt: skip
    printed = capsys.readouterr()
    assert code == 0, printed.err
    written = {name for name in os.listdir(tmp_path / "out") if not name.startswith(".")}
    assert written == {"notes.txt", "posterior.nc", "posterior.png", "report.html", "summary.txt"}
    post = mc.load_posterior(tmp_path / "out")
    assert post.posterior.effort.shape == (2, 50)
    assert post.summary() in printed.out
    low, high = post.interval()["effort"]
    assert low < 1e-5 < high
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "not the posterior itself" in page
    assert "--seed 3" in page


class SampledError(Exception):
    """What the command hands to `mc.sample`."""


@pytest.fixture
def handed_over(monkeypatch):
    """Run the command up to `mc.sample`; returns what it is called with."""

    def stop(*arguments, **named):
        raise SampledError(arguments, named)

    monkeypatch.setattr(mc, "sample", stop, raising=False)

    def until_then(*arguments):
        monkeypatch.setattr(sys, "argv", ["motorcost", *map(str, arguments)])
        with pytest.raises(SampledError) as stopped:
            cli.main()
        return stopped.value.args

    return until_then


def test_a_study_file_is_sampled_as_it_is_fitted(handed_over, folder, tmp_path):
    (folder / "study.toml").write_text(STUDY)
    (_, trials, priors), named = handed_over(
        "sample", folder / "study.toml", "--draws", 50, "-o", tmp_path / "out"
    )
    assert len(trials) == 10
    assert priors == {"effort": mc.LogUniform(1e-7, 1e-3)}
    assert (named["method"], named["n_draws"], named["predictive"]) == ("nuts", 50, True)
    assert (named["fixed"], named["n_starts"]) == ({"dt": 0.05}, 3)
    assert named["target_accept"] == TARGET_ACCEPT
    assert "group" not in named
    assert not (tmp_path / "out").exists()  # nothing was written into it


def test_people_are_drawn_from_a_population(handed_over, folder, tmp_path):
    (_, trials, priors), named = handed_over(
        *options_of(folder), "--free", "velocity", "--per", "effort=subject", "--group", "subject",
        "--between", "age", "--condition", "subject=subject", "--condition", "age=age",
        "-o", tmp_path / "out",
    )  # fmt: skip
    assert sorted(set(trials.conditions["subject"])) == ["a", "b"]
    assert sorted(set(trials.conditions["age"])) == ["old", "young"]
    assert priors == {"effort": mc.LogUniform(1e-7, 1e-3), "velocity": None}
    people = {name: named[name] for name in ("group", "common", "between")}
    assert people == {"group": "subject", "common": ["velocity"], "between": "age"}


def test_senses_may_be_late(handed_over, folder, tmp_path):
    (task, *_), _ = handed_over(*options_of(folder), "--delay", 2, "-o", tmp_path / "out")
    assert task().state_names == mc.delay(mc.tasks.reaching(), 2).state_names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "gibbs"], "unknown --method 'gibbs'"),
        (["--common", "effort"], "--common and --between need --group"),
        (["--group", "subject", "--common", "force"], "unknown --common 'force'"),
        (["--per", "effort=age", "--group", "subject"], "one value per age"),
        (["--delay", "1,2"], "a posterior is of one delay, and the study has 1, 2"),
        (["--draws", "1"], "n_draws (draws of each chain) must be at least 2"),
    ],
)
def test_what_cannot_be_sampled_is_said_in_a_line(
    monkeypatch, folder, tmp_path, capsys, arguments, message
):
    assert run(monkeypatch, *options_of(folder), *arguments, "-o", tmp_path / "out") == 2
    (line,) = [text for text in capsys.readouterr().err.splitlines() if "..." not in text]
    assert message in line
    assert not (tmp_path / "out").exists()


def test_missing_files_and_folders_that_cannot_be_written(monkeypatch, folder, tmp_path, capsys):
    missing = tmp_path / "no.csv"
    known = ("--task", "reaching", "--free", "effort")
    assert run(monkeypatch, "sample", missing, *known, "-o", tmp_path / "out") == 2
    assert "no.csv" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert run(monkeypatch, *options_of(folder), "-o", tmp_path / "file") == 2
    assert "it is a file" in capsys.readouterr().err
    (tmp_path / "fitted").mkdir()
    (tmp_path / "fitted" / "fit.json").write_text("{}")
    assert run(monkeypatch, *options_of(folder), "-o", tmp_path / "fitted") == 2
    assert "holds a fit" in capsys.readouterr().err


def made_posterior(*verdicts):
    """A posterior as it might be, without a sampler."""
    effort = np.random.default_rng(0).normal(size=(2, 20))
    attributes = {"method": "nuts", "verdicts": json.dumps(verdicts)}
    dataset = xarray.Dataset({"effort": (("chain", "draw"), effort)}, attrs=attributes)
    return mc.Posterior(posterior=dataset)


def test_what_was_drawn_before_an_interruption_is_written(monkeypatch, folder, tmp_path):
    interrupted = made_posterior("interrupted after 20 of 50 draws")
    monkeypatch.setattr(mc, "sample", lambda *_, **__: interrupted, raising=False)
    study = mc.Study(folder / "trials.csv", "reaching", ["effort"], fixed={"dt": 0.05})
    with pytest.raises(InterruptedError, match=r"lie in .*; the same command goes on"):
        command_module._carry_out(study, tmp_path / "out", {}, quiet=True)
    assert mc.load_posterior(tmp_path / "out").verdicts == interrupted.verdicts


def test_what_is_done_is_kept_until_the_posterior_is_complete(monkeypatch, folder, tmp_path):
    study = mc.Study(folder / "trials.csv", "reaching", ["effort"], fixed={"dt": 0.05})
    kept = tmp_path / "out" / command_module.SAMPLING

    def stop(*_, folder, **__):
        assert folder == kept
        folder.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(mc, "sample", stop, raising=False)
    with pytest.raises(InterruptedError, match=r"kept in .*; the same command goes on from there"):
        command_module._carry_out(study, tmp_path / "out", {}, quiet=True)
    monkeypatch.setattr(mc, "sample", lambda *_, **__: made_posterior(), raising=False)
    command_module._carry_out(study, tmp_path / "out", {}, quiet=True)
    assert not kept.exists()
    assert mc.load_posterior(tmp_path / "out").verdicts == []


def test_a_report_that_fails_leaves_the_old_files(monkeypatch, tmp_path):
    (tmp_path / "summary.txt").write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report, "_pictures", lambda post: [])
    monkeypatch.setattr(report, "_sections", fail)
    with pytest.raises(OSError, match="No space"):
        report.write_posterior(made_posterior(), tmp_path)
    assert os.listdir(tmp_path) == ["summary.txt"]
    assert (tmp_path / "summary.txt").read_text() == "old"


def test_the_methods_are_those_of_the_library():
    assert options.SAMPLERS == METHODS


def test_options_beside_a_study_are_known():
    command = typer.main.get_command(cli.app).commands["sample"]
    assert set(command_module.ALSO_WITH_A_STUDY_FILE) <= {option.name for option in command.params}
