"""Priors: the package's own supports, or NumPyro's distributions of one number.

A prior has three scales. The *natural* one is that of the parameter. The *search scale* is that on
which fits run, mostly the natural logarithm. The *unconstrained scale* has no ends: samplers move
on it freely. On the search scale all densities here are normalised, so that evidence means what it
says.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import log_ndtr

from motorcost.errors import InputError
from motorcost.markup import percent
from motorcost.tasks.supports import Support

# An end of a support that is so many SDs from the centre of its prior is none.
FAR = 10.0
# Points at which the shape of a NumPyro distribution is looked at.
SHAPE_DRAWS = 4_000
# A prior with less than this of its mass where the task takes values has none there.
LEAST_MASS = 1e-6
# With less than this, it is worth a word.
HALF = 0.5
# Stands for zero on a log scale.
TINY = 1e-300


class Prior(eqx.Module):
    """What is known of a parameter in advance.

    - `support`: the ends and the search scale, and a prior of its own.
    - `distribution`: one of NumPyro's, of the natural value, in place of the support's own prior.
    """

    support: Support = eqx.field(static=True)
    distribution: Any = None

    def __str__(self) -> str:
        """What it is called, with its numbers and the ends that it is given."""
        if self.distribution is None:
            support = self.support
            inner = str(support).removesuffix(")")
            if support.sd is None:
                return f"{inner})"
            lowest = TINY if support.logarithmic else -math.inf
            ends = [f", low={support.low:g}"] if support.low > lowest else []
            ends += [f", high={support.high:g}"] if support.high < math.inf else []
            return f"{inner}{''.join(ends)})"
        return _in_words(self.distribution)

    @property
    def ends(self) -> tuple[float, float]:
        """The ends on the search scale; infinite where none matters."""
        low, high = self.support.bounds
        if self.distribution is not None:
            return (-math.inf if low == math.log(TINY) else low), high
        if self.support.sd is not None and self.support.centre is not None:
            reach = FAR * self.support.sd
            low = low if low > self.support.centre - reach else -math.inf
            high = high if high < self.support.centre + reach else math.inf
        return low, high

    @property
    def _unit(self) -> tuple[float, float]:
        """The centre and the unit of the unconstrained scale where an end is missing, so that it
        does not depend on the units of the parameter."""
        if self.support.centre is None or self.support.sd is None:
            return 0.0, 1.0
        return self.support.centre, self.support.sd

    def to_search_scale(self, free: Float[Array, " *n"]) -> Float[Array, " *n"]:
        """Return points on the search scale, from the unconstrained scale."""
        low, high = self.ends
        centre, sd = self._unit
        if math.isinf(low) and math.isinf(high):
            return centre + sd * free
        if math.isinf(high):
            return low + sd * jnp.exp(free)
        if math.isinf(low):
            return high - sd * jnp.exp(-free)
        return low + (high - low) * jax.nn.sigmoid(free)

    def to_unconstrained(self, point: Float[Array, " *n"]) -> Float[Array, " *n"]:
        """Return points on the unconstrained scale; at an end, a point close to it."""
        low, high = self.ends
        centre, sd = self._unit
        if math.isinf(low) and math.isinf(high):
            return (point - centre) / sd
        if math.isinf(high):
            return jnp.log(jnp.maximum((point - low) / sd, 1e-6))
        if math.isinf(low):
            return -jnp.log(jnp.maximum((high - point) / sd, 1e-6))
        part = jnp.clip((point - low) / (high - low), 1e-6, 1 - 1e-6)
        return jnp.log(part) - jnp.log1p(-part)

    def log_slope(self, free: Float[Array, " *n"]) -> Float[Array, " *n"]:
        """Return the logarithm of how fast the search scale moves with the unconstrained one."""
        low, high = self.ends
        _, sd = self._unit
        if math.isinf(low) and math.isinf(high):
            return jnp.full(jnp.shape(free), math.log(sd))
        if math.isinf(high):
            return math.log(sd) + free
        if math.isinf(low):
            return math.log(sd) - free
        width = math.log(high - low)
        return width + jax.nn.log_sigmoid(free) + jax.nn.log_sigmoid(-free)

    def log_density(self, point: Float[Array, " *n"]) -> Float[Array, " *n"]:
        """Return the log density on the search scale, which integrates to one between the ends."""
        support, (low, high) = self.support, self.ends
        if self.distribution is not None:
            # Rounding must not carry a value across an end.
            value = jnp.clip(support.from_search_scale(point), support.low, support.high)
            return self.distribution.log_prob(value) + (point if support.logarithmic else 0.0)
        if support.sd is None or support.centre is None:
            return jnp.full(jnp.shape(point), -math.log(high - low))
        standard = (point - support.centre) / support.sd
        low, high = ((end - support.centre) / support.sd for end in support.bounds)
        log_mass = _log_normal_mass(low, high)
        normaliser = math.log(support.sd) + 0.5 * math.log(2 * math.pi) + log_mass
        return -0.5 * standard**2 - normaliser

    def log_density_free(self, free: Float[Array, " *n"]) -> Float[Array, " *n"]:
        """Return the log density on the unconstrained scale."""
        return self.log_density(self.to_search_scale(free)) + self.log_slope(free)

    def mass_within(self, low: float, high: float) -> float:
        """Return the part of the prior between two natural values, for a distribution of NumPyro
        by draws."""
        support = self.support
        if self.distribution is not None:
            drawn = np.asarray(self.distribution.sample(jax.random.key(0), (SHAPE_DRAWS,)), float)
            return float(((drawn >= low) & (drawn <= high)).mean())
        first, last = support.bounds
        if support.logarithmic:
            low, high = math.log(max(low, TINY)), math.log(max(high, TINY))
        low, high = max(low, first), min(high, last)
        if low >= high:
            return 0.0
        if support.sd is None or support.centre is None:
            return (high - low) / (last - first)
        places = np.array([low, high, first, last])
        low, high, first, last = ((places - support.centre) / support.sd).tolist()
        return math.exp(_log_normal_mass(low, high) - _log_normal_mass(first, last))

    def draw(self, key: Any, shape: tuple[int, ...]) -> Float[Array, "*shape"]:
        """Draw points on the search scale."""
        if self.distribution is None:
            return self.support.draw(key, shape)
        return self.support.to_search_scale(self.distribution.sample(key, shape))


def _in_words(distribution: Any) -> str:
    """The name of a distribution of NumPyro, with the numbers and distributions it is made of."""
    shown = []
    for name in inspect.signature(type(distribution)).parameters:
        value = getattr(distribution, name.replace("base_distribution", "base_dist"), None)
        if hasattr(value, "log_prob"):
            shown.append(_in_words(value))
        elif isinstance(value, (int, float, np.number, jax.Array)) and not isinstance(value, bool):
            shown.append(f"{float(value):g}")
    return f"{type(distribution).__name__}({', '.join(shown)})"


def _log_normal_mass(low: float, high: float) -> float:
    """The logarithm of how much of a standard normal distribution lies between two values."""
    if low > 0:  # the other tail, where a difference of small numbers keeps its digits
        low, high = -high, -low
    # By SciPy, because this is a number also while JAX traces.
    upper, lower = float(log_ndtr(high)), float(log_ndtr(low))
    return -math.inf if lower >= upper else upper + math.log1p(-math.exp(lower - upper))


def prior_of(name: str, given: Any, usual: Support | None) -> Prior:
    """Return the prior of a parameter from a support or a NumPyro distribution.

    `usual` is where the task says that the parameter lies, if it says so.
    """
    if isinstance(given, Support):
        prior = Prior(given)
    elif callable(getattr(given, "log_prob", None)) and hasattr(given, "support"):
        prior = Prior(_support_of(name, given), given)
    else:
        raise InputError(
            f"the prior of {name} must be one of the package (mc.LogNormal(1e-5, 1.0), LogUniform, "
            f"Normal, Uniform) or a distribution of NumPyro, got {given!r}"
        )
    if usual is not None:
        _require_possible(name, prior, usual)
    return prior


def little_within(name: str, prior: Prior, usual: Support) -> str:
    """What to know of a prior most of which lies outside the values that a task takes; else ""."""
    mass = prior.mass_within(usual.low, usual.high)
    if mass >= HALF:
        return ""
    return (
        f"only {percent(mass, 1)} of the prior of {name}, {prior}, lies within the values "
        f"that the task takes, {usual.low:g} to {usual.high:g}: is it in the right unit?"
    )


def _require_possible(name: str, prior: Prior, usual: Support) -> None:
    """Raise if a prior lies outside what the task can take, or reaches below zero where it may
    not."""
    if prior.mass_within(usual.low, usual.high) < LEAST_MASS:
        raise InputError(
            f"the prior of {name}, {prior}, lies outside of the values that the task takes, "
            f"{usual.low:g} to {usual.high:g}"
        )
    if usual.logarithmic and prior.support.low < 0:
        raise InputError(
            f"{name} must be positive, and its prior, {prior}, allows values below zero: use "
            f"mc.LogNormal(median, sd), or give low=, as in mc.Normal(mean, sd, low=...)"
        )


def _support_of(name: str, distribution: Any) -> Support:
    """The ends, the search scale and the rough shape of a NumPyro distribution."""
    if distribution.batch_shape or distribution.event_shape:
        shape = (*distribution.batch_shape, *distribution.event_shape)
        raise InputError(
            f"the prior of {name} must be a distribution of one number, got one of shape {shape}"
        )
    support = distribution.support
    if support.is_discrete:
        raise InputError(f"the prior of {name} must be continuous: {type(distribution).__name__}")
    low = _number(getattr(support, "lower_bound", -math.inf))
    high = _number(getattr(support, "upper_bound", math.inf))
    logarithmic = low >= 0 and (math.isinf(high) or (low > 0 and high > 10 * low))
    drawn = np.asarray(distribution.sample(jax.random.key(0), (SHAPE_DRAWS,)), float)
    if not np.isfinite(drawn).all():
        raise InputError(f"the prior of {name} draws values that are not finite")
    drawn = np.log(np.maximum(drawn, TINY)) if logarithmic else drawn
    # By quantiles, because a distribution with heavy tails may have no SD.
    lower, centre, upper = np.quantile(drawn, [0.16, 0.5, 0.84])
    return Support(
        low=max(low, TINY) if logarithmic else low,
        high=high,
        logarithmic=logarithmic,
        centre=float(centre),
        sd=float(max((upper - lower) / 2, 1e-12)),
    )


def _number(value: Any) -> float:
    return float(np.asarray(value))
