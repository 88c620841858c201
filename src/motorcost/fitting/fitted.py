"""Maximum likelihood from several starts, with error bars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.errors import InputError
from motorcost.fitting.batching import BatchedObjective
from motorcost.fitting.derivative_free import Method
from motorcost.fitting.engine import AGREEMENT
from motorcost.fitting.information import Direction, covariance_of, directions
from motorcost.fitting.objective import Objective, scores
from motorcost.fitting.optimise import Found
from motorcost.fitting.profiles import Profile, profiles
from motorcost.fitting.progress import Progress
from motorcost.inference.beliefs import Beliefs, track_beliefs
from motorcost.model.observer import Observer
from motorcost.model.problem import Problem
from motorcost.model.trials import Trials


@dataclass(frozen=True)
class Fit:
    """The costs, noises and beliefs that explain trials best. Made by `fit`.

    - `estimates`: by name, in natural units; `standard_errors` likewise, and
      `log_standard_errors` of their natural logarithms (0.05: about 5 %).
    - `interval(level)`: by name, (low, high).
    - `log_likelihood`, `aic`, `bic`; `starts`: where each search came to.
    - `correlation`: of the estimates, in the order of `names`.
    - `at`: the fitted task with its observer, as a function of steps and conditions; what
      `log_likelihood`, `track_beliefs` and others take.
    - `print(fit.summary())` says it all.
    """

    objective: Objective
    method: Method
    priors: bool
    point: np.ndarray
    log_likelihood: float
    information: np.ndarray
    starts: tuple[Found, ...]
    converged: bool
    interrupted: bool
    size: int  # points that are evaluated at once

    @property
    def names(self) -> tuple[str, ...]:
        """What was inferred."""
        return self.objective.names

    @property
    def estimates(self) -> dict[str, float]:
        """By name, in natural units."""
        return {name: float(value) for name, value in self.objective.values(self.point).items()}

    @property
    def at(self) -> Callable[..., tuple[Problem, Observer]]:
        """The fitted task with its observer, as a function of steps and conditions."""
        return self.objective.at(self.point)

    @property
    def trials(self) -> Trials:
        """The trials as they were fitted: with the conditions that `at` takes."""
        return self.objective.trials

    def beliefs(self, smooth: bool = False) -> Beliefs:
        """What the agent believed in each trial, at the estimates; see `track_beliefs`."""
        return _beliefs(self.objective, jnp.asarray(self.point), smooth)

    @property
    def covariance(self) -> np.ndarray:
        """Of the estimates on their lines, from the observed information: infinite for what the
        data leave open, NaN if the search was interrupted."""
        return covariance_of(self.objective.supports, self.information)

    @property
    def search_scale_errors(self) -> dict[str, float]:
        """Standard errors on the line that each parameter was searched on."""
        return dict(zip(self.names, np.sqrt(np.diagonal(self.covariance)), strict=True))

    @property
    def standard_errors(self) -> dict[str, float]:
        """By name, in natural units."""
        errors, estimates = self.search_scale_errors, self.estimates
        scales = {c.name: estimates[c.name] for c in self._logarithmic}
        return {name: float(error * scales.get(name, 1.0)) for name, error in errors.items()}

    @property
    def log_standard_errors(self) -> dict[str, float]:
        """By name, of the natural logarithm (of what is positive by its support)."""
        errors, estimates = self.search_scale_errors, self.estimates
        known = {c.name for c in self._logarithmic}
        positive = {c.name for c in self.objective.coordinates if c.support.low > 0}
        return {
            name: float(error if name in known else error / estimates[name])
            for name, error in errors.items()
            if name in known | positive
        }

    def robust_errors(self) -> dict[str, float]:
        """Standard errors on the line, by name, that hold if the model is not quite right: from
        how much the trials' own scores vary (the sandwich formula)."""
        if self.interrupted:
            raise InputError("the fit was interrupted before its maximum: there are no errors yet")
        each = np.asarray(scores(self.objective, jnp.asarray(self.point))[1])
        cov = self.covariance
        known = np.where(np.isfinite(cov), cov, 0.0)
        spread = np.diagonal(known @ (each.T @ each) @ known)
        errors = np.where(np.isfinite(np.diagonal(cov)), np.sqrt(spread), np.inf)
        return dict(zip(self.names, errors.tolist(), strict=True))

    @property
    def _logarithmic(self) -> list[Any]:
        return [c for c in self.objective.coordinates if c.support.logarithmic]

    @property
    def correlation(self) -> np.ndarray:
        """Of the estimates on their lines, NaN for what the data leave open."""
        cov = self.covariance
        sd = np.sqrt(np.diagonal(cov))
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(cov), cov / np.outer(sd, sd), np.nan)

    @property
    def at_bounds(self) -> tuple[str, ...]:
        """Parameters that ended at the edge of their support."""
        gap = np.abs(self.objective.bounds - self.point[:, None]).min(axis=1)
        return tuple(name for name, near in zip(self.names, gap < 1e-6, strict=True) if near)

    @property
    def agreed(self) -> int:
        """How many of the starts found this maximum."""
        best = max(start.value for start in self.starts)
        return sum(best - start.value < AGREEMENT for start in self.starts)

    @property
    def aic(self) -> float:
        """Akaike's criterion: smaller is better."""
        return 2.0 * len(self.names) - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        """The Bayesian information criterion, over trials: smaller is better."""
        return float(
            len(self.names) * np.log(len(self.objective.trials)) - 2.0 * self.log_likelihood
        )

    def interval(
        self, level: float = 0.95, method: Literal["wald", "profile"] = "wald"
    ) -> dict[str, tuple[float, float]]:
        """Confidence intervals by name, in natural units.

        `wald` takes the standard errors on the logarithmic scale; `profile` follows the
        likelihood itself, which takes longer and holds where it is lopsided. Either end may be
        infinite (or 0, for a positive parameter): the data do not say.
        """
        if not 0 < level < 1:
            raise InputError(f"level must lie between 0 and 1, got {level!r}")
        if method == "profile":
            ends = {profile.name: profile.ends for profile in self.profiles(level)}
        else:
            checks.one_of("method", method, ("wald", "profile"))
            z = NormalDist().inv_cdf(0.5 + level / 2)
            points = zip(self.point, self.search_scale_errors.values(), strict=True)
            ends = dict(zip(self.names, [(x - z * e, x + z * e) for x, e in points], strict=True))
        return {c.name: c.support.natural(ends[c.name]) for c in self.objective.coordinates}

    def profiles(
        self,
        level: float = 0.95,
        names: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> list[Profile]:
        """Profile likelihoods of the named parameters, or of all."""
        names = self.names if names is None else names
        which = [self.names.index(checks.one_of("free parameter", n, self.names)) for n in names]
        if self.interrupted:
            raise InputError("the fit was interrupted before its maximum: there is no profile yet")
        done = 0

        def tick() -> None:
            nonlocal done
            done += 1
            if progress is not None:
                progress("profiles", done, None)

        found, _ = profiles(
            BatchedObjective(self.objective, expected=self.size, priors=self.priors),
            self.point,
            self.log_likelihood + self._log_prior,
            np.sqrt(np.diagonal(self.covariance)),
            level=level,
            which=which,
            tick=tick,
        )
        return found

    @property
    def _log_prior(self) -> float:
        return float(self.objective.log_prior(self.point)) if self.priors else 0.0

    @property
    def directions(self) -> list[Direction]:
        """Combinations of parameters from the least known to the best, and how well."""
        if self.interrupted:
            return []
        return directions(self.objective.coordinates, self.information)

    def summary(self, level: float = 0.95) -> str:
        """What was found, as text."""
        errors, logs, ends = self.standard_errors, self.log_standard_errors, self.interval(level)
        width = max(len(name) for name in (*self.names, "parameter"))
        head = f"{'parameter':<{width}}  {'estimate':>10}  {'std. error':>10}  {'relative':>8}"
        lines = [f"{head}  {100 * level:g} % interval"]
        for name, value in self.estimates.items():
            relative = f"{100 * logs[name]:.3g} %" if name in logs else ""
            low, high = ends[name]
            lines.append(
                f"{name:<{width}}  {value:>10.4g}  {errors[name]:>10.2g}  {relative:>8}  "
                f"{low:.4g} to {high:.4g}"
            )
        lines.append("")
        lines.append(
            f"log likelihood {self.log_likelihood:.6g} of {len(self.objective.trials)} trials; "
            f"AIC {self.aic:.6g}, BIC {self.bic:.6g}"
        )
        lines += self.verdicts
        return "\n".join(lines)

    @property
    def verdicts(self) -> list[str]:
        """What to know before believing the estimates, in sentences."""
        if self.interrupted:
            return ["Interrupted: this is the best point so far, without error bars."]
        lines = [f"{self.agreed} of {len(self.starts)} starts found this maximum."]
        if self.agreed == 1 and len(self.starts) > 1:
            lines.append("No other start confirms it: try more (n_starts).")
        if not self.converged:
            lines.append("The search did not settle: error bars are not to be trusted.")
        if self.at_bounds:
            lines.append(
                f"At the edge of its support: {', '.join(self.at_bounds)}. Widen it, or take the "
                "error bars with care."
            )
        lines += [each.words for each in self.directions if each.words]
        return lines

    def __repr__(self) -> str:
        each = ", ".join(f"{name} {value:.4g}" for name, value in self.estimates.items())
        return f"Fit: {each}; log likelihood {self.log_likelihood:.6g}"


@eqx.filter_jit
def _beliefs(objective: Objective, point: Float[Array, " p"], smooth: bool) -> Beliefs:
    # Compiled as a whole: trials of many lengths would else compile many small pieces.
    return track_beliefs(objective.at(point), objective.trials, smooth=smooth)
