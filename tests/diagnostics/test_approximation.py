"""Whether the approximation of the likelihood matters for estimates."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from made import made_fit, recorded, scalar_problem
from motorcost.diagnostics.gaps import Evaluated, gap_profiles, profile_points
from motorcost.inference.particle_groups import estimates_under

KEY = jax.random.key(5)


def evaluated_parabola(filters=4, noise=0.0):
    """A gap of 3 + 0.5 s + 0.2 s² in two trials, along one parameter, as `filters` estimate it."""
    along = np.array([-2.0, -1.0, 1.0, 2.0])
    offsets = np.array([0.0, *along])
    gap = (3 + 0.5 * offsets + 0.2 * offsets**2) / 2
    matched = np.tile(-10.0 - offsets[:, None] ** 2, 2)
    estimates = (matched + gap[:, None])[..., None] + np.zeros(filters)
    # Noise that is the same at all points, and some that grows with the distance.
    rng = np.random.default_rng(0)
    common, own = rng.normal(size=(2, 2, filters))
    estimates = estimates + 1e-3 * common + noise * offsets[:, None, None] * own
    return Evaluated(estimates, matched), along


def test_the_slope_of_the_gap_is_found():
    evaluated, along = evaluated_parabola()
    (profile,) = gap_profiles(evaluated, ["effort"], [along])
    assert_allclose(profile.slope, 0.5, atol=1e-6)
    assert_allclose(profile.changes, [-0.2, -0.3, 0, 0.7, 1.8], atol=1e-6)
    # What is the same at all points is no error.
    assert profile.slope_error < 1e-6
    assert evaluated.combination(np.array([1.0, 0, 0, 0, 0]))[1] > 1e-4
    noisy = [gap_profiles(evaluated_parabola(n, 0.01)[0], ["effort"], [along])[0] for n in (4, 400)]
    # Two trials with an error of 0.01 per filter each.
    assert_allclose(noisy[1].slope_error, np.sqrt(2 / 400) * 0.01, rtol=0.1)
    assert abs(noisy[0].slope - 0.5) < 4 * noisy[0].slope_error


def test_impossible_points_are_left_out():
    evaluated, along = evaluated_parabola()
    evaluated.matched[1] = np.nan
    (profile,) = gap_profiles(evaluated, ["effort"], [along])
    assert_allclose(profile.slope, 0.5, atol=1e-6)  # from the nearer pair
    assert np.isnan(profile.changes[0])
    evaluated.matched[3] = np.nan
    (profile,) = gap_profiles(evaluated, ["effort"], [along])
    assert np.isnan(profile.slope)


def test_points_lie_along_profiles_and_within_supports():
    covariance = np.array([[0.04, 0.03], [0.03, 0.09]])
    bounds = np.array([[-10.0, 10.0], [-10.0, 0.3]])
    points, offsets = profile_points(np.zeros(2), covariance, [0, 1], bounds)
    assert_allclose(points[0], 0)
    assert_allclose(points[1:5, 0] / 0.2, offsets[0])
    assert_allclose(points[1:5, 1], points[1:5, 0] * 0.03 / 0.04)
    assert_allclose(offsets[0], [-1.8, -0.9, 0.9, 1.8])  # 0.3 / 0.15, less a tenth
    assert points[:, 1].max() < 0.3


def test_other_models_are_estimated_without_bias():
    """Likelihoods under a second model, for which the first one draws and resamples."""
    problems = [scalar_problem(R=[[effort]]) for effort in (0.2, 0.22)]
    observer = mc.observe(problems[0], noise=0.4)
    trials = mc.simulate(problems[0], mc.solve(problems[0]), n_trials=2, key=KEY, observer=observer)
    how = {"key": KEY, "particles": 20, "filters": 800, "observer": observer}
    together, matched, drawn = estimates_under(problems, trials, **how)
    alone, matched_alone, _ = estimates_under(problems[1:], trials, **how)
    assert drawn
    assert_allclose(matched[1], matched_alone[0])
    for i in range(2):
        ratios = np.exp(np.array([together[1, i], alone[0, i]]) - matched[1, i])
        error = ratios.std(axis=1) / np.sqrt(800)
        assert error.max() < 0.02
        assert abs(np.diff(ratios.mean(axis=1))) < 3 * np.hypot(*error)
        # And ratios of likelihoods vary less than likelihoods do.
        assert np.std(together[1, i] - together[0, i]) < 0.5 * np.std(alone[0, i])


@pytest.fixture(scope="module")
def found():
    """Of a fit of nothing, at the truth of its trials."""
    truth = mc.tasks.reaching(steps=12)
    trials = mc.simulate(truth, mc.solve(truth), n_trials=6, key=KEY)
    free = {"effort": mc.LogUniform(1e-6, 1e-4), "motor_noise": mc.LogUniform(0.05, 5.0)}
    fit = made_fit(free, trials)
    steps = []
    result = mc.check_approximation(
        fit,
        key=KEY,
        particles=40,
        filters=2,
        most_particles=160,
        progress=lambda *at: steps.append(at),
    )
    return fit, result, steps


def test_the_gap_is_that_of_the_exact_likelihood(found):
    fit, result, steps = found
    assert result.particles == 160
    assert steps == [("exact likelihood", 0, 2), ("exact likelihood", 1, 2)]
    assert [profile.name for profile in result.profiles] == ["effort", "motor_noise"]
    exact = mc.exact_log_likelihood(fit.at, fit.trials, key=KEY, particles=40, filters=16)
    difference = result.gap - float(exact.gap)
    assert abs(difference) < 3 * np.hypot(result.gap_error, float(exact.error))
    assert result.gap_error < 5
    for profile in result.profiles:
        error = fit.search_scale_errors[profile.name]
        k = fit.names.index(profile.name)
        moved = np.sqrt(np.linalg.inv(fit.information)[k, k])
        assert_allclose(result.biases[profile.name], -profile.slope * moved / error)
        shift = np.log(result.corrected[profile.name] / fit.estimates[profile.name])
        assert_allclose(shift, profile.slope * moved, rtol=1e-6)


def test_it_is_drawn(found):
    figure = mc.plots.plot_approximation(found[1])
    titles = [ax.get_title() for ax in figure.axes if ax.get_visible()]
    assert titles == ["effort", "motor_noise", "bias of the estimates"]
    with pytest.raises(mc.InputError, match="no parameter to draw"):
        mc.plots.plot_approximation(replace(found[1], profiles=()))


def test_words_say_what_to_do(found):
    _, result, _ = found
    names = ("effort", "motor_noise")

    def said(biases, errors):
        changed = replace(
            result,
            biases=dict(zip(names, biases, strict=True)),
            bias_errors=dict(zip(names, errors, strict=True)),
            corrected={"effort": 2e-5, "motor_noise": 0.4},
        )
        return changed.summary()

    good = said([0.05, -0.02], [0.02, 0.02])
    assert "Moment matching can be trusted here" in good
    assert "less than 0.09 standard errors" in good
    biased = said([0.6, 0.0], [0.05, 0.05])
    assert "effort is 0.6 ± 0.05 standard errors too high" in biased
    assert "would be about 2e-05" in biased
    assert "What to do: report the corrected estimates" in biased
    assert "trusted" not in biased
    unsure = said([0.3, 0.0], [0.3, 0.3])
    assert "as far as this can tell" in unsure
    assert "takes more particles" in unsure
    assert "motor_noise was not checked" in said([0.0, np.nan], [0.01, np.nan])
    assert "Stopped before" in replace(result, interrupted=True).summary()


def test_without_a_maximum_there_is_nothing_to_check():
    for changes, words in (
        ({"interrupted": True}, "was interrupted"),
        ({"converged": False}, "did not settle"),
        ({"information": 0.0}, "no estimate has a standard error"),
    ):
        fit = made_fit(["effort"], recorded(), **changes)
        with pytest.raises(mc.InputError, match=words):
            mc.check_approximation(fit, key=KEY)


def test_interrupts_keep_what_is_known(monkeypatch):
    fit = made_fit(["effort"], recorded())
    rounds = []

    def evaluate(make, points, trials, **_):
        rounds.append(1)
        if len(rounds) > 1:
            raise KeyboardInterrupt
        shape = (len(points), len(trials))
        noise = np.random.default_rng(0).normal(size=(*shape, 4))
        return Evaluated(noise, np.zeros(shape))

    monkeypatch.setattr("motorcost.diagnostics.approximation.evaluate_at", evaluate)
    result = mc.check_approximation(fit, key=KEY)
    assert result.interrupted
    assert result.particles == 1000
    rounds.append(1)
    with pytest.raises(KeyboardInterrupt):
        mc.check_approximation(fit, key=KEY)
