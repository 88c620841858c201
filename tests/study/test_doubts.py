"""What looks wrong with trials that `mc.fit` gets, without recordings to look at."""

import numpy as np
import pytest

import motorcost as mc
from motorcost.study.doubts import doubts

reaching = mc.tasks.reaching


def reaches(*, first=0, goal=0.1, still=(), channel="position"):
    """Movements of minimum jerk over 10 cm, of which the first samples were not recorded."""
    t = np.arange(51) / 50
    course = 10 * t**3 - 15 * t**4 + 6 * t**5
    sizes = np.where(np.isin(np.arange(12), still), 0.001, 0.1)
    noise = 1e-4 * np.random.default_rng(0).normal(size=(12, 51))
    samples = (sizes[:, None] * course + noise)[:, first:, None]
    conditions = {"target": np.full(12, goal)}
    return mc.Trials.recorded(samples, dt=0.01, channels=[channel], conditions=conditions)


def test_nothing_is_said_of_sound_trials():
    assert doubts(reaching, reaches(), {}) == ()
    assert doubts(reaching, reaches(first=14).with_lead(0.05), {}) == ()


@pytest.mark.parametrize(
    ("trials", "fixed", "said"),
    [
        (reaches(first=14), {}, "movements are under way at the first sample"),
        (reaches(still=(1, 4)), {}, "2 of 12 trials (2, 5) hardly move"),
        (reaches(goal=0.4), {}, "movements end 30 cm from their goals, 75 % of the way"),
        (reaches(), {"tau": 0.005}, "step of 0.01 s is longer than the time constant tau"),
    ],
)
def test_what_is_wrong_is_said(trials, fixed, said):
    (warning,) = doubts(reaching, trials, fixed)
    assert said in warning


def test_few_trials_are_too_few_for_standard_errors():
    (warning,) = doubts(reaching, reaches()[:3], {})
    assert warning.startswith("there are only 3 trials: standard errors are then those of a model")


def test_tasks_that_do_not_go_to_a_goal_are_not_looked_at():
    assert doubts(mc.tasks.posture, reaches(first=14, channel="x"), {}) == ()
    tracked = mc.Trials.recorded(
        np.cumsum(np.random.default_rng(0).normal(size=(3, 50, 2)), axis=1),
        dt=0.01,
        channels=["target", "position"],
    )
    assert doubts(mc.tasks.tracking, tracked, {}) == ()


def test_a_task_without_defaults_is_not_looked_at():
    def own(effort, steps, dt):
        return reaching(effort=effort, steps=steps, dt=dt)

    assert doubts(own, reaches(first=14), {}) == ()


def test_the_channel_whose_unit_is_wrong_is_named_as_arrays_name_it():
    trials = mc.Trials.recorded(
        1000 * np.asarray(reaches().observed), dt=0.01, channels=["position"]
    )
    warning, *_ = doubts(reaching, trials.with_conditions(target=100.0), {})
    assert "movements cover 100 m: is that their unit?" in warning
    assert 'mc.Trials.recorded(..., channels={"position": "mm"})' in warning
