"""The rows of problems that are longer, of more trials, or of more states (a reach with delay)."""

from collections.abc import Iterator
from functools import partial

import core
from cases import Reaching, Scale
from timing import Comparison


def comparisons(scale: Scale) -> Iterator[Comparison]:
    for steps in scale.all_steps:
        yield from _both(f"T = {steps:,}", Reaching(steps), scale.trials, slow=steps > 100)
    for n_trials in scale.all_trials:
        case = Reaching(scale.steps)
        yield from _both(f"{n_trials:,} trials", case, n_trials, slow=n_trials > 1_000)
    for delay in scale.delays:
        case = Reaching(scale.steps, delay)
        yield from _both(f"{5 * (1 + delay)} states", case, scale.trials, slow=delay > 0)


def _both(size: str, case: Reaching, n_trials: int, *, slow: bool) -> Iterator[Comparison]:
    """The value beside that of the direct implementation, and beside its own gradient.

    The gradient of the direct implementation keeps every step of every trial, which does not fit
    into memory at large sizes.
    """
    repeats = 3 if slow else 15
    yield Comparison(
        f"log likelihood, {size}",
        "straight",
        partial(core.values, case, n_trials),
        repeats,
        agree=1e-9,
    )
    yield Comparison(
        f"log likelihood, {size}",
        "value and gradient",
        partial(core.gradient_beside_value, case, n_trials),
        repeats,
    )
