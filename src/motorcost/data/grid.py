"""Placing recordings on the grid of a model, which steps by a fixed time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Placement:
    """Which samples of a trial a model takes (`index`), and at which of its `steps`."""

    index: np.ndarray
    steps: np.ndarray
    missing_ends: int = 0  # samples before the first and after the last that is not missing
    crowded: int = 0  # samples for which another is nearer to the step
    shift: float = 0.0  # the longest time between a sample and its step

    @property
    def long_enough(self) -> bool:
        """Whether the trial has samples in two steps, which is the shortest there can be."""
        return len(self.index) >= 2


def place(samples: np.ndarray, times: np.ndarray, dt: float) -> Placement:
    """Find the nearest sample to each model step, the first step being at the first sample that is
    not missing. A step that is no sample's nearest stays unobserved."""
    present = np.flatnonzero(~np.isnan(samples).all(axis=1))
    if not present.size:
        return Placement(present, present, missing_ends=len(times))
    inner = np.arange(present[0], present[-1] + 1)
    places = (times[inner] - times[inner[0]]) / dt
    nearest = np.round(places).astype(int)
    # Sorted by step, then by distance from it: the first of each step is the nearest.
    order = np.lexsort((np.abs(places - nearest), nearest))
    steps, first = np.unique(nearest[order], return_index=True)
    taken = order[first]
    return Placement(
        index=inner[taken],
        steps=steps,
        missing_ends=len(times) - len(inner),
        crowded=len(inner) - len(taken),
        shift=float(np.abs(places[taken] - steps).max() * dt),
    )


def placing_notes(placements: Sequence[Placement], dt: float) -> tuple[str, ...]:
    """What placing lost of the samples, in words."""
    empty = sum(not placement.index.size for placement in placements)
    short = sum(not placement.long_enough for placement in placements) - empty
    ends = sum(placement.missing_ends for placement in placements if placement.index.size)
    crowded = sum(placement.crowded for placement in placements)
    shift = max(placement.shift for placement in placements)
    notes, total = [], len(placements)
    if empty:
        notes.append(f"{empty} of {total} trials left out: no sample")
    if short:
        notes.append(f"{short} of {total} trials left out: less than two model steps of {dt:g} s")
    if ends:
        notes.append(f"{ends} samples cut off: missing, at the ends of trials")
    if crowded:
        notes.append(f"{crowded} samples left out: others are nearer to a step of {dt:g} s")
    if shift > 1e-6 * dt:
        notes.append(f"samples are up to {shift:.2g} s from their model step of {dt:g} s")
    return tuple(notes)


def padded(
    samples: Sequence[np.ndarray], placements: Sequence[Placement]
) -> tuple[np.ndarray, np.ndarray]:
    """Samples on the grid (trial, step, channel), NaN where there is none, and the number of steps
    of each trial: up to its last sample."""
    lengths = np.array([placement.steps[-1] + 1 for placement in placements])
    grid = np.full((len(samples), lengths.max(), samples[0].shape[1]), np.nan)
    for trial, recorded, placement in zip(grid, samples, placements, strict=True):
        trial[placement.steps] = recorded[placement.index]
    return grid, lengths
