"""What a fitted agent is expected to do in each trial: its mean course, its spread and its costs.

All of it is exact: moments for given gains, without simulation.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost.fitting.fitted import Fit
from motorcost.fitting.objective import Objective
from motorcost.inference.filter import start_moments
from motorcost.model.moments import moments_from
from motorcost.model.observer import Observer
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.model.solver import solve_each
from motorcost.numerics.compiling import lean_jit

# What trials share: a value for each condition, their length, and the trial's number where starts
# are known.
Kind = tuple[Any, ...]


class Expectation(eqx.Module):
    """What is expected in one trial, or in several along further axes in front.

    - `mean`, `sd`: of the recorded channels at every step, over trials of this kind.
    - `state_costs`: the expected cost of each pair of states, summed over time.
    - `coupling`: the sum over time of the absolute weights of each pair of states.
    - `effort`: the expected cost of the controls.
    - `idle_cost`: the expected cost of an agent whose control is zero throughout.
    - `motor_noise`: the noise that grows with the control, relative to the control's own effect.
    - `directed`: whether the movement has a direction that is known when it begins. A target that
      wanders at random from where the hand is gives none.
    - `mistaken`: whether the agent believes in another world than the one that it acts in.
    - `converged`: whether a policy was found.
    """

    mean: Float[Array, "*trials T o"]
    sd: Float[Array, "*trials T o"]
    state_costs: Float[Array, "*trials n n"]
    coupling: Float[Array, "*trials n n"]
    effort: Float[Array, "*trials"]
    idle_cost: Float[Array, "*trials"]
    motor_noise: Float[Array, "*trials"]
    directed: Array
    mistaken: Array
    converged: Array

    @property
    def cost(self) -> Any:
        """The expected cost of the policy."""
        return self.state_costs.sum(axis=(-1, -2)) + self.effort


@dataclass(frozen=True)
class ExpectedTrials:
    """The expectation for each of some fitted trials: `which` are their numbers, from 0.

    The arrays of `expected` have the axis of trials in front, and are NumPy's. `state_units` are
    the units of the states, by name.
    """

    which: np.ndarray
    expected: Expectation
    state_units: dict[str, str]


def expected_trials(fit: Fit, most_kinds: int) -> ExpectedTrials:
    """Return what the fitted agent is expected to do in the trials that were fitted.

    Trials of one kind share their length, their conditions and, where it is known, their start. Of
    more than `most_kinds` kinds, that many are taken, evenly from the first to the last in the
    order of their conditions.
    """
    members = representative(fit, most_kinds)
    which = np.array(sorted(trial for trials in members.values() for trial in trials))
    first = [trials[0] for trials in members.values()]
    starts = None if fit.trials.starts is None else fit.trials.starts[np.array(first)]
    expected, units = _expectations(fit.objective, jnp.asarray(fit.point), tuple(members), starts)
    place = {trial: i for i, trials in enumerate(members.values()) for trial in trials}
    order = np.array([place[trial] for trial in which.tolist()])
    of_trials = jax.tree.map(lambda leaf: np.asarray(leaf)[order], expected)
    return ExpectedTrials(which, of_trials, dict(units))


def representative(fit: Fit, most_kinds: int) -> dict[Kind, list[int]]:
    """Return at most so many kinds of trials, with the numbers of the fitted trials of each."""
    trials = fit.trials
    columns = [*trials.conditions.values(), trials.lengths]
    if trials.starts is not None:
        columns.append(np.arange(len(trials)))
    members: dict[Kind, list[int]] = {}
    for trial, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        members.setdefault(row, []).append(trial)
    kinds = sorted(members)
    chosen = np.unique(np.linspace(0, len(kinds) - 1, min(most_kinds, len(kinds))).round())
    return {kinds[int(i)]: members[kinds[int(i)]] for i in chosen}


@lean_jit
def _expectations(
    objective: Objective,
    point: Float[Array, " p"],
    kinds: tuple[Kind, ...],
    starts: Float[Array, "kinds n"] | None,
) -> tuple[Expectation, list[tuple[str, str]]]:
    """The expectation for each kind of trial, and the states' names and units.

    All are padded to the longest, so that one program solves them together.
    """
    names, make = list(objective.trials.conditions), objective.at(point)
    lengths = [int(kind[len(names)]) for kind in kinds]
    made = []
    for kind, length in zip(kinds, lengths, strict=True):
        problem, observer = make(steps=length, **dict(zip(names, kind, strict=False)))
        made.append((problem.padded(max(lengths)), observer.padded(max(lengths))))
    problems, observers = jax.tree.map(lambda *leaves: jnp.stack(leaves), *made)

    def of_kind(problem: Problem, policy: Policy, observer: Observer, start: Any) -> Expectation:
        mean_1, cov_1 = start_moments(problem, known_start=start is not None)
        if start is not None:
            mean_1 = jnp.concatenate([start, start])
        return expectation(problem, policy, observer, mean_1, cov_1)

    expected = jax.vmap(of_kind)(problems, solve_each(problems), observers, starts)
    # Pairs keep their order, which JAX would change in a dictionary.
    return expected, list(zip(problems.state_names, problems.state_units, strict=True))


def expectation(
    problem: Problem,
    policy: Policy,
    observer: Observer,
    mean_1: Float[Array, " z"],
    cov_1: Float[Array, "z z"],
) -> Expectation:
    """Return what is expected in a trial of a problem.

    `mean_1` and `cov_1` are of z = (x, xh) at the first step.
    """
    z = moments_from(problem, policy, mean_1, cov_1)
    S, U = observer.S, observer.U
    cov = jnp.einsum("toi,tij,tpj->top", S, z.state_cov, S) + U @ jnp.swapaxes(U, -1, -2)
    variance = jnp.maximum(jnp.diagonal(cov, axis1=1, axis2=2), 0.0)
    hh = z.belief_cov + jnp.einsum("ti,tj->tij", z.belief_mean, z.belief_mean)
    uu = policy.L @ hh[:-1] @ jnp.swapaxes(policy.L, -1, -2)
    idle = eqx.tree_at(lambda p: p.L, policy, jnp.zeros_like(policy.L))
    still = moments_from(problem, idle, mean_1, cov_1)
    control = jnp.sum(problem.B**2)
    return Expectation(
        mean=jnp.einsum("toi,ti->to", S, z.state_mean),
        sd=jnp.sqrt(variance),
        state_costs=jnp.sum(problem.Q * _second(z), axis=0),
        coupling=jnp.sum(jnp.abs(problem.Q), axis=0),
        effort=jnp.sum(problem.R * uu),
        idle_cost=jnp.sum(problem.Q * _second(still)),
        # C_1 = motor_noise * B in the built-in tasks; further terms are noise across the control.
        motor_noise=jnp.sqrt(jnp.sum(problem.C[:, :1] ** 2) / jnp.where(control > 0, control, 1.0)),
        directed=jnp.any(mean_1 != 0),
        mistaken=jnp.asarray(problem.believed is not None),
        converged=policy.converged,
    )


def _second(z: Any) -> Float[Array, "T n n"]:
    """The second moments of the states."""
    return z.state_cov + jnp.einsum("ti,tj->tij", z.state_mean, z.state_mean)
