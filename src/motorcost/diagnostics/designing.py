"""Before an experiment: which conditions, and how many trials of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from motorcost import checks
from motorcost.diagnostics.allocation import (
    CRITERIA,
    Criterion,
    equal_trials,
    improved_by_exchange,
    optimal_shares,
    whole_trials,
)
from motorcost.diagnostics.candidates import (
    Candidate,
    Candidates,
    Setting,
    make_candidates,
    make_setting,
)
from motorcost.diagnostics.designs import BATCHES, Design
from motorcost.diagnostics.replicates import samples_at
from motorcost.diagnostics.trial_information import (
    TrialInformation,
    trial_information,
)
from motorcost.errors import InputError
from motorcost.fitting.information import directions
from motorcost.fitting.objective import Objective
from motorcost.fitting.progress import Progress, silent
from motorcost.fitting.specification import Free
from motorcost.model.observer import ObserverLike
from motorcost.model.trials import Trials
from motorcost.tasks.declarations import Task

# A parameter is called undetermined if its error stays large with this many times more trials.
MANY_TIMES = 10_000


def design(
    task: Task,
    free: Free,
    *,
    trials: int,
    candidates: Candidates,
    key: Any,
    values: Mapping[str, Any] | None = None,
    observer: ObserverLike = None,
    every: int = 1,
    criterion: Criterion = "errors",
    simulated: int = 1000,
    progress: Progress | None = None,
) -> Design:
    """Find the conditions, and how many trials of each, that give the smallest standard errors.

    - `task`, `free`, `observer`: as in `fit`. All states without noise are recorded if the observer
      is left out.
    - `trials`: the budget.
    - `candidates`: by name, values of conditions of the task (target, steps), of which all
      combinations are candidates; or a list of candidates, each a mapping. The condition `every`
      is how slow the recording is: one of so many samples. An experiment has one `dt`, the model's
      step; with several, the best is chosen.
    - `values`: assumed true values of what is free, and values of other parameters; the task's
      defaults if left out.
    - `every`: how slow the recording is, where it is no candidate.
    - `criterion`: "errors" for the smallest mean of squared relative errors (A-optimal),
      "determinant" for the smallest joint confidence region (D-optimal).
    - `simulated`: trials of each candidate, from whose scores at the assumed true values the
      information of a trial is averaged.
    - `progress`: called with what is being done, how much is done, and of how much.

    A design is best for the values that are assumed: try others that are plausible too.

    Examples
    --------
    >>> plan = mc.design(
    ...     mc.tasks.reaching,
    ...     ["effort"],
    ...     trials=20,
    ...     candidates={"target": [0.05, 0.1]},
    ...     values={"steps": 12},
    ...     simulated=100,
    ...     key=jax.random.key(0),
    ... )
    >>> sum(plan.counts)
    20
    """
    checks.require_float64()
    checks.random_key(key)
    checks.whole("trials", trials, 1, "the budget of the experiment")
    checks.whole("simulated", simulated, 5 * BATCHES, "trials to average over")
    checks.one_of("criterion", criterion, CRITERIA)
    setting = make_setting(task, free, values or {}, observer)
    offered = make_candidates(setting, candidates, every)
    report = silent if progress is None else progress
    by_step: dict[float, list[Candidate]] = {}
    for candidate in offered:
        by_step.setdefault(candidate.dt, []).append(candidate)
    found = []
    for of_step in by_step.values():
        objective = setting.objective(of_step, [1] * len(of_step))
        information = _simulated_information(setting, objective, of_step, simulated, key, report)
        plan = Design(setting, objective, tuple(of_step), trials, criterion, information, simulated)
        found.append(_allocated(plan))
    return _noted(_best_step(found))


def _simulated_information(
    setting: Setting,
    objective: Objective,
    candidates: Sequence[Candidate],
    simulated: int,
    key: Any,
    report: Progress,
) -> TrialInformation:
    """What one trial of each candidate tells, by batch; axes (batch, candidate, p, p)."""
    C, in_batch = len(candidates), -(-simulated // BATCHES)
    R = BATCHES * in_batch
    point = np.asarray(objective.point(setting.at))
    report("simulating", 0, None)
    samples = np.asarray(samples_at(objective, jnp.asarray(point), R, key))
    single = objective.trials
    recorded = np.isfinite(single.observed)
    for candidate, there, drawn in zip(
        candidates, recorded, np.swapaxes(samples, 0, 1), strict=True
    ):
        if not np.isfinite(drawn[:, there]).all():
            raise InputError(f"candidate {candidate.label}: the agent has no policy there")
    many = Trials(
        samples.reshape(R * C, *samples.shape[2:]),
        single.times,
        channels=dict(zip(single.channel_names, single.channel_units, strict=True)),
        lengths=np.tile(single.lengths, R),
        conditions={name: np.tile(values, R) for name, values in single.conditions.items()},
    )
    many_trials = replace(objective, trials=many)
    found = trial_information(many_trials, point, (BATCHES, in_batch, C), report)
    for number, candidate in enumerate(candidates):
        if not all(np.isfinite(part[:, number]).all() for part in found):
            raise InputError(f"candidate {candidate.label}: its likelihood has no derivatives")
    return found


def _allocated(plan: Design) -> Design:
    """The design with its budget allocated: the best shares as whole trials, improved by exchange.

    Shares are those that are best for the Fisher information, in which the problem is convex. The
    exchange lowers what is expected of the likelihood that is used, which with signal-dependent
    noise is a little different, and starts at no worse than the allocations to compare with.
    """
    C = len(plan.candidates)
    shares = optimal_shares(plan.criterion, plan.trials * plan.fisher_information, plan.prior)
    starts = [
        whole_trials(shares, plan.trials),
        equal_trials(C, plan.trials),
        np.array(plan.single.counts),
    ]
    start = starts[int(np.argmin(plan.losses(np.stack(starts))))]
    counts = improved_by_exchange(start, plan.losses)
    return replace(plan, counts=tuple(counts.tolist()))


def _best_step(found: Sequence[Design]) -> Design:
    """The best of the designs with different steps of the model, and a note on the others."""
    own = np.array([float(plan.losses(np.array([plan.counts]))[0]) for plan in found])
    best = found[int(np.argmin(own))]
    others = [
        f"dt={plan.candidates[0].dt:g} needs {np.exp(loss - own.min()):.3g} times as many trials"
        for plan, loss in zip(found, own.tolist(), strict=True)
        if plan is not best
    ]
    if not others:
        return best
    note = f"dt={best.candidates[0].dt:g} was chosen, one for the whole experiment: "
    return replace(best, notes=(note + ", ".join(others) + ".",))


def _noted(plan: Design) -> Design:
    """The design with notes on what it will not tell."""
    even = equal_trials(len(plan.candidates), max(plan.trials, len(plan.candidates)))
    far_more = plan.expected(MANY_TIMES * even).relative_errors
    never = [name for name, error in far_more.items() if np.isinf(error)]
    notes = list(plan.notes)
    if len(never) == 1:
        notes.append(f"{never[0]} cannot be inferred: no candidate tells anything about it.")
    elif never:
        notes.append(
            f"{' and '.join(never)} cannot be inferred: the candidates tell a combination of "
            "them at most. Fix one, or offer other conditions or channels."
        )
    total = plan.total_information(np.array(plan.counts))
    open_ = [d.words for d in directions(plan.objective.coordinates, total) if d.words]
    here = [name for name, error in plan.relative_errors.items() if np.isinf(error)]
    if set(here) - set(never):
        notes.append(
            f"{plan.trials} trials are too few to tell {' and '.join(here)} within the support."
        )
    return replace(plan, notes=(*notes, *open_))
