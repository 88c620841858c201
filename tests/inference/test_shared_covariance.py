"""Without signal-dependent noise complete trials share one covariance: nothing may change."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost.inference.filter import filter_log_likelihoods, filter_setting
from strategies import SHAPES, make_problem


@pytest.fixture(scope="module")
def plain():
    problem = make_problem(SHAPES[2], 4, plain=True)
    observer = mc.observe(problem, problem.state_names[:1], noise=0.1)
    policy = mc.solve(problem)
    trials = mc.simulate(problem, policy, n_trials=4, key=jax.random.key(0), observer=observer)
    return problem, policy, observer, jnp.moveaxis(trials.observed, 0, -1)


@partial(jax.jit, static_argnames="complete")
def filtered(problem, policy, observer, samples, starts, complete):
    setting = filter_setting(problem, policy, observer, known_start=starts is not None)
    return filter_log_likelihoods(setting, samples, starts, complete=complete)


def both_ways(problem, policy, observer, samples, starts=None):
    return [
        filtered(problem, policy, observer, samples, starts, complete) for complete in (True, False)
    ]


def test_it_is_the_filter_with_a_covariance_for_each_trial(plain):
    (shared, first), (own, of_own) = both_ways(*plain)
    assert_allclose(shared, own, rtol=1e-12)
    assert_allclose(first, of_own)


def test_trials_may_end_early_and_have_starts_of_their_own(plain):
    *model, samples = plain
    T, _, N = samples.shape
    ended = np.arange(T)[:, None, None] >= np.array([T, T - 2, 2, T])
    starts = jax.random.normal(jax.random.key(1), (model[0].A.shape[-1], N))
    (shared, _), (own, _) = both_ways(*model, jnp.where(ended, jnp.nan, samples), starts)
    assert_allclose(shared, own, rtol=1e-12)
    assert len(np.unique(np.round(shared, 6))) == N


def test_contradictions_are_seen_alike():
    """A target that is recorded without noise cannot change."""
    problem = mc.tasks.reaching(motor_noise=0.0, steps=6).replace(V=[[0], [0], [0], [0.3], [0]])
    observer = mc.observe(problem, ["position", "target"], noise=[1e-3, 0.0])
    policy = mc.solve(problem)
    trials = mc.simulate(problem, policy, n_trials=3, key=jax.random.key(0), observer=observer)
    samples = jnp.moveaxis(trials.observed, 0, -1).at[4, 1, 1].add(0.01)
    (shared, first), (own, of_own) = both_ways(problem, policy, observer, samples)
    assert_allclose(shared, own, rtol=1e-12)
    assert_allclose(first, of_own)
    assert first[1] == 4 * 2 + 1
    assert (first[np.array([0, 2])] > 1000).all()


def test_gradients_are_those_of_the_filter_with_a_covariance_for_each_trial(plain):
    problem, policy, observer, samples = plain

    def total(scale, complete):
        changed = problem.replace(V=scale * problem.V, W=scale**2 * problem.W)
        setting = filter_setting(changed, policy, observer, known_start=False)
        return filter_log_likelihoods(setting, samples, None, complete=complete)[0].sum()

    slopes = [
        jax.jit(jax.grad(total), static_argnums=1)(1.1, complete) for complete in (True, False)
    ]
    assert_allclose(*slopes, rtol=1e-10)
    h = 1e-5
    numbers = [total(jnp.array(1.1 + sign * h), True) for sign in (1, -1)]
    assert_allclose(slopes[0], (numbers[0] - numbers[1]) / (2 * h), rtol=1e-6)


def test_whether_samples_are_missing_may_be_known_late(plain):
    """Inside `jit` the program decides when it runs."""
    problem, _, observer, samples = plain
    trials = np.moveaxis(np.asarray(samples), -1, 0)
    hole = trials.copy()
    hole[0, 1, 0] = np.nan

    @jax.jit
    def compiled(samples):
        return mc.log_likelihood(problem, samples, observer=observer, per_trial=True)

    for samples in (trials, hole):
        known = mc.log_likelihood(problem, samples, observer=observer, per_trial=True)
        assert_allclose(compiled(samples), known, rtol=1e-12)
    assert_allclose(compiled(trials)[1:], compiled(hole)[1:], rtol=1e-12)
