import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from made import made_analysis, made_fit, recorded
from motorcost.diagnostics.variability import variability_table
from motorcost.report import result_of, write_fit

KEY = jax.random.key(2)


@pytest.fixture(scope="module")
def fit():
    """A fit of nothing: at the middle of its supports, with a lead and two targets."""
    trials = recorded((26, 26), targets=[0.1, 0.2]).with_lead(0.04)
    free = {"effort": mc.LogUniform(1e-6, 1e-4), "aim_spread": mc.LogUniform(1e-3, 1e-1)}
    return made_fit(free, trials, observer=mc.ObserverSpec(["position"], noise=2e-3))


@pytest.fixture(scope="module")
def found(fit):
    return mc.variance_shares(fit)


def test_shares_add_up_and_name_the_sources(found):
    assert [(part.channel, part.when) for part in found] == [
        ("position", "middle"),
        ("position", "end"),
    ]
    for part in found:
        assert_allclose(sum(part.shares.values()), 1)
        assert list(part.shares) == ["aim", "motor noise", "sensory noise", "recording noise"]
    middle, end = found
    assert end.shares["aim"] > middle.shares["aim"]
    assert "position at the end differs by" in end.words
    assert "% aim" in end.words


def test_the_variance_is_that_of_simulated_trials(fit, found):
    """Trials of each condition, recorded with noise, at half of the time and at the last step."""
    variances = {"middle": [], "end": []}
    for target in (0.1, 0.2):
        problem, observer = fit.at(steps=30, target=target)
        trials = mc.simulate(
            problem, mc.solve(problem), n_trials=20_000, key=KEY, observer=observer
        )
        positions = np.asarray(trials.observed)[:, :, 0]
        variances["end"].append(positions[:, -1].var())
        variances["middle"].append(positions[:, 16].var())
    for part in found:
        assert_allclose(part.sd, np.sqrt(np.mean(variances[part.when])), rtol=0.02)


def test_it_is_reported(fit, found, tmp_path):
    analysis = made_analysis(fit, variability=found)
    result = result_of(analysis)["variability"]
    assert [part["when"] for part in result] == ["middle", "end"]
    assert_allclose(result[1]["shares"]["aim"], found[1].shares["aim"])
    page = write_fit(analysis, tmp_path / "fit").read_text("utf-8")
    assert "Why do trials differ?" in page
    assert (tmp_path / "fit" / "figures" / "variability.png").stat().st_size > 1000
    header, rows = variability_table(found)
    assert header[3:] == ["aim", "motor noise", "sensory noise", "recording noise"]
    assert rows[1][0] == "position, end"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"interrupted": True}, "the fit was interrupted"),
        ({"converged": False}, "the search did not settle at a maximum: there is nothing"),
    ],
)
def test_what_is_no_maximum_explains_nothing(changed, message):
    fit = made_fit(["effort"], recorded(), **changed)
    with pytest.raises(mc.InputError, match=message):
        mc.variance_shares(fit)
