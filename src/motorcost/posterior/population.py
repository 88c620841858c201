"""The posterior of a group of people: each has values of their own, drawn from a population."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost.fitting.objective import Objective
from motorcost.posterior.priors import Prior
from motorcost.posterior.target import Density
from motorcost.tasks.supports import Support


def to_population_scale(support: Support, point: Array) -> Array:
    """The scale on which people are normally distributed, from the search scale: the same one for
    parameters on a log scale and for those without ends, the log odds between two ends."""
    if not has_odds(support):
        return point
    part = jnp.clip((point - support.low) / (support.high - support.low), 1e-9, 1 - 1e-9)
    return jnp.log(part) - jnp.log1p(-part)


def from_population_scale(support: Support, value: Array) -> Array:
    """The search scale, from the one on which people are normally distributed."""
    if not has_odds(support):
        return value
    return support.low + (support.high - support.low) * jax.nn.sigmoid(value)


def has_odds(support: Support) -> bool:
    """Whether people are normally distributed in the log odds between two ends."""
    return not support.logarithmic and math.isfinite(support.low) and math.isfinite(support.high)


class Parts(eqx.Module):
    """A point of a population, by what its numbers mean."""

    means: Float[Array, "levels varying"]  # on the unconstrained scale of their priors
    log_spreads: Float[Array, " varying"]
    people: Float[Array, "person varying"]
    common: Float[Array, " common"]  # on the unconstrained scale of their priors


class Population(Density):
    """The posterior of people whose parameters are drawn from a population.

    The population of a parameter is a normal distribution with mean m (one for each level of a
    factor between people) and SD s. A person's value is m + s^(1-w) (x - w m) with a normal x of
    mean w m and SD s^w: for w = 0 the SD scales x ("non-centred"), for w = 1 x is the value itself.
    Where a person's trials tell much (w near 1) the second has a posterior that is easily sampled,
    where they tell little the first has (Papaspiliopoulos, Roberts and Skold 2007).

    - `objective`: with a coordinate for each person and varying parameter, parameter by parameter,
      and one for each common parameter after them.
    - `mean_priors`, `spread_scales`: of the varying parameters. A spread has a half-normal prior.
    - `common_priors`: of the others.
    - `told`: w, how much of a person's value their own trials tell.
    - `level`: the level of each person.
    """

    objective: Objective
    mean_priors: tuple[Prior, ...]
    common_priors: tuple[Prior, ...]
    told: Float[Array, "person varying"]
    spread_scales: tuple[float, ...] = eqx.field(static=True)
    level: tuple[int, ...] = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """How many levels, people, varying and common parameters there are."""
        people, varying = self.told.shape
        return max(self.level) + 1, people, varying, len(self.common_priors)

    def parts(self, free: Float[Array, " k"]) -> Parts:
        """The numbers of a point by what they mean."""
        levels, people, varying, _ = self.shape
        ends = np.cumsum([levels * varying, varying, people * varying])
        means, spreads, values, common = jnp.split(free, ends)
        return Parts(
            means.reshape(levels, varying), spreads, values.reshape(people, varying), common
        )

    def joined(self, parts: Parts) -> Float[Array, " k"]:
        """The point of these numbers."""
        values = (parts.means, parts.log_spreads, parts.people, parts.common)
        return jnp.concatenate([jnp.ravel(value) for value in values])

    def means(self, parts: Parts) -> Float[Array, "levels varying"]:
        """The means of the population on the scale on which people are normal."""
        columns = [
            to_population_scale(prior.support, prior.to_search_scale(parts.means[:, j]))
            for j, prior in enumerate(self.mean_priors)
        ]
        return jnp.stack(columns, axis=1)

    def to_search_scale(self, free: Float[Array, " k"]) -> Float[Array, " p"]:
        """The objective's point: every person's values, then the common ones."""
        parts = self.parts(free)
        mean = self.means(parts)[np.array(self.level)]
        spread = jnp.exp(parts.log_spreads)
        values = mean + spread ** (1 - self.told) * (parts.people - self.told * mean)
        columns = [
            from_population_scale(prior.support, values[:, j])
            for j, prior in enumerate(self.mean_priors)
        ]
        common = [
            prior.to_search_scale(parts.common[q : q + 1])
            for q, prior in enumerate(self.common_priors)
        ]
        return jnp.concatenate([*columns, *common])

    def log_prior(self, free: Float[Array, " k"]) -> Float[Array, ""]:
        """The log density of population, people and common parameters."""
        parts = self.parts(free)
        mean = self.means(parts)[np.array(self.level)]
        spread = jnp.exp(parts.log_spreads)
        scale = np.array(self.spread_scales)
        half_normal = 0.5 * math.log(2 / math.pi) - np.log(scale) - 0.5 * (spread / scale) ** 2
        sd = spread**self.told
        standard = (parts.people - self.told * mean) / sd
        of_people = -0.5 * standard**2 - jnp.log(sd) - 0.5 * math.log(2 * math.pi)
        total = (half_normal + parts.log_spreads).sum() + of_people.sum()
        for j, prior in enumerate(self.mean_priors):
            total = total + prior.log_density_free(parts.means[:, j]).sum()
        for q, prior in enumerate(self.common_priors):
            total = total + prior.log_density_free(parts.common[q])
        return total


class Alone(Density):
    """Every person by themselves, with a wide normal prior around what all have in common: what
    their own trials tell."""

    objective: Objective
    centre: Float[Array, " p"]
    sd: Float[Array, " p"]

    def to_search_scale(self, free: Float[Array, " k"]) -> Float[Array, " p"]:
        """The same."""
        return free

    def log_prior(self, free: Float[Array, " k"]) -> Float[Array, ""]:
        """The log density of the wide priors."""
        standard = (free - self.centre) / self.sd
        return (-0.5 * standard**2 - jnp.log(self.sd) - 0.5 * math.log(2 * math.pi)).sum()
