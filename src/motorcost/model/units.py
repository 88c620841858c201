"""Units of measurement, and the factors between them."""

from __future__ import annotations

import math

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
    """Return the factor that converts `name` (for the error message) from `old` to `new` units."""
    if old == new:
        return 1.0
    if not old:
        raise InputError(
            f"{name!r} has no unit: say it when reading, as in units={{{name!r}: 'mm'}}"
        )
    if old not in _KINDS:
        raise InputError(
            f"{name!r} is in {old}, which has no fixed size in {new}: use scaled(size of one {old} "
            f"in {new}, {new!r}, [{name!r}]) of the recorded movements"
        )
    if new not in _KINDS:
        raise InputError(
            f"unknown unit {new!r}: {name!r} is in {old}, which can be converted to "
            f"{', '.join(_SIZES[_KINDS[old]])}"
        )
    if _KINDS[old] != _KINDS[new]:
        raise InputError(
            f"{name!r} is {_KINDS[old]} in {old}: it cannot be in {new}, which is {_KINDS[new]}"
        )
    sizes = _SIZES[_KINDS[old]]
    return sizes[old] / sizes[new]
