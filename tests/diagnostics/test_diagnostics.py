from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import motorcost as mc
from made import made_adequacy, made_fit, recorded
from motorcost.diagnostics import Channel, Precision, resampling
from motorcost.diagnostics.checking import groups_of
from motorcost.diagnostics.replicates import filtered_experiments, replicated_samples
from motorcost.fitting.objective import scores
from motorcost.fitting.optimise import Found
from motorcost.fitting.specification import make_objective
from strategies import in_time

KEY = jax.random.key(0)
STEPS, N = 12, 30
SEEN = mc.ObserverSpec(["velocity"], noise=1e-2)
FREE = {"velocity": mc.LogUniform(1e-3, 10.0), "motor_noise": mc.LogUniform(0.01, 3.0)}
TRUTH = {"velocity": 0.2, "motor_noise": 0.5}


def record(seed, n=N, seen=SEEN, **values):
    problem = mc.tasks.reaching(**{"steps": STEPS} | values)
    policy, key = mc.solve(problem), jax.random.key(seed)
    return mc.simulate(problem, policy, n_trials=n, key=key, observer=seen(problem))


def with_gaps(whole):
    """The same trials; a few samples are missing."""
    some = np.array(whole.observed)
    some[3, 5:7] = some[20, 11] = np.nan
    return eqx.tree_at(lambda t: t.observed, whole, jax.device_put(some))


@pytest.fixture(scope="module")
def trials():
    return with_gaps(record(0))


@pytest.fixture(scope="module")
def fit(trials):
    return mc.fit(mc.tasks.reaching, trials, FREE, observer=SEEN, n_starts=2, key=KEY)


@pytest.fixture(scope="module")
def by_hand(trials):
    """The log likelihood of each trial at a point, without the machinery of fits."""
    samples = np.asarray(trials.observed)

    @jax.jit
    def each(point):
        problem = mc.tasks.reaching(**dict(zip(FREE, jnp.exp(point), strict=True)), steps=STEPS)
        return mc.log_likelihood(problem, samples, observer=SEEN, per_trial=True)

    return lambda point: np.asarray(each(point))


def of_other_data(fit, trials):
    model = make_objective(mc.tasks.reaching, trials, FREE, observer=SEEN)
    return replace(fit, objective=model)


# --- replicates ---


def test_replicates_have_the_models_moments_and_miss_what_is_missing(fit, trials):
    replicated = mc.simulate_like(fit, n_replicates=100, key=KEY)
    assert_allclose(replicated.conditions["replicate"], np.repeat(np.arange(100), N))
    samples = np.asarray(replicated.observed).reshape(100, N, STEPS, 1)
    missing = np.isnan(trials.observed)
    assert (np.isnan(samples) == missing).all()
    problem, _ = fit.at(steps=STEPS)
    z = mc.moments(problem, mc.solve(problem))
    mean, variance = z.state_mean[:, 1], z.state_cov[:, 1, 1] + 1e-4
    count = np.isfinite(samples[..., 0]).sum(axis=(0, 1))
    errors = (np.nanmean(samples[..., 0], axis=(0, 1)) - mean) / np.sqrt(variance / count)
    assert (np.abs(errors) < 4).all()
    ratio = np.nanvar(samples[..., 0], axis=(0, 1)) / variance
    # Noise that depends on signals has heavier tails than the 2 / n of a normal variance.
    assert_allclose(ratio, 1, atol=6 / np.sqrt(count.min()))
    assert not np.array_equal(samples[0], samples[1], equal_nan=True)


@pytest.mark.slow
def test_replicates_of_several_lengths_and_conditions(fit):
    kinds = [(0.1, 12), (0.3, 10), (0.3, 12)]
    parts = [
        record(i, n=3, target=target, steps=steps).with_conditions(target=target)
        for i, (target, steps) in enumerate(kinds)
    ]
    order = [8, 0, 4, 2, 6, 1, 3, 7, 5]
    trials = mc.concatenate(parts)[order]
    replicated = mc.simulate_like(of_other_data(fit, trials), n_replicates=200, key=KEY)
    assert_allclose(replicated.lengths, np.tile(trials.lengths, 200))
    assert_allclose(replicated.conditions["target"], np.tile(trials.conditions["target"], 200))
    samples = np.asarray(replicated.observed).reshape(200, *trials.observed.shape)
    assert (np.isnan(samples) == np.isnan(trials.observed)).all()
    for trial, place in enumerate(order):
        target, steps = kinds[place // 3]
        problem, _ = fit.at(steps=steps, target=target)
        z = mc.moments(problem, mc.solve(problem))
        error = np.sqrt((z.state_cov[:, 1, 1] + 1e-4) / 200)
        miss = (samples[:, trial, :steps, 0].mean(axis=0) - z.state_mean[:, 1]) / error
        assert (np.abs(miss) < 4.5).all()


# --- bootstrap ---


@pytest.mark.parametrize("kind", ["parametric", "trials"])
@pytest.mark.slow
def test_bootstrap_errors_are_those_of_the_information(fit, kind):
    """The SD of 30 estimates has a relative error of 1 / sqrt(58); three of these, and a tenth
    for what the information leaves out."""
    again = mc.bootstrap(fit, key=KEY, n=30, kind=kind)
    assert again.points.shape == (30, 2)
    ratio = again.points.std(axis=0, ddof=1) / list(fit.search_scale_errors.values())
    assert_allclose(ratio, 1, atol=3 / np.sqrt(58) + 0.1)
    middle = (again.points.mean(axis=0) - fit.point) / list(fit.search_scale_errors.values())
    assert (np.abs(middle) < 4 / np.sqrt(30)).all()
    natural = np.exp(again.points)
    assert_allclose(list(again.standard_errors.values()), natural.std(axis=0, ddof=1), rtol=1e-9)
    ends = np.quantile(natural, [0.1, 0.9], axis=0).T
    assert_allclose(list(again.interval(0.8).values()), ends, rtol=0.05)


def test_a_bootstrap_over_trials_fits_the_trials_it_drew(fit, by_hand):
    """Twice the same trial counts twice: the gradient of the drawn trials, as a set of its own,
    vanishes at the estimate."""
    again = mc.bootstrap(fit, key=KEY, n=2, kind="trials")
    chosen = np.asarray(jax.random.randint(jax.random.split(KEY)[1], (2, N), 0, N))
    h = 1e-4
    for point, which in zip(again.points, chosen, strict=True):
        gradient = [
            (by_hand(point + e)[which].sum() - by_hand(point - e)[which].sum()) / (2 * h)
            for e in h * np.eye(2)
        ]
        assert (np.abs(gradient) * list(fit.search_scale_errors.values()) < 1e-2).all()


# --- comparison ---


def test_cross_validation_is_a_fit_without_the_fold(fit, by_hand):
    each = mc.cross_validate(fit, key=jax.random.key(3), folds=2)
    fold = np.asarray(jax.random.permutation(jax.random.key(3), np.arange(N) % 2))
    for k in range(2):
        tolerances = {"xatol": 1e-6, "fatol": 1e-9}
        left = minimize(
            lambda point, k=k: -by_hand(point)[fold != k].sum(),
            fit.point,
            method="Nelder-Mead",
            options=tolerances,
        )
        assert_allclose(each[k], by_hand(left.x)[fold == k].sum(), rtol=1e-5)
    assert each.sum() < fit.log_likelihood


def test_comparison_orders_by_aic_and_refuses_other_data(fit):
    worse = replace(fit, log_likelihood=fit.log_likelihood - 10.0)
    table = mc.compare({"worse": worse, "better": fit})
    assert [row.name for row in table.rows] == ["better", "worse"]
    assert table.best.name == "better"
    assert_allclose(table.rows[1].aic - table.rows[0].aic, 20.0)
    assert str(table).splitlines()[2].split()[:2] == ["worse", "2"]
    other = of_other_data(fit, record(1))
    with pytest.raises(mc.InputError, match="other was fitted to other trials"):
        mc.compare({"one": fit, "other": other})
    with pytest.raises(mc.InputError, match="there are no fits"):
        mc.compare({})


@pytest.mark.usefixtures("as_users_call_it")
def test_bad_folds(fit):
    for folds, message in ((1, "folds"), (31, "at most the number of trials, 30, got 31")):
        with pytest.raises(mc.InputError, match=message):
            mc.cross_validate(fit, key=KEY, folds=folds)
    stopped = replace(fit, interrupted=True)
    for ask in (mc.cross_validate, mc.bootstrap, mc.check_fit):
        with pytest.raises(mc.InputError, match="interrupted"):
            ask(stopped, key=KEY)


def test_without_a_maximum_there_is_no_bootstrap_and_no_cross_validation(fit):
    unsettled = replace(fit, converged=False)
    for ask, what in ((mc.cross_validate, "cross-validation"), (mc.bootstrap, "bootstrap")):
        message = f"the search did not settle at a maximum: there is no {what}"
        with pytest.raises(mc.InputError, match=message):
            ask(unsettled, key=KEY)
    (row,) = mc.compare({"unsettled": unsettled}, key=KEY).rows
    assert row.cross_validated is None


def test_searches_that_do_not_settle_are_no_estimates_of_a_bootstrap(fit, monkeypatch):
    def refitted(converged, interrupted=False):
        found = [Found(fit.point + i, 0.0, 1, yes, "") for i, yes in enumerate(converged)]
        monkeypatch.setattr(resampling, "refit", lambda *_, **__: (found, interrupted))
        return mc.bootstrap(fit, key=KEY, n=len(converged), kind="trials")

    again = refitted([True, False, True])
    assert_allclose(again.points, [fit.point, fit.point + 2])
    assert again.unsettled == 1
    assert "The search of 1 further experiment did not settle." in again.plot().caption
    assert refitted([True, False, True], interrupted=True).unsettled == 0
    with pytest.raises(mc.ConvergenceError, match="1 of 2 searches of the bootstrap settled"):
        refitted([True, False])
    with pytest.raises(KeyboardInterrupt):
        refitted([True, False], interrupted=True)


# --- adequacy ---


@pytest.mark.parametrize("experiments", in_time([6, 20], 20))
def test_a_model_that_made_the_data_passes(fit, experiments):
    """Each of the experiments that the model itself made; one in twenty may fail by chance."""
    made = replicated_samples(fit, n_replicates=experiments, key=jax.random.key(5))
    passed = []
    for samples in made:
        trials = eqx.tree_at(lambda t: t.observed, fit.trials, jnp.asarray(samples))
        passed.append(mc.check_fit(of_other_data(fit, trials), key=KEY).passed)
    assert sum(passed) >= 0.85 * experiments


def test_few_replicates_do_not_make_a_model_fail(fit):
    few = mc.check_fit(fit, key=KEY, n_replicates=10)
    many = mc.check_fit(fit, key=KEY)
    assert many.passed
    assert few.passed, str(few)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"motor_noise": 2.0}, "velocity varies more from sample to sample"),
        (
            {"seen": mc.ObserverSpec(["velocity"], noise=5e-3)},
            "velocity varies less from sample to sample",
        ),
        ({"seen": mc.ObserverSpec(["velocity"], noise=0.1)}, "velocity misses alternate"),
        ({"target": 0.2}, "velocity is on average more than predicted"),
        ({"tau": 0.1}, "of velocity samples lie within the band where"),
    ],
)
def test_data_of_another_model_are_noticed(fit, wrong, words):
    check = mc.check_fit(of_other_data(fit, record(7, **wrong)), key=KEY)
    assert not check.passed
    assert any(words in line for line in check.verdicts), str(check)
    assert words in str(check)


def test_what_is_reported_of_innovations(fit):
    check = mc.check_fit(fit, key=KEY)
    e = np.asarray(fit.beliefs().innovations)[..., 0]
    (channel,) = check.channels
    assert channel.n == np.isfinite(e).sum() == N * STEPS - 3
    assert_allclose(channel.mean, np.nanmean(e), rtol=1e-10)
    assert_allclose(channel.variance, np.nanvar(e), rtol=1e-10)
    observed = np.asarray(fit.trials.observed)[np.isfinite(fit.trials.observed)]
    replicates = check.replicates[:, np.isfinite(fit.trials.observed)]
    low, high = np.quantile(replicates, [0.025, 0.975], axis=0)
    inside = ((observed > low) & (observed < high)).mean()
    assert_allclose(channel.coverage, inside, atol=0.03)


def test_filtered_experiments_are_replicates_with_their_likelihoods(fit):
    """Samples of the same key as `simulate_like`; innovations as of `track_beliefs`."""
    found = filtered_experiments(fit, n_replicates=3, key=KEY)
    replicated = replicated_samples(fit, n_replicates=3, key=KEY)
    assert_allclose(found.samples[1:], replicated)
    assert_allclose(found.samples[0], fit.trials.observed)
    assert_allclose(found.innovations[0], fit.beliefs().innovations, atol=1e-9)
    problem, observer = fit.at(steps=STEPS)
    policy = mc.solve(problem)
    for values, samples in zip(found.log_likelihoods[[0, 2]], found.samples[[0, 2]], strict=True):
        alone = mc.log_likelihood(
            problem, samples, policy=policy, observer=observer, per_trial=True
        )
        assert_allclose(values, alone, rtol=1e-9)
    assert_allclose(
        found.course, np.tile(mc.moments(problem, policy).state_mean[:, 1:2], (N, 1, 1)), atol=1e-12
    )


def changed(fit, change):
    """The fit with other samples: what the function makes of those that the model simulates."""
    samples = replicated_samples(fit, n_replicates=1, key=jax.random.key(11))[0].copy()
    trials = eqx.tree_at(lambda t: t.observed, fit.trials, jnp.asarray(change(samples)))
    return of_other_data(fit, trials)


def test_a_band_that_holds_too_much_is_a_misfit(fit):
    def narrower(samples):
        mean = np.nanmean(samples, axis=0)
        return mean + 0.4 * (samples - mean)

    check = mc.check_fit(changed(fit, narrower), key=KEY)
    (channel,) = check.channels
    assert channel.coverage > 0.98
    assert {"coverage", "half"} & set(channel.missed)
    assert "trials differ less from the model's mean than its own do" in str(check)
    assert "nothing large" not in str(check)


def test_a_few_jumps_are_a_misfit(fit):
    def jumping(samples):
        samples[[2, 9, 15, 22], [4, 6, 3, 8]] += 0.1  # ten times the noise of the recording
        return samples

    check = mc.check_fit(changed(fit, jumping), key=KEY)
    (channel,) = check.channels
    assert channel.kurtosis > 8
    assert "velocity has more large misses than the model says: the kurtosis" in str(check)
    assert set(check.outlying) == {2, 9, 15, 22}
    assert {trial.trial for trial in check.worst} < {2, 9, 15, 22}
    assert "4 trials are hardly possible in the model; the least probable is trial" in str(check)


def test_the_group_that_fits_worst_is_named(fit):
    def of_another(samples):
        samples[20:] = record(3, n=10, tau=0.08).observed
        return samples

    block = np.repeat(["early", "middle", "late"], 10)
    check = mc.check_fit(changed(fit, of_another), key=KEY, by={"block": block})
    early, late, _ = check.groups["block"]
    assert (early.where, early.trials) == ("for block early", 10)
    assert early.missed == ()
    assert late.missed
    line = f"It is worst for block late (10 trials), in velocity: {late.numbers}."
    assert line in check.verdicts
    assert check.worst[0].about == "block late"


def test_words_for_either_side():
    right = Channel("angle", 90, 0.0, 1.0, 3.0, 0.0, 0.95, 0.95, 20)
    assert right.verdicts == []
    high = replace(right, mean=0.3, variance=2.0, kurtosis=18.0, lag=0.4, coverage=1.0, half=0.8)
    low = replace(right, mean=-0.3, variance=0.4, kurtosis=1.5, lag=-0.4, coverage=0.6, half=0.2)
    words = {
        "mean": ("on average more", "on average less"),
        "variance": ("varies more", "varies less"),
        "kurtosis": ("more large misses", "fewer large misses"),
        "lag": ("misses persist", "misses alternate"),
        "coverage": ("differ less", "differ more"),
        "half": ("differ less", "differ more"),
    }
    for name, expected in words.items():
        for channel, said in zip((high, low), expected, strict=True):
            (line,) = replace(channel, missed=(name,), where="mid-movement").verdicts
            assert said in line
            assert "angle mid-movement" in line
    echo = replace(right, later=0.45, samples_apart=3, missed=("later",))
    assert "misses go together with those 3 samples later (correlation +0.45)" in echo.verdicts[0]
    mixed = replace(right, coverage=0.8, half=0.7, missed=("coverage", "half"))
    assert "a few much further" in mixed.verdicts[0]


def test_a_phase_is_told_unless_the_whole_says_it():
    whole = Channel("angle", 90, 0.0, 2.4, 3.0, 0.0, 0.95, 0.95, 20, missed=("variance",))
    same = replace(whole, where="mid-movement", variance=3.0)
    other = replace(whole, where="at start and end", variance=0.4)
    made = made_adequacy(made_fit(["effort"], recorded()))
    lines = replace(made, channels=(whole,), phases=(same, other), groups={}).verdicts
    assert [line.split(" varies")[0] for line in lines] == ["angle", "angle at start and end"]
    numbers = np.concatenate([np.linspace(0.1, 0.1004, 7), np.linspace(0.3, 0.4, 8)])
    groups = groups_of("target", numbers)
    assert [chosen.sum() for chosen in groups.values()] == [5, 5, 5]
    assert groups_of("subject", np.array(["a"] * 5 + ["b"] * 3)).keys() == {"for subject a"}


def test_nothing_is_concluded_from_a_search_that_did_not_settle(fit):
    check = mc.check_fit(replace(fit, converged=False), key=KEY)
    assert not check.passed
    assert check.conclusion == ["The search did not settle: whether the model fits cannot be said."]
    assert "nothing large" not in str(check)


@pytest.mark.usefixtures("as_users_call_it")
def test_bad_checks(fit):
    with pytest.raises(mc.InputError, match=r"n_replicates .* must be at least 10, got 9"):
        mc.check_fit(fit, key=KEY, n_replicates=9)
    with pytest.raises(mc.InputError, match=r"label 'block' must have one value per trial \(30\)"):
        mc.check_fit(fit, key=KEY, by={"block": [1, 2]})


# --- before an experiment ---


@pytest.fixture(scope="module")
def precision():
    return mc.expected_precision(
        mc.tasks.reaching,
        at={**TRUTH, "steps": STEPS},
        free=FREE,
        n_trials=[N, 4 * N],
        key=jax.random.key(9),
        observer=SEEN,
        simulated=2000,
    )


def test_expected_errors_are_what_fits_will_say(precision, fit):
    """The curvature of the same trials, by differences of scores, and that of the fit."""
    h = 1e-3
    ends = [
        [
            np.sum(scores(precision.objective, jnp.asarray(precision.point + s * e))[1], axis=0)
            for e in h * np.eye(2)
        ]
        for s in (1, -1)
    ]
    information = -(np.array(ends[0]) - np.array(ends[1])) / (2 * h) / 2000
    curved = np.sqrt(np.diagonal(np.linalg.inv(N * (information + information.T) / 2)))
    expected = list(precision.search_scale_errors(N).values())
    assert_allclose(expected, curved, rtol=0.1)
    # The error bars of 30 trials scatter by about 1 / sqrt(60) themselves.
    assert_allclose(expected, list(fit.search_scale_errors.values()), rtol=0.4)


def test_four_times_the_trials_halve_the_errors(precision):
    for name, (few, many) in precision.relative_errors.items():
        assert_allclose(many, few / 2, rtol=1e-12)
        assert_allclose(
            precision.standard_errors[name], [few * TRUTH[name], many * TRUTH[name]], rtol=1e-12
        )
    (few, _), needed = precision.relative_errors["velocity"], precision.trials_for(0.01)
    assert_allclose(needed["velocity"], N * (few / 0.01) ** 2, atol=1)


def test_trials_for_does_not_depend_on_where_one_began(precision):
    """Even where a single trial tells less than the support."""
    weak = replace(precision, information=1e-5 * precision.information, n_trials=(1,))
    many = replace(weak, n_trials=(10**7,))
    assert weak.relative_errors["velocity"] == [np.inf]
    assert_allclose(
        list(weak.trials_for(0.1).values()), list(many.trials_for(0.1).values()), atol=1
    )


def test_what_no_number_of_trials_tells(precision):
    """If only the product of two parameters matters to the data."""
    product = replace(precision, information=np.full((2, 2), 50.0))
    assert product.relative_errors["velocity"] == [np.inf, np.inf]
    assert product.trials_for(0.1) == {"velocity": np.inf, "motor_noise": np.inf}
    assert product.directions[0].verdict == "open"
    assert "The data cannot tell" in str(product)


def test_a_parameter_that_is_assumed_to_be_zero_has_a_standard_error(trials):
    def shifted(shift=0.0, steps=STEPS):
        return mc.tasks.reaching(target=0.1 + shift, steps=steps)

    model = make_objective(shifted, trials, {"shift": mc.Uniform(-1.0, 1.0)}, observer=SEEN)
    found = Precision(model, np.zeros(1), np.array([[400.0]]), (25,), 100)
    assert_allclose(found.standard_errors["shift"], [0.01])


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_trials": 0}, "n_trials"),
        ({"free": ["effort", "force"]}, "force is free, so `at` must have its assumed true value"),
        ({"at": {"efort": 1e-5}}, "unknown parameter 'efort'"),
        ({"simulated": 1}, "simulated"),
    ],
)
def test_bad_plans(options, message):
    given = {"at": {"effort": 1e-5}, "n_trials": 10, "key": KEY} | options
    with pytest.raises(mc.InputError, match=message):
        mc.expected_precision(mc.tasks.reaching, **given)
