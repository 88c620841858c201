"""An agent that believes in more states than the world has."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost.model.joint import can_vary

KEY = jax.random.key(0)
STEPS = 9


def follower(**changes):
    """A cursor and a target that jumps about."""
    parts = {
        "A": np.array([[1.0, 0.1], [0.0, 0.9]]),
        "B": np.array([[1.0], [0.2]]),
        "C": [np.array([[0.3], [0.1]])],
        "V": np.array([[0.1, 0.0], [0.05, 0.2]]),
        "H": np.array([[1.0, 0.0], [0.3, 1.0]]),
        "W": 0.3 * np.eye(2),
        "D": [np.array([[0.1, 0.0], [0.0, 0.2]])],
        "E": np.array([[0.1], [0.05]]),
        "Q": np.array([[1.0, -1.0], [-1.0, 1.0]]),
        "R": np.array([[0.1]]),
        "initial_belief": [0.3, -0.2],
        "initial_belief_cov": np.array([[0.2, 0.1], [0.1, 0.3]]),
        "initial_state_cov": np.array([[0.1, 0.02], [0.02, 0.2]]),
        "states": {"cursor": "m", "target": "m"},
    }
    return mc.Problem(steps=STEPS, **(parts | changes))


def mover(**changes):
    """What the agent believes: the target has a velocity, and is the first of the states."""
    parts = {
        "A": np.array([[1.0, 0.1, 0.0], [0.0, 0.9, 0.0], [0.0, 0.0, 1.0]]),
        "B": np.array([[0.2], [0.0], [1.0]]),
        "V": np.diag([0.1, 0.3, 0.2]),
        "H": np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.3]]),
        "W": 0.4 * np.eye(2),
        "Q": np.array([[1.0, 0.0, -1.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 1.0]]),
        "R": np.array([[0.1]]),
        "initial_belief": [0.0, 0.7, 0.0],
        "initial_state_cov": np.diag([0.1, 0.2, 0.1]),
        "states": {"target": "m", "velocity": "m/s", "cursor": "m"},
    }
    return mc.Problem(steps=STEPS, **(parts | changes))


def by_hand():
    def rows(M):
        M = np.asarray(M)
        return np.concatenate([M[1:2], np.zeros_like(M[:1]), M[:1]])

    def square(M):
        return rows(rows(M).T).T

    p = follower()
    world = mc.Problem(
        steps=STEPS,
        A=square(p.A[0]),
        B=rows(p.B[0]),
        C=[rows(p.C[0, 0])],
        V=rows(p.V[0]),
        H=rows(p.H[0].T).T,
        W=p.W,
        D=[rows(p.D[0, 0].T).T],
        E=rows(p.E[0]),
        Q=square(p.Q[0]),
        R=p.R,
        initial_belief=[-0.2, 0.7, 0.3],
        initial_belief_cov=square(p.initial_belief_cov),
        initial_state_cov=square(p.initial_state_cov),
        states={"target": "m", "velocity": "m/s", "cursor": "m"},
    )
    return world.with_believed(mover())


@pytest.mark.parametrize("sense_first", [False, True])
def test_the_world_gets_states_that_are_zero(sense_first):
    believed = mover(sense_first=sense_first)
    problem = follower(sense_first=sense_first).with_believed(believed)
    expected = by_hand().replace(sense_first=sense_first)
    assert problem.state_names == ("target", "velocity", "cursor")
    assert problem.state_units == ("m", "m/s", "m")
    assert jax.tree.structure(problem) == jax.tree.structure(expected)
    jax.tree.map(assert_allclose, problem, expected)
    policy = mc.solve(problem)
    trials = mc.simulate(problem, policy, n_trials=5, key=KEY)
    assert_allclose(trials.states[:, 1:, 1], 0.0)
    assert np.abs(trials.beliefs[:, 1:, 1]).min() > 0


def test_further_states_do_not_vary():
    problem = follower().with_believed(mover())
    assert np.flatnonzero(~can_vary(problem)).tolist() == [1]


def test_traced_worlds_are_extended():
    def cost(noise):
        problem = follower(W=noise * jnp.eye(2)).with_believed(mover(W=noise * jnp.eye(2)))
        return mc.expected_cost(problem, mc.solve(problem))

    exact = jax.jit(jax.value_and_grad(cost))(0.3)[1]
    assert_allclose(exact, (cost(0.3 + 1e-5) - cost(0.3 - 1e-5)) / 2e-5, rtol=1e-6)


def test_the_same_states_may_come_in_another_order():
    believed = follower().replace(
        A=np.array([[0.9, 0.0], [0.1, 1.0]]), states={"target": "m", "cursor": "m"}
    )
    assert follower().with_believed(believed).state_names == ("target", "cursor")


def test_names_change_in_world_and_belief():
    problem = follower().believing(C=[]).replace(states=["hand", "goal"])
    assert problem.believed.state_names == ("hand", "goal")


@pytest.mark.parametrize(
    ("believed", "message"),
    [
        (mover(states=["target", "speed", "hand"]), "all states of the world, it lacks cursor"),
        (
            mover(controls=["push"]),
            "the believed controls must be the world's, control_1; got push",
        ),
        (
            mover(senses=["eye", "hand"]),
            "the believed senses must be the world's, sense_1, sense_2",
        ),
    ],
)
def test_beliefs_that_do_not_fit(believed, message):
    with pytest.raises(mc.InputError, match=message):
        follower().with_believed(believed)
