import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from motorcost.fitting.climb import climb


def batched(function):
    """`function` of a point, giving value and gradient, for rows of points; NaN stays NaN."""

    def evaluate(points):
        values, slopes = np.full(len(points), np.nan), np.full(points.shape, np.nan)
        for i in np.flatnonzero(~np.isnan(points).any(axis=1)):
            values[i], slopes[i] = function(points[i])
        return values, slopes

    return evaluate


def rosenbrock(x):
    a, b = 1 - x[0], x[1] - x[0] ** 2
    return a**2 + 20 * b**2, np.array([-2 * a - 80 * b * x[0], 40 * b])


STARTS = np.random.default_rng(0).uniform(-2, 2, size=(25, 2))


def test_all_find_the_bottom_of_a_curved_valley():
    state = climb(batched(rosenbrock), STARTS, np.array([[-3.0, 3.0]] * 2), 1e-14, 300)
    assert state.converged.all()
    assert_allclose(state.best, 1.0, atol=1e-5)


def test_bounds_hold_and_the_edge_is_found():
    bounds = np.array([[-3.0, 0.5], [-3.0, 3.0]])
    tried = []

    def recorded(x):
        tried.append(x)
        return rosenbrock(x)

    state = climb(batched(recorded), STARTS, bounds, 1e-14, 300)
    assert np.max(tried, axis=0)[0] <= 0.5
    scipys = minimize(rosenbrock, [0.0, 0.0], jac=True, method="L-BFGS-B", bounds=bounds)
    assert_allclose(state.best, np.tile(scipys.x, (25, 1)), atol=1e-4)


def test_a_wall_is_stepped_back_from():
    def walled(x):
        value, slope = rosenbrock(x)
        return (np.inf, np.full(2, np.nan)) if x[0] > 1.2 else (value, slope)

    inside = STARTS[STARTS[:, 0] < 1.1]
    state = climb(batched(walled), inside, np.array([[-3.0, 3.0]] * 2), 1e-14, 300)
    assert_allclose(state.best, 1.0, atol=1e-5)


def test_a_start_behind_the_wall_is_given_up_alone():
    def walled(x):
        return (np.nan, np.full(2, np.nan)) if x[0] > 1.2 else rosenbrock(x)

    starts = np.array([[2.0, 0.0], [0.0, 0.0]])
    state = climb(batched(walled), starts, np.array([[-3.0, 3.0]] * 2), 1e-14, 300)
    assert state.converged.tolist() == [False, True]
    assert np.isinf(state.value[0])


def test_searches_do_not_depend_on_each_other():
    bounds = np.array([[-3.0, 3.0]] * 2)
    together = climb(batched(rosenbrock), STARTS, bounds, 1e-14, 300)
    alone = climb(batched(rosenbrock), STARTS[3:4], bounds, 1e-14, 300)
    assert_allclose(alone.best[0], together.best[3], rtol=1e-12)


@pytest.mark.parametrize("most", [1, 5])
def test_no_more_points_than_allowed(most):
    rounds = 0

    def counted(points):
        nonlocal rounds
        rounds += 1
        return batched(rosenbrock)(points)

    state = climb(counted, STARTS, np.array([[-3.0, 3.0]] * 2), 1e-14, most)
    assert rounds == most
    assert not state.converged.all()
    assert np.isfinite(state.value).all()
