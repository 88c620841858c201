"""Senses that arrive late."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.errors import InputError
from motorcost.model.problem import Problem


def delay(problem: Problem, steps: int) -> Problem:
    """The same problem with senses that arrive `steps` time steps late.

    The state is extended by the states of the last `steps` steps, named `position(t-1)` and
    so on, and the senses see the oldest: what arrives at time t is what was sensed, with the
    noise of then, at t - steps. Before the first step the world is taken to have stood as it
    did at the first. The agent knows of the delay, and its estimate covers the past as well.
    """
    d = checks.whole("steps", steps, 0, "the delay in time steps")
    if d >= problem.steps:
        raise InputError(f"a delay of {d} steps outlasts the trial, which has {problem.steps}")
    if any("(t-" in name for name in problem.state_names):
        raise InputError("this problem is delayed already: delay the original by the sum")
    if d == 0:
        return problem
    late = _delayed(problem, d)
    if problem.believed is None:
        return late
    return late.with_believed(_delayed(problem.believed, d))


def _delayed(p: Problem, d: int) -> Problem:
    n, past = p.A.shape[-1], d * p.A.shape[-1]

    def now(M: Float[Array, "... n c"]) -> Float[Array, "... N c"]:
        """Acts on the present state; the past stays as it was."""
        return jnp.pad(M, [(0, 0)] * (M.ndim - 2) + [(0, past), (0, 0)])

    def oldest(M: Float[Array, "... k n"]) -> Float[Array, "... k N"]:
        """Sees the oldest state only."""
        return jnp.pad(M, [(0, 0)] * (M.ndim - 1) + [(past, 0)])

    # A sense of time t - d arrives at t; what arrives in the first d steps is the first one.
    sensed_at = jnp.maximum(jnp.arange(p.steps - 1) - d, 0)
    shift = jnp.eye(n + past, n + past, k=-n)  # each state becomes the next one's past
    A = jnp.broadcast_to(shift, (p.steps - 1, *shift.shape)).at[:, :n, :n].set(p.A)
    D = oldest(p.D[sensed_at])
    C = now(p.C)

    def everywhere(cov: Float[Array, "n n"]) -> Any:
        return jnp.tile(cov, (d + 1, d + 1))

    def names(of_now: tuple[str, ...], units: tuple[str, ...]) -> dict[str, str]:
        ages = ["", *(f"(t-{age})" for age in range(1, d + 1))]
        return {name + age: unit for age in ages for name, unit in zip(of_now, units, strict=True)}

    return p.with_believed(None).replace(
        A=A,
        B=now(p.B),
        C=[C[:, i] for i in range(C.shape[1])],
        V=now(p.V),
        H=oldest(p.H[sensed_at]),
        W=p.W[sensed_at],
        D=[D[:, j] for j in range(D.shape[1])],
        E=now(p.E),
        Q=jnp.pad(p.Q, ((0, 0), (0, past), (0, past))),
        initial_belief=jnp.tile(p.initial_belief, d + 1),
        initial_belief_cov=everywhere(p.initial_belief_cov),
        initial_state_cov=everywhere(p.initial_state_cov),
        states=names(p.state_names, p.state_units),
    )
