"""The gap between the exact log likelihood and that of moment matching, along parameters.

Where the exact log likelihood exceeds the approximate one by a gap g, the maximum of the exact one
is further by I^-1 dg, with the information I of the approximate one and the gradient dg of the gap.
Along the profile of parameter k, in units of its standard error, the other parameters follow as
I^-1 e_k; so the slope of the gap along the profile of each parameter is how far the exact maximum
lies, in standard errors, whatever the other parameters do.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from motorcost.inference.averages import averaged, leave_one_out
from motorcost.inference.particle_groups import estimates_under
from motorcost.model.trials import Trials

# Where the gap is measured along each profile, in standard errors.
OFFSETS = (-2.0, -1.0, 1.0, 2.0)


@dataclass(frozen=True)
class Evaluated:
    """Log likelihoods of N trials at P points: those that filters estimate, whose number grows
    from round to round, and those of moment matching. Points that are impossible are NaN."""

    estimates: np.ndarray  # (P, N, filters)
    matched: np.ndarray  # (P, N)

    def combination(self, weights: np.ndarray) -> tuple[float, float]:
        """The sum over points of the gap, each times its weight, and its Monte Carlo error.

        All points were evaluated with the same random numbers, and trials with different ones: so
        errors are those of the combination in each trial, and add up over trials.
        """
        used = weights != 0
        if not np.isfinite(self.matched[used]).all():
            return np.nan, np.nan
        value = np.tensordot(
            weights[used], averaged(self.estimates[used])[0] - self.matched[used], 1
        )
        n = self.estimates.shape[-1]
        if n == 1:
            return float(value.sum()), np.nan
        without = np.tensordot(weights[used], leave_one_out(self.estimates[used]), 1)
        return float(value.sum()), float(np.sqrt((n - 1) * without.var(axis=-1).sum()))

    def spread(self) -> float:
        """The standard deviation over trials of the gap at the first point, Monte Carlo error
        left out."""
        value, error = averaged(self.estimates[0])
        variance = np.var(value - self.matched[0], ddof=1) - np.mean(error**2)
        return float(np.sqrt(max(variance, 0.0)))

    def joined(self, other: "Evaluated") -> "Evaluated":
        """The same points with the filters of another round too."""
        return Evaluated(np.concatenate([self.estimates, other.estimates], axis=-1), self.matched)


def evaluate_at(
    make: Callable[[Any], Any],
    points: np.ndarray,
    trials: Trials,
    *,
    key: Any,
    particles: int,
    filters: int,
) -> Evaluated:
    """The log likelihoods of trials at points, with the same random numbers at each.

    `make` goes from a point to a task, as `Objective.at` does. The first point must be possible,
    and the others near it.
    """
    problems = [make(point) for point in points]
    found = estimates_under(problems, trials, key=key, particles=particles, filters=filters)
    return Evaluated(*found[:2])


@dataclass(frozen=True)
class GapProfile:
    """The gap along the profile of one parameter.

    - `name`: of the parameter.
    - `offsets`: how far from the estimate, in standard errors of the profile; zero is among them.
    - `changes`, `errors`: by how much the gap is larger than at the estimate, and the Monte Carlo
      error of that; NaN where the model has no policy, or contradicts the trials.
    - `slope`, `slope_error`: of the gap per standard error, about zero.
    """

    name: str
    offsets: np.ndarray
    changes: np.ndarray
    errors: np.ndarray
    slope: float
    slope_error: float


def profile_points(
    point: np.ndarray,
    covariance: np.ndarray,
    which: Sequence[int],
    bounds: np.ndarray,
    steps: Sequence[float] = OFFSETS,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The points at which to evaluate, the first of them `point` itself, and the offsets of the
    others along each profile: `steps` standard errors, or less where a support ends before."""
    points, offsets = [point], []
    for k in which:
        direction = covariance[:, k] / np.sqrt(covariance[k, k])
        with np.errstate(divide="ignore"):
            room = np.abs(bounds - point[:, None]).min(axis=1) / np.abs(direction)
        reach = min(1.0, 0.9 * float(room[direction != 0].min()) / max(steps))
        offsets.append(reach * np.array(steps))
        points += [point + offset * direction for offset in offsets[-1]]
    return np.stack(points), offsets


def gap_profiles(
    evaluated: Evaluated, names: Sequence[str], offsets: Sequence[np.ndarray]
) -> list[GapProfile]:
    """The gap along each profile, of points that `profile_points` returned."""
    count = len(evaluated.matched)
    possible = np.isfinite(evaluated.matched).all(axis=1)
    profiles, first = [], 1
    for name, along in zip(names, offsets, strict=True):
        at = np.arange(first, first + len(along))
        first += len(along)
        changes = [(0.0, 0.0)]
        for i in at:
            weights = np.zeros(count)
            weights[i], weights[0] = 1.0, -1.0
            changes.append(evaluated.combination(weights))
        # From the nearest pair on both sides of the estimate: further away errors grow, and so
        # does what a slope leaves out.
        slope = (np.nan, np.nan)
        for left, right in reversed(list(zip(at, at[::-1], strict=True))[: len(at) // 2]):
            if possible[left] and possible[right]:
                weights = np.zeros(count)
                weights[[left, right]] = np.array([-0.5, 0.5]) / along[right - at[0]]
                slope = evaluated.combination(weights)
                break
        order = np.argsort([0.0, *along])
        values = np.array(changes)[order]
        profiles.append(
            GapProfile(name, np.sort([0.0, *along]), values[:, 0], values[:, 1], *slope)
        )
    return profiles
