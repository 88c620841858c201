"""Forces from outside: fields that depend on velocity, loads and pulses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from motorcost import checks
from motorcost.errors import InputError


class Field(NamedTuple):
    """A force on the body, in N.

    - `name`: what it is called in errors, and as a state.
    - `by_velocity`: from the number of axes to the matrix that makes a force of a velocity, in
      N s/m; None for a force that does not depend on velocity.
    - `force`: a constant force, one number per axis; it becomes a state that the agent knows.
    - `share`: from the number of controls, T-1, to how strong it is at each of those steps; None
      if it does not change.
    - `present`: the share of it that acts; the agent believes in a share of the whole.

    Examples
    --------
    >>> field = mc.parts.curl_field(15.0)
    >>> field.name, field.present
    ('curl field', 1.0)
    """

    name: str
    by_velocity: Callable[[int], Any] | None = None
    force: Any = None
    share: Callable[[int], Any] | None = None
    present: Any = 1.0


def curl_field(strength: Any) -> Field:
    """A force across the velocity and in proportion to it, in N s/m, in the plane.

    A positive strength pushes to the right of the movement (clockwise): F_x = strength v_y and
    F_y = -strength v_x.

    Examples
    --------
    >>> mc.parts.curl_field(15.0).name
    'curl field'
    """

    def by_velocity(dimensions: int) -> Any:
        if dimensions != 2:
            raise InputError(f"a curl field needs a plane (2 dimensions), got {dimensions}")
        return strength * np.array([[0.0, 1.0], [-1.0, 0.0]])

    return Field("curl field", by_velocity)


def viscous_field(strength: Any) -> Field:
    """A force against the velocity and in proportion to it, in N s/m.

    Examples
    --------
    >>> mc.parts.viscous_field(10.0).name
    'viscous field'
    """
    return Field("viscous field", lambda dimensions: -strength * np.eye(dimensions))


def load(force: Any, name: str = "load") -> Field:
    """A constant force in N, one number per axis.

    Examples
    --------
    >>> mc.parts.load((0.0, -1.0)).name
    'load'
    """
    return Field(name, force=force)


def pulse(force: Any, time: Any, duration: Any, dt: Any, name: str = "pulse") -> Field:
    """A constant force in N that begins at a time and lasts for a duration, in seconds.

    A step during only part of which it acts gets that part of the force.

    Examples
    --------
    >>> push = mc.parts.pulse(2.0, time=0.5, duration=0.1, dt=0.01)
    >>> push.name
    'pulse'
    """
    checks.positive(duration=duration)

    def share(steps: int) -> Any:
        concrete = checks.is_concrete(time) and checks.is_concrete(dt)
        if concrete and not 0 <= time < steps * dt:
            raise InputError(
                f"a pulse must begin within the trial of {float(steps * dt):g} s, got "
                f"{float(time):g} s"
            )
        begin = np.arange(steps) * dt
        xp = checks.array_module(time, duration, dt)
        overlap = xp.minimum(begin + dt, time + duration) - xp.maximum(begin, time)
        return xp.maximum(0.0, overlap) / dt

    return Field(name, force=force, share=share)
