"""Delayed senses."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.errors import InputError
from motorcost.model.problem import Problem


def delay(problem: Problem, steps: int) -> Problem:
    """Return the problem with senses that arrive `steps` time steps late.

    The state is extended by the states of the last `steps` steps, named `position(t-1)` and
    so on, and the senses measure the oldest: what arrives at time t was sensed, with the noise of
    that time, at t - steps. Before the first step the state is taken to have been that of the
    first. The agent knows of the delay, and its estimate includes the past states.
    """
    d = checks.whole("steps", steps, 0, "the delay in time steps")
    if d >= problem.steps:
        raise InputError(
            f"the delay must be shorter than the trial of {problem.steps} steps, got {d}"
        )
    if set(_past_names(problem.state_names, 1)) & set(problem.state_names):
        raise InputError("the problem is delayed already: delay the original problem by the sum")
    if d == 0:
        return problem
    delayed = _delayed(problem, d)
    if problem.believed is None:
        return delayed
    return delayed.with_believed(_delayed(problem.believed, d))


def _past_names(names: tuple[str, ...], age: int) -> tuple[str, ...]:
    """The names of the states `age` steps ago."""
    return tuple(f"{name}(t-{age})" for name in names)


def _delayed(p: Problem, d: int) -> Problem:
    n, past = p.A.shape[-1], d * p.A.shape[-1]

    def on_present(M: Float[Array, "... n c"]) -> Float[Array, "... N c"]:
        """M with rows of zeros for the past states, which it does not change."""
        return jnp.pad(M, [(0, 0)] * (M.ndim - 2) + [(0, past), (0, 0)])

    def of_oldest(M: Float[Array, "... k n"]) -> Float[Array, "... k N"]:
        """M with columns of zeros for all but the oldest state."""
        return jnp.pad(M, [(0, 0)] * (M.ndim - 1) + [(past, 0)])

    # What is sensed at t - d arrives at t; in the first d steps arrives what is sensed first.
    sensed_at = jnp.maximum(jnp.arange(p.steps - 1) - d, 0)
    shift = jnp.eye(n + past, n + past, k=-n)  # every state moves on by one step into the past
    A = jnp.broadcast_to(shift, (p.steps - 1, *shift.shape)).at[:, :n, :n].set(p.A)
    D = of_oldest(p.D[sensed_at])
    C = on_present(p.C)

    def repeated(cov: Float[Array, "n n"]) -> Any:
        return jnp.tile(cov, (d + 1, d + 1))  # at first, the past is the present

    names = list(p.state_names)
    for age in range(1, d + 1):
        names += _past_names(p.state_names, age)
    return p.with_believed(None).replace(
        A=A,
        B=on_present(p.B),
        C=[C[:, i] for i in range(C.shape[1])],
        V=on_present(p.V),
        H=of_oldest(p.H[sensed_at]),
        W=p.W[sensed_at],
        D=[D[:, j] for j in range(D.shape[1])],
        E=on_present(p.E),
        Q=jnp.pad(p.Q, ((0, 0), (0, past), (0, past))),
        initial_belief=jnp.tile(p.initial_belief, d + 1),
        initial_belief_cov=repeated(p.initial_belief_cov),
        initial_state_cov=repeated(p.initial_state_cov),
        states=dict(zip(names, p.state_units * (d + 1), strict=True)),
    )
