import io as text_io
import os
import subprocess

import jax
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import motorcost as mc


@pytest.fixture(scope="module")
def trials():
    problem = mc.tasks.reaching(steps=4)
    return mc.simulate(problem, mc.solve(problem), n_trials=3, key=jax.random.key(0))


def test_table_is_tidy(trials):
    frame = mc.io.to_frame(trials.with_conditions(load=2.0, block=[1, 1, 2]))
    assert list(frame.columns) == [
        "trial", "time", "position", "velocity", "force", "muscle", "target", "load", "block",
    ]  # fmt: skip
    assert frame.trial.tolist() == [1] * 4 + [2] * 4 + [3] * 4
    assert frame.block.tolist() == [1] * 8 + [2] * 4
    assert (frame.load == 2).all()


def test_numbers_read_back_exactly(trials, tmp_path):
    mc.io.write_csv(trials, tmp_path / "t.csv")
    frame = pd.read_csv(tmp_path / "t.csv")
    assert_array_equal(frame[list(trials.channel_names)], np.reshape(trials.observed, (12, 5)))
    assert_array_equal(frame.time[:4], trials.times)


def test_can_write_to_a_stream(trials):
    stream = text_io.StringIO()
    mc.io.write_csv(trials, stream)
    assert stream.getvalue().startswith("trial,time,position")


def test_names_of_columns_must_differ(trials):
    with pytest.raises(mc.InputError, match="columns must differ from each other, got 'position'"):
        mc.io.to_frame(trials.with_conditions(position=1))
    clock = mc.Trials(trials.observed[:, :, :1], trials.times, channels=["time"])
    with pytest.raises(mc.InputError, match="got 'time' twice"):
        mc.io.to_frame(clock)


def test_rows_end_with_the_trial():
    trials = mc.Trials.recorded([np.ones((2, 1)), np.ones((4, 1))], dt=0.1)
    assert mc.io.to_frame(trials).trial.tolist() == [1, 1, 2, 2, 2, 2]


def test_links_are_followed_and_pipes_written_to(trials, tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    mc.io.write_csv(trials, tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("trial,")
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True) as reader:
        mc.io.write_csv(trials, tmp_path / "pipe")
        assert reader.communicate()[0].startswith("trial,")


def test_a_failed_write_leaves_the_old_file_and_no_draft(tmp_path):
    path = tmp_path / "result.txt"
    path.write_text("old")

    def fail():
        with mc.io.written_whole(path) as draft:
            draft.write_text("half of the n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["result.txt"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_have_the_permissions_that_the_user_gives_to_all(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        with mc.io.written_whole(tmp_path / "result.txt") as draft:
            draft.write_text("done")
    finally:
        os.umask(before)
    assert (tmp_path / "result.txt").stat().st_mode & 0o777 == mode


def test_places_that_cannot_be_written(trials, tmp_path):
    with pytest.raises(mc.InputError, match=r"the folder .*nowhere does not exist"):
        mc.io.write_csv(trials, tmp_path / "nowhere" / "t.csv")
    with pytest.raises(mc.InputError, match="it is a folder"):
        mc.io.write_csv(trials, tmp_path)
