"""What the experimenter records: o = S x + U th."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.errors import InputError
from motorcost.model.problem import Matrix, Names, Problem


class Observer(eqx.Module):
    """A recording device: `S` (channels, states) and the factor `U` (channels, any) of its noise.

    Both are given once or for each of the T states. `observe` makes the usual ones by name.
    """

    S: Float[Array, "T o n"]
    U: Float[Array, "T o u"]
    fully_observed: bool = eqx.field(
        static=True
    )  # known to see every state, in order, without noise
    channel_names: tuple[str, ...] = eqx.field(static=True)
    channel_units: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        problem: Problem,
        S: Matrix,
        U: Matrix | None = None,
        channels: Names | None = None,
    ) -> None:
        T, n = problem.steps, len(problem.state_names)
        named = None if channels is None else len(channels)
        self.S = checks.matrix("S", S, (named, n), "channels, states", T, "T")
        o = self.S.shape[1]
        if o == 0 or (checks.is_concrete(self.S) and not jnp.any(self.S != 0)):
            raise InputError("the observer sees nothing: S has no entry that is not zero")
        U = np.zeros((o, 0)) if U is None else U
        seen, noise = checks.numbers("S", S), checks.numbers("U", U)
        given = isinstance(seen, np.ndarray) and isinstance(noise, np.ndarray)
        self.fully_observed = (
            given and o == n and bool((seen == np.eye(n)).all() and not noise.any())
        )
        self.U = checks.matrix("U", U, (o, None), "channels, noises", T, "T")
        names, units = checks.labels("channels", channels, o, "channel")
        self.channel_names, self.channel_units = names, units

    def padded(self, steps: int) -> Observer:
        """The same observer for a problem that was padded to `steps`."""

        def longer(value: Array) -> Array:
            more = jnp.broadcast_to(value[-1], (steps - value.shape[0], *value.shape[1:]))
            return jnp.concatenate([value, more])

        return eqx.tree_at(lambda o: (o.S, o.U), self, (longer(self.S), longer(self.U)))


def observe(
    problem: Problem,
    states: Sequence[str] | None = None,
    noise: Any = 0.0,
) -> Observer:
    """An observer that records some of the states, each with noise of its own.

    `states` are names of `problem`'s states, all if left out. `noise` is the SD of the
    recording noise in the states' own units: one for all channels, one a channel, or by name
    (channels not named are recorded without noise).
    """
    names = list(problem.state_names if states is None else states)
    if isinstance(states, str):
        raise InputError(f"states must be a list of names: observe(problem, [{states!r}])")
    if not names:
        raise InputError("an observer must see at least one state, got an empty list")
    rows = [
        problem.state_names.index(checks.one_of("state", name, problem.state_names))
        for name in names
    ]
    checks.distinct("states", names)
    sd: Any = noise
    if isinstance(noise, Mapping):
        for name in noise:
            checks.one_of("observed state", name, names)
        sd = [noise.get(name, 0.0) for name in names]
    checks.nonnegative(noise=sd)
    sd = checks.numbers("noise", sd)
    if sd.shape not in ((), (len(names),)):
        raise InputError(
            f"noise must be one SD or one a channel ({len(names)}), got shape {sd.shape}"
        )
    return Observer(
        problem,
        # In NumPy where it can be: what is known while JAX traces tells how to filter.
        S=np.eye(len(problem.state_names))[rows],
        U=(jnp if isinstance(sd, jax.Array) else np).diag(sd * np.ones(len(names))),
        channels={name: problem.state_units[row] for name, row in zip(names, rows, strict=True)},
    )


@dataclass(frozen=True)
class ObserverSpec:
    """What is recorded in every trial, whatever its problem: a function from a problem to its
    observer, as `fit` needs it.

    `states` are names of the problem's states, `noise` the SD of the recording noise in their
    units: one for all, one a channel, or by name. It may be inferred: `recording_noise` for all
    channels together, or `recording_noise_position` for one.
    """

    states: tuple[str, ...]
    noise: Any = 0.0

    def __init__(self, states: Sequence[str], noise: Any = 0.0) -> None:
        if isinstance(states, str):
            raise InputError(f"states must be a list of names: ObserverSpec([{states!r}])")
        object.__setattr__(self, "states", tuple(states))
        if isinstance(noise, Mapping):
            for name in noise:
                checks.one_of("recorded state", name, self.states)
            noise = [noise.get(name, 0.0) for name in self.states]
        known = all(checks.is_concrete(each) for each in jax.tree.leaves(noise))
        if known:
            checks.nonnegative(noise=noise)
            noise = checks.numbers("noise", noise).tolist()
        object.__setattr__(self, "noise", tuple(noise) if isinstance(noise, list) else noise)

    @property
    def parameters(self) -> tuple[str, ...]:
        """What can be inferred of it, by name."""
        return ("recording_noise", *(f"recording_noise_{name}" for name in self.states))

    def with_noises(self, values: Mapping[str, Any]) -> ObserverSpec:
        """The same with other noises, by the names of `parameters`."""
        if "recording_noise" in values:
            return ObserverSpec(self.states, values["recording_noise"])
        now = self.noise if isinstance(self.noise, tuple) else (self.noise,) * len(self.states)
        names = zip(self.parameters[1:], now, strict=True)
        return ObserverSpec(self.states, [values.get(name, noise) for name, noise in names])

    def __call__(self, problem: Problem) -> Observer:
        """The observer of this problem."""
        noise = list(self.noise) if isinstance(self.noise, tuple) else self.noise
        return observe(problem, self.states, noise)
