"""Tasks: pure functions from named parameters, in natural units, to a `Problem`."""

from motorcost.tasks.declare import Parameter, Task, declare, defaults, parameters
from motorcost.tasks.random_problem import random_problem
from motorcost.tasks.reaching import reaching
from motorcost.tasks.saccade import saccade
from motorcost.tasks.tracking import tracking

__all__ = [
    "Parameter",
    "Task",
    "declare",
    "defaults",
    "parameters",
    "random_problem",
    "reaching",
    "saccade",
    "tracking",
]
