"""Delays of the senses, compared."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost.fitting.delays import delay_choice_in_words, delays_of, delays_table

KEY = jax.random.key(0)
OBSERVER = mc.ObserverSpec(["position", "target"], noise=1e-3)


@pytest.fixture(scope="module")
def trials():
    """Tracking by an agent whose senses are three steps late."""
    problem = mc.delay(mc.tasks.tracking(steps=25), 3)
    policy = mc.solve(problem)
    trials = mc.simulate(problem, policy, n_trials=30, key=KEY, observer=OBSERVER(problem))
    return mc.Trials.recorded(np.asarray(trials.observed), dt=1 / 60, channels=OBSERVER.states)


@pytest.fixture(scope="module")
def fit(trials):
    return mc.fit(
        mc.tasks.tracking,
        trials,
        ["effort"],
        key=KEY,
        observer=OBSERVER,
        n_starts=1,
        delay=[0, 3],
    )


def test_the_delay_that_trials_were_simulated_with_is_found(fit, trials):
    assert [found.delay for found in fit.delays] == [0, 3]
    assert fit.delays[1].log_likelihood == max(found.log_likelihood for found in fit.delays)
    assert fit.log_likelihood == fit.delays[1].log_likelihood
    assert fit.notes[-1].startswith("of 2 delays (in steps), 3 was chosen")
    assert_allclose(fit.delays[1].seconds, 0.05)
    # Each is the likelihood of the task with that delay.
    problem = mc.delay(mc.tasks.tracking(**fit.estimates, steps=25), 3)
    alone = mc.log_likelihood(problem, trials.observed, observer=OBSERVER)
    assert_allclose(fit.log_likelihood, alone, rtol=1e-9)


def test_a_fit_with_a_delay_is_saved_and_loaded(fit, tmp_path):
    fit.save(tmp_path / "fit")
    loaded = mc.load(tmp_path / "fit")
    assert loaded.delays == fit.delays
    problem, _ = loaded.at(steps=25)
    assert problem.state_names == fit.at(steps=25)[0].state_names
    assert "seen position(t-3)" in problem.state_names


def test_delays_are_drawn_and_listed(fit):
    header, rows = delays_table(fit.delays)
    assert header[0] == "delay (steps)"
    assert [row[0] for row in rows] == ["0", "3"]
    assert rows[1][3] == "0"
    (ax, *_) = mc.plots.plot_delays(fit.delays).axes
    values = [found.log_likelihood - fit.log_likelihood for found in fit.delays]
    assert_allclose(ax.lines[-1].get_ydata(), values)
    assert "no other is within 1.92" in delay_choice_in_words(fit.delays)


def test_the_same_delay_is_the_same_task():
    by_sense = {"seen target": 2, "seen position": 1}
    assert mc.tasks.delayed(mc.tasks.tracking, by_sense) is mc.tasks.delayed(
        mc.tasks.tracking, dict(reversed(by_sense.items()))
    )
    assert mc.tasks.parameters(mc.tasks.delayed(mc.tasks.tracking, 1)) == mc.tasks.parameters(
        mc.tasks.tracking
    )


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (3, (3,)),
        ([2, 0, 2], (2, 0)),
        ({"seen": 2}, ({"seen": 2},)),
        ([1, {"seen": 2}], (1, {"seen": 2})),
    ],
)
def test_delays_are_numbers_or_by_sense(delay, expected):
    assert delays_of(delay) == expected


def test_starts_are_those_of_one_delay():
    first = np.zeros((2, 2))
    starts = mc.tasks.pursuit_starts(mc.tasks.pursuit(delay=2), first)
    trials = mc.Trials.recorded(
        np.zeros((2, 9, 2)), dt=1 / 60, channels=["target", "cursor"], starts=starts
    )
    with pytest.raises(mc.InputError, match="the starts of the trials have 6 states, the task has"):
        mc.fit(mc.tasks.pursuit, trials, ["effort"], key=KEY, delay=[0, 2])


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delay": []}, "delay must be a number of steps, or a list of some to compare, got none"),
        ({"delay": -1}, "delay .* must be at least 0, got -1"),
        ({"delay": 1.5}, "delay .* whole number"),
        ({"delay": 50}, "the delay must be shorter than the trial of 25 steps, got 50"),
        ({"delay": {"vison": 1}}, "unknown sense 'vison'"),
        ({"delay": [0, {"vison": 1}]}, "unknown sense 'vison'"),
        ({"delay": [0, 50]}, "the delay must be shorter than the trial of 25 steps, got 50"),
        ({"delay": [1, 2], "lead": [0.0, 0.1]}, "several delays or several leads, not both"),
        ({"free": ["delay"]}, "delay cannot be free: a delay is a whole number of steps"),
    ],
)
def test_bad_delays(trials, options, message):
    options = {"free": ["effort"]} | options
    with pytest.raises(mc.InputError, match=message):
        mc.fit(mc.tasks.tracking, trials, key=KEY, observer=OBSERVER, n_starts=1, **options)
