"""How long before the first sample a movement began: leads that were tried, and the choice.

A model begins at rest, while movements that are cut out of a recording are under way at their first
sample (`Trials.with_lead`). Leads are compared by the log likelihood of the samples after the
first, given the first. The first sample itself is left out because it is often the origin of the
frame: it is 0 by construction then, which a model without a lead predicts perfectly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from motorcost import checks
from motorcost.errors import InputError
from motorcost.fitting.batching import BatchedObjective

if TYPE_CHECKING:
    from motorcost.fitting.fitted import Fit

Lead = float | Sequence[float] | np.ndarray


@dataclass(frozen=True)
class LeadFit:
    """A lead that was tried, and the fit that has it.

    - `lead`: seconds before the first sample.
    - `log_likelihood`: of all samples; `after_first_sample`: of the samples after the first, given
      it, by which leads are compared. -inf if the trials contradict the model.
    - `starts`, `agreed`: the number of searches, and how many found the maximum.
    - `converged`: whether the search settled at a maximum.

    Examples
    --------
    >>> compared = mc.fit(
    ...     mc.tasks.reaching,
    ...     positions,
    ...     ["effort"],
    ...     observer=camera,
    ...     n_starts=1,
    ...     lead=[0.0, 0.01],
    ...     key=jax.random.key(1),
    ... )
    >>> len(compared.leads)
    2
    """

    lead: float
    log_likelihood: float
    after_first_sample: float
    starts: int
    agreed: int
    converged: bool


def leads_of(lead: Lead) -> tuple[float, ...]:
    """The leads to try, from a number of seconds or several; in order, without duplicates."""
    checks.nonnegative(lead=lead)
    listed = np.ravel(lead).tolist()
    if not listed:
        raise InputError("lead must be a number of seconds, or a list of some to compare, got none")
    return tuple(dict.fromkeys(sorted(float(seconds) for seconds in listed)))


def lead_fit(fit: Fit) -> LeadFit:
    """A lead that was tried, from the fit that has it."""
    return LeadFit(
        lead=fit.trials.lead,
        log_likelihood=fit.log_likelihood,
        after_first_sample=fit.log_likelihood - _of_first_samples(fit),
        starts=len(fit.starts),
        agreed=fit.agreed,
        converged=fit.converged,
    )


def impossible_lead(seconds: float) -> LeadFit:
    """A lead with which the trials contradict the model."""
    nothing = -math.inf
    return LeadFit(seconds, nothing, nothing, starts=0, agreed=0, converged=False)


def _of_first_samples(fit: Fit) -> float:
    """The log likelihood of the first sample of each trial alone, by the program of the fit."""
    observed = np.asarray(fit.trials.observed)
    later = np.arange(observed.shape[1]) != fit.trials.lead_steps
    first = jnp.asarray(np.where(later[:, None], np.nan, observed))
    objective = eqx.tree_at(lambda o: o.trials.observed, fit.objective, first)
    batched = BatchedObjective(objective, expected=fit.size)
    return float(batched(np.zeros(1, int), fit.point[None])[0][0])


def choice_in_words(tried: Sequence[LeadFit], best: LeadFit) -> str:
    """Which lead was chosen of those that were tried, by how much, and which of the others did not
    settle."""
    gains = {
        found.lead: best.after_first_sample - found.after_first_sample
        for found in tried
        if found.lead != best.lead
    }
    others = [
        f"{lead:g} s is impossible" if math.isinf(gain) else f"{gain:.3g} more than with {lead:g} s"
        for lead, gain in gains.items()
    ]
    count = "1 lead" if len(tried) == 1 else f"{len(tried)} leads"
    value = f"the log likelihood of the samples after the first is {best.after_first_sample:.6g}"
    choice = ", ".join([f"of {count}, {best.lead:g} s was chosen: {value}", *others])
    open_ones = [
        f"{found.lead:g} s"
        for found in tried
        if not found.converged and found is not best and math.isfinite(found.after_first_sample)
    ]
    if not open_ones:
        return choice
    return f"{choice}; with {' and '.join(open_ones)} the search did not settle and may reach more"


def leads_table(tried: Sequence[LeadFit]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Header and rows of a table of the leads that were tried."""
    header = ("lead (s)", "log likelihood", "of samples after the first", "starts that agree")
    rows = [
        (f"{found.lead:g}", "impossible", "", "")
        if math.isinf(found.after_first_sample)
        else (
            f"{found.lead:g}",
            f"{found.log_likelihood:.6g}",
            f"{found.after_first_sample:.6g}",
            f"{found.agreed} of {found.starts}" + ("" if found.converged else ", did not settle"),
        )
        for found in tried
    ]
    return header, rows
