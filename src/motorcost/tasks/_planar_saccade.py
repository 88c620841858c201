"""Saccades in any direction."""

from typing import Any

from motorcost import checks, parts
from motorcost.errors import InputError
from motorcost.model.problem import Problem
from motorcost.tasks._saccade import saccade
from motorcost.tasks.declarations import Parameter, declare
from motorcost.tasks.supports import LogUniform

_OF_SACCADE = (
    "effort",
    "motor_noise",
    "process_noise",
    "sensory_noise",
    "tau_slow",
    "tau_fast",
    "steps",
    "hold_start",
    "hold_target",
    "dt",
    "aim_spread",
    "start_spread",
    "start_speed_spread",
)


@declare(
    **{name: saccade.parameters[name] for name in _OF_SACCADE},  # type: ignore[attr-defined]
    across=Parameter(
        "SD of the control's noise across its direction, as a share of that along it",
        "",
        "noise",
        LogUniform(0.01, 10.0),
    ),
    target_x=Parameter("horizontal angle of the target, from the start", "deg", "condition"),
    target_y=Parameter("vertical angle of the target, from the start", "deg", "condition"),
)
def planar_saccade(
    effort: Any = 1e-3,
    motor_noise: Any = 0.08**0.5,
    across: Any = 1.0,
    process_noise: Any = 0.1,
    sensory_noise: Any = 1e-3,
    tau_slow: Any = 0.224,
    tau_fast: Any = 0.013,
    target_x: Any = 10.0,
    target_y: Any = 0.0,
    steps: int = 40,
    hold_start: int = 0,
    hold_target: int = 10,
    dt: Any = 0.00125,
    aim_spread: Any = 0.0,
    start_spread: Any = 0.0,
    start_speed_spread: Any = 0.0,
) -> Problem:
    """Look from 0 at a point in any direction, and stay there.

    Horizontal and vertical eye movements have the plant, the senses and the costs of `saccade`.
    The control is noisy in proportion to its size, in its direction and, with a share of `across`,
    across it, so that the end points of oblique saccades scatter in ellipses. Angles are measured
    from where the eye is at first; they are taken to be small enough to add like distances.

    Examples
    --------
    >>> problem = mc.tasks.planar_saccade(target_x=6.0, target_y=8.0)
    >>> problem.state_names
    ('x', 'y', 'velocity_x', 'velocity_y', 'target_x', 'target_y')
    """
    checks.nonnegative(
        motor_noise=motor_noise, process_noise=process_noise, sensory_noise=sensory_noise
    )
    checks.positive(effort=effort)
    T = checks.whole("steps", steps, 2, "T, the number of states in a trial")
    if hold_start + hold_target > T:
        raise InputError(
            f"hold_start + hold_target must be at most steps = {T}, got {hold_start + hold_target}"
        )
    eye = parts.eye(dt, tau_slow=tau_slow, tau_fast=tau_fast, dimensions=2)
    return parts.assemble(
        eye,
        steps=T,
        points=[parts.Point("target", (target_x, target_y), spread=aim_spread)],
        goals=[
            parts.first_steps(hold_start, {"angle": 1.0}),
            parts.last_steps(hold_target, {"angle - target": 1.0}),
        ],
        effort=effort / T,
        control_noise=parts.signal_dependent_noise(motor_noise, across=across),
        disturbances={
            "angle": process_noise * abs(eye.B[0, 0]),
            "velocity": process_noise * abs(eye.B[1, 0]),
        },
        senses={"seen": {"angle": sensory_noise, "velocity": sensory_noise}},
        start_spreads={"angle": start_spread, "velocity": start_speed_spread},
    )
