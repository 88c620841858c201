"""Nelder-Mead and BOBYQA as adapters: several at once, each going the way it goes alone."""

import sys
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import Bounds, minimize, rosen, rosen_der

import motorcost as mc
from motorcost.fitting.derivative_free import (
    METHODS,
    StoppedError,
    check_available,
    run_together,
)
from motorcost.fitting.engine import search_all

WIDE = np.array([[-5.0, 5.0], [-5.0, 5.0]])
STARTS = np.array([[-1.2, 1.0], [2.0, 2.0], [0.0, 0.0], [-3.0, 4.0]])


def values(which, points):
    return np.array([rosen(point) for point in points])


def minimiser(start):
    options = {"maxfev": 60}
    return lambda ask: minimize(
        ask, start, method="Nelder-Mead", bounds=Bounds(*WIDE.T), options=options
    )


def climbed(hill, start, method, bounds=WIDE, scale=100.0, most=600):
    """One search for the maximum of `hill`, a function of a point that gives value and slope."""

    def evaluate(which, points):
        found = [hill(point) for point in points]
        values, slopes = (np.array(part) for part in zip(*found, strict=True))
        return values, slopes, None

    (found,), _ = search_all(
        evaluate,
        np.array([start], float),
        bounds,
        scale=scale,
        max_evaluations=most,
        method=method,
    )
    return found


def quadratic(at, curvature):
    return lambda x: (-0.5 * (x - at) @ curvature @ (x - at), -curvature @ (x - at))


# --- several at once ---


def test_searches_that_run_together_go_the_way_they_go_alone():
    counts = []

    def counted(which, points):
        counts.append(len(points))
        return values(which, points)

    found, stopped = run_together([minimiser(start) for start in STARTS], counted)
    alone = [minimiser(start)(rosen) for start in STARTS]
    assert not stopped
    for one, other in zip(found, alone, strict=True):
        assert_allclose(one.x, other.x, rtol=1e-12)
        assert one.nfev == other.nfev
    assert len(counts) == max(result.nfev for result in alone)
    assert counts[0] == len(STARTS)


def test_answers_belong_to_who_asked():
    """Worker i has its minimum at i, whoever is done already."""

    def worker(i):
        def work(ask):
            for _ in range(i):  # so that they end at different times
                ask(np.zeros(1))
            return ask(np.full(1, float(i)))

        return work

    found, _ = run_together(
        [worker(i) for i in range(5)], lambda which, points: (points[:, 0] - which) ** 2
    )
    assert found == [0.0] * 5


def test_a_worker_that_asks_nothing_and_no_workers_at_all():
    found = run_together([lambda ask: 3, lambda ask: ask(np.zeros(2))], values)
    assert found == ([3, 1.0], False)
    assert run_together([], values) == ([], False)


def test_an_error_in_a_worker_reaches_the_caller():
    def bad(ask):
        ask(np.zeros(2))
        raise mc.InputError("this one")

    before = threading.active_count()
    with pytest.raises(mc.InputError, match="this one"):
        run_together([minimiser(STARTS[0]), bad], values)
    assert threading.active_count() == before


def test_an_error_in_the_evaluation_reaches_the_caller():
    def evaluate(which, points):
        raise ZeroDivisionError("here")

    before = threading.active_count()
    with pytest.raises(ZeroDivisionError, match="here"):
        run_together([minimiser(start) for start in STARTS], evaluate)
    assert threading.active_count() == before


def test_an_interrupt_stops_all_workers():
    stops, calls = [], []

    def work(ask):
        try:
            while True:
                ask(np.zeros(2))
        except StoppedError:
            stops.append(threading.current_thread())
            return "stopped"

    def evaluate(which, points):
        calls.append(which)
        if len(calls) > 4:
            raise KeyboardInterrupt
        return values(which, points)

    found, stopped = run_together([work] * 3, evaluate)
    assert stopped
    assert found == ["stopped"] * 3
    assert len(set(stops)) == 3


@pytest.mark.parametrize("method", METHODS)
def test_an_interrupted_search_returns_its_best_so_far(method):
    seen = []

    def hill(point):
        if len(seen) == 6:
            raise KeyboardInterrupt
        seen.append((-rosen(point), np.array(point)))
        return -rosen(point), -rosen_der(point)

    found = climbed(hill, [-1.2, 1.0], method)
    value, point = max(seen, key=lambda pair: pair[0])
    assert (found.message, found.converged, found.evaluations) == ("interrupted", False, 6)
    assert_allclose(found.value, value, rtol=1e-9)
    assert_allclose(found.point, point)


# --- every method, by the same laws ---


@pytest.mark.parametrize("method", METHODS)
def test_the_maximum_of_a_quadratic(method):
    at, curvature = np.array([0.7, -1.3]), np.array([[50.0, 20.0], [20.0, 30.0]])
    found = climbed(quadratic(at, curvature), [-2.0, 3.0], method)
    assert found.converged
    assert_allclose(found.point, at, atol=1e-4)
    assert found.value > -1e-6


@pytest.mark.parametrize("method", METHODS)
def test_the_maximum_along_a_bent_valley(method):
    from scipy.optimize import rosen_der

    found = climbed(
        lambda x: (-100 * rosen(x), -100 * rosen_der(x)), [-1.2, 1.0], method, most=2000
    )
    assert_allclose(found.point, 1.0, atol=2e-3)
    assert found.value > -1e-3


@pytest.mark.parametrize("method", METHODS)
def test_bounds_are_kept_and_the_best_point_within_is_found(method):
    bounds = np.array([[-1.0, 0.5], [-0.4, 2.0]])
    asked = []
    hill = quadratic(np.array([2.0, -1.0]), np.diag([10.0, 20.0]))

    def watched(x):
        asked.append(np.array(x))
        return hill(x)

    found = climbed(watched, [-0.9, 1.9], method, bounds, scale=10.0)
    assert (np.array(asked) >= bounds[:, 0]).all()
    assert (np.array(asked) <= bounds[:, 1]).all()
    assert_allclose(found.point, [0.5, -0.4], atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_a_start_in_the_corner_of_a_narrow_support(method):
    bounds = np.array([[0.0, 0.5], [0.0, 0.5]])
    hill = quadratic(np.array([0.3, 0.2]), np.diag([1000.0, 2000.0]))
    for corner in ([0.0, 0.0], [0.5, 0.5], [0.0, 0.5]):
        found = climbed(hill, corner, method, bounds, scale=10.0)
        assert_allclose(found.point, [0.3, 0.2], atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("wall", [-np.inf, np.nan])
def test_walls_are_survived(method, wall):
    """Half of the support is impossible, and the maximum is close to the wall."""
    smooth = quadratic(np.array([0.05, 0.0]), np.diag([100.0, 200.0]))

    def hill(x):
        return (wall, np.full(2, np.nan)) if x[0] < 0 else smooth(x)

    found = climbed(hill, [3.0, 2.0], method, most=1000)
    assert_allclose(found.point, [0.05, 0.0], atol=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_far_from_any_sense_the_search_still_arrives(method):
    """A log likelihood of -1e10 that changes by orders of magnitude with every unit."""

    def hill(x):
        steep = np.exp(5 * x[0] ** 2)
        return -steep + 1 - x[1] ** 2, np.array([-10 * x[0] * steep, -2 * x[1]])

    found = climbed(hill, [2.2, 3.0], method, scale=1.0, most=400)
    assert_allclose(found.point, 0, atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_the_number_of_evaluations_is_limited(method):
    from scipy.optimize import rosen_der

    hill = lambda x: (-100 * rosen(x), -100 * rosen_der(x))  # noqa: E731
    found = climbed(hill, [-1.2, 1.0], method, most=15)
    assert found.evaluations <= 15 + 2
    assert not found.converged


def test_without_bobyqa_an_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pybobyqa", None)
    with pytest.raises(mc.InputError, match=r"pip install 'motorcost\[bobyqa\]'"):
        check_available("bobyqa", WIDE)


def test_bobyqa_needs_finite_bounds():
    open_ = np.array([[-np.inf, np.inf], [0.0, 1.0]])
    with pytest.raises(mc.InputError, match="needs finite bounds for every parameter"):
        check_available("bobyqa", open_)
