"""Sequential Monte Carlo against integrals on a grid."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost.errors import ConvergenceError
from motorcost.fitting.batching import log_likelihoods_along
from motorcost.fitting.specification import make_objective
from motorcost.posterior.kept import Kept
from motorcost.posterior.laplace import DensityOnHost, find_peak
from motorcost.posterior.maxima import Maxima, hill_of, hills_among
from motorcost.posterior.modes import Hill, Modes, modes_of
from motorcost.posterior.priors import prior_of
from motorcost.posterior.smc import _next_rise, sample_smc
from motorcost.posterior.target import IMPOSSIBLE, Target

ONE = np.eye(1)
PRIOR = mc.Normal(-0.2, 0.8)


@mc.tasks.declare(lean=mc.tasks.Parameter("where it begins", support=mc.Uniform(-5.0, -0.5)))
def leaning(lean=-1.0, steps=5):
    """A noisy point that is steered to 0 from a start that `lean` and -`lean` share but for a jump
    at 0.9: C = D = 0, so the likelihood is exact."""
    start = jnp.asarray(lean) ** 2 + 0.2 * (jnp.asarray(lean) > 0.9)
    return mc.Problem(
        steps=steps,
        A=ONE,
        B=ONE,
        H=ONE,
        Q=ONE,
        R=ONE,
        V=0.5 * ONE,
        W=0.5 * ONE,
        initial_belief=jnp.reshape(start, 1),
        initial_state_cov=0.25 * ONE,
    )


def simulated(lean=-1.0):
    problem = leaning(lean)
    return mc.simulate(problem, mc.solve(problem), n_trials=6, key=jax.random.key(0))


def target_of(prior, lean=-1.0):
    objective = make_objective(leaning, simulated(lean), {"lean": prior})
    return Target(objective, (prior_of("lean", prior, None),))


def sampled(method, **options):
    return mc.sample(
        leaning,
        simulated(),
        {"lean": PRIOR},
        key=jax.random.key(3),
        method=method,
        n_starts=4,
        predictive=False,
        **options,
    )


def on_a_grid(target, points):
    """The log evidence and the posterior's shares of the cells around `points`."""
    (prior,) = target.priors
    logs = log_likelihoods_along(target.objective, points[:, None])
    logs = logs + np.asarray(prior.log_density(jnp.asarray(points)))
    total = np.logaddexp.reduce(logs)
    return total + np.log(points[1] - points[0]), np.exp(logs - total)


@pytest.fixture(scope="module")
def two_modes():
    """With its draws on the search scale, and the grid's shares."""
    target = target_of(PRIOR)
    draws = sample_smc(target, jax.random.key(3), n_draws=1000)
    on_search_scale = jax.vmap(jax.vmap(target.to_search_scale))(jnp.asarray(draws.points))
    draws = dataclasses.replace(draws, points=np.asarray(on_search_scale))
    points = np.arange(-3.0, 3.0, 0.01) + 0.005
    return target, draws, points, *on_a_grid(target, points)


def test_two_modes_have_the_weights_of_the_grid(two_modes):
    _, draws, points, _, shares = two_modes
    right = shares[points > 0].sum()
    assert 0.25 < right < 0.35  # it has two modes
    assert shares[np.abs(points) < 0.2].sum() < 0.01
    tops = [points[points < 0][np.argmax(shares[points < 0])]]
    tops += [points[points > 0][np.argmax(shares[points > 0])]]
    hills = [Hill(np.array([top]), np.eye(1) / 0.1**2, 0.0, {"lean": float(top)}) for top in tops]
    modes = modes_of(draws.points, hills)
    assert modes.errors[1] < 0.04
    assert abs(modes.weights[1] - right) < 4 * max(modes.errors[1], 0.01)
    assert modes.words().startswith("two explanations: 0.")
    assert not modes.chains_apart


@pytest.fixture(scope="module")
def post():
    return sampled("smc")


def test_the_posterior_tells_modes_and_evidence_of_the_grid(post, two_modes):
    _, _, points, log_evidence, shares = two_modes
    right = shares[points > 0].sum()
    of_populations = (post.posterior.lean.values > 0).mean(axis=1)
    error = max(of_populations.std(ddof=1) / np.sqrt(len(of_populations)), 0.01)
    assert abs(of_populations.mean() - right) < 4 * error
    said, of_prior = post.verdicts
    shown = f"{of_populations.mean():.2f} ± {of_populations.std(ddof=1) / 2:.2f}"
    assert said.startswith("two explanations: ")
    assert f"{shown} of the posterior around lean 0.8" in said
    assert abs(post.log_evidence - log_evidence) < 4 * max(post.log_evidence_error, 0.02)
    assert post.log_evidence_error < 0.1
    assert of_prior.startswith(
        "only 40 % of the prior of lean, Normal(-0.2, 0.8), lies within the v"
    )
    # The density is that of the grid, at the draws, on the scale in SDs of the prior.
    draws = post.posterior.lean.values.ravel()
    grid = np.log(np.maximum(shares, 1e-300) / (points[1] - points[0])) + log_evidence
    smooth = np.abs(draws - 0.9) > 0.02
    expected = np.interp(draws[smooth], points, grid) + np.log(PRIOR.sd)
    assert_allclose(post.sample_stats.lp.values.ravel()[smooth], expected, atol=0.01)


def test_a_mode_that_no_search_reported_is_found_in_the_draws(two_modes):
    """A fit that knows one maximum only: draws around the other lead to it."""
    target, draws, points, _, shares = two_modes
    peak = find_peak(DensityOnHost(target, 4), np.array([-1.0]))
    known = Maxima((peak,), (hill_of(target, peak, peak.log_density),), (), 4)
    flat = draws.points.reshape(-1, 1)
    assert modes_of(draws.points, known.hills).words() == ""
    free = np.asarray(jax.vmap(target.to_unconstrained)(jnp.asarray(flat)))
    hills = hills_among(target, known, free, flat, draws.log_densities.ravel())
    assert len(hills) == 2
    top = points[points > 0][np.argmax(shares[points > 0])]
    assert abs(hills[1].estimates["lean"] - top) < 0.01
    modes = modes_of(draws.points, hills)
    assert abs(modes.weights[1] - shares[points > 0].sum()) < 4 * max(modes.errors[1], 0.01)
    assert modes.words().startswith("two explanations: 0.")


@pytest.mark.slow
def test_chains_from_both_maxima_are_said_to_sit_there():
    post = sampled("nuts", n_chains=2, n_draws=50, n_warmup=20)
    said = post.verdicts[0]
    assert said.startswith("the chains sit at different maxima (1 at lean -0.8")
    assert "; 1 at lean 0.8" in said


def test_the_evidence_is_the_integral(two_modes):
    _, draws, _, log_evidence, _ = two_modes
    assert draws.log_evidence_error < 0.1
    assert abs(draws.log_evidence - log_evidence) < 4 * max(draws.log_evidence_error, 0.02)
    assert draws.powers[0] == 0
    assert draws.powers[-1] == 1
    assert len(draws.acceptances) == len(draws.powers) - 1


def test_a_jump_is_where_it_is(two_modes):
    """The share of the posterior beyond the jump, where the density falls to a half."""
    _, draws, points, _, shares = two_modes
    assert shares[points > 0.9][0] < 0.6 * shares[points < 0.9][-1]
    found = (draws.points > 0.9).mean(axis=(1, 2))
    error = found.std(ddof=1) / np.sqrt(len(found))
    assert abs(found.mean() - shares[points > 0.9].sum()) < 4 * max(error, 0.003)


def test_one_mode_is_that_of_the_grid():
    # The same prior and sizes as with two modes, and so the same programs.
    target = target_of(PRIOR, lean=0.0)
    draws = sample_smc(target, jax.random.key(4), n_draws=1000)
    points = np.arange(-3.0, 3.0, 0.01) + 0.005
    log_evidence, shares = on_a_grid(target, points)
    assert (np.diff(np.sign(np.diff(shares))) < 0).sum() == 1
    found = np.asarray(jax.vmap(jax.vmap(target.to_search_scale))(jnp.asarray(draws.points)))
    mean = (shares * points).sum()
    sd = np.sqrt((shares * (points - mean) ** 2).sum())
    n = draws.effective_sizes[0]
    assert n > 300
    assert abs(found.mean() - mean) < 4 * sd / np.sqrt(n)
    assert_allclose(found.std(), sd, rtol=4 / np.sqrt(2 * n))
    for level in (0.05, 0.25, 0.75, 0.95):
        share = shares[points < np.quantile(found, level)].sum()
        assert abs(share - level) < 4 * np.sqrt(level * (1 - level) / n)
    assert abs(draws.log_evidence - log_evidence) < 4 * max(draws.log_evidence_error, 0.02)


def test_the_same_key_gives_the_same_draws_also_after_an_interruption(two_modes, tmp_path):
    target, *_ = two_modes
    reported, kept = [], Kept(tmp_path)

    def stopping(what, done, total):
        reported.append(done)
        if len(reported) == 2:
            raise KeyboardInterrupt

    first = sample_smc(target, jax.random.key(5), n_draws=1000)
    with pytest.raises(KeyboardInterrupt):
        sample_smc(target, jax.random.key(5), n_draws=1000, progress=stopping, kept=kept)
    second = sample_smc(target, jax.random.key(5), n_draws=1000, progress=stopping, kept=kept)
    np.testing.assert_array_equal(first.points, second.points)
    np.testing.assert_array_equal(first.log_evidences, second.log_evidences)
    assert first.powers == second.powers
    assert first.acceptances == second.acceptances
    assert reported == [1, 2, *range(2, len(first.powers))]


def test_a_rise_leaves_out_what_is_impossible():
    values = np.full((1, 10, 10), IMPOSSIBLE)
    values[0, 0] = -np.arange(10.0) * 1e6
    rise = _next_rise(values, 1.0)
    weights = np.exp(-rise * 1e6 * np.arange(10.0))
    assert_allclose(weights.sum() ** 2 / (weights**2).sum(), 5.0, rtol=1e-3)
    assert _next_rise(np.zeros((2, 3, 3)), 0.25) == 0.25


def test_an_impossible_prior_is_said(monkeypatch, two_modes):
    target, *_ = two_modes
    monkeypatch.setattr(
        "motorcost.posterior.smc._run_chains",
        lambda target, key, starts, values, *rest: (
            np.zeros((*starts.shape[:2], 10, 1)),
            np.full((*starts.shape[:2], 10), IMPOSSIBLE),
            1.0,
        ),
    )
    with pytest.raises(ConvergenceError, match="none of 500 draws from the priors"):
        sample_smc(target, jax.random.key(0), n_draws=10)


def test_chains_that_sit_at_different_maxima_are_said():
    at = ({"effort": 1e-5}, {"effort": 1e-4})
    apart = Modes(at, np.array([[1.0, 0.0], [1.0, 0.0], [0.01, 0.99]]))
    assert apart.chains_apart
    assert "2 at effort 1e-05; 1 at effort 0.0001" in apart.words_of_chains()
    mixing = Modes(at, np.array([[0.7, 0.3], [0.74, 0.26]]))
    assert mixing.words_of_chains() == ""
    assert mixing.words().startswith(
        "two explanations: 0.72 ± 0.02 of the posterior around effort 1e-05; 0.28 ± 0.02"
    )
    assert Modes(at, np.array([[1.0, 0.0]])).words() == ""


def test_draws_belong_to_the_highest_parabola():
    """The second is 1 lower and twice as wide."""
    first = Hill(np.array([-11.5]), np.eye(1) * 100.0, 0.0, {"effort": 1e-5})
    second = Hill(np.array([-9.0]), np.eye(1) * 25.0, -1.0, {"effort": np.exp(-9.0)})
    # Between them, the parabolas cross nearer to the narrow one: 0.84 from it, not 1.25.
    draws = np.array([[[-11.5], [-11.5 + 0.8], [-11.5 + 0.9], [-9.3]]])
    assert_allclose(modes_of(draws, [first, second]).shares, [[0.5, 0.5]])
