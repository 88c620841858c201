"""Problems drawn at random, to try a method on many (the paper's appendix F.3)."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from motorcost import checks
from motorcost.model.problem import Problem
from motorcost.tasks.declare import Parameter, Task, declare
from motorcost.tasks.supports import LogUniform


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
    """A task with random dynamics, senses and noise; its parameters are two control costs.

    Four states and a target (always 1) that the first of them should reach at the last of
    50 steps; two controls, which cost effort_1 and effort_2 a unit squared. As in the paper,
    the entries of A, B and H are standard normal, A and B are then scaled to Frobenius norm 1,
    V, W and E are LKJ(1) Cholesky factors, and the entries of C and D uniform in (0, 0.5).

    What the paper leaves open is an argument: how many `senses` (of the four states; the
    target is known), how many terms of noise that depends on control and on state, a factor
    for V and W (`additive_noise`) and one for E (`internal_noise`, 0 for none: the paper's
    text names E, its formula does not), and the SD of the first state around 0 from trial to
    trial (`start_spread`; the agent knows its first state).
    """
    checks.nonnegative(
        additive_noise=additive_noise, internal_noise=internal_noise, start_spread=start_spread
    )
    checks.random_key(key)
    k = checks.whole("senses", senses, 1, "the number of senses")
    c = checks.whole("control_noises", control_noises, 0, "control-dependent noise terms")
    d = checks.whole("state_noises", state_noises, 0, "state-dependent noise terms")
    n, m = 4, 2
    keys = iter(jax.random.split(key, 8))

    def with_target(M: Float[Array, "... rows cols"], rows: int, cols: int) -> Array:
        return jnp.pad(M, [(0, 0)] * (M.ndim - 2) + [(0, rows), (0, cols)])

    def of_norm_1(M: Array) -> Array:
        return M / jnp.linalg.norm(M)

    A = jnp.eye(n + 1).at[:n, :n].set(of_norm_1(jax.random.normal(next(keys), (n, n))))
    B = with_target(of_norm_1(jax.random.normal(next(keys), (n, m))), 1, 0)
    H = with_target(jax.random.normal(next(keys), (k, n)), 0, 1)
    V = with_target(additive_noise * _lkj_cholesky(next(keys), n), 1, 0)
    W = additive_noise * _lkj_cholesky(next(keys), k)
    E = with_target(internal_noise * _lkj_cholesky(next(keys), n), 1, 0)
    C = with_target(jax.random.uniform(next(keys), (c, n, m), maxval=0.5), 1, 0)
    D = with_target(jax.random.uniform(next(keys), (d, k, n), maxval=0.5), 0, 1)
    off_target = jnp.array([1.0, 0.0, 0.0, 0.0, -1.0])

    @declare(
        effort_1=Parameter(
            "cost of the first control, squared", "", "cost", LogUniform(1e-4, 100.0)
        ),
        effort_2=Parameter(
            "cost of the second control, squared", "", "cost", LogUniform(1e-4, 100.0)
        ),
        steps=Parameter("number of states in a trial, T", "", "condition"),
    )
    def task(effort_1: Any = 0.1, effort_2: Any = 0.1, steps: int = 50) -> Problem:
        """Bring the first of four states to 1 at the last step, with two costly controls."""
        checks.positive(effort_1=effort_1, effort_2=effort_2)
        T = checks.whole("steps", steps, 2, "T, the number of states in a trial")
        return Problem(
            steps=T,
            A=A,
            B=B,
            C=list(C),
            V=V,
            H=H,
            W=W,
            D=list(D),
            E=E,
            Q=jnp.zeros((T, n + 1, n + 1)).at[-1].set(jnp.outer(off_target, off_target)),
            R=jnp.diag(jnp.array([effort_1, effort_2], dtype=float)),
            initial_belief=jnp.array([0.0, 0.0, 0.0, 0.0, 1.0]),
            initial_belief_cov=jnp.diag(jnp.array([1.0, 1.0, 1.0, 1.0, 0.0])) * start_spread**2,
            states=["state_1", "state_2", "state_3", "state_4", "target"],
        )

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


def _lkj_cholesky(key: Key[Array, ""], size: int) -> Float[Array, "size size"]:
    if size == 1:
        return jnp.ones((1, 1))
    from numpyro.distributions import LKJCholesky  # slow to import, and only needed here

    return LKJCholesky(size, concentration=1.0).sample(key)
