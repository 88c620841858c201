"""Which ends of searches are the same maximum, where to look again, and what refutes a maximum."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost.fitting.batching import BatchedObjective
from motorcost.fitting.engine import Maximum, climb
from motorcost.fitting.information import robust_covariance
from motorcost.fitting.intervals import interval_text, wald_ends
from motorcost.fitting.maxima import distinct, further_starts
from motorcost.fitting.optimise import Found
from motorcost.fitting.polishing import Polished, confirm, polish
from motorcost.fitting.profiles import _joined

SUPPORTS = [mc.Uniform(-5.0, 5.0), mc.Uniform(-5.0, 5.0)]
WIDTH = np.array([10.0, 10.0])


def ended(point, value, converged=True):
    return Found(np.array(point, float), value, 9, converged, "")


def evaluated(function, h=1e-6):
    """Values, and gradients by differences, as a search gets them."""

    def evaluate(which, points):
        values = np.array([function(x) for x in points])
        gradients = np.stack(
            [[(function(x + h * e) - function(x - h * e)) / (2 * h) for e in np.eye(2)]
             for x in points]
        )  # fmt: skip
        return values, gradients

    return evaluate


def two_hills(x):
    return np.logaddexp(-((x - 2) ** 2).sum(), -((x + 2) ** 2).sum() - 0.7)


def test_ends_on_two_hills_are_two_maxima():
    ends = [
        ended([2, 2], 0.0),
        ended([2.001, 2], -1e-6),
        ended([-2, -2], -0.7),
        ended([1, 2], -1.0, converged=False),  # stalled on the way up the first hill
    ]
    ((first, second),) = distinct(evaluated(two_hills), [ends], WIDTH)
    assert_allclose(first.point, [2, 2])
    assert first.searches == 2
    assert_allclose(second.point, [-2, -2])
    assert second.searches == 1


def test_ends_along_a_ridge_are_one_maximum():
    """Where the data tell only a sum, searches end anywhere on a line."""

    def ridge(x):
        return -(x.sum() ** 2)

    ends = [ended([k, -k], 0.0) for k in (-4, -1, 0, 3)]
    ((only,),) = distinct(evaluated(ridge), [ends], WIDTH)
    assert only.value == 0


def test_a_maximum_far_below_is_of_no_interest():
    ends = [ended([2, 2], 0.0), ended([-2, -2], -30.0)]
    ((only,),) = distinct(evaluated(two_hills), [ends], WIDTH)
    assert_allclose(only.point, [2, 2])


def test_a_higher_value_of_one_coordinate_is_searched_from():
    def hill(x):
        return -((x[0] - 3) ** 2) - x[1] ** 2

    which, starts = further_starts(
        evaluated(hill), evaluated(hill), [[ended([-1, 0], -16.0)]], SUPPORTS
    )
    assert (which == 0).all()
    best = starts[np.argmax([hill(x) for x in starts])]
    assert hill(best) > -1.1


def test_a_plateau_is_left_for_the_middle_of_the_support():
    """The hill begins in the middle of the support, and is too narrow for what is scanned."""

    def plateau(x):
        return -(x[0] ** 2) + 2 * np.exp(-50 * (x[1] - 0.2) ** 2)

    _, starts = further_starts(
        evaluated(plateau), evaluated(plateau), [[ended([0, -4.9], 0.0)]], SUPPORTS
    )
    assert any(np.allclose(start, [0, 0]) for start in starts)


def test_a_jump_is_passed():
    """A search that stopped at a jump is begun again where the likelihood is higher beyond it."""

    def jumping(x):
        return -((x - 1) ** 2).sum() - (0.3 if x[0] < 0 and x[0] > -0.05 else 0.0)

    stuck = [ended([-0.06, 1.0], jumping(np.array([-0.06, 1.0])), converged=False)]
    _, starts = further_starts(evaluated(jumping), evaluated(jumping), [stuck], SUPPORTS)
    assert any(jumping(start) > stuck[0].value for start in starts)


def test_nothing_is_searched_again_around_a_plain_maximum():
    def hill(x):
        return -5 * (x**2).sum()

    which, starts = further_starts(
        evaluated(hill), evaluated(hill), [[ended([0, 0], 0.0)]], SUPPORTS
    )
    assert len(which) == len(starts) == 0


def polished(function, point):
    point = np.array([point], float)
    value = np.array([function(point[0])])
    return polish(evaluated(function), SUPPORTS, point, value, np.zeros(1, int))


def test_a_smooth_maximum_is_confirmed_with_its_curvature():
    curvature = np.array([[8.0, 1.0], [1.0, 6.0]])
    found = polished(lambda x: -0.5 * x @ curvature @ x, [0.01, -0.02])
    assert found.converged.all()
    assert np.isnan(found.higher).all()
    assert_allclose(found.points, 0, atol=1e-6)
    assert_allclose(found.information[0], curvature, rtol=1e-3)


def test_half_a_standard_error_from_a_maximum_is_not_one():
    """No value at a standard error is higher there, but nothing denies that a step leads higher."""
    point = np.array([[0.2, 0.0]])
    found = Polished(
        point, np.array([-0.08]), 4 * np.eye(2)[None], np.zeros(1, bool), np.full((1, 2), np.nan)
    )
    hill = evaluated(lambda x: -2.0 * (x**2).sum())
    for denied in (False, True):
        result = confirm(hill, SUPPORTS, found, np.zeros(1, int), np.array([denied]))
        assert np.isnan(result.higher).all()
        assert result.converged[0] == denied


def test_a_point_that_is_higher_within_a_standard_error_refutes_a_maximum():
    def with_a_step(x):
        return -2.0 * (x**2).sum() + (1.0 if x[0] > 0.4 else 0.0)

    found = polished(with_a_step, [0.0, 0.0])
    assert not found.converged.any()
    assert with_a_step(found.higher[0]) > 0


def test_drops_of_the_value_replace_a_curvature_that_jumps_hide():
    """A staircase down from the maximum: flat between its steps."""

    def staircase(x):
        return -0.05 * (x**2).sum() - 3.0 * np.floor(np.abs(x[0]) / 0.2)

    found = polished(staircase, [0.0, 0.0])
    assert found.converged.all()
    # It falls by 3 within a fifth, and further out by 15 per unit.
    assert found.information[0, 0, 0] > 5
    assert_allclose(found.information[0, 1, 1], 0.1, rtol=1e-2)


class Batched(BatchedObjective):
    """What `climb` uses of a batched objective, for a function and another that is rough."""

    def __init__(self, exact, rough):
        self.exact, self.rough, self.calls = exact, rough, 0
        self.objective = SimpleNamespace(
            bounds=np.array([s.bounds for s in SUPPORTS]), n_samples=1.0
        )

    def roughly(self):
        return Batched(self.rough, self.rough)

    def __call__(self, which, points):
        self.calls += len(points)
        return evaluated(self.exact)(which, points)

    def with_curvatures(self, which, points):
        return (*self(which, points), None)


def climbed(exact, rough):
    batched = Batched(exact, rough)
    starts = np.array([[-1.0, 0.5], [2.0, 2.0]])
    found, interrupted = climb(
        batched, np.zeros(2, int), starts, 100, "gradient", lambda done: None
    )
    assert not interrupted
    return batched, found


def test_a_rough_search_ends_with_the_exact_value():
    def hill(x):
        return -0.5 * (x**2).sum()

    batched, found = climbed(lambda x: hill(x) + 1e-4, hill)
    assert batched.calls == 2  # one for each end
    for end in found:
        assert_allclose(end.point, 0, atol=1e-3)
        assert_allclose(end.value, 1e-4, atol=1e-6)


def test_where_the_rough_likelihood_was_another_the_exact_one_is_climbed():
    _, found = climbed(lambda x: -0.5 * ((x - 2) ** 2).sum(), lambda x: -0.5 * (x**2).sum())
    for end in found:
        assert end.converged
        assert_allclose(end.point, 2, atol=1e-3)


def test_a_cliff_that_only_the_rough_likelihood_has_is_passed():
    def hill(x):
        return -0.5 * (x**2).sum()

    # A search stops in front of the cliff at -0.3, where rough and exact values agree.
    _, found = climbed(hill, lambda x: hill(x) - 5.0 * (-0.3 < x[0] < 2.5))
    for end in found:
        assert end.converged
        assert_allclose(end.point, 0, atol=1e-3)


def maximum(point, value, sd, **changed):
    fields = {"searches": 1, "converged": True} | changed
    return Maximum(np.array(point, float), value, np.diag(np.array(sd, float) ** -2.0), **fields)


def test_an_interval_reaches_over_every_maximum_that_the_data_allow():
    best, other = maximum([1.0, 0.0], 0.0, [0.1, 0.1]), maximum([3.0, 0.0], -0.5, [0.2, 0.1])
    far = maximum([-4.0, 0.0], -2.0, [0.1, 0.1])  # more than 1.92 below
    ends = wald_ends([best, other, far], SUPPORTS, 0.95)
    # The second maximum's part is as wide as its likelihood is within 1.92 of the best.
    share = np.sqrt(1 - 2 * 0.5 / 1.959964**2)
    assert_allclose(ends[0], [1.0 - 0.1959964, 3.0 + 0.2 * 1.959964 * share], rtol=1e-6)
    assert_allclose(ends[1], [-0.1959964, 0.1959964], rtol=1e-6)


def test_the_sandwich_with_values_for_each_subject_counts_its_own_trials():
    """Two subjects of 10 trials with a value each: as if each had been fitted alone."""
    rng = np.random.default_rng(0)
    scores = np.zeros((20, 2))
    scores[:10, 0], scores[10:, 1] = rng.normal(size=10), 3 * rng.normal(size=10)
    information = np.diag([9.0, 50.0])
    inside = np.zeros(2, bool)
    cov, degrees = robust_covariance(SUPPORTS, information, scores, inside)
    for k, own in enumerate((scores[:10, 0], scores[10:, 1])):
        unbiased = own**2 / (1 - own**2 / (own**2).sum())
        alone = unbiased.sum() / information[k, k] ** 2
        assert_allclose(cov[k, k], alone)
    assert_allclose(degrees, 9)


def test_a_parameter_at_an_end_has_no_error_and_is_given_for_the_others():
    information = np.array([[4.0, 1.9], [1.9, 1.0]])
    cov, _ = robust_covariance(SUPPORTS, information, None, np.array([False, True]))
    assert_allclose(cov[0, 0], 1 / 4.0)
    assert np.isnan(cov[1, 1])


def test_parts_of_an_interval_are_joined_where_they_overlap():
    assert _joined([(3.0, 4.0), (0.0, 1.0), (0.5, 2.0)]) == ((0.0, 2.0), (3.0, 4.0))
    assert np.isnan(_joined([(0.0, np.nan), (1.0, 2.0)])).all()


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ((0.1, 2.0), "0.1 to 2"),
        ((0.01, 2.0), "below 2"),
        ((0.1, 10.0), "above 0.1"),
        ((0.01, 10.0), "anywhere"),
        ((np.exp(np.log(0.01)) * (1 + 1e-15), 2.0), "below 2"),
        ((0.1, np.exp(np.log(10.0)) * (1 - 1e-15)), "above 0.1"),
        ((0.0, np.inf), "anywhere"),
        ((np.nan, np.nan), "?"),
    ],
)
def test_an_interval_to_an_end_of_the_support_is_one_sided(ends, words):
    assert interval_text(ends, (0.01, 10.0)) == words
