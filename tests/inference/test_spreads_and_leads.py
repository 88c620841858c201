"""Trials that differ in start and aim, and that begin before the first sample."""

import functools

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm

import motorcost as mc
import naive
from strategies import in_time

KEY = jax.random.key(3)
SPREADS = {"aim_spread": 0.02, "start_spread": 0.004, "start_speed_spread": 0.03}
CAMERA = mc.ObserverSpec(["position"], noise=1e-3)
STEPS, LEAD = 30, 4  # as usual for reaches, so that policies share a program


def reached(problem, n=3, observer=CAMERA):
    return mc.simulate(problem, mc.solve(problem), n_trials=n, key=KEY, observer=observer)


def test_a_lead_is_the_longer_trial_without_its_first_samples():
    """Against the loop with the textbook's update, which skips missing samples."""
    problem = mc.tasks.reaching(steps=STEPS, **SPREADS)
    policy = mc.solve(problem)
    whole = reached(problem)
    late = mc.Trials.recorded(np.asarray(whole.observed)[:, LEAD:], dt=0.01, channels=["position"])
    each = mc.log_likelihood(problem, late.with_lead(LEAD * 0.01), observer=CAMERA, per_trial=True)
    hidden = np.array(whole.observed)
    hidden[:, :LEAD] = np.nan
    loop = [naive.log_likelihood(problem, policy, CAMERA(problem), trial) for trial in hidden]
    assert_allclose(each, loop, rtol=1e-10)
    same = mc.log_likelihood(problem, whole.observed_from(LEAD), observer=CAMERA, per_trial=True)
    assert_array_equal(each, same)


def test_without_motor_noise_it_is_the_dense_gaussian():
    problem = mc.tasks.reaching(steps=STEPS, motor_noise=0.0, **SPREADS)
    policy = mc.solve(problem)
    trials = reached(problem).observed_from(LEAD)
    _, _, mean, cov, _ = naive.dense(problem, policy, CAMERA(problem))
    exact = multivariate_normal(mean[LEAD:], cov[LEAD:, LEAD:])
    each = mc.log_likelihood(problem, trials, observer=CAMERA, per_trial=True)
    assert_allclose(each, exact.logpdf(np.asarray(trials.observed)[:, LEAD:, 0]), rtol=1e-8)


def test_lengths_and_targets_may_differ():
    task = functools.partial(mc.tasks.reaching, **SPREADS)
    samples = [np.asarray(reached(task(steps=n)).observed)[0, LEAD:] for n in (25, 30, 30)]
    trials = mc.Trials.recorded(
        samples, dt=0.01, channels=["position"], conditions={"target": [0.1, 0.12, 0.08]}
    ).with_lead(LEAD * 0.01)
    assert trials.lengths.tolist() == [25, 30, 30]
    together = mc.log_likelihood(task, trials, observer=CAMERA, per_trial=True)
    for trial, value in zip(range(3), together, strict=True):
        problem = task(
            steps=int(trials.lengths[trial]), target=float(trials.conditions["target"][trial])
        )
        alone = np.asarray(trials.observed)[trial, : trials.lengths[trial]]
        loop = naive.log_likelihood(problem, mc.solve(problem), CAMERA(problem), alone)
        assert_allclose(value, loop, rtol=1e-9)


def test_where_every_state_is_recorded_the_first_sample_tells_start_and_aim():
    """The first sample has the density of the spreads, and what follows is as if the first state
    had been known: the agent knows where it starts and what it aims at."""
    problem = mc.tasks.reaching(steps=STEPS, **SPREADS)
    policy = mc.solve(problem)
    trials = reached(problem, observer=None)
    x = np.asarray(trials.observed)
    each = mc.log_likelihood(problem, trials, policy=policy, per_trial=True)
    known = mc.Trials.recorded(x, dt=0.01, starts=x[:, 0])
    later = mc.log_likelihood(problem, known, policy=policy, per_trial=True)
    first = (
        norm.logpdf(x[:, 0, 0], 0, 0.004)
        + norm.logpdf(x[:, 0, 1], 0, 0.03)
        + norm.logpdf(x[:, 0, 4], 0.1, 0.02)
    )
    assert_allclose(each, first + later, rtol=1e-9)


@pytest.mark.parametrize("task", [mc.tasks.reaching, mc.tasks.saccade, mc.tasks.tracking])
def test_spreads_of_zero_change_nothing(task):
    """The problem is the same in every bit, so that no likelihood can differ."""
    problem = task()
    assert_array_equal(problem.initial_belief_cov, 0)
    leaves = zip(
        jax.tree.leaves(problem),
        jax.tree.leaves(problem.replace(initial_belief_cov=None)),
        strict=True,
    )
    for leaf, plain in leaves:
        assert_array_equal(leaf, plain)


def test_without_a_lead_the_fast_filter_is_taken():
    trials = mc.Trials.recorded(np.ones((2, 6, 1)), dt=0.01)
    assert trials.with_lead(0.0) is trials
    assert trials.complete


# Tasks, their spreads, and the states that these are of.
SPREAD = {
    "reaching": (mc.tasks.reaching, SPREADS, [4, 0, 1]),
    "saccade": (
        functools.partial(mc.tasks.saccade, start=0.0),
        {"aim_spread": 0.7, "start_spread": 0.2, "start_speed_spread": 9.0},
        [2, 0, 1],
    ),
    "tracking": (mc.tasks.tracking, {"start_spread": 0.02, "start_speed_spread": 0.1}, [0, 1]),
}


@pytest.mark.parametrize("name", SPREAD)
def test_spreads_are_those_of_the_first_estimate(name):
    task, spreads, states = SPREAD[name]
    cov = np.asarray(task(**spreads).initial_belief_cov)
    assert_allclose(np.sqrt(np.diagonal(cov))[states], list(spreads.values()), rtol=1e-12)


@pytest.mark.parametrize("name", in_time(SPREAD, "saccade", "tracking"))
def test_simulated_trials_differ_as_the_moments_say(name):
    task, spreads, states = SPREAD[name]
    problem = task(steps=30, **spreads)
    policy = mc.solve(problem)
    trials = mc.simulate(problem, policy, n_trials=20_000, key=KEY)
    first = np.asarray(trials.states[:, 0])
    assert_array_equal(first, trials.beliefs[:, 0])  # the agent knows
    assert_allclose(first.std(axis=0)[states], list(spreads.values()), rtol=0.03)
    exact = mc.moments(problem, policy)
    sd = np.sqrt(np.diagonal(np.asarray(exact.state_cov)[-1]))
    assert_allclose(np.asarray(trials.states[:, -1]).std(axis=0), sd, rtol=0.03)
