"""Searches in step, against SciPy's and against functions whose minimum is known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from motorcost.fitting.optimise import Searches, search_by_gradient

STARTS = np.random.default_rng(0).uniform(-2, 2, size=(25, 2))
WIDE = np.array([[-3.0, 3.0]] * 2)


def rosenbrock(points):
    a, b = 1 - points[:, 0], points[:, 1] - points[:, 0] ** 2
    slope = np.stack([-2 * a - 80 * b * points[:, 0], 40 * b], axis=1)
    return a**2 + 20 * b**2, slope


def searched(function, starts=STARTS, bounds=WIDE, tolerance=1e-14, most=300, **more):
    return search_by_gradient(
        lambda which, points: (*function(points), None),
        np.asarray(starts, float),
        bounds,
        tolerance=tolerance,
        max_evaluations=most,
        **more,
    )


def points_of(found):
    return np.stack([search.point for search in found])


def test_all_find_the_bottom_of_a_curved_valley():
    found, interrupted = searched(rosenbrock)
    assert not interrupted
    assert {search.message for search in found} == {"converged"}
    assert_allclose(points_of(found), 1.0, atol=1e-6)
    assert max(search.evaluations for search in found) < 60


def test_bounds_hold_and_the_edge_is_found():
    bounds = np.array([[-3.0, 0.5], [-3.0, 3.0]])
    tried = []

    def recorded(points):
        tried.extend(points)
        return rosenbrock(points)

    found, _ = searched(recorded, bounds=bounds)
    assert np.max(tried, axis=0)[0] <= 0.5
    alone = minimize(
        lambda x: [part[0] for part in rosenbrock(x[None])],
        [0.0, 0.0],
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
    )
    assert_allclose(points_of(found), np.tile(alone.x, (25, 1)), atol=1e-4)


def test_a_coordinate_with_equal_bounds_is_held():
    bounds = np.repeat(WIDE[None], len(STARTS), axis=0)
    bounds[:, 0] = STARTS[:, :1]
    found, _ = searched(rosenbrock, bounds=bounds)
    held = points_of(found)
    assert_allclose(held[:, 0], STARTS[:, 0], rtol=1e-15)
    best = np.minimum(STARTS[:, 0] ** 2, 3.0)  # of the other, within its bounds
    assert_allclose(held[:, 1], best, atol=1e-5)


@pytest.mark.parametrize("wall", [np.inf, np.nan])
def test_a_wall_is_stepped_back_from(wall):
    def walled(points):
        values, slopes = rosenbrock(points)
        return np.where(points[:, 0] > 1.05, wall, values), slopes

    inside = STARTS[STARTS[:, 0] < 1.0]
    found, _ = searched(walled, inside)
    assert_allclose(points_of(found), 1.0, atol=1e-5)


def test_a_start_behind_the_wall_is_given_up_alone():
    def walled(points):
        values, slopes = rosenbrock(points)
        return np.where(points[:, 0] > 1.2, np.nan, values), slopes

    found, _ = searched(walled, [[2.0, 0.0], [0.0, 0.0]])
    assert [search.converged for search in found] == [False, True]
    assert found[0].message == "no finite value at the start"
    assert (found[0].value, found[0].evaluations) == (np.inf, 1)


def test_a_jump_does_not_end_a_search():
    """The value drops by 1 across a line on the way: with a line search that asks for more than
    a decrease, the curvature stays positive and the search goes on."""

    def jumping(points):
        values, slopes = rosenbrock(points)
        return values + (points[:, 0] < 0.3), slopes

    found, _ = searched(jumping, [[-1.0, 1.0], [-0.5, -1.0], [0.0, 2.0]])
    assert_allclose(points_of(found), 1.0, atol=1e-5)


def test_a_cliff_in_front_of_the_bottom_takes_few_points():
    """Searches that cannot get past a cliff stop in front of it, rather than narrow down where it
    is on one line after the other: they took 170 points on average."""
    shape = np.random.default_rng(1).normal(size=(9, 9))
    shape = shape @ shape.T + 0.1 * np.eye(9)
    across = np.random.default_rng(2).normal(size=9)

    def cliff(points):
        values = 0.5 * np.einsum("si,ij,sj->s", points - 1, shape, points - 1)
        return values + ((points - 0.5) @ across > 0), (points - 1) @ shape

    starts = np.random.default_rng(3).uniform(-3, 3, (40, 9))
    found, _ = searched(cliff, starts, np.array([[-5.0, 5.0]] * 9), tolerance=1e-7)
    below = np.linalg.solve(shape, across)
    lowest = 0.5 * (0.5 * across.sum()) ** 2 / (across @ below)  # of the quadratic, on the cliff
    values = np.array([search.value for search in found])
    stopped = np.array([not search.converged for search in found])
    assert stopped.sum() >= 30
    assert np.mean([search.evaluations for search in found]) < 80
    # Starts on the far side of the cliff stay there, one above.
    assert (np.minimum(values - lowest, np.abs(values - 1.0)) < 0.1).all()


def test_an_ill_conditioned_logarithmic_well():
    """The shape of our objective far from its maximum: a logarithm of a quadratic with a condition
    number of 1e7. Armijo's rule alone ends some of these searches early, and so does L-BFGS-B."""
    scales = np.array([1.0, 10.0, 0.1])
    shape = np.array([[1.0, 0.99, 0.5], [0.99, 1.0, 0.5], [0.5, 0.5, 1.0]]) * np.outer(
        scales, scales
    )
    shape += 1e-3 * np.eye(3)

    def well(points):
        inner = np.einsum("si,ij,sj->s", points, shape, points)
        return np.arcsinh(1e4 * inner), 2e4 * points @ shape / np.hypot(1.0, 1e4 * inner)[:, None]

    starts = np.random.default_rng(0).uniform(-2, 2, size=(200, 3))
    found, _ = searched(well, starts, np.array([[-5.0, 5.0]] * 3), most=200)
    assert all(search.converged for search in found)
    assert max(search.value for search in found) < 1e-12


def test_searches_do_not_depend_on_each_other():
    together, _ = searched(rosenbrock)
    alone, _ = searched(rosenbrock, STARTS[3:4])
    assert_allclose(alone[0].point, together[3].point, rtol=1e-12)
    assert alone[0].evaluations == together[3].evaluations


def test_each_search_gets_the_values_of_its_own_function():
    """Search i has its minimum at i, whoever is done already."""
    starts = np.linspace(-1, 9, 6)[:, None]

    def evaluate(which, points):
        away = points - which[:, None]
        return (away**4).sum(axis=1), 4 * away**3, None

    found, _ = search_by_gradient(
        evaluate, starts, np.array([[-20.0, 20.0]]), tolerance=1e-16, max_evaluations=200
    )
    assert_allclose(points_of(found)[:, 0], np.arange(6), atol=1e-2)


@pytest.mark.parametrize("most", [1, 5])
def test_no_more_points_than_allowed(most):
    rounds = 0

    def counted(points):
        nonlocal rounds
        rounds += 1
        return rosenbrock(points)

    found, _ = searched(counted, most=most)
    assert rounds == most
    assert {search.evaluations for search in found} == {most}
    assert {search.message for search in found} == {"out of evaluations"}
    starts, _ = rosenbrock(STARTS)
    assert (np.array([search.value for search in found]) <= starts).all()


def test_an_interruption_keeps_the_best_of_each():
    seen = []

    def interrupted_later(points):
        if len(seen) == 6:
            raise KeyboardInterrupt
        values, slopes = rosenbrock(points)
        seen.append(values)
        return values, slopes

    found, interrupted = searched(interrupted_later)
    assert interrupted
    best = np.min(seen, axis=0)  # nobody is done after six points
    assert_allclose([search.value for search in found], best, rtol=1e-12)
    assert {search.message for search in found} == {"interrupted"}


def test_progress_counts_the_searches_that_are_done():
    told = []
    found, _ = searched(rosenbrock, tick=told.append)
    assert told == sorted(told)
    assert told[-1] == len(found)


def test_a_flat_function_has_converged_at_once():
    found, _ = searched(lambda points: (np.ones(len(points)), np.zeros_like(points)))
    assert {(search.evaluations, search.converged) for search in found} == {(1, True)}


def test_the_state_takes_huge_slopes_without_a_warning():
    state = Searches(np.zeros((1, 1)), np.array([[-1.0, 1.0]]), 1e-10)
    state.tell(np.array([1e300]), np.array([[1e300]]))
    assert_allclose(state.points, [[-0.5]])
