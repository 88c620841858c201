"""Whether the approximation of the likelihood matters for the estimates of a fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from motorcost import checks
from motorcost.diagnostics.gaps import (
    Evaluated,
    GapProfile,
    evaluate_at,
    gap_profiles,
    profile_points,
)
from motorcost.errors import InputError
from motorcost.fitting.fitted import Fit
from motorcost.fitting.information import covariance_of
from motorcost.fitting.progress import Progress, silent
from motorcost.fitting.settled import require_maximum
from motorcost.markup import aligned

if TYPE_CHECKING:
    from motorcost.plots.style import CaptionedFigure

# A bias up to this many standard errors is small: a 95 % interval then holds the truth in 94 % of
# experiments.
SMALL_BIAS = 0.25
# More than this, and the bias is only roughly what the slope of the gap says.
LARGE_BIAS = 1.5
# The Monte Carlo error of the bias, in standard errors, at which to stop.
SMALL_ERROR = 0.08


@dataclass(frozen=True)
class Approximation:
    """How far moment matching is from the exact likelihood, and what that does to estimates.

    Made by `check_approximation`; `print(found.summary())` says what it means, and `found.plot()`
    draws it.

    - `gap`, `gap_error`: the exact log likelihood of all trials at the estimates minus that of
      moment matching, and its Monte Carlo error. A gap that is the same for all parameters does
      no harm.
    - `biases`, `bias_errors`: by name, the estimate minus what the exact likelihood would give, in
      standard errors of the estimate, with the Monte Carlo error. NaN for parameters at an end of
      their support or that the data leave open.
    - `corrected`: by name, about what the exact likelihood would give, in natural units.
    - `profiles`: the gap along the profile of each parameter that was checked.
    - `n_trials`, `particles`: the trials, and the particles of all filters of a trial together.
    - `interrupted`: whether the user stopped it before the errors were small.

    Examples
    --------
    >>> found = mc.check_approximation(fit, key=jax.random.key(0), particles=50, most_particles=50)
    >>> sorted(found.biases)
    ['effort']
    """

    gap: float
    gap_error: float
    biases: dict[str, float]
    bias_errors: dict[str, float]
    corrected: dict[str, float]
    profiles: tuple[GapProfile, ...]
    n_trials: int
    particles: int
    interrupted: bool = False

    @property
    def trustworthy(self) -> bool:
        """Whether no bias is larger than a quarter of a standard error, Monte Carlo error or no."""
        checked = [n for n, bias in self.biases.items() if np.isfinite(bias)]
        worst = [abs(self.biases[n]) + 2 * self.bias_errors[n] for n in checked]
        return bool(worst) and all(value <= SMALL_BIAS for value in worst)

    @property
    def verdicts(self) -> list[str]:
        """What the numbers mean and what to do, in sentences."""
        sentences = [
            "" if np.isfinite(bias) else self._unchecked(name) for name, bias in self.biases.items()
        ]
        sentences = [sentence for sentence in sentences if sentence]
        if self.trustworthy:
            worst = max(
                abs(bias) + 2 * self.bias_errors[name]
                for name, bias in self.biases.items()
                if np.isfinite(bias)
            )
            return [
                "Moment matching can be trusted here: the exact likelihood would move the "
                f"estimates by less than {worst:.1g} standard errors.",
                *sentences,
            ]
        found = [self._verdict(name) for name, bias in self.biases.items() if np.isfinite(bias)]
        sentences = [sentence for sentence in found if sentence] + sentences
        if any(self._is_biased(name) for name in self.biases):
            sentences.append(
                "What to do: report the corrected estimates beside these, or fit with "
                "recording noise or fewer parameters free; to see what it does to intervals, fit "
                "trials that are simulated at the estimates (mc.simulate_like)."
            )
        if any(error > SMALL_ERROR for error in self.bias_errors.values()):
            sentences.append(
                "What is not known well takes more particles: check_approximation(fit, "
                f"most_particles={4 * self.particles}, ...)."
            )
        return sentences

    def _is_biased(self, name: str) -> bool:
        bias, error = self.biases[name], self.bias_errors[name]
        return bool(abs(bias) > 2 * error and abs(bias) > SMALL_BIAS)

    def _verdict(self, name: str) -> str:
        bias, error = self.biases[name], self.bias_errors[name]
        if self._is_biased(name):
            about = "about " if abs(bias) > LARGE_BIAS else ""
            return (
                f"The estimate of {name} is {about}{abs(bias):.2g} ± {error:.1g} standard errors "
                f"too {'high' if bias > 0 else 'low'} because of the approximation: without it, "
                f"{name} would be about {self.corrected[name]:.4g}."
            )
        if abs(bias) + 2 * error > SMALL_BIAS:
            return (
                f"The bias of {name} is {bias:+.2g} ± {error:.1g} standard errors: small, as far "
                "as this can tell."
            )
        return ""

    def _unchecked(self, name: str) -> str:
        return (
            f"{name} was not checked: it is at an end of its support, the data leave it open, or "
            "the model is impossible beside the estimate."
        )

    def plot(self) -> CaptionedFigure:
        """Draw the gap along each parameter, and the biases; see `mc.plots.plot_approximation`."""
        from motorcost.plots.approximation import plot_approximation

        return plot_approximation(self)

    def summary(self) -> str:
        """Return what was found, as text: a table of biases, and what to do."""
        header = ["parameter", "bias (standard errors)", "corrected estimate"]
        rows = [
            [name, _with_error(bias, self.bias_errors[name]), _number(self.corrected[name])]
            for name, bias in self.biases.items()
        ]
        about = (
            f"Exact minus approximate log likelihood at the estimates: "
            f"{_with_error(self.gap, self.gap_error)} in {self.n_trials} trials "
            f"({self.particles} particles per trial)."
        )
        stopped = ["Stopped before the Monte Carlo errors were small."] if self.interrupted else []
        return "\n".join([*aligned(header, rows), "", about, *self.verdicts, *stopped])

    def __str__(self) -> str:
        return self.summary()


def _with_error(value: float, error: float) -> str:
    if not np.isfinite(value):
        return "?"
    return f"{value:+.3f} ± {error:.3f}"


def _number(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "?"


def check_approximation(
    fit: Fit,
    *,
    key: Any,
    particles: int = 250,
    filters: int = 8,
    most_particles: int = 32_000,
    progress: Progress | None = None,
) -> Approximation:
    """Compare moment matching with the exact likelihood, at the estimates and along each parameter.

    With noise that grows with signals, `mc.fit` maximises an approximate likelihood. This measures
    by how much the estimates are biased by that, and says what to do.

    Parameters
    ----------
    fit : Fit
        The fit, at a maximum.
    key : JAX random key
        Of the particle filters.
    particles, filters : int
        Particles of a filter, and filters for each trial, in each round. Rounds go on until the
        Monte Carlo errors of all biases are below 0.08 standard errors.
    most_particles : int
        The rounds end once a trial has had this many particles at each point.
    progress : callable, optional
        Called with what is being done, how much of it is done, and how much there is.

    Returns
    -------
    Approximation
        If the user interrupts after the first round, what is known until then.

    Examples
    --------
    >>> found = mc.check_approximation(
    ...     fit, key=jax.random.key(0), particles=50, most_particles=50
    ... )
    >>> sorted(found.biases)
    ['effort']
    """
    checks.random_key(key)
    checks.whole("particles", particles, 1, "particles of each filter")
    checks.whole("filters", filters, 2, "filters for each trial: their differences tell the error")
    cov, checked = _checked(fit)
    names = [fit.names[k] for k in checked]
    points, offsets = profile_points(fit.point, cov, checked, fit.objective.bounds)
    rounds = max(1, most_particles // (particles * filters))
    tell = silent if progress is None else progress
    evaluated: Evaluated | None = None
    found: Approximation | None = None
    for number in range(rounds):
        tell("exact likelihood", number, rounds)
        try:
            of_round = evaluate_at(
                fit.objective.at,
                points,
                fit.trials,
                key=jax.random.fold_in(key, number),
                particles=particles,
                filters=filters,
            )
        except KeyboardInterrupt:
            if found is None:
                raise
            return replace(found, interrupted=True)
        evaluated = of_round if evaluated is None else evaluated.joined(of_round)
        profiles = gap_profiles(evaluated, names, offsets)
        found = _approximation(fit, evaluated, profiles, cov, particles)
        if not any(error > SMALL_ERROR for error in found.bias_errors.values()):
            break
    assert found is not None  # there is at least one round
    return found


def _checked(fit: Fit) -> tuple[np.ndarray, list[int]]:
    """The covariance by the information alone, with which the maximum moves, and the parameters
    that have one; zero elsewhere."""
    require_maximum(fit, "approximation to check")
    inside = np.flatnonzero(~np.isin(fit.names, fit.at_bounds))
    p = len(fit.names)
    cov = np.zeros((p, p))
    among = np.ix_(inside, inside)
    supports = [fit.objective.supports[int(k)] for k in inside]
    cov[among] = covariance_of(supports, fit.information[among]) if inside.size else 0.0
    errors = np.array(list(fit.search_scale_errors.values()))
    known = np.isfinite(np.diagonal(cov)) & np.isfinite(errors) & (errors > 0)
    checked = np.flatnonzero(known & (np.diagonal(cov) > 0)).tolist()
    if not checked:
        raise InputError(
            "no estimate has a standard error: all are at an end of their support, or the data "
            "leave them open"
        )
    return np.where(np.isfinite(cov), cov, 0.0), checked


def _approximation(
    fit: Fit,
    evaluated: Evaluated,
    profiles: list[GapProfile],
    cov: np.ndarray,
    particles: int,
) -> Approximation:
    """The result, from the gap at all points."""
    at_estimate = np.zeros(len(evaluated.matched))
    at_estimate[0] = 1.0
    gap, gap_error = evaluated.combination(at_estimate)
    nothing = dict.fromkeys(fit.names, np.nan)
    biases, errors, corrected = dict(nothing), dict(nothing), dict(nothing)
    for profile in profiles:
        k = fit.names.index(profile.name)
        moved, error = np.sqrt(cov[k, k]), fit.search_scale_errors[profile.name]
        biases[profile.name] = -profile.slope * moved / error
        errors[profile.name] = profile.slope_error * moved / error
        support = fit.objective.supports[k]
        value = support.from_search_scale(fit.point[k] + profile.slope * moved)
        corrected[profile.name] = float(np.clip(value, support.low, support.high))
    return Approximation(
        gap=gap,
        gap_error=gap_error,
        biases=biases,
        bias_errors=errors,
        corrected=corrected,
        profiles=tuple(profiles),
        n_trials=len(fit.trials),
        particles=particles * evaluated.estimates.shape[-1],
    )
