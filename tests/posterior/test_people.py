"""Groups of people: the population is recovered, and people are shrunk as their trials allow."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_sampling import coasting, interrupted_at

import motorcost as mc
from motorcost.fitting.batching import log_likelihoods_along
from motorcost.fitting.specification import make_objective
from motorcost.posterior.population import Population
from motorcost.posterior.priors import Prior
from motorcost.posterior.sampling import sample

PEOPLE = 8
FEW, MANY = 2, 60
MEAN, SPREAD = 0.1, 1.0


def made(ages=None, *, few=FEW, many=MANY, others=15, spread=SPREAD):
    rng = np.random.default_rng(3)
    truth = np.exp(np.log(MEAN) + spread * rng.normal(size=PEOPLE))
    truth[:2] = MEAN * np.exp(2.0 * spread)  # the same, apart from the others
    parts = []
    for i, effort in enumerate(truth):
        problem = coasting(effort=float(effort))
        n = {0: few, 1: many}.get(i, others)
        trials = mc.simulate(problem, mc.solve(problem), n_trials=n, key=jax.random.key(i))
        labels = {"subject": f"p{i}"} | ({} if ages is None else {"age": ages[i]})
        parts.append(trials.with_conditions(**labels))
    return truth, mc.concatenate(parts)


def people_sampled(trials, **options):
    """Young and aged people, sampled together."""
    return sample(
        coasting,
        trials,
        {"effort": mc.LogUniform(1e-4, 1e2)},
        group="subject",
        between="age",
        key=jax.random.key(0),
        n_chains=2,
        n_draws=150,
        n_warmup=80,
        n_starts=2,
        predictive=False,
        **options,
    )


@pytest.fixture(scope="module")
def drawn():
    truth, trials = made(["young", "aged"] * (PEOPLE // 2))
    return truth, people_sampled(trials)


@pytest.mark.slow
def test_an_interrupted_sampling_of_people_goes_on_as_if_undisturbed(drawn, tmp_path):
    _, trials = made(["young", "aged"] * (PEOPLE // 2))
    with pytest.raises(KeyboardInterrupt):
        people_sampled(trials, folder=tmp_path, progress=interrupted_at(100, []))
    told = []
    post = people_sampled(trials, folder=tmp_path, progress=interrupted_at(1e9, told))
    assert "fitting people" not in {what for what, _ in told}
    np.testing.assert_array_equal(post.posterior.effort, drawn[1].posterior.effort)


def test_population_and_people_are_recovered(drawn):
    truth, post = drawn
    logs = np.log(post.posterior.effort)
    apart = (logs.mean(("chain", "draw")) - np.log(truth)) / logs.std(("chain", "draw"))
    assert (np.abs(apart[1:]) < 3.5).all()
    spread = post.posterior.effort_spread.values
    assert abs(spread.mean() - np.log(truth).std(ddof=1)) < 3 * spread.std()
    for number, level in enumerate(["young", "aged"]):
        mean = np.log(post.posterior.effort_mean.sel(age=level)).values
        assert abs(mean.mean() - np.log(truth[number::2]).mean()) < 3.5 * mean.std()


def test_few_trials_are_shrunk_and_many_are_not(drawn):
    _, post = drawn
    logs = np.log(post.posterior.effort).mean(("chain", "draw")).values
    alone = json.loads(post.posterior.attrs["alone"])["effort"]
    own = np.log([alone[f"p{i}"][0] for i in range(PEOPLE)])
    errors = np.log([alone[f"p{i}"][2] / alone[f"p{i}"][0] for i in range(PEOPLE)]) / 1.96
    spread = float(post.posterior.effort_spread.mean())
    young = float(np.log(post.posterior.effort_mean.sel(age="young")).mean())
    aged = float(np.log(post.posterior.effort_mean.sel(age="aged")).mean())
    shrunk = errors**2 / (errors**2 + spread**2)
    expected = own + shrunk * (np.where(np.arange(PEOPLE) % 2, aged, young) - own)
    assert shrunk[0] > 3 * shrunk[1]
    assert abs(logs[1] - own[1]) < 0.35 * errors[1]
    assert (np.abs(logs - expected) < 0.35 * errors)[2:].all()
    # Two trials have no normal likelihood: the person's posterior on a grid, in that population.
    grid = np.linspace(-7.0, 5.0, 97)
    first = made()[1][np.arange(FEW)]
    objective = make_objective(coasting, first, {"effort": mc.LogUniform(1e-4, 1e3)})
    values = log_likelihoods_along(objective, grid[:, None]) - 0.5 * ((grid - young) / spread) ** 2
    weights = np.exp(values - values.max()) / np.exp(values - values.max()).sum()
    mean = (weights * grid).sum()
    sd = np.sqrt((weights * (grid - mean) ** 2).sum())
    assert abs(logs[0] - mean) < 0.3 * sd


@pytest.mark.slow
def test_three_trials_are_drawn_to_the_mean_and_three_hundred_hardly():
    """People who differ by 15 %: three trials tell less (an effort to 30 %), three hundred more."""
    _, trials = made(few=3, many=300, others=60, spread=0.15)
    post = sample(
        coasting,
        trials,
        {"effort": mc.LogUniform(1e-4, 1e2)},
        group="subject",
        key=jax.random.key(1),
        n_chains=2,
        n_draws=200,
        n_warmup=100,
        n_starts=2,
        predictive=False,
    )
    mean = float(np.log(post.posterior.effort_mean).mean())
    together = np.log(post.posterior.effort).mean(("chain", "draw"))
    alone = json.loads(post.posterior.attrs["alone"])["effort"]
    few, many = (np.log(alone[person][0]) - mean for person in ("p0", "p1"))
    assert min(few, many) > 0.15  # far enough from the mean to be drawn there
    way_of_few = 1 - (float(together.sel(subject="p0")) - mean) / few
    way_of_many = 1 - (float(together.sel(subject="p1")) - mean) / many
    assert way_of_few > 0.5
    assert abs(way_of_many) < 0.15


def test_trials_that_vary_more_than_the_likelihood_says_are_named(drawn, tmp_path):
    """Each person of 15 trials has those of everybody, by turns, so that costs vary from trial to
    trial. The verdict is there before the sampler begins."""
    assert not [verdict for verdict in drawn[1].verdicts if "vary more" in verdict]
    _, trials = made(["young", "aged"] * (PEOPLE // 2))
    observed = np.array(trials.observed)
    others = np.arange(FEW + MANY, len(trials))
    observed[others] = observed[others.reshape(PEOPLE - 2, -1).T.ravel()]
    mixed = eqx.tree_at(lambda t: t.observed, trials, observed)
    with pytest.raises(KeyboardInterrupt):
        people_sampled(mixed, folder=tmp_path, progress=interrupted_at(0, []))
    (verdict,) = np.load(tmp_path / "people.npz")["verdicts"]
    assert "what this posterior says of people is too narrow in effort by a factor of" in verdict


def test_a_contrast_is_the_difference_of_means(drawn):
    _, post = drawn
    contrast = post.posterior.effort_log_ratio.sel(contrast="young - aged").values
    means = np.log(post.posterior.effort_mean)
    expected = means.sel(age="young").values - means.sel(age="aged").values
    np.testing.assert_allclose(contrast, expected, atol=1e-9)
    assert "effort_log_ratio[young - aged]" in post.interval()


def test_how_much_is_told_changes_the_scale_but_not_the_density():
    _, trials = made()
    prior = Prior(mc.LogUniform(1e-4, 1e2))
    objective = make_objective(coasting, trials, {"effort": prior.support.grouped_by("subject")})
    told = [jnp.full((PEOPLE, 1), w) for w in (0.0, 0.6)]
    centred, half = (
        Population(objective, (prior,), (), w, spread_scales=(1.0,), level=(0,) * PEOPLE)
        for w in told
    )
    free = jax.random.normal(jax.random.key(0), (2 + PEOPLE,))
    point = centred.to_search_scale(free)
    parts = half.parts(free)
    mean, spread = half.means(parts)[0], jnp.exp(parts.log_spreads)
    x = 0.6 * mean + (point[:, None] - mean) / spread**0.4
    same = half.joined(jax.tree.map(lambda p: p, parts)).at[2:].set(x[:, 0])
    np.testing.assert_allclose(half.to_search_scale(same), point, rtol=1e-10)
    # x moves less than a person's value, by the spread to the power 1 - w.
    slopes = PEOPLE * (1.0 - 0.4) * float(parts.log_spreads[0])
    np.testing.assert_allclose(half.log_prior(same), centred.log_prior(free) - slopes, rtol=1e-10)


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"between": "subject_age"}, "no condition 'subject_age'"),
        ({"between": "age"}, "p0 has several values of age"),
        ({"common": ["effort"]}, "all parameters are common"),
        ({"common": ["force"]}, "force has no prior"),
        ({"spreads": {"effort": -1.0}}, "spread of effort must be a positive number"),
    ],
)
def test_bad_groups(options, match):
    _, trials = made()
    trials = trials.with_conditions(age=np.arange(len(trials)) % 2)
    priors = {"effort": mc.LogUniform(1e-4, 1e2)}
    with pytest.raises(mc.InputError, match=match):
        sample(coasting, trials, priors, group="subject", key=jax.random.key(0), **options)
