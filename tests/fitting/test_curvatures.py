"""Rough curvatures from the scores of trials that differ, and searches that use them."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost.fitting.batching import BatchedObjective
from motorcost.fitting.optimise import search_by_gradient
from motorcost.fitting.specification import make_objective

FREE = ["effort", "motor_noise"]
SEEN = mc.ObserverSpec(["position"], noise=1e-3)
POINT = np.log([2e-5, 0.4])


def reaches(targets, lengths, seed=0):
    samples = []
    for i, (target, length) in enumerate(zip(targets, lengths, strict=True)):
        rng = np.random.default_rng((seed, i))
        rise = np.sin(np.linspace(0, np.pi / 2, length)) ** 3
        samples.append((target * rise + 1e-3 * rng.standard_normal(length))[:, None])
    return mc.Trials.recorded(
        samples, dt=0.02, channels=["position"], conditions={"target": targets}
    )


def objective_of(trials):
    return make_objective(mc.tasks.reaching, trials, FREE, fixed={"dt": 0.02}, observer=SEEN)


@pytest.fixture(scope="module")
def objective():
    """Five kinds of trials, of which one has two trials and two differ in length only."""
    return objective_of(reaches([0.1, 0.2, 0.1, 0.15, 0.2, 0.1], [8, 8, 9, 10, 10, 8]))


def test_they_are_the_variance_of_the_scores_of_the_kinds(objective):
    assert objective.n_problems == 5
    assert objective.has_curvatures
    batched = BatchedObjective(objective, expected=1)
    zero, h = np.zeros(1, int), 1e-5
    _, gradients, curvatures = batched.with_curvatures(zero, POINT[None])
    around = [POINT + sign * h * e for e in np.eye(2) for sign in (1, -1)]
    up, down = (
        np.stack([batched.per_trial(zero, x[None])[0] for x in around[k::2]]) for k in (0, 1)
    )
    of_trials = ((up - down) / (2 * h)).T
    scores = np.array([of_trials[0] + of_trials[5], *of_trials[1:5]])
    assert_allclose(gradients[0], scores.sum(axis=0), rtol=1e-5)
    assert_allclose(curvatures[0], 5 * np.cov(scores.T, bias=True), rtol=1e-5)


def test_there_are_none_where_few_trials_differ():
    objective = objective_of(reaches([0.1, 0.2, 0.1], [8, 8, 9]))
    assert not objective.has_curvatures


@pytest.mark.slow
def test_priors_are_added_once(objective):
    zero = np.zeros(1, int)
    free = {"effort": mc.LogNormal(1e-5, 0.7), "motor_noise": mc.LogNormal(0.5, 0.3)}
    model = make_objective(
        mc.tasks.reaching, objective.trials, free, fixed={"dt": 0.02}, observer=SEEN
    )
    with_priors = BatchedObjective(model, expected=1, priors=True)(zero, POINT[None])
    without = BatchedObjective(objective, expected=1)(zero, POINT[None])
    away = (POINT - np.log([1e-5, 0.5])) / np.array([0.7, 0.3])
    assert_allclose(with_priors[0] - without[0], -0.5 * (away**2).sum(), rtol=1e-8)
    assert_allclose((with_priors[1] - without[1])[0], -away / np.array([0.7, 0.3]), rtol=1e-6)


# --- searches that are told a rough curvature ---

STEEP = np.array([1e4, 1.0, 1e-3])
STARTS = np.random.default_rng(0).uniform(-2, 2, size=(9, 3))
WIDE = np.array([[-3.0, 3.0]] * 3)


def ravine(points):
    """A function with a minimum of 0 at 1, a million times steeper in one direction."""
    away = points - 1.0
    return (STEEP * (away**2 + away**4 / 8)).sum(axis=1), STEEP * (2 * away + away**3 / 2)


def told(curvature, bounds=WIDE, starts=STARTS):
    found, _ = search_by_gradient(
        lambda which, points: (*ravine(points), curvature(points)),
        starts,
        bounds,
        tolerance=1e-14,
        max_evaluations=400,
    )
    return found


def rough(points):
    """Half to twice the curvature, in other axes: what few scores tell."""
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    root = np.sqrt(2 * STEEP)[:, None] * turn * np.sqrt([0.5, 1.0, 2.0])
    return np.broadcast_to(root @ root.T, (len(points), 3, 3))


def test_they_need_fewer_evaluations():
    # Of nine searches rounding alone, which differs between machines, changes the sum by a tenth.
    starts = np.random.default_rng(0).uniform(-2, 2, size=(90, 3))
    with_curvature, without = (
        told(curvature, starts=starts) for curvature in (rough, lambda points: None)
    )
    for found in (with_curvature, without):
        assert_allclose(np.stack([f.point for f in found]), 1.0, atol=1e-4)
    assert all(f.converged for f in with_curvature)
    evaluations = [sum(f.evaluations for f in found) for found in (with_curvature, without)]
    assert evaluations[0] < 0.7 * evaluations[1]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda points: np.zeros((len(points), 3, 3)),
        lambda points: np.ones((len(points), 3, 3)) + np.eye(3) / 9,  # as for supports of 6
        lambda points: np.full((len(points), 3, 3), np.nan),
        lambda points: np.broadcast_to(1e9 * np.eye(3), (len(points), 3, 3)),
    ],
    ids=["zero", "nearly singular", "missing", "far too large"],
)
def test_a_wrong_curvature_does_no_harm(wrong):
    found = told(wrong)
    assert_allclose(np.stack([f.value for f in found]), 0.0, atol=1e-8)


def test_bounds_hold_coordinates_out_of_the_curvature():
    """The minimum with the second coordinate at its bound, in axes that are not those of the
    curvature."""
    bounds = np.array([[-3.0, 3.0], [-3.0, 0.5], [-3.0, 3.0]])
    for found in told(rough, bounds):
        assert found.evaluations < 60
        assert_allclose(found.point, [1.0, 0.5, 1.0], atol=1e-4)


@pytest.mark.slow
def test_a_fit_with_curvatures_is_the_maximum_that_a_search_without_finds(objective):
    fit = mc.fit(
        mc.tasks.reaching,
        objective.trials,
        FREE,
        fixed={"dt": 0.02},
        observer=SEEN,
        n_starts=2,
        key=jax.random.key(0),
    )
    batched = BatchedObjective(objective, expected=1)
    found, _ = search_by_gradient(
        lambda which, points: (*(-part for part in batched(which * 0, points)), None),
        fit.point[None] + 0.1,
        objective.bounds,
        tolerance=1e-12,
        max_evaluations=200,
    )
    assert_allclose(fit.log_likelihood, -found[0].value, rtol=1e-9)
