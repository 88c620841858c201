"""Maximum likelihood from several starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from motorcost import checks
from motorcost.fitting.fitted import Fit
from motorcost.fitting.maximum import (
    Progress,
    begin,
    evaluator,
    n_samples,
    polished,
)
from motorcost.fitting.objective import Free, make_objective
from motorcost.fitting.search import METHODS, Ask, Found, Method, run_together, search
from motorcost.model.observer import Observer
from motorcost.model.problem import Problem
from motorcost.model.trials import Trials
from motorcost.tasks.declare import Task


def fit(
    task: Task,
    trials: Trials,
    free: Free,
    *,
    key: Any,
    fixed: Mapping[str, Any] | None = None,
    observer: Callable[[Problem], Observer] | None = None,
    method: Method = "gradient",
    n_starts: int = 10,
    starts: Sequence[Mapping[str, float]] = (),
    priors: bool = False,
    max_evaluations: int | None = None,
    progress: Progress | None = None,
) -> Fit:
    """Find the parameters under which the trials are most probable, from several starts.

    - `task`: a function from parameters to a `Problem`, of `mc.tasks` or your own.
    - `trials`: recorded or simulated. Conditions that the task takes (`target`) are handed to
      it; others (`subject`) can tell levels of parameters.
    - `free`: by name, where each parameter can lie: `{"effort": mc.LogUniform(1e-8, 1e-2)}`. With
      `per="subject"` each subject has a value of its own. A list of names takes the task's usual
      supports.
    - `fixed`: other parameters that are not at the task's defaults. The step `dt` is the trials'.
    - `observer`: `mc.ObserverSpec(["position"], noise=1e-3)`; if left out, the trials' channels
      without noise. Its noise can be free too, as `recording_noise`.
    - `method`: `gradient`; `nelder-mead` and `bobyqa` (which needs Py-BOBYQA) use values only.
    - `n_starts`: searches, begun at the best of several times as many points drawn from the
      supports; `starts` are more to begin at, by name.
    - `priors`: add the supports' log priors to the log likelihood (maximum a posteriori).
    - `progress`: called with what is being done, how far, and of how much.

    Interrupted (Ctrl-C) it returns the best so far, with `interrupted` set and no error bars.
    """
    checks.random_key(key)
    checks.one_of("method", method, METHODS)
    checks.whole("n_starts", n_starts, 0 if starts else 1, "searches from drawn points")
    objective = make_objective(task, trials, free, fixed=fixed, observer=observer)
    most = 200 * (1 + len(objective.names)) if max_evaluations is None else max_evaluations
    checks.whole("max_evaluations", most, 1, "the most points a search may try")
    given = [np.asarray(objective.point(values)) for values in starts]
    size = max(n_starts + len(given), 2 * len(objective.names) + 1)

    evaluate = evaluator(objective, size, True, priors)
    searched_by = evaluate if method == "gradient" else evaluator(objective, size, False, priors)
    done = 0

    def tick() -> None:
        if progress is not None:
            progress("searching", done, n_starts + len(given))

    def worker(start: np.ndarray) -> Callable[[Ask], Found]:
        def work(ask: Ask) -> Found:
            nonlocal done
            found = search(ask, start, objective.bounds, method, n_samples(objective.trials), most)
            done += 1
            return found

        return work

    starting = begin(objective, key, n_starts, given, searched_by)
    tick()
    found, interrupted = run_together([worker(start) for start in starting], searched_by, tick)
    best = max(found, key=lambda one: one.value)
    point, value = best.point, best.value
    information = np.full((len(point), len(point)), np.nan)
    converged = False
    if not interrupted:
        try:
            point, value, information, converged = polished(objective, evaluate, point, value)
            tick()
        except KeyboardInterrupt:
            interrupted = True
    prior = float(objective.log_prior(point)) if priors else 0.0
    return Fit(
        objective=objective,
        method=method,
        priors=priors,
        point=point,
        log_likelihood=value - prior,
        information=information,
        starts=tuple(found),
        converged=converged,
        interrupted=interrupted,
        size=size,
    )
