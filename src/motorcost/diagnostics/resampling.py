"""The bootstrap: how much estimates vary from experiment to experiment."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from motorcost import checks
from motorcost.diagnostics.replicates import simulate_like
from motorcost.errors import InputError
from motorcost.fitting.fitted import Fit
from motorcost.fitting.maximum import Progress, evaluator, n_samples
from motorcost.fitting.objective import evaluate
from motorcost.fitting.search import Ask, Evaluate, Found, run_together, search

Kind = Literal["parametric", "trials"]


@dataclass(frozen=True)
class Bootstrap:
    """Estimates from experiments like the fitted one. `points` (experiment, coordinate) are on
    the lines that the search ran on."""

    fit: Fit
    kind: Kind
    points: np.ndarray
    interrupted: bool

    @property
    def estimates(self) -> dict[str, np.ndarray]:
        """By name, each experiment's estimate in natural units."""
        return {
            name: np.asarray(it) for name, it in self.fit.objective.values(self.points.T).items()
        }

    @property
    def standard_errors(self) -> dict[str, float]:
        """By name, the standard deviation of the estimates in natural units."""
        return {name: float(np.std(it, ddof=1)) for name, it in self.estimates.items()}

    def interval(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """By name, the middle `level` of the estimates."""
        if not 0 < level < 1:
            raise InputError(f"level must lie between 0 and 1, got {level!r}")
        ends = np.quantile(self.points, [0.5 - level / 2, 0.5 + level / 2], axis=0).T
        coordinates = self.fit.objective.coordinates
        return {
            c.name: c.support.natural((float(low), float(high)))
            for c, (low, high) in zip(coordinates, ends, strict=True)
        }


def bootstrap(
    fit: Fit,
    *,
    key: Any,
    n: int = 100,
    kind: Kind = "parametric",
    progress: Progress | None = None,
) -> Bootstrap:
    """Fit again to `n` experiments, each from the estimate.

    `parametric` simulates them at the estimate; `trials` draws trials with replacement, which
    does not need the model to be right. Interrupted, it keeps those that are done.
    """
    checks.random_key(key)
    checks.whole("n", n, 2, "experiments to fit")
    checks.one_of("kind", kind, ("parametric", "trials"))
    if fit.interrupted:
        raise InputError("the fit was interrupted: there is no maximum to bootstrap from")
    size = fit.size
    draws, choice = jax.random.split(key)
    points: list[np.ndarray] = []
    interrupted = False
    N = len(fit.objective.trials)
    chosen = np.asarray(jax.random.randint(choice, (n, N), 0, N))
    for first in range(0, n, size):
        count = min(size, n - first)
        if kind == "parametric":
            new = simulate_like(fit, n_replicates=size, key=jax.random.fold_in(draws, first))
            evaluate = _of_data_sets(fit, new)
        else:
            weights = np.stack([np.bincount(row, minlength=N) for row in chosen[first:][:size]])
            weights = np.pad(weights, [(0, size - count), (0, 0)], "edge").astype(float)
            evaluate = evaluator(fit.objective, size, True, fit.priors, weights)
        found, interrupted = run_together([refitting(fit)] * size, evaluate)
        if interrupted:
            break
        points += [each.point for each in found[:count]]
        if progress is not None:
            progress("bootstrap", len(points), n)
    if len(points) < 2:
        raise KeyboardInterrupt
    return Bootstrap(fit, kind, np.stack(points), interrupted)


def refitting(fit: Fit) -> Callable[[Ask], Found]:
    """A search from the estimate of a fit."""
    scale = n_samples(fit.objective.trials)
    return lambda ask: search(ask, fit.point, fit.objective.bounds, "gradient", scale, 200)


def _of_data_sets(fit: Fit, observed: np.ndarray) -> Evaluate:
    counts = jnp.ones(observed.shape[:2])

    def of_data_sets(points: np.ndarray) -> Any:
        asked = np.where(np.isnan(points), fit.point, points)
        return evaluate(
            fit.objective, jnp.asarray(asked), counts, True, fit.priors, jnp.asarray(observed)
        )

    return of_data_sets
