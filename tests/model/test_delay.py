import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from strategies import SHAPES, in_time, make_problem

KEY = jax.random.key(0)


def test_no_delay_changes_nothing():
    problem = mc.tasks.reaching()
    assert mc.delay(problem, 0) is problem


def test_past_states_are_named_by_their_age():
    problem = mc.delay(mc.tasks.tracking(), 2)
    assert problem.state_names[:3] == ("position", "velocity", "target")
    assert problem.state_names[-1] == "target(t-2)"
    assert problem.state_units == ("m", "m/s", "m") * 3


@pytest.mark.parametrize("late", in_time([1, 3], 1))
def test_past_states_are_the_states_of_earlier_steps(late):
    problem = mc.delay(make_problem(SHAPES[1], seed=0), late)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=4, key=KEY)
    now = trials.states[:, :, :3]
    for age in range(1, late + 1):
        then = trials.states[:, :, 3 * age : 3 * age + 3]
        assert_allclose(then[:, age:], now[:, :-age])
        assert_allclose(then[:, :age], jnp.broadcast_to(now[:, :1], then[:, :age].shape))


@pytest.mark.parametrize("late", in_time([1, 3], 1))
def test_delayed_senses_are_the_senses_shifted(late):
    """Given the states, the senses have the mean and covariance of the original problem's senses
    `late` steps before."""
    problem = make_problem(SHAPES[1], seed=2)
    delayed = mc.delay(problem, late)
    t = mc.simulate(delayed, mc.solve(delayed), n_trials=40_000, key=KEY)
    x, y = np.asarray(t.states)[:, :, :3], np.asarray(t.senses)
    steps = y.shape[1]
    then = np.maximum(np.arange(steps) - late, 0)
    H, W, D = (np.asarray(letter)[then] for letter in (problem.H, problem.W, problem.D))
    noise = y - np.einsum("tkn,btn->btk", H, x[:, then])
    scaled = np.einsum("tdkn,btn->btdk", D, x[:, then])
    cov = W @ np.swapaxes(W, 1, 2) + np.einsum("btdk,btdl->btkl", scaled, scaled)
    white = np.linalg.solve(np.linalg.cholesky(cov), noise[..., None])[..., 0]
    N = len(t)
    assert np.abs(white.mean(axis=0)).max() < 5 / np.sqrt(N)
    second = np.einsum("bti,btj->tij", white, white) / N
    assert np.abs(second - np.eye(2)).max() < 5 * np.sqrt(2 / N)


def test_a_delay_has_no_effect_on_an_agent_without_feedback():
    """With senses too noisy to use, a delay of them changes neither policy nor cost."""
    problem = mc.tasks.reaching().replace(W=1e6 * np.eye(3))
    policy, late = mc.solve(problem), mc.solve(mc.delay(problem, 3))
    assert_allclose(late.expected_cost, policy.expected_cost, rtol=1e-6)
    assert_allclose(late.L[:, :, :5], policy.L, rtol=1e-4, atol=1e-6 * np.abs(policy.L).max())


def test_a_longer_delay_costs_more():
    costs = [mc.solve(mc.delay(mc.tasks.reaching(), d)).expected_cost for d in (0, 1, 3)]
    assert costs[0] < costs[1] < costs[2]


def test_beliefs_are_delayed_with_the_world():
    problem = mc.delay(mc.tasks.reaching().believing(C=[]), 2)
    assert problem.believed.A.shape == problem.A.shape
    assert problem.believed.C.shape[1] == 0
    policy = mc.solve(problem)
    costs = mc.simulate(problem, policy, n_trials=20_000, key=KEY).costs(problem)
    error = costs.std() / np.sqrt(len(costs))
    assert abs(costs.mean() - mc.expected_cost(problem, policy)) < 4 * error


def test_impossible_delays_are_refused():
    with pytest.raises(
        mc.InputError, match="the delay must be shorter than the trial of 30 steps, got 30"
    ):
        mc.delay(mc.tasks.reaching(), 30)
    with pytest.raises(mc.InputError, match="delayed already"):
        mc.delay(mc.delay(mc.tasks.reaching(), 1), 1)


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize("late", [-1, 1.5])
def test_bad_input(late):
    with pytest.raises(mc.InputError, match=r"the delay in time steps"):
        mc.delay(mc.tasks.reaching(), late)
