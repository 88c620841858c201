"""Points that searches came by reach beyond intervals by standard errors where they must."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from made import made_fit, recorded
from motorcost.fitting.engine import Maxima, Maximum, Nearby
from motorcost.fitting.intervals import drop_of, wald_ends
from motorcost.fitting.nearby import maximise_and_note
from motorcost.fitting.visited import FAR_BELOW, Visited


def test_only_points_that_are_not_far_below_the_best_are_kept():
    rng = np.random.default_rng(0)
    visited = Visited(3)
    noted = [(rng.integers(0, 2, 50), rng.normal(size=(50, 2)), 9 * rng.normal(size=50))] * 2
    noted[1][2][7] = np.nan
    for part in noted:
        visited.note(*part)
    which, points, values = (np.concatenate(part) for part in zip(*noted, strict=True))
    for d, (kept, own) in enumerate(visited.of_data_sets()):
        of_set = (which == d) & np.isfinite(values)
        near = of_set & (values >= values[of_set].max(initial=-np.inf) - FAR_BELOW)
        assert_allclose(kept, points[near])
        assert_allclose(own, values[near])


def test_it_is_sorted_out_as_it_grows(monkeypatch):
    monkeypatch.setattr("motorcost.fitting.visited.MOST_POINTS", 20)
    visited = Visited(1)
    for value in range(100):
        visited.note(np.zeros(1, int), np.full((1, 1), value), np.array([float(value)]))
        assert visited._count <= 21
    ((points, values),) = visited.of_data_sets()
    assert_allclose(points[:, 0], [94, 95, 96, 97, 98, 99])
    assert_allclose(values, points[:, 0])


class Ridge:
    """Stands for an objective with one maximum, at the origin, on a ridge that bends: along it the
    log likelihood falls by 0.1 (x / 4)^2, and across it by 50 times the square of the distance."""

    def __init__(self, visited=None):
        self.visited = visited
        support = mc.Uniform(-10.0, 10.0)
        self.objective = type("Objective", (), {"supports": [support, support]})

    def noting(self, visited):
        return Ridge(visited)

    def __call__(self, which, points):
        x, y = points.T
        return -0.1 * (x / 4) ** 2 - 50 * (y - 0.1 * x**2) ** 2, None


# Points that only seem to be nearly as likely as the best: they are 60 and more below.
FALSE = [[3.0, 2.0], [5.0, 1.7], [5.1, 1.7], [5.2, 1.7], [5.3, 1.7], [5.3, 1.7], [5.4, 1.7]]


@pytest.mark.parametrize("false", [FALSE[:1], FALSE[:2], FALSE])
@pytest.mark.usefixtures("as_users_call_it")
def test_points_far_along_a_ridge_are_found_and_confirmed(monkeypatch, false):
    """What was noted roughly counts only as far as it is true, and hides nothing that is."""
    found = np.array([[0.0, 0.0], [4.0, 1.6], [-4.0, 1.6], *false])
    rough = np.where(np.arange(len(found)) < 3, Ridge()(None, found)[0], -0.1)

    def searched(batched, starts):
        batched.visited.note(np.zeros(len(found), int), found, rough)
        return [made_maximum(np.diag([4.0, 100.0]))]

    monkeypatch.setattr("motorcost.fitting.nearby.maximise", searched)
    ((maxima),) = maximise_and_note(Ridge(), np.zeros((1, 1, 2)))
    near = maxima.nearby
    assert_allclose(near.values, Ridge()(None, near.points)[0])
    supports = Ridge().objective.supports
    without = wald_ends(maxima.maxima, supports, 0.95)
    ends = wald_ends(maxima.maxima, supports, 0.95, near)
    assert (np.abs(without[0]) < 1.1).all()
    # False ones would have made the second interval end at 2 and the first beyond 5.
    assert_allclose(ends, [[-4.0, 4.0], [without[1, 0], 1.6]])


def made_maximum(information):
    peak = Maximum(np.zeros(2), 0.0, information, 1, True)
    return Maxima((peak,), (), False)


def test_a_fit_keeps_them_and_its_intervals_reach_them(tmp_path):
    fit = made_fit(["effort"], recorded())
    far = fit.point + 3.0
    value = fit.log_likelihood - 1.5
    fit = replace(fit, nearby=Nearby(far[None], np.array([value])))
    assert_allclose(fit.interval(0.95)["effort"][1], np.exp(far[0]), rtol=1e-9)
    # Further below than the 80 % interval allows.
    assert drop_of(0.8) < 1.5 < drop_of(0.95)
    assert fit.interval(0.8)["effort"][1] < np.exp(far[0])
    fit.save(tmp_path / "fit.npz")
    assert mc.load(tmp_path / "fit.npz").interval() == fit.interval()
