"""Play a policy in a world."""

import math
from functools import partial
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Key

from motorcost import checks
from motorcost.errors import InputError
from motorcost.model.observer import Observer, observe
from motorcost.model.problem import Problem
from motorcost.model.solver import Policy
from motorcost.model.trials import Trials
from motorcost.numerics.linalg import semidefinite_cholesky


def simulate(
    problem: Problem,
    policy: Policy,
    *,
    n_trials: int,
    key: Any,
    observer: Observer | None = None,
    initial_states: Any = None,
    initial_beliefs: Any = None,
) -> Trials:
    """`n_trials` trials of `policy` in the world of `problem`, recorded through `observer`.

    The same key gives the same trials, and more trials begin with the same ones (but for
    rounding). Without an observer every state is recorded, without noise.

    `initial_states` and `initial_beliefs`, (states,) for all trials or (trials, states) for
    each, replace the draws from the problem's start. With the states alone given, the beliefs
    are drawn around them, as far off as the problem's start says they are. The trials remember
    given states as their `starts`.
    """
    n = len(problem.state_names)
    checks.whole("n_trials", n_trials, 1, "the number of trials")
    checks.random_key(key)
    policy.require_fit(problem)
    observer = observe(problem) if observer is None else observer
    if observer.S.shape[::2] != (problem.steps, n):
        raise InputError(
            f"the observer was made for {observer.S.shape[0]} steps of {observer.S.shape[2]} "
            f"states, the problem has {problem.steps} of {n}"
        )
    start = [
        None if value is None else _for_each_trial(name, value, n_trials, n)
        for name, value in (
            ("initial_states", initial_states),
            ("initial_beliefs", initial_beliefs),
        )
    ]
    return _simulate(problem, policy, observer, n_trials, key, *start)


def _for_each_trial(name: str, value: Any, n_trials: int, n: int) -> Float[Array, "N n"]:
    array = checks.numbers(name, value)
    if array.shape not in ((n,), (n_trials, n)):
        raise InputError(
            f"{name} must have shape (states,) = ({n},) or (trials, states) = ({n_trials}, {n}), "
            f"got {array.shape}"
        )
    return jnp.broadcast_to(array, (n_trials, n))


@partial(jax.jit, static_argnames="n_trials")
def _simulate(
    problem: Problem,
    policy: Policy,
    observer: Observer,
    n_trials: int,
    key: Key[Array, ""],
    initial_states: Float[Array, "N n"] | None,
    initial_beliefs: Float[Array, "N n"] | None,
) -> Trials:
    p, b = problem, policy.believed
    n, steps = p.A.shape[-1], p.steps - 1
    shapes = [(n,), (n,), (p.steps, observer.U.shape[-1])]
    shapes += [(steps, matrix.shape[-1]) for matrix in (p.V, p.W, p.E)]
    shapes += [(steps, terms.shape[1]) for terms in (p.C, p.D)]
    around_mean, around_belief, recording_noise, *noises = _normal_draws(key, n_trials, shapes)
    around_mean = around_mean @ semidefinite_cholesky(p.initial_belief_cov).T
    around_belief = around_belief @ semidefinite_cholesky(p.initial_state_cov).T
    xh1 = p.initial_belief + around_mean if initial_beliefs is None else initial_beliefs
    if initial_states is not None and initial_beliefs is None:
        xh1 = initial_states - around_belief
    x1 = xh1 + around_belief if initial_states is None else initial_states

    def step(carry: Any, at: Any) -> Any:
        x, xh = carry
        (A, B, C, V, H, W, D, E), (Ah, Bh, Hh), (L, K), (xi, om, eta, eps, dlt) = at
        u = -xh @ L.T
        y = x @ H.T + om @ W.T + jnp.einsum("bi,ikn,bn->bk", dlt, D, x)
        x_next = x @ A.T + u @ B.T + xi @ V.T + jnp.einsum("bi,inm,bm->bn", eps, C, u)
        xh_next = xh @ Ah.T + u @ Bh.T + (y - xh @ Hh.T) @ K.T + eta @ E.T
        return (x_next, xh_next), (x_next, xh_next, u, y)

    world = (p.A, p.B, p.C, p.V, p.H, p.W, p.D, p.E)
    at_each_step = (
        world,
        (b.A, b.B, b.H),
        (policy.L, policy.K),
        [jnp.swapaxes(z, 0, 1) for z in noises],
    )
    _, (x, xh, u, y) = lax.scan(step, (x1, xh1), at_each_step)
    states, beliefs, controls, senses = (
        jnp.swapaxes(value, 0, 1)
        for value in (jnp.concatenate([x1[None], x]), jnp.concatenate([xh1[None], xh]), u, y)
    )
    observed = jnp.einsum("ton,btn->bto", observer.S, states) + jnp.einsum(
        "tou,btu->bto", observer.U, recording_noise
    )
    return Trials(
        observed=observed,
        times=p.times,
        starts=initial_states,
        states=states,
        beliefs=beliefs,
        controls=controls,
        senses=senses,
        channels=dict(zip(observer.channel_names, observer.channel_units, strict=True)),
    )


def _normal_draws(key: Key[Array, ""], n: int, shapes: list[tuple[int, ...]]) -> list[Array]:
    """Standard normal arrays of these shapes for each of `n` trials.

    One draw, which compiles faster than many; trials first, so that a trial's noise does not
    depend on how many trials follow it.
    """
    sizes = [math.prod(shape) for shape in shapes]
    flat = jax.random.normal(key, (n, sum(sizes)))
    parts = jnp.split(flat, list(accumulate(sizes))[:-1], axis=1)
    return [part.reshape(n, *shape) for part, shape in zip(parts, shapes, strict=True)]
