"""The log likelihood of recorded movements, given the agent's costs, noises and beliefs."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from motorcost import checks
from motorcost.errors import InputError
from motorcost.inference.batching import Filter, run_conditions, run_models
from motorcost.inference.diagnose import raise_if_failed
from motorcost.inference.elimination import NO_CONTRADICTION
from motorcost.inference.filter import filter_log_likelihoods, filter_setting, is_enough
from motorcost.inference.fully_observed import (
    fully_observed_log_likelihoods,
    fully_observed_setting,
)
from motorcost.inference.grouping import (
    Group,
    Models,
    ProblemMaker,
    ProblemOrTask,
    as_trials,
    group_trials,
)
from motorcost.inference.precision import raise_if_digits_are_lost
from motorcost.inference.structure import UNKNOWN, Structure
from motorcost.model.joint import has_signal_dependent_noise
from motorcost.model.minima import Accuracy
from motorcost.model.observer import ObserverLike
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.model.solver import EXACT, solve_each
from motorcost.model.trials import Trials
from motorcost.numerics.compiling import lean_jit
from motorcost.numerics.linalg import entries, first_entry, with_entries


def log_likelihood(
    problem: ProblemOrTask,
    observed: Any,
    *,
    policy: Policy | None = None,
    observer: ObserverLike = None,
    per_trial: bool = False,
) -> Array:
    """The log likelihood of recorded trials.

    - `problem`: the world, with what the agent believes of it. For trials of several lengths or
      conditions, a function that takes `steps` and the conditions by name and returns the
      problem: `functools.partial(mc.tasks.reaching, effort=1e-5)`.
    - `observed`: `Trials`, or an array (trial, time, channel); NaN where a sample is missing.
    - `policy`: what the agent does, if not what is optimal for what it believes.
    - `observer`: how the trials were recorded: an `Observer`, an `ObserverSpec`, or another
      function from a problem to an `Observer`. If None, all states without noise.

    Returns the sum over trials, or with `per_trial` one value per trial.

    The density is that of the samples which the model does not call deterministic given those
    before them (time by time, channel by channel). A sample that contradicts the model raises
    an error which names it. Inside `jit`, `grad` and `vmap` a contradiction, and a policy that
    cannot be found, give -inf, with derivatives zero instead of NaN.

    Examples
    --------
    >>> value = mc.log_likelihood(problem, positions, observer=camera)
    >>> each = mc.log_likelihood(problem, positions, observer=camera, per_trial=True)
    >>> each.shape, bool(jnp.isclose(each.sum(), value))
    ((8,), True)
    """
    trials = as_trials(problem, observed)
    values: Any = np.zeros(len(trials))
    for group, index in group_trials(problem, trials, policy, observer):
        of_group = checked_log_likelihoods(group.solved_if_concrete(), index, trials)
        filled = index >= 0
        values = with_entries(values, index[filled], entries(of_group, filled))
    return values if per_trial else checks.jax_array(checks.array_module(values).sum(values))


def checked_log_likelihoods(
    group: Group, index: np.ndarray, trials: Trials
) -> Float[Array, "conditions n"]:
    """The log likelihood of each trial of a group; where it is concrete, an error is raised if it
    cannot be computed. `index` is where each trial of the group stands in `trials`."""
    of_group, converged, contradiction, _ = _compiled(None, group)
    filled = index >= 0
    if checks.is_concrete(of_group):
        raise_if_failed(group, index, trials, converged, contradiction)
        if not np.isfinite(np.asarray(of_group)[filled]).all():
            raise InputError(
                "the likelihood is beyond what can be computed: samples or parameters are too "
                "large, or the recording noise is too small beside them (use noise=0, or a "
                "larger noise)"
            )
        raise_if_digits_are_lost(group, of_group, filled, lambda other: _compiled(None, other)[0])
    return of_group


def log_likelihoods_at(
    make: Callable[[Any], ProblemMaker],
    points: Any,
    trials: Trials,
    *,
    own: Callable[[Any], Any] | None = None,
    observed: Float[Array, "S N T o"] | None = None,
    weights: Float[Array, "S N"] | None = None,
    structure: Structure = UNKNOWN,
    accuracy: Accuracy = EXACT,
) -> tuple[Float[Array, " S"] | None, Float[Array, "S N"]]:
    """The log likelihood of each trial at each of S points; for traced code: nothing is raised.

    - `make`: from a point to the task with its observer.
    - `points`: an array, or a tree of arrays, with S entries along the first axis.
    - `own`: from a point to what each kind of trials has of its own (see `group_trials`).
    - `observed`: samples of each point's own, in place of those of `trials`.
    - `weights`: how often each trial counts: 0 leaves it out, 2 takes it twice.
    - `structure`: what is known of the problems.
    - `accuracy`: of the policies; left out, that of `solve`.

    Returns with `weights` the sum over trials of each point, otherwise None; and one value per
    point and trial, which has no derivative if there are weights. They are -inf where no policy is
    found or a sample contradicts the model.
    """

    # What is the same at all points, noted while the groups are made: a task is traced only once.
    arranged: list[tuple[np.ndarray, bool | None]] = []

    def groups_at(point: Any, samples: Any) -> tuple[list[Models], list[Array], list[Any]]:
        recorded = trials
        if samples is not None:
            recorded = eqx.tree_at(lambda t: t.observed, trials, samples)
        of_kinds = None if own is None else own(point)
        found = list(group_trials(make(point), recorded, None, None, own=of_kinds))
        arranged[:] = [(index, group.complete) for group, index in found]
        groups = [group for group, _ in found]
        return [g.models for g in groups], [g.samples for g in groups], [g.starts for g in groups]

    same = None if observed is None else 0
    stacked = jax.vmap(groups_at, out_axes=(0, same, None))(points, observed)
    count = len(jax.tree.leaves(points)[0])
    totals = None if weights is None else jnp.zeros(count)
    values = jnp.zeros((count, len(trials)))
    for (index, complete), models, samples, starts in zip(arranged, *stacked, strict=True):
        filled = index >= 0
        counts = None if weights is None else jnp.where(filled, weights[:, index], 0.0)
        shared, own_samples = (samples, None) if observed is None else (samples[0], samples)
        problem, policy, observer = first_entry(models)
        group = Group(problem, policy, observer, shared, starts, complete)
        of_group, _, _, per_trial = log_likelihoods_of(
            models, group, own_samples, counts, structure, accuracy
        )
        values = values.at[:, index[filled]].set(per_trial[:, filled])
        if totals is not None:
            totals = totals + of_group.sum(axis=1)
    return totals, values


def log_likelihoods_of(
    models: Models | None,
    group: Group,
    samples: Float[Array, "S C N T o"] | None = None,
    weights: Float[Array, "S C N"] | None = None,
    structure: Structure = UNKNOWN,
    accuracy: Accuracy = EXACT,
) -> tuple[
    Float[Array, "*values"],
    Bool[Array, "*conditions"],
    Int[Array, "*values"],
    Float[Array, "*trials"],
]:
    """The log likelihood of the group's trials under each of S models.

    The arrays of `models` have the axes (model, condition); None is the group's own model, and
    then no array has a model axis. The other arguments are those of `log_likelihoods_at`.

    Returns the log likelihoods (model, condition, trial) or, with `weights`, (model, condition);
    whether a policy was found (model, condition); the index of the first contradiction, in the
    shape of the log likelihoods (see `elimination.first_contradiction`); and the log likelihoods
    (model, condition, trial), which have no derivative if there are weights.
    """
    problems, policies, observers = group.models if models is None else models
    if policies is None:
        policies = _solve(problems, accuracy)
    for_each = jax.vmap if models is None else _vmap_twice
    problems, policies = for_each(_zero_unless_converged)(problems, policies)

    def run(run_filter: Filter, settings: Any) -> tuple[Array, Array, Array]:
        if models is None:
            return run_conditions(run_filter, settings, group.samples, group.starts, weights)
        return run_models(run_filter, settings, group.samples, samples, group.starts, weights)

    def per_value(of_condition: Array) -> Array:
        return of_condition if weights is not None else of_condition[..., None]

    known_start = group.starts is not None

    def fully_observed() -> tuple[Array, Array, Array]:
        of_problem = partial(fully_observed_setting, known_start=known_start, rank=structure.rank)
        settings, enough = for_each(of_problem)(problems, policies)
        values, first, per_trial = run(fully_observed_log_likelihoods, settings)
        return jnp.where(per_value(enough), values, -jnp.inf), first, per_trial

    def in_general(*, complete: bool = False) -> tuple[Array, Array, Array]:
        of_problem = partial(filter_setting, known_start=known_start, varying=structure.varying)
        of_trials = partial(filter_log_likelihoods, complete=complete)
        settings = for_each(of_problem)(problems, policies, observers)
        values, first, per_trial = run(of_trials, settings)
        if structure.varying is not None:
            enough = for_each(is_enough)(settings)
            values = jnp.where(per_value(enough), values, -jnp.inf)
        return values, first, per_trial

    shared = partial(in_general, complete=True)
    of_complete = fully_observed if observers.fully_observed else shared
    faster = observers.fully_observed or not has_signal_dependent_noise(problems)
    if group.complete is False or not faster:
        values, first, per_trial = in_general()
    elif group.complete:
        values, first, per_trial = of_complete()
    else:  # whether a sample is missing is known only when the program runs
        data = group.samples if samples is None else samples
        values, first, per_trial = lax.cond(jnp.isnan(data).any(), in_general, of_complete)
    values = _where_possible(values, first, per_value(policies.converged), weights)
    return values, policies.converged, first, values if weights is None else per_trial


def _where_possible(
    values: Array, first: Array, converged: Array, weights: Array | None
) -> Float[Array, "*values"]:
    """The log likelihoods; -inf where there is no policy, or a sample contradicts the model."""
    possible = converged & (first == NO_CONTRADICTION) & jnp.isfinite(values)
    values = jnp.where(possible, values, -jnp.inf)
    if weights is None:
        return values
    # A condition whose trials do not count may be impossible.
    return jnp.where((weights > 0).any(axis=-1), values, 0.0)


_compiled = lean_jit(log_likelihoods_of)


def _solve(problems: Problem, accuracy: Accuracy) -> Policy:
    """The policies of problems with one or two axes in front, all solved together."""
    axes = problems.A.shape[:-3]
    count = math.prod(axes)
    flat = jax.tree.map(lambda leaf: leaf.reshape(count, *leaf.shape[len(axes) :]), problems)
    policies = solve_each(flat, accuracy)
    return jax.tree.map(lambda leaf: leaf.reshape(*axes, *leaf.shape[1:]), policies)


def _vmap_twice(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of arrays with two more axes in front, model and condition."""
    return jax.vmap(jax.vmap(function))


def _zero_unless_converged(problem: Problem, policy: Policy) -> tuple[Problem, Policy]:
    """The problem and its policy; zeros where no policy was found, so that derivatives of what is
    then thrown away are zero and not NaN."""
    parts = (problem, policy.L, policy.K, policy.believed)
    parts = jax.tree.map(lambda leaf: jnp.where(policy.converged, leaf, 0.0), parts)
    return parts[0], eqx.tree_at(lambda p: (p.L, p.K, p.believed), policy, parts[1:])
