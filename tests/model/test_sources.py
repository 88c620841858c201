import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost.model.sources import SOURCES, contributions
from strategies import SHAPES, in_time, make_problem

KEY = jax.random.key(0)
SPREADS = {"aim_spread": 0.03, "start_spread": 0.01, "start_speed_spread": 0.05}


def by_source(problem, policy):
    found = contributions(problem, policy)
    return dict(zip(SOURCES, np.asarray(found.cov), strict=True)), found.mean


@pytest.mark.parametrize("shape", in_time(SHAPES[1:], SHAPES[2]))
def test_contributions_add_up_to_the_covariance(shape):
    problem = make_problem(shape, 5).believing(C=[])
    policy = mc.solve(problem)
    parts, mean = by_source(problem, policy)
    exact = mc.moments(problem, policy)
    assert_allclose(sum(parts.values()), exact.state_cov, rtol=1e-10, atol=1e-12)
    assert_allclose(mean, exact.state_mean, rtol=1e-10, atol=1e-12)


def test_contributions_are_those_of_simulated_noises():
    """Each noise that a simulation added, and the first states, sent through the linear system by
    itself: what it leads to varies as much as the source contributes."""
    problem = mc.tasks.reaching(motor_noise=0.8, **SPREADS)
    policy = mc.solve(problem)
    trials = mc.simulate(problem, policy, n_trials=20_000, key=KEY)
    A, B, H = (np.asarray(getattr(problem, letter)[0]) for letter in "ABH")
    x, xh, u = (np.asarray(part) for part in (trials.states, trials.beliefs, trials.controls))
    motor = x[:, 1:] - x[:, :-1] @ A.T - u @ B.T
    K, L = np.asarray(policy.K), np.asarray(policy.L)
    sensed = np.einsum("tnk,btk->btn", K, (x - xh)[:, :-1] @ H.T)
    sensory = xh[:, 1:] - xh[:, :-1] @ A.T - u @ B.T - sensed
    first = x[:, 0] - np.asarray(problem.initial_belief)
    aim = first * np.array([0, 0, 0, 0, 1.0])
    nothing = np.zeros_like(motor)

    def led_to(start, of_state, of_belief):
        state, belief = start, start
        for t in range(len(L)):
            push = -belief @ L[t].T @ B.T
            sensed = (state - belief) @ H.T @ K[t].T
            state, belief = (
                state @ A.T + push + of_state[:, t],
                belief @ A.T + push + sensed + of_belief[:, t],
            )
        return np.cov(state.T)

    parts, _ = by_source(problem, policy)
    found = {
        "start": led_to(first - aim, nothing, nothing),
        "aim": led_to(aim, nothing, nothing),
        "motor noise": led_to(0 * first, motor, nothing),
        "sensory noise": led_to(0 * first, nothing, sensory),
    }
    for source, cov in found.items():
        assert_allclose(np.diagonal(cov), np.diagonal(parts[source][-1]), rtol=0.04, atol=1e-12)
    assert_allclose(parts["process noise"], 0)
    assert_allclose(parts["internal noise"], 0)


def test_without_motor_noise_a_contribution_is_what_is_left_when_the_others_are_off():
    noisy = mc.tasks.reaching(motor_noise=0.0, **SPREADS)
    policy = mc.solve(noisy)
    parts, _ = by_source(noisy, policy)
    off = dict.fromkeys(SPREADS, 0.0)
    only_aim = mc.tasks.reaching(motor_noise=0.0, **(off | {"aim_spread": 0.03}))
    alone = mc.moments(only_aim.replace(W=0 * only_aim.W), policy)
    assert_allclose(parts["aim"], alone.state_cov, rtol=1e-10, atol=1e-15)
    only_senses = mc.moments(mc.tasks.reaching(motor_noise=0.0), policy)
    assert_allclose(parts["sensory noise"], only_senses.state_cov, rtol=1e-10, atol=1e-15)


def test_where_the_first_state_is_known_only_the_first_estimate_varies():
    problem = make_problem(SHAPES[1], 5)
    policy = mc.solve(problem)
    start = np.array([0.3, -0.2, 0.5])
    found = contributions(problem, policy, start)
    trials = mc.simulate(problem, policy, n_trials=40_000, key=KEY, initial_states=start)
    variance = np.asarray(found.cov).sum(axis=0).diagonal(axis1=1, axis2=2)
    assert_allclose(np.asarray(trials.states).var(axis=0), variance, rtol=0.05, atol=1e-12)
    assert_allclose(variance[0], 0)
