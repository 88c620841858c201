import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost.model.observer import resolve_observer


@pytest.fixture
def problem():
    return mc.tasks.reaching(steps=3)


def test_observe_by_name(problem):
    observer = mc.observe(problem, ["force", "position"], noise=[0.1, 0.2])
    assert_allclose(observer.S[0], np.eye(5)[[2, 0]])
    assert_allclose(observer.U[2], np.diag([0.1, 0.2]))
    assert observer.channel_units == ("N", "m")


def test_observe_records_everything_without_noise_by_default(problem):
    observer = mc.observe(problem)
    assert_allclose(observer.S, np.stack([np.eye(5)] * 3))
    assert_allclose(observer.U, 0)


def test_an_observer_can_record_any_linear_combination(problem):
    observer = mc.Observer(problem, S=[[1, 0, 0, 0, -1]], U=[[0.01]], channels={"error": "m"})
    assert observer.S.shape == (3, 1, 5)
    assert observer.channel_names == ("error",)


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"states": ["positon"]}, "unknown state 'positon': did you mean position?"),
        ({"states": []}, "must record at least one state"),
        ({"states": "position"}, r"observe\(problem, \['position'\]\)"),
        ({"noise": -1.0}, "noise must not be negative, got -1"),
        ({"noise": [1.0, 2.0]}, r"one SD or one per channel \(5\)"),
        ({"states": ["force"], "noise": {"position": 1}}, "unknown recorded state 'position'"),
        ({"states": ["force", "force"]}, "'force' twice"),
    ],
)
def test_bad_input(problem, arguments, message):
    with pytest.raises(mc.InputError, match=message):
        mc.observe(problem, **arguments)


def test_bad_matrices(problem):
    with pytest.raises(mc.InputError, match=r"S must have shape .* \(any, 5\) .* Transposed\?"):
        mc.Observer(problem, S=np.ones((5, 2)))
    for S in (np.ones((0, 5)), np.zeros((2, 5))):
        with pytest.raises(mc.InputError, match="the observer records nothing"):
            mc.Observer(problem, S=S)


def same_observer(observer, expected):
    assert_allclose(observer.S, expected.S)
    assert_allclose(observer.U, expected.U)
    assert observer.channel_names == expected.channel_names
    assert observer.channel_units == expected.channel_units


def test_an_observer_may_be_given_in_every_form(problem):
    expected = mc.observe(problem, ["force", "position"], noise=[0.0, 1e-3])
    forms = (
        expected,
        mc.ObserverSpec(["force", "position"], noise={"position": 1e-3}),
        lambda problem: mc.observe(problem, ["force", "position"], noise={"position": 1e-3}),
    )
    for observer in forms:
        same_observer(resolve_observer(problem, observer), expected)
    same_observer(resolve_observer(problem, None), mc.observe(problem))


@pytest.mark.usefixtures("as_users_call_it")
def test_an_observer_that_cannot_be_resolved_is_refused(problem):
    with pytest.raises(mc.InputError, match="made for 4 steps of 5 states, the problem has 3 st"):
        resolve_observer(problem, mc.observe(mc.tasks.reaching(steps=4)))
    for wrong in ("position", lambda problem: problem.H, ["position"]):
        with pytest.raises(mc.InputError, match="observer must be an Observer, as mc"):
            resolve_observer(problem, wrong)


def test_recording_noises_are_parameters_of_the_spec():
    spec = mc.ObserverSpec(["force", "position"], noise=[0.1, 0.2])
    assert spec.parameters == (
        "recording_noise",
        "recording_noise_force",
        "recording_noise_position",
    )
    assert spec.states_of("recording_noise") == ("force", "position")
    assert spec.states_of("recording_noise_position") == ("position",)
    assert spec.states_of("effort") == ()
    assert spec.with_noises({"recording_noise_position": 0.3, "effort": 1}).noise == (0.1, 0.3)
    assert spec.with_noises({"recording_noise": 0.3}).noise == 0.3
    shared = mc.ObserverSpec(["force", "position"], noise=0.1)
    assert shared.with_noises({"recording_noise_force": 0.3}).noise == (0.3, 0.1)
