"""A task, recorded trials and what is free: the log likelihood as a function of a point.

A point has a coordinate for each free parameter, or for each of its levels if subjects or blocks
have one each, on the line that its support runs on (mostly the logarithm).
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from motorcost import checks
from motorcost.errors import InputError
from motorcost.inference.fully_observed import innovation_rank
from motorcost.inference.grouping import group_trials
from motorcost.inference.likelihood import log_likelihoods_at
from motorcost.model.observer import Observer, ObserverSpec
from motorcost.model.problem import Problem
from motorcost.model.trials import Trials
from motorcost.numerics.compiling import lean_jit
from motorcost.tasks import parameters as declared_parameters
from motorcost.tasks.declare import Task
from motorcost.tasks.supports import LogUniform, Support

Free = Mapping[str, Support | None] | Sequence[str]  # None, or a name alone: the usual support
Point = Float[Array, " p"]


class Coordinate(eqx.Module):
    """One number to be found: a parameter, or one level's value of it."""

    parameter: str = eqx.field(static=True)
    support: Support = eqx.field(static=True)
    level: Any = eqx.field(static=True, default=None)

    @property
    def name(self) -> str:
        """What to call it: `effort`, or `effort[anna]`."""
        return self.parameter if self.support.per is None else f"{self.parameter}[{self.level}]"


class Objective(eqx.Module):
    """The log likelihood of trials as a function of a point. Made by `make_objective`."""

    trials: Trials
    task: Task = eqx.field(static=True)
    observer: Callable[[Problem], Observer] = eqx.field(static=True)
    coordinates: tuple[Coordinate, ...] = eqx.field(static=True)
    fixed: tuple[tuple[str, Any], ...] = eqx.field(static=True)
    labels: tuple[tuple[str, tuple[Any, ...]], ...] = eqx.field(static=True)
    telling: int | None = eqx.field(static=True, default=None)  # see `fully_observed`

    @property
    def names(self) -> tuple[str, ...]:
        """The coordinates' names."""
        return tuple(coordinate.name for coordinate in self.coordinates)

    @property
    def problems(self) -> int:
        """How many problems the trials need at a point: one for each length and condition."""
        columns = [self.trials.lengths, *self.trials.conditions.values()]
        return len(set(zip(*(column.tolist() for column in columns), strict=True)))

    @property
    def states(self) -> int:
        """How many states the task's problems have."""
        middle = jnp.array([c.support.middle for c in self.coordinates])
        return len(jax.eval_shape(self.one, middle)[0].state_names)

    def one(self, point: Point) -> tuple[Problem, Observer]:
        """The problem and observer of the first trial."""
        first = {name: values[0].item() for name, values in self.trials.conditions.items()}
        return self.at(point)(steps=int(self.trials.lengths[0]), **first)

    @property
    def supports(self) -> list[Support]:
        """Where each coordinate can lie."""
        return [coordinate.support for coordinate in self.coordinates]

    @property
    def bounds(self) -> np.ndarray:
        """Low and high of each coordinate on its line, shape (p, 2)."""
        return np.array([support.bounds for support in self.supports])

    def values(self, point: Any) -> dict[str, Any]:
        """Natural values by coordinate's name, within the supports whatever the rounding."""
        each = [(c.name, c.support, x) for c, x in zip(self.coordinates, point, strict=True)]
        return {name: jnp.clip(s.from_search_scale(x), s.low, s.high) for name, s, x in each}

    def point(self, values: Mapping[str, Any]) -> Array:
        """The point of natural values by name; a parameter's name alone stands for all levels."""
        each = [values.get(c.name, values.get(c.parameter)) for c in self.coordinates]
        for coordinate, value in zip(self.coordinates, each, strict=True):
            if value is None:
                raise InputError(f"a value for {coordinate.name} is missing")
            if checks.is_concrete(value) and value not in coordinate.support:
                raise InputError(
                    f"{coordinate.name} must lie in {coordinate.support}, got {value:g}"
                )
        supports = [c.support for c in self.coordinates]
        return jnp.array(
            [s.to_search_scale(value) for s, value in zip(supports, each, strict=True)]
        )

    def at(self, point: Any) -> Callable[..., tuple[Problem, Observer]]:
        """The problem and observer at a point, as a function of steps and conditions."""
        coordinates, fixed = self.coordinates, dict(self.fixed)

        def make(steps: int, **conditions: Any) -> tuple[Problem, Observer]:
            levels = {by: conditions.pop(_level_of(by)) for by, _ in self.labels}
            found: dict[str, Any] = {}
            for name in dict.fromkeys(c.parameter for c in coordinates):
                own = [i for i, c in enumerate(coordinates) if c.parameter == name]
                support = coordinates[own[0]].support
                value = support.from_search_scale(point[np.array(own)])
                level = 0 if support.per is None else levels[support.per]
                found[name] = value[jnp.asarray(level).astype(int)]
            seen = {name: found.pop(name) for name in list(found) if of_recording(name)}
            problem = self.task(steps=steps, **fixed, **found, **conditions)
            if seen:
                return problem, its_recording(self.observer).with_noises(seen)(problem)
            return problem, self.observer(problem)

        return make

    def log_likelihoods(self, point: Point) -> Float[Array, " N"]:
        """Of each trial; -inf for all where the model cannot be."""
        return log_likelihoods_at(self.at, point[None], self.trials, rank=self.telling)[0]

    def log_prior(self, point: Any) -> Float[Array, ""]:
        """Of all coordinates, up to a constant."""
        each = zip(self.coordinates, point, strict=True)
        return sum((c.support.log_prior(x) for c, x in each), jnp.zeros(()))


@lean_jit
def evaluate(
    objective: Objective,
    points: Float[Array, "S p"],
    weights: Float[Array, "S N"],
    gradient: bool,
    priors: bool,
    observed: Float[Array, "S N T o"] | None = None,
) -> tuple[Float[Array, " S"], Float[Array, "S p"]]:
    """The log likelihood at each point (with `priors`: plus log prior), and its gradient (zeros
    unless asked for).

    Each trial is counted by its weight: 0 leaves it out, 2 takes it twice. Each point may have
    samples of its own.
    """

    def values_at(points: Float[Array, "S p"]) -> Float[Array, " S"]:
        values = log_likelihoods_at(
            objective.at,
            points,
            objective.trials,
            observed=observed,
            weights=weights,
            rank=objective.telling,
        )
        return values + jax.vmap(objective.log_prior)(points) if priors else values

    if not gradient:
        return values_at(points), jnp.zeros_like(points)
    values, pull_back = jax.vjp(values_at, points)
    return values, pull_back(jnp.ones_like(values))[0]  # no point has to do with another's value


@lean_jit
def scores(objective: Objective, point: Point) -> tuple[Float[Array, " N"], Float[Array, "N p"]]:
    """Each trial's log likelihood, and its derivative by each coordinate."""

    def twice(point: Point) -> tuple[Array, Array]:
        each = objective.log_likelihoods(point)
        return each, each

    derivative, each = jax.jacfwd(twice, has_aux=True)(point)
    return each, derivative


def make_objective(
    task: Task,
    trials: Trials,
    free: Free,
    *,
    fixed: Mapping[str, Any] | None = None,
    observer: Callable[[Problem], Observer] | None = None,
) -> Objective:
    """Check what a user hands in, and put it together. See `fit` for the arguments."""
    checks.require_float64()
    if not callable(task) or isinstance(task, Problem):
        raise InputError(f"a task is a function that makes a Problem, got {task!r}")
    if not isinstance(trials, Trials):
        raise InputError(
            "fitting needs Trials: mc.Trials.recorded(samples, dt=...), or mc.io.read(file)"
        )
    if len(trials) == 0:
        raise InputError("there are no trials")
    if observer is None:
        observer = ObserverSpec(trials.channel_names)
    if not callable(observer) or isinstance(observer, Observer):
        raise InputError(
            "observer must be a function of the problem, as mc.ObserverSpec(['position'], 1e-3)"
        )
    takes = takes_arguments(task)
    fixed = dict(fixed or {})
    for name in fixed:
        checks.one_of("parameter", name, takes)
    fixed = {
        name: it.item() if np.ndim(it) == 0 and hasattr(it, "item") else it
        for name, it in fixed.items()
    }
    step = float(trials.times[1] - trials.times[0])
    if "dt" in takes and not np.isclose(fixed.setdefault("dt", step), step, rtol=1e-6):
        _wrong_step(step, fixed["dt"])
    supports = supports_of(task, free, observer, trials)
    for name in (*supports, *fixed):
        if name == "steps":
            raise InputError("steps cannot be free or fixed: the trials' lengths tell it")
        if name in fixed and name in trials.conditions:
            raise InputError(f"{name} cannot be fixed: it is a condition of the trials")
    for name in supports:
        if name in fixed:
            raise InputError(f"{name} cannot be both free and fixed")
        if name in trials.conditions:
            raise InputError(f"{name} cannot be free: it is a condition of the trials")
    by = dict.fromkeys(s.per for s in supports.values() if s.per is not None)
    labels = tuple((name, _levels(name, trials)) for name in by)
    coordinates = [
        Coordinate(name, support, level)
        for name, support in supports.items()
        for level in ((None,) if support.per is None else dict(labels)[support.per])
    ]
    objective = Objective(
        trials=_for_task(task, trials, labels),
        task=task,
        observer=observer,
        coordinates=tuple(coordinates),
        fixed=tuple(fixed.items()),
        labels=labels,
    )
    dt, telling = _probe(objective)
    if not np.isclose(dt, step, rtol=1e-6):  # a task with a step of its own
        _wrong_step(step, float(dt))
    return dataclasses.replace(objective, telling=int(telling))


@eqx.filter_jit
def _probe(objective: Objective) -> tuple[Float[Array, ""], Int[Array, ""]]:
    """The task's step, and how many channels of a sample tell something new: at a few points well
    within the supports, because at their ends noises may vanish."""
    supports = [c.support for c in objective.coordinates]
    points = jnp.array([[s.middle + part * s.width for s in supports] for part in (-0.1, 0.0, 0.1)])

    def at(point: Point) -> tuple[Array, Array]:
        # Of all lengths and conditions: noises may differ between them.
        groups = group_trials(objective.at(point), objective.trials, None, None)
        problems = [group.problem for group, _ in groups]
        return problems[0].dt[0], jnp.stack(
            [jax.vmap(innovation_rank)(each).max() for each in problems]
        ).max()

    dt, telling = jax.vmap(at)(points)
    return dt[0], telling.max()


def _wrong_step(trials: float, problem: float) -> NoReturn:
    raise InputError(
        f"the trials are on a grid of {trials:g} s, the problem steps by {problem:g} s"
    )


def takes_arguments(task: Task) -> list[str]:
    """The names of what a task takes."""
    if hasattr(task, "parameters"):
        return list(declared_parameters(task))
    return list(inspect.signature(task).parameters)


def supports_of(
    task: Task,
    free: Free,
    observer: Callable[[Problem], Observer] | None,
    trials: Trials | None = None,
) -> dict[str, Support]:
    """Where each free parameter can lie, by name: as given, or the task's usual support. Recording
    noise has a usual one only where `trials` tell the size of what was recorded."""
    if isinstance(free, str) or not isinstance(free, (Mapping, Sequence)):
        raise InputError(f"free must name parameters with their support, got {free!r}")
    if not free:
        raise InputError("nothing is free: name at least one parameter to infer")
    takes = takes_arguments(task)
    noises = observer.parameters if isinstance(observer, ObserverSpec) else ()
    given: Mapping[str, Support | None]
    given = free if isinstance(free, Mapping) else dict.fromkeys(free)
    supports: dict[str, Support] = {}
    for name, support in given.items():
        checks.one_of("parameter", name, [*takes, *noises])
        if support is None:
            support = _usual_support(task, name, trials)
        if not isinstance(support, Support):
            raise InputError(
                f"the support of {name} must be made by LogUniform(low, high), Uniform, LogNormal "
                f"or Normal, got {support!r}"
            )
        supports[name] = support
    if "recording_noise" in supports and any(
        name != "recording_noise" and of_recording(name) for name in supports
    ):
        raise InputError("recording_noise stands for all channels: free it or theirs, not both")
    return supports


def _usual_support(task: Task, name: str, trials: Trials | None) -> Support:
    if of_recording(name) and trials is not None:
        one = name.removeprefix("recording_noise_")
        samples = np.asarray(trials.observed)
        if one in trials.channel_names:
            samples = samples[..., [trials.channel_names.index(one)]]
        size = float(np.nanmax(samples) - np.nanmin(samples)) or 1.0
        return LogUniform(1e-5 * size, 0.5 * size)
    support = declared_parameters(task)[name].support if hasattr(task, "parameters") else None
    if support is None:
        raise InputError(
            f"{name} has no support of its own: say where it can lie, as in "
            f"free={{'{name}': mc.LogUniform(low, high)}}"
        )
    return support


def _levels(by: str, trials: Trials) -> tuple[Any, ...]:
    if by not in trials.conditions:
        known = ", ".join(trials.conditions) or "none"
        raise InputError(f"the trials have no condition {by!r} to tell levels by; theirs: {known}")
    return tuple(np.unique(trials.conditions[by]).tolist())


def _for_task(task: Task, trials: Trials, labels: Iterable[tuple[str, tuple[Any, ...]]]) -> Trials:
    """What was recorded of the trials, with the conditions that the task takes, and each trial's
    level of each label, both as real numbers where they can be: such trials run together."""
    takes = takes_arguments(task)
    conditions: dict[str, Any] = {}
    for name, values in trials.conditions.items():
        if name in takes:
            whole = values.dtype.kind in "iu" and not _takes_whole(task, name)
            conditions[name] = values.astype(float) if whole else values
    for by, levels in labels:
        code = {level: float(i) for i, level in enumerate(levels)}
        conditions[_level_of(by)] = np.array([code[v] for v in trials.conditions[by].tolist()])
    return Trials(
        trials.observed,
        trials.times,
        starts=trials.starts,
        channels=dict(zip(trials.channel_names, trials.channel_units, strict=True)),
        lengths=trials.lengths,
        conditions=conditions,
    )


def _takes_whole(task: Task, name: str) -> bool:
    return isinstance(inspect.signature(task).parameters[name].default, int)


def _level_of(by: str) -> str:
    return f"level of {by}"


def of_recording(name: str) -> bool:
    """Whether a parameter is the recording's noise, rather than the task's."""
    return name.startswith("recording_noise")


def its_recording(observer: Any) -> ObserverSpec:
    """The observer, if its noise can be a parameter."""
    if not isinstance(observer, ObserverSpec):
        raise InputError("recording noise can be inferred of a mc.ObserverSpec only")
    return observer
