"""Particle filters of all trials: over groups of trials, models, conditions and blocks."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Key

from motorcost import checks
from motorcost.errors import ConvergenceError, InputError
from motorcost.inference.diagnose import STATE_THE_NOISE
from motorcost.inference.filter import filter_setting, is_enough
from motorcost.inference.fully_observed import fully_observed_setting, innovation_rank
from motorcost.inference.fully_observed_particles import FULLY_OBSERVED
from motorcost.inference.grouping import Group, Models, ProblemOrTask, group_trials
from motorcost.inference.likelihood import checked_log_likelihoods
from motorcost.inference.particle_filter import GENERAL, estimate_log_likelihoods
from motorcost.inference.signals import n_signals
from motorcost.inference.structure import Structure
from motorcost.model.joint import can_vary, joint_system
from motorcost.model.observer import Observer, ObserverLike
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.model.trials import Trials
from motorcost.numerics.compiling import lean_jit
from motorcost.numerics.linalg import map_leading_axis

# Particles, of all filters together, that are followed at once: enough to fill the arithmetic, few
# enough that they, or their covariances where each has its own, stay in the cache. Memory does not
# grow with the number of trials beyond this.
TOGETHER = 2048
TOGETHER_WITHOUT_COVARIANCES = 16384


def estimates_under(
    problems: Sequence[ProblemOrTask],
    trials: Trials,
    *,
    key: Any,
    particles: int,
    filters: int,
    policy: Policy | None = None,
    observer: ObserverLike = None,
) -> tuple[np.ndarray, np.ndarray, bool]:
    """The log likelihoods of trials under several problems or tasks.

    The first is the one that particles are resampled by; the others should be almost the same. If
    one of the others is impossible, because it has no policy or contradicts the trials, its values
    are NaN; the first then raises an error, as `log_likelihood` does.

    Returns those that each filter estimates (problem, trial, filter), those of moment matching
    (problem, trial), and whether anything had to be drawn.
    """
    checks.random_key(key)
    checks.whole("particles", particles, 1, "particles of each filter")
    checks.whole("filters", filters, 1, "filters for each trial")
    if not checks.is_concrete(trials.observed):
        raise InputError("exact_log_likelihood cannot be part of a compiled program (jit, grad)")
    matched = np.full((len(problems), len(trials)), np.nan)
    estimates = np.full((len(problems), len(trials), filters), np.nan)
    possible = []
    for i, problem in enumerate(problems):
        try:
            groups, matched[i] = _matched(problem, trials, policy, observer)
            possible.append((i, groups))
        except (InputError, ConvergenceError):
            if i == 0:
                raise
    which = [i for i, _ in possible]
    drawn = False
    for groups in zip(*(groups for _, groups in possible), strict=True):
        (group, index), filled = groups[0], groups[0][1] >= 0
        how = Filters([group for group, _ in groups], particles, filters, trials)
        drawn = drawn or how.drawn
        models = jax.tree.map(_stacked, *(group.models for group, _ in groups))
        found = np.asarray(_group_estimates(models, group, key, jnp.asarray(index), how))
        _raise_if_impossible(found[0][filled], index[filled])
        for i, of_model in zip(which, found, strict=True):
            estimates[i, index[filled]] = of_model[filled]
    return estimates, matched, drawn


def _matched(
    problem: ProblemOrTask, trials: Trials, policy: Policy | None, observer: ObserverLike
) -> tuple[list[tuple[Group, np.ndarray]], np.ndarray]:
    """The groups of trials with their policies, and the log likelihoods of moment matching."""
    groups, values = [], np.zeros(len(trials))
    for group, index in group_trials(problem, trials, policy, observer):
        group, filled = group.solved(), index >= 0
        values[index[filled]] = np.asarray(checked_log_likelihoods(group, index, trials))[filled]
        groups.append((group, index))
    return groups, values


def _stacked(*leaves: Any) -> Array:
    """Arrays of several models, whose first axis is that of conditions: (condition, model, ...)."""
    return checks.jax_array(np.stack([np.asarray(leaf) for leaf in leaves], axis=1))


def _raise_if_impossible(estimates: np.ndarray, index: np.ndarray) -> None:
    """Raise if a filter has found no particle that a trial is possible for."""
    impossible = ~np.isfinite(estimates).all(axis=-1)
    if impossible.any():
        trial = int(index[np.argmax(impossible)])
        raise InputError(
            f"no particle explains trial {trial}: either the trial is so improbable that it takes "
            "more particles, or the model has no noise in it in some direction once the controls "
            f"are known. {STATE_THE_NOISE}"
        )


class Filters(eqx.Module):
    """How to filter a group of trials: hashable, for programs are compiled for it.

    - `drawn`: whether anything has to be drawn. If not, one filter with one particle is exact.
    - `fully_observed`: whether the filter for full observation will do.
    """

    particles: int = eqx.field(static=True)
    filters: int = eqx.field(static=True)
    drawn: bool = eqx.field(static=True)
    fully_observed: bool = eqx.field(static=True)
    structure: Structure = eqx.field(static=True)

    def __init__(
        self, groups: Sequence[Group], particles: int, filters: int, trials: Trials
    ) -> None:
        C, D = (
            np.concatenate([np.asarray(getattr(group.problem, name)) != 0 for group in groups])
            for name in "CD"
        )
        self.drawn = bool(C.any() or D.any())
        self.particles = particles if self.drawn else 1
        self.filters = filters if self.drawn else 1
        # Whether every control has noise that grows with it, until the end of each trial.
        every_control = C.any(axis=(2, 3)).all(axis=-1)
        samples = np.asarray(groups[0].samples)
        after_end = np.tile(np.isnan(samples).all(axis=(1, 3))[:, 1:], (len(groups), 1))
        self.fully_observed = bool(
            all(group.observer.fully_observed for group in groups)
            and _is_complete(trials)
            and (every_control | after_end).all()
        )
        found = [_rank_and_varying(group.problem) for group in groups]
        rank = max(int(np.max(rank)) for rank, _ in found)
        varying = np.concatenate([np.asarray(varying) for _, varying in found]).any(axis=0)
        entries = tuple(np.flatnonzero(varying).tolist())
        # A policy that is not the optimal one may correct other entries too.
        enough = self.fully_observed or all(_is_all_that_varies(group, entries) for group in groups)
        self.structure = Structure(rank, entries if enough else None)


def _is_complete(trials: Trials) -> bool:
    """Whether no sample is missing before the end of a trial."""
    within = np.arange(trials.observed.shape[1]) < trials.lengths[:, None]
    return not np.isnan(np.asarray(trials.observed)[within]).any()


_rank_and_varying = jax.jit(jax.vmap(lambda problem: (innovation_rank(problem), can_vary(problem))))


@lean_jit
def _is_all_that_varies(group: Group, varying: tuple[int, ...]) -> Array:
    def of_condition(problem: Problem, policy: Any, observer: Observer) -> Array:
        known_start = group.starts is not None
        return is_enough(
            filter_setting(problem, policy, observer, known_start=known_start, varying=varying)
        )

    return jax.vmap(of_condition)(*group.models).all()


@lean_jit
def _group_estimates(
    models: Models, group: Group, key: Key[Array, ""], index: Array, how: Filters
) -> Float[Array, "models conditions n filters"]:
    """The log likelihood of each trial that each filter estimates, under each model."""

    def setting_of(problem: Problem, policy: Any, observer: Observer) -> Any:
        known_start, structure = group.starts is not None, how.structure
        if how.fully_observed:
            rank = structure.rank
            return fully_observed_setting(problem, policy, known_start=known_start, rank=rank)[0]
        varying = structure.varying
        return filter_setting(problem, policy, observer, known_start=known_start, varying=varying)

    def of_condition(
        models: Any,
        samples: Float[Array, "n T o"],
        starts: Float[Array, "n states"] | None,
        index: Array,
    ) -> Float[Array, "models n filters"]:
        settings = jax.vmap(setting_of)(*models)
        steps = samples.shape[1] - 1
        problem, policy, _ = models
        draws = n_signals(jax.vmap(joint_system)(problem, policy)) + 1

        def uniforms(trial: Array) -> Array:
            # Of each trial's own, so that they do not depend on how trials are grouped.
            return jax.random.uniform(jax.random.fold_in(key, trial), (how.filters, steps, draws))

        run = partial(
            estimate_log_likelihoods, FULLY_OBSERVED if how.fully_observed else GENERAL, settings
        )
        return _in_blocks(run, samples, starts, jax.vmap(uniforms)(index), how)

    values = map_leading_axis(of_condition, models, group.samples, group.starts, index)
    return jnp.swapaxes(values, 0, 1)


def _in_blocks(
    run: Any,
    samples: Float[Array, "n T o"],
    starts: Float[Array, "n states"] | None,
    uniforms: Float[Array, "n filters steps s"],
    how: Filters,
) -> Float[Array, "models n filters"]:
    """What `run` returns for each filter of each trial, for a block of filters at a time."""
    n = samples.shape[0]
    together = TOGETHER_WITHOUT_COVARIANCES if how.fully_observed else TOGETHER
    blocks = -(-n * how.filters // max(together // how.particles, 1))
    size = -(-n * how.filters // blocks)

    def in_blocks(values: Array) -> Array:
        """One for each filter, filled up, as (block, ..., filter)."""
        filled = jnp.concatenate([values, values[:1].repeat(blocks * size - len(values), axis=0)])
        return jnp.moveaxis(filled.reshape(blocks, size, *values.shape[1:]), 1, -1)

    def of_filters(values: Array | None) -> Array | None:
        return None if values is None else in_blocks(jnp.repeat(values, how.filters, axis=0))

    parts = (
        of_filters(samples),
        of_filters(starts),
        in_blocks(uniforms.reshape(-1, *uniforms.shape[2:])),
    )
    values = lax.map(lambda block: run(*block, particles=how.particles), parts)
    values = jnp.moveaxis(values, 1, 0).reshape(values.shape[1], -1)[:, : n * how.filters]
    return values.reshape(len(values), n, how.filters)
