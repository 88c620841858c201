"""Bodies: what moves, in one, two or three dimensions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jax.scipy.linalg import expm
from jaxtyping import Array, Float

from motorcost import checks

AXES = ("x", "y", "z")


class Body(NamedTuple):
    """A body that moves in the same way along every axis; axes do not influence each other.

    - `quantities`: what describes it along an axis, by name, with units. The first is where it is.
    - `A` (quantities, quantities), `B` (quantities, 1): how they change in a step, along an axis.
    - `control`: what the agent controls, by name, with its unit.
    - `dt`: seconds in a step.
    - `dimensions`: the number of axes, 1 to 3.
    - `push`: what a force of 1 N during a step adds to each quantity, or None for a body that
      forces from outside do not move.

    Examples
    --------
    >>> hand = mc.parts.point_mass(0.01)
    >>> hand.A.shape, hand.B.shape, hand.dimensions
    ((2, 2), (2, 1), 1)
    """

    quantities: dict[str, str]
    A: Float[Array | np.ndarray, "q q"]
    B: Float[Array | np.ndarray, "q 1"]
    control: tuple[str, str]
    dt: Any
    dimensions: int = 1
    push: Float[Array | np.ndarray, " q"] | None = None


def axis_names(name: str, dimensions: int, *, place: bool = False) -> list[str]:
    """What a quantity is called along each axis: `velocity` on a line, `velocity_x` and
    `velocity_y` in the plane. Where a body is, its `place`, is called `x` and `y` there."""
    if dimensions == 1:
        return [name]
    return [axis if place else f"{name}_{axis}" for axis in AXES[:dimensions]]


def point_mass(
    dt: Any,
    *,
    mass: Any = 1.0,
    damping: Any = 0.0,
    stiffness: Any = 0.0,
    muscle: Any = None,
    dimensions: int = 1,
) -> Body:
    """A mass that forces accelerate, such as a hand.

    **Arguments:**

    - `dt`: seconds in a step.
    - `mass`: in kg.
    - `damping`: the force that resists motion, in N s/m.
    - `stiffness`: the force that pulls back to 0, in N/m; a negative one pushes away, as gravity
      does with a body that stands.
    - `muscle`: the time constant in seconds of a muscle that filters the control twice. The
      quantities are then position, velocity, force and muscle. If None, the control is the force,
      and the quantities are position and velocity.

    Examples
    --------
    >>> hand = mc.parts.point_mass(0.01, muscle=0.04, dimensions=2)
    >>> list(hand.quantities), hand.A.shape
    (['position', 'velocity', 'force', 'muscle'], (4, 4))
    """
    checks.positive(dt=dt, mass=mass)
    checks.nonnegative(damping=damping)
    dimensions = _dimensions(dimensions)
    xp = checks.array_module(dt, mass, damping, stiffness, muscle)
    accelerated = dt / mass
    pulled = -accelerated * stiffness
    kept = 1 - dt * damping / mass
    quantities = {"position": "m", "velocity": "m/s"}
    if muscle is None:
        A = xp.array([[1, dt], [pulled, kept]], dtype=float)
        B = xp.array([[0.0], [accelerated]], dtype=float)
        return Body(quantities, A, B, ("force", "N"), dt, dimensions, push=B[:, 0])
    checks.positive(muscle=muscle)
    a = dt / muscle
    A = xp.array(
        [
            [1, dt, 0, 0],
            [pulled, kept, accelerated, 0],
            [0, 0, 1 - a, a],
            [0, 0, 0, 1 - a],
        ],
        dtype=float,
    )
    return Body(
        quantities | {"force": "N", "muscle": "N"},
        A,
        xp.array([[0.0], [0.0], [0.0], [a]], dtype=float),
        ("control", "N"),
        dt,
        dimensions,
        push=xp.array([0.0, accelerated, 0.0, 0.0], dtype=float),
    )


def eye(dt: Any, *, tau_slow: Any = 0.224, tau_fast: Any = 0.013, dimensions: int = 1) -> Body:
    """An eye, an overdamped plant of second order that is sampled exactly:

        tau_slow tau_fast theta'' = u - theta - (tau_slow + tau_fast) theta'

    Angles are in degrees, time constants in seconds.

    Examples
    --------
    >>> list(mc.parts.eye(0.001).quantities)
    ['angle', 'velocity']
    """
    checks.positive(dt=dt, tau_slow=tau_slow, tau_fast=tau_fast)
    product = tau_slow * tau_fast
    continuous = checks.array_module(dt, product).array(
        [[0, 1, 0], [-1 / product, -(tau_slow + tau_fast) / product, 1 / product], [0, 0, 0]],
        dtype=float,
    )
    discrete = checks.concrete_in_numpy(expm(continuous * dt))
    return Body(
        {"angle": "deg", "velocity": "deg/s"},
        discrete[:2, :2],
        discrete[:2, 2:],
        ("control", "deg"),
        dt,
        _dimensions(dimensions),
    )


def cursor(dt: Any, *, unit: str = "m", dimensions: int = 1) -> Body:
    """A cursor without inertia, whose velocity is the control.

    Examples
    --------
    >>> list(mc.parts.cursor(0.01, unit="px", dimensions=2).quantities)
    ['position']
    """
    checks.positive(dt=dt)
    return Body(
        {"position": unit},
        np.eye(1),
        np.ones((1, 1)) * dt,
        ("velocity", f"{unit}/s"),
        dt,
        _dimensions(dimensions),
    )


def _dimensions(value: Any) -> int:
    return checks.whole("dimensions", value, 1, "the number of axes", most=len(AXES))
