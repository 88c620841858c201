"""A task with senses that arrive late."""

from collections.abc import Mapping
from functools import cache, wraps
from typing import Any

from motorcost import checks
from motorcost.errors import InputError
from motorcost.model.delay import delay
from motorcost.model.problem import Problem
from motorcost.tasks.declarations import Task

Delay = int | Mapping[str, int]


def delayed(task: Task, steps: Delay) -> Task:
    """Return the task with senses that are late by so many steps, all or by name (`mc.delay`).

    Its parameters are those of the task. A task with a parameter `delay` of its own (`pursuit`)
    gets it instead.

    Examples
    --------
    >>> task = mc.tasks.delayed(mc.tasks.reaching, 2)
    >>> task(steps=12).A.shape
    (11, 11, 11)
    """
    if isinstance(steps, Mapping):
        return _delayed(task, tuple(sorted(steps.items())))
    return _delayed(task, checks.whole("steps", steps, 0, "steps by which senses are late"))


# The same function for the same delay, so that its programs are compiled once.
@cache
def _delayed(task: Task, late: int | tuple[tuple[str, int], ...]) -> Task:
    steps = late if isinstance(late, int) else dict(late)

    of_its_own = "delay" in getattr(task, "parameters", {})

    @wraps(task)
    def delayed_task(**arguments: Any) -> Problem:
        if of_its_own and arguments.get("delay", 0) != 0:
            raise InputError("the delay is given twice: leave out the one of the task or the other")
        if of_its_own:
            return task(**arguments | {"delay": steps})
        return delay(task(**arguments), steps)

    # So that a fit of it can be stored and loaded again; with the function itself, because one
    # that wraps it copies this attribute.
    delayed_task.delayed_by = {  # type: ignore[attr-defined]
        "function": delayed_task,
        "task": task,
        "steps": steps,
    }
    return delayed_task
