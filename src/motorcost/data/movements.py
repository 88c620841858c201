"""Movements as they were recorded, before they are put on a model's grid."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from motorcost import checks
from motorcost.data import grid, steps
from motorcost.errors import InputError
from motorcost.markup import html_table
from motorcost.model import units
from motorcost.model.trials import Trials

if TYPE_CHECKING:
    from motorcost.plots.style import CaptionedFigure

Pair = tuple[str, str] | list[str]
# Values of a condition that a notebook shows, and trials that an error names.
_SHOWN = 5


@dataclass(frozen=True, repr=False, eq=False)
class Movements:
    """Recordings of several trials, each with its own times; `io.read` makes them from a file.

    - `samples`: for each trial an array (time, channel), NaN where a sample is missing.
    - `times`: for each trial the time of each sample, in seconds.
    - `channels`: by name, the unit ("" if it is not known).
    - `conditions`: by name, a value for each trial; `condition_units` as for channels.
    - `labels`: what each trial is called in its file.
    - `notes`: what was done to the recordings so far, in words.

    Nothing is changed in place: each method returns new movements.

    Examples
    --------
    >>> times = np.arange(0, 0.3, 0.01)
    >>> x = 10 * np.sin(times)
    >>> movements = mc.Movements(samples=(x[:, None],), times=(times,), channels={"position": "cm"})
    >>> movements.in_units(position="m").channels
    {'position': 'm'}
    >>> len(movements.trials(dt=0.01).lengths)
    1
    """

    samples: tuple[np.ndarray, ...]
    times: tuple[np.ndarray, ...]
    channels: dict[str, str]
    conditions: dict[str, Any] = field(default_factory=dict)
    condition_units: dict[str, str] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "labels", self.labels or tuple(str(i + 1) for i in range(len(self.samples))))
        for name in ("samples", "times"):
            arrays = [_frozen(np.asarray(array, float)) for array in getattr(self, name)]
            set_(self, name, tuple(arrays))
        if not len(self.samples) == len(self.times) == len(self.labels):
            raise InputError(
                f"samples, times and labels must be as many as the trials, got "
                f"{len(self.samples)}, {len(self.times)} and {len(self.labels)}"
            )
        for trial in zip(self.labels, self.samples, self.times, strict=True):
            _check_trial(*trial, len(self.channels))
        conditions = {
            name: _condition(name, values, len(self)) for name, values in self.conditions.items()
        }
        set_(self, "conditions", conditions)
        units_known = {name: self.condition_units.get(name, "") for name in self.conditions}
        set_(self, "condition_units", units_known)
        checks.distinct("channels and conditions", [*self.channels, *self.conditions])

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, which: Any) -> Movements:
        """Some of the trials: `movements[:10]`, or by a list of indices or of true and false."""
        try:
            index = np.arange(len(self))[which if isinstance(which, slice) else np.asarray(which)]
        except (IndexError, TypeError) as error:
            raise InputError(f"cannot choose from {len(self)} trials: {error}") from None
        if index.ndim != 1:
            raise InputError("trials are chosen by a slice or a list: [2:3], [[2]]")
        return replace(
            self,
            samples=tuple(self.samples[i] for i in index),
            times=tuple(self.times[i] for i in index),
            conditions={name: values[index] for name, values in self.conditions.items()},
            labels=tuple(self.labels[i] for i in index),
        )

    def __repr__(self) -> str:
        measured = ", ".join(f"{name} {unit}".strip() for name, unit in self.channels.items())
        by = f" by {', '.join(self.conditions)}" if self.conditions else ""
        if not len(self):
            return f"Movements: 0 trials ({measured}){by}"
        counts = [len(time) for time in self.times]
        ends = [float(time[-1] - time[0]) for time in self.times if len(time)] or [0.0]
        return (
            f"Movements: {len(self)} trials of {_range(counts)} samples in {_range(ends)} s "
            f"({measured}){by}"
        )

    def _repr_html_(self) -> str:
        """A table for notebooks: trials, their durations, channels and conditions."""
        durations = [float(times[-1] - times[0]) for times in self.times if len(times)]
        rows = [
            ["trials", str(len(self))],
            ["samples per trial", _range([len(times) for times in self.times])],
            ["duration (s)", _range(durations)],
            *[[f"channel {name}", unit or "no unit"] for name, unit in self.channels.items()],
            *[
                [f"condition {name}", f"{_values(values)} {self.condition_units[name]}".strip()]
                for name, values in self.conditions.items()
            ],
            *[["note", note] for note in self.notes],
        ]
        return html_table(["Movements", ""], rows)

    def plot(
        self,
        channels: Sequence[str] | None = None,
        *,
        by: str | None = None,
        single_trials: int = 60,
    ) -> CaptionedFigure:
        """Draw paths or positions, and speeds; see `mc.plots.plot_movements`."""
        from motorcost.plots.behaviour import plot_movements

        return plot_movements(self, channels, single_trials, by)

    def select(
        self, channels: Sequence[str] | None = None, conditions: Sequence[str] | None = None
    ) -> Movements:
        """Only these channels, in this order, and these conditions; all where left out."""
        chosen = list(self.channels) if channels is None else list(channels)
        kept = list(self.conditions) if conditions is None else list(conditions)
        index = self.columns(chosen)
        for name in kept:
            checks.one_of("condition", name, list(self.conditions))
        return replace(
            self,
            samples=tuple(samples[:, index] for samples in self.samples),
            channels={name: self.channels[name] for name in chosen},
            conditions={name: self.conditions[name] for name in kept},
            condition_units={name: self.condition_units[name] for name in kept},
        )

    def rename(self, /, **new: str) -> Movements:
        """Other names for channels or conditions: `rename(px="x")` calls `px` from now on `x`."""
        for old in new:
            checks.one_of("channel or condition", old, [*self.channels, *self.conditions])
        names = [new.get(name, name) for name in (*self.channels, *self.conditions)]
        checks.distinct("channels and conditions", names)
        return replace(
            self,
            channels={new.get(name, name): unit for name, unit in self.channels.items()},
            conditions={new.get(name, name): values for name, values in self.conditions.items()},
            condition_units={new.get(name, name): u for name, u in self.condition_units.items()},
        )

    def keep(self, which: Any, why: str) -> Movements:
        """The trials where `which` is true; `why` says, for the notes, what the others were."""
        mask = np.asarray(which)
        if mask.shape != (len(self),) or mask.dtype != bool:
            raise InputError(f"which must be true or false for each of {len(self)} trials")
        dropped = int((~mask).sum())
        note = f"{dropped} of {len(self)} trials left out: {why}"
        return self[mask].noted(note) if dropped else self

    def with_conditions(self, /, **conditions: Any) -> Movements:
        """The same movements with further conditions: one value for all trials, or one per trial.
        They have no unit; `scaled(1, "m", ["reach"])` gives one."""
        kept = {name: u for name, u in self.condition_units.items() if name not in conditions}
        return replace(self, conditions=self.conditions | conditions, condition_units=kept)

    def noted(self, *notes: str) -> Movements:
        """The same movements with further notes."""
        return replace(self, notes=(*self.notes, *notes))

    def in_units(self, /, **new: str) -> Movements:
        """Channels and conditions in other units: `in_units(x="m", y="m", target_x="m")`."""
        result = self
        for name, unit in new.items():
            result = result.scaled(units.factor(name, self._unit(name), unit), unit, [name])
        return result

    def scaled(self, factor: float, unit: str, names: Sequence[str]) -> Movements:
        """Channels and conditions multiplied by `factor`, now in `unit`; for pixels, say:
        `scaled(0.00026, "m", ["x", "y", "target_x", "target_y"])`."""
        checks.positive(factor=factor)
        for name in names:
            checks.one_of("channel or condition", name, [*self.channels, *self.conditions])
        factors = np.array([factor if name in names else 1.0 for name in self.channels])
        measured = [name for name in self.conditions if name in names]
        return replace(
            self,
            samples=tuple(samples * factors for samples in self.samples),
            channels={name: unit if name in names else u for name, u in self.channels.items()},
            conditions=self.conditions
            | {name: _numeric(name, self.conditions[name]) * factor for name in measured},
            condition_units=self.condition_units | dict.fromkeys(measured, unit),
        )

    def cut(
        self,
        speed: float | None = None,
        channels: Sequence[str] = ("x", "y"),
        *,
        fraction: float | None = None,
        margin: float = 0.0,
        smooth: float = 0.0,
    ) -> Movements:
        """Each trial cut to its movement, as is usual in motor control.

        From the last sample below a threshold before the peak of speed to the first one below it
        after the peak, or to the recording's ends. Trials that never exceed it are left out.

        - `speed`: the threshold, in the channels' unit per second; or
        - `fraction`: of each trial's own peak speed, as in `fraction=0.05`.
        - `channels`: whose speed it is, by central differences; missing samples are skipped.
        - `margin`: seconds to keep before and after.
        - `smooth`: seconds over which the speed (not the samples) is averaged beforehand.
        """
        return steps.cut(self, speed, channels, fraction=fraction, margin=margin, smooth=smooth)

    def along(
        self,
        goal: Pair,
        start: Pair | None = None,
        channels: Pair = ("x", "y"),
        names: Pair = ("position", "lateral"),
    ) -> Movements:
        """Each trial turned and shifted onto the line from its start to its goal.

        The channels become two: the distance from the start along that line, and from the line
        to its left (to its right where y points down); other channels are left out. The
        condition `target` is the distance from start to goal.

        - `goal`, `start`: names of two conditions each, in the channels' unit. Without `start`,
          it is the trial's first sample that is not missing.
        """
        return steps.along(self, goal, start, channels, names)

    def centred(
        self,
        goal: Sequence[str],
        start: Sequence[str] | None = None,
        channels: Sequence[str] = ("x", "y"),
    ) -> Movements:
        """Each trial shifted so that it starts at 0, for tasks in the plane.

        Other channels are left out. The conditions `target_x` and `target_y` (by the channels'
        names) are where the goal is from the start, in place of the conditions `goal`; a via-point
        (`via_x` and `via_y`) is measured from there, too. Nothing is turned: directions stay as
        they were recorded.

        - `goal`, `start`: names of one condition for each channel, in the channels' unit. Without
          `start`, it is the trial's first sample that is not missing.
        """
        return steps.centred(self, goal, start, channels)

    def on_grid(
        self, dt: float, conditions: Sequence[str] | None = None, *, lead: float = 0.0
    ) -> tuple[Trials, tuple[str, ...]]:
        """Trials for a model with steps of `dt` seconds, and notes on what that lost.

        A trial's first sample is its first step; whatever is missing at either end is cut off.
        For each step the nearest sample is taken as it is, never interpolated; the steps of a
        model faster than the recording stay unobserved. Trials that last less than two steps are
        left out.

        - `conditions`: those that the model takes, as in `["target"]`; all if left out.
        - `lead`: seconds before the first sample at which the model begins, at rest; nothing is
          observed until the first sample (see `Trials.with_lead`).
        """
        checks.positive(dt=dt)
        chosen = self if conditions is None else self.select(conditions=conditions)
        placements = [
            grid.place(*trial, dt) for trial in zip(self.samples, self.times, strict=True)
        ]
        kept = [i for i, placement in enumerate(placements) if placement.long_enough]
        if not kept:
            raise InputError(f"no trial has samples in two model steps of {dt:g} s")
        samples, lengths = grid.padded(
            [self.samples[i] for i in kept], [placements[i] for i in kept]
        )
        trials = Trials(
            samples,
            jnp.arange(samples.shape[1]) * dt,
            channels=self.channels,
            lengths=lengths,
            conditions={name: values[kept] for name, values in chosen.conditions.items()},
            condition_units=chosen.condition_units,
        )
        return trials.with_lead(lead), grid.placing_notes(placements, dt)

    def trials(
        self, dt: float, conditions: Sequence[str] | None = None, *, lead: float = 0.0
    ) -> Trials:
        """Trials for a model with steps of `dt` seconds; see `on_grid`."""
        return self.on_grid(dt, conditions, lead=lead)[0]

    def long_enough(self, dt: float) -> np.ndarray:
        """Which trials have samples in two steps of `dt` seconds, so that a model can take them."""
        pairs = zip(self.samples, self.times, strict=True)
        return np.array([grid.place(*trial, dt).long_enough for trial in pairs], bool)

    def checksum(self) -> str:
        """SHA-256 of samples, times, channels and conditions, to tell later what was used."""
        conditions = {name: values.tolist() for name, values in self.conditions.items()}
        header = [self.channels, conditions, self.condition_units, [len(t) for t in self.times]]
        digest = hashlib.sha256(json.dumps(header, sort_keys=False).encode())
        for array in (*self.samples, *self.times):
            digest.update(np.where(np.isnan(array), np.nan, array).astype("<f8").tobytes())
        return digest.hexdigest()

    def with_samples(
        self,
        samples: Sequence[np.ndarray],
        times: Sequence[np.ndarray],
        channels: Mapping[str, str],
    ) -> Movements:
        """The same trials with other samples (an array (time, channel) for each trial), times and
        channels."""
        return replace(self, samples=tuple(samples), times=tuple(times), channels=dict(channels))

    def name_trials(self, which: np.ndarray) -> str:
        """How many trials `which` is true for, and what the first of them are called."""
        labels = [label for label, meant in zip(self.labels, which, strict=True) if meant]
        more = ", ..." if len(labels) > _SHOWN else ""
        return f"{len(labels)} of {len(self)} trials ({', '.join(labels[:_SHOWN])}{more})"

    def _unit(self, name: str) -> str:
        checks.one_of("channel or condition", name, [*self.channels, *self.conditions])
        return (self.channels | self.condition_units)[name]

    def columns(self, channels: Sequence[str]) -> list[int]:
        """The positions of channels among all; raises if there is no such channel."""
        checks.distinct("channels", channels)
        return [
            list(self.channels).index(checks.one_of("channel", name, list(self.channels)))
            for name in channels
        ]

    def common_unit(self, channels: Sequence[str]) -> str:
        """The unit of channels that must all have the same."""
        self.columns(channels)
        found = {self.channels[name] for name in channels}
        if len(found) != 1:
            raise InputError(
                f"{', '.join(channels)} must be in one unit, got "
                f"{', '.join(self.channels[name] or 'none' for name in channels)}"
            )
        return found.pop()

    def points(self, names: Sequence[str], unit: str) -> np.ndarray:
        """The points (trial, coordinate) that conditions are the coordinates of, in `unit`."""
        for name in names:
            checks.one_of("condition", name, list(self.conditions))
            condition_unit = self.condition_units[name]
            if condition_unit and unit and condition_unit != unit:
                raise InputError(
                    f"the condition {name!r} is in {condition_unit}, the channels in {unit}: "
                    f"convert one, as in in_units({name}={unit!r})"
                )
        return np.column_stack([_numeric(name, self.conditions[name]) for name in names])


def _check_trial(label: str, samples: np.ndarray, times: np.ndarray, n_channels: int) -> None:
    if samples.shape != (len(times), n_channels) or times.ndim != 1:
        raise InputError(
            f"trial {label}: samples must have shape (times, channels) = "
            f"({len(times)}, {n_channels}), got {samples.shape}"
        )
    if np.isinf(samples).any() or not np.isfinite(times).all() or (np.diff(times) <= 0).any():
        raise InputError(
            f"trial {label}: samples must be finite or NaN, times finite and increasing"
        )


def _frozen(array: np.ndarray) -> np.ndarray:
    array = array.view()
    array.flags.writeable = False
    return array


def _condition(name: str, values: Any, n_trials: int) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind == "O":
        array = np.asarray([str(value) for value in array.ravel()]).reshape(array.shape)
    if array.shape not in ((), (n_trials,)):
        raise InputError(
            f"the condition {name!r} must be one value or one for each of {n_trials} trials, "
            f"got shape {array.shape}"
        )
    return _frozen(np.broadcast_to(array, (n_trials,)))


def _numeric(name: str, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "biuf":
        raise InputError(f"the condition {name!r} must be numbers, got {values[0]!r}")
    return values.astype(float)


def _values(values: np.ndarray) -> str:
    """The values of a condition in short: a range of numbers, or the first few texts."""
    if values.dtype.kind in "iuf" and values.size:
        return _range(values)
    distinct = list(dict.fromkeys(map(str, values)))
    return ", ".join(distinct[:_SHOWN]) + (", ..." if len(distinct) > _SHOWN else "")


def _range(values: Sequence[Any] | np.ndarray) -> str:
    if not len(values):
        return "none"
    low, high = min(values), max(values)
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
