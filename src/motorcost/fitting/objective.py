"""The log likelihood of trials as a function of a point.

A point has a coordinate for each free parameter, or one for each group if subjects or blocks have
values of their own, on the search scale of its support (mostly the natural logarithm).

One objective may serve many data sets of the same shape: their samples, the weights of their
trials and the values of some parameters then differ (`DataSets`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from motorcost import checks
from motorcost.errors import InputError
from motorcost.inference.fully_observed import innovation_rank
from motorcost.inference.grouping import OWN, group_trials, kinds_of
from motorcost.inference.likelihood import log_likelihoods_at
from motorcost.inference.structure import UNKNOWN, Structure
from motorcost.model.joint import can_vary
from motorcost.model.minima import Accuracy
from motorcost.model.observer import Observer, ObserverSpec
from motorcost.model.problem import Problem
from motorcost.model.solver import EXACT, ROUGH
from motorcost.model.trials import Trials
from motorcost.numerics.compiling import lean_jit
from motorcost.tasks.declarations import Task
from motorcost.tasks.supports import Support

Point = Float[Array, " p"]
# The problem and observer of given steps and conditions.
ProblemMaker = Callable[..., tuple[Problem, Observer]]


class Coordinate(eqx.Module):
    """One number to be found: a parameter of the task or the observer, or its value in a group."""

    parameter: str = eqx.field(static=True)
    support: Support = eqx.field(static=True)
    group: Any = eqx.field(static=True, default=None)
    of_observer: bool = eqx.field(static=True, default=False)

    @property
    def name(self) -> str:
        """The name shown to users: `effort`, or `effort[anna]`."""
        return self.parameter if self.support.per is None else f"{self.parameter}[{self.group}]"


class Grouping(eqx.Module):
    """A label of the trials whose groups have parameter values of their own.

    A trial's group is told by the condition of the label's name: its value where the task takes
    that condition too (`task_takes_it`), otherwise the group's number.
    """

    label: str = eqx.field(static=True)
    groups: tuple[Any, ...] = eqx.field(static=True)
    task_takes_it: bool = eqx.field(static=True)

    def index(self, value: Any) -> Int[Array, ""]:
        """The number of the group, from a trial's condition."""
        if not self.task_takes_it:
            return jnp.asarray(value).astype(int)
        if isinstance(value, str):
            return jnp.asarray(self.groups.index(value))
        return jnp.argmin(jnp.abs(jnp.array(self.groups) - value))


class DataSets(eqx.Module):
    """What differs between D data sets that share an objective; None where nothing does.

    - `observed`: the samples of each.
    - `weights`: how often each trial counts: 0 leaves it out, 2 takes it twice.
    - `columns`: by name, the value of a fixed parameter in each.
    """

    observed: Float[Array, "D N T o"] | None = None
    weights: Float[Array, "D N"] | None = None
    columns: dict[str, Array] = eqx.field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of data sets, D."""
        leaves = jax.tree.leaves(self)
        return leaves[0].shape[0] if leaves else 1


class Objective(eqx.Module):
    """The log likelihood of trials as a function of a point. Made by `make_objective`."""

    trials: Trials
    task: Task = eqx.field(static=True)
    observer: Callable[[Problem], Observer] = eqx.field(static=True)
    coordinates: tuple[Coordinate, ...] = eqx.field(static=True)
    fixed: tuple[tuple[str, Any], ...] = eqx.field(static=True)
    groupings: tuple[Grouping, ...] = eqx.field(static=True, default=())
    structure: Structure = eqx.field(static=True, default=UNKNOWN)  # of the problems
    notes: tuple[str, ...] = eqx.field(static=True, default=())
    defaults: tuple[tuple[str, float], ...] = eqx.field(static=True, default=())  # of the task

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the coordinates."""
        return tuple(coordinate.name for coordinate in self.coordinates)

    @property
    def supports(self) -> list[Support]:
        """Where each coordinate can lie."""
        return [coordinate.support for coordinate in self.coordinates]

    @property
    def bounds(self) -> np.ndarray:
        """The lowest and highest value of each coordinate on the search scale, shape (p, 2)."""
        return np.array([support.bounds for support in self.supports])

    @property
    def n_samples(self) -> float:
        """The number of samples that were recorded: the scale of log likelihoods that matter."""
        return float(np.isfinite(np.asarray(self.trials.observed)).sum())

    @property
    def n_problems(self) -> int:
        """How many problems the trials need at a point: one for each length and condition."""
        return len(kinds_of(self.trials))

    @property
    def has_curvatures(self) -> bool:
        """Whether there are enough kinds of trials for the variance of their scores to tell the
        curvature of the log likelihood."""
        return self.n_problems >= 2 * len(self.coordinates)

    def first_problem(
        self, point: Point, columns: Mapping[str, Array] | None = None
    ) -> tuple[Problem, Observer]:
        """The problem and observer of the first trial at a point."""
        first = {name: values[0].item() for name, values in self.trials.conditions.items()}
        return self.at(point, columns)(steps=int(self.trials.lengths[0]), **first)

    def n_states(self, data: DataSets) -> int:
        """The number of states of the task's problems."""
        middle = jnp.array([*(support.middle for support in self.supports), 0.0])
        problem, _ = jax.eval_shape(lambda x: self.first_problem(x, data.columns), middle)
        return len(problem.state_names)

    def values(self, point: Any) -> dict[str, Any]:
        """Natural values by coordinate's name, within the supports whatever the rounding."""
        return {
            c.name: jnp.clip(c.support.from_search_scale(x), c.support.low, c.support.high)
            for c, x in zip(self.coordinates, point, strict=True)
        }

    def point(self, values: Mapping[str, Any]) -> Array:
        """The point of natural values by name; a parameter's name alone stands for all groups."""
        point = []
        for coordinate in self.coordinates:
            value = values.get(coordinate.name, values.get(coordinate.parameter))
            if value is None:
                raise InputError(f"a value for {coordinate.name} is missing")
            if checks.is_concrete(value) and value not in coordinate.support:
                raise InputError(
                    f"{coordinate.name} must lie in {coordinate.support}, got {value:g}"
                )
            point.append(coordinate.support.to_search_scale(value))
        return jnp.array(point)

    def usual_point(self) -> np.ndarray:
        """The defaults of the task and of the observer's noises, on the search scale; NaN for what
        has no default within its support."""
        values = dict(self.defaults)
        point = np.full(len(self.coordinates), np.nan)
        for k, coordinate in enumerate(self.coordinates):
            value = values.get(coordinate.parameter)
            if coordinate.of_observer and isinstance(self.observer, ObserverSpec):
                value = self.observer.usual_noise(coordinate.parameter)
            if value is not None and value in coordinate.support:
                point[k] = float(coordinate.support.to_search_scale(float(value)))
        return point

    def at(self, point: Any, columns: Mapping[str, Array] | None = None) -> ProblemMaker:
        """The problem and observer at a point, as a function of steps and conditions.

        With `columns`, the point's last entry is the number of the data set whose values of these
        parameters are taken. What a kind of trials has of its own (see `group_trials`) are values
        of the free parameters, which take the place of those at the point.
        """
        at_point = self.free_values(point)

        def make(steps: int, **conditions: Any) -> tuple[Problem, Observer]:
            of_groups = conditions.pop(OWN, at_point)
            fixed = dict(self.fixed)
            if columns:
                data_set = jnp.asarray(point[len(self.coordinates)]).astype(int)
                fixed |= {name: values[data_set] for name, values in columns.items()}
            indices = {
                grouping.label: grouping.index(conditions[grouping.label])
                for grouping in self.groupings
            }
            for grouping in self.groupings:
                if not grouping.task_takes_it:
                    del conditions[grouping.label]
            free = {
                c.parameter: of_groups[c.parameter][
                    0 if c.support.per is None else indices[c.support.per]
                ]
                for c in self.coordinates
            }
            noises = {c.parameter for c in self.coordinates if c.of_observer}
            of_task = {name: value for name, value in free.items() if name not in noises}
            problem = self.task(steps=steps, **fixed, **of_task, **conditions)
            if not noises:
                return problem, self.observer(problem)
            assert isinstance(self.observer, ObserverSpec)  # only its noises can be free
            return problem, self.observer.with_noises({n: free[n] for n in noises})(problem)

        return make

    def free_values(self, points: Any) -> dict[str, Array]:
        """The values of the free parameters at `points` (..., p), by name: (..., group)."""
        values = {}
        for name in dict.fromkeys(c.parameter for c in self.coordinates):
            indices = [i for i, c in enumerate(self.coordinates) if c.parameter == name]
            support = self.coordinates[indices[0]].support
            values[name] = support.from_search_scale(points[..., np.array(indices)])
        return values

    def log_likelihoods(self, point: Point) -> Float[Array, " N"]:
        """The log likelihood of each trial; -inf for all where the model has no policy."""
        return log_likelihoods_at(self.at, point[None], self.trials, structure=self.structure)[1][0]

    def log_prior(self, point: Any) -> Float[Array, ""]:
        """The log prior of all coordinates, up to a constant."""
        terms = [c.support.log_prior(x) for c, x in zip(self.coordinates, point, strict=True)]
        return sum(terms, jnp.zeros(()))


class Evaluated(NamedTuple):
    """What `evaluate` returns for S points.

    - `values`: the log likelihoods; with priors, the log posteriors.
    - `gradients`: zero unless they were asked for.
    - `per_trial`: the log likelihood of each trial.
    - `curvatures`: the variance of the kinds' scores, which is about minus the second derivative of
      the log likelihood (Berndt, Hall, Hall and Hausman 1974), where the objective has curvatures.
    """

    values: Float[Array, " S"]
    gradients: Float[Array, "S p"]
    per_trial: Float[Array, "S N"]
    curvatures: Float[Array, "S p p"] | None


@lean_jit
def evaluate(
    objective: Objective,
    data: DataSets,
    which: Int[Array, " S"],
    points: Float[Array, "S p"],
    counted: Float[Array, " S"],
    rough: Bool[Array, ""],
    *,
    gradient: bool,
    priors: bool,
) -> Evaluated:
    """The log likelihood of data set `which[i]` at `points[i]`, with its derivatives.

    With `priors`, the log prior is added. Points whose `counted` is 0 rather than 1 only fill up
    the batch: their value is 0. Where `rough` is true, policies are looked for less carefully
    (`solver.ROUGH`): enough for a search on its way.
    """
    # Picked here, so that an accelerator is sent all data once and not at every step.
    observed = None if data.observed is None else data.observed[which]
    weights = jnp.ones((len(which), len(objective.trials)))
    weights = counted[:, None] * (weights if data.weights is None else data.weights[which])
    accuracy = Accuracy(*(jnp.where(rough, *both) for both in zip(ROUGH, EXACT, strict=True)))
    # A copy of the point for each kind of trials: the derivatives by the copies are their scores.
    with_scores = gradient and objective.has_curvatures
    copies = points
    if with_scores:
        copies = jnp.repeat(points[:, None], objective.n_problems, axis=1)

    def values_at(copies: Float[Array, "S *kinds p"]) -> tuple[Array, Array]:
        of_point = points if with_scores else copies
        at = jnp.concatenate([of_point, which[:, None].astype(float)], axis=-1)
        values, per_trial = log_likelihoods_at(
            lambda at: objective.at(at[0], data.columns),
            (at, copies),
            objective.trials,
            own=(lambda at: objective.free_values(at[1])) if with_scores else None,
            observed=observed,
            weights=weights,
            structure=objective.structure,
            accuracy=accuracy,
        )
        assert values is not None  # there are weights
        return values, per_trial

    gradients, curvatures = jnp.zeros_like(points), None
    if gradient:
        # No point affects another's value, so one pull-back of ones gives every gradient.
        values, pull_back, per_trial = jax.vjp(values_at, copies, has_aux=True)
        (gradients,) = pull_back(jnp.ones_like(values))
    else:
        values, per_trial = values_at(copies)
    if with_scores:
        scores, gradients = gradients, gradients.sum(axis=1)
        around_mean = scores - scores.mean(axis=1, keepdims=True)
        curvatures = jnp.einsum("sci,scj->sij", around_mean, around_mean)
    if priors:
        of_priors, slopes = jax.vmap(jax.value_and_grad(objective.log_prior))(points)
        values = values + of_priors
        gradients = gradients + slopes if gradient else gradients
    return Evaluated(values, gradients, per_trial, curvatures)


@lean_jit
def scores(objective: Objective, point: Point) -> tuple[Float[Array, " N"], Float[Array, "N p"]]:
    """Each trial's log likelihood, and its derivative by each coordinate."""

    def twice(point: Point) -> tuple[Array, Array]:
        values = objective.log_likelihoods(point)
        return values, values

    derivatives, values = jax.jacfwd(twice, has_aux=True)(point)
    return values, derivatives


def step_and_structure(objective: Objective, data: DataSets) -> tuple[float, Structure]:
    """The time step of the task's problems, and what they have in common.

    Taken over all lengths, conditions and data sets, at a few points well within the supports,
    because at their ends noises may vanish.
    """
    dt, rank, varying = _step_and_structure(objective, data)
    return float(dt), Structure(int(rank), tuple(np.flatnonzero(varying).tolist()))


@lean_jit
def _step_and_structure(objective: Objective, data: DataSets) -> tuple[Array, Array, Array]:
    parts = jnp.array([-0.1, 0.0, 0.1])
    supports = objective.supports

    def at(part: Array, data_set: Array) -> tuple[Array, Array, Array]:
        point = jnp.stack([*(s.middle + part * s.width for s in supports), data_set])
        make = objective.at(point, data.columns)
        problems = [group.problem for group, _ in group_trials(make, objective.trials, None, None)]
        ranks = [jax.vmap(innovation_rank)(problem).max() for problem in problems]
        varying = [jax.vmap(can_vary)(problem).any(axis=0) for problem in problems]
        return problems[0].dt[0], jnp.stack(ranks).max(), jnp.stack(varying).any(axis=0)

    of_data_sets = jax.vmap(at, in_axes=(None, 0))
    data_sets = jnp.arange(data.count, dtype=float)
    dt, rank, varying = jax.vmap(of_data_sets, in_axes=(0, None))(parts, data_sets)
    return dt.ravel()[0], rank.max(), varying.any(axis=(0, 1))
