"""Statistics of made-up experiments, whose distribution is known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from motorcost.diagnostics.discrepancies import (
    coverage_statistics,
    deviation_limit,
    improbability,
    innovation_statistics,
    phases,
    ranks,
    worst_statistic,
)

R, N, T = 40, 25, 12
EVERY = np.ones((N, T), bool)


def white(seed=0):
    return np.random.default_rng(seed).normal(size=(R + 1, N, T))


def smooth(seed=0):
    """Samples that belong together within a trial, as those of a movement do."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(R + 1, N, 1)) + 0.3 * rng.normal(size=(R + 1, N, T))


def all_statistics(innovations, samples):
    found = innovation_statistics(innovations, EVERY)
    return found | coverage_statistics(ranks(samples), EVERY, EVERY)


def test_the_model_itself_is_rarely_blamed():
    """In 5 % of experiments, within three standard errors of 300."""
    blamed = 0
    for seed in range(300):
        found = all_statistics(white(seed), smooth(seed))
        likelihoods = -0.5 * np.sum(white(seed) ** 2, axis=2)
        every = [*found.values(), worst_statistic(improbability(likelihoods))]
        limit = deviation_limit(every, R)
        blamed += any(abs(statistic.deviation) > limit for statistic in every)
    assert 0.01 < blamed / 300 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


def more_jumps(e):
    e[::5, 3] *= 6


def fewer_jumps(e):
    e[:] = np.sign(e)


def shifted(e):
    e += 0.4


def larger(e):
    e *= 1.4


def smaller(e):
    e *= 0.7


def echoing(e):
    e[:, 3:] += 0.6 * e[:, :-3]


def persistent(e):
    e[:, 1:] += 0.6 * e[:, :-1]


@pytest.mark.parametrize(
    ("change", "name", "sign"),
    [
        (more_jumps, "kurtosis", 1),
        (fewer_jumps, "kurtosis", -1),
        (shifted, "mean", 1),
        (larger, "variance", 1),
        (smaller, "variance", -1),
        (persistent, "lag", 1),
        (echoing, "later", 1),
    ],
)
def test_each_kind_of_innovation_is_noticed(change, name, sign):
    innovations = white()
    change(innovations[0])
    found = innovation_statistics(innovations, EVERY)
    limit = deviation_limit(list(found.values()), R)
    assert found[name].exceeds(limit)
    assert np.sign(found[name].deviation) == sign
    assert not innovation_statistics(white(), EVERY)[name].exceeds(limit)


@pytest.mark.parametrize(("factor", "sign"), [(0.5, 1), (2.0, -1)])
def test_bands_are_judged_on_both_sides(factor, sign):
    samples = smooth()
    samples[0] *= factor
    found = coverage_statistics(ranks(samples), EVERY, EVERY)
    assert found["half"].exceeds(deviation_limit(list(found.values()), R))
    assert np.sign(found["half"].deviation) == sign
    assert (found["coverage"].value > 0.95) == (sign > 0)


def test_shares_and_moments_are_what_they_are_called():
    innovations, samples = white(), smooth()
    innovations[:, 3, 5] = np.nan
    there = np.isfinite(innovations[0])
    found = innovation_statistics(innovations, EVERY)
    e = innovations[0][there]
    assert_allclose(found["variance"].value, e.var())
    assert_allclose(found["kurtosis"].value, stats.kurtosis(e, fisher=False))
    rows = [row[np.isfinite(row)] for row in innovations[0]]
    lag = np.mean(np.concatenate([row[1:] * row[:-1] for row in rows])) / np.mean(e**2)
    assert_allclose(found["lag"].value, lag)
    correlations = [
        np.mean(np.concatenate([row[k:] * row[:-k] for row in rows])) / np.mean(e**2)
        for k in range(2, 11)
    ]
    largest = int(np.argmax(np.abs(correlations)))
    assert_allclose(found["later"].value, correlations[largest])
    assert found["later"].samples_apart == largest + 2
    ordered = np.sort(samples[1:], axis=0)
    half = coverage_statistics(ranks(samples), EVERY, EVERY)["half"]
    assert_allclose(half.value, np.mean((samples[0] > ordered[9]) & (samples[0] < ordered[30])))
    assert_allclose(half.expected, 21 / 41)  # 10 to 30 of 40 below
    assert innovation_statistics(innovations, EVERY & (np.arange(T) == 0) & ~EVERY) == {}


def test_an_outlier_is_improbable_by_the_others_standard():
    likelihoods = np.random.default_rng(2).normal(size=(R + 1, N))
    likelihoods[0, 7] = -8.0
    found = improbability(likelihoods)
    others = np.delete(likelihoods[1:], 4, axis=0)
    expected = (others.mean(axis=0) - likelihoods[5]) / others.std(axis=0, ddof=1)
    assert_allclose(found[5], expected, rtol=1e-9)
    sd = likelihoods[1:, 7].std(ddof=1)
    assert_allclose(found[0, 7], (likelihoods[1:, 7].mean() + 8) / sd, rtol=1e-9)
    assert worst_statistic(found).exceeds(deviation_limit([worst_statistic(found)], R))


def test_phases_follow_the_course_of_the_model():
    """A position that rests, goes its way, and rests; a velocity that rises and falls."""
    position = np.repeat(np.interp(np.arange(20), [4, 14], [0.0, 0.1])[None], 2, axis=0)
    present = np.ones((2, 20), bool)
    present[1, 9] = False
    found = phases(position[..., None], present)
    middle = found["mid-movement"]
    assert np.flatnonzero(middle[0]).tolist() == list(range(5, 14))
    assert not middle[1, 9]
    assert ((middle | found["at start and end"]) == present).all()
    velocity = np.interp(np.arange(20), [4, 9, 14], [0.0, 1.0, 0.0])[None, :, None]
    there = np.flatnonzero(phases(velocity, np.ones((1, 20), bool))["mid-movement"])
    assert there.tolist() == list(range(5, 14))
    assert phases(np.zeros((2, 20, 1)), present) == {}
