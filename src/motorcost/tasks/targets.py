"""How far away the targets of trials are, from conditions or parameters of those names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from motorcost import checks
from motorcost.errors import InputError

# What tasks in the plane and in space call the coordinates of their targets.
TARGETS = ("target_x", "target_y", "target_z")


def distances(conditions: Mapping[str, Any]) -> np.ndarray:
    """How far the targets are, on a line or in the plane."""
    values = [numeric(name, np.asarray(conditions[name])) for name in target_names(conditions)]
    return np.asarray(np.sqrt(sum(np.square(value, dtype=float) for value in values)))


def numeric(name: str, values: np.ndarray) -> np.ndarray:
    """The values of a condition, if they are numbers or true and false."""
    if values.dtype.kind not in "biuf":
        raise InputError(f"the condition {name!r} must be numbers, got {str(values.flat[0])!r}")
    return values


def target_names(conditions: Mapping[str, Any]) -> Sequence[str]:
    """The names of the conditions that say where targets are; raises if there are none."""
    names = [name for name in TARGETS if name in conditions] or ["target"]
    for name in names:
        checks.one_of("condition", name, list(conditions))
    return names
