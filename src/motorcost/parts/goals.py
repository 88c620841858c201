"""Goals: what is to be achieved, and when.

A goal is a sum of squares, (weight times expression)². An expression names a quantity of the body
or a point, "velocity", or the difference of two, "position - target". Where one is not enough,
it is a mapping from names to factors, {"angle": 1.0, "target": -0.5}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from motorcost import checks
from motorcost.errors import InputError

Expression = str | Mapping[str, Any]
Weights = Mapping[str, Any] | list[tuple[Expression, Any]]


class Goal(NamedTuple):
    """What is to be achieved, and when.

    - `terms`: pairs of an expression and its weight.
    - `share`: from T, the number of steps, to how much the goal counts at each of them.

    Examples
    --------
    >>> goal = mc.parts.at_end({"velocity": 0.2})
    >>> goal.terms
    [('velocity', 0.2)]
    """

    terms: list[tuple[Expression, Any]]
    share: Callable[[int], Any]


def at_end(weights: Weights) -> Goal:
    """A goal at the last step.

    Examples
    --------
    >>> mc.parts.at_end({"position - target": 1.0, "velocity": 0.2}).terms
    [('position - target', 1.0), ('velocity', 0.2)]
    """
    return last_steps(1, weights)


def throughout(weights: Weights) -> Goal:
    """A goal at every step.

    Examples
    --------
    >>> list(mc.parts.throughout({"position": 1.0}).terms)
    [('position', 1.0)]
    """
    return Goal(_terms(weights), np.ones)


def first_steps(count: int, weights: Weights) -> Goal:
    """A goal that is held during the first steps.

    Examples
    --------
    >>> hold = mc.parts.first_steps(5, {"position": 1.0})
    >>> list(hold.terms)
    [('position', 1.0)]
    """
    checks.whole("count", count, 0, "the number of first steps")
    return Goal(_terms(weights), lambda T: (np.arange(T) < count).astype(float))


def last_steps(count: int, weights: Weights) -> Goal:
    """A goal that is held during the last steps.

    Examples
    --------
    >>> list(mc.parts.last_steps(10, {"position - target": 1.0}).terms)
    [('position - target', 1.0)]
    """
    checks.whole("count", count, 0, "the number of last steps")
    return Goal(_terms(weights), lambda T: (np.arange(T) >= T - count).astype(float))


def at_time(time: Any, dt: Any, weights: Weights) -> Goal:
    """A goal at a time, in seconds from the first step.

    Between two steps it is shared by both in proportion, so that the cost is continuous in the
    time. It must lie within the trial.

    Examples
    --------
    >>> goal = mc.parts.at_time(0.15, 0.01, {"position - via": 1.0})
    >>> list(goal.terms)
    [('position - via', 1.0)]
    """

    def share(T: int) -> Any:
        at = time / dt
        if checks.is_concrete(at) and not 0 <= at <= (T - 1) * (1 + 1e-12):
            raise InputError(
                f"a goal must lie within the trial of {float((T - 1) * dt):g} s, got a time of "
                f"{float(time):g} s"
            )
        return checks.array_module(at).maximum(0.0, 1.0 - abs(np.arange(T) - at))

    return Goal(_terms(weights), share)


def factors(expression: Expression) -> Mapping[str, Any]:
    """The names in an expression, with their factors."""
    if not isinstance(expression, str):
        return expression
    first, *others = (name.strip() for name in expression.split(" - "))
    if first in others or len(set(others)) < len(others):
        raise InputError(f"the expression {expression!r} names a quantity twice")
    return {first: 1.0} | dict.fromkeys(others, -1.0)


def _terms(weights: Weights) -> list[tuple[Expression, Any]]:
    return list(weights.items()) if isinstance(weights, Mapping) else list(weights)
