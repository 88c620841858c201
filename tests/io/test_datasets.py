import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from numpy.testing import assert_allclose, assert_array_equal

import motorcost as mc
from motorcost.data import kinematics
from motorcost.io import datasets

DATA = Path(__file__).parents[3] / "shared" / "data"


def recorded(*parts):
    path = DATA.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"REAL DATA ABSENT: {path} is not there, so its reader is NOT tested")
    return path


def test_each_says_where_it_is_and_what_to_cite():
    assert datasets.names() == ["flint2012", "pointing", "saccades"]
    for name in datasets.names():
        told = str(datasets.describe(name))
        assert told.startswith(f"{name}: ")
        for word in ("where    https://", "licence  ", "cite     ", "files    "):
            assert word in told
    with pytest.raises(mc.InputError, match="unknown data set 'saccade': did you mean saccades"):
        datasets.describe("saccade")


def test_they_load_no_libraries_before_they_are_used():
    code = (
        "import sys, motorcost, motorcost.io.datasets; "
        "sys.exit(bool({'pandas', 'h5py', 'pyarrow', 'pymatreader'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


POINTING = (
    "#2012 n. Chr. é\n# player.x player.y ...\n"
    "10 20 1000 720 800 20 0\n11 21 1030 720 800 20 1\n12 22 1060 300 400 20 0\n"
    "13 23 1090 300 400 20 0\n14 24 1121 300 400 20 0\n15 25 1150 720 800 20 0\n"
)


def test_pointing_by_hand(tmp_path):
    (tmp_path / "cp01-1.dat").write_text(POINTING, "latin-1")
    movements = datasets.read_pointing(tmp_path / "cp01-1.dat")
    assert_array_equal(movements.samples[1], [[12, 22], [13, 23], [14, 24]])
    assert_allclose(movements.times[1], [0.06, 0.09, 0.121])
    assert movements.conditions["outward"].tolist() == [False, True]
    assert movements.conditions["target_x"].tolist() == [720, 300]
    assert movements.notes == ("cp01-1.dat: 1 trials left out: they have one sample",)
    loaded = datasets.load("pointing", tmp_path)
    assert loaded.conditions["subject"].tolist() == ["cp01-1", "cp01-1"]
    assert "not the file that was published" in loaded.notes[-1]


def eye(tmp_path, runs, n=400, lost=()):
    """A recording at 1000 Hz that moves by 1 degree in each of the `runs` (first, after)."""
    table = np.zeros(n, [("t", "f8"), ("x", "f4"), ("y", "f4"), ("status", "?"), ("evt", "u1")])
    table["t"], table["status"], table["evt"] = np.arange(n) / 1000, True, 1
    for first, after in runs:
        table["evt"][first:after] = 2
        table["x"][first:] += np.minimum(np.arange(n - first) / (after - first), 1)
    for sample in lost:
        table["status"][sample] = False
    np.save(tmp_path / "lookAtPoint_EL_S1.npy", table)
    return tmp_path / "lookAtPoint_EL_S1.npy"


def test_saccades_by_hand(tmp_path):
    path = eye(tmp_path, [(100, 130), (140, 170)], lost=[110, 95])
    movements = datasets.read_saccades(path)
    # 50 ms on each side, but only 10 ms between the two.
    assert_allclose(movements.times[0][[0, -1]], [0.05, 0.139])
    assert_allclose(movements.times[1][[0, -1]], [0.13, 0.219])
    assert np.flatnonzero(np.isnan(movements.samples[0][:, 0])).tolist() == [45, 60]
    assert movements.conditions["start_x"].tolist() == [0, 1]
    assert movements.conditions["end_x"].tolist() == [1, 2]
    assert movements.condition_units["end_y"] == "deg"
    bare = datasets.read_saccades(path, margin=0.0)
    assert [len(time) for time in bare.times] == [30, 30]


def test_saccades_without_both_ends_are_left_out(tmp_path):
    path = eye(tmp_path, [(0, 30), (100, 130), (380, 400)])
    movements = datasets.read_saccades(path)
    assert len(movements) == 1
    assert "2 of 3 saccades left out: no eye position" in movements.notes[0]


def test_flint_by_hand(tmp_path):
    trial = np.zeros((1, 2), dtype=[("Time", object), ("HandPos", object)])
    for row in trial[0]:
        row["Time"], row["HandPos"] = np.arange(4.0)[:, None], np.ones((4, 2))
    subject = np.zeros((1, 1), dtype=[("Trial", object)])
    subject[0, 0]["Trial"] = trial
    scipy.io.savemat(tmp_path / "Flint_2012_e1.mat", {"Subject": subject})
    movements = datasets.load("flint2012", tmp_path)
    assert movements.conditions["subject"].tolist() == ["Flint_2012_e1/1"] * 2
    assert list(movements.channels) == ["x", "y"]


@pytest.mark.parametrize("who", ["cp01", "cp02", "ap01", "ap03", "pp01", "pp03", "pp04"])
def test_pointing_as_recorded(who):
    path = recorded("pointing", f"{who}-1.dat")
    movements = datasets.load("pointing", path)
    assert movements.notes == ()  # the file that was published
    # Read another way: all samples are there, in order.
    rows = [line.split() for line in path.read_text("latin-1").splitlines() if line[0].isdigit()]
    assert_array_equal(np.concatenate(movements.samples), np.array(rows, float)[:, :2])
    clock = np.concatenate(movements.times)
    assert_allclose(clock, (np.array(rows, float)[:, 2] - float(rows[0][2])) / 1000, atol=1e-12)


# After a stroke people get there in several movements, of which a cut keeps the fastest.
@pytest.mark.parametrize("who", ["cp01", "cp02", "cp03", "ap01", "ap02", "ap03"])
def test_pointing_as_a_model_takes_it(who):
    movements = datasets.load("pointing", recorded("pointing", f"{who}-1.dat"))
    out = movements.keep(movements.conditions["outward"], "return movements")
    pixels = ["x", "y", "target_x", "target_y", "target_radius"]
    reaches = out.scaled(0.00026, "m", pixels).along(("target_x", "target_y"))
    assert (
        (np.abs(reaches.conditions["target"] / 0.00026 - [[400], [550], [700]]) < 60).any(0).all()
    )
    cut = reaches.cut(0.05, channels=("position", "lateral"))
    ends = np.array([samples[-1, 0] for samples in cut.samples]) / cut.conditions["target"]
    assert np.median(ends) == pytest.approx(1, abs=0.15)
    durations = [time[-1] - time[0] for time in cut.times]
    assert 0.2 < np.median(durations) < 1.5
    trials = cut.trials(0.01, conditions=["target"])
    assert len(trials) == len(cut) > 25
    assert np.isfinite(trials.observed[:, 0]).all()


@pytest.mark.parametrize("who", range(1, 7))
def test_saccades_as_recorded(who):
    path = recorded("saccades", f"lookAtPoint_EL_S{who}.npy")
    movements = datasets.load("saccades", path)
    event = np.load(path, allow_pickle=False)["evt"] == 2
    assert len(movements) == event[0] + (event[1:] & ~event[:-1]).sum()
    turned = movements.along(("end_x", "end_y"), ("start_x", "start_y"))
    large = turned.keep(turned.conditions["target"] > 5, "small")
    cut = large.cut(30.0, channels=("position", "lateral"), smooth=0.003)
    peaks = [
        np.nanmax(kinematics.speed(samples, time, 0.003))
        for samples, time in zip(cut.samples, cut.times, strict=True)
    ]
    # The main sequence: larger saccades are faster and last longer.
    durations = np.array([time[-1] - time[0] for time in cut.times])
    assert np.corrcoef(cut.conditions["target"], peaks)[0, 1] > 0.3
    assert np.corrcoef(cut.conditions["target"], durations)[0, 1] > 0.7
    assert 250 < np.median(peaks) < 800
    trials = cut.trials(0.001, conditions=["target"])
    assert_array_equal(trials.observed[0, : len(cut.times[0])], cut.samples[0])


def test_a_folder_is_all_its_files():
    folder = recorded("saccades")
    movements = datasets.load("saccades", folder)
    assert len(np.unique(movements.conditions["subject"])) == 6
    assert len(movements) == 847


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: datasets.load("pointing", p / "x.dat"), "x.dat: there is no such file"),
        (lambda p: datasets.load("pointing", p), r"needs files \[acp\]p\[0-9\]\[0-9\]-1.dat, got"),
        (lambda p: datasets.read_pointing(p / "few"), "few: row 2: needs x, y, time and target's"),
        (lambda p: datasets.read_pointing(p / "none"), "none: needs rows of samples, got 0"),
        (lambda p: datasets.read_saccades(p / "none"), "none: needs a NumPy file with the fields"),
        (lambda p: datasets.read_saccades(eye(p, [])), "needs saccades"),
        (lambda p: datasets.read_saccades(p, margin=-1.0), "margin must not be negative"),
    ],
)
def test_what_cannot_be_read(call, message, tmp_path):
    (tmp_path / "few").write_text("1 2 3 4 5 6\n1 2 3\n")
    (tmp_path / "none").write_text("header\n")
    with pytest.raises(mc.InputError, match=message):
        call(tmp_path)


def test_a_damaged_copy_is_noticed(tmp_path):
    path = shutil.copy(recorded("pointing", "cp01-1.dat"), tmp_path)
    with Path(path).open("r+b") as stream:
        stream.seek(-3, 2)
        stream.write(b"1")
    assert "not the file that was published" in datasets.load("pointing", path).notes[-1]
