"""Simulate trials of a policy in a world."""

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
from motorcost.model.observer import Observer, ObserverLike, resolve_observer
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.model.trials import Trials
from motorcost.numerics.compiling import lean_jit
from motorcost.numerics.linalg import semidefinite_cholesky


def simulate(
    problem: Problem,
    policy: Policy,
    *,
    n_trials: int,
    key: Any,
    observer: ObserverLike = None,
    initial_states: Any = None,
    initial_beliefs: Any = None,
) -> Trials:
    """Simulate trials of a policy in the world of a problem.

    **Arguments:**

    - `problem`, `policy`: the world, and what the agent does in it. The policy may be one that was
      solved for another problem of the same sizes.
    - `n_trials`: the number of trials.
    - `key`: a random key. The same key gives the same trials; with a larger `n_trials` the first
      ones are the same up to rounding.
    - `observer`: how the trials are recorded: an `Observer`, an `ObserverSpec`, or a function from
      the problem to an `Observer`. The default records every state without noise.
    - `initial_states`, `initial_beliefs`: (states,) for all trials or (trials, states). They
      replace the draws from the problem's initial distribution. If only the states are given, the
      first estimates are drawn around them with `initial_state_cov`. The states are kept as the
      `starts` of the trials.

    Returns `Trials` with the states, beliefs, controls and senses behind the observed samples. With
    `sense_first`, the senses of a step are those of the state after it.

    Examples
    --------
    >>> trials = mc.simulate(problem, policy, n_trials=8, key=jax.random.key(0))
    >>> trials.states.shape, trials.controls.shape
    ((8, 12, 5), (8, 11, 1))
    """
    n = len(problem.state_names)
    checks.whole("n_trials", n_trials, 1, "the number of trials")
    checks.random_key(key)
    policy.require_fit(problem)
    states = _per_trial("initial_states", initial_states, n_trials, n)
    beliefs = _per_trial("initial_beliefs", initial_beliefs, n_trials, n)
    resolved = resolve_observer(problem, observer)
    return _simulate(problem, policy, resolved, n_trials, key, states, beliefs)


def _per_trial(name: str, value: Any, n_trials: int, n: int) -> Float[Array, "N n"] | None:
    if value is None:
        return None
    array = checks.numbers(name, value)
    if array.shape not in ((n,), (n_trials, n)):
        raise InputError(
            f"{name} must have shape (states,) = ({n},) or (trials, states) = ({n_trials}, {n}), "
            f"got {array.shape}"
        )
    return jnp.broadcast_to(array, (n_trials, n))


@partial(lean_jit, jit=jax.jit, static_argnames="n_trials")
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
    belief_noise, state_noise, recording_noise, *noises = _noises(p, observer, n_trials, key)
    x1, xh1 = _start(p, belief_noise, state_noise, initial_states, initial_beliefs)

    def step(carry: Any, at: Any) -> Any:
        x, xh = carry
        (A, B, C, V, H, W, D, E), (Ah, Bh, Hh), (L, K), (xi, om, eta, eps, dlt) = at
        u = -xh @ L.T
        x_next = x @ A.T + u @ B.T + xi @ V.T + jnp.einsum("bi,inm,bm->bn", eps, C, u)
        predicted = xh @ Ah.T + u @ Bh.T
        # The sensed state, and what the agent takes it to be.
        seen, expected = (x_next, predicted) if p.sense_first else (x, xh)
        y = seen @ H.T + om @ W.T + jnp.einsum("bi,ikn,bn->bk", dlt, D, seen)
        xh_next = predicted + (y - expected @ Hh.T) @ K.T + eta @ E.T
        return (x_next, xh_next), (x_next, xh_next, u, y)

    world = (p.A, p.B, p.C, p.V, p.H, p.W, p.D, p.E)
    noises = [jnp.swapaxes(noise, 0, 1) for noise in noises]
    inputs = (world, (b.A, b.B, b.H), (policy.L, policy.K), noises)
    _, (x, xh, u, y) = lax.scan(step, (x1, xh1), inputs)
    states, beliefs, controls, senses = (
        jnp.swapaxes(value, 0, 1)
        for value in (jnp.concatenate([x1[None], x]), jnp.concatenate([xh1[None], xh]), u, y)
    )
    observed = states
    if not observer.fully_observed:
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


def _noises(p: Problem, observer: Observer, n_trials: int, key: Key[Array, ""]) -> list[Array]:
    """All noises of the simulation, standard normal and with the trials on the first axis: of the
    first estimate, the first state, the recording, and then xi, om, eta, eps and del.

    They are a single draw, which compiles faster than many. With the trials first, the noise of a
    trial does not depend on the number of trials after it.
    """
    n, steps = p.A.shape[-1], p.steps - 1
    shapes = [(n,), (n,), (p.steps, observer.U.shape[-1])]
    shapes += [(steps, matrix.shape[-1]) for matrix in (p.V, p.W, p.E)]
    shapes += [(steps, terms.shape[1]) for terms in (p.C, p.D)]
    sizes = [math.prod(shape) for shape in shapes]
    flat = jax.random.normal(key, (n_trials, sum(sizes)))
    parts = jnp.split(flat, list(accumulate(sizes))[:-1], axis=1)
    return [part.reshape(n_trials, *shape) for part, shape in zip(parts, shapes, strict=True)]


def _start(
    p: Problem,
    belief_noise: Float[Array, "N n"],
    state_noise: Float[Array, "N n"],
    initial_states: Float[Array, "N n"] | None,
    initial_beliefs: Float[Array, "N n"] | None,
) -> tuple[Float[Array, "N n"], Float[Array, "N n"]]:
    """The first states and the first estimates: drawn, or as given."""
    around_mean = belief_noise @ semidefinite_cholesky(p.initial_belief_cov).T
    around_belief = state_noise @ semidefinite_cholesky(p.initial_state_cov).T
    xh1 = p.initial_belief + around_mean if initial_beliefs is None else initial_beliefs
    if initial_states is not None and initial_beliefs is None:
        xh1 = initial_states - around_belief
    x1 = xh1 + around_belief if initial_states is None else initial_states
    return x1, xh1
