import dataclasses
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import chi2, norm
from scipy.stats import t as student

import motorcost as mc
from motorcost.fitting.engine import Maximum
from motorcost.fitting.information import covariance_of
from motorcost.fitting.objective import Coordinate
from motorcost.fitting.polishing import observed_information
from strategies import in_time

KEY = jax.random.key(0)
STEPS, N = 12, 30
TRUTH = {"effort": 1e-5, "velocity": 0.2}
FREE = {"effort": mc.LogUniform(1e-8, 1e-2), "velocity": mc.LogUniform(1e-3, 10.0)}
SEEN = mc.ObserverSpec(["velocity"], noise=1e-2)


@pytest.fixture(scope="module")
def trials():
    problem = mc.tasks.reaching(steps=STEPS)
    policy = mc.solve(problem)
    return mc.simulate(problem, policy, n_trials=N, key=KEY, observer=SEEN(problem))


@pytest.fixture(scope="module")
def fit(trials):
    return mc.fit(mc.tasks.reaching, trials, FREE, observer=SEEN, n_starts=3, key=KEY)


@pytest.fixture(scope="module")
def by_hand(trials):
    """The log likelihood and its gradient, as a function of the two logarithms, without the
    machinery of fits."""

    @jax.jit
    def value_and_gradient(logs):
        def value(logs):
            problem = mc.tasks.reaching(jnp.exp(logs[0]), jnp.exp(logs[1]), steps=STEPS)
            return mc.log_likelihood(problem, trials.observed, observer=SEEN(problem))

        return jax.value_and_grad(value)(logs)

    return lambda logs: [np.asarray(part) for part in value_and_gradient(jnp.asarray(logs))]


@pytest.fixture(scope="module")
def hessian(fit, by_hand):
    """By differences of fourth order, of gradients."""

    def slope(step):
        return by_hand(fit.point + step)[1]

    h = 1e-2
    rows = [
        (8 * (slope(h * e) - slope(-h * e)) - (slope(2 * h * e) - slope(-2 * h * e))) / (12 * h)
        for e in np.eye(2)
    ]
    return np.stack(rows)


def logs(estimates):
    return np.log(list(estimates.values()))


# --- the maximum, and its error bars ---


@pytest.mark.slow
def test_estimates_lie_within_their_errors_of_the_truth(fit):
    misses = (logs(fit.estimates) - logs(TRUTH)) / list(fit.log_standard_errors.values())
    assert (np.abs(misses) < 4).all()
    assert (np.array(list(fit.log_standard_errors.values())) < 0.2).all()
    assert fit.converged
    assert not fit.interrupted


def test_it_is_a_maximum_of_the_likelihood(fit, by_hand):
    value, gradient = by_hand(logs(fit.estimates))
    assert_allclose(fit.log_likelihood, value, rtol=1e-10)
    errors = np.array(list(fit.log_standard_errors.values()))
    assert (np.abs(gradient * errors) < 1e-3).all()
    found = minimize(lambda x: [-part for part in by_hand(x)], logs(TRUTH), jac=True, method="BFGS")
    assert_allclose(logs(fit.estimates), found.x, atol=1e-4)


def test_the_information_is_minus_the_hessian(fit, hessian):
    assert_allclose(fit.information, -hessian, rtol=1e-4)


def test_errors_and_intervals_are_the_sandwich_of_the_trials_own_slopes(fit, trials, hessian):
    def each(logs):
        problem = mc.tasks.reaching(*np.exp(logs), steps=STEPS)
        return mc.log_likelihood(problem, trials.observed, observer=SEEN(problem), per_trial=True)

    h = 1e-4
    slopes = np.stack(
        [(each(fit.point + h * e) - each(fit.point - h * e)) / (2 * h) for e in np.eye(2)]
    )
    bread = np.linalg.inv(-hessian)
    freedom = len(trials) - 2
    leverage = np.diagonal(np.linalg.pinv(slopes) @ slopes)
    assert_allclose(leverage.sum(), 2)
    unbiased = slopes / np.sqrt(1 - leverage)
    cov = bread @ unbiased @ unbiased.T @ bread
    errors = np.sqrt(np.diagonal(cov))
    assert_allclose(list(fit.log_standard_errors.values()), errors, rtol=1e-3)
    natural = errors * np.array(list(fit.estimates.values()))
    assert_allclose(list(fit.standard_errors.values()), natural, rtol=1e-3)
    assert_allclose(fit.correlation[0, 1], cov[0, 1] / np.prod(errors), rtol=1e-3)
    for level in (0.95, 0.6):
        quantile = student.ppf((1 + level) / 2, freedom)
        ends = [np.exp(logs(fit.estimates) + sign * quantile * errors) for sign in (-1, 1)]
        assert_allclose(list(fit.interval(level).values()), np.transpose(ends), rtol=1e-3)


def test_without_enough_trials_errors_are_those_of_the_curvature(fit, hessian):
    few = replace(fit, trial_scores=fit.trial_scores[:6])
    errors = np.sqrt(np.diagonal(np.linalg.inv(-hessian)))
    assert_allclose(list(few.log_standard_errors.values()), errors, rtol=1e-3)
    assert np.isinf(few.degrees_of_freedom).all()


def test_a_search_that_did_not_settle_has_no_errors_and_says_nothing_that_needs_a_maximum(fit):
    lost = replace(fit, converged=False)
    assert np.isnan(list(lost.standard_errors.values())).all()
    assert np.isnan(list(lost.interval().values())).all()
    assert lost.directions == []
    (verdict,) = lost.verdicts
    assert verdict.startswith("The search did not settle at a maximum")
    with pytest.raises(mc.InputError, match="did not settle"):
        lost.profiles()


def test_another_explanation_is_said_and_has_a_part_of_the_interval(fit):
    """A second maximum, at twice the velocity and 0.7 below, as if it had been found."""
    point = fit.point + np.array([0.0, np.log(2.0)])
    other = Maximum(point, fit.log_likelihood - 0.7, fit.information, 2, True)
    two = replace(fit, other_maxima=(other,))
    best, second = two.maxima
    assert best.estimates == fit.estimates
    assert best.below == 0
    assert_allclose(second.below, 0.7)
    assert_allclose(second.estimates["velocity"], 2 * fit.estimates["velocity"])
    (words,) = [line for line in two.verdicts if line.startswith("Another explanation")]
    assert "(0.7 below, 2 of 3 searches)" in words


def test_aic_and_bic(fit):
    assert_allclose(fit.aic, 4 - 2 * fit.log_likelihood)
    assert_allclose(fit.bic, 2 * np.log(N) - 2 * fit.log_likelihood)


@pytest.mark.parametrize("by_curvature_alone", [True, False])
def test_profile_intervals_end_where_the_profile_has_fallen_enough(
    fit, by_hand, by_curvature_alone
):
    level = 0.9
    fit = replace(fit, trial_scores=None) if by_curvature_alone else fit
    ends = fit.interval(level, method="profile")
    assert set(ends) == set(fit.names)
    # Trials that vary more than the model says make the drop larger, by the ratio of variances.
    ratios = np.maximum(
        np.diagonal(fit.covariance) / np.diagonal(np.linalg.inv(fit.information)), 1.0
    )
    assert (ratios > 1.1).any() != by_curvature_alone
    for k, name in enumerate(fit.names):
        assert ends[name][0] < fit.estimates[name] < ends[name][1]
        for end in ends[name]:

            def rest(x, k=k, end=end):
                point = np.full(2, np.log(end))
                point[1 - k] = x
                return -by_hand(point)[0]

            centre = fit.point[1 - k]
            best = minimize_scalar(rest, bounds=(centre - 2, centre + 2), method="bounded")
            # The root of the drop is within 0.01 of the quantile.
            root = np.sqrt(2 * (fit.log_likelihood + best.fun))
            assert_allclose(root, np.sqrt(chi2.ppf(level, 1) * ratios[k]), atol=0.0101)


def test_profiles_lie_below_the_maximum_and_fall_to_both_sides(fit):
    (profile,) = fit.profiles(names=["velocity"])
    assert (np.diff(profile.points) > 0).all()
    top = int(np.argmax(profile.log_likelihoods))
    assert_allclose(profile.points[top], fit.point[1])
    assert_allclose(profile.log_likelihoods[top], fit.log_likelihood)
    assert (np.diff(profile.log_likelihoods[: top + 1]) > 0).all()
    assert (np.diff(profile.log_likelihoods[top:]) < 0).all()


# --- searches ---


@pytest.mark.parametrize("method", in_time(["nelder-mead", "bobyqa"], "nelder-mead"))
def test_methods_without_gradients_find_the_same(fit, trials, method):
    other = mc.fit(
        mc.tasks.reaching, trials, FREE, observer=SEEN, n_starts=2, key=KEY, method=method
    )
    assert_allclose(other.point, fit.point, atol=1e-3)
    assert_allclose(other.information, fit.information, rtol=1e-2)


def test_the_same_key_gives_the_same(fit, trials):
    again = mc.fit(mc.tasks.reaching, trials, FREE, observer=SEEN, n_starts=3, key=KEY)
    assert again.estimates == fit.estimates
    evaluations = [[search.evaluations for search in found.starts] for found in (again, fit)]
    assert evaluations[0] == evaluations[1]


def test_agreement_counts_the_starts_that_came_as_high(fit):
    assert fit.agreed >= 3
    best = fit.starts[0].value
    came_to = [replace(fit.starts[0], value=best - less) for less in (0.0, 0.005, 3.0)]
    other = replace(fit, starts=tuple(came_to))
    assert other.agreed == 2
    assert "2 of 3 searches found this maximum." in other.summary()
    lonely = replace(fit, starts=tuple(came_to[::2]))
    assert "No other search confirms it" in lonely.summary()


def interrupting(at):
    """A report of progress in which the user presses Ctrl-C, the `at`-th time."""
    calls = 0

    def progress(what, done, total):
        nonlocal calls
        calls += 1
        if calls == at:
            raise KeyboardInterrupt

    return progress


def test_interrupted_it_returns_the_best_so_far(fit, trials, by_hand):
    stopped = mc.fit(
        mc.tasks.reaching,
        trials,
        FREE,
        observer=SEEN,
        n_starts=3,
        key=KEY,
        progress=interrupting(6),
    )
    assert stopped.interrupted
    assert not stopped.converged
    assert_allclose(stopped.log_likelihood, by_hand(logs(stopped.estimates))[0], rtol=1e-9)
    assert stopped.log_likelihood < fit.log_likelihood
    assert np.isnan(list(stopped.standard_errors.values())).all()
    assert "Interrupted: this is the best point so far" in stopped.summary()
    with pytest.raises(mc.InputError, match="the fit was interrupted: there is no profile yet"):
        stopped.profiles()


def test_an_interrupt_while_the_maximum_is_finished_loses_nothing(fit, trials):
    ticks = []
    options = {"observer": SEEN, "n_starts": 3, "key": KEY}
    mc.fit(mc.tasks.reaching, trials, FREE, **options, progress=lambda *what: ticks.append(what))
    last = interrupting(len(ticks))
    try:
        late = mc.fit(mc.tasks.reaching, trials, FREE, **options, progress=last)
    except KeyboardInterrupt:
        pytest.fail("what the searches had found was lost")
    assert_allclose(late.point, fit.point, atol=1e-3)


# --- priors and scales ---


def test_with_priors_it_is_the_maximum_of_both(fit, trials, by_hand):
    prior = norm(np.log(2e-5), 0.1)
    free = FREE | {"effort": mc.LogNormal(2e-5, 0.1)}
    found = mc.fit(mc.tasks.reaching, trials, free, observer=SEEN, n_starts=2, key=KEY, priors=True)

    def objective(x):
        value, gradient = by_hand(x)
        slope = np.array([(x[0] - np.log(2e-5)) / 0.1**2, 0.0])
        return -value - prior.logpdf(x[0]), -gradient + slope

    best = minimize(objective, fit.point, jac=True, method="BFGS")
    assert_allclose(found.point, best.x, atol=1e-4)
    assert abs(found.point[0] - fit.point[0]) > 0.05  # the prior says something
    assert_allclose(found.log_likelihood, by_hand(best.x)[0], rtol=1e-8)
    assert found.log_likelihood < fit.log_likelihood


@pytest.mark.slow
def test_the_scale_of_the_search_changes_nothing(fit, trials):
    """The maximum is where it was, and the errors follow by the delta method."""
    free = {"effort": mc.Uniform(1e-8, 1e-3), "velocity": mc.Uniform(0.001, 2.0)}
    linear = mc.fit(mc.tasks.reaching, trials, free, observer=SEEN, n_starts=3, key=KEY)
    assert_allclose(logs(linear.estimates), logs(fit.estimates), atol=1e-3)
    assert_allclose(
        list(linear.standard_errors.values()), list(fit.standard_errors.values()), rtol=1e-2
    )
    assert_allclose(
        list(linear.log_standard_errors.values()),
        list(fit.log_standard_errors.values()),
        rtol=1e-2,
    )


def with_support(fit, support):
    return dataclasses.replace(fit.objective, coordinates=(Coordinate("x", support),))


def test_a_parameter_without_bounds_may_be_large(fit):
    """As one with a Normal prior, in units in which its standard error is 30."""
    model = with_support(fit, mc.Normal(0.0, 100.0))
    assert_allclose(covariance_of(model.supports, np.array([[1 / 900.0]])), [[900.0]])


def test_a_parameter_without_bounds_may_be_small(fit):
    """A log-normal likelihood around 1e-5, on the natural scale."""
    at, sd = 1e-5, 0.1

    def evaluate(which, points):
        x = np.maximum(points, 1e-9)
        z = np.log(x / at) / sd
        return -0.5 * z[:, 0] ** 2, -z / (sd * x)

    model = with_support(fit, mc.Normal(1e-5, 1e-5))
    _, (information,) = observed_information(evaluate, model.supports, np.array([[at]]))
    assert_allclose(information, [[1 / (sd * at) ** 2]], rtol=1e-2)


# --- what the data cannot tell ---


def product(effort=1e-5, scale=1.0, steps=STEPS):
    return mc.tasks.reaching(effort * scale, steps=steps)


def test_a_product_that_is_known_and_factors_that_are_not(trials, by_hand):
    free = {"effort": FREE["effort"], "scale": mc.LogUniform(1e-2, 1e2)}
    found = mc.fit(product, trials, free, observer=SEEN, n_starts=2, key=KEY)
    assert list(found.standard_errors.values()) == [np.inf, np.inf]
    assert found.interval()["scale"] == (1e-2, 1e2)
    assert np.isnan(found.correlation[0, 1])
    open_, known = found.directions
    assert open_.verdict == "open"
    assert open_.name in ("effort / scale", "scale / effort")
    assert known.verdict == "known"
    assert known.name in ("effort × scale", "scale × effort")
    assert f"The data cannot tell {open_.name}." in found.summary()

    # The product is known as well as effort alone would be.
    whole = np.log(found.estimates["effort"] * found.estimates["scale"])
    slopes = [by_hand([whole + h, np.log(0.2)])[1][0] for h in (1e-3, -1e-3)]
    alone = np.sqrt(-2e-3 / (slopes[0] - slopes[1]))
    assert_allclose(known.standard_error, alone, rtol=1e-2)


def with_nothing(velocity=0.2, nothing=1.0, steps=STEPS):
    return mc.tasks.reaching(velocity=velocity, steps=steps)


def test_profiles_are_open_where_the_data_or_the_support_end(fit, trials):
    """Velocity may go down as the data say, but its support ends soon above; nothing is known of
    what the task does not use."""
    cut = float(fit.estimates["velocity"] * np.exp(0.5 * fit.log_standard_errors["velocity"]))
    free = {"velocity": mc.LogUniform(1e-3, cut), "nothing": mc.LogUniform(0.1, 10.0)}
    found = mc.fit(with_nothing, trials, free, observer=SEEN, n_starts=2, key=KEY)
    assert found.standard_errors["nothing"] == np.inf
    assert np.isfinite(found.standard_errors["velocity"])
    ends = found.interval(method="profile")
    assert ends["nothing"] == (0.1, 10.0)
    assert "anywhere" in found.summary()
    low, high = ends["velocity"]
    assert high == cut
    wald = found.interval()["velocity"]
    curvature = np.sqrt(covariance_of(found.objective.supports, found.information)[0, 0])
    by_curvature = found.point[0] - norm.ppf(0.975) * curvature
    assert_allclose(np.log(low), by_curvature, atol=0.2 * curvature)
    assert wald[1] == cut
    assert found.directions[0].name == "nothing"
    assert found.directions[0].verdict == "open"


@pytest.mark.slow
def test_an_estimate_at_the_edge_of_its_support_is_told(fit, trials):
    edge = float(fit.estimates["velocity"] * np.exp(-3 * fit.log_standard_errors["velocity"]))
    free = {"velocity": mc.LogUniform(1e-3, edge)}
    fixed = {"effort": fit.estimates["effort"]}
    found = mc.fit(mc.tasks.reaching, trials, free, fixed=fixed, observer=SEEN, n_starts=2, key=KEY)
    assert found.at_bounds == ("velocity",)
    assert_allclose(found.estimates["velocity"], edge, rtol=1e-9)
    assert "At an end of its support: velocity is as large as allowed" in found.summary()
    low, high = found.interval()["velocity"]
    assert high == edge
    assert 0.5 * edge < low < edge
    assert "above" in found.summary()
    assert found.converged
    assert fit.at_bounds == ()


# --- data of all kinds ---


@pytest.mark.slow
def test_several_lengths_conditions_and_subjects_in_one():
    """What a subject's trials say of it is the same in the crowd as alone."""
    parts = []
    kinds = [("anna", 0.2, 0.1, 10), ("ben", 0.4, 0.1, 12), ("ben", 0.4, 0.15, 10)]
    for i, (subject, velocity, target, steps) in enumerate(kinds):
        problem = mc.tasks.reaching(velocity=velocity, target=target, steps=steps)
        key, seen = jax.random.key(i), SEEN(problem)
        part = mc.simulate(problem, mc.solve(problem), n_trials=6, key=key, observer=seen)
        parts.append(part.with_conditions(subject=subject, target=target))
    trials = mc.concatenate(parts)
    free = {"velocity": FREE["velocity"].grouped_by("subject")}
    found = mc.fit(mc.tasks.reaching, trials, free, observer=SEEN, n_starts=2, key=KEY)
    assert found.names == ("velocity[anna]", "velocity[ben]")
    assert_allclose(found.correlation, np.eye(2), atol=1e-6)

    @jax.jit
    def of_ben(x):
        return sum(
            mc.log_likelihood(problem, part.observed, observer=SEEN(problem))
            for part, (_, _, target, steps) in zip(parts[1:], kinds[1:], strict=True)
            for problem in [mc.tasks.reaching(velocity=jnp.exp(x), target=target, steps=steps)]
        )

    at = np.log(found.estimates["velocity[ben]"])
    best = minimize_scalar(lambda x: -float(of_ben(x)), bracket=(at - 0.1, at + 0.13))
    assert_allclose(at, best.x, atol=1e-4)
    h = 1e-2
    curvature = (of_ben(at + h) - 2 * of_ben(at) + of_ben(at - h)) / h**2
    assert_allclose(found.log_standard_errors["velocity[ben]"], (-curvature) ** -0.5, rtol=1e-2)


@pytest.mark.slow
def test_a_contradiction_is_explained(trials):
    seen = mc.ObserverSpec(["velocity", "target"], noise={"velocity": 1e-2})
    targets = np.full((3, STEPS, 1), 0.1)
    targets[1, 4] = 0.2
    samples = np.concatenate([np.asarray(trials.observed[:3]), targets], axis=2)
    bent = mc.Trials.recorded(samples, dt=0.01, channels=["velocity", "target"])
    message = "trial 1 contradicts the model at step 4: target is 0.2 and must be 0.1"
    with pytest.raises(mc.InputError, match=message):
        mc.fit(
            mc.tasks.reaching,
            bent,
            {"velocity": FREE["velocity"]},
            observer=seen,
            n_starts=1,
            key=KEY,
            method="nelder-mead",
        )


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "newton"}, "unknown method 'newton'"),
        ({"n_starts": 0}, "n_starts"),
        ({"max_evaluations": 0}, "max_evaluations"),
        ({"key": 0}, "key"),
        ({"starts": [{"effort": 1e-5}]}, "a value for velocity is missing"),
    ],
)
def test_bad_options(trials, options, message):
    given = {"observer": SEEN, "n_starts": 1, "key": KEY} | options
    with pytest.raises(mc.InputError, match=message):
        mc.fit(mc.tasks.reaching, trials, FREE, **given)


def test_bad_questions(fit):
    with pytest.raises(mc.InputError, match="level must lie between 0 and 1, got 95"):
        fit.interval(95.0)
    with pytest.raises(mc.InputError, match="'mass'"):
        fit.profiles(names=["mass"])
