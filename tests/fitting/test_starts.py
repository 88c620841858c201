import numpy as np
import pytest
from numpy.testing import assert_array_equal

from motorcost.fitting.starts import APART, _best_apart


def test_the_best_point_comes_first_and_its_neighbours_are_passed_over():
    points = np.array([[0.0], [0.01], [0.5], [0.52], [0.9]])
    values = np.array([5.0, 6.0, 1.0, 2.0, 0.0])
    assert_array_equal(_best_apart(values, points, 3), [1, 3, 4])


def test_far_in_one_coordinate_is_far():
    points = np.array([[0.0, 0.0], [0.0, APART + 0.01], [APART - 0.01, 0.0]])
    assert_array_equal(_best_apart(np.array([3.0, 1.0, 2.0]), points, 2), [0, 1])


def test_with_too_few_far_points_nearer_ones_are_taken():
    points = np.linspace(0, 0.2, 5)[:, None]
    values = np.arange(5.0)
    assert_array_equal(_best_apart(values, points, 2), [4, 1])  # farther apart than 0.125
    assert sorted(_best_apart(values, points, 5)) == [0, 1, 2, 3, 4]


def test_equal_points_are_taken_too_if_there_are_no_others():
    chosen = _best_apart(np.array([1.0, 2.0, 3.0]), np.zeros((3, 2)), 3)
    assert_array_equal(chosen, [2, 1, 0])


@pytest.mark.parametrize("possible", [0, 1, 3])
def test_impossible_points_come_last(possible):
    values = np.full(4, -np.inf)
    values[:possible] = 1.0
    points = np.where(np.isfinite(values)[:, None], np.arange(4.0)[:, None], np.nan)
    chosen = _best_apart(values, points, 4)
    assert sorted(chosen) == [0, 1, 2, 3]
    assert np.isfinite(values[chosen[:possible]]).all()
