"""Calibration: ranks whose distribution is known, and reaching."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import motorcost as mc
from motorcost.cli.app import app
from motorcost.posterior import calibration
from motorcost.posterior.calibrated import Calibration, calibration_of
from motorcost.posterior.calibration import RANKED, SAMPLERS, calibrate, chosen_priors


def conjugate(factor, shift=0.0, sets=400, seed=0):
    """Ranks where posteriors are known: x ~ N(0, 1), y ~ N(x, 1), so x given y ~ N(y / 2, 1 / 2).
    The sampler's SD is wrong by a factor, its mean by a shift."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=sets)
    y = x + rng.normal(size=sets)
    sd = np.sqrt(0.5)
    draws = y[:, None] / 2 + shift + factor * sd * rng.normal(size=(sets, RANKED))
    ranks = (draws < x[:, None]).sum(axis=1)
    return calibration_of(ranks[:, None], RANKED + 1, ("x",), "a toy")


def test_the_right_posterior_is_called_right():
    p_values = [conjugate(1.0, seed=seed).p_values["x"] for seed in range(40)]
    assert np.mean(np.array(p_values) < 0.1) < 0.3
    found = conjugate(1.0)
    assert found.calibrated
    for level in (0.5, 0.8, 0.95):
        share, error = found.coverage(level)["x"]
        assert abs(share - level) < 4 * error
    assert (np.abs(found.ecdf_differences("x"))[:-1] <= found.ecdf_band(0.999)[:-1]).all()
    assert "agree with posteriors that are right" in found.summary()


@pytest.mark.parametrize(
    ("factor", "shift", "words"),
    [
        (0.6, 0.0, "posteriors are too narrow"),
        (1.8, 0.0, "posteriors are too wide"),
        (1.0, 0.4, "posteriors lie too high"),
        (1.0, -0.4, "posteriors lie too low"),
    ],
)
def test_a_wrong_posterior_is_found(factor, shift, words):
    found = conjugate(factor, shift)
    assert not found.calibrated
    assert words in found.summary()
    assert (np.abs(found.ecdf_differences("x")) > found.ecdf_band()).any()


def pulled(start=1.0, steps=4, shift=0.0):
    """A noisy point that is steered to 0, from `start` and `shift` together."""
    one = np.eye(1)
    return mc.Problem(
        steps=steps,
        **dict.fromkeys("ABHQR", one),
        **dict.fromkeys("VW", 0.5 * one),
        initial_belief=jnp.reshape(jnp.asarray(start + shift, float), 1),
        initial_state_cov=0.25 * one,
    )


def test_failures_are_rows_and_the_sweep_continues(monkeypatch, tmp_path):
    """A sampler that fails for some data sets, and otherwise draws from the prior."""

    def sampler(target, key, n_draws):
        if float(target.objective.trials.observed[0, 0, 0]) > 1.5:
            raise mc.ConvergenceError("no luck")
        return np.asarray(target.draw_prior(key, n_draws))[None]

    monkeypatch.setitem(SAMPLERS, "prior", sampler)
    asked = {"n_trials": 1, "n_sets": 14, "n_draws": 100, "method": "prior"}
    found = calibrate(pulled, {"start": mc.Normal(1.0, 0.5)}, folder=tmp_path / "sets", **asked)
    assert isinstance(found, Calibration)
    assert 0 < len(found.failures) < 14
    assert found.n_sets + len(found.failures) == 14
    assert f"{len(found.failures)} of 14 data sets failed" in found.summary()
    assert "no luck" in found.summary()
    monkeypatch.setitem(SAMPLERS, "prior", None)  # the finished table is read
    again = calibrate(pulled, {"start": mc.Normal(1.0, 0.5)}, folder=tmp_path / "sets", **asked)
    np.testing.assert_array_equal(again.ranks("start"), found.ranks("start"))
    found.save(tmp_path / "out")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["calibration.csv", "calibration.png", "calibration.txt"]


def test_usual_priors_are_narrow_and_within_what_the_task_takes():
    priors = chosen_priors(mc.tasks.reaching, ["effort", "motor_noise"], None)
    assert priors["effort"].support.sd == calibration.USUAL_LOG_SD
    usual = mc.tasks.parameters(mc.tasks.reaching)["effort"].support
    assert (priors["effort"].support.low, priors["effort"].support.high) == (usual.low, usual.high)


@pytest.mark.parametrize(
    ("priors", "options", "words"),
    [
        ("effort", {}, "priors must name parameters"),
        (["effrt"], {}, "effort"),
        (["effort"], {"method": "magic"}, "method"),
        (["effort"], {"n_sets": 1}, "n_sets"),
        (["effort"], {"fixed": {"effort": 1e-5}}, "both free and fixed"),
        ({"effort": mc.LogNormal(1e-5, 1.0, per="subject")}, {}, "no groups"),
        (["effort"], {"conditions": {"targt": [0.1]}}, "unknown condition 'targt'"),
        (["effort"], {"conditions": {"effort": [0.1]}}, "a condition and free or fixed"),
        (["effort"], {"conditions": {"target": 0.1}}, "needs a list of numbers"),
        (["effort"], {"conditions": {"target": [0.1], "steps": [9, 9]}}, "as many of each"),
        (["effort"], {"n_trials": 1, "conditions": {"target": [0.1, 0.2]}}, "1 trials cannot have"),
    ],
)
def test_mistakes_are_said_in_one_line(priors, options, words):
    with pytest.raises(mc.InputError, match=words) as error:
        calibrate(mc.tasks.reaching, priors, **options)
    assert "\n" not in str(error.value)


def test_the_command_says_what_is_missing(tmp_path: Path):
    from typer.testing import CliRunner

    done = CliRunner().invoke(app, ["calibrate", "reaching", "-o", str(tmp_path / "c")])
    assert isinstance(done.exception, mc.InputError)
    assert "--free is missing" in str(done.exception)


@pytest.mark.slow
def test_ranks_of_reaching_are_uniform(tmp_path: Path):
    found = mc.calibrate(
        mc.tasks.reaching,
        ["effort", "velocity", "force"],
        n_trials=20,
        n_sets=100,
        n_draws=315,
        method="nuts",
        folder=tmp_path / "sets",
    )
    assert not found.failures
    # Coverage, which is a little too low (docs/calibration.md), is not asked for.
    assert min(found.p_values.values()) > 0.01


def one_set(**options):
    return calibration.CalibrationSet(
        task=pulled,
        priors=tuple(chosen_priors(pulled, {"start": mc.Normal(1.0, 0.5)}, None).items()),
        n_draws=100,
        method="smc",
        observer=None,
        fixed=(),
        **options,
    )


def test_trials_take_conditions_in_turn():
    conditions = (("shift", (0.0, 100.0)), ("steps", (4, 3)))
    one = one_set(n_trials=3, conditions=conditions)
    trials = one.target(jax.random.key(0), {"start": 1.0}).objective.trials
    np.testing.assert_array_equal(trials.conditions["shift"], [0, 0, 100])
    np.testing.assert_array_equal(trials.lengths, [4, 4, 3])
    np.testing.assert_allclose(trials.observed[:, 0, 0], [1, 1, 101], atol=4)


def test_keys_make_data_sets_differ():
    one = one_set(n_trials=1)
    first, second = (one.target(jax.random.key(k), {"start": 1.0}) for k in (0, 1))
    assert not np.allclose(first.objective.trials.observed, second.objective.trials.observed)
