import math
from dataclasses import replace

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import motorcost as mc
from made import made_fit, recorded
from motorcost.fitting import estimate
from motorcost.fitting.leads import LeadFit, choice_in_words, leads_of, leads_table

KEY = jax.random.key(1)
CAMERA = mc.ObserverSpec(["position"], noise=1e-3)
FREE = {"effort": mc.LogUniform(1e-7, 1e-3)}
BEGUN = 5  # steps before the first sample


@pytest.fixture(scope="module")
def trials():
    problem = mc.tasks.reaching()
    policy = mc.solve(problem)
    whole = mc.simulate(problem, policy, n_trials=12, key=KEY, observer=CAMERA)
    samples = np.asarray(whole.observed)[:, BEGUN:]
    return mc.Trials.recorded(samples, dt=0.01, channels={"position": "m"})


@pytest.fixture(scope="module")
def fit(trials):
    return mc.fit(
        mc.tasks.reaching, trials, FREE, key=KEY, observer=CAMERA, n_starts=1, lead=[0.05, 0.0]
    )


def test_the_lead_that_movements_have_is_found(fit, trials):
    assert [found.lead for found in fit.leads] == [0.0, pytest.approx(0.05)]
    assert fit.trials.lead_steps == BEGUN
    assert fit.leads[1].log_likelihood == fit.log_likelihood
    assert fit.leads[1].after_first_sample > fit.leads[0].after_first_sample + 10
    assert abs(math.log(fit.estimates["effort"] / 1e-5)) < 4 * fit.log_standard_errors["effort"]
    assert any("of 2 leads, 0.05 s was chosen" in note for note in fit.notes)
    assert_array_equal(fit.trials.observed[:, BEGUN:], trials.observed)


def test_leads_are_compared_by_the_samples_after_the_first(fit, trials):
    with_lead = trials.with_lead(0.05)
    samples = np.array(with_lead.observed)
    samples[:, BEGUN + 1 :] = np.nan
    first = mc.log_likelihood(mc.tasks.reaching(fit.estimates["effort"]), samples, observer=CAMERA)
    assert_allclose(fit.leads[1].after_first_sample, fit.log_likelihood - first, rtol=1e-9)


def test_it_is_stored_with_the_fit(fit, tmp_path):
    fit.save(tmp_path / "fit.npz")
    again = mc.load(tmp_path / "fit.npz")
    assert again.leads == fit.leads
    assert again.trials.lead_steps == BEGUN
    assert_allclose(again.trials.times, fit.trials.times)


def test_predictions_and_tables_count_time_from_the_first_sample(fit):
    further = fit.predict(n_trials=2, key=KEY)
    assert_allclose(further.times, fit.trials.times)
    assert np.isnan(further.observed[:, :BEGUN]).all()
    assert np.isfinite(further.states).all()
    alike = mc.simulate_like(fit, key=KEY)
    assert_array_equal(np.isnan(alike.observed), np.isnan(fit.trials.observed))
    table = mc.io.to_frame(further)
    assert len(table) == 2 * 25
    assert table["time"].min() == 0


def test_leads_in_a_table():
    tried = made_fit(["effort"], recorded()).leads
    assert leads_table(tried)[1] == []


def test_leads_whose_search_did_not_settle_are_named():
    tried = [
        LeadFit(lead, value, value, 3, 3, settled)
        for lead, value, settled in [
            (0.0, 1.0, True),
            (0.05, 3.0, False),
            (0.1, 2.5, False),
            (0.15, 2.0, False),
            (0.2, -math.inf, False),
        ]
    ]
    assert choice_in_words(tried, tried[1]).endswith(
        "; with 0.1 s and 0.15 s the search did not settle and may reach more"
    )
    assert "settle" not in choice_in_words(tried[:2], tried[1])


def test_an_interrupted_comparison_keeps_the_leads_that_were_finished(fit, trials, monkeypatch):
    """Ctrl-C while the third of four leads is searched."""

    def of_lead(lead, value, **changed):
        objective = replace(fit.objective, trials=trials.with_lead(lead))
        changed |= {"log_likelihood": value, "leads": (), "notes": ()}
        return replace(fit, objective=objective, **changed)

    results = [of_lead(0.0, 20.0), of_lead(0.02, 30.0), of_lead(0.05, 90.0, interrupted=True)]
    monkeypatch.setattr(estimate, "_fit_each", lambda *_: results)
    monkeypatch.setattr(
        estimate,
        "lead_fit",
        lambda f: LeadFit(f.trials.lead, f.log_likelihood, f.log_likelihood, 1, 1, True),
    )
    told = mc.fit(
        mc.tasks.reaching, trials, FREE, key=KEY, observer=CAMERA, lead=[0.0, 0.02, 0.05, 0.1]
    )
    assert told.interrupted
    assert told.log_likelihood == 30.0
    assert [tried.lead for tried in told.leads] == [0.0, 0.02]
    assert told.notes[0].startswith("of 2 leads, 0.02 s was chosen")
    assert told.notes[1] == "interrupted after 2 of 4 leads"


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize(
    ("lead", "message"),
    [
        (-0.1, "lead must not be negative, got -0.1"),
        ([0.0, math.inf], "lead must be finite, got inf"),
        ([], "lead must be a number of seconds, or a list of some to compare, got none"),
        ("long", "lead must be real numbers"),
        ([0.0, 0.3], "lead must be shorter than the shortest trial, which lasts 0.24 s, got 0.3"),
    ],
)
def test_leads_that_cannot_be(lead, message, trials):
    with pytest.raises(mc.InputError, match=message):
        mc.fit(mc.tasks.reaching, trials, FREE, key=KEY, observer=CAMERA, lead=lead)


def test_leads_are_sorted_without_duplicates():
    assert leads_of([0.1, 0.0, 0.1]) == (0.0, 0.1)
    assert leads_of(0.05) == (0.05,)
    assert leads_of(np.array([0.05])) == (0.05,)


@pytest.mark.slow
def test_spreads_and_noises_of_movements_under_way_are_recovered():
    """Reaches that differ in start and aim, recorded by position only from 50 ms after they
    began: each source of variability is found to be what it was."""
    truth = {"motor_noise": 0.4, "aim_spread": 0.015, "start_spread": 0.004, "effort": 1e-5}
    problem = mc.tasks.reaching(steps=35, **truth)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=80, key=KEY, observer=CAMERA)
    late = trials.observed_from(BEGUN)
    fit = mc.fit(
        mc.tasks.reaching, late, list(truth), key=KEY, observer=CAMERA, n_starts=0,
        starts=[truth, mc.tasks.typical_values(mc.tasks.reaching)],
    )  # fmt: skip
    assert fit.converged
    assert fit.agreed == 2
    for name, value in truth.items():
        error = fit.log_standard_errors[name]
        assert error < 0.5
        assert abs(math.log(fit.estimates[name] / value)) < 3 * error
    end = mc.variance_shares(fit)[-1]
    assert_allclose(end.recorded_sd, end.sd, rtol=0.25)
