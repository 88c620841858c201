"""Place recorded samples on the time grid of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from motorcost import checks
from motorcost.errors import InputError


class Placed(NamedTuple):
    """Samples on the grid (trial, time, channel), NaN where there is none, and the number of model
    steps of each trial."""

    observed: Float[np.ndarray, "N T o"]
    lengths: list[int]


def place(samples: Any, times: Any, lengths: Sequence[int] | None, dt: float) -> Placed:
    """Place the samples of all trials on a grid with steps of `dt` seconds.

    See `Trials.recorded` for the arguments.
    """
    arrays = [_samples(f"samples[{i}]", trial) for i, trial in enumerate(samples)]
    if not arrays:
        raise InputError("there are no trials: samples is empty")
    channels = arrays[0].shape[1]
    for i, array in enumerate(arrays):
        if array.shape[1] != channels:
            raise InputError(
                f"samples[{i}] must have {channels} channels, as samples[0] has, "
                f"got {array.shape[1]}"
            )
    steps = [
        _steps(i, len(array), _times_of(i, times, len(arrays)), dt)
        for i, array in enumerate(arrays)
    ]
    ends = [int(of_trial[-1]) + 1 for of_trial in steps]
    horizons = ends if lengths is None else _horizons(lengths, len(ends))
    for i, horizon in enumerate(horizons):
        _require_length(i, horizon, ends[i], dt)
    observed = np.full((len(arrays), max(horizons), channels), np.nan)
    for i, (array, of_trial) in enumerate(zip(arrays, steps, strict=True)):
        observed[i, of_trial] = array
    return Placed(observed, horizons)


def _horizons(lengths: Sequence[int], n_trials: int) -> list[int]:
    horizons = [
        checks.whole(f"lengths[{i}]", length, 2, "model steps")
        for i, length in enumerate(np.atleast_1d(lengths).tolist())
    ]
    if len(horizons) != n_trials:
        raise InputError(f"lengths must be {n_trials}, one per trial, got {len(horizons)}")
    return horizons


def _require_length(trial: int, horizon: int, end: int, dt: float) -> None:
    if horizon < max(end, 2):
        raise InputError(
            f"trial {trial} must have a length of at least {max(end, 2)} model steps of "
            f"{dt:g} s, got {horizon}"
        )


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


def _times_of(trial: int, times: Any, n_trials: int) -> Any:
    """The times of a trial's samples, from those of every trial or those that all share."""
    if times is None:
        return None
    if not hasattr(times, "__len__"):
        raise InputError(f"times must be the times of the samples in seconds, got {times!r}")
    per_trial = len(times) == n_trials and np.ndim(times[0]) == 1
    return times[trial] if per_trial else times


def _steps(trial: int, count: int, times: Any, dt: float) -> np.ndarray:
    """The model step of each of a trial's samples."""
    if times is None:
        return np.arange(count)
    time = np.asarray(times, float)
    if time.shape != (count,):
        raise InputError(f"trial {trial} has {count} samples but {time.size} times")
    if not np.isfinite(time).all() or (np.diff(time) <= 0).any():
        raise InputError(f"the times of trial {trial} must be finite and increase")
    steps = np.round((time - time[0]) / dt).astype(int)
    if (np.diff(steps) == 0).any():
        at = int(np.argmax(np.diff(steps) == 0))
        raise InputError(
            f"samples {at} and {at + 1} of trial {trial} fall into one model step: the model's "
            f"dt ({dt:g} s) must not be longer than the recording's ({time[at + 1] - time[at]:g} "
            "s). mc.io.read(file).trials(dt=...) keeps the nearest sample for every step"
        )
    return steps
