"""Which explanation each draw of a posterior belongs to, and how probable each explanation is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import chdtri

# A chain with at least this share of its draws at one maximum sits there.
SITS = 0.95
# Maxima with less of the posterior than this are not worth a word.
WORTH_A_WORD = 0.005
# A normal posterior has this part of its draws far from its maximum.
RARE = 1e-4
_COUNTS = ("no", "one", "two", "three", "four", "five")


@dataclass(frozen=True)
class Hill:
    """A maximum of the log posterior as a parabola: `point` on the search scale, `information`
    (minus the second derivative) and `value`, the log posterior there up to a constant."""

    point: np.ndarray
    information: np.ndarray
    value: float
    estimates: dict[str, float]


@dataclass(frozen=True)
class Modes:
    """How much of a posterior lies around each of its maxima.

    - `estimates`: the parameters at each maximum, by name, in natural units.
    - `shares`: of the draws of each population or chain (G) at each maximum (K).
    """

    estimates: tuple[dict[str, float], ...]
    shares: Float[np.ndarray, "G K"]

    @property
    def weights(self) -> np.ndarray:
        """The share of the posterior at each maximum."""
        return self.shares.mean(axis=0)

    @property
    def errors(self) -> np.ndarray:
        """The standard errors of the weights, from the spread of the populations; NaN for one."""
        count = len(self.shares)
        if count < 2:
            return np.full(self.shares.shape[1], math.nan)
        return self.shares.std(axis=0, ddof=1) / math.sqrt(count)

    @property
    def chains_apart(self) -> bool:
        """Whether some chains sit at one maximum and some at another: their shares then tell
        where they began, not how probable the maxima are."""
        sits = self.shares >= SITS
        return int(sits.any(axis=0).sum()) > 1

    def words(self) -> str:
        """The explanations with their weights, in a sentence; "" if there is only one."""
        order = [k for k in np.argsort(-self.weights) if self.weights[k] >= WORTH_A_WORD]
        if len(order) < 2:
            return ""
        count = _COUNTS[len(order)] if len(order) < len(_COUNTS) else str(len(order))
        parts = [
            f"{_with_error(self.weights[k], self.errors[k])} of the posterior around "
            + ", ".join(f"{name} {value:.3g}" for name, value in self.estimates[k].items())
            for k in order
        ]
        return f"{count} explanations: {'; '.join(parts)}"

    def words_of_chains(self) -> str:
        """What is wrong where chains sit at different maxima; "" if they do not."""
        if not self.chains_apart:
            return ""
        sits = (self.shares >= SITS).sum(axis=0)
        parts = [
            f"{sits[k]} at "
            + ", ".join(f"{name} {value:.3g}" for name, value in self.estimates[k].items())
            for k in np.flatnonzero(sits)
        ]
        return (
            f"the chains sit at different maxima ({'; '.join(parts)}) and do not pass from one to "
            'another: how probable each is cannot be told from them; method="smc" can'
        )


def _with_error(weight: float, error: float) -> str:
    return f"{weight:.2f}" if math.isnan(error) else f"{weight:.2f} ± {error:.2f}"


def modes_of(points: Float[np.ndarray, "G n p"], hills: Sequence[Hill]) -> Modes:
    """Count draws (populations or chains, draws, parameters; on the search scale) by maximum."""
    numbers = nearest_hill(points.reshape(-1, points.shape[-1]), hills).reshape(points.shape[:2])
    shares = np.stack([(numbers == k).mean(axis=1) for k in range(len(hills))], axis=1)
    return Modes(tuple(hill.estimates for hill in hills), shares)


def nearest_hill(points: Float[np.ndarray, "n p"], hills: Sequence[Hill]) -> Int[np.ndarray, " n"]:
    """The number of the maximum whose parabola is the highest at each point: between two maxima,
    parabolas cross about where the valley is."""
    heights = [hill.value - 0.5 * square_distances(points, hill) for hill in hills]
    return np.argmax(heights, axis=0)


def square_distances(points: Float[np.ndarray, "n p"], hill: Hill) -> Float[np.ndarray, " n"]:
    """The squares of distances from a maximum, in SDs of the normal distribution there."""
    apart = points - hill.point
    return np.einsum("ni,ij,nj->n", apart, hill.information, apart)


def far_from_all(points: Float[np.ndarray, "n p"], hills: Sequence[Hill]) -> Bool[np.ndarray, " n"]:
    """Whether a point lies where the normal distribution of no maximum would have draws."""
    least = np.min([square_distances(points, hill) for hill in hills], axis=0)
    return least > chdtri(points.shape[1], RARE)
