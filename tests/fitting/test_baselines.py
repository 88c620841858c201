import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

import motorcost as mc
import naive
from motorcost.fitting.specification import make_objective
from strategies import SHAPES, make_problem

KEY = jax.random.key(0)
STEPS = 12  # as in other files, which share what is compiled for reaches


def noisy(scale=1.0, steps=8):
    """Every kind of noise, on control and on state."""
    problem = make_problem(SHAPES[1], 5, steps=8)
    C = [scale * problem.C[:, i] for i in range(problem.C.shape[1])]
    return problem.replace(C=C)


def dense_likelihood(problem, observer, samples):
    _, _, mean, cov, _ = naive.dense(problem, mc.solve(problem), observer)
    return [multivariate_normal(mean, cov).logpdf(np.ravel(trial)) for trial in samples]


def test_without_signal_noise_it_is_the_dense_gaussian():
    problem = noisy()
    plain = mc.baselines.without_signal_noise(noisy)()
    assert plain.C.shape[1] == plain.D.shape[1] == 0
    assert_allclose(plain.V, problem.V)
    assert_allclose(plain.W, problem.W)
    observer = mc.observe(plain, noise=0.3)
    samples = np.random.default_rng(0).normal(size=(3, 8, 3))
    each = mc.log_likelihood(plain, samples, observer=observer, per_trial=True)
    assert_allclose(each, dense_likelihood(plain, observer, samples), rtol=1e-9)
    with_it = mc.log_likelihood(problem, samples, observer=mc.observe(problem, noise=0.3))
    assert not np.isclose(each.sum(), with_it)


def test_average_noise_is_the_mean_square_over_simulated_trials():
    problem = noisy()
    plain = mc.baselines.with_average_noise(noisy)()
    assert plain.C.shape[1] == plain.D.shape[1] == 0
    trials = mc.simulate(problem, mc.solve(problem), n_trials=20_000, key=KEY)
    uu = np.einsum("bti,btj->ij", trials.controls, trials.controls) / (20_000 * 7)
    xx = np.einsum("bti,btj->ij", trials.states[:, :-1], trials.states[:, :-1]) / (20_000 * 7)
    for of, mean, before, after in (
        (problem.C, uu, problem.V, plain.V),
        (problem.D, xx, problem.W, plain.W),
    ):
        added = after @ after.swapaxes(1, 2) - before @ before.swapaxes(1, 2)
        expected = np.einsum("tcij,jk,tclk->til", of, mean, of)
        # Means of 20,000 trials are known to about a hundredth.
        assert_allclose(added, expected, rtol=0.05, atol=0.02 * np.abs(expected).max())
    observer = mc.observe(plain, noise=0.3)
    samples = np.random.default_rng(0).normal(size=(3, 8, 3))
    each = mc.log_likelihood(plain, samples, observer=observer, per_trial=True)
    assert_allclose(each, dense_likelihood(plain, observer, samples), rtol=1e-9)


def test_average_noise_at_given_parameters_does_not_follow_those_that_are_tried():
    task = mc.tasks.reaching
    fixed = mc.baselines.with_average_noise(task, at={"effort": 1e-5})
    follows = mc.baselines.with_average_noise(task)
    at_truth = follows(effort=1e-5, steps=STEPS)
    assert_allclose(fixed(effort=1e-3, steps=STEPS).V, at_truth.V, rtol=1e-10)
    assert_allclose(fixed(effort=1e-3, steps=STEPS).R[0], 1e-3 / (STEPS - 1), rtol=1e-12)
    elsewhere = follows(effort=1e-3, steps=STEPS).V
    assert np.abs(elsewhere).max() < 0.5 * np.abs(at_truth.V).max()


def test_a_task_without_signal_noise_is_left_as_it_is():
    def plain(gain=1.0, steps=8):
        return make_problem(SHAPES[1], 5).replace(C=[], D=[])

    samples = np.random.default_rng(0).normal(size=(3, 8, 3))
    before = mc.log_likelihood(plain(), samples, observer=mc.observe(plain(), noise=0.3))
    for baseline in (mc.baselines.without_signal_noise, mc.baselines.with_average_noise):
        problem = baseline(plain)()
        after = mc.log_likelihood(problem, samples, observer=mc.observe(problem, noise=0.3))
        assert_allclose(after, before, rtol=1e-10)


def test_the_agent_of_a_baseline_knows_no_signal_noise_either():
    def wrong(steps=8):
        problem = noisy()
        return problem.believing(A=0.9 * problem.A)

    plain = mc.baselines.without_signal_noise(wrong)()
    assert plain.believed.C.shape[1] == plain.believed.D.shape[1] == 0
    assert_allclose(plain.believed.A, 0.9 * plain.A)


def test_an_agent_that_did_not_know_its_noise_does_not_learn_it_in_a_baseline():
    """It believed in none, so what it believes is the same problem before and after."""

    def unaware(steps=8):
        return noisy().believing(C=[], D=[])

    believed = unaware().believed
    plain = mc.baselines.with_average_noise(unaware)()
    assert_allclose(mc.solve(plain).K, mc.solve(believed).K, rtol=1e-8)


def test_declared_parameters_and_conditions_are_kept():
    """So that a baseline is fitted as its task is; its noise can be differentiated."""
    for make in (mc.baselines.without_signal_noise, mc.baselines.with_average_noise):
        task = make(mc.tasks.reaching)
        assert mc.tasks.parameters(task) == mc.tasks.parameters(mc.tasks.reaching)
        assert mc.tasks.defaults(task) == mc.tasks.defaults(mc.tasks.reaching)
        trials = mc.Trials.recorded(np.ones((2, STEPS, 1)), dt=0.01, channels=["position"])
        seen = mc.ObserverSpec(["position"], noise=0.1)
        model = make_objective(task, trials, ["effort", "velocity"], observer=seen)
        problem, _ = model.at(model.point({"effort": 1e-4, "velocity": 0.3}))(steps=STEPS)
        assert_allclose(problem.R[0], 1e-4 / (STEPS - 1), rtol=1e-9)

    def strength(effort):
        return jnp.sum(
            mc.baselines.with_average_noise(mc.tasks.reaching)(effort=effort, steps=STEPS).V ** 2
        )

    with_slope = jax.jit(jax.value_and_grad(strength))
    h = 1e-8
    difference = with_slope(1e-5 + h)[0] - with_slope(1e-5 - h)[0]
    assert_allclose(with_slope(1e-5)[1], difference / (2 * h), rtol=1e-5)
