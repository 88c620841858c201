"""What the experimenter records: o = S x + U th.

An `Observer` belongs to one problem. An `ObserverSpec` says which states are recorded, and with
which noise, for any problem; it is a function from a problem to its observer. Functions that take
an observer accept either, by way of `resolve_observer`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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

# The parameter that stands for the recording noise of all channels together. The noise of a single
# channel is a parameter of its own, with the name that `noise_parameter` gives it.
SHARED_NOISE = "recording_noise"


class Observer(eqx.Module):
    """The experimenter's observation of one problem: o = S x + U th.

    **Arguments:**

    - `problem`: the problem whose states are recorded.
    - `S` (channels, states): the observation matrix.
    - `U` (channels, any): the factor of the recording noise, whose covariance is U U'. The default
      is no noise.
    - `channels`: names, or a mapping from name to unit.

    S and U are single matrices or one for each of the T states; they are stored with a time axis.
    `observe` makes observers from names of states.

    `fully_observed` is whether every state is known to be recorded, in order and without noise.

    Examples
    --------
    >>> observer = mc.Observer(problem, S=[[1, 0, 0, 0, 0]], U=[[1e-3]])
    >>> observer.S.shape
    (12, 1, 5)
    """

    S: Float[Array, "T o n"]
    U: Float[Array, "T o u"]
    fully_observed: bool = eqx.field(static=True)
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
        rows = None if channels is None else len(channels)
        self.S = checks.matrix("S", S, (rows, n), "channels, states", T, "T")
        o = self.S.shape[1]
        if o == 0 or (checks.is_concrete(self.S) and not np.asarray(self.S).any()):
            raise InputError("the observer records nothing: S must have an entry other than zero")
        U = np.zeros((o, 0)) if U is None else U
        matrix, noise = checks.numbers("S", S), checks.numbers("U", U)
        concrete = isinstance(matrix, np.ndarray) and isinstance(noise, np.ndarray)
        self.fully_observed = (
            concrete and o == n and bool((matrix == np.eye(n)).all() and not noise.any())
        )
        self.U = checks.matrix("U", U, (o, None), "channels, noises", T, "T")
        self.channel_names, self.channel_units = checks.labels("channels", channels, o, "channel")

    def padded(self, steps: int) -> Observer:
        """Return the observer of the problem that was padded to `steps`."""

        def extended(matrices: Array) -> Array:
            xp = checks.array_module(matrices)
            matrices = xp.asarray(matrices)
            extra = (steps - matrices.shape[0], *matrices.shape[1:])
            repeated = xp.broadcast_to(matrices[-1], extra)
            return checks.jax_array(xp.concatenate([matrices, repeated]))

        return eqx.tree_at(lambda o: (o.S, o.U), self, (extended(self.S), extended(self.U)))


# An observer of one problem, a function that makes the observer of any problem (an `ObserverSpec`
# is one), or None for all states without noise.
ObserverLike = Observer | Callable[[Problem], Observer] | None


def resolve_observer(problem: Problem, observer: ObserverLike) -> Observer:
    """Return the observer of this problem.

    `observer` is an `Observer`, which must have been made for the problem's numbers of steps and
    states, an `ObserverSpec` or another function from a problem to an `Observer`, or None for an
    observer of all states without noise.
    """
    if observer is None:
        return observe(problem)
    result = observer
    if not isinstance(observer, Observer) and callable(observer):
        result = observer(problem)
    if not isinstance(result, Observer):
        raise InputError(
            "observer must be an Observer, as mc.observe(problem, ['position'], noise=1e-3), or an "
            f"ObserverSpec, as mc.ObserverSpec(['position'], noise=1e-3), got {result!r}"
        )
    steps, n = result.S.shape[0], result.S.shape[2]
    if (steps, n) != (problem.steps, len(problem.state_names)):
        raise InputError(
            f"the observer was made for {steps} steps of {n} states, the problem has "
            f"{problem.steps} steps of {len(problem.state_names)} states"
        )
    return result


def observe(
    problem: Problem,
    states: Sequence[str] | None = None,
    noise: Any = 0.0,
) -> Observer:
    """Return an observer that records states of `problem`, each with independent noise.

    **Arguments:**

    - `states`: names of states, one channel per state. The default is all states.
    - `noise`: the SD of the recording noise in the units of the states: a number for all channels,
      one per channel, or a mapping from name to SD (channels that it does not name have no noise).

    Examples
    --------
    >>> observer = mc.observe(problem, ["position", "velocity"], noise=[1e-3, 1e-2])
    >>> observer.channel_names
    ('position', 'velocity')
    """
    if isinstance(states, str):
        raise InputError(f"states must be a list of names: observe(problem, [{states!r}])")
    names = list(problem.state_names if states is None else states)
    if not names:
        raise InputError("an observer must record at least one state, got an empty list")
    rows = [
        problem.state_names.index(checks.one_of("state", name, problem.state_names))
        for name in names
    ]
    checks.distinct("states", names)
    sd: Any = noise
    if isinstance(noise, Mapping):
        sd = _by_state(noise, names)
    checks.nonnegative(noise=sd)
    sd = checks.numbers("noise", sd)
    if sd.shape not in ((), (len(names),)):
        raise InputError(
            f"noise must be one SD or one per channel ({len(names)}), got shape {sd.shape}"
        )
    return Observer(
        problem,
        # In NumPy where possible, so that the filter can see even while JAX traces whether all
        # states are recorded, and without noise.
        S=np.eye(len(problem.state_names))[rows],
        U=(jnp if isinstance(sd, jax.Array) else np).diag(sd * np.ones(len(names))),
        channels={name: problem.state_units[row] for name, row in zip(names, rows, strict=True)},
    )


def noise_parameter(state: str) -> str:
    """The name of the parameter that is the recording noise of this state alone."""
    return f"{SHARED_NOISE}_{state}"


@dataclass(frozen=True)
class ObserverSpec:
    """A recipe for observers: which states are recorded in every trial, whatever its problem.

    **Arguments:**

    - `states`: names of the problem's states, one channel per state.
    - `noise`: the SD of the recording noise in the units of the states: a number for all channels,
      one per channel, or a mapping from name to SD.

    It is a function from a problem to its `Observer`. Its noise can be inferred by `fit`, with the
    parameter `recording_noise` for all channels together, or `recording_noise_position` for the
    channel `position` (see `parameters`).

    Examples
    --------
    >>> camera = mc.ObserverSpec(["position"], noise=1e-3)
    >>> camera(problem).channel_names
    ('position',)
    """

    states: tuple[str, ...]
    noise: Any = 0.0

    def __init__(self, states: Sequence[str], noise: Any = 0.0) -> None:
        if isinstance(states, str):
            raise InputError(f"states must be a list of names: ObserverSpec([{states!r}])")
        object.__setattr__(self, "states", tuple(states))
        if isinstance(noise, Mapping):
            noise = _by_state(noise, self.states)
        if all(checks.is_concrete(leaf) for leaf in jax.tree.leaves(noise)):
            checks.nonnegative(noise=noise)
            noise = checks.numbers("noise", noise).tolist()
        object.__setattr__(self, "noise", tuple(noise) if isinstance(noise, list) else noise)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters that are recording noises of this observer."""
        return (SHARED_NOISE, *map(noise_parameter, self.states))

    def states_of(self, parameter: str) -> tuple[str, ...]:
        """The states whose recording noise this parameter is: all, one, or none of them."""
        if parameter == SHARED_NOISE:
            return self.states
        return tuple(state for state in self.states if noise_parameter(state) == parameter)

    def usual_noise(self, parameter: str) -> float | None:
        """The SD that this parameter has in the recipe, if that is one positive number."""
        noise = self.noise if isinstance(self.noise, tuple) else (self.noise,) * len(self.states)
        named = self.states_of(parameter)
        values = {sd for state, sd in zip(self.states, noise, strict=True) if state in named}
        value = values.pop() if len(values) == 1 else None
        return value if isinstance(value, float) and value > 0 else None

    def with_noises(self, values: Mapping[str, Any]) -> ObserverSpec:
        """Return the recipe with other recording noises.

        `values` are SDs by the names of `parameters`; others are ignored. `recording_noise` sets
        all channels, and takes precedence.
        """
        if SHARED_NOISE in values:
            return ObserverSpec(self.states, values[SHARED_NOISE])
        per_state = (
            self.noise if isinstance(self.noise, tuple) else (self.noise,) * len(self.states)
        )
        noises = [
            values.get(noise_parameter(state), sd)
            for state, sd in zip(self.states, per_state, strict=True)
        ]
        return ObserverSpec(self.states, noises)

    def __call__(self, problem: Problem) -> Observer:
        """Return the observer of this problem."""
        noise = list(self.noise) if isinstance(self.noise, tuple) else self.noise
        return observe(problem, self.states, noise)


def _by_state(noise: Mapping[str, Any], states: Sequence[str]) -> list[Any]:
    """The SD of each state, 0 for those that `noise` does not name."""
    for name in noise:
        checks.one_of("recorded state", name, states)
    return [noise.get(name, 0.0) for name in states]
