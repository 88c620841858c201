"""Maximum likelihood from several starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from motorcost import checks
from motorcost.fitting.batching import BatchedObjective
from motorcost.fitting.derivative_free import METHODS, Method, check_available
from motorcost.fitting.engine import Maxima, maximise
from motorcost.fitting.fitted import Fit
from motorcost.fitting.objective import Objective
from motorcost.fitting.progress import Progress, silent
from motorcost.fitting.specification import Free, make_objective
from motorcost.fitting.starts import choose_starts, explain_no_start
from motorcost.model.observer import ObserverLike
from motorcost.model.trials import Trials
from motorcost.tasks.declare import Task


def fit(
    task: Task,
    trials: Trials,
    free: Free,
    *,
    key: Any,
    fixed: Mapping[str, Any] | None = None,
    observer: ObserverLike = None,
    method: Method = "gradient",
    n_starts: int = 10,
    starts: Sequence[Mapping[str, float]] = (),
    priors: bool = False,
    max_evaluations: int | None = None,
    progress: Progress | None = None,
) -> Fit:
    """Find the parameters under which the trials are most probable, from several starts.

    - `task`: a function from parameters to a `Problem`, of `mc.tasks` or your own.
    - `trials`: conditions that the task takes (`target`) are handed to it; others (`subject`) can
      group trials. Channels and conditions in other units than the task's are converted.
    - `free`: by name, where each parameter can lie: `{"effort": mc.LogUniform(1e-8, 1e-2)}`; with
      `per="subject"` each subject has its own value. A list of names takes the usual supports.
    - `fixed`: values of other parameters that are not at the task's defaults.
    - `observer`: an `ObserverSpec`, an `Observer` or a function from a problem to one; if left out,
      the trials' channels without noise. The noise of a spec can be free, as `recording_noise`.
    - `method`: `gradient`; `nelder-mead` and `bobyqa` (which needs Py-BOBYQA) use values only.
    - `n_starts`: searches from points drawn from the supports; `starts`: further points, by name.
    - `priors`: add the supports' log priors to the log likelihood (maximum a posteriori).
    - `max_evaluations`: the most points that a search may try.
    - `progress`: called with what is being done, how much is done, and of how much.

    Interrupted (Ctrl-C) it returns the best point so far, with `interrupted` set and no error bars.
    """
    checks.random_key(key)
    checks.one_of("method", method, METHODS)
    checks.whole("n_starts", n_starts, 0 if starts else 1, "searches from drawn points")
    objective = make_objective(task, trials, free, fixed=fixed, observer=observer)
    check_available(method, objective.bounds)
    if max_evaluations is not None:
        checks.whole("max_evaluations", max_evaluations, 1, "the most points a search may try")
    given_points = [np.asarray(objective.point(values)) for values in starts]
    size = max(n_starts + len(given_points), 2 * len(objective.names) + 1)
    batched = BatchedObjective(objective, expected=size, priors=priors)
    maxima = _maxima(
        batched,
        key,
        n_starts,
        given_points,
        method,
        max_evaluations,
        silent if progress is None else progress,
    )
    return _fit_of(objective, maxima, method, size, priors=priors)


def _maxima(
    batched: BatchedObjective,
    key: Any,
    n_starts: int,
    given_points: list[np.ndarray],
    method: Method,
    max_evaluations: int | None,
    report: Progress,
) -> Maxima:
    """The maxima of the only data set, from the given and the drawn starts."""
    objective, total = batched.objective, n_starts + len(given_points)
    first_look = batched if method == "gradient" else batched.values_only()
    starts = choose_starts(objective, first_look, jnp.stack([key]), n_starts, given_points)
    report("searching", 0, total)
    (maxima,) = maximise(
        batched,
        starts,
        max_evaluations=max_evaluations,
        method=method,
        tick=lambda done: report("searching", done, total),
    )
    return explain_no_start(objective, n_starts, given_points) if maxima is None else maxima


def _fit_of(objective: Objective, found: Maxima, method: Method, size: int, *, priors: bool) -> Fit:
    """What is known of the maxima of an objective, as a user holds it."""
    best = found.best
    prior = float(objective.log_prior(best.point)) if priors else 0.0
    return Fit(
        objective=objective,
        method=method,
        priors=priors,
        point=best.point,
        log_likelihood=best.value - prior,
        information=best.information,
        starts=found.starts,
        converged=best.converged,
        interrupted=found.interrupted,
        size=size,
        notes=objective.notes,
        trial_scores=best.trial_scores,
        other_maxima=found.maxima[1:],
    )
