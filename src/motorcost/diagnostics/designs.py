"""The result of a search for a design: an experiment, and what to expect of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from motorcost.diagnostics.allocation import (
    Criterion,
    equal_trials,
    losses,
)
from motorcost.diagnostics.candidates import (
    Candidate,
    Setting,
)
from motorcost.diagnostics.trial_information import (
    TrialInformation,
    information_about_maximum,
)
from motorcost.errors import InputError
from motorcost.fitting.information import covariance_of
from motorcost.fitting.objective import Objective
from motorcost.fitting.progress import Progress, silent

if TYPE_CHECKING:
    from motorcost.diagnostics.design_check import DesignCheck
    from motorcost.plots.style import CaptionedFigure

# Batches of simulated trials, from whose differences the Monte-Carlo error is estimated.
BATCHES = 20


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
    >>> plan.names, len(plan.counts)
    (('effort',), 2)
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
        total = self.total_information(counts) * np.outer(scale, scale)
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

    def plot(self, check: DesignCheck | None = None) -> CaptionedFigure:
        """Draw the trials of each candidate and the expected errors; see `mc.plots.plot_design`."""
        from motorcost.plots.design import plot_design

        return plot_design(self, check)

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

    def total_information(self, counts: np.ndarray) -> np.ndarray:
        """The information of each row of counts, on the search scale."""
        sums = [
            np.einsum("...c,cij->...ij", counts, part.mean(axis=0)) for part in self.information
        ]
        return information_about_maximum(*sums)

    def _search_scale_errors(self, counts: np.ndarray) -> np.ndarray:
        cov = covariance_of(self.objective.supports, self.total_information(counts))
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
