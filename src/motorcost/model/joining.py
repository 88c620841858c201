"""Join sets of trials."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from motorcost import checks
from motorcost.errors import InputError
from motorcost.model.trials import Trials


def concatenate(trials: Sequence[Trials]) -> Trials:
    """Join sets of trials, which may differ in length and in the values of their conditions.

    Channels, time step, lead, names of conditions and units must be the same; a unit that is not
    known in one set is taken from the others. Either all sets or none must have starts. States,
    beliefs, controls and senses are dropped unless all sets have them.

    Examples
    --------
    >>> both = mc.concatenate([trials, trials])
    >>> len(both.lengths)
    16
    """
    advice = (
        "mc.io.read(file).trials(dt=...) makes Trials from a file; mc.concatenate_movements joins "
        "recordings as they are"
    )
    checks.instance("trials", trials, Sequence, "a list of Trials", advice)
    for i, part in enumerate(trials):
        checks.instance(f"trials[{i}]", part, Trials, "Trials", advice)
    if not trials:
        raise InputError("there are no trials to concatenate")
    first = trials[0]
    for i, other in enumerate(trials):
        _require_alike(first, other, i)
    longest = max(trials, key=lambda t: t.observed.shape[1])
    T = longest.observed.shape[1]
    steps = {"observed": T, "states": T, "beliefs": T, "controls": T - 1, "senses": T - 1}

    def joined(name: str) -> Any:
        parts = checks.concrete_in_numpy([getattr(t, name) for t in trials])
        if any(part is None for part in parts):
            return None
        xp = checks.array_module(parts)
        if name in steps:
            pads = [((0, 0), (0, steps[name] - part.shape[1]), (0, 0)) for part in parts]
            parts = [
                xp.pad(part, pad, constant_values=np.nan)
                for part, pad in zip(parts, pads, strict=True)
            ]
        return checks.jax_array(xp.concatenate(parts))

    channel_units = zip(*(t.channel_units for t in trials), strict=True)
    names = list(first.conditions)
    return Trials(
        times=longest.times,
        channels=dict(zip(first.channel_names, map(_known_unit, channel_units), strict=True)),
        **{name: joined(name) for name in (*steps, "starts")},
        lengths=np.concatenate([t.lengths for t in trials]),
        conditions={name: np.concatenate([t.conditions[name] for t in trials]) for name in names},
        condition_units={
            name: _known_unit([t.condition_units[name] for t in trials]) for name in names
        },
    )


def _known_unit(units: Sequence[str]) -> str:
    return next((unit for unit in units if unit), "")


def _require_alike(first: Trials, other: Trials, i: int) -> None:
    """Raise unless `trials[i]` can be joined with `trials[0]`."""
    if other.channel_names != first.channel_names:
        raise InputError(
            f"trials[{i}] recorded {', '.join(other.channel_names)}; trials[0] recorded "
            f"{', '.join(first.channel_names)}"
        )
    if set(other.conditions) != set(first.conditions):
        raise InputError(
            f"trials[{i}] has the conditions {sorted(other.conditions)}, trials[0] has "
            f"{sorted(first.conditions)}"
        )
    channels = zip(first.channel_names, first.channel_units, other.channel_units, strict=True)
    conditions = (
        (name, u, other.condition_units[name]) for name, u in first.condition_units.items()
    )
    for name, unit, other_unit in (*channels, *conditions):
        if unit and other_unit and unit != other_unit:
            raise InputError(
                f"{name} is in {other_unit} in trials[{i}], but in {unit} in trials[0]: convert "
                f"with in_units({name}={unit!r})"
            )
    if not np.isclose(other.dt, first.dt, rtol=1e-6):
        raise InputError(
            f"trials[{i}] has a time step of {other.dt:g} s, trials[0] of {first.dt:g} s"
        )
    if other.lead_steps != first.lead_steps:
        raise InputError(
            f"trials[{i}] has a lead of {other.lead:g} s, trials[0] of {first.lead:g} s: give all "
            "the same, as in with_lead(0.05)"
        )
    if (other.starts is None) != (first.starts is None):
        raise InputError("either all sets of trials or none must have starts")
