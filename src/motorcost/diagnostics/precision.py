"""Before an experiment: how many trials give which error bar."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from motorcost import checks
from motorcost.diagnostics.trial_information import (
    information_about_maximum,
    trial_information,
)
from motorcost.errors import InputError
from motorcost.fitting.information import Direction, covariance_of, directions
from motorcost.fitting.objective import Objective
from motorcost.fitting.specification import (
    Free,
    make_objective,
    supports_of,
    takes_arguments,
)
from motorcost.markup import percent
from motorcost.model.observer import ObserverLike, ObserverSpec
from motorcost.model.simulate import simulate
from motorcost.model.solver import solve
from motorcost.model.trials import Trials
from motorcost.tasks import parameters
from motorcost.tasks.declarations import Task
from motorcost.tasks.supports import Support

if TYPE_CHECKING:
    from motorcost.plots.style import CaptionedFigure


@dataclass(frozen=True)
class Precision:
    """The error bars to expect from an experiment. Made by `expected_precision`.

    `information` is that of one trial, on the search scale of the parameters.

    `standard_errors` are by name, in natural units, for each of `n_trials`; `relative_errors` of
    natural logarithms. `monte_carlo` is the relative error of these figures themselves.

    Examples
    --------
    >>> found = mc.expected_precision(
    ...     mc.tasks.reaching,
    ...     at={"effort": 1e-5, "steps": 12},
    ...     free=["effort"],
    ...     n_trials=[50, 200],
    ...     simulated=50,
    ...     key=jax.random.key(0),
    ... )
    >>> found.names, len(found.standard_errors["effort"])
    (('effort',), 2)
    """

    objective: Objective
    point: np.ndarray
    information: np.ndarray
    n_trials: tuple[int, ...]
    simulated: int

    @property
    def names(self) -> tuple[str, ...]:
        """What is to be inferred."""
        return self.objective.names

    def search_scale_errors(self, n_trials: int) -> dict[str, float]:
        """Standard errors on the search scale (mostly logarithmic), with that many trials."""
        cov = covariance_of(self.objective.supports, n_trials * self.information)
        return dict(zip(self.names, np.sqrt(np.diagonal(cov)).tolist(), strict=True))

    @property
    def relative_errors(self) -> dict[str, list[float]]:
        """By name, the standard error of the natural logarithm, for each number of trials."""
        values, errors = self.objective.values(self.point), self.standard_errors
        return {
            name: [error / abs(value) if value else np.inf for error in errors[name]]
            for name, value in ((name, float(x)) for name, x in values.items())
        }

    @property
    def standard_errors(self) -> dict[str, list[float]]:
        """By name, in natural units, for each number of trials."""
        values = self.objective.values(self.point)
        by_count = [self.search_scale_errors(n) for n in self.n_trials]
        scale = {
            c.name: float(values[c.name]) if c.support.logarithmic else 1.0
            for c in self.objective.coordinates
        }
        return {name: [errors[name] * scale[name] for errors in by_count] for name in self.names}

    @property
    def monte_carlo(self) -> float:
        """About how far, relatively, the standard errors can be trusted."""
        return float(np.sqrt(0.5 / self.simulated))

    @property
    def directions(self) -> list[Direction]:
        """Combinations of parameters from the least known to the best, at the first of
        `n_trials`."""
        return directions(self.objective.coordinates, self.n_trials[0] * self.information)

    def plot(self) -> "CaptionedFigure":
        """Draw the expected errors over numbers of trials; see `mc.plots.plot_precision`."""
        from motorcost.plots.comparisons import plot_precision

        return plot_precision(self)

    def trials_for(self, relative_error: float) -> dict[str, float]:
        """By name, how many trials make its relative standard error this small; infinite for
        what no number of trials tells."""
        checks.positive(relative_error=relative_error)
        many = 10**12  # so many that only what no number of trials tells is infinite
        errors = replace(self, n_trials=(many,)).relative_errors
        return {
            name: float(np.ceil(many * (error / relative_error) ** 2))
            for name, (error,) in errors.items()
        }

    def __str__(self) -> str:
        width = max(len(name) for name in (*self.names, "parameter"))
        head = "  ".join(f"{n:>8} trials" for n in self.n_trials)
        lines = [f"{'parameter':<{width}}  {'at':>10}  {head}"]
        values = self.objective.values(self.point)
        for name, errors in self.relative_errors.items():
            percents = "  ".join(f"{percent(error, 3):>15}" for error in errors)
            lines.append(f"{name:<{width}}  {float(values[name]):>10.4g}  {percents}")
        lines.append(f"Expected standard errors, known to about {percent(self.monte_carlo, 1)}.")
        return "\n".join([*lines, *[d.words for d in self.directions if d.words]])


def expected_precision(
    task: Task,
    *,
    at: Mapping[str, Any],
    n_trials: int | Sequence[int],
    key: Any,
    free: Free | None = None,
    observer: ObserverLike = None,
    simulated: int = 1000,
) -> Precision:
    """The error bars to expect from an experiment with `n_trials` (one number, or several).

    - `at`: the assumed true values of parameters, by name; conditions (target, steps) too.
    - `free`: which of them are to be inferred; if left out, all in `at` that have a support.
    - `observer`: as in `fit`; all states without noise if left out.
    - `simulated`: trials from which the information is averaged.

    Examples
    --------
    >>> found = mc.expected_precision(
    ...     mc.tasks.reaching,
    ...     at={"effort": 1e-5, "steps": 12},
    ...     free=["effort"],
    ...     n_trials=[50, 200],
    ...     simulated=50,
    ...     key=jax.random.key(0),
    ... )
    >>> few, many = found.relative_errors["effort"]
    >>> round(few / many, 6)  # four times the trials, half the error
    2.0
    """
    counts = (n_trials,) if isinstance(n_trials, int) else tuple(n_trials)
    for n in counts:
        checks.whole("n_trials", n, 1, "trials in the experiment")
    checks.random_key(key)
    checks.whole("simulated", simulated, 2, "trials to average over")
    noise = {name: value for name, value in at.items() if name not in takes_arguments(task)}
    task_values = {name: value for name, value in at.items() if name not in noise}
    if noise and not isinstance(observer, ObserverSpec):
        checks.one_of("parameter", next(iter(noise)), takes_arguments(task))
    if free is None:
        has = parameters(task) if hasattr(task, "parameters") else {}
        free = [name for name in task_values if name in has and has[name].support is not None]
        free = [*free, *noise]
    for name in free:
        if name not in at:
            raise InputError(f"{name} is free, so `at` must have its assumed true value")
    problem = task(**task_values)
    seen = ObserverSpec(problem.state_names) if observer is None else observer
    if isinstance(seen, ObserverSpec) and noise:
        seen = seen.with_noises(noise)
    trials = simulate(problem, solve(problem), n_trials=simulated, key=key, observer=seen)
    held = {name: value for name, value in task_values.items() if name not in (*free, "steps")}
    supports = wide_supports(task, free, at, seen, trials)
    objective = make_objective(task, trials, supports, fixed=held, observer=seen)
    point = np.asarray(objective.point(at))
    found = trial_information(objective, point, (1, simulated, 1))
    information = information_about_maximum(*found)[0, 0]
    return Precision(objective, point, information, counts, simulated)


def wide_supports(
    task: Task, free: Free, at: Mapping[str, Any], observer: Any, trials: Trials
) -> dict[str, Support]:
    """The supports as given; where none is given the usual one, widened on its own scale if the
    assumed true value lies outside."""
    given = dict(free) if isinstance(free, Mapping) else dict.fromkeys(free)
    supports = supports_of(task, free, observer, trials)
    for name, support in supports.items():
        value = float(at[name])
        if given[name] is not None or value in support or (support.logarithmic and value <= 0):
            continue
        around = (value / 10, 10 * value)
        if not support.logarithmic:
            around = (value - support.width, value + support.width)
        low, high = min(support.low, around[0]), max(support.high, around[1])
        supports[name] = Support(low, high, support.logarithmic)
    return supports
