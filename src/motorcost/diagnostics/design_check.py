"""A check of a design: experiments that are simulated and fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from motorcost import checks
from motorcost.diagnostics.replicates import samples_at
from motorcost.diagnostics.resampling import refit
from motorcost.fitting.objective import DataSets
from motorcost.fitting.progress import Progress
from motorcost.markup import aligned, percent

if TYPE_CHECKING:
    from motorcost.diagnostics.designs import Allocation, Design
    from motorcost.plots.style import CaptionedFigure


@dataclass(frozen=True)
class DesignCheck:
    """Estimates from simulated experiments. Made by `Design.simulate`.

    - `optimal`, `equal`: relative errors of the estimates (experiment, parameter) under the design
      and under equal allocation: estimate minus truth on the search scale, relative to the truth.
    """

    plan: Design
    optimal: Float[np.ndarray, "R p"]
    equal: Float[np.ndarray, "R p"]

    @property
    def spread(self) -> dict[str, float]:
        """By name, the standard deviation of estimates under the design, as a relative error."""
        return self._named(self.optimal.std(axis=0, ddof=1))

    @property
    def equal_spread(self) -> dict[str, float]:
        """By name, the same under equal allocation."""
        return self._named(self.equal.std(axis=0, ddof=1))

    @property
    def spread_error(self) -> float:
        """The relative standard error of these standard deviations, for normal estimates."""
        return float(np.sqrt(0.5 / (len(self.optimal) - 1)))

    @property
    def gain(self) -> float:
        """How many times more trials equal allocation needs, from the mean of squared spreads."""
        ours, equal = (np.square(list(s.values())) for s in (self.spread, self.equal_spread))
        return float(equal.sum() / ours.sum())

    def plot(self) -> CaptionedFigure:
        """Draw the design, with how estimates scattered beside what was expected."""
        return self.plan.plot(self)

    def __str__(self) -> str:
        header, rows = self.table()
        lines = aligned(header, rows)
        lines.append(
            f"{len(self.optimal)} experiments each, fitted from the assumed true values; standard "
            f"deviations are known to about {percent(self.spread_error, 2)}."
        )
        return "\n".join(lines)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows: for each parameter what was expected, and how estimates scattered."""
        from motorcost.diagnostics.design_tables import error_in_words

        plan = self.plan
        columns = (
            plan.relative_errors, self.spread, plan.equal.relative_errors, self.equal_spread
        )  # fmt: skip
        header = ["parameter", "design, expected", "simulated", "equal, expected", "simulated"]
        return header, [[n, *(error_in_words(column[n]) for column in columns)] for n in plan.names]

    def _named(self, values: np.ndarray) -> dict[str, float]:
        return dict(zip(self.plan.names, values.tolist(), strict=True))


def check_design(plan: Design, key: Any, n_experiments: int, report: Progress) -> DesignCheck:
    """Simulate and fit experiments with the design and with equal allocation."""
    checks.random_key(key)
    checks.whole("n_experiments", n_experiments, 2, "experiments to simulate")
    keys = jax.random.split(key)
    both = (("the design", plan.optimal), ("equal allocation", plan.equal))
    errors = [
        _estimation_errors(plan, allocation, key_of, n_experiments, f"fitting {name}", report)
        for (name, allocation), key_of in zip(both, keys, strict=True)
    ]
    return DesignCheck(plan, *errors)


def _estimation_errors(
    plan: Design, allocation: Allocation, key: Any, n: int, what: str, report: Progress
) -> np.ndarray:
    """Relative errors of the estimates of experiments with this allocation: (experiment, p)."""
    objective = plan.setting.objective(plan.candidates, allocation.counts)
    report(what, 0, n)
    samples = samples_at(objective, jnp.asarray(plan.point), n, key)
    found, interrupted = refit(
        objective,
        plan.point,
        DataSets(observed=samples),
        tick=lambda done: report(what, done, n),
    )
    if interrupted:
        raise KeyboardInterrupt
    return (np.stack([search.point for search in found]) - plan.point) / plan.relative_scale
