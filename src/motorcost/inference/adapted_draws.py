"""Draw a control so that it agrees with the next sample.

Particles draw a signal from what they know before the next sample comes, and are weighed by the
density of that sample. If the sample tells the signal much better than what came before, few
particles agree with it, and estimates vary. That is so where a control with noise that grows with
it is small: the noise is small then too. So a particle better draws the signal from about its
distribution given the sample, and its weight makes up for that.

The distribution of a particle before the sample, N(m, s^2), is divided into cells that all
particles of a filter share; each is chosen in proportion to its probability times about the mean
density of the sample in it, and within a cell the distribution is as before.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr, ndtri
from jaxtyping import Array, Float

# Cells, and points from which they are found.
CELLS = 16
POINTS = 128
# Points reach so many standard deviations beyond the mean.
REACH = 6.0
# Bounds of the mean density in a cell beside that in all, so that no weight is extreme.
LEAST_LEVEL = 0.05
MOST_LEVEL = 1e3
# The narrowest density of a sample that is resolved, as a part of what is known before it.
NARROWEST = 1e-6


def agreeing_normals(
    normals: Float[Array, " particle"],
    mean: Float[Array, " particle"],
    root: Float[Array, " #filters"],
    told: tuple[Float[Array, " filters"], Float[Array, " filters"]],
    log_density: Callable[[Array, int], Array],
    particles: int,
) -> tuple[Float[Array, " particle"], Float[Array, " particle"]]:
    """Numbers to draw a signal with that agrees with the next sample, and the log weights that make
    up for it.

    - `normals`: standard normal numbers, to draw a signal without regard of the sample.
    - `mean`, `root`: mean and standard deviation of the signal before the sample; where the latter
      is 0, nothing changes.
    - `told`: about what the sample says that the signal is, and how exactly.
    - `log_density(values, count)`: of the sample given a signal, for `count` values per filter.
    """
    filters = len(told[0])
    root = jnp.broadcast_to(root, filters)
    means = mean.reshape(filters, particles)
    middle = means.mean(axis=1)
    spread = jnp.sqrt(root**2 + means.var(axis=1))
    points = _points(middle, spread, *told)
    densities = log_density(points.reshape(-1), POINTS).reshape(points.shape)
    edges, levels = jax.vmap(_cells)(points, densities, middle, spread)
    return _drawn(normals, mean, root, edges, levels, particles)


def _points(
    middle: Float[Array, " filters"],
    spread: Float[Array, " filters"],
    told: Float[Array, " filters"],
    width: Float[Array, " filters"],
) -> Float[Array, "filters points"]:
    """Points that are dense where the sample says that the signal is, and cover what is known."""
    spread = jnp.where(spread > 0, spread, 1.0)
    usable = jnp.isfinite(told) & jnp.isfinite(width)
    told = jnp.where(usable, told, middle)
    width = jnp.clip(jnp.where(usable, width, spread), NARROWEST * spread, spread)
    reach = jnp.arcsinh((jnp.abs(told - middle) + REACH * spread) / width)
    at = jnp.linspace(-1.0, 1.0, POINTS)
    return told[:, None] + width[:, None] * jnp.sinh(at * reach[:, None])


def _cells(
    points: Float[Array, " points"],
    log_densities: Float[Array, " points"],
    middle: Float[Array, ""],
    spread: Float[Array, ""],
) -> tuple[Float[Array, " inner"], Float[Array, " cells"]]:
    """The edges between cells, and about the mean density of the sample in each, beside the mean
    over all: half of the cells' sum is what is known before the sample, half is given it."""
    scaled = (points - middle) / jnp.where(spread > 0, spread, 1.0)
    before = jnp.exp(-0.5 * scaled**2) * jnp.asarray(jnp.gradient(points))
    largest = log_densities.max()
    after = before * jnp.exp(log_densities - jnp.where(jnp.isfinite(largest), largest, 0.0))
    before, after = (_cumulated(masses) for masses in (before, after))
    inner = jnp.arange(1, CELLS) / CELLS
    both = 0.5 * (before + after)
    edges = jnp.interp(inner, both, points)
    of_cells = (
        jnp.diff(jnp.interp(inner, both, part), prepend=0.0, append=1.0) for part in (after, before)
    )
    chance_after, chance_before = of_cells
    levels = chance_after / jnp.where(chance_before > 0, chance_before, 1.0)
    levels = jnp.where(chance_before > 0, jnp.clip(levels, LEAST_LEVEL, MOST_LEVEL), 1.0)
    return edges, levels


def _cumulated(masses: Float[Array, " points"]) -> Float[Array, " points"]:
    """The share of all mass up to each point; even if there is none."""
    total = masses.sum()
    even = jnp.full(len(masses), 1.0 / len(masses))
    return jnp.cumsum(jnp.where(total > 0, masses / jnp.where(total > 0, total, 1.0), even))


def _drawn(
    normals: Float[Array, " particle"],
    mean: Float[Array, " particle"],
    root: Float[Array, " filters"],
    edges: Float[Array, "filters inner"],
    levels: Float[Array, "filters cells"],
    particles: int,
) -> tuple[Float[Array, " particle"], Float[Array, " particle"]]:
    """The numbers and log weights of `agreeing_normals`."""
    uniforms = ndtr(normals).reshape(-1, particles)
    varies = root[:, None] > 0
    ends = edges.T[:, :, None] - mean.reshape(-1, particles)
    ends = lax.optimization_barrier(ends / jnp.where(varies, root[:, None], 1.0))
    up_to = _roughly_ndtr(ends)
    up_to = jnp.concatenate([jnp.zeros_like(up_to[:1]), up_to, jnp.ones_like(up_to[:1])])
    shares = lax.optimization_barrier(jnp.diff(up_to, axis=0) * levels.T[:, :, None])
    total = shares.sum(axis=0)
    place = lax.optimization_barrier(uniforms * total)
    # The cell that each place lies in; a loop, because cumulated sums of few numbers are slow.
    low, high = jnp.full_like(place, -jnp.inf), ends[0]
    lower, share, upper = jnp.zeros_like(place), shares[0], shares[0]
    for k in range(1, CELLS):
        beyond = (place >= upper) & (shares[k] > 0)
        low = jnp.where(beyond, ends[k - 1], low)
        high = jnp.where(beyond, ends[k] if k < CELLS - 1 else jnp.inf, high)
        lower, share = jnp.where(beyond, upper, lower), jnp.where(beyond, shares[k], share)
        upper = upper + shares[k]
    # Within the cell exactly as before the sample.
    low, high, lower, share = lax.optimization_barrier((low, high, lower, share))
    below, chance = ndtr(low), ndtr(high) - ndtr(low)
    within = jnp.clip((place - lower) / jnp.where(share > 0, share, 1.0), 0.0, 1.0)
    quantile = below + within * chance
    least = float(np.finfo(quantile.dtype).eps) / 4
    found = ndtri(jnp.clip(quantile, least, 1.0 - least))
    log_weight = jnp.log(chance) - jnp.log(share / total)
    found = jnp.where(varies, found, normals.reshape(found.shape))
    return found.reshape(-1), jnp.where(varies, log_weight, 0.0).reshape(-1)


def _roughly_ndtr(values: Array) -> Array:
    """The standard normal distribution function, to four decimals and ten times as fast: to choose
    cells by, for which weights make up."""
    return 1.0 / (1.0 + jnp.exp(-values * (1.5976 + 0.07056 * values**2)))
