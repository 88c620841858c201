"""What a particle filter draws: standard normal numbers, and which particles go on.

Several filters run at once, each with the same number of particles. Arrays that belong to particles
have all of them on the last axis, those of the first filter first.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp, ndtri
from jaxtyping import Array, Float, Shaped

# Particles are drawn anew where their weights are worth less than this fraction of their number.
FEWEST_EFFECTIVE = 0.5


def per_particle(
    values: Shaped[Array, "*any filters"], particles: int
) -> Shaped[Array, "*any particle"]:
    """What the particles of each filter share, for every particle."""
    return jnp.repeat(values, particles, axis=-1)


def spacings(steps: int, d: int) -> Float[Array, "steps d"]:
    """The spacings with which `even_normals` draws d numbers at each step: square roots of primes.

    Their multiples are spread evenly, and so are the pairs of multiples of two of them: what a
    particle draws at a step must not go along with what it drew before.
    """
    count, candidate = steps * d, 2
    primes: list[int] = []
    while len(primes) < count:
        if all(candidate % prime for prime in primes if prime * prime <= candidate):
            primes.append(candidate)
        candidate += 1
    return jnp.asarray(np.sqrt(np.array(primes, float)).reshape(steps, d) % 1.0)


def even_normals(
    shifts: Float[Array, "d filters"], spacing: Float[Array, " d"], particles: int
) -> Float[Array, "d particle"]:
    """Standard normal numbers for every particle of each filter, from d uniform numbers per filter.

    The number of each particle is standard normal, but together they fill the distribution evenly:
    particle k has the quantile k spacing + shift, modulo 1. Any run of particles is spread evenly
    too, such as the copies of one particle, which resampling leaves side by side. Estimates stay
    unbiased, because the mean of an average over particles does not depend on whether these are
    independent; and they vary less.
    """
    places = jnp.arange(particles) * spacing[:, None] % 1.0
    quantiles = (shifts[:, :, None] + places[:, None]) % 1.0
    least = float(np.finfo(quantiles.dtype).eps) / 4
    return ndtri(jnp.clip(quantiles, least, 1.0 - least)).reshape(len(shifts), -1)


def weighed(
    log_weights: Float[Array, "filters p"], log_densities: Float[Array, " particle"]
) -> tuple[Float[Array, " filters"], Float[Array, "filters p"]]:
    """The log of the mean density of each filter's particles, and the weights after it, which sum
    to one."""
    after = log_weights + log_densities.reshape(log_weights.shape)
    total = logsumexp(after, axis=1)
    # A filter without any possible particle stays impossible: its later weights do not matter.
    after = jnp.where(jnp.isfinite(total)[:, None], after - total[:, None], log_weights)
    return total, after


def resampled(
    particles: Any,
    log_weights: Float[Array, "models filters p"],
    uniforms: Float[Array, " filters"],
) -> tuple[Any, Float[Array, "models filters p"]]:
    """The particles of each filter and their weights, drawn anew where the weights are uneven.

    Systematic resampling: one uniform number decides how often each particle of a filter goes on,
    and on average that is as often as its weight under the first model says. Under the other
    models, what goes on more often has less weight. Whether to draw anew depends on the past only,
    so that the mean of the likelihood estimates does not change. The arrays of `particles` have
    models on the first axis, and the particles of all filters on the last.
    """
    _, filters, p = log_weights.shape
    # XLA would compute the weights anew for each of the many steps of a cumulated sum.
    weights = lax.optimization_barrier(jnp.exp(log_weights[0]))
    uneven = 1.0 / (weights**2).sum(axis=1) < FEWEST_EFFECTIVE * p
    # How many of the places (k + uniform) / p lie below the cumulated weights; and from that,
    # which particle each place belongs to.
    below = jnp.ceil(jnp.cumsum(weights, axis=1) * p - uniforms[:, None])
    below = jnp.clip(below, 0, p).astype(int)
    ends = jnp.zeros((filters, p + 1), int).at[jnp.arange(filters)[:, None], below].add(1)
    ancestors = jnp.minimum(jnp.cumsum(ends, axis=1)[:, :p], p - 1)
    ancestors = jnp.where(uneven[:, None], ancestors, jnp.arange(p))
    flat = (ancestors + p * jnp.arange(filters)[:, None]).reshape(-1)

    def taken(leaf: Array) -> Array:
        return jnp.take(leaf, flat, axis=-1)

    # A particle that is impossible under the first model is not drawn.
    first = jnp.where(weights > 0, log_weights[0], 0.0)
    after = jnp.where(uneven[:, None], log_weights - first - jnp.log(p), log_weights)
    after = taken(after.reshape(len(after), -1)).reshape(after.shape)
    return jax.tree.map(taken, particles), after
