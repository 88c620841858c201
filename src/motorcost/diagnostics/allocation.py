"""How many trials of each condition: the allocation with the smallest expected errors.

The information of an experiment is a sum over its trials. As a function of the shares of trials
that conditions have, both criteria are convex, so the best shares are found with a bound on what
is left to gain (Kiefer and Wolfowitz 1960; Pukelsheim 1993, *Optimal Design of Experiments*).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

# "errors" is the mean of the squared errors (A-optimality), "determinant" the volume of the joint
# confidence region (D-optimality).
Criterion = Literal["errors", "determinant"]
CRITERIA: tuple[Criterion, ...] = ("errors", "determinant")

# Shares are optimal if no others would lower the loss, which is a log variance, by more: one trial
# in ten thousand. Where several conditions are nearly as good as each other, more would take long.
TOLERANCE = 1e-4
# An exchange of whole trials must lower the loss by more, which is far above rounding.
LEAST_IMPROVEMENT = 1e-10
# Tens are usual.
MOST_ITERATIONS = 2000
# Halvings of the interval in which the best exchange of two shares lies.
HALVINGS = 30
# Shares below this are the tail of the algorithm, not part of the design.
LEAST_SHARE = 1e-4


def losses(
    criterion: Criterion, information: Float[np.ndarray, "*batch p p"]
) -> Float[np.ndarray, " *batch"]:
    """The log of a variance, averaged over parameters, for each of several informations.

    With n times the information it is log(n) lower: the difference of two losses is the log of how
    many times more trials the worse one needs.
    """
    p = information.shape[-1]
    if criterion == "determinant":
        return np.asarray(-np.linalg.slogdet(information)[1] / p)
    variance = np.trace(np.linalg.inv(information), axis1=-2, axis2=-1) / p
    return np.asarray(np.log(variance))


def _slope(criterion: Criterion, information: Float[np.ndarray, "p p"]) -> np.ndarray:
    """Minus the derivative of the loss by the information."""
    inverse = np.linalg.inv(information)
    if criterion == "determinant":
        return inverse / len(inverse)
    return inverse @ inverse / np.trace(inverse)


def sensitivities(
    criterion: Criterion,
    shares: Float[np.ndarray, " C"],
    information: Float[np.ndarray, "C p p"],
    prior: Float[np.ndarray, "p p"],
) -> Float[np.ndarray, " C"]:
    """How fast the loss falls as trials of each condition are added.

    Shares are optimal if and only if no condition has a higher sensitivity than their mean, which
    those with a share then have.
    """
    total = prior + np.einsum("c,cij->ij", shares, information)
    return np.einsum("ij,cij->c", _slope(criterion, total), information)


def optimal_shares(
    criterion: Criterion,
    information: Float[np.ndarray, "C p p"],
    prior: Float[np.ndarray, "p p"],
) -> Float[np.ndarray, " C"]:
    """The shares of the trials that conditions should have.

    `information` is what the whole budget would tell if spent on each condition, `prior` what is
    known before.

    Every iteration takes a step of the multiplicative algorithm, which moves all shares and is
    slow at the end, and then exchanges share between two conditions, which is slow at the
    beginning.
    """
    shares = np.full(len(information), 1.0 / len(information))
    power = 1.0 if criterion == "determinant" else 0.5  # with which every step lowers the loss
    for _ in range(MOST_ITERATIONS):
        slopes = sensitivities(criterion, shares, information, prior)
        mean = shares @ slopes
        if slopes.max() - mean < TOLERANCE:  # which bounds what is left to gain, by convexity
            break
        shares = shares * (slopes / mean) ** power
        shares = _exchanged(criterion, shares / shares.sum(), information, prior)
    return shares


def _exchanged(
    criterion: Criterion,
    shares: Float[np.ndarray, " C"],
    information: Float[np.ndarray, "C p p"],
    prior: Float[np.ndarray, "p p"],
) -> Float[np.ndarray, " C"]:
    """The shares after the best exchange of the most sensitive condition with another."""
    slopes = sensitivities(criterion, shares, information, prior)
    to = int(np.argmax(slopes))
    # What could be gained at most. The least sensitive condition may have next to no share left.
    of = int(np.argmax(shares * (slopes[to] - slopes)))
    total = prior + np.einsum("c,cij->ij", shares, information)
    change = information[to] - information[of]
    low, high = 0.0, shares[of]
    if np.sum(_slope(criterion, total + high * change) * change) < 0:  # else all of it
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            falls = np.sum(_slope(criterion, total + middle * change) * change) > 0
            low, high = (middle, high) if falls else (low, middle)
        high = low
    moved = shares.copy()
    moved[to] += high
    moved[of] -= high
    return moved


def whole_trials(shares: Float[np.ndarray, " C"], trials: int) -> Int[np.ndarray, " C"]:
    """Whole numbers of trials that add up to the budget and are near the shares.

    This is the efficient rounding of Pukelsheim and Rieder (1992), by which the smallest ratio of
    a number to its share is as large as can be.
    """
    shares = np.where(shares < LEAST_SHARE, 0.0, shares)
    if np.count_nonzero(shares) > trials:
        shares[np.argsort(-shares, kind="stable")[trials:]] = 0.0
    shares = shares / shares.sum()
    used = np.flatnonzero(shares)
    counts = np.zeros(len(shares), int)
    counts[used] = np.ceil((trials - len(used) / 2) * shares[used])
    while counts.sum() > trials:
        counts[used[np.argmax((counts[used] - 1) / shares[used])]] -= 1
    while counts.sum() < trials:
        counts[used[np.argmin(counts[used] / shares[used])]] += 1
    return counts


def equal_trials(n_conditions: int, trials: int) -> Int[np.ndarray, " C"]:
    """As equal as whole numbers can be; the first conditions have what is left over."""
    whole, rest = divmod(trials, n_conditions)
    return whole + (np.arange(n_conditions) < rest)


def improved_by_exchange(
    counts: Int[np.ndarray, " C"],
    loss_of: Callable[[Int[np.ndarray, "K C"]], Float[np.ndarray, " K"]],
) -> Int[np.ndarray, " C"]:
    """Move trials from one condition to another as long as that lowers the loss.

    First many trials at a time, then fewer, at last one. `loss_of` gives the loss of each row of
    counts; it need not be the one for which shares were optimal.
    """
    best = float(loss_of(counts[None])[0])
    step = max(1, int(counts.sum()) // 16)
    while step:
        of, to = np.meshgrid(np.flatnonzero(counts >= step), np.arange(len(counts)))
        moves = np.eye(len(counts), dtype=int) * step
        tried = counts + moves[to.ravel()] - moves[of.ravel()]
        values = loss_of(tried) if len(tried) else np.array([np.inf])
        lowest = int(np.argmin(values))
        if values[lowest] < best - LEAST_IMPROVEMENT:
            counts, best = tried[lowest], float(values[lowest])
        else:
            step //= 2
    return counts
