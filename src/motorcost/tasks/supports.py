"""What may be asked of a parameter: where it can lie, and what is known of it beforehand.

One declaration serves the starts of a search, its bounds, the scale it runs on, and priors.
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
    """Where a parameter can lie. Made by `LogUniform`, `Uniform`, `LogNormal` and `Normal`.

    The search runs on a *line*: the logarithm of the parameter, or (`logarithmic` false) the
    parameter itself. `centre` and `sd` are those of a normal prior on that line, None for a flat
    one. `per` names the label (subject, block) that each have a value of their own.
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
        names = {(True, True): "LogUniform", (False, True): "Uniform"}
        names |= {(True, False): "LogNormal", (False, False): "Normal"}
        what = names[self.logarithmic, self.sd is None]
        if self.sd is None or self.centre is None:
            return f"{what}({self.low:g}, {self.high:g})"
        middle = math.exp(self.centre) if self.logarithmic else self.centre
        return f"{what}({middle:g}, {self.sd:g})"

    @property
    def bounds(self) -> tuple[float, float]:
        """Low and high on the line."""
        if not self.logarithmic:
            return self.low, self.high
        return math.log(self.low), math.inf if math.isinf(self.high) else math.log(self.high)

    @property
    def width(self) -> float:
        """How far the support reaches on the line: of a prior without bounds, ten SD each way."""
        low, high = self.bounds
        prior = math.inf if self.sd is None else 20.0 * self.sd
        return min(high - low, prior)

    @property
    def middle(self) -> float:
        """A point on the line that is as good as any."""
        low, high = self.bounds
        return (low + high) / 2 if self.centre is None else min(max(self.centre, low), high)

    @property
    def step(self) -> float:
        """A step on the line that is small, but not so small that rounding matters."""
        return min(1e-4 * self.width, 1e-3) if self.logarithmic else 1e-4 * self.width

    def to_search_scale(self, value: Any) -> Any:
        """Where a value lies on the line."""
        return jnp.log(value) if self.logarithmic else jnp.asarray(value)

    def from_search_scale(self, point: Any) -> Any:
        """The value of a point on the line."""
        return jnp.exp(point) if self.logarithmic else jnp.asarray(point)

    def natural(self, ends: tuple[float, float]) -> tuple[float, float]:
        """The ends of an interval on the line, which may be infinite, in natural units."""
        if not self.logarithmic:
            return float(ends[0]), float(ends[1])
        with np.errstate(over="ignore"):
            return float(np.exp(ends[0])), float(np.exp(ends[1]))

    def log_prior(self, point: Any) -> Any:
        """Log density on the line, up to a constant; 0 where the prior is flat."""
        if self.sd is None:
            return jnp.zeros(jnp.shape(point))
        return -0.5 * ((point - self.centre) / self.sd) ** 2

    def draw(self, key: Any, shape: tuple[int, ...] = ()) -> Float[Array, "*shape"]:
        """Points on the line, drawn from the prior within the bounds."""
        low, high = self.bounds
        if self.sd is None or self.centre is None:
            return jax.random.uniform(key, shape, minval=low, maxval=high)
        within = ((low - self.centre) / self.sd, (high - self.centre) / self.sd)
        return self.centre + self.sd * jax.random.truncated_normal(key, *within, shape)

    def each(self, per: str | None) -> "Support":
        """The same, with a value of its own for each of what `per` names."""
        return replace(self, per=per)


def LogUniform(low: float, high: float, *, per: str | None = None) -> Support:
    """Between `low` and `high`, any order of magnitude as likely as another."""
    return Support(low, high, logarithmic=True, per=per)


def Uniform(low: float, high: float, *, per: str | None = None) -> Support:
    """Between `low` and `high`, any value as likely as another."""
    return Support(low, high, logarithmic=False, per=per)


def LogNormal(
    median: float,
    sd: float,
    *,
    low: float = 1e-300,
    high: float = math.inf,
    per: str | None = None,
) -> Support:
    """Around `median`, with standard deviation `sd` in natural logarithms (0.7: a factor of 2)."""
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
    """Around `mean`, with standard deviation `sd`."""
    return Support(low, high, logarithmic=False, centre=mean, sd=sd, per=per)
