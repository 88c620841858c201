import sys
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import Bounds, minimize, rosen, rosen_der

import motorcost as mc
from motorcost.fitting.search import METHODS, StoppedError, run_together, search

WIDE = np.array([[-5.0, 5.0], [-5.0, 5.0]])


def together(value, gradient, counts=None):
    """Evaluate a function of one point at several, and count the calls."""

    def evaluate(points):
        if counts is not None:
            counts.append(len(points))
        # Places of those who are done are NaN.
        return np.array([value(x) for x in points]), np.array([gradient(x) for x in points])

    return evaluate


HILL = together(lambda x: -rosen(x), lambda x: -rosen_der(x))
STARTS = np.array([[-1.2, 1.0], [2.0, 2.0], [0.0, 0.0], [-3.0, 4.0]])


def minimiser(start, seen=None):
    def work(ask):
        def objective(x):
            value, gradient = ask(x)
            if seen is not None:
                seen.append((np.array(x), value))
            return -value, -gradient

        return minimize(objective, start, jac=True, method="L-BFGS-B", bounds=Bounds(*WIDE.T))

    return work


# --- several at once ---


def test_searches_that_run_together_go_the_way_they_go_alone():
    counts = []
    found, stopped = run_together(
        [minimiser(start) for start in STARTS],
        together(lambda x: -rosen(x), lambda x: -rosen_der(x), counts),
    )
    alone = [
        minimize(rosen, start, jac=rosen_der, method="L-BFGS-B", bounds=Bounds(*WIDE.T))
        for start in STARTS
    ]
    assert not stopped
    for one, other in zip(found, alone, strict=True):
        assert_allclose(one.x, other.x, rtol=1e-12)
        assert one.nfev == other.nfev
    assert len(counts) == max(each.nfev for each in alone) < sum(each.nfev for each in alone)
    assert set(counts) == {len(STARTS)}


def test_every_worker_gets_its_own_answers():
    seen = [[] for _ in STARTS]
    run_together([minimiser(start, own) for start, own in zip(STARTS, seen, strict=True)], HILL)
    for start, own in zip(STARTS, seen, strict=True):
        assert_allclose(own[0][0], start)
        for x, value in own:
            assert value == -rosen(x)


def test_answers_belong_to_the_place_of_who_asked():
    """As with data sets of their own: place i has its maximum at i, whoever is done already."""

    def evaluate(points):
        at = np.arange(len(points))[:, None]
        return -np.sum((points - at) ** 2, axis=1), -2 * (points - at)

    def worker(i):
        def work(ask):
            for _ in range(i):  # so that they end at different times
                ask(np.zeros(1))
            return ask(np.full(1, float(i)))

        return work

    found, _ = run_together([worker(i) for i in range(5)], evaluate)
    for value, gradient in found:
        assert value == 0
        assert_allclose(gradient, 0)


def test_a_worker_that_asks_nothing_and_no_workers_at_all():
    assert run_together([lambda ask: 3, lambda ask: ask(np.zeros(2))[0]], HILL) == (
        [3, -1.0],
        False,
    )
    assert run_together([], HILL) == ([], False)


def test_an_error_in_a_worker_reaches_the_caller():
    def bad(ask):
        ask(np.zeros(2))
        raise mc.InputError("this one")

    before = threading.active_count()
    with pytest.raises(mc.InputError, match="this one"):
        run_together([minimiser(STARTS[0]), bad], HILL)
    assert threading.active_count() == before


def test_an_error_in_the_evaluation_reaches_the_caller():
    def evaluate(points):
        raise ZeroDivisionError("here")

    before = threading.active_count()
    with pytest.raises(ZeroDivisionError, match="here"):
        run_together([minimiser(start) for start in STARTS], evaluate)
    assert threading.active_count() == before


def interrupted_after(n):
    calls = 0

    def evaluate(points):
        nonlocal calls
        calls += 1
        if calls > n:
            raise KeyboardInterrupt
        return HILL(points)

    return evaluate


def test_an_interrupt_stops_all_workers():
    stops = []

    def work(ask):
        try:
            while True:
                ask(np.zeros(2))
        except StoppedError:
            stops.append(threading.current_thread())
            return "stopped"

    found, stopped = run_together([work] * 3, interrupted_after(4))
    assert stopped
    assert found == ["stopped"] * 3
    assert len(set(stops)) == 3


def test_an_interrupted_search_returns_its_best_so_far():
    n = 6
    seen = [[] for _ in STARTS]

    def worker(start, own):
        def work(ask):
            def remember(x):
                value, gradient = ask(x)
                own.append((value, np.array(x)))
                return value, gradient

            return search(remember, start, WIDE, "gradient", 1.0, 100)

        return work

    workers = [worker(start, own) for start, own in zip(STARTS, seen, strict=True)]
    found, stopped = run_together(workers, interrupted_after(n))
    assert stopped
    for one, own in zip(found, seen, strict=True):
        best = max(own, key=lambda pair: pair[0])
        assert one.evaluations == len(own) == n
        assert (one.value, one.message, one.converged) == (best[0], "interrupted", False)
        assert_allclose(one.point, best[1])


def test_an_interrupt_between_evaluations_counts_too():
    ticks = 0

    def tick():
        nonlocal ticks
        ticks += 1
        if ticks == 3:
            raise KeyboardInterrupt

    worker = lambda ask: search(ask, STARTS[0], WIDE, "gradient", 1.0, 100)  # noqa: E731
    found, stopped = run_together([worker], HILL, tick)
    assert stopped
    assert found[0].message == "interrupted"
    assert found[0].evaluations == 3


# --- one search ---


def alone(value, gradient):
    return lambda x: (float(value(x)), np.asarray(gradient(x)))


def quadratic(at, curvature):
    return alone(lambda x: -0.5 * (x - at) @ curvature @ (x - at), lambda x: -curvature @ (x - at))


@pytest.mark.parametrize("method", METHODS)
def test_the_maximum_of_a_quadratic(method):
    at, curvature = np.array([0.7, -1.3]), np.array([[50.0, 20.0], [20.0, 30.0]])
    found = search(quadratic(at, curvature), np.array([-2.0, 3.0]), WIDE, method, 100.0, 600)
    assert found.converged
    assert_allclose(found.point, at, atol=1e-4)
    assert found.value > -1e-6


@pytest.mark.parametrize("method", METHODS)
def test_the_maximum_along_a_bent_valley(method):
    hill = alone(lambda x: -100 * rosen(x), lambda x: -100 * rosen_der(x))
    found = search(hill, np.array([-1.2, 1.0]), WIDE, method, 100.0, 2000)
    assert_allclose(found.point, 1.0, atol=2e-3)
    assert found.value > -1e-3


@pytest.mark.parametrize("method", METHODS)
def test_bounds_are_kept_and_the_best_point_within_is_found(method):
    bounds = np.array([[-1.0, 0.5], [-0.4, 2.0]])
    asked = []
    ask = quadratic(np.array([2.0, -1.0]), np.diag([10.0, 20.0]))

    def watched(x):
        asked.append(np.array(x))
        return ask(x)

    found = search(watched, np.array([-0.9, 1.9]), bounds, method, 10.0, 600)
    assert (np.array(asked) >= bounds[:, 0]).all()
    assert (np.array(asked) <= bounds[:, 1]).all()
    assert_allclose(found.point, [0.5, -0.4], atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_a_start_in_the_corner_of_a_narrow_support(method):
    bounds = np.array([[0.0, 0.5], [0.0, 0.5]])
    ask = quadratic(np.array([0.3, 0.2]), np.diag([1000.0, 2000.0]))
    for corner in ([0.0, 0.0], [0.5, 0.5], [0.0, 0.5]):
        found = search(ask, np.array(corner), bounds, method, 10.0, 600)
        assert_allclose(found.point, [0.3, 0.2], atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("wall", [-np.inf, np.nan])
def test_walls_are_survived(method, wall):
    """Half of the support is impossible, and the maximum is close to the wall."""
    smooth = quadratic(np.array([0.05, 0.0]), np.diag([100.0, 200.0]))

    def ask(x):
        return (wall, np.full(2, np.nan)) if x[0] < 0 else smooth(x)

    found = search(ask, np.array([3.0, 2.0]), WIDE, method, 100.0, 1000)
    assert_allclose(found.point, [0.05, 0.0], atol=1e-3)


def test_far_from_any_sense_the_search_still_arrives():
    """A log likelihood of -1e10 that changes by orders of magnitude with every unit."""
    hill = alone(
        lambda x: -np.exp(5 * x[0] ** 2) + 1 - x[1] ** 2,
        lambda x: np.array([-10 * x[0] * np.exp(5 * x[0] ** 2), -2 * x[1]]),
    )
    found = search(hill, np.array([2.2, 3.0]), WIDE, "gradient", 1.0, 400)
    assert_allclose(found.point, 0, atol=1e-4)


def test_the_number_of_evaluations_is_limited():
    for method in METHODS:
        hill = alone(lambda x: -100 * rosen(x), lambda x: -100 * rosen_der(x))
        found = search(hill, np.array([-1.2, 1.0]), WIDE, method, 100.0, 15)
        assert found.evaluations <= 15 + 2, method
        assert not found.converged


def test_without_bobyqa_an_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pybobyqa", None)
    with pytest.raises(mc.InputError, match=r"pip install 'motorcost\[bobyqa\]'"):
        search(quadratic(np.zeros(2), np.eye(2)), np.ones(2), WIDE, "bobyqa", 1.0, 10)


def test_bobyqa_needs_finite_bounds():
    open_ = np.array([[-np.inf, np.inf], [0.0, 1.0]])
    with pytest.raises(mc.InputError, match="needs finite bounds for every parameter"):
        search(quadratic(np.zeros(2), np.eye(2)), np.ones(2), open_, "bobyqa", 1.0, 10)
