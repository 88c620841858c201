"""Tasks say what their parameters mean."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from motorcost.errors import InputError
from motorcost.tasks.supports import Support

Task = Callable[..., Any]
F = TypeVar("F", bound=Task)


@dataclass(frozen=True)
class Parameter:
    """One argument of a task.

    `role` tells what may be asked of it: costs, noises and the body's constants can be
    inferred from behaviour; a condition (a target, a duration) is set by the experimenter.
    `support` is where it can lie, for what can be inferred.
    """

    about: str
    unit: str = ""
    role: Literal["cost", "noise", "body", "condition"] = "cost"
    support: Support | None = None


def declare(**parameters: Parameter) -> Callable[[F], F]:
    """Decorate a task with its parameters, by name."""

    def attach(task: F) -> F:
        takes = inspect.signature(task).parameters
        for name in parameters:
            if name not in takes or takes[name].default is inspect.Parameter.empty:
                raise InputError(f"the task {task.__name__} takes no {name} with a default")
            support, default = parameters[name].support, takes[name].default
            if support is not None and default not in support:
                raise InputError(
                    f"the default of {name}, {default:g}, lies outside its support {support}"
                )
        task.parameters = parameters  # type: ignore[attr-defined]
        return task

    return attach


def parameters(task: Task) -> Mapping[str, Parameter]:
    """The declared parameters of a task, by name."""
    declared = getattr(task, "parameters", None)
    if declared is None:
        name = getattr(task, "__name__", repr(task))
        raise InputError(f"the task {name} declares no parameters: decorate it with tasks.declare")
    return declared


def defaults(task: Task) -> dict[str, Any]:
    """The value each declared parameter has unless it is given."""
    signature = inspect.signature(task)
    return {name: signature.parameters[name].default for name in parameters(task)}
