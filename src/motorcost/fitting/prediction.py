"""The conditions of fitted trials, and new trials at the estimates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from motorcost import checks
from motorcost.errors import InputError
from motorcost.fitting.objective import Objective
from motorcost.fitting.specification import takes_arguments
from motorcost.model.simulate import simulate
from motorcost.model.solver import solve
from motorcost.model.trials import Trials

if TYPE_CHECKING:
    from motorcost.fitting.fitted import Fit


def conditions_of(objective: Objective) -> dict[str, np.ndarray]:
    """Return the conditions of the fitted trials by name, with names in place of group numbers."""
    conditions = objective.trials.conditions
    for grouping in objective.groupings:
        if not grouping.task_takes_it:
            numbers = conditions[grouping.label].astype(int)
            conditions[grouping.label] = np.array(grouping.groups)[numbers]
    return conditions


def predict_trials(
    fit: Fit, n_trials: int, key: Any, steps: int | None, conditions: Mapping[str, Any]
) -> Trials:
    """Simulate trials at the estimates of a fit; see `Fit.predict`."""
    groups = {grouping.label: grouping.groups for grouping in fit.objective.groupings}
    for name, value in conditions.items():
        _check_condition(fit, name, value)
        if name in groups and value not in groups[name]:
            there = ", ".join(str(group) for group in groups[name])
            raise InputError(f"no fitted trial has the {name} {value!r}; there are: {there}")
    index, found = _like(fit, conditions)
    values = {name: column[index].item() for name, column in fit.conditions.items()}
    values |= conditions
    coded = dict(values)
    for grouping in fit.objective.groupings:
        if not grouping.task_takes_it:
            coded[grouping.label] = float(grouping.groups.index(values[grouping.label]))
    length = int(fit.trials.lengths[index]) if steps is None else steps
    problem, observer = fit.at(steps=length, **coded)
    start = None if fit.trials.starts is None or not found else fit.trials.starts[index]
    predicted = simulate(
        problem,
        solve(problem),
        n_trials=n_trials,
        key=key,
        observer=observer,
        initial_states=start,
    )
    return predicted.observed_from(fit.trials.lead_steps).with_conditions(**values)


def _like(fit: Fit, conditions: Mapping[str, Any]) -> tuple[int, bool]:
    """The first fitted trial with these conditions, and whether there is one (else the first)."""
    same = np.ones(len(fit.trials), bool)
    for name, value in conditions.items():
        same &= fit.conditions[name] == value if name in fit.conditions else False
    return int(np.argmax(same)), bool(same.any())


def _check_condition(fit: Fit, name: str, value: Any) -> None:
    """Raise unless a condition can be chosen: what was inferred or fixed cannot."""
    fixed = dict(fit.objective.fixed)
    free = {coordinate.parameter for coordinate in fit.objective.coordinates}
    if name in free or name in fixed:
        kind = "inferred" if name in free else f"fixed at {fixed[name]}"
        raise InputError(f"{name} cannot be a condition of a prediction: it was {kind} in the fit")
    others = [other for other in takes_arguments(fit.objective.task) if other not in free]
    others = [other for other in others if other not in fixed and other != "steps"]
    checks.one_of("condition", name, list(dict.fromkeys([*others, *fit.conditions])))
    if np.ndim(value) != 0:
        raise InputError(
            f"the condition {name} of a prediction must be one value for all its trials, got "
            f"shape {np.shape(value)}: predict each condition, and join them with mc.concatenate"
        )
