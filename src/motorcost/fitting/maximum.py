"""Where searches begin, how a maximum is finished, and what its curvature says."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from motorcost.errors import ConvergenceError
from motorcost.fitting.objective import Objective, evaluate
from motorcost.fitting.search import Evaluate
from motorcost.inference.likelihood import log_likelihood
from motorcost.model.trials import Trials
from motorcost.numerics.linalg import batch_size
from motorcost.tasks.supports import Support

# Points drawn for each start that is kept: the best of them are where searches begin.
DRAWN_PER_START = 4
# Called with what is being done, how much of it is done, and how much there is (None: unknown).
Progress = Callable[[str, int, int | None], None]


def evaluator(
    objective: Objective, size: int, gradient: bool, priors: bool, weights: np.ndarray | None = None
) -> Evaluate:
    """The model at any number of points, so many at a time that only one size is compiled, and on
    all cores.

    `size` is how many points will mostly be asked for. `weights` (points, trials) counts the
    trials of each point otherwise than once. The answer for a point of NaN, which nobody asked
    for, means nothing.
    """
    cores = cores_to_use()
    # Problems that are solved side by side wait for the slowest, so with many problems at each
    # point there is nothing to win by taking several points.
    few = max(1, batch_size(objective.states) // objective.problems)
    size = min(-(-size // cores), few)

    def part(points: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = evaluate(objective, jnp.asarray(points), jnp.asarray(counts), gradient, priors)
        return np.asarray(found[0]), np.asarray(found[1])

    def together(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, gradients = np.full(len(points), np.nan), np.full(points.shape, np.nan)
        asked = np.flatnonzero(~np.isnan(points).any(axis=1))
        counts = np.ones((len(points), len(objective.trials))) if weights is None else weights
        rows = [asked[i : i + size] for i in range(0, len(asked), size)]

        def filled(which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            # What fills up has no trials that count, and costs next to nothing.
            more = np.resize(which, size)
            idle = np.arange(size) >= len(which)
            return part(points[more], np.where(idle[:, None], 0.0, counts[more]))

        with ThreadPoolExecutor(cores) as pool:
            for which, found in zip(rows, pool.map(filled, rows), strict=True):
                values[which], gradients[which] = (each[: len(which)] for each in found)
        return values, gradients

    return together


def cores_to_use() -> int:
    """How many programs to run at once: one on an accelerator, which is full with one."""
    if jax.default_backend() != "cpu":
        return 1
    if hasattr(os, "sched_getaffinity"):  # what this process may use, where the system tells
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def ticking(what: str, progress: Progress | None) -> Callable[[], None]:
    """A function to call after each step of work whose length is not known."""
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(what, done, None)

    return tick


def n_samples(trials: Trials) -> float:
    """How many samples were recorded."""
    return float(np.isfinite(np.asarray(trials.observed)).sum())


def begin(
    objective: Objective,
    key: Any,
    n_starts: int,
    given: list[np.ndarray],
    evaluate: Evaluate,
) -> list[np.ndarray]:
    """The given points, and the best of those drawn."""
    drawn = np.zeros((0, len(objective.names)))
    if n_starts:
        keys = jax.random.split(key, len(objective.names))
        shape = (n_starts * DRAWN_PER_START,)
        columns = zip(objective.coordinates, keys, strict=True)
        drawn = np.stack([np.asarray(c.support.draw(k, shape)) for c, k in columns], axis=1)
    points = np.concatenate([np.reshape(given, (-1, len(objective.names))), drawn])
    values, gradients = evaluate(points)
    possible = np.isfinite(values) & np.isfinite(gradients).all(axis=1)
    if not possible.any():
        _explain(objective, points)
    order = len(given) + np.argsort(-np.where(possible, values, -np.inf)[len(given) :])
    kept = [i for i in [*range(len(given)), *order[:n_starts].tolist()] if possible[i]]
    return [points[i] for i in kept]


def _explain(objective: Objective, points: np.ndarray) -> None:
    """Raise what is wrong where nothing is possible: most often a sample that contradicts."""
    log_likelihood(objective.at(points[0]), objective.trials)
    raise ConvergenceError(
        f"none of {len(points)} points drawn from the supports has a finite likelihood: "
        "narrow the supports, or check units, targets and recording noise"
    )


def polished(
    objective: Objective, evaluate: Evaluate, point: np.ndarray, value: float
) -> tuple[np.ndarray, float, np.ndarray, bool]:
    """Newton's last steps, the observed information there, and whether this is a maximum: within
    a thousandth of a unit of log likelihood, by the information, inside the bounds."""
    bounds = objective.bounds
    for _ in range(6):
        gradient, information = observed_information(objective, evaluate, point)
        if not (np.isfinite(gradient).all() and np.isfinite(information).all()):
            return point, value, np.full_like(information, np.nan), False
        at_low, at_high = point <= bounds[:, 0], point >= bounds[:, 1]
        inside = ~((at_low & (gradient < 0)) | (at_high & (gradient > 0)))
        step = np.zeros_like(point)
        among = np.ix_(inside, inside)
        roots, axes = np.linalg.eigh(information[among])
        if inside.any():
            curved = np.where(roots > 1e-12 * max(roots.max(), 1e-300), roots, np.inf)
            step[inside] = axes @ ((axes.T @ gradient[inside]) / curved)
        gain = float(gradient[inside] @ step[inside]) / 2
        if gain < 1e-7:
            break
        moved = np.clip(point + step, *bounds.T)
        its_value = float(evaluate(moved[None])[0][0])
        if not its_value > value:
            break
        point, value = moved, its_value
    peak = not inside.any() or bool((roots > -1e-6 * np.abs(roots).max()).all())
    return point, value, information, peak and gain < 1e-3


def observed_information(
    objective: Objective, evaluate: Evaluate, point: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The gradient at a point, and minus the second derivatives, by differences of gradients."""
    tried, apart = neighbours(objective.supports, point[None])
    _, gradients = evaluate(tried[0])
    return gradients[0], information_of(gradients[None], apart)[0]


def neighbours(supports: Sequence[Support], points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each of `points` (S, p) with those a small step above and below it in each coordinate, or
    inwards from a bound: (S, 1 + 2p, p); and how far apart these are, (S, p)."""
    bounds = np.array([support.bounds for support in supports])
    h = np.array([support.step for support in supports])
    above = np.minimum(points + h, bounds[:, 1])
    below = np.maximum(points - h, bounds[:, 0])
    tried = np.repeat(points[:, None], 1 + 2 * len(supports), axis=1)
    for k in range(len(supports)):
        tried[:, 1 + 2 * k, k], tried[:, 2 + 2 * k, k] = above[:, k], below[:, k]
    return tried, above - below


def information_of(gradients: np.ndarray, apart: np.ndarray) -> np.ndarray:
    """Minus the second derivatives (S, p, p), from gradients at `neighbours`."""
    differences = gradients[:, 1::2] - gradients[:, 2::2]
    information = -differences / apart[:, :, None]
    return (information + np.swapaxes(information, 1, 2)) / 2


def covariance_of(supports: Sequence[Support], information: np.ndarray) -> np.ndarray:
    """The inverse of the information, infinite where there is none: along directions in which
    even the whole support is within a standard error, and for parameters that take part."""
    if not np.isfinite(information).all():
        return np.full_like(information, np.nan)
    width = np.array([support.width for support in supports])
    roots, axes = np.linalg.eigh(information * np.outer(width, width))
    flat = roots < 1.0
    axes = axes * width[:, None]
    cov = (axes[:, ~flat] / roots[~flat]) @ axes[:, ~flat].T
    open_ = ((axes[:, flat] / width[:, None]) ** 2 > 1e-4).any(axis=1)
    cov[open_, :] = cov[:, open_] = np.nan
    cov[open_, open_] = np.inf
    return cov
