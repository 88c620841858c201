"""Delayed senses."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.errors import InputError
from motorcost.model.problem import Problem


def delay(problem: Problem, steps: int) -> Problem:
    """Return the problem with senses that arrive `steps` time steps late.

    What arrives at time t was sensed, with the noise of that time, at t - steps. The state is
    extended by what has been sensed (without its noise) and has not arrived yet, named
    `felt position(t-1)` and so on, or by the states of the last steps (`position(t-1)`) if these
    are fewer. Before the first step the state is taken to have been that of the first. The agent
    knows of the delay, and its estimate includes what has not arrived.
    """
    d = checks.whole("steps", steps, 0, "the delay in time steps")
    if d >= problem.steps:
        raise InputError(
            f"the delay must be shorter than the trial of {problem.steps} steps, got {d}"
        )
    past = {*_past_names(problem.state_names, 1), *_past_names(problem.sense_names, 1)}
    if past & set(problem.state_names):
        raise InputError("the problem is delayed already: delay the original problem by the sum")
    if d == 0:
        return problem
    worlds = [problem] if problem.believed is None else [problem, problem.believed]
    n, k = len(problem.state_names), len(problem.sense_names)
    # World and belief must have the same states.
    of_senses = max(k * (1 + world.D.shape[1]) for world in worlds)
    delayed = [_delayed(world, d, of_senses if of_senses < n else None) for world in worlds]
    return delayed[0] if len(delayed) == 1 else delayed[0].with_believed(delayed[1])


def _past_names(names: tuple[str, ...], age: int) -> tuple[str, ...]:
    """The names of the states or senses `age` steps ago."""
    return tuple(f"{name}(t-{age})" for name in names)


def _delayed(p: Problem, d: int, remembered: int | None) -> Problem:
    """The problem whose state is extended by the last d values of what is sensed, `remembered`
    numbers each; by the last d states if that is None."""
    n, k, terms = len(p.state_names), len(p.sense_names), p.D.shape[1]
    # What arrives at t was sensed at t - d; in the first d steps arrives what is sensed first.
    sensed_at = jnp.maximum(jnp.arange(p.steps - 1) - d, 0)
    if remembered is None:
        kept = jnp.broadcast_to(jnp.eye(n), (p.steps - 1, n, n))
        H, D = p.H[sensed_at], p.D[sensed_at]
        names, units = p.state_names, p.state_units
    else:
        # H x, and D_j x for each noise that grows with the state, one below the other.
        kept = jnp.concatenate([p.H, *(p.D[:, j] for j in range(terms))], axis=1)
        kept = jnp.pad(kept, ((0, 0), (0, remembered - kept.shape[1]), (0, 0)))
        blocks = jnp.eye(remembered).reshape(-1, k, remembered)
        H, D = blocks[0], blocks[1 : 1 + terms]
        noises = [f"noise {j} of {name}" for j in range(1, len(blocks)) for name in p.sense_names]
        names, units = (*p.sense_names, *noises), p.sense_units * len(blocks)
    g = kept.shape[1]

    def on_present(M: Float[Array, "... n c"]) -> Float[Array, "... N c"]:
        """M with rows of zeros for the past, which it does not change."""
        return jnp.pad(M, [(0, 0)] * (M.ndim - 2) + [(0, d * g), (0, 0)])

    def of_oldest(M: Float[Array, "... k g"]) -> Float[Array, "... k N"]:
        """M with columns of zeros for all but the oldest."""
        return jnp.pad(M, [(0, 0)] * (M.ndim - 1) + [(n + (d - 1) * g, 0)])

    # All that is kept moves on by one step into the past.
    A = jnp.zeros((p.steps - 1, n + d * g, n + d * g)).at[:, :n, :n].set(p.A)
    A = A.at[:, n : n + g, :n].set(kept)
    A = A.at[:, n + g :, n : n + (d - 1) * g].set(jnp.eye((d - 1) * g))
    start = jnp.concatenate([jnp.eye(n)] + [kept[0]] * d)  # at first, the past is the present
    C, D = on_present(p.C), of_oldest(D)
    all_names = [*p.state_names]
    for age in range(1, d + 1):
        all_names += _past_names(names, age)

    def at_start(cov: Float[Array, "n n"]) -> Any:
        return start @ cov @ start.T

    return p.with_believed(None).replace(
        A=A,
        B=on_present(p.B),
        C=[C[:, i] for i in range(C.shape[1])],
        V=on_present(p.V),
        H=of_oldest(H),
        W=p.W[sensed_at],
        D=[D[..., j, :, :] for j in range(terms)],
        E=on_present(p.E),
        Q=jnp.pad(p.Q, ((0, 0), (0, d * g), (0, d * g))),
        initial_belief=start @ p.initial_belief,
        initial_belief_cov=at_start(p.initial_belief_cov),
        initial_state_cov=at_start(p.initial_state_cov),
        states=dict(zip(all_names, (*p.state_units, *units * d), strict=True)),
    )
