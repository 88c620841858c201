"""Could the data tell? Which combinations of parameters are known, and which are open."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motorcost.fitting.objective import Coordinate

# A direction is open if along it two standard errors either way reach across a support, and weak
# if it is known no better than within a factor of two.
WEAK = float(np.log(2.0))


@dataclass(frozen=True)
class Direction:
    """A combination of parameters: what it is (`effort × velocity^0.8`), its standard error on
    the (logarithmic) line, and what the data say of it: `known`, `weak` or `open`."""

    name: str
    weights: dict[str, float]
    standard_error: float
    verdict: str

    @property
    def words(self) -> str:
        """A sentence, for what is not well known; else empty."""
        if self.verdict == "open":
            return f"The data cannot tell {self.name}."
        if self.verdict == "weak":
            factor = np.exp(self.standard_error)
            return f"{self.name} is known only within a factor of {factor:.2g} (one SE)."
        return ""


def directions(coordinates: Sequence[Coordinate], information: np.ndarray) -> list[Direction]:
    """Independent combinations of parameters, from the least known to the best.

    Those are the principal axes of the information, on the line of each parameter.
    """
    if not np.isfinite(information).all():
        return []
    width = np.array([c.support.width for c in coordinates])
    roots, axes = np.linalg.eigh(information)
    result = []
    for root, axis in zip(roots, axes.T, strict=True):
        axis = axis / axis[np.argmax(np.abs(axis))]
        size = float(np.linalg.norm(axis))
        error = size / float(np.sqrt(root)) if root > 0 else np.inf
        # How far the parameters move along it within a standard error, beside their supports.
        moves = np.abs(axis) * min(error, 1e300) / size**2
        logarithmic = all(c.support.logarithmic for c in coordinates)
        verdict = "open" if (4 * moves > width).any() else "known"
        if verdict == "known" and logarithmic and error > WEAK:
            verdict = "weak"
        names = [c.name for c in coordinates]
        weights = dict(zip(names, axis.tolist(), strict=True))
        result.append(Direction(_name(weights), weights, error, verdict))
    return result


def _name(weights: dict[str, float]) -> str:
    """`velocity × force^0.8 / effort^0.2`, without what hardly takes part."""
    over: list[str] = []
    under: list[str] = []
    for name, weight in sorted(weights.items(), key=lambda item: -abs(item[1])):
        if abs(weight) < 0.15:
            continue
        power = "" if abs(weight) > 0.95 else f"^{abs(weight):.1f}"
        (over if weight > 0 else under).append(name + power)
    return " × ".join(over) + "".join(f" / {each}" for each in under)
