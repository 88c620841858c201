"""How probable recordings are, at the sliders and along each of them, and what was believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from motorcost.fitting.batching import BatchedObjective
from motorcost.fitting.objective import DataSets, Objective, step_and_structure
from motorcost.fitting.specification import make_objective, usual_noise
from motorcost.inference.beliefs import Beliefs, track_beliefs
from motorcost.model.observer import SHARED_NOISE, ObserverSpec
from motorcost.model.problem import Problem
from motorcost.model.trials import Trials
from motorcost.tasks.declarations import Task
from motorcost.tasks.supports import Support

# Points of a slice, and how far it reaches to either side: as a factor, or as a share of the
# support.
SLICE_POINTS = 17
_FACTOR = 3.0
_SHARE = 0.25
# Points that are computed together.
_BATCH = 4
# Likelihoods that are kept: those of the last places of sliders that are constants of it.
_KEPT = 16


@dataclass(frozen=True)
class Slice:
    """The log likelihood along one parameter, the others at their sliders."""

    name: str
    values: np.ndarray
    log_likelihoods: np.ndarray


class Meter:
    """Measures how probable trials are under a task.

    - `task`: with its delay, and with the beliefs of its agent.
    - `trials`: on the model's grid.
    - `supports`: by name, where parameters can lie; that of the recording noise may be left out.
    - `whole`: values that are no real numbers, as numbers of steps.
    """

    def __init__(
        self,
        task: Task,
        trials: Trials,
        supports: Mapping[str, Support],
        whole: Mapping[str, Any] | None = None,
    ) -> None:
        self.task, self.trials, self._whole = task, trials, dict(whole or {})
        self.supports = {SHARED_NOISE: usual_noise(np.asarray(trials.observed)), **supports}
        self._likelihoods: dict[object, BatchedObjective] = {}
        self._objectives: dict[object, Objective] = {}

    def value(self, values: Mapping[str, float]) -> float:
        """The log likelihood at values by name, with the SD of the recording noise among them;
        -inf where the trials contradict the model."""
        batched = self._likelihood(values)
        return float(self._along(batched, values, SHARED_NOISE, None)[0])

    def slice(self, name: str, values: Mapping[str, float]) -> Slice:
        """The log likelihood along a parameter whose value lies within its support."""
        line = _around(self.supports[name], values[name])
        return Slice(name, line, self._along(self._likelihood(values), values, name, line))

    def _along(
        self,
        batched: BatchedObjective,
        values: Mapping[str, float],
        name: str,
        line: np.ndarray | None,
    ) -> np.ndarray:
        objective = batched.objective
        point = np.asarray(objective.point(values))
        points = np.tile(point, (1 if line is None else len(line), 1))
        if line is not None:
            scaled = np.asarray(self.supports[name].to_search_scale(line))
            points[:, objective.names.index(name)] = scaled
        return batched(np.zeros(len(points), int), points)[0]

    def _likelihood(self, values: Mapping[str, float]) -> BatchedObjective:
        """The likelihood as a function of what lies within its support. The rest, such as a spread
        or a recording noise of 0, is constant."""
        inside = {n: s for n, s in self.supports.items() if n in values and values[n] in s}
        constant = {
            name: value
            for name, value in values.items()
            if name not in (*inside, *self.trials.conditions, SHARED_NOISE)
        }
        key = (tuple(inside), tuple(constant.items()))
        if key not in self._likelihoods:
            _make_room(self._likelihoods)
            self._likelihoods[key] = self._made(inside, constant)
        return self._likelihoods[key]

    def _made(
        self, inside: Mapping[str, Support], constant: Mapping[str, float]
    ) -> BatchedObjective:
        """The likelihood with these constants, by the program of the same with other constants.

        A constant of the objective is one of its program, which would be compiled for each place of
        its slider. So it is handed over as what data sets differ in.
        """
        names = (tuple(inside), tuple(constant))
        if names not in self._objectives:
            _make_room(self._objectives)
            self._objectives[names] = make_objective(
                self.task,
                self.trials,
                inside,
                fixed={**constant, **self._whole},
                observer=ObserverSpec(self.trials.channel_names),
            )
        objective = self._objectives[names]
        data = DataSets(columns={name: jnp.array([value]) for name, value in constant.items()})
        # With a noise of 0, say, there are fewer directions in which trials can vary.
        _, structure = step_and_structure(objective, data)
        objective = replace(objective, structure=structure)
        return BatchedObjective(objective, data, expected=_BATCH, gradient=False, priors=False)

    def beliefs(self, trial: int, values: Mapping[str, float]) -> Beliefs:
        """What the agent believed in one trial, given all of its samples."""
        followed = self.trials[[trial]]
        given = {n: v for n, v in values.items() if n not in (*followed.conditions, SHARED_NOISE)}

        def task(**conditions: float) -> Problem:
            return self.task(**given, **self._whole, **{"dt": self.trials.dt} | conditions)

        observer = ObserverSpec(self.trials.channel_names, values.get(SHARED_NOISE, 0.0))
        return track_beliefs(task, followed, observer=observer, smooth=True)


def _make_room(kept: dict[object, Any]) -> None:
    """Leave the oldest out, if there is no room for one more."""
    if len(kept) >= _KEPT:
        del kept[next(iter(kept))]


def _around(support: Support, value: float) -> np.ndarray:
    """Values around one, evenly on the search scale, within the support."""
    reach = np.log(_FACTOR) if support.logarithmic else _SHARE * support.width
    middle = np.log(value) if support.logarithmic else value
    low, high = support.bounds
    line = np.linspace(max(low, middle - reach), min(high, middle + reach), SLICE_POINTS)
    return np.clip(np.exp(line) if support.logarithmic else line, support.low, support.high)
