"""Delays of the senses that were compared, and the choice.

A delay is a whole number of steps: it decides which states there are, so it has no derivative and
cannot be free. Several are fitted one after the other and compared by their log likelihood, a
profile at whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from motorcost import checks
from motorcost.errors import InputError
from motorcost.fitting.intervals import drop_of
from motorcost.tasks.late_senses import Delay

if TYPE_CHECKING:
    from motorcost.fitting.fitted import Fit

# Delays whose log likelihood is within so much of the best are within the 95 % interval.
WITHIN = drop_of(0.95)


@dataclass(frozen=True)
class DelayFit:
    """A delay that was tried, and the fit that has it.

    - `delay`: steps by which all senses are late, or in words where they differ.
    - `seconds`: the same in seconds, NaN where senses differ.
    - `log_likelihood`: -inf if the trials contradict the model.
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
    ...     delay=[0, 1],
    ...     key=jax.random.key(1),
    ... )
    >>> [tried.delay for tried in compared.delays]
    [0, 1]
    """

    delay: int | str
    seconds: float
    log_likelihood: float
    starts: int
    agreed: int
    converged: bool


def delays_of(delay: Delay | Sequence[Delay]) -> tuple[Delay, ...]:
    """The delays to try: one, or several in order and without duplicates."""
    listed = list(delay) if isinstance(delay, (Sequence, np.ndarray)) else [delay]
    if not listed:
        raise InputError("delay must be a number of steps, or a list of some to compare, got none")

    def whole(number: Any) -> int:
        return checks.whole("delay", number, 0, "steps by which senses are late")

    checked: list[Delay] = [
        {sense: whole(number) for sense, number in steps.items()}
        if isinstance(steps, Mapping)
        else whole(steps)
        for steps in listed
    ]
    return tuple(steps for i, steps in enumerate(checked) if steps not in checked[:i])


def in_words(delay: Delay) -> int | str:
    """A delay as a number of steps, or by sense in words."""
    if isinstance(delay, int):
        return delay
    return ", ".join(f"{sense} {steps}" for sense, steps in delay.items()) or 0


def delay_fit(delay: Delay, fit: Fit) -> DelayFit:
    """A delay that was tried, from the fit that has it."""
    return DelayFit(
        delay=in_words(delay),
        seconds=delay * fit.trials.dt if isinstance(delay, int) else math.nan,
        log_likelihood=fit.log_likelihood,
        starts=len(fit.starts),
        agreed=fit.agreed,
        converged=fit.converged,
    )


def impossible_delay(delay: Delay, dt: float) -> DelayFit:
    """A delay with which the trials contradict the model."""
    seconds = delay * dt if isinstance(delay, int) else math.nan
    return DelayFit(in_words(delay), seconds, -math.inf, starts=0, agreed=0, converged=False)


def delay_choice_in_words(tried: Sequence[DelayFit]) -> str:
    """Which delay was chosen of those that were tried, and which others are as probable."""
    best = max(tried, key=lambda found: found.log_likelihood)
    near = [
        str(found.delay)
        for found in tried
        if found is not best and best.log_likelihood - found.log_likelihood < WITHIN
    ]
    also = (
        f"; within {WITHIN:.2f} of it: {', '.join(near)}"
        if near
        else f"; no other is within {WITHIN:.2f}"
    )
    return (
        f"of {len(tried)} delays (in steps), {best.delay} was chosen, with the log likelihood "
        f"{best.log_likelihood:.6g}{also}"
    )


def delays_table(tried: Sequence[DelayFit]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Header and rows of a table of the delays that were tried."""
    best = max(found.log_likelihood for found in tried)
    header = ("delay (steps)", "seconds", "log likelihood", "below the best", "starts that agree")
    return header, [_row(found, best) for found in tried]


def _row(found: DelayFit, best: float) -> tuple[str, ...]:
    seconds = "" if math.isnan(found.seconds) else f"{found.seconds:.4g}"
    if math.isinf(found.log_likelihood):
        return str(found.delay), seconds, "impossible", "", ""
    settled = "" if found.converged else ", did not settle"
    return (
        str(found.delay),
        seconds,
        f"{found.log_likelihood:.6g}",
        f"{best - found.log_likelihood:.3g}",
        f"{found.agreed} of {found.starts}{settled}",
    )
