"""The best allocation of trials, against laws that it must obey and a general optimiser."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from motorcost.diagnostics.allocation import (
    CRITERIA,
    equal_trials,
    improved_by_exchange,
    losses,
    optimal_shares,
    sensitivities,
    whole_trials,
)

PRIOR = 1e-6 * np.eye(3)


def some_information(seed, conditions=7, rank=3):
    factors = np.random.default_rng(seed).normal(size=(conditions, 3, rank))
    return 50 * factors @ factors.swapaxes(1, 2)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_no_condition_is_more_sensitive_than_those_chosen(criterion, rank, seed):
    """The equivalence theorem of Kiefer and Wolfowitz; with rank 1, single conditions tell one
    combination of the parameters each."""
    information = some_information(seed, rank=rank)
    shares = optimal_shares(criterion, information, PRIOR)
    assert_allclose(shares.sum(), 1.0, rtol=1e-12)
    assert (shares >= 0).all()
    slopes = sensitivities(criterion, shares, information, PRIOR)
    assert_allclose(slopes.max(), shares @ slopes, atol=1e-4)
    # Without a prior to speak of, the bound is 1: the loss is a log, of what is homogeneous.
    assert_allclose(slopes.max(), 1.0, atol=1.1e-4)
    assert_allclose(slopes[shares > 0.05], 1.0, atol=2e-3)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_shares_are_those_of_a_general_optimiser(criterion):
    information = some_information(11)

    def loss(shares):
        return losses(criterion, PRIOR + np.einsum("c,cij->ij", shares, information))

    found = minimize(
        loss,
        np.full(7, 1 / 7),
        bounds=[(0, 1)] * 7,
        constraints={"type": "eq", "fun": lambda shares: shares.sum() - 1},
        options={"ftol": 1e-13, "maxiter": 500},
    )
    assert_allclose(loss(optimal_shares(criterion, information, PRIOR)), found.fun, atol=1e-4)


def test_two_conditions_for_two_parameters():
    """Each tells one parameter: variances 1 / (4 w) and 1 / (1 - w), least at w = 1 / 3; the
    determinant is largest with half of the trials each."""
    information, prior = np.stack([np.diag([4.0, 0.0]), np.diag([0.0, 1.0])]), 1e-9 * np.eye(2)
    assert_allclose(optimal_shares("errors", information, prior), [1 / 3, 2 / 3], atol=1e-3)
    assert_allclose(optimal_shares("determinant", information, prior), [0.5, 0.5], atol=1e-3)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_losses_are_logs_of_numbers_of_trials(criterion):
    (information,) = some_information(0, conditions=1)
    difference = losses(criterion, information) - losses(criterion, 3 * information)
    assert_allclose(difference, np.log(3), rtol=1e-12)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=12).filter(lambda s: sum(s) > 0.1),
    st.integers(1, 500),
)
def test_whole_trials_add_up_and_are_near(shares, trials):
    shares = np.array(shares) / sum(shares)
    counts = whole_trials(shares, trials)
    assert counts.sum() == trials
    assert (counts >= 0).all()
    assert (counts[shares == 0] == 0).all()
    if trials > len(shares) and (shares[shares > 0] >= 1e-3).all():
        assert np.abs(counts - trials * shares).max() <= len(shares)


@given(st.integers(1, 30), st.integers(1, 500))
def test_equal_is_as_equal_as_can_be(conditions, trials):
    counts = equal_trials(conditions, trials)
    assert counts.sum() == trials
    assert counts.max() - counts.min() <= 1


def test_exchange_finds_the_best_whole_numbers():
    """All allocations of 12 trials to 3 conditions, one by one."""
    information = some_information(5, conditions=3)

    def loss_of(counts):
        return losses("errors", PRIOR + np.einsum("kc,cij->kij", counts, information))

    every = np.array([[i, j, 12 - i - j] for i in range(13) for j in range(13 - i)])
    found = improved_by_exchange(np.array([12, 0, 0]), loss_of)
    assert found.sum() == 12
    assert_allclose(loss_of(found[None])[0], loss_of(every).min(), atol=1e-9)
