import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc


@pytest.fixture
def problem():
    return mc.tasks.reaching(steps=3)


def test_by_name(problem):
    observer = mc.observe(problem, ["force", "position"], noise=[0.1, 0.2])
    assert_allclose(observer.S[0], np.eye(5)[[2, 0]])
    assert_allclose(observer.U[2], np.diag([0.1, 0.2]))
    assert observer.channel_units == ("N", "m")


def test_everything_without_noise_by_default(problem):
    observer = mc.observe(problem)
    assert_allclose(observer.S, np.stack([np.eye(5)] * 3))
    assert_allclose(observer.U, 0)


def test_any_mixture(problem):
    observer = mc.Observer(problem, S=[[1, 0, 0, 0, -1]], U=[[0.01]], channels={"error": "m"})
    assert observer.S.shape == (3, 1, 5)
    assert observer.channel_names == ("error",)


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"states": ["positon"]}, "unknown state 'positon': did you mean position?"),
        ({"states": []}, "must see at least one state"),
        ({"states": "position"}, r"observe\(problem, \['position'\]\)"),
        ({"noise": -1.0}, "noise must not be negative, got -1"),
        ({"noise": [1.0, 2.0]}, r"one SD or one a channel \(5\)"),
        ({"states": ["force"], "noise": {"position": 1}}, "unknown observed state 'position'"),
        ({"states": ["force", "force"]}, "'force' twice"),
    ],
)
def test_bad_input(problem, arguments, message):
    with pytest.raises(mc.InputError, match=message):
        mc.observe(problem, **arguments)


def test_bad_matrices(problem):
    with pytest.raises(mc.InputError, match=r"S must have shape .* \(any, 5\) .* Transposed\?"):
        mc.Observer(problem, S=np.ones((5, 2)))
    for nothing in (np.ones((0, 5)), np.zeros((2, 5))):
        with pytest.raises(mc.InputError, match="the observer sees nothing"):
            mc.Observer(problem, S=nothing)
