"""motorcost reproduce: what it says, and what it refuses."""

import sys

import pytest
from test_cli import run

from motorcost.experiments import NAMES


def test_list_names_every_experiment(monkeypatch, capsys):
    assert run(monkeypatch, "reproduce", "list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(NAMES)
    assert [line.split()[0] for line in lines if "needs --data" in line] == ["fig3"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fig9"], "unknown experiment 'fig9'"),
        (["fig2a", "--scale", "huge"], "unknown scale 'huge'"),
        (["fig2a", "--batch-size", "0"], "batch_size"),
        (["fig2a", "--seed", "-1"], "seed"),
        (["fig2a", "--workers", "0"], "workers"),
        (["fig2a", "--workers", "1", "--scheduler", "tcp://x:1"], "not both"),
        (["fig2a", "--page", "results.html"], "must end in .md"),
        (["fig2a", "-o", "nowhere/results"], "the folder nowhere does not exist"),
        (["fig3"], "fig3 needs recordings, --data FOLDER"),
        (["fig3", "--data", "empty", "--scale", "smoke"], "empty"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    arguments, message, monkeypatch, tmp_path, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert run(monkeypatch, "reproduce", *arguments, "--quiet") == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("motorcost: ")
    assert error.count("\n") == 1
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_workers_that_cannot_be_started_are_one_line(monkeypatch, tmp_path, capfd):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    command = ("reproduce", "fig2a", "--scale", "smoke", "-o", tmp_path / "reproduced", "--quiet")
    assert run(monkeypatch, *command, "--workers", "2") == 2
    message = "no worker process can be started (exit code 1): try /bin/false -m dask worker --help"
    assert capfd.readouterr().err == f"motorcost: {message}\n"


def test_an_experiment_from_start_to_page(monkeypatch, tmp_path, capsys):
    folder, page = tmp_path / "reproduced", tmp_path / "docs.md"
    command = ("reproduce", "fig2a", "--scale", "smoke", "-o", folder, "--page", page)
    assert run(monkeypatch, *command) == 0
    said = capsys.readouterr()
    assert "Figure 2 A: Simulated reaches" in said.out
    assert "expected cost" in said.out
    assert "fig2a reaching-costs: 0 of 2 done" in said.err
    text = page.read_text()
    assert "`motorcost reproduce fig2a --scale smoke`" in text
    assert (tmp_path / "figures" / "results" / "fig2a-reaches-smoke.png").exists()
    assert (folder / "results.html").read_text().count("<img") == 1
    # Another seed's, version's or experiment's rows are never overwritten.
    about = folder / "tables" / "reaching-costs-smoke" / "sweep.json"
    before = about.read_bytes()
    assert run(monkeypatch, *command, "--seed", "7") == 2
    assert "holds another sweep (seed 0 there, 7 here)" in capsys.readouterr().err
    assert about.read_bytes() == before
