"""The declaration of a task's parameters: meaning, unit, role and support."""

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
    """A declared argument of a task.

    - `about`: what it means, in a few words.
    - `unit`: its unit, "" for a number without one.
    - `role`: costs, noises, spreads (how trials differ in where they start and what they aim at),
      constants of the body and beliefs can be inferred from behaviour; a condition (a target, a
      duration) is set by the experimenter.
    - `support`: the values that it can have, for parameters that can be inferred.
    - `typical`: a plausible value, where the default is none (a spread of 0, or None for a sense
      that there is not), which is no point to begin a search at.

    Examples
    --------
    >>> parameter = mc.tasks.parameters(mc.tasks.reaching)["effort"]
    >>> parameter.unit, parameter.role, str(parameter.support)
    ('m²/N²', 'cost', 'LogUniform(1e-08, 0.01)')
    """

    about: str
    unit: str = ""
    role: Literal["cost", "noise", "spread", "body", "belief", "condition"] = "cost"
    support: Support | None = None
    typical: float | None = None


def declare(**parameters: Parameter) -> Callable[[F], F]:
    """Return a decorator that declares the parameters of a task, by name.

    Every declared parameter must be an argument of the task with a default within its support. If a
    typical value is declared, the default may be None, or 0 for a spread.

    Examples
    --------
    >>> @mc.tasks.declare(
    ...     effort=mc.tasks.Parameter("cost of pushing", "1/N²", "cost", mc.LogUniform(1e-6, 1.0))
    ... )
    ... def holding(effort=0.01, steps=20):
    ...     return mc.Problem(
    ...         steps=steps, A=[[1.0]], B=[[0.1]], H=[[1.0]], W=[[0.1]], Q=[[1.0]], R=[[effort]]
    ...     )
    >>> mc.tasks.default_costs(holding)
    ['effort']
    """

    def attach(task: F) -> F:
        arguments = inspect.signature(task).parameters
        for name in parameters:
            if name not in arguments or arguments[name].default is inspect.Parameter.empty:
                raise InputError(f"the task {task.__name__} has no argument {name} with a default")
            _require_within(name, parameters[name], arguments[name].default)
        in_order = {name: parameters[name] for name in arguments if name in parameters}
        task.parameters = in_order  # type: ignore[attr-defined]
        return task

    return attach


def _require_within(name: str, parameter: Parameter, default: Any) -> None:
    """Raise unless the default of a parameter, or its typical value, lies within its support."""
    support, typical = parameter.support, parameter.typical
    if typical is not None and (support is None or typical not in support):
        raise InputError(
            f"the typical value of {name}, {typical:g}, lies outside its support {support}"
        )
    none = default is None or (parameter.role == "spread" and default == 0)
    none = none and typical is not None
    if support is not None and not none and default not in support:
        raise InputError(f"the default of {name}, {default:g}, lies outside its support {support}")


def parameters(task: Task) -> Mapping[str, Parameter]:
    """Return the declared parameters of a task, by name.

    Examples
    --------
    >>> list(mc.tasks.parameters(mc.tasks.reaching))[:4]
    ['effort', 'velocity', 'force', 'motor_noise']
    """
    declared = getattr(task, "parameters", None)
    if declared is None:
        name = getattr(task, "__name__", repr(task))
        raise InputError(f"the task {name} declares no parameters: decorate it with tasks.declare")
    return declared


def parameter_units(task: Task) -> dict[str, str]:
    """Return the units of a task's parameters, by name; empty for a task that declares none.

    Examples
    --------
    >>> mc.tasks.parameter_units(mc.tasks.reaching)["velocity"]
    's'
    """
    if getattr(task, "parameters", None) is None:
        return {}
    return {name: parameter.unit for name, parameter in parameters(task).items()}


def defaults(task: Task) -> dict[str, Any]:
    """Return the default values of a task's declared parameters, by name.

    Examples
    --------
    >>> mc.tasks.defaults(mc.tasks.reaching)["target"]
    0.1
    """
    signature = inspect.signature(task)
    return {name: signature.parameters[name].default for name in parameters(task)}


def defaults_of(task: Task) -> dict[str, Any]:
    """The defaults of a task's declared parameters; empty for a task that declares none."""
    return defaults(task) if hasattr(task, "parameters") else {}


def default_costs(task: Task) -> list[str]:
    """Return the names of the costs that a task has unless it is told otherwise: those with a
    default value.

    Examples
    --------
    >>> mc.tasks.default_costs(mc.tasks.reaching)
    ['effort', 'velocity', 'force']
    """
    values = defaults(task)
    return [
        name
        for name, parameter in parameters(task).items()
        if parameter.role == "cost" and values[name] is not None
    ]


def typical_values(task: Task) -> dict[str, Any]:
    """Return a plausible value of each of a task's declared parameters, by name: its default, or
    what is declared as typical where the default is 0 or None for "none".

    Searches may begin around them.

    Examples
    --------
    >>> mc.tasks.typical_values(mc.tasks.reaching)["aim_spread"]
    0.01
    """
    typical = {name: p.typical for name, p in parameters(task).items() if p.typical is not None}
    return defaults(task) | typical
