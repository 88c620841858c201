"""Units of measurement, and the factors between them."""

from __future__ import annotations

import math

from motorcost import checks
from motorcost.errors import InputError

_SIZES = {
    "length": {"km": 1e3, "m": 1.0, "cm": 1e-2, "mm": 1e-3, "um": 1e-6, "in": 0.0254},
    "angle": {"rad": 1.0, "deg": math.pi / 180},
    "velocity": {"m/s": 1.0, "cm/s": 1e-2, "mm/s": 1e-3},
    "angular velocity": {"rad/s": 1.0, "deg/s": math.pi / 180},
    "force": {"N": 1.0, "mN": 1e-3},
}
_KINDS = {unit: kind for kind, sizes in _SIZES.items() for unit in sizes}


def factor(name: str, old: str, new: str) -> float:
    """What `name`, measured in `old` units, is multiplied by to be in `new` ones."""
    if old == new:
        return 1.0
    if old not in _KINDS:
        raise InputError(
            f"{name!r} has no unit: say it when reading, as in units={{{name!r}: 'mm'}}"
            if not old
            else f"{name!r} is in {old}, which has no fixed size in {new}: "
            f"use scaled(size of one {old} in {new}, {new!r}, [{name!r}])"
        )
    checks.one_of("unit", new, list(_KINDS))
    if _KINDS[old] != _KINDS[new]:
        raise InputError(
            f"{name!r} is {_KINDS[old]} in {old}: it cannot be in {new}, which is {_KINDS[new]}"
        )
    sizes = _SIZES[_KINDS[old]]
    return sizes[old] / sizes[new]
