"""Behaviour, recorded or simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.errors import InputError
from motorcost.model.problem import Names, Problem


class PerTrial:
    """A value for each trial, known even while JAX traces, so that trials can be grouped by it."""

    def __init__(self, values: Any) -> None:
        self.values = np.array(values)
        self.values.flags.writeable = False
        self._hash = hash((self.values.dtype.str, self.values.shape, self.values.tobytes()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PerTrial)
            and self.values.dtype == other.values.dtype
            and np.array_equal(self.values, other.values)
        )


class Trials(eqx.Module):
    """Trials of one task; axes (trial, time, dimension).

    - `observed`: what the experimenter recorded, a channel for each of `channel_names`, NaN where
      a sample is missing and after a trial's end.
    - `times`: seconds from the first sample, on the model's grid.
    - `starts`: each trial's first state, where it is known (trial, state), or None.
    - `states`, `beliefs` (T each), `controls`, `senses` (T-1 each): the truth behind it, for
      simulated trials, else None.
    - `lengths`: the number of model steps of each trial, its horizon T.
    - `conditions`: by name, a value for each trial (a target, a load).

    `Trials.recorded` makes them from recordings, `simulate` from a model.
    """

    observed: Float[Array, "N T o"]
    times: Float[Array, " T"]
    starts: Float[Array, "N n"] | None
    states: Float[Array, "N T n"] | None
    beliefs: Float[Array, "N T n"] | None
    controls: Float[Array, "N steps m"] | None
    senses: Float[Array, "N steps k"] | None
    channel_names: tuple[str, ...] = eqx.field(static=True)
    channel_units: tuple[str, ...] = eqx.field(static=True)
    complete: bool | None = eqx.field(static=True)  # none missing before a trial's end, if known
    _lengths: PerTrial = eqx.field(static=True)
    _conditions: tuple[tuple[str, PerTrial], ...] = eqx.field(static=True)

    def __init__(
        self,
        observed: Float[Array | np.ndarray, "N T o"],
        times: Float[Array, " T"],
        *,
        channels: Names | None = None,
        starts: Float[Array, "N n"] | None = None,
        states: Float[Array, "N T n"] | None = None,
        beliefs: Float[Array, "N T n"] | None = None,
        controls: Float[Array, "N steps m"] | None = None,
        senses: Float[Array, "N steps k"] | None = None,
        lengths: Any = None,
        conditions: Mapping[str, Any] | None = None,
    ) -> None:
        checks.require_float64()
        N, T, o = observed.shape
        self.observed, self.times, self.starts = jnp.asarray(observed, float), times, starts
        if starts is not None and checks.is_concrete(starts) and not np.isfinite(starts).all():
            raise InputError("starts must be finite")
        self.states, self.beliefs, self.controls, self.senses = states, beliefs, controls, senses
        self.channel_names, self.channel_units = checks.labels("channels", channels, o, "channel")
        self._lengths = PerTrial(np.full(N, T) if lengths is None else lengths)
        if self.lengths.shape != (N,) or (
            N and not 2 <= self.lengths.min() <= self.lengths.max() <= T
        ):
            raise InputError(f"lengths must be {N} whole numbers from 2 to {T}, one a trial")
        self._conditions = tuple(
            (name, _condition(name, values, N)) for name, values in (conditions or {}).items()
        )
        self.complete = None
        if checks.is_concrete(observed):
            within = np.arange(T) < self.lengths[:, None]
            self.complete = not bool(np.isnan(np.asarray(observed)[within]).any())

    @classmethod
    def recorded(
        cls,
        samples: Any,
        *,
        dt: float,
        channels: Names | None = None,
        times: Any = None,
        lengths: Sequence[int] | None = None,
        starts: Any = None,
        conditions: Mapping[str, Any] | None = None,
    ) -> Trials:
        """Trials from recordings, placed on the grid of a model that steps by `dt` seconds.

        - `samples`: (trial, time, channel), or a list with a (time, channel) array for each
          trial. NaN where a sample is missing: it is skipped, never interpolated.
        - `times`: seconds, for each trial (or for all) an array with the time of each sample; the
          first is the trial's first step. Left out, a sample is a model step. A recording may be
          slower than the model: the steps between its samples are not observed.
        - `lengths`: the horizon of each trial, in model steps; up to its last sample if left out.
        - `starts`: (trial, state), where the first state of a trial is known from elsewhere; the
          agent's first estimate is then around it.
        - `conditions`: by name, a value for each trial.
        """
        checks.positive(dt=dt)
        arrays = [_samples(f"samples[{i}]", one) for i, one in enumerate(samples)]
        if not arrays:
            raise InputError("there are no trials: samples is empty")
        o = arrays[0].shape[1]
        for i, one in enumerate(arrays):
            if one.shape[1] != o:
                raise InputError(
                    f"samples[{i}] has {one.shape[1]} channels, samples[0] has {o}: "
                    "all trials need the same"
                )
        steps = [_grid(i, len(one), times, len(arrays), dt) for i, one in enumerate(arrays)]
        ends = [int(step[-1]) + 1 for step in steps]
        horizons = ends
        if lengths is not None:
            horizons = [
                checks.whole(f"lengths[{i}]", length, 2, "model steps")
                for i, length in enumerate(np.atleast_1d(lengths).tolist())
            ]
        if len(horizons) != len(arrays):
            raise InputError(f"lengths must be {len(arrays)}, one a trial, got {len(horizons)}")
        for i, (end, horizon) in enumerate(zip(ends, horizons, strict=True)):
            if horizon < max(end, 2):
                raise InputError(
                    f"trial {i} must have a length of at least {max(end, 2)} model steps of "
                    f"{dt:g} s, got {horizon}"
                )
        observed = np.full((len(arrays), max(horizons), o), np.nan)
        for i, (one, step) in enumerate(zip(arrays, steps, strict=True)):
            observed[i, step] = one
        if starts is not None:
            starts = jnp.asarray(checks.numbers("starts", starts))
            if starts.ndim != 2 or starts.shape[0] != len(arrays):
                raise InputError(
                    f"starts must have shape (trials, states) = ({len(arrays)}, states), "
                    f"got {starts.shape}"
                )
        return cls(
            jnp.asarray(observed),
            jnp.arange(max(horizons)) * dt,
            channels=channels,
            starts=starts,
            lengths=horizons,
            conditions=conditions,
        )

    @property
    def lengths(self) -> np.ndarray:
        """The number of model steps of each trial, its horizon T."""
        return self._lengths.values

    @property
    def conditions(self) -> dict[str, np.ndarray]:
        """By name, a value for each trial."""
        return {name: values.values for name, values in self._conditions}

    def with_conditions(self, **conditions: Any) -> Trials:
        """The same trials with conditions: one value for all trials, or one for each."""
        return self._changed(conditions=self.conditions | conditions)

    def costs(self, problem: Problem) -> Float[Array, " N"]:
        """What each simulated trial cost, by `problem`'s cost."""
        if self.states is None or self.controls is None:
            raise InputError("the cost of a trial needs its states and controls: simulate it")
        x, u = self.states, self.controls
        return jnp.einsum("bti,tij,btj->b", x, problem.Q, x) + jnp.einsum(
            "bti,tij,btj->b", u, problem.R, u
        )

    def _changed(self, **changes: Any) -> Trials:
        names = ("observed", "times", "starts", "states", "beliefs", "controls", "senses")
        given = {name: getattr(self, name) for name in (*names, "lengths", "conditions")}
        given["channels"] = dict(zip(self.channel_names, self.channel_units, strict=True))
        return Trials(**(given | changes))

    def __len__(self) -> int:
        return self.observed.shape[0]

    def __getitem__(self, which: Any) -> Trials:
        """Some of the trials: `trials[:10]`, or by an array of indices or of true and false."""
        try:
            index = np.arange(len(self))[which if isinstance(which, slice) else np.asarray(which)]
        except (IndexError, TypeError) as error:
            raise InputError(f"cannot choose from {len(self)} trials: {error}") from None
        if index.ndim != 1:
            raise InputError("trials are chosen by a slice or a list: trials[2:3], trials[[2]]")
        fields = ("observed", "starts", "states", "beliefs", "controls", "senses")
        parts = {name: getattr(self, name) for name in fields}
        return self._changed(
            **{name: None if part is None else part[index] for name, part in parts.items()},
            lengths=self.lengths[index],
            conditions={name: values[index] for name, values in self.conditions.items()},
        )

    def __repr__(self) -> str:
        shortest, longest = self.lengths.min(initial=10**9), self.lengths.max(initial=0)
        steps = f"{longest}" if shortest == longest else f"{shortest} to {longest}"
        by = f" by {', '.join(self.conditions)}" if self.conditions else ""
        return f"Trials: {len(self)} of {steps} steps ({', '.join(self.channel_names)}){by}"


def concatenate(trials: Sequence[Trials]) -> Trials:
    """Several sets of trials as one: of other lengths or conditions, but with the same channels,
    the same time step and conditions of the same names. What only some sets have is dropped."""
    if not trials:
        raise InputError("there are no trials to concatenate")
    first = trials[0]
    for i, other in enumerate(trials):
        if other.channel_names != first.channel_names:
            raise InputError(
                f"trials[{i}] recorded {', '.join(other.channel_names)}; trials[0] recorded "
                f"{', '.join(first.channel_names)}"
            )
        if set(other.conditions) != set(first.conditions):
            raise InputError(
                f"trials[{i}] has the conditions {sorted(other.conditions)}, trials[0] has "
                f"{sorted(first.conditions)}"
            )
        both = zip(other.channel_units, first.channel_units, strict=True)
        if any(one and two and one != two for one, two in both):
            raise InputError(f"trials[{i}] and trials[0] have channels in other units")
        if not np.isclose(_step(other), _step(first), rtol=1e-6):
            raise InputError(
                f"trials[{i}] is on a grid of {_step(other):g} s, trials[0] of {_step(first):g} s"
            )
        if (other.starts is None) != (first.starts is None):
            raise InputError("either all sets or none must have starts")
    longest = max(trials, key=lambda t: t.observed.shape[1])
    T = longest.observed.shape[1]
    steps = {"observed": T, "states": T, "beliefs": T, "controls": T - 1, "senses": T - 1}

    def together(name: str) -> Any:
        parts = [getattr(t, name) for t in trials]
        if any(part is None for part in parts):
            return None
        if name in steps:
            pads = [((0, 0), (0, steps[name] - part.shape[1]), (0, 0)) for part in parts]
            parts = [
                jnp.pad(part, pad, constant_values=jnp.nan)
                for part, pad in zip(parts, pads, strict=True)
            ]
        return jnp.concatenate(parts)

    return Trials(
        times=longest.times,
        channels=dict(zip(first.channel_names, first.channel_units, strict=True)),
        **{name: together(name) for name in (*steps, "starts")},
        lengths=np.concatenate([t.lengths for t in trials]),
        conditions={
            name: np.concatenate([t.conditions[name] for t in trials]) for name in first.conditions
        },
    )


def _step(trials: Trials) -> float:
    return float(trials.times[1] - trials.times[0])


def _condition(name: str, values: Any, n_trials: int) -> PerTrial:
    if np.shape(values) not in ((), (n_trials,)):
        raise InputError(
            f"the condition {name!r} must be one value or one for each of {n_trials} trials, "
            f"got shape {np.shape(values)}"
        )
    array = np.asarray(values)
    if name in ("steps", "dt"):
        raise InputError(f"{name} cannot be a condition: the trials' lengths and grid tell it")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InputError(f"the condition {name!r} must be finite")
    return PerTrial(np.broadcast_to(array, (n_trials,)))


def _samples(name: str, value: Any) -> np.ndarray:
    try:
        array: np.ndarray = np.ma.filled(np.ma.asarray(value, float), np.nan)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers, NaN where a sample is missing") from error
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"{name} must have shape (time, channel), got {array.shape}")
    if np.isinf(array).any():
        row, column = (int(i) for i in np.argwhere(np.isinf(array))[0])
        raise InputError(f"{name} must be finite or NaN, got inf at sample {row}, channel {column}")
    return array


def _grid(trial: int, count: int, times: Any, n_trials: int, dt: float) -> np.ndarray:
    """The model step of each of a trial's samples."""
    if times is None:
        return np.arange(count)
    if not hasattr(times, "__len__"):
        raise InputError(f"times must be the time of each sample, in seconds, got {times!r}")
    per_trial = len(times) == n_trials and np.ndim(times[0]) == 1
    time = np.asarray(times[trial] if per_trial else times, float)
    if time.shape != (count,):
        raise InputError(f"trial {trial} has {count} samples but {time.size} times")
    if not np.isfinite(time).all() or (np.diff(time) <= 0).any():
        raise InputError(f"the times of trial {trial} must be finite and increase")
    steps = np.round((time - time[0]) / dt).astype(int)
    if (np.diff(steps) == 0).any():
        at = int(np.argmax(np.diff(steps) == 0))
        raise InputError(
            f"samples {at} and {at + 1} of trial {trial} fall into one model step: the model's "
            f"dt ({dt:g} s) must not be longer than the recording's ({time[at + 1] - time[at]:g} s)"
        )
    return steps
