"""Choosing some of the trials: by what a condition is, or by their place in order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from motorcost import checks
from motorcost.data.movements import Movements
from motorcost.errors import InputError, errors_at

Step = tuple[str, dict[str, Any]]

# Steps of a preparation that choose trials, which are arguments and options too.
SELECTING = ("only", "trials")
# Values of a condition that an error lists.
_LISTED = 12
# Python converts decimal numbers of up to 4300 digits.
_RANGE = re.compile(r"\s*(\d{,99})\s*:\s*(\d{,99})\s*(?::\s*(\d{1,99})\s*)?|\s*(\d{1,99})\s*")


def keep_only(movements: Movements, /, **values: Any) -> Movements:
    """The trials in which every named condition has the value given, or one of those given.

    Values may be text: "0.1" chooses the number 0.1, "true" what is true.
    """
    for name, wanted in values.items():
        checks.one_of("condition", name, list(movements.conditions))
        chosen = wanted if isinstance(wanted, (list, tuple)) else [wanted]
        masks = [_equal(name, movements.conditions[name], value) for value in chosen]
        shown = " or ".join(str(value) for value in chosen)
        movements = movements.keep(np.any(masks, axis=0), f"only {name} = {shown} is kept")
    return movements


def _equal(name: str, values: np.ndarray, wanted: Any) -> np.ndarray:
    """Where a condition has a value; raises if it has it nowhere."""
    if values.dtype.kind == "b":
        truth = {"true": True, "1": True, "false": False, "0": False}
        equal = values == truth.get(str(wanted).lower(), -1)
    elif values.dtype.kind in "iuf":
        equal = np.isclose(values, _number(wanted), rtol=1e-9, atol=0.0)
    else:
        equal = values == str(wanted)
    if not equal.any():
        present = [str(value) for value in np.unique(values)]
        more = ", ..." if len(present) > _LISTED else ""
        raise InputError(
            f"no trial has {name} = {wanted}; there are {', '.join(present[:_LISTED])}{more}"
        )
    return equal


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def keep_range(movements: Movements, which: str) -> Movements:
    """The trials from one place in order to another, counted from 1: "1:20" for the first twenty,
    "21:" for the rest, "1::2" for every other one, "7" for a single one."""
    first, last, every = trial_range(which)
    total = len(movements)
    if first > total:
        raise InputError(f"trials {which}: there are only {total} trials")
    place = np.arange(1, total + 1)
    last, every = min(last or total, total), min(every, total)  # NumPy's integers have 64 bits
    chosen = (place >= first) & (place <= last) & ((place - first) % every == 0)
    return movements.keep(chosen, f"only trials {which} of {total} are kept")


def trial_range(which: str) -> tuple[int, int | None, int]:
    """The first trial, the last (None: of all) and the distance between two, of "FIRST:LAST" or
    "FIRST:LAST:EVERY"."""
    found = _RANGE.fullmatch(which)
    if found is None:
        raise InputError(f"trials must be FIRST:LAST, as in 1:20, got {which!r}")
    low, high, distance, single = found.groups()
    first = int(single or low or 1)
    last = int(single or high) if single or high else None
    every = int(distance or 1)
    if first < 1 or last == 0 or every < 1:
        raise InputError(f"trials are counted from 1, got {which!r}")
    if last is not None and last < first:
        raise InputError(f"trials {which}: the last must not come before the first")
    return first, last, every


def with_selection(
    steps: Sequence[Step],
    only: Mapping[str, Any] | None = None,
    trials: str | None = None,
    written_at: Mapping[str, str] | None = None,
) -> tuple[Step, ...]:
    """Steps of a preparation with another selection of trials.

    `written_at`: by key, as in `prepare.trials`, what says so; errors begin with it.

    `only` comes before all other steps, `trials` after them, unless the preparation has such a
    step already, which is then replaced.
    """
    changed = list(steps)
    if only:
        changed = _replaced(changed, ("only", dict(only)), 0)
    if trials is not None:
        with errors_at((written_at or {}).get("prepare.trials")):
            trial_range(trials)
        changed = _replaced(changed, ("trials", {"which": trials}), len(changed))
    return tuple(changed)


def _replaced(steps: list[Step], step: Step, otherwise: int) -> list[Step]:
    """The steps with `step` in the place of that of its name, or inserted at `otherwise`."""
    names = [name for name, _ in steps]
    at = names.index(step[0]) if step[0] in names else otherwise
    return [*steps[:at], step, *steps[at + (step[0] in names) :]]
