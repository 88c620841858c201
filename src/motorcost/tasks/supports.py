"""The values that a parameter can have, and what is known of it in advance.

A support sets the starts of a search, its bounds, the scale on which it runs, and the prior.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost.errors import InputError


@dataclass(frozen=True)
class Support:
    """The values that a parameter can have. Made by `LogUniform`, `Uniform`, `LogNormal`, `Normal`.

    - `low`, `high`: the bounds.
    - `logarithmic`: whether the search scale is the natural logarithm of the parameter (the log
      scale) or the parameter itself.
    - `centre`, `sd`: mean and SD of a normal prior on the search scale, None for a flat prior.
    - `per`: the condition (subject, block) by which trials are grouped, if every group has a value
      of its own; None for one value.

    Examples
    --------
    >>> support = mc.LogUniform(1e-4, 1.0)
    >>> support.low, support.high, support.logarithmic
    (0.0001, 1.0, True)
    """

    low: float
    high: float
    logarithmic: bool
    centre: float | None = None
    sd: float | None = None
    per: str | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high", "centre", "sd"):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
                raise InputError(f"the {name} of a parameter must be a number, got {value!r}")
            if math.isnan(value):
                raise InputError(f"the {name} of a parameter must be a number, got nan")
            if name == "centre" and math.isinf(value):
                raise InputError(f"the centre of a parameter must be finite, got {value}")
            object.__setattr__(self, name, float(value))
        if not self.low < self.high:
            raise InputError(
                f"a parameter needs low < high, got low {self.low:g}, high {self.high:g}"
            )
        if self.logarithmic and not self.low > 0:
            raise InputError(f"a parameter on a log scale needs low > 0, got {self.low:g}")
        if self.sd is not None and not (0 < self.sd < math.inf):
            raise InputError(f"the sd of a prior must be positive and finite, got {self.sd:g}")
        if self.sd is None and not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise InputError("a parameter without a prior needs finite bounds to start from")

    def __contains__(self, value: float) -> bool:
        return bool(self.low <= value <= self.high)

    def __str__(self) -> str:
        prefix = "Log" if self.logarithmic else ""
        if self.sd is None or self.centre is None:
            return f"{prefix}Uniform({self.low:g}, {self.high:g})"
        middle = math.exp(self.centre) if self.logarithmic else self.centre
        return f"{prefix}Normal({middle:g}, {self.sd:g})"

    @property
    def bounds(self) -> tuple[float, float]:
        """Low and high on the search scale."""
        if not self.logarithmic:
            return self.low, self.high
        return math.log(self.low), math.inf if math.isinf(self.high) else math.log(self.high)

    @property
    def width(self) -> float:
        """The width on the search scale, at most ten SD of the prior on either side."""
        low, high = self.bounds
        prior = math.inf if self.sd is None else 20.0 * self.sd
        return min(high - low, prior)

    @property
    def middle(self) -> float:
        """The centre of the prior, or the middle of the bounds, on the search scale."""
        low, high = self.bounds
        return (low + high) / 2 if self.centre is None else min(max(self.centre, low), high)

    @property
    def step(self) -> float:
        """A step on the search scale for finite differences, large enough for rounding."""
        return min(1e-4 * self.width, 1e-3) if self.logarithmic else 1e-4 * self.width

    def to_search_scale(self, value: Any) -> Any:
        """Return a value on the search scale."""
        return jnp.log(value) if self.logarithmic else jnp.asarray(value)

    def from_search_scale(self, point: Any) -> Any:
        """Return the value of a point on the search scale."""
        return jnp.exp(point) if self.logarithmic else jnp.asarray(point)

    def natural(self, ends: tuple[float, float]) -> tuple[float, float]:
        """Return the ends of an interval on the search scale in natural units, within the support.

        Ends may be infinite; NaN stays.
        """
        with np.errstate(over="ignore"):
            low, high = np.exp(ends) if self.logarithmic else ends
        return float(np.clip(low, self.low, self.high)), float(np.clip(high, self.low, self.high))

    def log_prior(self, point: Any) -> Any:
        """Return the log density on the search scale up to a constant; 0 for a flat prior."""
        if self.sd is None:
            return jnp.zeros(jnp.shape(point))
        return -0.5 * ((point - self.centre) / self.sd) ** 2

    def draw(self, key: Any, shape: tuple[int, ...] = ()) -> Float[Array, "*shape"]:
        """Draw points on the search scale from the prior within the bounds."""
        low, high = self.bounds
        if self.sd is None or self.centre is None:
            return jax.random.uniform(key, shape, minval=low, maxval=high)
        within = ((low - self.centre) / self.sd, (high - self.centre) / self.sd)
        return self.centre + self.sd * jax.random.truncated_normal(key, *within, shape)

    def grouped_by(self, per: str | None) -> "Support":
        """Return the support with one value per group of trials that share the condition `per`."""
        return replace(self, per=per)


def LogUniform(low: float, high: float, *, per: str | None = None) -> Support:
    """Return a support from `low` to `high`, uniform on the log scale.

    Examples
    --------
    >>> print(mc.LogUniform(1e-8, 1e-2))
    LogUniform(1e-08, 0.01)
    """
    return Support(low, high, logarithmic=True, per=per)


def Uniform(low: float, high: float, *, per: str | None = None) -> Support:
    """Return a uniform support from `low` to `high`.

    Examples
    --------
    >>> print(mc.Uniform(0.01, 0.2))
    Uniform(0.01, 0.2)
    """
    return Support(low, high, logarithmic=False, per=per)


def LogNormal(
    median: float,
    sd: float,
    *,
    low: float = 1e-300,
    high: float = math.inf,
    per: str | None = None,
) -> Support:
    """Return a log-normal support: `sd` is in natural logarithms (0.7 is a factor of 2).

    Examples
    --------
    >>> print(mc.LogNormal(1e-5, 0.7))  # most values within a factor of 4 of 1e-5
    LogNormal(1e-05, 0.7)
    """
    if isinstance(median, bool) or not isinstance(median, (int, float, np.number)):
        raise InputError(f"the median of a LogNormal must be a number, got {median!r}")
    if not 0 < median < math.inf:
        raise InputError(f"the median of a LogNormal must be positive, got {median:g}")
    return Support(low, high, logarithmic=True, centre=math.log(median), sd=sd, per=per)


def Normal(
    mean: float,
    sd: float,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    per: str | None = None,
) -> Support:
    """Return a normal support with this mean and standard deviation.

    Examples
    --------
    >>> print(mc.Normal(0.04, 0.01))
    Normal(0.04, 0.01)
    """
    return Support(low, high, logarithmic=False, centre=mean, sd=sd, per=per)
