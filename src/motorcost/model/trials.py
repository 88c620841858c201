"""Recorded or simulated behaviour.

`Trials` hold samples on the time grid of a model, with units and conditions;
`trials_in_model_units` converts them to the units of a problem.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.errors import InputError
from motorcost.markup import html_table
from motorcost.model import units as conversion
from motorcost.model.grid import place
from motorcost.model.problem import Names, Problem
from motorcost.numerics.linalg import entries

if TYPE_CHECKING:
    from motorcost.plots.style import CaptionedFigure


class PerTrial:
    """One value per trial, concrete even while JAX traces, so that trials can be grouped by it."""

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

    `Trials.recorded` makes them from recorded samples, `simulate` from a model, and
    `mc.io.read(file).trials(dt=...)` from a file.

    **Attributes:**

    - `observed`: the recorded samples, one channel for each of `channel_names`, NaN where a sample
      is missing and after the end of a trial.
    - `times`: seconds from the first sample, on the grid of the model; negative in the lead, the
      steps before the first sample (see `with_lead`).
    - `lengths`: the number of model steps of each trial, its horizon T.
    - `channel_names`, `channel_units`: tuples of strings; a unit is "" where it is not known.
    - `conditions`: one value per trial (a target, a load), by name; `condition_units`: their
      units, by name, "" where they are not known.
    - `starts`: the first state of each trial (trial, state) where it is known, or None; always in
      the units of the problem.
    - `states`, `beliefs` (T each), `controls`, `senses` (T-1 each): of simulated trials, in the
      units of the problem; None for recorded ones.
    - `complete`: whether no sample is missing before the end of a trial; None if the samples are
      not concrete.

    Examples
    --------
    >>> trials.observed.shape  # (trial, time, channel)
    (8, 12, 5)
    >>> trials.channel_names
    ('position', 'velocity', 'force', 'muscle', 'target')
    >>> recorded = mc.Trials.recorded(np.zeros((2, 20, 1)), dt=0.01, channels=["position"])
    >>> recorded.lengths
    array([20, 20])
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
    complete: bool | None = eqx.field(static=True)
    _lengths: PerTrial = eqx.field(static=True)
    _conditions: tuple[tuple[str, PerTrial, str], ...] = eqx.field(static=True)  # name, .., unit

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
        condition_units: Mapping[str, str] | None = None,
    ) -> None:
        checks.require_float64()
        N, T, o = observed.shape
        xp = checks.array_module(observed)
        self.observed = checks.jax_array(xp.asarray(observed, float))
        self.times, self.starts = times, starts
        if starts is not None and checks.is_concrete(starts) and not np.isfinite(starts).all():
            raise InputError("starts must be finite")
        self.states, self.beliefs, self.controls, self.senses = states, beliefs, controls, senses
        self.channel_names, self.channel_units = checks.labels("channels", channels, o, "channel")
        self._lengths = PerTrial(np.full(N, T) if lengths is None else lengths)
        if self.lengths.shape != (N,) or (
            N and not 2 <= self.lengths.min() <= self.lengths.max() <= T
        ):
            raise InputError(f"lengths must be {N} whole numbers from 2 to {T}, one per trial")
        conditions, condition_units = conditions or {}, condition_units or {}
        for name in condition_units:
            checks.one_of("condition", name, list(conditions))
        self._conditions = tuple(
            (name, _condition(name, values, N), condition_units.get(name, ""))
            for name, values in conditions.items()
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
        condition_units: Mapping[str, str] | None = None,
    ) -> Trials:
        """Return trials of recorded samples, on the grid of a model with steps of `dt` seconds.

        **Arguments:**

        - `samples`: (trial, time, channel), or a list with an array (time, channel) per trial. NaN
          marks missing samples, which are skipped, never interpolated.
        - `channels`: names, or a mapping from name to unit.
        - `times`: the times of the samples in seconds, an array per trial or one for all; the
          first sample is at the first step of the trial. By default there is one sample per step.
          Steps of the model between the samples of a slower recording are not observed.
        - `lengths`: the horizons of the trials in model steps. By default a trial ends with its
          last sample.
        - `starts`: (trial, state), where the first state of a trial is known otherwise, in the
          units of the model; the agent's first estimate is then around it.
        - `conditions`: one value per trial, by name; `condition_units`: units, by name.
        """
        checks.positive(dt=dt)
        observed, horizons = place(samples, times, lengths, dt)
        if starts is not None:
            starts = checks.jax_array(checks.numbers("starts", starts))
            if starts.ndim != 2 or starts.shape[0] != len(observed):
                raise InputError(
                    f"starts must have shape (trials, states) = ({len(observed)}, states), "
                    f"got {starts.shape}"
                )
        return cls(
            checks.jax_array(observed),
            checks.jax_array(np.arange(max(horizons)) * dt),
            channels=channels,
            starts=starts,
            lengths=horizons,
            conditions=conditions,
            condition_units=condition_units,
        )

    @property
    def lengths(self) -> np.ndarray:
        """The number of model steps of each trial, its horizon T."""
        return self._lengths.values

    @property
    def conditions(self) -> dict[str, np.ndarray]:
        """One value per trial, by the name of the condition."""
        return {name: per_trial.values for name, per_trial, _ in self._conditions}

    @property
    def condition_units(self) -> dict[str, str]:
        """The units of the conditions, by name; "" where they are not known."""
        return {name: unit for name, _, unit in self._conditions}

    @property
    def dt(self) -> float:
        """Seconds in a step of the model's grid."""
        first, second = np.asarray(self.times)[:2]
        return float(second - first)

    @property
    def lead(self) -> float:
        """Seconds from the first step of the model to the first sample; 0 unless set by
        `with_lead`."""
        first = float(np.asarray(self.times)[0])
        return -first if first < 0 else 0.0

    @property
    def lead_steps(self) -> int:
        """Steps of the model before the first sample."""
        return round(self.lead / self.dt)

    def with_lead(self, seconds: float) -> Trials:
        """Return the trials for a model that begins `seconds` before the first sample.

        Movements that are cut out of a recording are under way at their first sample, while a
        model begins at rest. With a lead it begins earlier, in steps that are not observed: each
        trial becomes longer by the nearest number of steps, at least one. Time 0 stays at the
        first sample. States, beliefs, controls and senses of simulated trials are NaN in the lead.
        A lead that the trials have already is replaced; 0 removes it.
        """
        steps, old = self._steps_of_lead(seconds), self.lead_steps
        if steps == old:
            return self

        def moved(values: Any) -> Any:
            if values is None:
                return None
            values, pad = checks.concrete_in_numpy(values), ((0, 0), (steps, 0), (0, 0))
            xp = checks.array_module(values)
            return checks.jax_array(xp.pad(values[:, old:], pad, constant_values=np.nan))

        names = ("observed", "states", "beliefs", "controls", "senses")
        return self._changed(
            **{name: moved(getattr(self, name)) for name in names},
            times=checks.jax_array(np.arange(-steps, self.times.shape[0] - old) * self.dt),
            lengths=self.lengths + (steps - old),
        )

    def observed_from(self, step: int) -> Trials:
        """Return the trials as if they had been recorded from a step on, as a movement is that is
        cut out of a recording: the steps before it become the lead."""
        if not step:
            return self
        return self._changed(
            observed=self.observed.at[:, :step].set(jnp.nan),
            times=checks.jax_array(np.arange(-step, self.times.shape[0] - step) * self.dt),
        )

    def _steps_of_lead(self, seconds: float) -> int:
        """The steps of a lead; raises unless these trials can have it."""
        checks.nonnegative(lead=seconds)
        if not seconds:
            return 0
        if self.starts is not None:
            raise InputError("lead must be 0 where the first states of the trials are known")
        shortest = (self.lengths.min(initial=10**9) - self.lead_steps - 1) * self.dt
        if seconds >= shortest:
            raise InputError(
                f"lead must be shorter than the shortest trial, which lasts {shortest:.3g} s, got "
                f"{seconds:g} s: leave short trials out, or take a shorter lead"
            )
        return max(1, round(seconds / self.dt))

    def with_conditions(self, **conditions: Any) -> Trials:
        """Return the trials with further conditions: one value for all trials, or one per trial.

        The units of other conditions are kept; the units of these are not known.
        """
        kept = {name: u for name, u in self.condition_units.items() if name not in conditions}
        return self._changed(conditions=self.conditions | conditions, condition_units=kept)

    def in_units(self, **units: str) -> Trials:
        """Return the trials with channels and conditions in other units: `in_units(position="m")`.

        Names are those of channels and conditions; a name that both have stands for both. Units
        must be known, and of the same kind. Starts, states, beliefs, controls and senses are not
        converted: they are in the units of the problem.
        """
        for name in units:
            checks.one_of("channel or condition", name, [*self.channel_names, *self.conditions])
        return self._converted(units, units)

    def _converted(self, channels: Mapping[str, str], conditions: Mapping[str, str]) -> Trials:
        """The trials with these channels and these conditions in other units, by name."""
        old_units = dict(zip(self.channel_names, self.channel_units, strict=True))
        new_units = {name: channels.get(name, old) for name, old in old_units.items()}
        factors = [conversion.factor(name, old, new_units[name]) for name, old in old_units.items()]
        values, value_units = self.conditions, self.condition_units
        for name in conditions.keys() & values.keys():
            factor = conversion.factor(name, value_units[name], conditions[name])
            if values[name].dtype.kind not in "iuf":
                raise InputError(
                    f"the condition {name!r} must be numbers to be converted to "
                    f"{conditions[name]}, got {values[name][0]!r}"
                )
            if factor != 1:
                values[name] = factor * values[name]
            value_units[name] = conditions[name]
        return self._changed(
            observed=self.observed * np.asarray(factors),
            channels=new_units,
            conditions=values,
            condition_units=value_units,
        )

    def costs(self, problem: Problem) -> Float[Array, " N"]:
        """Return the cost of each simulated trial, by the cost of `problem`."""
        if self.states is None or self.controls is None:
            raise InputError("the cost of a trial needs its states and controls: use mc.simulate")
        x, u = self.states, self.controls
        return jnp.einsum("bti,tij,btj->b", x, problem.Q, x) + jnp.einsum(
            "bti,tij,btj->b", u, problem.R, u
        )

    def plot(
        self,
        channels: Sequence[str] | None = None,
        *,
        by: str | None = None,
        single_trials: int = 30,
    ) -> CaptionedFigure:
        """Draw what was recorded over time, and paths in the plane; see `mc.plots.plot_trials`."""
        from motorcost.plots.behaviour import plot_trials

        return plot_trials(self, channels, single_trials, by)

    def _changed(self, **changes: Any) -> Trials:
        arrays = ("observed", "times", "starts", "states", "beliefs", "controls", "senses")
        fields = (*arrays, "lengths", "conditions", "condition_units")
        arguments = {name: getattr(self, name) for name in fields}
        arguments["channels"] = dict(zip(self.channel_names, self.channel_units, strict=True))
        return Trials(**(arguments | changes))

    def __len__(self) -> int:
        return self.observed.shape[0]

    def __getitem__(self, which: Any) -> Trials:
        """Select trials by a slice, an array of indices, or an array of true and false."""
        try:
            index = np.arange(len(self))[which if isinstance(which, slice) else np.asarray(which)]
        except (IndexError, TypeError) as error:
            raise InputError(f"cannot select from {len(self)} trials: {error}") from None
        if index.ndim != 1:
            raise InputError(
                "trials must be selected by a slice or a list, as in trials[2:3] or trials[[2]]"
            )
        fields = ("observed", "starts", "states", "beliefs", "controls", "senses")
        parts = {name: getattr(self, name) for name in fields}
        known = {name: part for name, part in parts.items() if part is not None}
        return self._changed(
            **{name: entries(part, index) for name, part in known.items()},
            lengths=self.lengths[index],
            conditions={name: values[index] for name, values in self.conditions.items()},
        )

    def __repr__(self) -> str:
        by = f" by {', '.join(self.conditions)}" if self.conditions else ""
        names = ", ".join(self.channel_names)
        return f"Trials: {len(self)} of {self._steps_in_words()} steps ({names}){by}"

    def _repr_html_(self) -> str:
        """A table for notebooks: sizes, channels and conditions, with their units."""
        dt = f"{self.dt:g} s" if checks.is_concrete(self.times) else "not concrete"
        rows = [("trials", f"{len(self)}"), ("steps", self._steps_in_words()), ("time step", dt)]
        channels = zip(self.channel_names, self.channel_units, strict=True)
        rows += [(f"channel {name}", unit or "unit not known") for name, unit in channels]
        rows += [
            (f"condition {name}", _range_in_words(per_trial.values, unit))
            for name, per_trial, unit in self._conditions
        ]
        return html_table(("Trials", ""), rows)

    def _steps_in_words(self) -> str:
        shortest, longest = self.lengths.min(initial=10**9), self.lengths.max(initial=0)
        return f"{longest}" if shortest >= longest else f"{shortest} to {longest}"


def _range_in_words(values: np.ndarray, unit: str) -> str:
    """The range of a condition's numbers, or its different values, with the unit."""
    different = np.unique(values).tolist()
    if values.dtype.kind in "iuf" and len(different) > 1:
        text = f"{different[0]:g} to {different[-1]:g}"
    else:
        text = ", ".join(map(str, different[:5])) + (", ..." if len(different) > 5 else "")
    return f"{text} {unit}".rstrip()


def trials_in_model_units(
    trials: Trials, problem: Problem, parameter_units: Mapping[str, str]
) -> tuple[Trials, tuple[str, ...]]:
    """Convert trials to the units of a model, and say in words what was converted.

    **Arguments:**

    - `trials`: channels are compared with the problem's states of the same name.
    - `problem`: a problem of the task, for the units of its states.
    - `parameter_units`: the units of the task's parameters, by name, with which conditions are
      compared (`motorcost.tasks.parameter_units(task)`).

    Returns the trials in the units of the model, and notes ("position converted from mm to m").
    What has no known unit, in the trials or in the model, is left as it is. Raises an `InputError`
    that names both units if one cannot be converted to the other.
    """
    state_units = dict(zip(problem.state_names, problem.state_units, strict=True))
    channel_units = dict(zip(trials.channel_names, trials.channel_units, strict=True))
    channels = _differing(channel_units, state_units)
    conditions = _differing(trials.condition_units, parameter_units)
    if not channels and not conditions:
        return trials, ()
    notes = [f"{name} converted from {channel_units[name]} to {u}" for name, u in channels.items()]
    notes += [
        f"condition {name} converted from {trials.condition_units[name]} to {unit}"
        for name, unit in conditions.items()
    ]
    return trials._converted(channels, conditions), tuple(notes)


def _differing(units: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """The wanted units of those that have another known unit, by name."""
    return {
        name: wanted[name]
        for name, unit in units.items()
        if unit and wanted.get(name) and unit != wanted[name]
    }


def _condition(name: str, values: Any, n_trials: int) -> PerTrial:
    if np.shape(values) not in ((), (n_trials,)):
        raise InputError(
            f"the condition {name!r} must be one value or one per trial ({n_trials}), "
            f"got shape {np.shape(values)}"
        )
    array = np.asarray(values)
    if name in ("steps", "dt"):
        raise InputError(
            f"{name} cannot be a condition: lengths and time step of the trials set it"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InputError(f"the condition {name!r} must be finite")
    return PerTrial(np.broadcast_to(array, (n_trials,)))
