"""Around a maximum of the posterior: where it is, and its curvature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost.fitting.batching import BatchedObjective
from motorcost.fitting.optimise import search_by_gradient
from motorcost.numerics.compiling import lean_jit
from motorcost.posterior.nuts import Starts
from motorcost.posterior.target import Density

# The largest SD of a coordinate, on the scale without ends, that a curvature may suggest: that of
# a coordinate that is free between two ends is 1.8.
LARGEST_SD = 3.0
# The first step of differences of gradients, and later ones in SDs.
FIRST_STEP, STEP = 1e-3, 0.1
# Evaluations that a search for the maximum may take.
EVALUATIONS = 300


@dataclass(frozen=True)
class Peak:
    """A maximum of a log posterior density on the scale without ends, and its covariance there
    (that of the normal distribution with the same curvature)."""

    point: np.ndarray
    log_density: float
    covariance: np.ndarray

    @property
    def log_evidence(self) -> float:
        """Laplace's approximation of the logarithm of the integral around the maximum."""
        k = len(self.point)
        _, log_determinant = np.linalg.slogdet(self.covariance)
        return self.log_density + 0.5 * (k * np.log(2 * np.pi) + log_determinant)


class DensityOnHost:
    """Log posterior densities and gradients at arrays of points, with the program of the fit."""

    def __init__(self, density: Density, expected: int) -> None:
        self.density = density
        self.batched = BatchedObjective(density.objective, expected=expected)

    def __call__(self, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (S,) and gradients (S, k) at points (S, k); -inf and zeros where impossible."""
        points = np.asarray(_points(self.density, jnp.asarray(free)))
        values, slopes = self.batched(np.zeros(len(points), int), points)
        possible = np.isfinite(values) & np.isfinite(slopes).all(axis=1)
        slopes = np.where(possible[:, None], slopes, 0.0)
        prior, gradients = _pulled_back(self.density, jnp.asarray(free), jnp.asarray(slopes))
        values = np.where(possible, values + np.asarray(prior), -np.inf)
        return values, np.where(possible[:, None], np.asarray(gradients), 0.0)


@lean_jit
def _points(density: Density, free: Float[Array, "S k"]) -> Float[Array, "S p"]:
    return jax.vmap(density.to_search_scale)(free)


@lean_jit
def _pulled_back(
    density: Density, free: Float[Array, "S k"], slopes: Float[Array, "S p"]
) -> tuple[Array, Array]:
    """The log prior, and the gradient of the log posterior from that of the log likelihood."""

    def of_point(free: Array, slope: Array) -> tuple[Array, Array]:
        prior, of_prior = jax.value_and_grad(density.log_prior)(free)
        _, pull_back = jax.vjp(density.to_search_scale, free)
        return prior, of_prior + pull_back(slope)[0]

    return jax.vmap(of_point)(free, slopes)


def find_peak(evaluate: DensityOnHost, start: np.ndarray) -> Peak:
    """The maximum that a search from `start` (k,) leads to."""

    def to_minimise(_: np.ndarray, points: np.ndarray) -> Any:
        values, gradients = evaluate(points)
        return -values, -gradients, None

    bounds = np.stack([start - 30.0, start + 30.0], axis=1)
    (found,), interrupted = search_by_gradient(
        to_minimise, start[None], bounds, tolerance=1e-6, max_evaluations=EVALUATIONS
    )
    if interrupted:
        raise KeyboardInterrupt
    information = curvature(evaluate, found.point)
    return Peak(found.point, -found.value, covariance_of(information))


def curvature(
    evaluate: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], point: np.ndarray
) -> np.ndarray:
    """Minus the second derivatives at a point, from differences of gradients."""
    k = len(point)
    steps = np.full(k, FIRST_STEP)
    for _ in range(2):
        around = point + np.concatenate([np.diag(steps), -np.diag(steps)])
        _, gradients = evaluate(around)
        information = -(gradients[:k] - gradients[k:]) / (2 * steps[:, None])
        sds = 1 / np.sqrt(np.maximum(np.diagonal(information), LARGEST_SD**-2))
        steps = np.clip(STEP * sds, FIRST_STEP, 0.3)
    return (information + information.T) / 2


def covariance_of(information: np.ndarray) -> np.ndarray:
    """The inverse, with no SD above the largest that a curvature may suggest."""
    values, vectors = np.linalg.eigh(information)
    return (vectors / np.maximum(values, LARGEST_SD**-2)) @ vectors.T


def normal_draws(peak: Peak, key: Any, n_chains: int, n_draws: int) -> np.ndarray:
    """Draws (chain, draw, k) of the normal distribution around a maximum."""
    standard = np.asarray(jax.random.normal(key, (n_chains, n_draws, len(peak.point))))
    return peak.point + standard @ np.linalg.cholesky(peak.covariance).T


def dispersed(evaluate: DensityOnHost, peaks: Sequence[Peak], key: Any) -> Starts:
    """A start for each chain, drawn around its maximum; closer to it where that is impossible."""
    standard = np.asarray(jax.random.normal(key, (len(peaks), len(peaks[0].point))))
    centres = np.stack([peak.point for peak in peaks])
    offsets = np.stack(
        [np.linalg.cholesky(p.covariance) @ z for p, z in zip(peaks, standard, strict=True)]
    )
    for attempt in range(5):
        values, gradients = evaluate(centres + offsets)
        expected = np.array([peak.log_density for peak in peaks])
        far = ~(values > expected - 10 - 2 * len(peaks[0].point))
        if not far.any():
            break
        offsets[far] /= 2 if attempt < 3 else np.inf
    return Starts(centres + offsets, values, gradients)
