"""Maximum likelihood from several starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from motorcost import checks
from motorcost.errors import ConvergenceError, InputError
from motorcost.fitting.batching import BatchedObjective
from motorcost.fitting.delays import (
    delay_choice_in_words,
    delay_fit,
    delays_of,
    impossible_delay,
)
from motorcost.fitting.derivative_free import METHODS, Method, check_available
from motorcost.fitting.engine import Maxima
from motorcost.fitting.fitted import Fit
from motorcost.fitting.leads import (
    Lead,
    choice_in_words,
    impossible_lead,
    lead_fit,
    leads_of,
)
from motorcost.fitting.nearby import maximise_and_note
from motorcost.fitting.objective import Objective
from motorcost.fitting.progress import Progress, silent
from motorcost.fitting.specification import (
    Free,
    check_task,
    check_trials,
    check_units,
    make_objective,
)
from motorcost.fitting.starts import choose_starts, explain_no_start
from motorcost.model.observer import ObserverLike
from motorcost.model.trials import Trials
from motorcost.tasks.declarations import Task
from motorcost.tasks.late_senses import Delay, delayed

# What `progress` is told while searches climb; other words name what follows.
SEARCHING = "searching"


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
    lead: Lead | None = None,
    delay: Delay | Sequence[Delay] = 0,
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
    - `lead`: seconds before the first sample at which the model begins (`Trials.with_lead`), if not
      the trials' own. Of several each is fitted; the best fit is returned, its `leads` list all.
    - `delay`: steps by which senses are late (`mc.delay`), in all or by name of the sense. Of
      several each is fitted; the best fit is returned, its `delays` list all.
    - `priors`: add the supports' log priors to the log likelihood (maximum a posteriori).
    - `max_evaluations`: the most points that a search may try.
    - `progress`: called with what is being done, how much is done, and of how much.

    Interrupted (Ctrl-C) it returns the best point so far, with `interrupted` set and no error bars.

    Examples
    --------
    >>> fit = mc.fit(
    ...     mc.tasks.reaching,
    ...     positions,
    ...     {"effort": mc.LogUniform(1e-8, 1e-2)},
    ...     observer=camera,
    ...     n_starts=1,
    ...     key=jax.random.key(1),
    ... )
    >>> fit.names, fit.converged
    (('effort',), True)
    """
    search: dict[str, Any] = {"method": method, "n_starts": n_starts, "priors": priors}
    search |= {"max_evaluations": max_evaluations, "progress": progress}
    search |= {"free": free, "key": key, "fixed": fixed, "observer": observer}
    delays = delays_of(delay)
    if len(delays) > 1 and lead is not None and len(leads_of(lead)) > 1:
        raise InputError("compare several delays or several leads, not both at once")
    if delays != (0,):
        of_task = partial(fit, trials=trials, lead=lead, **search)
        return _with_delays(of_task, task, trials, delays, starts, fixed or {})
    if lead is not None:
        return _with_leads(partial(fit, task, **search), trials, leads_of(lead), starts)
    checks.random_key(key)
    checks.one_of("method", method, METHODS)
    checks.whole("n_starts", n_starts, 0 if starts else 1, "searches from drawn points")
    objective = make_objective(task, trials, free, fixed=fixed, observer=observer)
    check_units(objective)
    check_available(method, objective.bounds)
    if max_evaluations is not None:
        checks.whole("max_evaluations", max_evaluations, 1, "the most points a search may try")
    given_points = [given_point(objective, i, values) for i, values in enumerate(starts)]
    size = points_together(objective, n_starts + len(given_points))
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


def points_together(objective: Objective, n_searches: int) -> int:
    """How many points a fit evaluates at once: one of each search, or those of a curvature."""
    return max(n_searches, 2 * len(objective.names) + 1)


def given_point(objective: Objective, number: int, values: Mapping[str, float]) -> np.ndarray:
    """A start on the search scale; an error names it."""
    try:
        return np.asarray(objective.point(values))
    except InputError as error:
        raise InputError(f"starts[{number}]: {error}") from None


def _with_delays(
    of_task: Callable[..., Fit],
    task: Task,
    trials: Trials,
    delays: Sequence[Delay],
    starts: Sequence[Mapping[str, float]],
    fixed: Mapping[str, Any],
) -> Fit:
    """The fit with the best of several delays."""
    check_trials(trials)
    tasks = [task if steps == 0 else delayed(task, steps) for steps in delays]
    if len(tasks) == 1:
        return of_task(tasks[0], starts=starts)
    # All before the first fit: a mistake is no delay that the trials contradict.
    for late in tasks:
        check_task(late, trials, fixed)
    results = _fit_each(tasks, of_task, starts)
    interrupted = _is_interrupted(results)
    finished = results[:-1] if interrupted else results
    if not any(finished):
        return results[-1]
    tried = [
        impossible_delay(steps, trials.dt) if found is None else delay_fit(steps, found)
        for steps, found in zip(delays, finished, strict=False)
    ]
    chosen = max(filter(None, finished), key=lambda found: found.log_likelihood)
    notes = (*chosen.notes, delay_choice_in_words(tried))
    if interrupted:
        notes = (*notes, f"interrupted after {len(finished)} of {len(delays)} delays")
    return dataclasses.replace(chosen, delays=tuple(tried), notes=notes, interrupted=interrupted)


def _with_leads(
    of_trials: Callable[..., Fit],
    trials: Trials,
    leads: Sequence[float],
    starts: Sequence[Mapping[str, float]],
) -> Fit:
    """The fit with the best of several leads."""
    check_trials(trials)
    # Check all leads before the first fit.
    of_leads = {t.lead_steps: t for t in (trials.with_lead(seconds) for seconds in leads)}
    if len(of_leads) == 1:
        return of_trials(trials.with_lead(leads[0]), starts=starts)
    results = _fit_each(list(of_leads.values()), of_trials, starts)
    interrupted = _is_interrupted(results)
    finished = results[:-1] if interrupted else results
    if not any(finished):
        return results[-1]
    tried = [
        impossible_lead(with_lead.lead) if found is None else lead_fit(found)
        for with_lead, found in zip(of_leads.values(), finished, strict=False)
    ]
    # Also among leads whose search did not settle: what it found is a lower bound of the maximum,
    # and a lead that explains the trials worse does not become better by settling.
    best = max(tried, key=lambda found: found.after_first_sample)
    chosen = next(found for found in filter(None, finished) if found.trials.lead == best.lead)
    notes = (*chosen.notes, choice_in_words(tried, best))
    if interrupted:
        notes = (*notes, f"interrupted after {len(finished)} of {len(of_leads)} leads")
    return dataclasses.replace(chosen, leads=tuple(tried), notes=notes, interrupted=interrupted)


def _fit_each(
    options: Sequence[Any], fit_with: Callable[..., Fit], starts: Sequence[Mapping[str, float]]
) -> list[Any]:
    """The fit with each option, None where the trials contradict the model with it.

    A further search of each begins where the best of those before ended. The list ends with a fit
    that was interrupted, if one was. Raises if no option is possible.
    """
    results: list[Fit | None] = []
    errors: list[InputError | ConvergenceError] = []
    for option in options:
        before = sorted(filter(None, results), key=lambda found: found.log_likelihood)
        begin = [found.estimates for found in before[-1:]]
        try:
            results.append(fit_with(option, starts=[*starts, *begin]))
        except (InputError, ConvergenceError) as error:
            errors.append(error)
            results.append(None)
            continue
        if _is_interrupted(results):
            return results
    if len(errors) == len(options):
        raise errors[0]
    return results


def _is_interrupted(results: Sequence[Any]) -> bool:
    """Whether the last of these fits was interrupted."""
    return results[-1] is not None and results[-1].interrupted


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
    first_look = batched.roughly() if method == "gradient" else batched.values_only()
    starts = choose_starts(objective, first_look, jnp.stack([key]), n_starts, given_points)
    report(SEARCHING, 0, total)
    (maxima,) = maximise_and_note(
        batched,
        starts,
        max_evaluations=max_evaluations,
        method=method,
        tick=lambda done: report(SEARCHING, done, total),
        stage=lambda what: report(what, 0, None),
    )
    return explain_no_start(objective, n_starts, given_points) if maxima is None else maxima


def _fit_of(objective: Objective, found: Maxima, method: Method, size: int, *, priors: bool) -> Fit:
    """What is known of the maxima of an objective, as a user holds it."""
    from motorcost.study.doubts import doubts  # further up: recordings are looked at there

    best = found.best
    fixed = dict(objective.fixed)
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
        notes=(*objective.notes, *doubts(objective.task, objective.trials, fixed)),
        trial_scores=best.trial_scores,
        other_maxima=found.maxima[1:],
        nearby=found.nearby,
    )
