"""Random problems, on which a method can be tried (appendix F.3 of the paper)."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from motorcost import checks
from motorcost.model.problem import Problem
from motorcost.tasks.declarations import Parameter, Task, declare
from motorcost.tasks.supports import LogUniform

_PARAMETERS = {
    "effort_1": Parameter(
        "cost of the first control, squared", "", "cost", LogUniform(1e-4, 100.0)
    ),
    "effort_2": Parameter(
        "cost of the second control, squared", "", "cost", LogUniform(1e-4, 100.0)
    ),
    "steps": Parameter("number of states in a trial, T", "", "condition"),
}


def random_problem(
    key: Any,
    *,
    senses: int = 4,
    control_noises: int = 1,
    state_noises: int = 1,
    additive_noise: Any = 1.0,
    internal_noise: Any = 1.0,
    start_spread: Any = 0.0,
) -> Task:
    """Return a task with random dynamics, senses and noise; its parameters are two control costs.

    There are four states and a target (always 1), which the first state should reach at the last
    of 50 steps. There are two controls, whose squares cost effort_1 and effort_2. As in the paper,
    the entries of A, B and H are standard normal, A and B are then scaled to Frobenius norm 1,
    V, W and E are LKJ(1) Cholesky factors, and the entries of C and D are uniform in (0, 0.5).

    The arguments are the choices that the paper leaves open:

    - `senses`: the number of senses of the four states; the target is known.
    - `control_noises`, `state_noises`: the numbers of noise terms that depend on the control (C)
      and on the state (D).
    - `additive_noise`: a factor of V and W.
    - `internal_noise`: a factor of E, 0 for none. The text of the paper names E, its formula does
      not.
    - `start_spread`: the SD over trials of the first state around 0, which the agent knows.

    Examples
    --------
    >>> task = mc.tasks.random_problem(jax.random.key(0))
    >>> task(effort_1=0.5, effort_2=0.5).A.shape
    (49, 5, 5)
    """
    checks.nonnegative(
        additive_noise=additive_noise, internal_noise=internal_noise, start_spread=start_spread
    )
    checks.random_key(key)
    k = checks.whole("senses", senses, 1, "the number of senses")
    c = checks.whole("control_noises", control_noises, 0, "control-dependent noise terms")
    d = checks.whole("state_noises", state_noises, 0, "state-dependent noise terms")
    drawn = _draw_matrices(key, k, c, d)
    drawn = checks.concrete_in_numpy(drawn)
    M = drawn._replace(
        V=additive_noise * drawn.V, W=additive_noise * drawn.W, E=internal_noise * drawn.E
    )
    task = _task_of(M, start_spread)
    # What the task was drawn with, so that a fit of it can be stored and loaded again. The task is
    # in it too, because a function that wraps the task copies this attribute.
    task.drawn_with = {  # type: ignore[attr-defined]
        "task": task,
        "key": key,
        "senses": k,
        "control_noises": c,
        "state_noises": d,
        "additive_noise": additive_noise,
        "internal_noise": internal_noise,
        "start_spread": start_spread,
    }
    return task


def _task_of(M: _Matrices, start_spread: Any) -> Task:
    """The task whose problems have these matrices."""
    off_target = np.array([1.0, 0.0, 0.0, 0.0, -1.0])

    @declare(**_PARAMETERS)
    def task(effort_1: Any = 0.1, effort_2: Any = 0.1, steps: int = 50) -> Problem:
        """Bring the first of four states to 1 at the last step, with two controls that cost."""
        checks.positive(effort_1=effort_1, effort_2=effort_2)
        T = checks.whole("steps", steps, 2, "T, the number of states in a trial")
        at_end = (np.arange(T) == T - 1).astype(float)
        return Problem(
            steps=T,
            **(M._asdict() | {"C": list(M.C), "D": list(M.D)}),
            Q=at_end[:, None, None] * np.outer(off_target, off_target),
            R=checks.diagonal_matrix([effort_1, effort_2]),
            initial_belief=np.array([0.0, 0.0, 0.0, 0.0, 1.0]),
            initial_belief_cov=np.diag([1.0, 1.0, 1.0, 1.0, 0.0]) * start_spread**2,
            states=["state_1", "state_2", "state_3", "state_4", "target"],
        )

    return task


class _Matrices(NamedTuple):
    """Matrices of four states and the target."""

    A: Float[Array | np.ndarray, "5 5"]
    B: Float[Array | np.ndarray, "5 2"]
    H: Float[Array | np.ndarray, "k 5"]
    V: Float[Array | np.ndarray, "5 4"]
    W: Float[Array | np.ndarray, "k k"]
    E: Float[Array | np.ndarray, "5 4"]
    C: Float[Array | np.ndarray, "c 5 2"]
    D: Float[Array | np.ndarray, "d k 5"]


@partial(jax.jit, static_argnums=(1, 2, 3))
def _draw_matrices(key: Any, k: int, c: int, d: int) -> _Matrices:
    """Draw the matrices for k senses, c control-dependent and d state-dependent noise terms."""
    n, m = 4, 2
    keys = iter(jax.random.split(key, 8))

    def with_target(M: Float[Array, "... rows cols"], rows: int, cols: int) -> Array:
        return jnp.pad(M, [(0, 0)] * (M.ndim - 2) + [(0, rows), (0, cols)])

    def normalised(M: Array) -> Array:
        return M / jnp.linalg.norm(M)

    # In this order, which decides the problem that a key gives.
    return _Matrices(
        A=jnp.eye(n + 1).at[:n, :n].set(normalised(jax.random.normal(next(keys), (n, n)))),
        B=with_target(normalised(jax.random.normal(next(keys), (n, m))), 1, 0),
        H=with_target(jax.random.normal(next(keys), (k, n)), 0, 1),
        V=with_target(_lkj_cholesky(next(keys), n), 1, 0),
        W=_lkj_cholesky(next(keys), k),
        E=with_target(_lkj_cholesky(next(keys), n), 1, 0),
        C=with_target(jax.random.uniform(next(keys), (c, n, m), maxval=0.5), 1, 0),
        D=with_target(jax.random.uniform(next(keys), (d, k, n), maxval=0.5), 0, 1),
    )


def _lkj_cholesky(key: Key[Array, ""], size: int) -> Float[Array, "size size"]:
    if size == 1:
        return jnp.ones((1, 1))
    from numpyro.distributions import LKJCholesky  # slow to import, and only needed here

    return LKJCholesky(size, concentration=1.0).sample(key)
