import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import motorcost as mc

KEY = jax.random.key(0)


def simulated(steps=4, n=3):
    problem = mc.tasks.reaching(steps=steps)
    return mc.simulate(problem, mc.solve(problem), n_trials=n, key=KEY)


def test_recordings_of_different_length_are_padded():
    trials = mc.Trials.recorded(
        [np.ones((3, 2)), 2 * np.ones((5, 2))], dt=0.1, channels={"x": "m", "y": "m"}
    )
    assert trials.observed.shape == (2, 5, 2)
    assert trials.lengths.tolist() == [3, 5]
    assert np.isnan(trials.observed[0, 3:]).all()
    assert_allclose(trials.times, np.arange(5) * 0.1)
    assert repr(trials) == "Trials: 2 of 3 to 5 steps (x, y)"


def test_samples_are_placed_by_their_times():
    trials = mc.Trials.recorded(
        [[[1.0], [2.0], [3.0]], [[4.0], [5.0]]],
        dt=0.01,
        times=[[1.0, 1.031, 1.059], [0.0, 0.04]],
        lengths=[9, 5],
    )
    first = np.full(9, np.nan)
    first[[0, 3, 6]] = [1, 2, 3]
    assert_array_equal(trials.observed[0, :, 0], first)
    assert trials.observed[1, 4, 0] == 5
    assert trials.lengths.tolist() == [9, 5]


def test_conditions_travel_with_the_trials():
    trials = simulated().with_conditions(load="heavy", block=[1, 2, 2])
    assert trials.conditions["load"].tolist() == ["heavy"] * 3
    some = trials[np.array([False, True, True])]
    assert some.conditions["block"].tolist() == [2, 2]
    assert len(some) == 2
    assert "by load, block" in repr(trials)


def test_sets_join():
    short, long = simulated(4, 2), simulated(6, 3)
    both = mc.concatenate([short, long])
    assert both.observed.shape == (5, 6, 5)
    assert both.lengths.tolist() == [4, 4, 6, 6, 6]
    assert_allclose(both.states[:2, :4], short.states)
    assert np.isnan(both.controls[0, 3:]).all()
    recorded = mc.Trials.recorded(np.asarray(long.observed), dt=0.01, channels=long.channel_names)
    assert mc.concatenate([short, recorded]).states is None


def test_trials_pass_through_jit():
    trials = simulated().with_conditions(target=[0.1, 0.1, 0.2])
    doubled = jax.jit(lambda t: jax.tree.map(lambda leaf: 2 * leaf, t))(trials)
    assert_allclose(doubled.observed, 2 * trials.observed)
    assert doubled.conditions["target"].tolist() == [0.1, 0.1, 0.2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"samples": []}, "there are no trials"),
        ({"samples": [np.ones(3)]}, r"samples\[0\] must have shape \(time, channel\), got \(3,\)"),
        ({"samples": [np.ones((3, 1)), np.ones((3, 2))]}, r"samples\[1\] has 2 channels"),
        ({"samples": [[["a"]]]}, r"samples\[0\] must be numbers"),
        ({"samples": [[[np.inf]]]}, "got inf at sample 0, channel 0"),
        ({"samples": [np.ones((1, 1))]}, "trial 0 must have a length of at least 2 model steps"),
        ({"samples": [np.ones((3, 1))], "lengths": [2]}, "at least 3 model steps of 0.01 s, got 2"),
        ({"samples": [np.ones((3, 1))], "lengths": [3, 3]}, "lengths must be 1, one a trial"),
        ({"samples": [np.ones((3, 1))], "times": [[0, 1]]}, "trial 0 has 3 samples but 2 times"),
        ({"samples": [np.ones((2, 1))], "times": [[1, 0]]}, "trial 0 must be finite and increase"),
        ({"samples": [np.ones((2, 1))], "times": [[0, 0.004]]}, "fall into one model step"),
        ({"samples": [np.ones((2, 1))], "dt": 0}, "dt must be positive"),
        ({"samples": [np.ones((2, 1))], "starts": [1.0]}, "starts must have shape"),
        ({"samples": [np.ones((2, 1))], "conditions": {"a": [1, 2]}}, "the condition 'a' must be"),
    ],
)
@pytest.mark.usefixtures("as_users_call_it")
def test_bad_recordings(arguments, message):
    with pytest.raises(mc.InputError, match=message):
        mc.Trials.recorded(**({"dt": 0.01} | arguments))


def test_sets_that_do_not_join():
    with pytest.raises(mc.InputError, match="no trials to concatenate"):
        mc.concatenate([])
    with pytest.raises(mc.InputError, match=r"trials\[1\] has the conditions \['load'\]"):
        mc.concatenate([simulated(), simulated().with_conditions(load=1.0)])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"dt": 0.02}, "on a grid of 0.02 s, trials.0. of 0.01 s"),
        ({"channels": {"x": "mm"}}, "other units"),
        ({"starts": np.zeros((1, 2))}, "either all sets or none"),
    ],
)
def test_sets_must_be_alike(other, message):
    plain = {"samples": np.zeros((1, 4, 1)), "dt": 0.01, "channels": {"x": "m"}}
    with pytest.raises(mc.InputError, match=message):
        mc.concatenate([mc.Trials.recorded(**plain), mc.Trials.recorded(**(plain | other))])


@pytest.mark.parametrize("name", ["steps", "dt"])
def test_the_grid_is_no_condition(name):
    with pytest.raises(mc.InputError, match=f"{name} cannot be a condition"):
        simulated().with_conditions(**{name: 3})


def test_recordings_have_no_costs():
    trials = mc.Trials.recorded(np.zeros((1, 4, 5)), dt=0.01)
    with pytest.raises(mc.InputError, match="needs its states and controls"):
        trials.costs(mc.tasks.reaching(steps=4))
