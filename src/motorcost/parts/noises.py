"""Noise that grows with the control, in its direction and across it."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from motorcost import checks


class SignalDependentNoise(NamedTuple):
    """Noise that grows with the control; see `signal_dependent_noise`.

    Examples
    --------
    >>> noise = mc.parts.signal_dependent_noise(0.5)
    >>> float(noise.along)
    0.5
    """

    along: Any
    across: Any = None

    def terms(self, B: Float[Array | np.ndarray, "n m"]) -> list[Float[Array | np.ndarray, "n m"]]:
        """The matrices C_i for a body with this B."""
        if self.across is None:
            return [self.along * B]
        turned = [self.along * self.across * (B @ turn) for turn in _turns(B.shape[1])]
        return [self.along * B, *turned]


def signal_dependent_noise(along: Any, *, across: Any = None) -> SignalDependentNoise:
    """Noise whose SD is a fraction of the control.

    **Arguments:**

    - `along`: the SD of the noise in the direction of the control, as a fraction of the control.
    - `across`: the SD of the noise in each direction across it, as a fraction of that along it: 1
      for noise that is the same in all directions (Todorov 2005), None for no such noise. On a line
      there is none.

    Examples
    --------
    >>> noise = mc.parts.signal_dependent_noise(0.5, across=0.2)
    >>> float(noise.along), float(noise.across)
    (0.5, 0.2)
    """
    checks.nonnegative(along=along)
    if across is not None:
        checks.nonnegative(across=across)
    return SignalDependentNoise(along, across)


def _turns(m: int) -> list[Float[np.ndarray, "m m"]]:
    """Rotations by 90 degrees in each plane of two axes. With one standard normal number for each,
    the covariance of their sum applied to u is |u|² I - u u': the same in all directions across u.
    """
    turns = []
    for i, j in combinations(range(m), 2):
        turn = np.zeros((m, m))
        turn[i, j], turn[j, i] = 1.0, -1.0
        turns.append(turn)
    return turns
