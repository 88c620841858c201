"""Tasks: pure functions from named parameters, in natural units, to a `Problem`.

In the order of reading:

- `supports`: the values that a parameter can have, and what is known of it in advance.
- `declarations`: the declaration of a task's parameters.
- `targets`: how far away the targets of trials are; `plausible_units`: units of recordings that
  were not given, or that cannot be right for a task.
- `late_senses`: a task with senses that arrive late.
- `_reaching`, `_planar_reaching`, `_posture`, `_saccade`, `_planar_saccade`, `_tracking`: one task
  each, made of `motorcost.parts`; `_pursuit`, `_random_problem`.
"""

from motorcost.tasks._planar_reaching import planar_reaching
from motorcost.tasks._planar_saccade import planar_saccade
from motorcost.tasks._posture import posture
from motorcost.tasks._pursuit import pursuit, pursuit_starts, subjective_pursuit
from motorcost.tasks._random_problem import random_problem
from motorcost.tasks._reaching import reaching
from motorcost.tasks._saccade import saccade
from motorcost.tasks._tracking import tracking
from motorcost.tasks.declarations import (
    Parameter,
    Task,
    declare,
    default_costs,
    defaults,
    parameter_units,
    parameters,
    typical_values,
)
from motorcost.tasks.late_senses import delayed

__all__ = [
    "Parameter",
    "Task",
    "declare",
    "default_costs",
    "defaults",
    "delayed",
    "parameter_units",
    "parameters",
    "planar_reaching",
    "planar_saccade",
    "posture",
    "pursuit",
    "pursuit_starts",
    "random_problem",
    "reaching",
    "saccade",
    "subjective_pursuit",
    "tracking",
    "typical_values",
]
