"""The result of a fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.errors import InputError
from motorcost.fitting.delays import DelayFit
from motorcost.fitting.derivative_free import Method
from motorcost.fitting.engine import Maximum, Nearby, agreeing
from motorcost.fitting.information import (
    Direction,
    at_bounds,
    directions,
    robust_covariance,
)
from motorcost.fitting.intervals import profile_intervals, wald_intervals
from motorcost.fitting.leads import LeadFit
from motorcost.fitting.local_maximum import LocalMaximum, local_maxima
from motorcost.fitting.objective import Coordinate, Objective
from motorcost.fitting.optimise import Found
from motorcost.fitting.prediction import conditions_of, predict_trials
from motorcost.fitting.presenting import (
    estimates_frame,
    summary_html,
    summary_text,
    units_of,
    verdicts_of,
)
from motorcost.fitting.profiles import Profile, profiles_of, slice_along
from motorcost.fitting.progress import Progress
from motorcost.inference.beliefs import Beliefs, track_beliefs
from motorcost.model.observer import Observer
from motorcost.model.problem import Problem
from motorcost.model.trials import Trials
from motorcost.numerics.compiling import lean_jit

if TYPE_CHECKING:
    from pandas import DataFrame

    from motorcost.plots.style import CaptionedFigure


@dataclass(frozen=True)
class Fit:
    """The parameters under which trials are most probable, with their uncertainty.

    `mc.fit` returns one, and `mc.load` reads one that `Fit.save` wrote. `print(fit.summary())`
    shows what was found; in a notebook a `Fit` shows itself as a table.

    Parameters are referred to by name: `effort`, or `effort[anna]` where a parameter has a value
    for each group of trials. The search runs on the *search scale* of each parameter, which is
    the natural logarithm for parameters with a `LogUniform` or `LogNormal` support and the
    parameter itself for the others.

    Attributes
    ----------
    estimates, standard_errors : dict of str to float
        By name, in natural units.
    log_standard_errors : dict of str to float
        Standard errors of the natural logarithms: 0.05 is about 5 %.
    names, units : tuple of str, dict of str to str
        What was inferred, and in which units it is.
    log_likelihood, aic, bic : float
        Of all trials at the estimates.
    covariance, correlation : array of shape (p, p)
        Of the estimates on the search scale, in the order of `names`.
    converged, interrupted : bool
        Whether the search settled at a maximum, and whether the user stopped it before. Without a
        maximum there are no errors: they are NaN.
    maxima : tuple of LocalMaximum
        Every different maximum that was found within reach of the best, the best first: other
        explanations of the same data.
    starts : tuple of Found
        Where each search ended: its `point` on the search scale, the `value` of the log
        likelihood (plus log prior, if there are priors), `evaluations` and `converged`.
    agreed : int
        How many of the searches found this maximum.
    verdicts : list of str
        What to know before believing the estimates, in sentences.
    notes : tuple of str
        What was converted or assumed before the fit, in sentences.
    leads : tuple of LeadFit
        Where several leads were compared (`mc.fit(..., lead=[0, 0.05, 0.1])`): each of them with
        its log likelihood. `trials.lead` is the one that was chosen.
    delays : tuple of DelayFit
        Where several delays were compared (`mc.fit(..., delay=[4, 8, 12])`): each of them with its
        log likelihood.
    directions : list of Direction
        Combinations of parameters, from the least known to the best known.
    at : callable
        The fitted task with its observer, as a function of steps and conditions; what
        `mc.log_likelihood` and `mc.track_beliefs` take.
    trials : Trials
        The trials as they were fitted.

    Examples
    --------
    >>> fit.names, fit.converged, fit.agreed
    (('effort',), True, 1)
    >>> low, high = fit.interval(0.95)["effort"]
    >>> low < fit.estimates["effort"] < high
    True
    >>> fit.to_frame().index.tolist()
    ['effort']
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
    notes: tuple[str, ...] = ()
    trial_scores: np.ndarray | None = None  # (N, p), at the estimates
    other_maxima: tuple[Maximum, ...] = ()
    nearby: Nearby | None = None
    leads: tuple[LeadFit, ...] = ()
    delays: tuple[DelayFit, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what was inferred."""
        return self.objective.names

    @property
    def estimates(self) -> dict[str, float]:
        """The estimates by name, in natural units."""
        return {name: float(value) for name, value in self.objective.values(self.point).items()}

    @property
    def units(self) -> dict[str, str]:
        """The unit of each estimate by name, as the task declares it; empty where there is none."""
        return units_of(self)

    @property
    def at(self) -> Callable[..., tuple[Problem, Observer]]:
        """The fitted task with its observer, as a function of steps and conditions."""
        return self.objective.at(self.point)

    @property
    def trials(self) -> Trials:
        """The trials as they were fitted: with the conditions that `at` takes."""
        return self.objective.trials

    @property
    def conditions(self) -> dict[str, np.ndarray]:
        """By name, one value per trial: conditions that the task takes, and labels of groups."""
        return conditions_of(self.objective)

    def beliefs(self, *, smooth: bool = False) -> Beliefs:
        """Return what the agent believed in each trial, at the estimates; see `track_beliefs`."""
        found = _beliefs(self.objective, jnp.asarray(self.point), smooth=smooth)
        return replace(found, trials=self.trials)

    def predict(
        self, *, n_trials: int, key: Any, steps: int | None = None, **conditions: Any
    ) -> Trials:
        """Simulate trials at the estimates, recorded as the fitted trials were.

        Parameters
        ----------
        n_trials : int
            The number of trials.
        key : JAX random key
            The same key gives the same trials.
        steps : int, optional
            The number of model steps per trial.
        **conditions
            One value for each condition to choose: an argument of the task that was neither
            inferred nor fixed (`target=0.2`), or a group (`subject="anna"`).

        Returns
        -------
        Trials
            With the conditions that they were simulated in. What is not chosen is as in the first
            fitted trial with these conditions, its known first state included; if there is none,
            as in the first fitted trial, with the first state that the task has.

        Examples
        --------
        >>> further = fit.predict(n_trials=100, key=jax.random.key(0), target=0.2)
        >>> further.plot().savefig("further.svg")
        """
        return predict_trials(self, n_trials, key, steps, conditions)

    @property
    def covariance(self) -> np.ndarray:
        """The covariance of the estimates on the search scale.

        It is the sandwich estimator, from the curvature of the log likelihood and from how much the
        trials' own scores vary, corrected for the number of trials. Infinite for what the data
        leave open; NaN for parameters at an end of their support, and for all of them if the
        search was interrupted or did not settle.
        """
        return self._uncertainty[0]

    @property
    def degrees_of_freedom(self) -> np.ndarray:
        """Of Student's t for each estimate: its trials less parameters; infinite if there are too
        few trials to say how much they vary."""
        return self._uncertainty[1]

    @property
    def _uncertainty(self) -> tuple[np.ndarray, np.ndarray]:
        supports, p = self.objective.supports, len(self.names)
        if self.interrupted or not self.converged:
            return np.full((p, p), np.nan), np.full(p, np.inf)
        at_bounds = np.isin(self.names, self.at_bounds)
        return robust_covariance(supports, self.information, self.trial_scores, at_bounds)

    @property
    def search_scale_errors(self) -> dict[str, float]:
        """Standard errors by name, on the search scale of each parameter."""
        return dict(zip(self.names, np.sqrt(np.diagonal(self.covariance)), strict=True))

    @property
    def standard_errors(self) -> dict[str, float]:
        """Standard errors by name, in natural units."""
        errors, estimates = self.search_scale_errors, self.estimates
        scales = {c.name: estimates[c.name] for c in self._logarithmic}
        return {name: float(error * scales.get(name, 1.0)) for name, error in errors.items()}

    @property
    def log_standard_errors(self) -> dict[str, float]:
        """Standard errors of the natural logarithms by name, of what is positive by its support."""
        errors, estimates = self.search_scale_errors, self.estimates
        logarithmic = {c.name for c in self._logarithmic}
        positive = {c.name for c in self.objective.coordinates if c.support.low > 0}
        return {
            name: float(error if name in logarithmic else error / estimates[name])
            for name, error in errors.items()
            if name in logarithmic | positive
        }

    @property
    def _logarithmic(self) -> list[Coordinate]:
        return [c for c in self.objective.coordinates if c.support.logarithmic]

    @property
    def correlation(self) -> np.ndarray:
        """The correlation of the estimates on the search scale, NaN for what is left open."""
        cov = self.covariance
        sd = np.sqrt(np.diagonal(cov))
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(cov), cov / np.outer(sd, sd), np.nan)

    @property
    def at_bounds(self) -> tuple[str, ...]:
        """The names of parameters that ended at an end of their support."""
        near = at_bounds(self.objective.bounds, self.point)
        return tuple(np.array(self.names)[near].tolist())

    @property
    def agreed(self) -> int:
        """How many of the searches found this maximum."""
        return agreeing(self.starts)

    @property
    def maxima(self) -> tuple[LocalMaximum, ...]:
        """Every different maximum found within reach of the best, the best first."""
        return local_maxima(self)

    @property
    def all_maxima(self) -> tuple[Maximum, ...]:
        """The same on the search scale, with the information and the scores at each."""
        best = Maximum(
            point=self.point,
            value=self.log_likelihood + self.log_prior_at(self.point),
            information=self.information,
            searches=self.agreed,
            converged=self.converged and not self.interrupted,
            trial_scores=self.trial_scores,
        )
        return (best, *self.other_maxima)

    def log_prior_at(self, point: np.ndarray) -> float:
        """The log prior at a point on the search scale; zero for a fit without priors."""
        return float(self.objective.log_prior(point)) if self.priors else 0.0

    @property
    def aic(self) -> float:
        """Akaike's information criterion: smaller is better."""
        return 2.0 * len(self.names) - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        """The Bayesian information criterion, over trials: smaller is better."""
        return float(len(self.names) * np.log(len(self.trials)) - 2.0 * self.log_likelihood)

    def interval(
        self, level: float = 0.95, method: Literal["wald", "profile"] = "wald"
    ) -> dict[str, tuple[float, float]]:
        """Return confidence intervals by name, in natural units.

        Parameters
        ----------
        level : float
            Of confidence, between 0 and 1.
        method : {"wald", "profile"}
            `wald` takes the standard errors on the search scale and Student's t. `profile` follows
            the likelihood itself, which takes longer and holds where it is lopsided. Both allow for
            trials that vary more than the model says.

        Returns
        -------
        dict of str to (float, float)
            Within the supports: an end that is the support's own says that the data do not bound
            the parameter there. At an end of a support the interval is one-sided.
        """
        if not 0 < level < 1:
            raise InputError(f"level must lie between 0 and 1, got {level!r}")
        checks.one_of("method", method, ("wald", "profile"))
        of_method = profile_intervals if method == "profile" else wald_intervals
        return of_method(self, level)

    def profiles(
        self,
        level: float = 0.95,
        names: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> list[Profile]:
        """Return the profile likelihoods of the named parameters, or of all."""
        return profiles_of(self, level, names, progress)

    def likelihood_slice(self, profile: Profile) -> tuple[np.ndarray, np.ndarray]:
        """Return the log likelihood along one parameter, with the others held at their estimates.

        Returns points on the search scale of the parameter, as far as its `profile` reaches, and
        the log likelihood (plus log prior, if there are priors) at each of them.
        """
        return slice_along(self, profile)

    @property
    def directions(self) -> list[Direction]:
        """Combinations of parameters, from the least known to the best known."""
        if self.interrupted or not self.converged:
            return []
        return directions(self.objective.coordinates, self.information)

    @property
    def verdicts(self) -> list[str]:
        """What to know before believing the estimates, in sentences."""
        return verdicts_of(self)

    def summary(self, level: float = 0.95) -> str:
        """Return what was found, as text: a table of estimates, the verdicts and the notes."""
        return summary_text(self, level)

    def to_frame(self, level: float = 0.95) -> DataFrame:
        """Return the estimates as a pandas table with one row per parameter.

        The index has the parameters' names. The columns are `estimate` and `standard_error` in
        natural units, `log_standard_error` (of the natural logarithm, NaN for what need not be
        positive), `low` and `high` of the Wald interval at `level`, `unit`, and `at_bound`:
        whether the estimate is at an end of its support.
        """
        return estimates_frame(self, level)

    def plot(
        self, level: float = 0.95, truth: Mapping[str, float] | None = None
    ) -> CaptionedFigure:
        """Draw each estimate with its confidence interval; see `mc.plots.plot_estimates`."""
        from motorcost.plots.fits import plot_estimates

        return plot_estimates(self, self.interval(level), truth, level=level)

    def save(self, path: str | Path) -> None:
        """Write the fit to one file, from which `mc.load` makes the same fit again.

        The file holds the estimates, the starts, the trials, the observer and what was free and
        fixed. A built-in task, and a task or an observer that is a function of a module that can
        be imported, are stored by name. Others (a lambda, a function of a notebook or script) are
        not stored: `mc.load(path, task=..., observer=...)` needs them.
        """
        from motorcost.io.fits import save_fit

        save_fit(self, Path(path))

    def report(
        self,
        folder: str | Path,
        *,
        checks: bool = True,
        profiles: bool = True,
        seed: int = 0,
        title: str = "",
        truth: Mapping[str, float] | None = None,
    ) -> Path:
        """Write `report.html`, `fit.json` and `figures/` into a folder, as `motorcost fit` does.

        Parameters
        ----------
        folder : str or Path
            Made if it does not exist; its parent must.
        checks : bool
            Whether to compare the trials with simulated ones (`mc.check_fit`).
        profiles : bool
            Whether to compute profile likelihoods, which takes about as long as the fit.
        seed : int
            Of the random key that the checks simulate with.
        title : str
            The title of the report.
        truth : mapping of str to float, optional
            The true parameters by name, where the trials were simulated; shown beside the
            estimates.

        Returns
        -------
        Path
            The path of `report.html`. Sections that need what was not computed are left out. A
            fit that was interrupted has neither checks nor profiles.
        """
        from motorcost.report.fitted import report_fit

        return report_fit(
            self,
            Path(folder),
            checks=checks,
            profiles=profiles,
            seed=seed,
            title=title,
            truth=truth,
        )

    def _repr_html_(self) -> str:
        return summary_html(self, 0.95)

    def __repr__(self) -> str:
        values = ", ".join(f"{name} {value:.4g}" for name, value in self.estimates.items())
        return f"Fit: {values}; log likelihood {self.log_likelihood:.6g}"


@lean_jit
def _beliefs(objective: Objective, point: Float[Array, " p"], *, smooth: bool) -> Beliefs:
    # Compiled as a whole: trials of many lengths would else compile many small pieces.
    return track_beliefs(objective.at(point), objective.trials, smooth=smooth)
