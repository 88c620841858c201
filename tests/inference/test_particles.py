"""The exact likelihood by particle filters."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm

import motorcost as mc
from made import scalar_problem
from motorcost.inference import particle_groups
from motorcost.inference.adapted_draws import agreeing_normals
from motorcost.inference.averages import averaged
from motorcost.inference.fully_observed_particles import FULLY_OBSERVED
from motorcost.inference.particle_filter import GENERAL
from motorcost.inference.resampling import even_normals, resampled, spacings
from strategies import in_time

KEY = jax.random.key(4)


def likelihood_by_quadrature(problem, observer, samples, nodes=24):
    """The likelihood of four samples of `scalar_problem`, by nested Gauss-Hermite quadrature over
    the states and estimates of the second and third step."""
    A, B, H, C, D, V, W = (
        float(np.asarray(M).ravel()[0])
        for M in (problem.A, problem.B, problem.H, problem.C, problem.D, problem.V, problem.W)
    )
    U = float(np.asarray(observer.U).ravel()[0])
    policy = mc.solve(problem)
    L, K = np.asarray(policy.L).ravel(), np.asarray(policy.K).ravel()
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    weights = weights / weights.sum()

    def density(value, mean, variance):
        return np.exp(-0.5 * (value - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)

    def after(t, x, xh):
        """States and estimates one step later, on two new axes, with their weights."""
        u = -L[t] * xh
        x_sd = np.sqrt(V**2 + (C * u) ** 2)
        xh_sd = np.abs(K[t]) * np.sqrt(W**2 + (D * x) ** 2)
        x_next = (A * x + B * u)[..., None, None] + x_sd[..., None, None] * points[:, None]
        mean = A * xh + B * u + K[t] * H * (x - xh)
        xh_next = mean[..., None, None] + xh_sd[..., None, None] * points
        return x_next, xh_next, np.outer(weights, weights)

    start = np.array(float(problem.initial_belief[0]))
    x2, xh2, w2 = after(0, start, start)
    x2, xh2 = np.broadcast_arrays(x2, xh2)
    x3, xh3, w3 = after(1, x2, xh2)
    u3 = -L[2] * xh3
    last = density(samples[3], A * x3 + B * u3, V**2 + (C * u3) ** 2 + U**2)
    third = (w3 * density(samples[2], x3, U**2) * last).sum(axis=(-1, -2))
    rest = (w2 * density(samples[1], x2, U**2) * third).sum()
    return density(samples[0], start, U**2) * rest


@pytest.fixture(scope="module")
def estimated():
    """The likelihood of a trial that moment matching is wrong about, what it finds, and the ratios
    of many estimates to it, by the number of particles."""
    problem = scalar_problem()
    observer, samples = mc.observe(problem, noise=0.4), np.array([2.2, 2.5, -1.0, 1.5])
    right = likelihood_by_quadrature(problem, observer, samples)
    assert_allclose(right, likelihood_by_quadrature(problem, observer, samples, 30), rtol=1e-3)
    found = {
        n: mc.exact_log_likelihood(
            problem, samples[None, :, None], key=KEY, particles=n, filters=3000, observer=observer
        )
        for n in (8, 128)
    }
    ratios = {n: np.exp(np.asarray(result.estimates[0])) / right for n, result in found.items()}
    return np.log(right), found, ratios


@pytest.mark.parametrize("particles", [8, 128])
def test_likelihoods_are_unbiased(estimated, particles):
    """Even with eight particles, which resample, the mean of the estimates is the likelihood."""
    right, found, ratios = estimated
    error = ratios[particles].std() / np.sqrt(3000)
    assert error < 0.02
    assert abs(ratios[particles].mean() - 1) < 3 * error
    # The test could tell: moment matching is further off.
    assert abs(float(found[particles].moment_matched) - right) > 10 * error


def test_the_variance_falls_as_one_over_the_particles(estimated):
    _, _, ratios = estimated
    # 16 times fewer, or more: particles that are spread evenly do better than independent ones.
    assert ratios[8].var() / ratios[128].var() > 13


def test_the_error_is_how_much_results_vary(estimated):
    right, found, _ = estimated
    value, error = averaged(np.asarray(found[128].estimates).reshape(-1, 4))
    assert_allclose(np.sqrt(np.mean(error**2)), value.std(), rtol=0.1)
    # What the logarithm of an average lacks is put back.
    assert abs(value.mean() - right) < 3 * value.std() / np.sqrt(len(value))


@pytest.mark.parametrize("sense_first", [False, True])
def test_one_particle_is_exact_without_signal_dependent_noise(sense_first):
    """Also where the noise is there, but zero; where samples are missing; and from known starts."""
    problem = scalar_problem(
        C=[[[0.0]]], D=[[[0.0]]], sense_first=sense_first, E=[[0.1]], initial_state_cov=[[0.2]]
    )
    observer = mc.observe(problem, noise=0.4 if sense_first else 0.0)
    trials = mc.simulate(
        problem,
        mc.solve(problem),
        n_trials=3,
        key=KEY,
        observer=observer,
        initial_states=[[1.0], [2.0], [3.0]],
    )
    observed = np.array(trials.observed)
    observed[1, 2] = np.nan
    trials = eqx.tree_at(lambda t: t.observed, trials, jnp.asarray(observed))
    found, total = (
        mc.exact_log_likelihood(
            problem, trials, key=KEY, particles=1, filters=1, observer=observer, per_trial=per_trial
        )
        for per_trial in (True, False)
    )
    usual = mc.log_likelihood(problem, trials, observer=observer, per_trial=True)
    assert_allclose(found.value, usual, rtol=1e-9)
    assert_allclose([*found.error, *found.gap, total.error], 0, atol=1e-9)
    assert_allclose(total.value, usual.sum(), rtol=1e-9)


def unaware(problem):
    """An observer of all states without noise, which does not know that it is one."""
    observer = mc.observe(problem)
    object.__setattr__(observer, "fully_observed", False)
    return observer


@pytest.mark.parametrize(
    "name", in_time(["reaching", "sense first", "random problem"], "sense first", "random problem")
)
def test_the_filter_for_full_observation_is_the_general_one(name, monkeypatch):
    """If it draws controls without regard of the next sample, as the general one does."""
    monkeypatch.setattr(
        particle_groups, "FULLY_OBSERVED", FULLY_OBSERVED._replace(agree=GENERAL.agree)
    )
    if name == "reaching":  # of five channels one is informative
        problem = mc.tasks.reaching(steps=8)
    elif name == "random problem":  # two controls, D, E, and a believed world of its own
        world = mc.tasks.random_problem(jax.random.key(1))(steps=5)
        problem = world.believing(C=[])
    else:
        problem = scalar_problem(sense_first=True)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=2, key=KEY)
    quick, general = (
        mc.exact_log_likelihood(
            # A number of particles of its own: the programs are compiled with the change.
            problem,
            trials,
            key=KEY,
            particles=51,
            filters=2,
            observer=observer,
            per_trial=True,
        )
        for observer in (None, unaware(problem))
    )
    assert_allclose(quick.estimates, general.estimates, rtol=1e-6, atol=1e-6)
    assert np.abs(quick.gap).max() > 1e-4


def test_draws_that_agree_with_samples_vary_less_and_are_unbiased():
    problem = mc.tasks.reaching(steps=8)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=3, key=KEY)
    agreeing, general = (
        np.asarray(
            mc.exact_log_likelihood(
                problem, trials, key=KEY, particles=20, filters=600, observer=observer
            ).estimates
        )
        for observer in (None, unaware(problem))
    )
    assert agreeing.var(axis=1).sum() < 0.6 * general.var(axis=1).sum()
    for one, other in zip(agreeing, general, strict=True):
        ratios = np.exp(np.array([one, other]) - one.mean())
        error = ratios.std(axis=1) / np.sqrt(600)
        assert error.max() < 0.05
        assert abs(np.diff(ratios.mean(axis=1))) < 3 * np.hypot(*error)


@pytest.mark.parametrize("told", [0.01, 1.0, -5.0])
def test_weights_make_up_for_draws_that_agree(told):
    """Of a control of mean 1 and SD 2 or, in a second filter, none, with noise of half its size."""
    n = 100_000
    uniforms = (np.arange(n) + 0.5) / n
    normals = jnp.asarray(np.tile(norm.ppf(uniforms), 2))
    root = jnp.array([2.0, 0.0])

    def log_density(u, count):
        return jnp.asarray(norm.logpdf(told, np.asarray(u), 0.5 * np.abs(np.asarray(u))))

    found, log_weight = (
        np.asarray(part).reshape(2, n)
        for part in agreeing_normals(
            normals,
            jnp.ones(2 * n),
            root,
            (jnp.full(2, told), jnp.full(2, 0.5 * abs(told))),
            log_density,
            n,
        )
    )
    assert_allclose(found[1], normals[n:])
    assert_allclose(log_weight[1], 0)
    weight = np.exp(log_weight[0])
    moments = [(weight * found[0] ** k).mean() for k in range(5)]
    assert_allclose(moments, [1, 0, 1, 0, 3], atol=0.05)
    # The density of the sample: as without, but from about equal weights.
    density = np.exp(log_density(1 + 2 * found[0], n))
    plain = np.exp(log_density(1 + 2 * normals[:n], n))
    exact, _ = quad(
        lambda u: norm.pdf(u, 1, 2) * norm.pdf(told, u, 0.5 * abs(u)),
        -20,
        20,
        points=[0, told],
        limit=500,
    )
    assert_allclose((weight * density).mean(), exact, rtol=0.01)
    assert (weight * density).std() < 0.5 * plain.std()


def test_lengths_and_conditions_run_together():
    """Each trial with its own problem, as in `log_likelihood`; here without noise to draw."""

    def task(steps, target):
        return scalar_problem(steps=steps, C=[[[0.0]]], D=[], initial_belief=jnp.array([target]))

    sets = []
    for steps, target in ((4, 1.0), (6, 2.0)):
        problem = task(steps, target)
        trials = mc.simulate(problem, mc.solve(problem), n_trials=2, key=jax.random.key(steps))
        sets.append(trials.with_conditions(target=target))
    together = mc.concatenate(sets)
    found = mc.exact_log_likelihood(task, together, key=KEY, particles=1, per_trial=True)
    assert_allclose(found.value, mc.log_likelihood(task, together, per_trial=True), rtol=1e-9)


def test_what_cannot_be_done_is_said():
    problem = scalar_problem()
    observed = np.ones((1, 4, 1))
    with pytest.raises(mc.InputError, match="must be at least 1, got 0"):
        mc.exact_log_likelihood(problem, observed, key=KEY, particles=0)
    with pytest.raises(mc.InputError, match="cannot be part of a compiled program"):
        jax.jit(lambda o: mc.exact_log_likelihood(problem, o, key=KEY).value)(observed)
    # The noise of one control moves the same way as another control, which has none of its own.
    locked = mc.Problem(
        steps=3,
        A=np.eye(2),
        B=np.eye(2),
        H=np.eye(2),
        Q=np.eye(2),
        R=np.eye(2),
        C=[[[0.5, 0.5], [0.0, 0.0]]],
        W=np.eye(2),
        initial_belief=[1.0, 1.0],
        initial_state_cov=np.eye(2),
    )
    trials = mc.simulate(locked, mc.solve(locked), n_trials=1, key=KEY)
    with pytest.raises(mc.InputError, match="no particle explains trial 0"):
        mc.exact_log_likelihood(locked, trials, key=KEY, particles=20)


def test_normals_are_even_and_new_at_every_step():
    steps = spacings(3, 2)
    shifts = jax.random.uniform(KEY, (2, 5))
    first, second = (np.asarray(even_normals(shifts, steps[t], 400)) for t in (0, 1))
    every = np.concatenate([first, second]).reshape(4, 5, 400)
    # Independent numbers would have means that vary by 0.05.
    assert np.abs(every.mean(axis=2)).max() < 0.02
    assert_allclose(every.std(axis=2), 1, atol=0.02)
    for one, other in itertools.combinations(every, 2):
        assert np.abs((one * other).mean(axis=1)).max() < 0.15


def test_resampling_keeps_what_weights_say():
    weights = np.array([[0.05, 0.7, 0.05, 0.2], [0.25, 0.25, 0.25, 0.25]])
    uniforms = (np.arange(1000) + 0.5) / 1000
    counts = np.zeros(4)
    for uniform in uniforms[::50]:
        drawn, after = resampled(
            jnp.arange(8.0)[None, None], jnp.log(jnp.asarray(weights))[None], jnp.full(2, uniform)
        )
        counts += np.bincount(np.asarray(drawn[0, 0, :4], int), minlength=4)
        assert_allclose(drawn[0, 0, 4:], [4, 5, 6, 7])  # even weights are left alone
        assert_allclose(np.exp(after), 0.25)
    assert_allclose(counts / 20, 4 * weights[0], atol=0.05)


def test_averages_of_logs():
    logs = np.log([[1.0, 2.0, 3.0]]) - 1000
    value, error = averaged(logs)
    assert_allclose(error, 0.5 / np.sqrt(3), rtol=0.1)  # the error of a mean of 2, over it
    assert_allclose(value + 1000, np.log(2) + 0.5 * error**2, atol=0.02)
    assert np.isnan(averaged(logs[:, :1])[1]).all()
