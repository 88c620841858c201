"""Movements as they were recorded, before they are put on a model's grid."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from motorcost import checks
from motorcost.data import kinematics
from motorcost.errors import InputError
from motorcost.model import units
from motorcost.model.trials import Trials

Pair = tuple[str, str] | list[str]


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
            set_(self, name, tuple(_frozen(np.asarray(one, float)) for one in getattr(self, name)))
        if not len(self.samples) == len(self.times) == len(self.labels):
            raise InputError(
                f"samples, times and labels must be as many as the trials, got "
                f"{len(self.samples)}, {len(self.times)} and {len(self.labels)}"
            )
        for label, one, time in zip(self.labels, self.samples, self.times, strict=True):
            if one.shape != (len(time), len(self.channels)) or time.ndim != 1:
                raise InputError(
                    f"trial {label}: samples must have shape (times, channels) = "
                    f"({len(time)}, {len(self.channels)}), got {one.shape}"
                )
            if np.isinf(one).any() or not np.isfinite(time).all() or (np.diff(time) <= 0).any():
                raise InputError(
                    f"trial {label}: samples must be finite or NaN, times finite and increasing"
                )
        set_(
            self,
            "conditions",
            {name: _condition(name, it, len(self)) for name, it in self.conditions.items()},
        )
        known = {name: self.condition_units.get(name, "") for name in self.conditions}
        set_(self, "condition_units", known)
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

    def select(
        self, channels: Sequence[str] | None = None, conditions: Sequence[str] | None = None
    ) -> Movements:
        """Only these channels, in this order, and these conditions; all where left out."""
        chosen = list(self.channels) if channels is None else list(channels)
        kept = list(self.conditions) if conditions is None else list(conditions)
        index = self._columns(chosen)
        for name in kept:
            checks.one_of("condition", name, list(self.conditions))
        return replace(
            self,
            samples=tuple(one[:, index] for one in self.samples),
            channels={name: self.channels[name] for name in chosen},
            conditions={name: self.conditions[name] for name in kept},
            condition_units={name: self.condition_units[name] for name in kept},
        )

    def rename(self, **new: str) -> Movements:
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

    def with_conditions(self, **conditions: Any) -> Movements:
        """The same movements with conditions: one value for all trials, or one for each. Their
        unit is not known; `scaled(1, "m", ["reach"])` says it."""
        left = {name: it for name, it in self.condition_units.items() if name not in conditions}
        return replace(self, conditions=self.conditions | conditions, condition_units=left)

    def noted(self, *notes: str) -> Movements:
        """The same movements with further notes."""
        return replace(self, notes=(*self.notes, *notes))

    def in_units(self, **new: str) -> Movements:
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
            samples=tuple(one * factors for one in self.samples),
            channels={name: unit if name in names else it for name, it in self.channels.items()},
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

        - `speed`: the threshold, in the channels' unit a second; or
        - `fraction`: of each trial's own peak speed, as in `fraction=0.05`.
        - `channels`: whose speed it is, by central differences; missing samples are skipped.
        - `margin`: seconds to keep before and after.
        - `smooth`: seconds over which the speed (not the samples) is averaged beforehand.
        """
        if (speed is None) == (fraction is None):
            raise InputError("cut needs either a speed or a fraction of the peak speed")
        checks.positive(**({"speed": speed} if fraction is None else {"fraction": fraction}))
        if fraction is not None and fraction >= 1:
            raise InputError(f"fraction must be below 1, got {fraction:g}")
        checks.nonnegative(margin=margin, smooth=smooth)
        unit = self._common_unit(channels)
        index = self._columns(channels)
        found = [
            kinematics.movement(one[:, index], time, speed, fraction, margin, smooth)
            for one, time in zip(self.samples, self.times, strict=True)
        ]
        per_second = f"{unit}/s" if unit else "units/s"
        if not any(each.moved for each in found):
            raise InputError(
                f"no movement to cut: the fastest of {len(self)} trials reaches "
                f"{max((each.peak for each in found), default=0):.3g} {per_second}"
                + ("" if speed is None else f", below speed={speed:g}")
            )
        open_ended = sum(each.moved and each.open_ended for each in found)
        result = self._each(lambda i, one, time: (one[found[i].window], time[found[i].window]))
        result = result.keep(
            np.array([each.moved for each in found]),
            f"never faster than {speed or 0:g} {per_second}",
        )
        many = f"{open_ended} of {len(result)} trials"
        note = f"the recording starts or ends within the movement in {many}"
        return result.noted(note) if open_ended else result

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
        unit = self._common_unit(channels)
        index = self._columns(channels)
        if "target" in self.conditions:
            raise InputError("there is a condition 'target' already: rename it before along(...)")
        goals = self._points(goal, unit)
        starts = None if start is None else self._points(start, unit)
        lines = []
        for i, one in enumerate(self.samples):
            present = one[~np.isnan(one[:, index]).any(axis=1)][:, index]
            if starts is None and not len(present):
                raise InputError(f"trial {self.labels[i]} has no sample of {', '.join(channels)}")
            lines.append((present[0] if starts is None else starts[i], goals[i]))
            if not np.isfinite(lines[-1]).all():
                raise InputError(f"trial {self.labels[i]} has no start or goal: it is missing")
            if np.array_equal(*lines[-1]):
                raise InputError(
                    f"trial {self.labels[i]} starts at its goal, ({goals[i, 0]:g}, "
                    f"{goals[i, 1]:g}): there is no line to turn it to"
                )
        turned = self._each(
            lambda i, one, time: (kinematics.along_line(one[:, index], *lines[i]), time),
            channels=dict.fromkeys(names, unit),
        ).with_conditions(target=np.array([np.linalg.norm(b - a) for a, b in lines]))
        return replace(turned, condition_units=turned.condition_units | {"target": unit})

    def on_grid(self, dt: float) -> Movements:
        """The samples that a model with steps of `dt` seconds takes; the notes say what was lost.

        A trial's first sample is its first step, whatever is missing at either end is cut off.
        For each step the nearest sample is taken as it is, never interpolated; the steps of a
        model faster than the recording stay unobserved. Times become those of the steps. Trials
        that last less than two steps are left out.
        """
        checks.positive(dt=dt)
        placed = [
            kinematics.place(one, time, dt)
            for one, time in zip(self.samples, self.times, strict=True)
        ]
        enough = np.array([len(each.index) >= 2 for each in placed], dtype=bool)
        if not enough.any():
            raise InputError(f"no trial has samples in two model steps of {dt:g} s")
        ends = sum(each.missing_ends for each in placed)
        crowded = sum(each.crowded for each in placed)
        shift = max(each.shift for each in placed)
        told = {
            f"{ends} samples cut off: missing, at the ends of trials": ends > 0,
            f"{crowded} samples left out: others are nearer to a step of {dt:g} s": crowded > 0,
            f"samples are up to {shift:.2g} s from their model step of {dt:g} s": shift > 1e-6 * dt,
        }
        return (
            self._each(lambda i, one, time: (one[placed[i].index], placed[i].steps * dt))
            .keep(enough, f"less than two model steps of {dt:g} s")
            .noted(*[note for note, true in told.items() if true])
        )

    def trials(self, dt: float, conditions: Sequence[str] | None = None) -> Trials:
        """Trials for a model with steps of `dt` seconds, placed as `on_grid` says.

        - `conditions`: those that the model takes, as in `["target"]`; all if left out.
        """
        placed = self.select(conditions=conditions).on_grid(dt)
        return Trials.recorded(
            placed.samples,
            dt=dt,
            channels=placed.channels,
            times=placed.times,
            conditions=placed.conditions,
            condition_units=placed.condition_units,
        )

    def checksum(self) -> str:
        """SHA-256 of samples, times, channels and conditions, to tell later what was used."""
        conditions = {name: values.tolist() for name, values in self.conditions.items()}
        header = [self.channels, conditions, self.condition_units, [len(t) for t in self.times]]
        digest = hashlib.sha256(json.dumps(header, sort_keys=False).encode())
        for array in (*self.samples, *self.times):
            digest.update(np.where(np.isnan(array), np.nan, array).astype("<f8").tobytes())
        return digest.hexdigest()

    def _each(
        self,
        change: Callable[[int, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
        channels: dict[str, str] | None = None,
    ) -> Movements:
        pairs = zip(self.samples, self.times, strict=True)
        changed = [change(i, one, time) for i, (one, time) in enumerate(pairs)]
        return replace(
            self,
            samples=tuple(one for one, _ in changed),
            times=tuple(time for _, time in changed),
            channels=channels or self.channels,
        )

    def _unit(self, name: str) -> str:
        checks.one_of("channel or condition", name, [*self.channels, *self.conditions])
        return (self.channels | self.condition_units)[name]

    def _columns(self, channels: Sequence[str]) -> list[int]:
        checks.distinct("channels", channels)
        return [
            list(self.channels).index(checks.one_of("channel", name, list(self.channels)))
            for name in channels
        ]

    def _common_unit(self, channels: Sequence[str]) -> str:
        self._columns(channels)
        found = {self.channels[name] for name in channels}
        if len(found) != 1:
            raise InputError(
                f"{', '.join(channels)} must be in one unit, got "
                f"{', '.join(self.channels[name] or 'none' for name in channels)}"
            )
        return found.pop()

    def _points(self, names: Pair, unit: str) -> np.ndarray:
        for name in names:
            checks.one_of("condition", name, list(self.conditions))
            its = self.condition_units[name]
            if its and unit and its != unit:
                raise InputError(
                    f"the condition {name!r} is in {its}, the channels in {unit}: convert one, "
                    f"as in in_units({name}={unit!r})"
                )
        return np.column_stack([_numeric(name, self.conditions[name]) for name in names])


def concatenate_movements(parts: Sequence[Movements]) -> Movements:
    """Several sets of movements as one, with the same channels, units and conditions. To tell
    them apart later, give each a condition first: `part.with_conditions(subject="S1")`."""
    if not parts:
        raise InputError("there are no movements to concatenate")
    first = parts[0]
    for i, part in enumerate(parts):
        for what in ("channels", "condition_units"):
            if getattr(part, what) != getattr(first, what):
                named = "channels" if what == "channels" else "conditions"
                raise InputError(
                    f"movements[{i}] has the {named} {getattr(part, what)}, movements[0] has "
                    f"{getattr(first, what)}"
                )
    return Movements(
        samples=tuple(one for part in parts for one in part.samples),
        times=tuple(time for part in parts for time in part.times),
        channels=first.channels,
        conditions={
            name: np.concatenate([part.conditions[name] for part in parts])
            for name in first.conditions
        },
        condition_units=first.condition_units,
        labels=tuple(label for part in parts for label in part.labels),
        notes=tuple(note for part in parts for note in part.notes),
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


def _range(values: Sequence[Any]) -> str:
    low, high = min(values), max(values)
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
