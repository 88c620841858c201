"""The objective at any number of points, in batches of one compiled size, on all cores."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np

from motorcost.fitting.objective import DataSets, Evaluated, Objective, evaluate
from motorcost.fitting.visited import Visited
from motorcost.numerics.compiling import forget_programs_if_full
from motorcost.numerics.linalg import batch_size

# Numbers (of trials, times and states) whose likelihoods even an accelerator computes at once: some
# 10 GB go through its memory.
MOST_STATES = 100_000_000
# Batches of at least this many points, which only accelerators have, come in smaller sizes too.
SMALLEST_LARGE_BATCH = 512
# How many times smaller the next size is.
SMALLER = 8


class BatchedObjective:
    """The log likelihoods (with `priors`: log posteriors) of data sets at points.

    - `data`: what differs between the data sets; left out, there is one, of the objective's trials.
    - `expected`: how many points will mostly be asked for at once, which decides the batch.
    - `gradient`: whether gradients are computed too; otherwise they are zero.
    """

    def __init__(
        self,
        objective: Objective,
        data: DataSets | None = None,
        *,
        expected: int,
        gradient: bool = True,
        priors: bool = False,
    ) -> None:
        forget_programs_if_full()
        self.objective = objective
        self.data = DataSets() if data is None else data
        self._gradient, self._priors, self._rough = gradient, priors, False
        self._visited: Visited | None = None
        self._has_curvatures = gradient and objective.has_curvatures
        self._cores = cores_to_use()
        # Problems that are solved side by side wait for the slowest, so with many problems at each
        # point there is nothing to gain from several points in a batch.
        n = objective.n_states(self.data)
        few = max(1, batch_size(n) // objective.n_problems)
        N, T, _ = objective.trials.observed.shape
        fit_in_memory = max(1, MOST_STATES // (N * T * n))
        size = min(-(-expected // self._cores), few, fit_in_memory)
        # While the last searches end, most of a large batch would only be filled up: smaller sizes
        # are compiled when they are needed. On a CPU batches are small and compiling is dear.
        self._sizes = [size]
        self._compiled: set[int] = set()
        while self._sizes[-1] >= SMALLEST_LARGE_BATCH:
            self._sizes.append(self._sizes[-1] // SMALLER)

    def values_only(self) -> BatchedObjective:
        """The same without gradients."""
        other = copy.copy(self)
        other._gradient, other._has_curvatures, other._compiled = False, False, set()
        return other

    def roughly(self) -> BatchedObjective:
        """The same in less time, with policies that are looked for less carefully (see `evaluate`).
        It is the same program."""
        other = copy.copy(self)
        other._rough = True
        return other

    def noting(self, visited: Visited) -> BatchedObjective:
        """The same, which takes note of the points that it is asked for."""
        other = copy.copy(self)
        other._visited = visited
        return other

    def __call__(self, which: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The value of data set `which[i]` at `points[i]` (S, p), and its gradient.

        Points with a NaN are not computed; their values and gradients are NaN.
        """
        return self.with_curvatures(which, points)[:2]

    def with_curvatures(
        self, which: np.ndarray, points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """The same, and about minus the second derivatives (S, p, p), if the objective has them."""
        S, p = points.shape
        values, gradients = np.full(S, np.nan), np.full((S, p), np.nan)
        curvatures = np.full((S, p, p), np.nan)
        for rows, found in self._batches(which, points):
            values[rows] = np.asarray(found.values)[: len(rows)]
            gradients[rows] = np.asarray(found.gradients)[: len(rows)]
            if found.curvatures is not None:
                curvatures[rows] = np.asarray(found.curvatures)[: len(rows)]
        if self._visited is not None:
            self._visited.note(which, points, values)
        return values, gradients, curvatures if self._has_curvatures else None

    def per_trial(self, which: np.ndarray, points: np.ndarray) -> np.ndarray:
        """The log likelihood of each trial of data set `which[i]` at `points[i]`: (S, N)."""
        result = np.full((len(points), len(self.objective.trials)), np.nan)
        for rows, found in self._batches(which, points):
            result[rows] = np.asarray(found.per_trial)[: len(rows)]
        return result

    def _batches(
        self, which: np.ndarray, points: np.ndarray
    ) -> Iterator[tuple[np.ndarray, Evaluated]]:
        """What `evaluate` returns for each batch of points without a NaN, after their numbers; the
        last batch is filled up."""
        asked = np.flatnonzero(~np.isnan(points).any(axis=1))
        size = min(s for s in self._sizes if s >= min(len(asked), self._sizes[0]))
        batches = [asked[i : i + size] for i in range(0, len(asked), size)]

        def computed(rows: np.ndarray) -> Evaluated:
            filled = np.resize(rows, size)
            counted = (np.arange(size) < len(rows)).astype(float)
            return jax.block_until_ready(
                evaluate(
                    self.objective,
                    self.data,
                    jnp.asarray(which[filled]),
                    jnp.asarray(points[filled]),
                    jnp.asarray(counted),
                    jnp.asarray(self._rough),
                    gradient=self._gradient,
                    priors=self._priors,
                )
            )

        if batches and size not in self._compiled:
            # Alone, or each core would compile the program for itself.
            yield batches[0], computed(batches[0])
            self._compiled.add(size)
            batches = batches[1:]
        with ThreadPoolExecutor(self._cores) as pool:
            yield from zip(batches, pool.map(computed, batches), strict=True)


def log_likelihoods_along(
    objective: Objective, points: np.ndarray, *, priors: bool = False
) -> np.ndarray:
    """The log likelihood of the objective's own trials at each of `points` (S, p)."""
    batched = BatchedObjective(objective, expected=len(points), gradient=False, priors=priors)
    return batched(np.zeros(len(points), int), points)[0]


def cores_to_use() -> int:
    """How many programs to run at once: one on an accelerator, which is full with one."""
    if jax.default_backend() != "cpu":
        return 1
    if hasattr(os, "sched_getaffinity"):  # what this process may use, where the system tells
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
