"""Tasks: pure functions from named parameters, in natural units, to a `Problem`.

In the order of reading:

- `supports`: the values that a parameter can have, and what is known of it in advance.
- `declare`: the declaration of a task's parameters.
- `targets`: how far away the targets of trials are; `plausible_units`: units of recordings that
  were not given, or that cannot be right for a task.
- `delayed`: a task with senses that arrive late.
- `reaching`, `planar_reaching`, `posture`, `saccade`, `planar_saccade`, `tracking`: one task each,
  made of `motorcost.parts`; `pursuit`, `random_problem`.
"""

from motorcost.tasks.declare import (
    Parameter,
    Task,
    declare,
    default_costs,
    defaults,
    parameter_units,
    parameters,
    typical_values,
)
from motorcost.tasks.delayed import delayed
from motorcost.tasks.planar_reaching import planar_reaching
from motorcost.tasks.planar_saccade import planar_saccade
from motorcost.tasks.posture import posture
from motorcost.tasks.pursuit import pursuit, pursuit_starts, subjective_pursuit
from motorcost.tasks.random_problem import random_problem
from motorcost.tasks.reaching import reaching
from motorcost.tasks.saccade import saccade
from motorcost.tasks.tracking import tracking

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
