"""Which of several models explains the trials best."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from motorcost import checks
from motorcost.diagnostics.resampling import refit
from motorcost.errors import InputError
from motorcost.fitting.batching import BatchedObjective
from motorcost.fitting.fitted import Fit
from motorcost.fitting.objective import DataSets
from motorcost.fitting.settled import require_fit, require_maximum
from motorcost.markup import html_table

if TYPE_CHECKING:
    from motorcost.plots.style import CaptionedFigure


def cross_validate(fit: Fit, *, key: Any, folds: int = 5) -> np.ndarray:
    """Of each fold, the log likelihood of its trials under a fit to the others.

    Their sum is the cross-validated log likelihood. Trials are dealt to folds at random; all
    folds are fitted together, from the estimate.

    Examples
    --------
    >>> values = mc.cross_validate(fit, key=jax.random.key(0), folds=2)
    >>> values.shape  # one for each fold
    (2,)
    """
    checks.random_key(key)
    N = len(fit.objective.trials)
    checks.whole("folds", folds, 2, "parts of the trials")
    if folds > N:
        raise InputError(f"folds must be at most the number of trials, {N}, got {folds}")
    require_maximum(fit, "cross-validation")
    fold = np.asarray(jax.random.permutation(key, np.arange(N) % folds))
    held_out = (fold == np.arange(folds)[:, None]).astype(float)
    found, interrupted = refit(
        fit.objective, fit.point, DataSets(weights=jnp.asarray(1.0 - held_out)), priors=fit.priors
    )
    if interrupted:
        raise KeyboardInterrupt
    points = np.stack([search.point for search in found])
    test = DataSets(weights=jnp.asarray(held_out))
    # With gradients, which nobody needs: it is the program of the fits, and another one would take
    # longer to compile.
    batched = BatchedObjective(fit.objective, test, expected=folds)
    return batched(np.arange(folds), points)[0]


@dataclass(frozen=True)
class Row:
    """One model in a comparison; `cross_validated` is None if it was not asked for, or if the
    search did not settle.

    `folds` are the log likelihoods of the folds that `cross_validated` is the sum of.
    """

    name: str
    parameters: int
    log_likelihood: float
    aic: float
    bic: float
    cross_validated: float | None
    folds: tuple[float, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """Models of the same trials, the best by AIC first.

    Examples
    --------
    >>> found = mc.compare({"effort": fit})
    >>> [(row.name, row.parameters) for row in found.rows]
    [('effort', 1)]
    """

    rows: tuple[Row, ...]

    @property
    def best(self) -> Row:
        """The one with the smallest AIC."""
        return self.rows[0]

    def plot(self) -> "CaptionedFigure":
        """Draw how far each model is from the best; see `mc.plots.plot_comparison`."""
        from motorcost.plots.comparisons import plot_comparison

        return plot_comparison(self)

    def __str__(self) -> str:
        width = max(len(row.name) for row in self.rows)
        lines = [
            f"{'model':<{width}}  {'parameters':>10}  {'log lik.':>12}  {'AIC - best':>11}  "
            f"{'BIC - best':>11}  {'cross-val.':>12}"
        ]
        least = min(row.bic for row in self.rows)
        for row in self.rows:
            crossed = "" if row.cross_validated is None else f"{row.cross_validated:.6g}"
            lines.append(
                f"{row.name:<{width}}  {row.parameters:>10}  {row.log_likelihood:>12.6g}  "
                f"{row.aic - self.best.aic:>11.4g}  {row.bic - least:>11.4g}  {crossed:>12}"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        least = min(row.bic for row in self.rows)
        header = ("model", "parameters", "log likelihood", "AIC - best", "BIC - best", "cross-val.")
        rows = [
            (
                row.name,
                str(row.parameters),
                f"{row.log_likelihood:.6g}",
                f"{row.aic - self.best.aic:.4g}",
                f"{row.bic - least:.4g}",
                "" if row.cross_validated is None else f"{row.cross_validated:.6g}",
            )
            for row in self.rows
        ]
        return html_table(header, rows)


def compare(fits: Mapping[str, Fit], *, key: Any = None, folds: int = 5) -> Comparison:
    """Compare fits of the same trials by AIC, BIC and (with a `key`) cross-validation.

    Examples
    --------
    >>> found = mc.compare({"effort": fit})
    >>> found.best.name
    'effort'
    """
    checks.instance(
        "fits", fits, Mapping, "a mapping from names to fits", 'as in mc.compare({"one": fit})'
    )
    for name, fit in fits.items():
        require_fit(f"fits[{name!r}]", fit)
    if not fits:
        raise InputError("there are no fits to compare")
    first = next(iter(fits.values())).objective.trials
    for name, fit in fits.items():
        same = np.array_equal(fit.objective.trials.observed, first.observed, equal_nan=True)
        if not same:
            raise InputError(
                f"{name} was fitted to other trials: likelihoods of different data do not compare"
            )
        if _noiseless(fit) != _noiseless(next(iter(fits.values()))):
            raise InputError(
                f"{name} takes other channels for free of noise: densities of a different kind do "
                "not compare"
            )
    rows = []
    for name, fit in fits.items():
        # The same key for all: so their folds are the same, and can be compared one by one.
        settled = fit.converged and not fit.interrupted
        asked = key is not None and settled
        crossed = cross_validate(fit, key=key, folds=folds) if asked else None
        rows.append(
            Row(
                name=name,
                parameters=len(fit.names),
                log_likelihood=fit.log_likelihood,
                aic=fit.aic,
                bic=fit.bic,
                cross_validated=None if crossed is None else float(crossed.sum()),
                folds=() if crossed is None else tuple(crossed.tolist()),
            )
        )
    return Comparison(tuple(sorted(rows, key=lambda row: row.aic)))


def _noiseless(fit: Fit) -> list[bool]:
    """Which channels were recorded without noise, at the estimates."""
    trials = fit.trials
    first = {name: values[0].item() for name, values in trials.conditions.items()}
    _, observer = fit.at(steps=int(trials.lengths[0]), **first)
    return (np.abs(np.asarray(observer.U)).max(axis=(0, 2), initial=0.0) == 0).tolist()
