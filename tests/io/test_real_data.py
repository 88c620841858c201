from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost.report import read_result, write_fit
from motorcost.study.analysis import analyse
from motorcost.study.selection import with_selection
from motorcost.study.settings import Study

DATA = Path(__file__).parents[3] / "shared" / "data"

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"NOT TESTED ON REAL DATA: there is no {DATA}"
)

POINTING = """\
title = "Pointing"
[data]
dataset = "pointing"
file = "{data}/pointing/{who}-1.dat"
[prepare]
keep = "outward"
scale = {{ factor = 0.00026, unit = "m", names = ["x", "y", "target_x", "target_y"] }}
along = {{ goal = ["target_x", "target_y"] }}
cut = {{ speed = 0.05, channels = ["position", "lateral"] }}
[model]
task = "reaching"
dt = {dt}
[free]
{free}
[observer]
states = ["position"]
noise = {noise}
[fit]
starts = {starts}
[report]
profiles = false
baselines = false
folds = 0
"""
SACCADES = """\
title = "Saccades"
[data]
dataset = "saccades"
file = "{data}/saccades/lookAtPoint_EL_{who}.npy"
options = {{ margin = 0.05 }}
[prepare]
along.goal = ["end_x", "end_y"]
along.start = ["start_x", "start_y"]
along.names = ["angle", "lateral"]
least = {{ target = 4.0 }}
cut = {{ speed = 30.0, channels = ["angle", "lateral"], smooth = 0.003, margin = 0.01 }}
[model]
task = "saccade"
dt = {dt}
fixed = {{ start = 0.0 }}
[free]
{free}
[observer]
states = ["angle"]
noise = {noise}
[fit]
starts = {starts}
[report]
profiles = false
baselines = false
folds = 0
"""


def written(folder, text, free, **given):
    usual = "\n".join(f'{name} = "usual"' for name in free)
    (folder / "study.toml").write_text(text.format(data=DATA.as_posix(), free=usual, **given))
    return Study.read(folder / "study.toml")


def fitted(study, folder, n=None):
    """The analysis of a study, or of its first trials only, and its result as written."""
    if n is not None:
        study = replace(study, prepare=with_selection(study.prepare, trials=f"1:{n}"))
    analysis = analyse(study, warn=lambda text: None)
    assert write_fit(analysis, folder / "fit").stat().st_size > 10_000
    return analysis, read_result(folder / "fit")


def likelihood_of_estimates(analysis):
    """The log likelihood that the library gives to the fitted model, computed without the fit."""
    study, trials = analysis.study, analysis.trials
    values = study.fixed | analysis.fit.estimates
    seen = mc.ObserverSpec(trials.channel_names, values.pop("recording_noise", study.noise))
    dt = float(trials.times[1])

    def at(steps, target):
        problem = study.task(**values, steps=steps, dt=dt, target=target)
        return problem, seen(problem)

    assert list(trials.conditions) == ["target"]
    return float(mc.log_likelihood(at, trials))


def assert_sound(analysis, result):
    assert analysis.fit.converged
    low, high = analysis.fit.objective.bounds.T
    assert ((low <= analysis.fit.point) & (analysis.fit.point <= high)).all()
    assert_allclose(result["log_likelihood"], likelihood_of_estimates(analysis), rtol=1e-9)
    assert all(error is None or error > 0 for error in result["standard_errors"].values())


def test_pointing_is_prepared_as_documented(tmp_path):
    study = written(tmp_path, POINTING, ["effort"], who="cp01", dt=0.01, noise=0.002, starts=1)
    trials, notes = study.trials()
    assert len(trials) == 45
    assert trials.channel_names == ("position",)
    assert trials.channel_units == ("m",)
    targets = trials.conditions["target"]
    assert 0.09 < targets.min() < targets.max() < 0.2
    last = np.array([trials.observed[i, n - 1, 0] for i, n in enumerate(trials.lengths)])
    assert np.median(np.abs(last - targets)) < 0.01
    assert any(
        "46 of 91 trials left out: only those with outward are kept" in note for note in notes
    )


def test_saccades_are_prepared_as_documented(tmp_path):
    study = written(tmp_path, SACCADES, ["effort"], who="S1", dt=0.002, noise=0.2, starts=1)
    trials, notes = study.trials()
    assert len(trials) == 59
    assert trials.channel_names == ("angle",)
    assert trials.conditions["target"].min() >= 4.0
    last = np.array([trials.observed[i, n - 1, 0] for i, n in enumerate(trials.lengths)])
    assert np.median(np.abs(last - trials.conditions["target"])) < 1.0
    assert "91 of 150 trials left out: the target is nearer than 4" in notes


def test_a_look_at_every_pointing_file_takes_seconds_and_tells_who_is_under_way(tmp_path):
    under_way, short = [], []
    for who in ("cp01", "cp02", "cp03", "ap01", "ap02", "ap03"):
        study = written(tmp_path, POINTING, ["effort"], who=who, dt=0.01, noise=0.002, starts=1)
        look = mc.look(study)
        assert len(look) == 45
        assert np.median(look.measures.end_error) < 0.02
        under_way += [who for text in look.warnings if "under way at the first sample" in text]
        fell = look.measures.end_error > 0.5 * look.measures.goal_distance
        assert fell.sum() == (who in ("ap02", "ap03"))
        short += [(who, text) for text in look.warnings if "end before 50 %" in text]
        assert not [text for text in look.warnings if "from their goals" in text or "unit" in text]
    # Hands that are slow are under way when they reach the threshold of 0.05 m/s.
    assert under_way == ["cp02", "ap01", "ap02", "ap03"]
    assert [(who, text.split(" trials ")[1][:4]) for who, text in short] == [
        ("ap02", "(62)"),
        ("ap03", "(48)"),
    ]


def test_a_look_at_goals_of_centre_out_reaches_that_are_drawn_y_down():
    movements = mc.io.read(
        DATA / "centre-out" / "example.csv",
        trial=["condition", "trial", "target_index", "phase"],
        time="t_s",
    )
    assert mc.look(movements, only={"phase": "out"}).warnings == ()
    flipped = movements.with_conditions(target_y=-movements.conditions["target_y"])
    (warning,) = mc.look(flipped, only={"phase": "out"}).warnings
    assert "from their goals" in warning


@pytest.mark.slow
def test_a_few_pointing_movements_are_fitted(tmp_path):
    study = written(tmp_path, POINTING, ["motor_noise"], who="cp01", dt=0.03, noise=0.003, starts=1)
    analysis, result = fitted(study, tmp_path, n=6)
    assert_sound(analysis, result)
    assert result["n_trials"] == 6
    assert result["data"]["files"] == ["cp01-1.dat"]
    assert not analysis.fit.at_bounds


@pytest.mark.slow
def test_a_few_saccades_are_fitted(tmp_path):
    study = written(tmp_path, SACCADES, ["motor_noise"], who="S1", dt=0.002, noise=0.2, starts=1)
    analysis, result = fitted(study, tmp_path, n=6)
    assert_sound(analysis, result)
    assert result["n_trials"] == 6
    assert not analysis.fit.at_bounds


@pytest.mark.slow
@pytest.mark.parametrize("who", ["cp01", "ap01"])
def test_all_pointing_movements_are_fitted(tmp_path, who):
    free = ["effort", "velocity", "force", "motor_noise", "recording_noise"]
    study = written(tmp_path, POINTING, free, who=who, dt=0.01, noise=0.0, starts=3)
    analysis, result = fitted(study, tmp_path)
    assert_sound(analysis, result)
    assert mc.datasets.describe("pointing").licence == "MIT"


@pytest.mark.slow
def test_all_saccades_are_fitted(tmp_path):
    free = ["effort", "motor_noise", "recording_noise", "sensory_noise"]
    study = written(tmp_path, SACCADES, free, who="S1", dt=0.002, noise=0.0, starts=3)
    analysis, result = fitted(study, tmp_path)
    assert_sound(analysis, result)
