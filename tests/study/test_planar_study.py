"""Recordings in the plane, from a file to a report."""

import re

import jax
import numpy as np
import pytest

import motorcost as mc
from motorcost.report.fitted import write_fit

STUDY = """\
[data]
file = "hand.csv"
units = { x = "mm", y = "mm", goal_x = "mm", goal_y = "mm" }
[prepare]
centred = { goal = ["goal_x", "goal_y"], start = ["home_x", "home_y"] }
least = { target = 50.0 }
[model]
task = "planar_reaching"
dt = 0.02
[free]
effort = "usual"
[observer]
noise = 1e-3
[fit]
starts = 2
[report]
profiles = false
baselines = false
folds = 0
"""
HOME = np.array([120.0, -40.0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Simulated reaches to four targets, each from its own start, in millimetres."""
    folder = tmp_path_factory.mktemp("plane")
    rng = np.random.default_rng(0)
    rows = ["trial,time,x,y,goal_x,goal_y,home_x,home_y"]
    for trial in range(12):
        angle = np.pi / 2 * (trial % 4)
        way = 0.1 * np.array([np.cos(angle), np.sin(angle)]) * (0.2 if trial == 11 else 1.0)
        problem = mc.tasks.planar_reaching(target_x=way[0], target_y=way[1], steps=20, dt=0.02)
        observer = mc.observe(problem, ["x", "y"], noise=1e-3)
        (path,) = mc.simulate(
            problem, mc.solve(problem), n_trials=1, key=jax.random.key(trial), observer=observer
        ).observed
        home = HOME + rng.normal(size=2)
        for t, (x, y) in enumerate(1000 * np.asarray(path) + home):
            values = (x, y, *(home + 1000 * way), *home)
            rows.append(f"{trial},{0.02 * t:.2f},{','.join(f'{v:.4f}' for v in values)}")
    (folder / "hand.csv").write_text("\n".join(rows))
    (folder / "study.toml").write_text(STUDY)
    return folder


@pytest.mark.usefixtures("as_users_call_it")
def test_a_study_in_the_plane(folder):
    study = mc.Study.read(folder / "study.toml")
    trials, notes = study.trials()
    assert trials.channel_names == ("x", "y")
    assert trials.channel_units == ("m", "m")
    assert any("1 of 12 trials left out: the target is nearer than 50" in note for note in notes)
    distances = np.hypot(trials.conditions["target_x"], trials.conditions["target_y"])
    np.testing.assert_allclose(distances, 0.1, rtol=1e-5)
    # That goals are missed, or that units are wrong, would be said here.
    assert all("under way" in warning for warning in mc.look(study).warnings)


@pytest.mark.slow  # a fit in the plane takes half a minute
def test_a_study_in_the_plane_recovers_and_reports(folder):
    analysis = mc.analyse(mc.Study.read(folder / "study.toml"), warn=print)
    low, high = analysis.fit.interval(0.999)["effort"]
    assert low < 1e-5 < high
    assert analysis.adequacy.passed
    report = write_fit(analysis, folder / "fit")
    text = report.read_text()
    assert "<h2>In the plane</h2>" in re.sub(r"<h2[^>]*>", "<h2>", text)
    assert {"paths.png", "targets.png"} <= {
        file.name for file in (folder / "fit/figures").iterdir()
    }


def test_movements_along_one_axis_are_no_mistake_of_units(folder, tmp_path):
    header, *rows = (folder / "hand.csv").read_text().splitlines()
    along_x = [row for row in rows if int(row.split(",")[0]) % 4 == 0]
    (tmp_path / "hand.csv").write_text("\n".join([header, *along_x]))
    (tmp_path / "study.toml").write_text(STUDY)
    trials, _ = mc.Study.read(tmp_path / "study.toml").trials()
    assert len(trials) == 3


def test_units_that_are_missing_are_told_in_the_plane(folder, tmp_path):
    (tmp_path / "hand.csv").write_text((folder / "hand.csv").read_text())
    without = STUDY.replace(', goal_x = "mm", goal_y = "mm"', ', goal_x = "m", goal_y = "m"')
    (tmp_path / "study.toml").write_text(without.replace("least = { target = 50.0 }", ""))
    with pytest.raises(mc.InputError, match="the condition 'goal_x' is in m, the channels in mm"):
        mc.Study.read(tmp_path / "study.toml").trials()
    fixed = STUDY.replace("centred = ", "# ").replace("least = ", "# ")
    (tmp_path / "study.toml").write_text(fixed.replace('x = "mm", y = "mm"', 'x = "m", y = "m"'))
    with pytest.raises(
        mc.InputError, match=r"x, y cover .* m in a trial, but the target is at 0.1"
    ):
        mc.Study.read(tmp_path / "study.toml").trials()
