"""The paper's two baselines: plain linear-quadratic Gaussian control, without signal-dependent
noise. Fit them beside the model to see what signal-dependent noise explains.

Both take a task and return a task with the same parameters.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import jax.numpy as jnp

from motorcost.model.moments import moments
from motorcost.model.problem import Problem
from motorcost.model.solver import solve
from motorcost.numerics.linalg import semidefinite_cholesky
from motorcost.tasks.declarations import Task


def without_signal_noise(task: Task) -> Task:
    """The task without noise that depends on control or state.

    What is left may be too little to explain any recording: a world that is certain contradicts
    the data unless they are recorded with noise.

    Examples
    --------
    >>> plain = mc.baselines.without_signal_noise(mc.tasks.reaching)
    >>> plain(steps=12).C.shape[1]
    0
    """
    return _changed(task, lambda problem: _plain(problem, None, None))


def with_average_noise(task: Task, at: Mapping[str, Any] | None = None) -> Task:
    """The task with signal-dependent noise replaced by steady noise of the same mean strength.

    The strength is the mean square over a trial, exact, at the parameters that are being tried;
    or always at those given in `at`, as in the paper, which takes the true ones.

    Examples
    --------
    >>> plain = mc.baselines.with_average_noise(mc.tasks.reaching)
    >>> bool((plain(steps=12).C == 0).all()), bool((plain(steps=12).V != 0).any())
    (True, True)
    """

    def change(problem: Problem, like: Problem) -> Problem:
        z = moments(like, solve(like))
        xx = z.state_cov + jnp.einsum("ti,tj->tij", z.state_mean, z.state_mean)
        hh = z.belief_cov + jnp.einsum("ti,tj->tij", z.belief_mean, z.belief_mean)
        L = solve(like).L
        uu = (L @ hh[:-1] @ jnp.swapaxes(L, -1, -2)).mean(axis=0)
        sensed = (xx[1:] if like.sense_first else xx[:-1]).mean(axis=0)
        control, state = semidefinite_cholesky(uu), semidefinite_cholesky(sensed)
        return _plain(problem, control, state)

    def make(problem: Problem, **arguments: Any) -> Problem:
        return change(problem, problem if at is None else task(**(arguments | dict(at))))

    return _changed(task, make, with_arguments=True)


def _plain(problem: Problem, control: Any, state: Any) -> Problem:
    """Without C and D. Given factors of the mean squares of control and state, V and W have
    steady noise of the same strength instead; so has what the agent believes, as far as it
    believed in signal-dependent noise."""

    def without(part: Problem) -> Problem:
        motor = [] if control is None else [C @ control for C in jnp.moveaxis(part.C, 1, 0)]
        sensory = [] if state is None else [D @ state for D in jnp.moveaxis(part.D, 1, 0)]
        V = jnp.concatenate([part.V, *motor], axis=-1)
        W = jnp.concatenate([part.W, *sensory], axis=-1)
        return part.replace(C=[], D=[], V=V, W=W)

    plain = without(problem)
    return plain if problem.believed is None else plain.with_believed(without(problem.believed))


def _changed(task: Task, change: Callable[..., Problem], *, with_arguments: bool = False) -> Task:
    """A task that changes the problems of another, and declares the same parameters."""

    @wraps(task)
    def changed(**arguments: Any) -> Problem:
        problem = task(**arguments)
        return change(problem, **arguments) if with_arguments else change(problem)

    return changed
