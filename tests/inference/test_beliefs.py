import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
import naive
from strategies import SHAPES, in_time, make_problem

KEY = jax.random.key(0)


@pytest.mark.parametrize("case", in_time([(0, False), (0, True), (2, False), (2, True)],
                                          (0, False), (0, True)))  # fmt: skip
def test_beliefs_are_those_of_the_dense_gaussian(case):
    """Without signal-dependent noise: condition the whole trajectory on what was seen, with
    samples missing and an agent that is wrong."""
    late, smooth = case
    rng = np.random.default_rng(0)
    world = make_problem(SHAPES[2], 3, plain=True)
    problem = mc.delay(world.believing(A=0.9 * world.A, W=2 * world.W), late)
    policy, n, T = mc.solve(problem), problem.A.shape[-1], problem.steps
    observer = mc.observe(problem, problem.state_names[:2], noise=[0.0, 0.2])
    trials = mc.simulate(problem, policy, n_trials=2, key=KEY, observer=observer)
    samples = np.where(rng.random(trials.observed.shape) < 0.2, np.nan, trials.observed)
    beliefs = mc.track_beliefs(problem, samples, observer=observer, smooth=smooth)
    mean, cov, seen_mean, seen_cov, cross = naive.dense(problem, policy, observer)
    for i, trial in enumerate(samples.reshape(2, -1)):
        for t in range(T):
            there = ~np.isnan(trial)
            if not smooth:
                there[2 * (t + 1) :] = False
            gain = cross[:, there] @ np.linalg.inv(seen_cov[np.ix_(there, there)])
            at = slice(t * 2 * n, (t + 1) * 2 * n)
            expected = (mean + gain @ (trial - seen_mean)[there])[at]
            spread = (cov - gain @ cross[:, there].T)[at, at]
            assert_allclose(beliefs.state_mean[i, t], expected[:n], rtol=1e-7, atol=1e-8)
            assert_allclose(beliefs.mean[i, t], expected[n:], rtol=1e-7, atol=1e-8)
            assert_allclose(beliefs.state_cov[i, t], spread[:n, :n], rtol=1e-6, atol=1e-8)
            assert_allclose(beliefs.cov[i, t], spread[n:, n:], rtol=1e-6, atol=1e-8)


@pytest.fixture(scope="module")
def noisy_positions():
    problem = mc.tasks.reaching()
    observer = mc.observe(problem, ["position"], noise=1e-3)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=1000, key=KEY, observer=observer)
    return problem, observer, trials


def sds(cov):
    return np.sqrt(np.maximum(np.diagonal(np.asarray(cov), axis1=2, axis2=3), 0))


@pytest.mark.parametrize("smooth", [False, True])
def test_true_belief_lies_in_the_band_as_often_as_it_says(noisy_positions, smooth):
    problem, observer, trials = noisy_positions
    beliefs = mc.track_beliefs(problem, trials, observer=observer, smooth=smooth)
    truths = ((beliefs.mean, beliefs.cov, trials.beliefs),)
    truths += ((beliefs.state_mean, beliefs.state_cov, trials.states),)
    for mean, cov, truth in truths:
        inside = np.abs(np.asarray(truth - mean)) < 1.959964 * sds(cov)
        varies = sds(cov).max(axis=(0, 1)) > 1e-6  # the target is known
        share = inside[:, 6:][:, :, varies].mean()
        assert 0.93 < share < 0.97


def test_smoothed_bands_are_never_wider(noisy_positions):
    problem, observer, trials = noisy_positions
    filtered = mc.track_beliefs(problem, trials, observer=observer)
    smoothed = mc.track_beliefs(problem, trials, observer=observer, smooth=True)
    for name in ("cov", "state_cov"):
        wide, narrow = sds(getattr(filtered, name)), sds(getattr(smoothed, name))
        assert (narrow <= wide * (1 + 1e-9) + 1e-9).all()
    assert sds(smoothed.cov)[:, :-1].sum() < 0.95 * sds(filtered.cov)[:, :-1].sum()
    assert_allclose(smoothed.mean[:, -1], filtered.mean[:, -1])  # nothing comes after the last


def test_it_is_the_filtered_belief_not_the_prediction(noisy_positions):
    """Given p(xh_t | o_1:t), a step of the model gives the prediction that the next sample is
    compared with; the two differ by the sample."""
    problem, observer, trials = noisy_positions
    beliefs = mc.track_beliefs(problem, trials, observer=observer)
    policy = mc.solve(problem)
    u = -np.einsum("tmn,btn->btm", policy.L, np.asarray(beliefs.mean)[:, :-1])
    x = np.einsum("tij,btj->bti", problem.A, np.asarray(beliefs.state_mean)[:, :-1])
    x = x + np.einsum("tij,btj->bti", problem.B, u)
    assert_allclose(np.asarray(beliefs.predicted)[:, 1:, 0], x[:, :, 0], atol=1e-12)


def test_full_observation_leaves_no_doubt_about_the_state():
    problem = mc.tasks.reaching()
    trials = mc.simulate(problem, mc.solve(problem), n_trials=50, key=KEY)
    beliefs = mc.track_beliefs(problem, trials)
    assert_allclose(beliefs.state_mean, trials.states, atol=1e-10)
    assert np.abs(beliefs.state_cov).max() < 1e-12
    assert sds(beliefs.cov)[:, 10:, :4].min() > 0
    # Given the past, only the muscle is not known before it is seen.
    seen = np.isfinite(beliefs.innovations).any(axis=(0, 1))
    assert seen.tolist() == [False, False, False, True, False]


def test_what_cannot_be_is_nan_inside_jit():
    problem = mc.tasks.reaching()
    trials = mc.simulate(problem, mc.solve(problem), n_trials=50, key=KEY)
    bent = np.array(trials.observed)[:3]
    bent[1, 4, 0] += 0.1
    beliefs = jax.jit(lambda o: mc.track_beliefs(problem, o))(bent)
    assert np.isnan(beliefs.mean).any(axis=(1, 2)).tolist() == [False, True, False]


def test_shorter_trials_end_in_nan(noisy_positions):
    observed = np.asarray(noisy_positions[2].observed)
    seen = mc.ObserverSpec(["position"], noise=1e-3)
    samples = [*observed[:2, :25], *observed[2:4]]
    together = mc.Trials.recorded(samples, dt=0.01, channels=["position"])
    mean = np.asarray(mc.track_beliefs(mc.tasks.reaching, together, observer=seen).mean)
    alone = mc.track_beliefs(mc.tasks.reaching(steps=25), observed[:2, :25], observer=seen)
    assert_allclose(mean[:2, :25], alone.mean, atol=1e-12)
    assert np.isnan(mean[:2, 25:]).all()
    assert np.isfinite(mean[2:]).all()
