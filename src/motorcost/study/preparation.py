"""From recordings to what a model takes: steps that a study names, units and plausible sizes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from motorcost import checks, tasks
from motorcost.data.movements import Movements
from motorcost.errors import InputError
from motorcost.study import schema as toml
from motorcost.tasks.declare import Task

# Beyond this ratio of a recording's extent to the target's distance, units are wrong.
SCALE = 30.0


def prepared(movements: Movements, steps: Any) -> Movements:
    """The movements after each of the steps."""
    for step, arguments in steps:
        before = len(movements)
        movements = _STEPS[step](movements, arguments)
        if not len(movements):
            raise InputError(f"[prepare] {step} leaves none of {before} trials")
    return movements


def steps_from(table: toml.Table) -> list[tuple[str, dict[str, Any]]]:
    """The steps of a study's table, in its order, each with its arguments."""
    table.only(*_STEPS)
    return [(step, table.get(step, _ARGUMENTS[step])) for step in table.values]


def _keep(value: Any) -> dict[str, Any]:
    return {"where": toml.text(value)}


def _arguments(*needed: str, **kinds: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    def check(value: Any) -> dict[str, Any]:
        table = toml.mapping(value)
        for key in table:
            checks.one_of("key", key, list(kinds))
        for key in needed:
            if key not in table:
                raise InputError(f"needs {', '.join(needed)}; {key} is missing")
        return {key: kinds[key](each) for key, each in table.items()}

    return check


def _pair(value: Any) -> list[str]:
    if len(names := toml.texts(value)) != 2:
        raise InputError(f'must be two names, as ["x", "y"], got {value!r}')
    return names


_ARGUMENTS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "keep": _keep,
    "scale": _arguments(
        "factor", "unit", "names", factor=toml.number, unit=toml.text, names=toml.texts
    ),
    "units": toml.of_texts,
    "along": _arguments("goal", goal=_pair, start=_pair, channels=_pair, names=_pair),
    "cut": _arguments(
        speed=toml.number,
        fraction=toml.number,
        channels=toml.texts,
        margin=toml.number,
        smooth=toml.number,
    ),
    "least": _arguments(target=toml.number, duration=toml.number),
}


def _kept(movements: Movements, arguments: dict[str, Any]) -> Movements:
    name = arguments["where"].removeprefix("not ").strip()
    checks.one_of("condition", name, list(movements.conditions))
    true = numeric(name, movements.conditions[name]).astype(bool)
    if arguments["where"].startswith("not "):
        true = ~true
    return movements.keep(true, f"kept are those with {arguments['where']}")


def _at_least(movements: Movements, arguments: dict[str, Any]) -> Movements:
    if "target" in arguments:
        checks.one_of("condition", "target", list(movements.conditions))
        far = np.abs(numeric("target", movements.conditions["target"])) >= arguments["target"]
        movements = movements.keep(far, f"the target is nearer than {arguments['target']:g}")
    if "duration" in arguments:
        long = [time[-1] - time[0] >= arguments["duration"] for time in movements.times]
        why = f"shorter than {arguments['duration']:g} s"
        movements = movements.keep(np.array(long, bool), why)
    return movements


_STEPS: dict[str, Callable[[Movements, dict[str, Any]], Movements]] = {
    "keep": _kept,
    "scale": lambda movements, given: movements.scaled(**given),
    "units": lambda movements, given: movements.in_units(**given),
    "along": lambda movements, given: movements.along(**given),
    "cut": lambda movements, given: movements.cut(**given),
    "least": _at_least,
}


def numeric(name: str, values: np.ndarray) -> np.ndarray:
    """The values of a condition, if they are numbers or true and false."""
    if values.dtype.kind not in "biuf":
        raise InputError(f"the condition {name!r} must be numbers, got {str(values[0])!r}")
    return values


def in_model_units(
    movements: Movements, units: dict[str, str], task: Task, notes: list[str]
) -> Movements:
    """Channels in the units of the states, conditions in those of the task's parameters."""
    declared = tasks.parameters(task) if hasattr(task, "parameters") else {}
    wanted = units | {name: parameter.unit for name, parameter in declared.items()}
    has = movements.channels | movements.condition_units
    change = {
        name: wanted[name]
        for name, unit in has.items()
        if unit and wanted.get(name) and unit != wanted[name]
    }
    assumed = [
        f"{name} in {wanted[name]}" for name, unit in has.items() if not unit and wanted.get(name)
    ]
    if assumed:
        notes.append(f"no units were given; taken for granted: {', '.join(assumed)}")
    return movements.in_units(**change)


def check_scale(movements: Movements, task: Task, fixed: dict[str, Any]) -> None:
    """Raise where a recording and its target cannot be in the same unit."""
    defaults = tasks.defaults(task) if hasattr(task, "parameters") else {}
    if "target" not in defaults or not len(movements):
        return
    unit = tasks.parameters(task)["target"].unit
    target = movements.conditions.get("target", fixed.get("target", defaults["target"]))
    away = float(np.median(np.abs(np.asarray(target, float))))
    problem = task(**fixed)
    states = dict(zip(problem.state_names, problem.state_units, strict=True))
    for i, name in enumerate(movements.channels):
        if states.get(name) != unit or name == "target":
            continue
        columns = [one[np.isfinite(one[:, i]), i] for one in movements.samples]
        extent = float(np.median([np.ptp(column) for column in columns if column.size] or [0.0]))
        if away > 0 and extent > 0 and not 1 / SCALE < extent / away < SCALE:
            raise InputError(
                f"{name} covers {extent:.3g} {unit} in a trial, but the target is at {away:.3g} "
                f'{unit}: one of them is in another unit (units = {{ {name} = "mm" }}), or the '
                "target of the trials is not given"
            )


def interval(movements: Movements) -> float:
    """Seconds between samples, at the median."""
    gaps = np.concatenate([np.zeros(0), *[np.diff(time) for time in movements.times]])
    if not gaps.size:
        raise InputError("no trial has two samples")
    return float(f"{float(np.median(gaps)):.9g}")
