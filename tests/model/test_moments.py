import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from strategies import SHAPES, TASKS, built_in, for_problems, in_time, make_problem

# Wrong beliefs about every part of the model.
FALSE_BELIEFS = {
    "no motor noise": lambda p: p.believing(C=[]),
    "no sensory Weber noise": lambda p: p.believing(D=[]),
    "other dynamics": lambda p: p.believing(A=0.8 * p.A, B=1.3 * p.B),
    "other senses": lambda p: p.believing(H=1.2 * p.H, W=3 * p.W),
    "other cost": lambda p: p.believing(Q=3 * p.Q[::-1], R=0.2 * p.R),
    "surer of the start": lambda p: p.believing(initial_state_cov=0 * p.initial_state_cov),
}


MANY = in_time([20_000, 100_000], 100_000)


def mean_cost(problem, policy, n_trials, seed=0):
    key = jax.random.key(seed)
    costs = np.asarray(mc.simulate(problem, policy, n_trials=n_trials, key=key).costs(problem))
    return costs.mean(), costs.std(ddof=1) / np.sqrt(n_trials)


@for_problems()
def test_moments_and_forward_pass_agree_on_the_cost(problem, rng):
    policy = mc.solve(problem)
    assert_allclose(mc.expected_cost(problem, policy), policy.expected_cost, rtol=1e-10)


@pytest.mark.parametrize("name", in_time(TASKS, "saccade", "tracking", "random_problem"))
@pytest.mark.parametrize("n_trials", MANY)
def test_expected_cost_is_the_simulated_one_for_every_task(name, n_trials):
    assert_cost_is_the_simulated_one(built_in(name), n_trials)


@for_problems(max_examples=9)
def test_expected_cost_is_the_simulated_one_with_every_noise(problem, rng):
    assert_cost_is_the_simulated_one(problem, 20_000, seed=int(rng.integers(1000)))


@pytest.mark.slow
@for_problems(max_examples=9)
def test_expected_cost_is_that_of_very_many_simulated_trials(problem, rng):
    assert_cost_is_the_simulated_one(problem, 100_000, seed=int(rng.integers(1000)))


def assert_cost_is_the_simulated_one(problem, n_trials, seed=0):
    policy = mc.solve(problem)
    mean, error = mean_cost(problem, policy, n_trials, seed)
    assert abs(mean - policy.expected_cost) < 4 * error


@pytest.mark.parametrize("shape", in_time(SHAPES, SHAPES[0], SHAPES[2]))
@pytest.mark.parametrize("n_trials", MANY)
def test_simulated_moments_are_the_propagated_ones(shape, n_trials):
    problem = make_problem(shape, seed=5)
    policy = mc.solve(problem)
    exact = mc.moments(problem, policy)
    trials = mc.simulate(problem, policy, n_trials=n_trials, key=jax.random.key(1))
    z = np.concatenate([trials.states, trials.beliefs], axis=-1)
    deviations = z - np.asarray(exact.mean)
    products = np.einsum("bti,btj->btij", deviations, deviations)
    for samples, truth in ((z, exact.mean), (products, exact.cov)):
        error = samples.std(axis=0) / np.sqrt(n_trials)
        score = (samples.mean(axis=0) - truth) / error
        assert np.abs(score).max() < 5  # several hundred numbers
        assert np.mean(score**2) < 2


@pytest.mark.parametrize("belief", in_time(FALSE_BELIEFS, "no sensory Weber noise", "other cost"))
@pytest.mark.parametrize("n_trials", MANY)
def test_wrong_beliefs_cost_more_and_the_cost_is_exact(belief, n_trials):
    problem = make_problem(SHAPES[1], seed=4, internal=False)
    wrong = FALSE_BELIEFS[belief](problem)
    policy = mc.solve(wrong)
    cost = mc.expected_cost(wrong, policy)
    assert cost > mc.solve(problem).expected_cost * (1 + 1e-6)
    mean, error = mean_cost(wrong, policy, n_trials)
    assert abs(mean - cost) < 4 * error
    assert cost == mc.expected_cost(problem, policy)  # beliefs are the policy's, not the world's


def test_the_agent_expects_the_cost_of_the_world_it_believes_in():
    unaware = mc.solve(mc.tasks.reaching().believing(C=[]))
    quiet = mc.tasks.reaching(motor_noise=0.0)
    assert_allclose(unaware.expected_cost, mc.solve(quiet).expected_cost, rtol=1e-12)
    assert_allclose(unaware.expected_cost, mc.expected_cost(quiet, unaware), rtol=1e-12)


def test_parts_of_the_moments():
    problem = mc.tasks.reaching()
    z = mc.moments(problem, mc.solve(problem))
    assert z.state_mean.shape == z.belief_mean.shape == (30, 5)
    assert z.state_cov.shape == z.belief_cov.shape == (30, 5, 5)
    assert_allclose(z.state_mean, z.belief_mean, atol=1e-12)  # an unbiased agent
    assert (np.trace(z.state_cov, axis1=1, axis2=2)[5:] > 0).all()
