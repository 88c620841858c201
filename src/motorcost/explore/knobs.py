"""The sliders of a task: what each sets, and over which range."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any

import numpy as np

from motorcost import tasks
from motorcost.model.problem import Problem
from motorcost.tasks.declarations import Parameter, Task
from motorcost.tasks.supports import LogUniform, Support, Uniform

# Factors by which an agent may misjudge the noise of its motor commands and of its senses.
BELIEVED_MOTOR = "believed_motor_noise"
BELIEVED_SENSORY = "believed_sensory_noise"
BELIEFS = {
    BELIEVED_MOTOR: Parameter(
        "motor noise that the agent believes in, as a multiple of what there is",
        "×",
        "belief",
        Uniform(0.0, 3.0),
    ),
    BELIEVED_SENSORY: Parameter(
        "sensory noise that the agent believes in, as a multiple of what there is",
        "×",
        "belief",
        LogUniform(0.1, 10.0),
    ),
}
# Set by the recordings, or in ways of their own.
_NOT_SLIDERS = ("dt", "steps", "delay", "vision_delay", "proprioception_delay", "problem_seed")
# The most steps by which senses can be late.
MOST_DELAY = 20
# A slider that starts at zero ends at so many times the typical value.
_TIMES_TYPICAL = 5.0
# Positions of a slider.
POSITIONS = 400


@dataclass(frozen=True)
class Knob:
    """A slider.

    - `name`: the argument of the task; `about`, `unit`, `role` as the task declares them.
    - `low`, `high`, `default`: natural values.
    - `logarithmic`: whether equal ways on the slider are equal factors.
    - `support`: where the parameter can lie, if it can be inferred.
    """

    name: str
    about: str
    unit: str
    role: str
    low: float
    high: float
    default: float
    logarithmic: bool
    support: Support | None

    def position(self, value: float) -> float:
        """Where the slider stands for a value: its decimal logarithm, or the value itself."""
        value = float(np.clip(value, self.low, self.high))
        return float(np.log10(value)) if self.logarithmic else value

    def value(self, position: float) -> float:
        """The value at a position, rounded to what can be read beside the slider."""
        exact = 10.0**position if self.logarithmic else position
        return float(f"{np.clip(exact, self.low, self.high):.4g}")


def knobs_of(task: Task, given: Mapping[str, Any] | None = None) -> dict[str, Knob]:
    """The sliders of a task, by name. `given` are values that differ from its defaults."""
    values = tasks.defaults(task) | dict(given or {})
    declared = tasks.parameters(task)
    found = {}
    for name, parameter in declared.items():
        value = values[name]
        if name in _NOT_SLIDERS or value is None or isinstance(value, (bool, str)):
            continue
        if np.ndim(value) or (parameter.support is None and isinstance(value, int)):
            continue
        same_unit = [values[n] for n, p in declared.items() if p.unit == parameter.unit]
        largest = max((abs(v) for v in same_unit if isinstance(v, float)), default=0.0)
        found[name] = _knob(name, parameter, float(value), largest or 1.0)
    return found


def _knob(name: str, parameter: Parameter, value: float, largest: float) -> Knob:
    support = parameter.support
    if support is None:  # a condition: as far as the largest of its unit, and twice that
        low, high, logarithmic = (-2 * largest if value <= 0 else 0.0), 2 * largest, False
    elif value <= 0 and support.logarithmic:  # a spread, which may be none
        low, high, logarithmic = 0.0, _TIMES_TYPICAL * (parameter.typical or support.high), False
    else:
        low, high, logarithmic = support.low, support.high, support.logarithmic
    low, high = min(low, value), max(high, value)
    return Knob(
        name=name,
        about=parameter.about,
        unit=parameter.unit,
        role=parameter.role,
        low=low,
        high=high,
        default=value,
        logarithmic=logarithmic,
        support=support,
    )


@cache  # the same function for the same task, so that its programs are compiled once
def mistaken(task: Task) -> Task:
    """A task whose agent may misjudge its noises: two parameters more, both 1 if it is right.

    It is the task itself if that has these parameters.
    """
    if set(BELIEFS) <= set(tasks.parameters(task)):
        return task

    @wraps(task)
    def believing(*args: Any, **values: Any) -> Problem:
        motor, sensory = (values.pop(name, 1.0) for name in BELIEFS)
        problem = task(*args, **values)
        return problem.believing(
            C=[motor * term for term in problem.C.swapaxes(0, 1)],
            W=sensory * problem.W,
            D=[sensory * term for term in problem.D.swapaxes(0, 1)],
        )

    signature = inspect.signature(task)
    further = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=1.0) for name in BELIEFS
    ]
    believing.parameters = {**tasks.parameters(task), **BELIEFS}  # type: ignore[attr-defined]
    believing.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), *further]
    )
    return believing
