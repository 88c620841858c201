"""motorcost formats and motorcost convert."""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import motorcost as mc
from motorcost import cli
from motorcost.io import registry

TABLE = (
    "subject,trial,t,px,py,load\n"
    "a,1,0,1.25,2,heavy\na,1,10,0.1,,heavy\na,1,20,3,4,heavy\n"
    "b,1,0,5,6,light\nb,1,10,7,0.3333333333333333,light\n"
)
OPTIONS = ("--trial-column", "subject,trial", "--time-column", "t", "--time-unit", "ms")


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """The console script in a folder of its own; returns its exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text(TABLE)

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["motorcost", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        said = capsys.readouterr()
        return stopped.value.code, said.out, said.err

    return command


def same(first, second):
    assert first.labels == second.labels
    assert list(first.channels) == list(second.channels)
    assert list(first.conditions) == list(second.conditions)
    for name, values in first.conditions.items():
        assert_array_equal(values, second.conditions[name])
    arrays = zip(first.samples + first.times, second.samples + second.times, strict=True)
    for array, expected in arrays:
        assert_array_equal(array, expected)


def test_formats_are_listed(run, monkeypatch):
    code, out, _ = run("formats")
    assert code == 0
    assert len(out.splitlines()) == 1 + len(mc.io.formats())
    for format in mc.io.formats():
        assert format.name in out
        assert all(ending in out for ending in format.endings)
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    assert "pip install 'motorcost[c3d]'" in run("formats")[1]


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".CSV"])
def test_convert_keeps_everything(run, ending):
    code, out, err = run("convert", "in.csv", f"out{ending}", *OPTIONS)
    assert (code, out) == (0, "")
    assert f"Wrote out{ending}: 2 trials, 5 samples" in err
    assert "in.csv: 1 of 5 samples missing" in err
    reading = {"trial": ["subject", "trial"], "time": "t", "time_unit": "ms"}
    same(mc.io.read(f"out{ending}"), mc.io.read("in.csv", **reading))
    assert sorted(os.listdir()) == ["in.csv", f"out{ending}"]


def test_convert_there_and_back(run):
    """From one table to another and back, the second table is the first."""
    assert run("convert", "in.csv", "a.csv", *OPTIONS)[0] == 0
    assert run("convert", "a.csv", "b.parquet")[0] == 0
    assert run("convert", "b.parquet", "c.csv")[0] == 0
    pd.testing.assert_frame_equal(pd.read_csv("a.csv"), pd.read_csv("c.csv"))


def test_columns_and_rate_are_chosen(run):
    code, _, err = run(
        "convert", "in.csv", "out.csv", "--trial-column", "subject", "--rate", 100,
        "--channel", "x=px", "--unit", "x=mm", "--condition", "weight=load",
    )  # fmt: skip
    assert code == 0
    assert "a table has no units: x in mm" in err
    frame = pd.read_csv("out.csv")
    assert list(frame.columns) == ["trial", "time", "x", "weight"]
    assert frame.time.tolist() == [0, 0.01, 0.02, 0, 0.01]
    assert run("convert", "in.csv", "quiet.csv", *OPTIONS, "--quiet")[1:] == ("", "")


def test_other_formats_are_converted(run):
    rows = ["START\t100\tLEFT\tSAMPLES\n", "SAMPLES\tGAZE\tLEFT\tRATE\t1000\n"]
    rows += [f"{100 + i}\t{i}.5\t{2 * i}.0\t{400 + i}.0\t...\n" for i in range(5)]
    with open("gaze.asc", "w") as file:
        file.write("".join(rows))
    code, _, err = run("convert", "gaze.asc", "gaze.csv")
    assert code == 0
    assert "x in px, y in px" in err
    same(mc.io.read("gaze.csv"), mc.io.read("gaze.asc"))
    np.savez("a.npz", samples=np.arange(24.0).reshape(2, 4, 3), dt=0.5)
    assert run("convert", "a.npz", "b.parquet")[0] == 0
    same(mc.io.read("a.npz"), mc.io.read("b.parquet"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["convert", "in.csv", "in.csv"], "in.csv is there already: choose another name, or --for"),
        (["convert", "in.csv", "out.xlsx"], "cannot write out.xlsx: the name must end in .csv or"),
        (["convert", "in.csv", "no/out.csv"], "the folder no does not exist"),
        (["convert", "no.csv", "out.csv"], "no.csv: there is no such file"),
        (["convert", "in.csv", "out.csv"], "in.csv: unknown column 'time'"),
        (["convert", "in.csv", "out.csv", "--format", "edf"], "unknown format 'edf'"),
        (["convert", "in.csv", "out.csv", "--channel", "x"], "--channel needs STATE=COLUMN"),
        (["convert", "in.trc", "out.csv"], "see 'Other formats' in docs/data.md"),
        (["convert", "in.csv"], "Missing argument"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, arguments, message):
    with open("in.trc", "w") as file:
        file.write("x")
    code, _, err = run(*arguments)
    assert code == 2
    assert message in err
    assert err.startswith("motorcost: ")
    assert err.count("\n") == 1
    assert "out.csv" not in os.listdir()


def test_a_file_is_replaced_only_by_force_and_only_whole(run, monkeypatch):
    assert run("convert", "in.csv", "out.csv", *OPTIONS)[0] == 0
    before = Path("out.csv").read_text()
    assert run("convert", "in.csv", "out.csv", *OPTIONS, "--channel", "x=px")[0] == 2
    assert Path("out.csv").read_text() == before

    def full_disk(*_, **__):
        raise OSError(28, "No space left on device", "out.csv")

    with monkeypatch.context() as patched:
        patched.setattr(pd.DataFrame, "to_csv", full_disk)
        code, _, err = run("convert", "in.csv", "out.csv", *OPTIONS, "--force")
    assert code == 2
    assert "out.csv: No space left on device" in err
    assert Path("out.csv").read_text() == before
    assert run("convert", "in.csv", "out.csv", *OPTIONS, "--channel", "x=px", "--force")[0] == 0
    assert list(pd.read_csv("out.csv").columns)[:3] == ["trial", "time", "x"]
    assert sorted(os.listdir()) == ["in.csv", "out.csv"]
