"""What is said of chains, and of numbers that were asked for."""

import re

import jax
import numpy as np
import pytest
import xarray
from test_sampling import coasting

import motorcost as mc
from motorcost.posterior.words import mixing, people_too_narrow, verdicts_of_chains


def said_of(draws, **stats):
    usual = {"diverging": np.zeros(draws.shape, bool), "n_steps": np.full(draws.shape, 3)}
    posterior = xarray.Dataset({"effort": (("chain", "draw"), draws)})
    return verdicts_of_chains(posterior, usual | stats, target_accept=0.65)


@pytest.fixture
def draws():
    return np.random.default_rng(0).normal(size=(4, 500))


def test_nothing_is_said_of_chains_that_mix(draws):
    assert said_of(draws) == []


def test_chains_that_stay_where_they_are(draws):
    draws[1] = 1.0
    draws[3, 5:] = draws[3, 5]
    (verdict,) = said_of(draws)
    assert verdict.startswith("2 of 4 chains did not move (chain 1, 3). Nothing in this posterior")


def test_divergences_and_longest_paths_are_counted(draws):
    diverging = np.arange(2_000).reshape(4, 500) % 10 > 0
    steps = np.where(diverging, 3, 1023)
    first, second = said_of(draws, diverging=diverging, n_steps=steps)
    assert first.startswith("1800 transitions diverged (90 %): parts of the posterior may be miss")
    assert "target_accept=0.900" in first
    assert second.startswith("200 transitions ended at the longest path")


def test_chains_apart_and_few_draws(draws):
    apart, few = said_of(draws[:, :50] + np.arange(4)[:, None])
    assert apart.startswith("chains disagree: R-hat of effort is ")
    assert few.startswith("effort has ")
    (unknown,) = said_of(draws[:1])
    assert "it takes two chains" in unknown


def test_populations_of_particles_are_no_chains():
    row = {"r_hat": 1.05, "ess_bulk": 900.0, "ess_tail": 900.0}
    (apart,) = mixing({"effort": row}, "populations")
    assert apart.startswith("populations disagree: R-hat of effort is 1.050, above 1.01. Draw")
    (unknown,) = mixing({"effort": row | {"r_hat": np.nan}}, "populations")
    assert "it takes two populations" in unknown
    assert "chain" not in apart + unknown


@pytest.mark.parametrize("factor", [1.0, 1.4])
def test_people_whose_trials_vary_more_than_the_likelihood_says(factor):
    """Scores of known variance: that of the information of a trial, or `factor` times its SD."""
    rng = np.random.default_rng(0)
    of_trial = np.array([[4.0, 1.0], [1.0, 2.0]])
    root = np.linalg.cholesky(of_trial)
    people = []
    for n in (3, 40, 60, 200):  # the first has too few to tell
        scores = rng.normal(size=(n, 2)) @ root.T * [1.0, factor]
        people.append((n * of_trial, scores - scores.mean(axis=0)))
    supports = [mc.LogUniform(1e-4, 1e4)] * 2
    said = people_too_narrow(["effort", "force"], supports, people)
    assert people_too_narrow(["effort", "force"], supports, people[:1]) == []
    if factor == 1.0:
        assert said == []
        return
    (verdict,) = said
    found = re.search(r"people is too narrow in (\w+) by a factor of ([0-9.]+)\. mc.che", verdict)
    assert found[1] == "force"
    inverse = np.linalg.inv(of_trial)
    scaled = of_trial * np.outer([1.0, factor], [1.0, factor])
    expected = np.sqrt((inverse @ scaled @ inverse)[1, 1] / inverse[1, 1])
    assert abs(float(found[2]) - expected) < 4 * expected / np.sqrt(2 * 294)
    assert "mc.check_approximation(fit, key=key)" in verdict


@pytest.mark.parametrize(
    ("priors", "options", "match"),
    [
        (["effort"], {}, "effort has no usual prior: give one, as in priors="),
        ({"effort": None}, {}, "effort has no usual prior"),
        (
            {"effort": mc.LogUniform(1e-4, 1e2)},
            {"starts": [{"effort": 0.1}, {"efort": 0.1}]},
            r"starts\[1\]: a value for effort is missing",
        ),
    ],
)
def test_a_task_of_ones_own_is_told_what_is_missing(priors, options, match):
    recorded = np.zeros((2, 6, 3))
    trials = mc.Trials.recorded(recorded, dt=0.1, channels=["position", "velocity", "target"])
    with pytest.raises(mc.InputError, match=match):
        mc.sample(coasting, trials, priors, key=jax.random.key(0), **options)
