"""Join sets of movements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from motorcost.data.movements import Movements
from motorcost.errors import InputError


def concatenate_movements(parts: Sequence[Movements]) -> Movements:
    """Several sets of movements as one, with the same channels, units and conditions. To tell
    them apart later, give each a condition first: `part.with_conditions(subject="S1")`.

    Examples
    --------
    >>> one = mc.io.from_frame(mc.io.to_frame(positions))
    >>> len(mc.concatenate_movements([one, one]))
    16
    """
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
        samples=tuple(samples for part in parts for samples in part.samples),
        times=tuple(times for part in parts for times in part.times),
        channels=first.channels,
        conditions={
            name: np.concatenate([part.conditions[name] for part in parts])
            for name in first.conditions
        },
        condition_units=first.condition_units,
        labels=tuple(label for part in parts for label in part.labels),
        notes=tuple(note for part in parts for note in part.notes),
    )
