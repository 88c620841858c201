"""Posteriors by NUTS and by Laplace's approximation, against numerical integration."""

import functools
import json
from dataclasses import replace

import arviz_quiet
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import log_density

import motorcost as mc
from motorcost.fitting.batching import log_likelihoods_along
from motorcost.fitting.specification import make_objective
from motorcost.posterior.calibration import SAMPLERS
from motorcost.posterior.likelihoods import Likelihood, factor
from motorcost.posterior.priors import little_within, prior_of
from motorcost.posterior.result import load_posterior
from motorcost.posterior.sampling import sample
from motorcost.posterior.target import Target
from motorcost.posterior.words import convergence_table
from motorcost.sweeps.identity import checksum_of_trials

DRAWS, CHAINS = 1000, 2


def coasting(*, effort=0.1, target=1.0, steps=6, dt=0.1):
    """A point that is pushed, with noise that does not depend on the control: C = D = 0."""
    A = jnp.array([[1.0, dt, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    B = jnp.array([[0.0], [dt], [0.0]])
    goal = jnp.array([1.0, 0.0, -1.0])
    return mc.Problem(
        A=A,
        B=B,
        H=jnp.eye(3)[:2],
        Q=jnp.zeros((steps, 3, 3)).at[-1].set(jnp.outer(goal, goal)),
        R=effort * jnp.eye(1) / steps,
        V=jnp.diag(jnp.array([0.01, 0.1, 0.0])),
        W=0.05 * jnp.eye(2),
        initial_belief=jnp.array([0.0, 0.0, target]),
        dt=dt,
        states=["position", "velocity", "target"],
        steps=steps,
    )


@functools.wraps(coasting)
def shifted(**arguments):
    """Another task of the same name."""
    return coasting(**arguments | {"target": 1.1})


@pytest.fixture(scope="module")
def trials():
    problem = coasting()
    return mc.simulate(problem, mc.solve(problem), n_trials=8, key=jax.random.key(0))


@pytest.fixture(scope="module")
def prior():
    return {"effort": mc.LogNormal(0.1, 1.0)}


@pytest.fixture(scope="module")
def drawn(trials, prior):
    key = jax.random.key(0)
    return sample(coasting, trials, prior, key=key, n_chains=CHAINS, n_draws=DRAWS, n_starts=2)


@pytest.fixture(scope="module")
def reaches(trials):
    return Likelihood(coasting, trials, {"effort": mc.LogUniform(1e-4, 1e2)})


@pytest.fixture(scope="module")
def grid(trials, prior):
    """Points on the search scale, their posterior weights, and the log evidence."""
    fit = mc.fit(coasting, trials, prior, key=jax.random.key(0), n_starts=2)
    points = np.linspace(np.log(0.1) - 5, np.log(0.1) + 5, 801)
    of_prior = -0.5 * (points - np.log(0.1)) ** 2 - 0.5 * np.log(2 * np.pi)
    values = log_likelihoods_along(fit.objective, points[:, None]) + of_prior
    weights = np.exp(values - values.max())
    step = points[1] - points[0]
    return points, weights / weights.sum(), values.max() + np.log(weights.sum() * step)


def interrupted_at(done, told):
    """A progress function that notes what it is told, and stops a sampling as a kill would."""

    def progress(what, so_far, total):
        told.append((what, so_far))
        if what == "sampling" and so_far >= done:
            raise KeyboardInterrupt

    return progress


def test_an_interrupted_sampling_goes_on_as_if_undisturbed(trials, prior, drawn, tmp_path):
    settings = {
        "n_chains": CHAINS,
        "n_draws": DRAWS,
        "n_starts": 2,
        "predictive": False,
        "folder": tmp_path / "kept",
    }
    first, second = [], []
    key = jax.random.key(0)
    with pytest.raises(KeyboardInterrupt):
        sample(coasting, trials, prior, key=key, **settings, progress=interrupted_at(300, first))
    with pytest.raises(
        mc.InputError, match=r"holds another sampling .*n_warmup 200 there, 100 her"
    ):
        sample(coasting, trials, prior, key=key, **settings, n_warmup=100)
    with pytest.raises(mc.InputError, match="the task has changed"):
        sample(shifted, trials, prior, key=key, **settings)
    post = sample(
        coasting, trials, prior, key=key, **settings, progress=interrupted_at(1e9, second)
    )
    np.testing.assert_array_equal(post.posterior.effort, drawn.posterior.effort)
    np.testing.assert_array_equal(post.sample_stats.n_steps, drawn.sample_stats.n_steps)
    assert post.verdicts == drawn.verdicts
    assert {what for what, _ in first} >= {"searching", "sampling"}
    assert "searching" not in {what for what, _ in second}
    assert next(so_far for what, so_far in second[1:] if what == "sampling") > 0
    piece = max((tmp_path / "kept").glob("chains-*.npz"))
    piece.write_bytes(piece.read_bytes()[:50])
    with pytest.raises(mc.InputError, match=r"cannot be read .*: delete"):
        sample(coasting, trials, prior, key=key, **settings)


def test_a_folder_with_other_files_is_left_alone(trials, prior, tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(mc.InputError, match=r"holds other files \(thesis.tex\)"):
        sample(coasting, trials, prior, key=jax.random.key(0), folder=tmp_path)


def test_nuts_equals_integration_on_a_grid(drawn, grid):
    points, weights, _ = grid
    mean = (weights * points).sum()
    sd = np.sqrt((weights * (points - mean) ** 2).sum())
    logs = np.log(drawn.posterior.effort.values)
    effective = convergence_table(np.log(drawn.posterior))["effort"]["ess_bulk"]
    assert effective > 300
    error = sd / np.sqrt(effective)
    assert abs(logs.mean() - mean) < 4 * error
    assert abs(logs.std() - sd) < 4 * error
    edges = np.interp([0.025, 0.975], np.cumsum(weights), points)
    assert abs((logs < edges[0]).mean() - 0.025) < 0.02
    assert abs((logs > edges[1]).mean() - 0.025) < 0.02


# One of the eight trials decides more than the others, as ArviZ says.
@pytest.mark.filterwarnings("ignore:For one or more samples the posterior variance")
def test_arviz_takes_it(drawn):
    az = arviz_quiet.az
    table = az.summary(drawn)
    assert table.loc["effort", "r_hat"] <= 1.01
    assert np.isfinite(az.loo(drawn).elpd_loo)
    logs = drawn.log_likelihood.trials.values.reshape(-1, drawn.log_likelihood.sizes["trial"])
    predictive = np.logaddexp.reduce(logs) - np.log(len(logs))
    np.testing.assert_allclose(
        az.waic(drawn).elpd_waic, (predictive - logs.var(axis=0)).sum(), rtol=1e-9
    )
    assert drawn.verdicts == []
    assert "effort" in drawn.summary()
    assert drawn.posterior_predictive.observed.shape[2:] == drawn.observed_data.observed.shape
    beliefs = drawn.posterior_predictive.belief
    assert beliefs.dims == ("chain", "draw", "trial", "time", "state")
    assert np.isfinite(beliefs.values).all()


def test_log_likelihoods_are_those_of_the_draws(drawn, trials):
    kept = drawn.log_likelihood.trials.isel(chain=1, draw=-1)
    number = int(kept.draw)
    effort = float(drawn.posterior.effort.isel(chain=1).sel(draw=number))
    expected = mc.log_likelihood(coasting(effort=effort), trials, per_trial=True)
    np.testing.assert_allclose(kept, expected, rtol=1e-8)


def test_laplace_is_quick_and_near(trials, prior, grid):
    post = sample(
        coasting,
        trials,
        prior,
        key=jax.random.key(0),
        method="laplace",
        n_draws=DRAWS,
        n_starts=2,
        predictive=False,
    )
    points, weights, log_evidence = grid
    mean = (weights * points).sum()
    sd = np.sqrt((weights * (points - mean) ** 2).sum())
    logs = np.log(post.posterior.effort.values)
    assert abs(logs.mean() - mean) < 0.3 * sd
    assert 0.8 < logs.std() / sd < 1.2
    assert abs(post.log_evidence - log_evidence) < 0.1
    assert "not the posterior itself" in post.summary()


def test_a_saved_posterior_is_read_again(drawn, tmp_path):
    (tmp_path / "other").touch()
    usual = (tmp_path / "other").stat().st_mode
    (tmp_path / "other").unlink()
    file = drawn.save(tmp_path / "posterior.nc")
    again = load_posterior(file)
    assert file.stat().st_mode == usual  # others may read it as they may any file
    np.testing.assert_array_equal(again.posterior.effort, drawn.posterior.effort)
    assert again.posterior.attrs["key"] == drawn.posterior.attrs["key"]
    assert again.summary() == drawn.summary()
    assert [file.name for file in tmp_path.iterdir()] == ["posterior.nc"]


def test_how_it_was_made_is_saved_with_it(drawn, trials, tmp_path):
    made = load_posterior(drawn.save(tmp_path / "posterior.nc")).posterior.attrs
    assert made["task"] == f"{__name__}.coasting"
    assert json.loads(made["priors"]) == {"effort": "LogNormal(0.1, 1)"}
    assert (made["fixed"], made["observer"]) == ("{}", "None")
    assert (made["n_draws"], made["n_warmup"], made["target_accept"]) == (DRAWS, 200, 0.7)
    assert json.loads(made["key"]) == jax.random.key_data(jax.random.key(0)).tolist()
    assert made["motorcost_version"]
    assert made["trials_checksum"] == checksum_of_trials(trials)
    other = np.array(trials.observed)
    other[3, 2, 1] += 1e-9
    assert (
        checksum_of_trials(eqx.tree_at(lambda t: t.observed, trials, other))
        != (made["trials_checksum"])
    )


def model_around(reaches):
    effort = numpyro.sample("effort", dist.LogNormal(jnp.log(0.1), 1.0))
    factor("reaches", reaches, effort=effort)


def test_a_numpyro_model_around_the_likelihood(reaches, trials):
    efforts = jnp.array([0.05, 0.3])
    of_model = jax.jit(
        jax.vmap(lambda e: log_density(model_around, (reaches,), {}, {"effort": e})[0])
    )
    for effort, value in zip(efforts, of_model(efforts), strict=True):
        prior = dist.LogNormal(jnp.log(0.1), 1.0).log_prob(effort)
        expected = prior + mc.log_likelihood(coasting(effort=float(effort)), trials)
        np.testing.assert_allclose(value, expected, rtol=1e-9)


@pytest.mark.slow
def test_numpyros_own_sampler_of_such_a_model(reaches, drawn):
    runs = MCMC(
        NUTS(model_around, dense_mass=True),
        num_warmup=100,
        num_samples=200,
        num_chains=2,
        chain_method="vectorized",
        progress_bar=False,
    )
    runs.run(jax.random.key(3), reaches)
    logs, ours = np.log(runs.get_samples()["effort"]), np.log(drawn.posterior.effort.values)
    assert abs(logs.mean() - ours.mean()) < 4 * ours.std() / np.sqrt(80)


@pytest.mark.slow
def test_nuts_of_reaches_agrees_with_profile_intervals():
    priors = {
        "effort": mc.LogUniform(1e-8, 1e-2),
        "velocity": mc.LogUniform(1e-3, 10.0),
        "force": mc.LogUniform(1e-4, 1.0),
    }
    problem = mc.tasks.reaching(effort=1e-5, velocity=0.2, force=0.02)
    reaches = mc.simulate(problem, mc.solve(problem), n_trials=100, key=jax.random.key(0))
    key = jax.random.key(1)
    # So many draws that an end's Monte Carlo error is about 0.025 standard errors.
    post = sample(mc.tasks.reaching, reaches, priors, key=key, n_draws=4_000, predictive=False)
    assert max(row["r_hat"] for row in convergence_table(post.posterior).values()) < 1.01
    assert int(post.sample_stats.diverging.sum()) == 0
    fit = mc.fit(mc.tasks.reaching, reaches, priors, key=key, n_starts=4)
    fit = replace(fit, trial_scores=None)  # the posterior takes the likelihood to be right
    ends, drawn = fit.interval(0.95, method="profile"), post.interval(0.95)
    errors = np.sqrt(np.diagonal(np.linalg.inv(fit.information)))
    for name, error in zip(fit.names, errors, strict=True):
        np.testing.assert_allclose(np.log(drawn[name]), np.log(ends[name]), atol=0.1 * error)


def test_a_likelihood_refuses_other_parameters(reaches):
    with pytest.raises(mc.InputError, match="takes effort, got force"):
        reaches(force=1.0)
    with pytest.raises(mc.InputError, match="shape"):
        reaches(effort=jnp.ones(3))


@pytest.mark.parametrize("method", ["laplace", "nuts"])
def test_calibration_samples_the_same_posterior(method, trials, prior, grid):
    objective = make_objective(coasting, trials, prior)
    target = Target(objective, (prior_of("effort", prior["effort"], None),))
    points = SAMPLERS[method](target, jax.random.key(5), 300)
    drawn = np.asarray(jax.vmap(jax.vmap(target.to_search_scale))(jnp.asarray(points)))[..., 0]
    points, weights, _ = grid
    mean = (weights * points).sum()
    sd = np.sqrt((weights * (points - mean) ** 2).sum())
    assert drawn.shape == (1, 300)
    assert abs(drawn.mean() - mean) < 0.3 * sd
    assert 0.8 < drawn.std() / sd < 1.2


@pytest.mark.parametrize(
    "prior",
    [
        mc.LogUniform(1e-3, 10.0),
        mc.Uniform(0.0, 2.0),
        mc.LogNormal(0.1, 0.7),
        mc.Normal(0.3, 0.2, low=0.1),
        mc.Normal(-0.5, 0.4, high=0.2),
        dist.Gamma(2.0, 5.0),
        dist.Beta(2.0, 3.0),
        dist.LogUniform(1e-3, 10.0),
        dist.Normal(1.0, 2.0),
    ],
    ids=lambda prior: type(prior).__name__ if not isinstance(prior, mc.Support) else str(prior),
)
def test_priors_integrate_to_one_and_come_back(prior):
    known = prior_of("effort", prior, None)
    free = jnp.linspace(-40.0, 40.0, 40_001)
    density = jnp.exp(known.log_density_free(free))
    assert abs(float(jnp.trapezoid(density, free)) - 1) < 2e-4
    near = jnp.linspace(-3.0, 3.0, 7)
    np.testing.assert_allclose(known.to_unconstrained(known.to_search_scale(near)), near, atol=1e-6)
    draws = known.to_unconstrained(known.draw(jax.random.key(0), (4_000,)))
    mean = float(jnp.trapezoid(density * free, free))
    sd = float(jnp.sqrt(jnp.trapezoid(density * (free - mean) ** 2, free)))
    assert abs(float(draws.mean()) - mean) < 4 * sd / np.sqrt(4_000)


@pytest.mark.parametrize(
    ("prior", "text", "mass"),
    [
        (mc.LogUniform(1e-10, 1e-2), "LogUniform(1e-10, 0.01)", 0.75),
        (mc.LogNormal(0.005, 0.7), "LogNormal(0.005, 0.7)", 0.83896),
        # Of the part above 0.005, a third of it between the median and one SD below.
        (mc.Normal(0.01, 0.005, low=0.005), "Normal(0.01, 0.005, low=0.005)", 0.34134 / 0.84134),
        (mc.Uniform(-1.0, 1.0), "Uniform(-1, 1)", 0.005),
        (mc.LogNormal(1e9, 0.1), "LogNormal(1e+09, 0.1)", 0.0),
        (dist.Exponential(100.0), "Exponential(100)", 1 - np.exp(-1.0)),
        (
            dist.TruncatedNormal(0.01, 0.005, low=0.0),
            "LeftTruncatedDistribution(Normal(0.01, 0.005), 0)",
            (0.5 - 0.02275) / (1 - 0.02275),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_how_much_of_a_prior_lies_where_the_task_takes_values(prior, text, mass):
    known = prior_of("effort", prior, None)
    assert str(known) == text
    by_draws = isinstance(prior, dist.Distribution)
    found = known.mass_within(1e-8, 1e-2)
    np.testing.assert_allclose(found, mass, atol=0.03 if by_draws else 2e-4)
    said = little_within("effort", known, mc.LogUniform(1e-8, 1e-2))
    assert bool(said) == (mass < 0.5)
    if said:
        assert f"of the prior of effort, {text}, lies within the values" in said


@pytest.mark.usefixtures("as_users_call_it")
def test_an_impossible_start_is_refused_before_the_fit(trials, prior):
    """The recorded target is not the task's."""
    observed = np.array(trials.observed)
    observed[0, 2, 2] += 0.1
    elsewhere = mc.Trials.recorded(observed, dt=trials.dt, channels=trials.channel_names)

    def no_search(*_):
        raise AssertionError("a search began")

    match = "the trials have no likelihood at the start effort=0.1: it is -inf"
    with pytest.raises(mc.InputError, match=match):
        sample(
            coasting,
            elsewhere,
            prior,
            starts=[{"effort": 0.1}],
            n_starts=1,
            key=jax.random.key(0),
            progress=no_search,
        )


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize(
    ("priors", "options", "match"),
    [
        ({"effort": mc.LogUniform(1e3, 1e4)}, {}, "lies outside of the values"),
        (
            {"effort": mc.LogNormal(1e9, 0.1)},
            {},
            r"of effort, LogNormal\(1e\+09, 0.1\), lies outside .* takes, 1e-08 to 0.01",
        ),
        ({"effort": dist.LogNormal(20.0, 0.1)}, {}, r"of effort, LogNormal\(20, 0.1\), lies outs"),
        ({"effort": mc.Normal(0.0, 1.0)}, {}, "effort must be positive"),
        ({"effort": dist.Normal(0.0, 1.0)}, {}, "effort must be positive"),
        ({"effort": dist.Poisson(3.0)}, {}, "must be continuous"),
        ({"effort": dist.Normal(jnp.zeros(3), 1.0)}, {}, "of one number"),
        ({"effort": 3.0}, {}, "must be one of the package"),
        ({"efort": None}, {}, "effort"),
        ({"steps": None}, {}, "steps"),
        ({}, {}, "priors must name"),
        (["effort"], {"method": "gibbs"}, "method"),
        (["effort"], {"n_draws": 1}, "n_draws"),
        (["effort"], {"target_accept": 1.0}, "target_accept"),
        (["effort"], {"common": ["effort"]}, "need group="),
        (["effort"], {"group": "subject"}, "no condition 'subject'"),
        (["effort"], {"group": "target"}, "a population needs at least two"),
        (["effort"], {"group": "target", "method": "smc"}, "sampled by method"),
        (["effort"], {"starts": [{"effort": 1e9}]}, "must lie in"),
    ],
)
def test_bad_input(priors, options, match):
    channels = mc.tasks.reaching().state_names
    trials = mc.Trials.recorded(
        np.zeros((2, 30, 5)), dt=0.01, channels=channels, conditions={"target": [0.1, 0.1]}
    )
    with pytest.raises(mc.InputError, match=match):
        sample(mc.tasks.reaching, trials, priors, key=jax.random.key(0), **options)
