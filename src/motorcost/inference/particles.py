"""The exact log likelihood of recorded movements, by particle filters."""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.inference.averages import averaged
from motorcost.inference.grouping import ProblemOrTask, as_trials
from motorcost.inference.particle_groups import estimates_under
from motorcost.model.observer import ObserverLike
from motorcost.model.policy import Policy

if TYPE_CHECKING:
    from motorcost.plots.style import CaptionedFigure


class ExactLogLikelihood(eqx.Module):
    """The exact log likelihood of trials, with its Monte Carlo error.

    - `value`: the sum over trials, or one value per trial.
    - `error`: the standard error of `value` from Monte Carlo, 0 if nothing had to be drawn; NaN if
      there was only one filter per trial, so that it is not known.
    - `moment_matched`: what `log_likelihood` returns for the same trials.
    - `estimates`: the log of the likelihood of each trial that each filter estimates. The
      likelihoods themselves, `exp(estimates)`, are unbiased.

    Examples
    --------
    >>> exact = mc.exact_log_likelihood(
    ...     problem, positions, observer=camera, particles=50, key=jax.random.key(0)
    ... )
    >>> exact.estimates.shape  # of each filter
    (8, 4)
    """

    value: Float[Array, "*trials"]
    error: Float[Array, "*trials"]
    moment_matched: Float[Array, "*trials"]
    estimates: Float[Array, "N filters"]

    @property
    def gap(self) -> Float[Array, "*trials"]:
        """The exact log likelihood minus that of moment matching; its Monte Carlo error is
        `error`."""
        return self.value - self.moment_matched

    def plot(self) -> "CaptionedFigure":
        """Draw the gap to moment matching, and how the filters differ; see
        `mc.plots.plot_exact_log_likelihood`."""
        from motorcost.plots.approximation import plot_exact_log_likelihood

        return plot_exact_log_likelihood(self)

    def __repr__(self) -> str:
        if self.value.ndim:
            return f"ExactLogLikelihood of {len(self.value)} trials"
        return f"ExactLogLikelihood: {float(self.value):.6g} ± {float(self.error):.2g}"


def exact_log_likelihood(
    problem: ProblemOrTask,
    observed: Any,
    *,
    key: Any,
    particles: int = 1000,
    filters: int = 4,
    policy: Policy | None = None,
    observer: ObserverLike = None,
    per_trial: bool = False,
) -> ExactLogLikelihood:
    """The log likelihood of recorded trials without the approximation that `log_likelihood` makes
    of noise which grows with signals.

    - `problem`, `observed`, `policy`, `observer`, `per_trial`: as in `log_likelihood`.
    - `key`: a random key. The same key gives the same result.
    - `particles`: of each filter. The variance of the result falls at least as one over their
      number.
    - `filters`: for each trial, how many filters estimate its likelihood independently. Their
      differences tell the Monte Carlo error.

    Likelihoods are averaged over filters. The logarithm of an average is too low by about half of
    its variance, which is estimated from the filters (by the jackknife) and added.

    Examples
    --------
    >>> exact = mc.exact_log_likelihood(
    ...     problem, positions, observer=camera, particles=50, key=jax.random.key(0)
    ... )
    >>> bool(abs(exact.gap) < 1)  # the Gaussian approximation is close
    True
    """
    trials = as_trials(problem, observed)
    estimates, matched, drawn = estimates_under(
        [problem],
        trials,
        key=key,
        particles=particles,
        filters=filters,
        policy=policy,
        observer=observer,
    )
    value, error = averaged(estimates[0])
    if not drawn:
        error = np.zeros_like(value)
    parts = [value, error, matched[0]]
    if not per_trial:
        parts = [value.sum(), np.sqrt((error**2).sum()), matched[0].sum()]
    return ExactLogLikelihood(*(checks.jax_array(np.asarray(x)) for x in (*parts, estimates[0])))
