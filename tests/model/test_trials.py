import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import motorcost as mc
from motorcost.model.trials import trials_in_model_units

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


def test_conditions_are_kept_when_trials_are_selected():
    trials = simulated().with_conditions(load="heavy", block=[1, 2, 2])
    assert trials.conditions["load"].tolist() == ["heavy"] * 3
    selected = trials[np.array([False, True, True])]
    assert selected.conditions["block"].tolist() == [2, 2]
    assert len(selected) == 2
    assert "by load, block" in repr(trials)


def test_concatenate_pads_to_the_longest():
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
        ({"samples": [np.ones((3, 1)), np.ones((3, 2))]}, r"samples\[1\] must have 1 channels"),
        ({"samples": [[["a"]]]}, r"samples\[0\] must be numbers"),
        ({"samples": [[[np.inf]]]}, "got inf at sample 0, channel 0"),
        ({"samples": [np.ones((1, 1))]}, "trial 0 must have a length of at least 2 model steps"),
        ({"samples": [np.ones((3, 1))], "lengths": [2]}, "at least 3 model steps of 0.01 s, got 2"),
        ({"samples": [np.ones((3, 1))], "lengths": [3, 3]}, "lengths must be 1, one per trial"),
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


def test_sets_with_other_conditions_are_refused():
    with pytest.raises(mc.InputError, match="no trials to concatenate"):
        mc.concatenate([])
    with pytest.raises(mc.InputError, match=r"trials\[1\] has the conditions \['load'\]"):
        mc.concatenate([simulated(), simulated().with_conditions(load=1.0)])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"dt": 0.02}, "a time step of 0.02 s, trials.0. of 0.01 s"),
        ({"channels": {"x": "mm"}}, r"x is in mm in trials\[1\], but in m in trials\[0\]"),
        ({"starts": np.zeros((1, 2))}, "either all sets of trials or none"),
    ],
)
def test_sets_of_different_kinds_are_refused(other, message):
    plain = {"samples": np.zeros((1, 4, 1)), "dt": 0.01, "channels": {"x": "m"}}
    with pytest.raises(mc.InputError, match=message):
        mc.concatenate([mc.Trials.recorded(**plain), mc.Trials.recorded(**(plain | other))])


@pytest.mark.parametrize("name", ["steps", "dt"])
def test_steps_and_dt_cannot_be_conditions(name):
    with pytest.raises(mc.InputError, match=f"{name} cannot be a condition"):
        simulated().with_conditions(**{name: 3})


def test_recorded_trials_have_no_costs():
    trials = mc.Trials.recorded(np.zeros((1, 4, 5)), dt=0.01)
    with pytest.raises(mc.InputError, match="needs its states and controls"):
        trials.costs(mc.tasks.reaching(steps=4))


REACHING_UNITS = mc.tasks.parameter_units(mc.tasks.reaching)


def reaches():
    """Positions in metres, recorded with noise, and the target of each trial."""
    spec = mc.ObserverSpec(["position"], noise=1e-3)
    parts = []
    for target in (0.08, 0.12):
        problem = mc.tasks.reaching(target=target, steps=12)
        policy = mc.solve(problem)
        trials = mc.simulate(problem, policy, n_trials=2, key=KEY, observer=spec)
        parts.append(trials.with_conditions(target=target))
    return mc.concatenate(parts), spec


def recorded_in(samples, targets, unit, condition_unit):
    return mc.Trials.recorded(
        samples,
        dt=0.01,
        channels={"position": unit},
        conditions={"target": targets},
        condition_units={"target": condition_unit},
    )


def test_converted_trials_are_those_in_metres():
    samples = np.cumsum(np.random.default_rng(0).normal(size=(6, 12, 1)), axis=1)
    targets = np.repeat([0.1, 0.15], 3)
    metres = recorded_in(samples, targets, "m", "m")
    other = recorded_in(1e3 * samples, 1e2 * targets, "mm", "cm")
    problem = mc.tasks.reaching(steps=12)
    converted, notes = trials_in_model_units(other, problem, REACHING_UNITS)
    assert notes == (
        "position converted from mm to m",
        "condition target converted from cm to m",
    )
    assert converted.channel_units == ("m",)
    assert converted.condition_units == {"target": "m"}
    assert_allclose(converted.observed, metres.observed, rtol=1e-14)
    assert_allclose(converted.conditions["target"], metres.conditions["target"], rtol=1e-14)
    assert trials_in_model_units(metres, problem, REACHING_UNITS) == (metres, ())


@pytest.mark.slow  # that the numbers are the same is tested above
def test_converted_trials_have_the_likelihood_of_trials_in_metres():
    trials, spec = reaches()
    samples, targets = np.asarray(trials.observed), trials.conditions["target"]
    metres = recorded_in(samples, targets, "m", "m")
    other = recorded_in(1e3 * samples, 1e2 * targets, "mm", "cm")
    converted, _ = trials_in_model_units(other, mc.tasks.reaching(steps=12), REACHING_UNITS)

    def value(trials):
        # Rounded, so that trials of the same target stay together.
        rounded = trials.with_conditions(target=np.round(trials.conditions["target"], 12))
        return mc.log_likelihood(mc.tasks.reaching, rounded, observer=spec)

    assert_allclose(value(converted), value(metres), rtol=1e-10)


def test_unknown_units_are_left_as_they_are():
    trials = recorded_in(np.ones((2, 3, 1)), [0.1, 0.2], "", "")
    assert trials_in_model_units(trials, mc.tasks.reaching(), REACHING_UNITS) == (trials, ())
    metres = recorded_in(np.ones((2, 3, 1)), [0.1, 0.2], "mm", "m")
    converted, notes = trials_in_model_units(metres, mc.tasks.reaching(), {})
    assert notes == ("position converted from mm to m",)
    assert_allclose(converted.conditions["target"], [0.1, 0.2])


def test_units_of_another_kind_are_refused():
    problem = mc.tasks.reaching()
    angles = recorded_in(np.ones((2, 3, 1)), [0.1, 0.2], "deg", "m")
    with pytest.raises(mc.InputError, match="'position' is angle in deg: it cannot be in m"):
        trials_in_model_units(angles, problem, REACHING_UNITS)
    pixels = recorded_in(np.ones((2, 3, 1)), [0.1, 0.2], "m", "px")
    with pytest.raises(mc.InputError, match="'target' is in px, which has no fixed size in m"):
        trials_in_model_units(pixels, problem, REACHING_UNITS)


def test_channels_and_conditions_of_one_name_are_converted_separately():
    trials = mc.Trials.recorded(
        np.ones((1, 3, 2)),
        dt=0.01,
        channels={"position": "m", "target": "m"},
        conditions={"target": [10]},
        condition_units={"target": "cm"},
    )
    converted, notes = trials_in_model_units(trials, mc.tasks.reaching(), REACHING_UNITS)
    assert notes == ("condition target converted from cm to m",)
    assert_array_equal(converted.observed, trials.observed)
    assert_allclose(converted.conditions["target"], [0.1])


def test_in_units_converts_channels_and_conditions():
    trials = recorded_in(np.ones((2, 3, 1)), [1, 2], "m", "cm")
    converted = trials.in_units(position="mm", target="mm")
    assert_allclose(converted.observed, 1000)
    assert converted.conditions["target"].tolist() == [10, 20]
    assert converted.channel_units == ("mm",)
    assert converted.condition_units == {"target": "mm"}
    with pytest.raises(mc.InputError, match="unknown channel or condition 'positon'"):
        trials.in_units(positon="mm")
    with pytest.raises(mc.InputError, match="'load' has no unit"):
        trials.with_conditions(load="heavy").in_units(load="N")


def test_units_of_conditions_are_kept():
    trials = recorded_in(np.ones((2, 3, 1)), [1, 2], "m", "cm")
    assert trials.with_conditions(load=1.0).condition_units == {"target": "cm", "load": ""}
    assert trials.with_conditions(target=1.0).condition_units == {"target": ""}
    assert trials[:1].condition_units == {"target": "cm"}
    unknown = recorded_in(np.ones((2, 3, 1)), [1, 2], "", "")
    assert mc.concatenate([unknown, trials]).condition_units == {"target": "cm"}
    assert mc.concatenate([unknown, trials]).channel_units == ("m",)
    other = recorded_in(np.ones((2, 3, 1)), [1, 2], "m", "mm")
    with pytest.raises(mc.InputError, match=r"target is in mm in trials\[1\], but in cm in"):
        mc.concatenate([trials, other])
    with pytest.raises(mc.InputError, match="unknown condition 'goal'"):
        mc.Trials.recorded(np.ones((2, 3, 1)), dt=0.01, condition_units={"goal": "m"})


def test_html_table_of_trials_is_escaped():
    trials = recorded_in(np.ones((2, 3, 1)), [1, 2], "m", "cm").with_conditions(
        subject=["<b>", "<b>"]
    )
    html = trials._repr_html_()
    for row in (
        '<th scope="row">trials</th><td>2</td>',
        '<th scope="row">steps</th><td>3</td>',
        '<th scope="row">time step</th><td>0.01 s</td>',
        '<th scope="row">channel position</th><td>m</td>',
        '<th scope="row">condition target</th><td>1 to 2 cm</td>',
        '<th scope="row">condition subject</th><td>&lt;b&gt;</td>',
    ):
        assert row in html


def test_a_lead_begins_before_the_first_sample():
    trials = mc.Trials.recorded(
        [np.ones((6, 1)), 2 * np.ones((9, 1))], dt=0.01, conditions={"target": [0.1, 0.2]}
    )
    early = trials.with_lead(0.03)
    assert (early.lead_steps, trials.lead_steps) == (3, 0)
    assert_allclose(early.lead, 0.03)
    assert_allclose(early.times, np.arange(-3, 9) * 0.01, atol=1e-15)
    assert early.lengths.tolist() == [9, 12]
    assert np.isnan(early.observed[:, :3]).all()
    assert_array_equal(early.observed[:, 3:], trials.observed)
    assert not early.complete
    assert_allclose(early.dt, trials.dt)
    # Leads are counted from the first sample, so a second one replaces the first.
    assert early.with_lead(0.04).lengths.tolist() == [10, 13]
    assert_array_equal(early.with_lead(0.0).observed, trials.observed)
    assert early[1:].lead_steps == 3
    assert trials.with_lead(0.001).lead_steps == 1  # at least one step, if any


def test_simulated_trials_may_be_observed_from_a_step_on():
    trials = simulated(steps=6)
    late = trials.observed_from(2)
    assert_array_equal(late.states, trials.states)
    assert np.isnan(late.observed[:, :2]).all()
    assert late.lead_steps == 2
    assert late.lengths.tolist() == trials.lengths.tolist()
    early = trials.with_lead(0.02)
    assert early.states.shape[1] == early.controls.shape[1] + 1 == 8
    assert np.isnan(early.states[:, :2]).all()


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize(
    ("lead", "message"),
    [
        (-0.1, "lead must not be negative, got -0.1"),
        (np.nan, "lead must be finite, got nan"),
        ("long", "lead must be real numbers, got 'long'"),
        (0.05, "lead must be shorter than the shortest trial, which lasts 0.05 s, got 0.05 s"),
    ],
)
def test_leads_that_cannot_be(lead, message):
    trials = mc.Trials.recorded([np.ones((6, 1)), np.ones((9, 1))], dt=0.01)
    with pytest.raises(mc.InputError, match=message):
        trials.with_lead(lead)


def test_leads_of_trials_whose_start_is_known_or_differs():
    trials = mc.Trials.recorded(np.ones((2, 6, 1)), dt=0.01, starts=np.zeros((2, 5)))
    with pytest.raises(mc.InputError, match="lead must be 0 where the first states"):
        trials.with_lead(0.02)
    plain = mc.Trials.recorded(np.ones((2, 6, 1)), dt=0.01)
    with pytest.raises(mc.InputError, match=r"trials\[1\] has a lead of 0.02 s, trials\[0\] of 0"):
        mc.concatenate([plain, plain.with_lead(0.02)])
