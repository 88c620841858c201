"""Before an experiment: which conditions, and how many trials of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from motorcost import checks
from motorcost.diagnostics.allocation import (
    CRITERIA,
    Criterion,
    equal_trials,
    improved_by_exchange,
    losses,
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
from motorcost.diagnostics.replicates import samples_at
from motorcost.diagnostics.trial_information import (
    TrialInformation,
    information_about_maximum,
    trial_information,
)
from motorcost.errors import InputError
from motorcost.fitting.information import covariance_of, directions
from motorcost.fitting.objective import Objective
from motorcost.fitting.progress import Progress, silent
from motorcost.fitting.specification import Free
from motorcost.model.observer import ObserverLike
from motorcost.model.trials import Trials
from motorcost.tasks.declare import Task

if TYPE_CHECKING:
    from motorcost.diagnostics.design_check import DesignCheck

# Batches of simulated trials, from whose differences the Monte-Carlo error is estimated.
BATCHES = 20
# What a parameter's error still is with so many times more trials, no experiment will tell.
MANY_TIMES = 10_000


@dataclass(frozen=True)
class Allocation:
    """Trials of each candidate, and what to expect of them.

    - `counts`: the number of trials of each candidate, in their order.
    - `standard_errors`, `relative_errors`: by name, in natural units and as fractions of the
      assumed true values (of the support's width, for a value of 0); infinite for what these
      trials do not tell.
    - `monte_carlo`: by name, the relative error of these figures, which come from simulated trials.
    """

    counts: tuple[int, ...]
    standard_errors: dict[str, float]
    relative_errors: dict[str, float]
    monte_carlo: dict[str, float]


@dataclass(frozen=True)
class Design:
    """An experiment with small standard errors. Made by `design`.

    - `candidates`: the conditions that were offered; `trials`: the budget.
    - `optimal`, `equal`, `single`: `Allocation`s of the budget: the one that was found, the same
      number for all candidates, and all of it for the best candidate.
    - `information`: what one trial of each candidate tells, in batches of simulated trials:
      `curvatures` and `squares` with axes (batch, candidate, parameter, parameter), on the search
      scale.
    - `simulated`: trials of each candidate from which that was averaged.
    - `notes`: warnings, in sentences.
    """

    setting: Setting
    objective: Objective
    candidates: tuple[Candidate, ...]
    trials: int
    criterion: Criterion
    information: TrialInformation
    simulated: int
    counts: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What is to be inferred."""
        return self.objective.names

    @property
    def point(self) -> np.ndarray:
        """The assumed true values on the search scale."""
        return np.asarray(self.objective.point(self.setting.at))

    @property
    def allocation(self) -> list[tuple[dict[str, Any], int]]:
        """The conditions that were chosen, with their numbers of trials."""
        pairs = zip(self.candidates, self.counts, strict=True)
        return [(candidate.conditions, count) for candidate, count in pairs if count]

    @property
    def standard_errors(self) -> dict[str, float]:
        """By name, in natural units, under the design."""
        return self.optimal.standard_errors

    @property
    def relative_errors(self) -> dict[str, float]:
        """By name, as fractions of the assumed true values, under the design."""
        return self.optimal.relative_errors

    @property
    def optimal(self) -> Allocation:
        """The allocation that was found."""
        return self.expected(self.counts)

    @property
    def equal(self) -> Allocation:
        """The same number of trials of all candidates."""
        return self.expected(equal_trials(len(self.candidates), self.trials))

    @property
    def single(self) -> Allocation:
        """All trials of the one best candidate."""
        every = self.trials * np.eye(len(self.candidates), dtype=int)
        return self.expected(every[int(np.argmin(self.losses(every)))])

    @property
    def hardest(self) -> str:
        """The parameter with the largest relative error under the design."""
        return max(self.relative_errors.items(), key=lambda item: item[1])[0]

    @property
    def gain(self) -> float:
        """How many times more trials an equal allocation needs for the same criterion."""
        return self.gain_over(self.equal.counts)[0]

    def gain_over(self, counts: Sequence[int]) -> tuple[float, float]:
        """How many times more trials this allocation needs for the same criterion, and the
        Monte-Carlo standard error of that."""
        both = np.array([counts, self.counts])
        gain = float(np.exp(-np.diff(self.losses(both))[0]))
        without = [np.diff(part.losses(both))[0] for part in self._without_each_batch()]
        return gain, gain * _jackknife(np.array(without))

    def expected(self, counts: Sequence[int] | np.ndarray) -> Allocation:
        """What to expect of an experiment with these numbers of trials of the candidates."""
        C = len(self.candidates)
        row = np.asarray(counts)
        if row.shape != (C,) or row.dtype.kind not in "iu" or (row < 0).any():
            raise InputError(f"counts must be {C} numbers of trials, one per candidate")
        errors = self._search_scale_errors(row)
        without = [part._search_scale_errors(row) for part in self._without_each_batch()]
        with np.errstate(invalid="ignore"):
            monte_carlo = _jackknife(np.log(without))
        return Allocation(
            tuple(row.tolist()),
            self._named(errors * self._natural_scale),
            self._named(errors / self.relative_scale),
            self._named(monte_carlo),
        )

    def losses(self, counts: np.ndarray) -> np.ndarray:
        """The criterion of each row of counts: the log of a mean relative variance."""
        scale = self.relative_scale
        total = self._total_information(counts) * np.outer(scale, scale)
        return losses(self.criterion, total + self.prior)

    @property
    def prior(self) -> Float[np.ndarray, "p p"]:
        """What is known before the experiment, on the scale of relative errors: that parameters
        lie within their supports. It keeps the criterion finite where trials tell nothing."""
        width = np.array([support.width for support in self.objective.supports])
        return np.diag((self.relative_scale / width) ** 2)

    @property
    def fisher_information(self) -> Float[np.ndarray, "C p p"]:
        """The mean square of the score of one trial of each candidate, for relative errors."""
        scale = self.relative_scale
        return self.information.squares.mean(axis=0) * np.outer(scale, scale)

    def summary(self) -> str:
        """The design as a text of two tables and a few sentences."""
        from motorcost.diagnostics.design_tables import summary_text

        return summary_text(self)

    def __str__(self) -> str:
        return self.summary()

    def simulate(
        self, *, key: Any, n_experiments: int = 100, progress: Progress | None = None
    ) -> DesignCheck:
        """Check what is expected: simulate experiments with the design and with an equal
        allocation, fit each from the assumed true values, and compare how estimates scatter."""
        from motorcost.diagnostics.design_check import check_design

        return check_design(self, key, n_experiments, silent if progress is None else progress)

    @property
    def relative_scale(self) -> np.ndarray:
        """What an error on the search scale is divided by to be relative."""
        values = np.array([self.setting.at[name] for name in self.names])
        pairs = zip(self.objective.supports, np.abs(values).tolist(), strict=True)
        return np.array([1.0 if s.logarithmic else value or s.width for s, value in pairs])

    @property
    def _natural_scale(self) -> np.ndarray:
        """What an error on the search scale is multiplied by to be in natural units."""
        pairs = zip(self.objective.supports, self.names, strict=True)
        return np.array([self.setting.at[name] if s.logarithmic else 1.0 for s, name in pairs])

    def _named(self, values: np.ndarray) -> dict[str, float]:
        return dict(zip(self.names, values.tolist(), strict=True))

    def _total_information(self, counts: np.ndarray) -> np.ndarray:
        """The information of each row of counts, on the search scale."""
        sums = [
            np.einsum("...c,cij->...ij", counts, part.mean(axis=0)) for part in self.information
        ]
        return information_about_maximum(*sums)

    def _search_scale_errors(self, counts: np.ndarray) -> np.ndarray:
        cov = covariance_of(self.objective.supports, self._total_information(counts))
        return np.sqrt(np.diagonal(cov))

    def _without_each_batch(self) -> list[Design]:
        """The design with each of the batches of simulated trials left out, for the jackknife."""
        return [
            replace(
                self,
                information=TrialInformation(
                    *(np.delete(part, batch, axis=0) for part in self.information)
                ),
            )
            for batch in range(BATCHES)
        ]


def _jackknife(without: np.ndarray) -> Any:
    """The standard error of a figure, from its values with each batch left out."""
    B = len(without)
    return np.sqrt((B - 1) / B * ((without - without.mean(axis=0)) ** 2).sum(axis=0))


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
    one = objective.trials
    recorded = np.isfinite(one.observed)
    for candidate, there, drawn in zip(
        candidates, recorded, np.swapaxes(samples, 0, 1), strict=True
    ):
        if not np.isfinite(drawn[:, there]).all():
            raise InputError(f"candidate {candidate.label}: the agent has no policy there")
    many = Trials(
        samples.reshape(R * C, *samples.shape[2:]),
        one.times,
        channels=dict(zip(one.channel_names, one.channel_units, strict=True)),
        lengths=np.tile(one.lengths, R),
        conditions={name: np.tile(values, R) for name, values in one.conditions.items()},
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
    total = plan._total_information(np.array(plan.counts))
    open_ = [d.words for d in directions(plan.objective.coordinates, total) if d.words]
    here = [name for name, error in plan.relative_errors.items() if np.isinf(error)]
    if set(here) - set(never):
        notes.append(
            f"{plan.trials} trials are too few to tell {' and '.join(here)} within the support."
        )
    return replace(plan, notes=(*notes, *open_))
