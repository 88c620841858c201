"""The bootstrap: how much estimates vary from experiment to experiment."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from motorcost import checks
from motorcost.diagnostics.replicates import replicated_samples
from motorcost.errors import ConvergenceError, InputError
from motorcost.fitting.batching import BatchedObjective
from motorcost.fitting.engine import default_evaluations, search_all
from motorcost.fitting.fitted import Fit
from motorcost.fitting.objective import DataSets, Objective
from motorcost.fitting.optimise import Found
from motorcost.fitting.progress import Progress, silent
from motorcost.fitting.settled import require_maximum

if TYPE_CHECKING:
    from motorcost.plots.style import CaptionedFigure

Kind = Literal["parametric", "trials"]


@dataclass(frozen=True)
class Bootstrap:
    """Estimates from experiments like the fitted one. Made by `bootstrap`.

    `points` (experiment, coordinate) are on the search scale; `estimates`, `standard_errors` and
    `interval(level)` are in natural units, by name. `unsettled` is how many further experiments
    have no estimate, because their search did not settle.

    Examples
    --------
    >>> again = mc.bootstrap(fit, key=jax.random.key(0), n=4)
    >>> sorted(again.standard_errors)
    ['effort']
    """

    fit: Fit
    kind: Kind
    points: np.ndarray
    interrupted: bool
    unsettled: int = 0

    @property
    def estimates(self) -> dict[str, np.ndarray]:
        """By name, each experiment's estimate in natural units."""
        return {
            name: np.asarray(value)
            for name, value in self.fit.objective.values(self.points.T).items()
        }

    @property
    def standard_errors(self) -> dict[str, float]:
        """By name, the standard deviation of the estimates in natural units."""
        return {name: float(np.std(value, ddof=1)) for name, value in self.estimates.items()}

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

    def plot(self, level: float = 0.95) -> "CaptionedFigure":
        """Draw the estimates of all experiments; see `mc.plots.plot_bootstrap`."""
        from motorcost.plots.fits import plot_bootstrap

        return plot_bootstrap(self, level)


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

    Examples
    --------
    >>> again = mc.bootstrap(fit, key=jax.random.key(0), n=4)
    >>> again.estimates["effort"].shape
    (4,)
    """
    checks.random_key(key)
    checks.whole("n", n, 2, "experiments to fit")
    checks.one_of("kind", kind, ("parametric", "trials"))
    require_maximum(fit, "bootstrap")
    draws, choice = jax.random.split(key)
    if kind == "parametric":
        data = DataSets(observed=jnp.asarray(replicated_samples(fit, n_replicates=n, key=draws)))
    else:
        N = len(fit.trials)
        chosen = np.asarray(jax.random.randint(choice, (n, N), 0, N))
        counts = np.stack([np.bincount(row, minlength=N) for row in chosen])
        data = DataSets(weights=jnp.asarray(counts, float))
    report = silent if progress is None else progress
    found, interrupted = refit(
        fit.objective,
        fit.point,
        data,
        priors=fit.priors,
        tick=lambda done: report("bootstrap", done, n),
    )
    # Where a search was interrupted, or did not settle, is no estimate.
    points = [search.point for search in found if search.converged]
    if len(points) < 2 and interrupted:
        raise KeyboardInterrupt
    if len(points) < 2:
        raise ConvergenceError(
            f"{len(points)} of {n} searches of the bootstrap settled: there are no estimates to "
            "compare"
        )
    unsettled = 0 if interrupted else n - len(points)
    return Bootstrap(fit, kind, np.stack(points), interrupted, unsettled)


def refit(
    objective: Objective,
    point: np.ndarray,
    data: DataSets,
    *,
    priors: bool = False,
    tick: Callable[[int], None] = lambda done: None,
) -> tuple[list[Found], bool]:
    """Searches from a point, an estimate or the truth, in each of the data sets, and whether the
    user interrupted."""
    batched = BatchedObjective(objective, data, expected=data.count, priors=priors)
    return search_all(
        batched.with_curvatures,
        np.tile(point, (data.count, 1)),
        objective.bounds,
        scale=objective.n_samples,
        max_evaluations=default_evaluations("gradient", len(objective.names)),
        tick=tick,
    )
