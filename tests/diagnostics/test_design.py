"""Designs of experiments: information against exact answers, and what is expected of them."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
import naive
from motorcost.diagnostics.allocation import optimal_shares, sensitivities
from motorcost.diagnostics.candidates import make_candidates, make_setting
from motorcost.diagnostics.design_check import DesignCheck
from motorcost.diagnostics.designing import _allocated, _best_step, _noted
from motorcost.diagnostics.designs import BATCHES
from motorcost.diagnostics.precision import wide_supports
from motorcost.diagnostics.replicates import samples_at
from motorcost.diagnostics.trial_information import TrialInformation, trial_information
from motorcost.fitting.objective import scores
from motorcost.plots import plot_design
from motorcost.report.design import FILES, write_design

KEY = jax.random.key(0)
CAMERA = mc.ObserverSpec(["position", "velocity"], noise=1e-3)
# Few steps that are long, so that there is little to compile.
SMALL = {"dt": 0.03, "motor_noise": 0.0}
FREE = ["effort", "velocity"]
OFFERED = {"target": [0.05, 0.2], "steps": [8, 11]}


def a_design(**changed):
    given = {"trials": 60, "candidates": OFFERED, "values": SMALL, "observer": CAMERA}
    given |= {"key": KEY, "simulated": 1000, "every": 2}
    return mc.design(mc.tasks.reaching, FREE, **given | changed)


@pytest.fixture(scope="module")
def plan():
    return a_design()


def exact_information(conditions, every):
    """The Fisher information of the dense Gaussian of a trajectory, by differences of its mean and
    covariance: dm' S^-1 dm + tr(S^-1 dS S^-1 dS) / 2."""
    kept = np.arange(conditions["steps"]) % every == 0

    def moments(logs):
        values = dict(zip(FREE, np.exp(logs), strict=True))
        problem = mc.tasks.reaching(**SMALL, **values, **conditions)
        _, _, mean, cov, _ = naive.dense(problem, mc.solve(problem), CAMERA(problem))
        chosen = np.repeat(kept, 2)
        return mean[chosen], cov[np.ix_(chosen, chosen)]

    truth, h = np.log([1e-5, 0.2]), 1e-4
    ends = [[moments(truth + sign * step) for sign in (1, -1)] for step in h * np.eye(2)]
    means, covs = (
        [(above[i] - below[i]) / (2 * h) for above, below in ends] for i in range(2)
    )  # fmt: skip
    inverse = np.linalg.inv(moments(truth)[1])
    return np.array(
        [
            [
                m @ inverse @ n + np.trace(inverse @ a @ inverse @ b) / 2
                for n, b in zip(means, covs, strict=True)
            ]
            for m, a in zip(means, covs, strict=True)
        ]
    )


def test_information_is_that_of_the_dense_gaussian(plan):
    """Without signal-dependent noise the likelihood is exact, so both estimates have its mean.
    Their batches tell how far they may be from it."""
    for c, candidate in enumerate(plan.candidates):
        exact = exact_information(candidate.conditions, every=2)
        for estimated in plan.information:
            mean = estimated[:, c].mean(axis=0)
            error = estimated[:, c].std(axis=0, ddof=1) / np.sqrt(BATCHES)
            assert (np.abs(mean - exact) < 4.5 * error + 0.02 * np.abs(exact)).all()
            root = np.linalg.inv(np.linalg.cholesky(exact))
            assert_allclose(root @ mean @ root.T, np.eye(2), atol=0.2)


def test_expected_errors_are_those_of_the_exact_information(plan):
    exact = np.stack([exact_information(c.conditions, every=2) for c in plan.candidates])
    for allocation in (plan.optimal, plan.equal):
        total = np.einsum("c,cij->ij", allocation.counts, exact)
        errors = np.sqrt(np.diagonal(np.linalg.inv(total)))
        # What is said about the Monte-Carlo error holds, within four of it.
        for name, error in zip(FREE, errors, strict=True):
            relative = np.log(allocation.relative_errors[name] / error)
            assert abs(relative) < 4 * allocation.monte_carlo[name]
            assert allocation.monte_carlo[name] < 0.06


@pytest.mark.slow
def test_curvatures_are_those_of_automatic_differentiation():
    """The second derivatives of the simulated trials, with signal-dependent noise."""
    setting = make_setting(mc.tasks.reaching, FREE, {"dt": 0.03, "steps": 8}, CAMERA)
    (candidate,) = make_candidates(setting, {"target": [0.1]}, 1)
    objective = setting.objective([candidate], [1])
    point = np.asarray(objective.point(setting.at))
    samples = samples_at(objective, jnp.asarray(point), 40, KEY)[:, 0]
    trials = mc.Trials.recorded(
        samples, dt=0.03, channels=["position", "velocity"], conditions={"target": np.full(40, 0.1)}
    )
    many = replace(objective, trials=trials)
    found = trial_information(many, point, (1, 40, 1))
    each = -jax.jacfwd(jax.jacfwd(many.log_likelihoods))(jnp.asarray(point))
    slopes = np.asarray(scores(many, jnp.asarray(point))[1])
    # The regression on the scores, whose mean is taken to be 0: its value there.
    design = np.column_stack([np.ones(40), slopes])
    at_zero = np.linalg.lstsq(design, np.asarray(each).reshape(40, 4), rcond=None)[0][0]
    assert_allclose(found.curvatures[0, 0], at_zero.reshape(2, 2), rtol=1e-4)
    assert_allclose(found.squares[0, 0], slopes.T @ slopes / 40, rtol=1e-12)


@pytest.mark.parametrize("criterion", ["errors", "determinant"])
@pytest.mark.parametrize("trials", [1, 3, 60, 1001])
def test_a_design_spends_the_budget_and_is_never_worse(plan, criterion, trials):
    found = _allocated(replace(plan, criterion=criterion, trials=trials))
    assert sum(found.counts) == sum(found.equal.counts) == sum(found.single.counts) == trials
    assert max(found.single.counts) == trials
    ours, equal, single = found.losses(
        np.array([found.counts, found.equal.counts, found.single.counts])
    )
    assert ours <= min(equal, single)
    assert found.gain >= 1
    assert found.allocation == [
        (c.conditions, n) for c, n in zip(found.candidates, found.counts, strict=True) if n
    ]


def test_shares_obey_the_equivalence_theorem(plan):
    information = 60 * plan.fisher_information
    shares = optimal_shares("errors", information, plan.prior)
    slopes = sensitivities("errors", shares, information, plan.prior)
    assert_allclose(slopes.max(), shares @ slopes, atol=1e-4)


def test_it_prints_what_to_do(plan):
    text = str(plan)
    assert "target=0.2, steps=8" in text
    assert f"{plan.hardest} is the hardest to know" in text
    assert "times as many trials" in text
    assert "Warning" not in text
    for name, error in plan.relative_errors.items():
        assert f"{100 * error:.3g} %" in text
        assert_allclose(plan.standard_errors[name], error * plan.setting.at[name])


def test_it_is_drawn_and_written(plan, tmp_path):
    left, right = plot_design(plan).axes
    assert [bar.get_width() for bar in left.patches] == list(plan.counts)
    drawn = right.lines[0].get_xdata()
    assert_allclose(drawn, [100 * e for e in plan.relative_errors.values()])
    write_design(plan, tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(FILES)


def with_information(plan, per_trial):
    """The design as it would be if a trial of each candidate told this."""
    of_all = np.broadcast_to(per_trial, plan.information.squares.shape)
    return _noted(_allocated(replace(plan, information=TrialInformation(of_all, of_all))))


def test_what_no_candidate_tells_is_named(plan):
    found = with_information(plan, np.diag([100.0, 0.0]))
    assert found.relative_errors["velocity"] == np.inf
    assert_allclose(found.relative_errors["effort"], 1 / np.sqrt(6000))
    text = found.summary()
    assert "velocity cannot be inferred: no candidate tells anything about it." in text
    assert "not known" in text
    assert found.hardest == "velocity"


def test_combinations_that_no_candidate_tells_are_named(plan):
    """If only the product of two parameters matters to the data."""
    found = with_information(plan, np.full((2, 2), 50.0))
    assert all(np.isinf(error) for error in found.relative_errors.values())
    assert "effort and velocity cannot be inferred" in found.summary()
    assert "The data cannot tell" in found.summary()


def test_too_few_trials_are_said(plan):
    found = with_information(plan, np.diag([100.0, 1e-4]))
    assert "60 trials are too few to tell velocity" in found.summary()
    assert "cannot be inferred" not in found.summary()


def test_one_step_of_the_model_is_chosen_for_the_whole_experiment(plan):
    """The other tells half as much, so it needs twice the trials."""
    half = TrialInformation(*(part / 2 for part in plan.information))
    slower = tuple(replace(candidate, dt=0.06) for candidate in plan.candidates)
    other = _allocated(replace(plan, information=half, candidates=slower))
    found = _best_step([other, plan])
    assert found.candidates == plan.candidates
    (note,) = found.notes
    assert note.startswith(
        "dt=0.03 was chosen, one for the whole experiment: dt=0.06 needs 2 times"
    )


def test_a_check_is_shown_beside_what_is_expected(plan):
    """With errors as they would be if all went as expected."""
    normal = np.random.default_rng(0).normal(size=(2000, 2))
    ours, equal = (list(a.relative_errors.values()) for a in (plan.optimal, plan.equal))
    check = DesignCheck(plan, normal * ours, -normal * equal)
    assert_allclose(list(check.spread.values()), ours, rtol=0.05)
    assert_allclose(list(check.equal_spread.values()), equal, rtol=0.05)
    assert_allclose(check.gain, plan.gain, rtol=0.1)
    assert "2000 experiments each" in str(check)
    assert "known to about 1.6 %" in str(check)
    _, right = plot_design(plan, check).axes
    assert len(right.containers) == 2


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"trials": 0}, r"trials \(the budget of the experiment\) must be at least 1, got 0"),
        ({"simulated": 10}, "simulated"),
        ({"criterion": "error"}, "unknown criterion 'error': did you mean errors"),
        ({"candidates": {}}, "there are no candidates"),
        ({"candidates": []}, "there are no candidates"),
        ({"candidates": {"target": []}}, "there are no candidates: target has no values"),
        ({"candidates": {"target": 0.1}}, "target needs a list of values, got 0.1"),
        ({"candidates": ["target"]}, "candidates must be values by condition"),
        ({"candidates": {"targt": [1]}}, "unknown condition 'targt': did you mean target"),
        ({"candidates": {"tau": [0.1]}}, "tau is no condition of the task, so it cannot be a"),
        ({"candidates": {"effort": [0.1]}}, "effort cannot be both free and a candidate"),
        ({"candidates": {"dt": [0.1]}}, "dt cannot be both a candidate and among the values"),
        ({"candidates": {"steps": [8, 1]}}, "candidate steps=1: steps .* must be at least 2"),
        ({"candidates": {"steps": [8.5]}}, r"candidate steps=8.5: steps .* a whole number"),
        ({"candidates": {"target": [np.nan]}}, "candidate target=nan: target must be finite"),
        ({"candidates": {"target": ["far"]}}, "candidate target=far"),
        ({"candidates": {"every": [0]}}, "candidate every=0: every .* must be at least 1"),
        ({"candidates": {"every": [30]}}, "every 30th of 30 samples is only the first"),
        ({"candidates": {"target": [0.1, 0.1]}}, "candidates must differ from each other"),
        ({"candidates": {"target": list(range(2000))}}, "at most 1000 candidates, got 2000"),
        ({"values": {"efort": 1.0}}, "unknown parameter 'efort': did you mean effort"),
        ({"values": {"effort": -1.0}}, "effort"),
        ({"observer": mc.ObserverSpec(["hand"])}, "unknown state 'hand'"),
        ({"key": 0}, "key must be a random key"),
    ],
)
def test_bad_designs_are_one_line(changed, message):
    with pytest.raises(mc.InputError, match=message) as raised:
        a_design(**changed)
    assert "\n" not in str(raised.value)


@pytest.mark.usefixtures("as_users_call_it")
def test_bad_free_parameters():
    given = {"trials": 5, "candidates": {"target": [0.1]}, "key": KEY}
    for free, message in (
        (["efort"], "unknown parameter 'efort'"),
        ([], "nothing is free"),
        ("effort", "free must name parameters"),
        (["target"], "target has no usual support"),
        ({"effort": mc.LogUniform(1e-8, 1e-2, per="subject")}, "a design has no groups"),
    ):
        with pytest.raises(mc.InputError, match=message):
            mc.design(mc.tasks.reaching, free, **given)


@pytest.mark.slow
def test_a_check_compares_with_what_is_expected(plan):
    check = plan.simulate(key=jax.random.key(3), n_experiments=60)
    for name, error in plan.relative_errors.items():
        assert abs(np.log(check.spread[name] / error)) < 4 * check.spread_error
        equal = plan.equal.relative_errors[name]
        assert abs(np.log(check.equal_spread[name] / equal)) < 4 * check.spread_error
    assert "60 experiments each" in str(check)
    assert len(plot_design(plan, check).axes) == 2


@pytest.mark.slow
def test_a_design_beats_equal_allocation_in_simulated_experiments():
    """With signal-dependent noise, where the likelihood is approximate, and positions only."""
    found = mc.design(
        mc.tasks.reaching,
        ["effort", "velocity", "force"],
        trials=200,
        candidates={"target": [0.05, 0.1, 0.2], "steps": [30, 45, 60]},
        observer=mc.ObserverSpec(["position"], noise=1e-3),
        every=3,
        key=KEY,
    )
    assert found.gain > 1.5
    check = found.simulate(key=jax.random.key(1), n_experiments=100)
    assert check.gain > 1.2
    for name, error in found.relative_errors.items():
        assert abs(np.log(check.spread[name] / error)) < 4 * check.spread_error
        equal = found.equal.relative_errors[name]
        assert abs(np.log(check.equal_spread[name] / equal)) < 4 * check.spread_error


@pytest.mark.parametrize(
    ("task", "name", "value", "expected"),
    [
        (mc.tasks.planar_reaching, "adaptation", 2.0, mc.Uniform(-0.5, 4.0)),
        (mc.tasks.posture, "stiffness", 6000.0, mc.Uniform(-5e3, 16e3)),
        (mc.tasks.posture, "stiffness", -6000.0, mc.Uniform(-16e3, 5e3)),
        (mc.tasks.reaching, "effort", 0.1, mc.LogUniform(1e-8, 1.0)),
        (mc.tasks.reaching, "effort", 1e-5, mc.LogUniform(1e-8, 1e-2)),
    ],
)
def test_a_usual_support_is_widened_on_its_own_scale(task, name, value, expected):
    trials = mc.Trials.recorded(np.zeros((1, 3, 1)), dt=0.01)
    assert wide_supports(task, [name], {name: value}, None, trials) == {name: expected}
