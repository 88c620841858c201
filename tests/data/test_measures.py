import numpy as np
from numpy.testing import assert_allclose

from motorcost.data.measures import measure


def minimum_jerk(distance=0.1, duration=0.5, n=51):
    t = np.linspace(0, duration, n)
    s = t / duration
    return t, distance * (10 * s**3 - 15 * s**4 + 6 * s**5)


def test_measures_of_a_movement_of_minimum_jerk():
    t, x = minimum_jerk()
    found = measure([np.column_stack([x, 0 * x])], [t + 3.0], [np.array([0.08, 0.0])])
    assert found.samples == [51]
    assert_allclose(found.duration, 0.5)
    assert_allclose(found.distance, 0.1)
    assert_allclose(found.peak_speed, 1.875 * 0.1 / 0.5, rtol=0.01)  # known of minimum jerk
    assert_allclose(found.goal_distance, 0.08)
    assert_allclose(found.end_error, 0.02)
    assert_allclose(found.ends, [[0.02, 0.0]], atol=1e-15)
    assert 0 < found.first_speed < 0.03


def test_the_first_speed_of_a_movement_that_is_cut_within():
    t, x = minimum_jerk()
    velocity = np.gradient(x, t)
    cut = 12
    found = measure([x[cut:, None]], [t[cut:]], None)
    assert_allclose(found.first_speed, velocity[cut + 1] / velocity.max(), rtol=0.05)
    assert np.isnan(found.end_error)


def test_noise_cancels_in_the_median_of_first_speeds():
    t, x = minimum_jerk()
    rng = np.random.default_rng(0)
    trials = [(x + rng.normal(0, 1e-3, x.shape))[:, None] for _ in range(200)]
    found = measure(trials, [t] * 200, None)
    assert np.abs(found.first_speed).max() > 0.1
    assert abs(np.median(found.first_speed)) < 0.03


def test_a_goal_that_moves_is_measured_all_the_way():
    t, x = minimum_jerk()
    found = measure([x[:, None]], [t], [x[:, None] + 0.03])
    assert_allclose(found.end_error, 0.03)


def test_missing_samples_and_trials_without_any():
    t, x = minimum_jerk()
    gone = np.full((5, 1), np.nan)
    holes = np.where(np.arange(51) % 7 == 3, np.nan, x)[:, None]
    found = measure([gone, holes], [np.arange(5.0), t], [np.array([0.1])] * 2)
    assert found.missing.tolist() == [5, 7]
    assert np.isnan(found.distance[0])
    assert_allclose(found.distance[1], 0.1)
