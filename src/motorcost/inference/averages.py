"""Averages of likelihood estimates that are given by their logarithms."""

import numpy as np


def averaged(estimates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The log of the mean over the last axis, of numbers given by their logs, without its bias,
    and its standard error.

    By the jackknife, which compares the mean with those that leave out one number.
    """
    value = _log_mean(estimates)
    n = estimates.shape[-1]
    if n == 1:
        return value, np.full_like(value, np.nan)
    without = leave_one_out(estimates)
    error = np.sqrt((n - 1) * without.var(axis=-1))
    return n * value - (n - 1) * without.mean(axis=-1), error


def leave_one_out(estimates: np.ndarray) -> np.ndarray:
    """The log of the mean of the numbers other than each one along the last axis."""
    n = estimates.shape[-1]
    others = np.stack([np.delete(estimates, i, axis=-1) for i in range(n)], axis=-2)
    return _log_mean(others)


def _log_mean(logs: np.ndarray) -> np.ndarray:
    largest = logs.max(axis=-1, keepdims=True)
    return np.log(np.exp(logs - largest).mean(axis=-1)) + largest[..., 0]
