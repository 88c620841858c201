"""Tasks: pure functions from named parameters, in natural units, to a `Problem`.

In the order of reading:

- `supports`: the values that a parameter can have, and what is known of it in advance.
- `declare`: the declaration of a task's parameters.
- `reaching`, `saccade`, `tracking`, `pursuit`, `random_problem`: the tasks.
"""

from motorcost.tasks.declare import (
    Parameter,
    Task,
    declare,
    defaults,
    parameter_units,
    parameters,
    typical_values,
)
from motorcost.tasks.pursuit import pursuit, pursuit_starts, subjective_pursuit
from motorcost.tasks.random_problem import random_problem
from motorcost.tasks.reaching import reaching
from motorcost.tasks.saccade import saccade
from motorcost.tasks.tracking import tracking

__all__ = [
    "Parameter",
    "Task",
    "declare",
    "defaults",
    "parameter_units",
    "parameters",
    "pursuit",
    "pursuit_starts",
    "random_problem",
    "reaching",
    "saccade",
    "subjective_pursuit",
    "tracking",
    "typical_values",
]
