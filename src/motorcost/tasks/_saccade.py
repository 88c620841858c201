"""A saccade (after Crevecoeur & Kording 2017, in the variant of the paper's experiment)."""

from typing import Any

from motorcost import checks, parts
from motorcost.errors import InputError
from motorcost.model.problem import Problem
from motorcost.tasks.declarations import Parameter, declare
from motorcost.tasks.supports import LogUniform


@declare(
    effort=Parameter(
        "cost of squared control, averaged over the trial", "", "cost", LogUniform(1e-7, 10.0)
    ),
    motor_noise=Parameter(
        "SD of the control's noise, as a fraction of the control",
        "",
        "noise",
        LogUniform(1e-3, 3.0),
    ),
    process_noise=Parameter(
        "SD of additive noise that acts as the control does", "deg", "noise", LogUniform(1e-3, 10.0)
    ),
    sensory_noise=Parameter(
        "SD with which angle and velocity are sensed", "deg, deg/s", "noise", LogUniform(1e-5, 10.0)
    ),
    tau_slow=Parameter("slow time constant of the eye", "s", "body", LogUniform(0.05, 1.0)),
    tau_fast=Parameter("fast time constant of the eye", "s", "body", LogUniform(0.002, 0.04)),
    start=Parameter("angle that is held first", "deg", "condition"),
    target=Parameter("angle of the target", "deg", "condition"),
    steps=Parameter("number of states in a trial, T", "", "condition"),
    hold_start=Parameter("steps for which the start is held", "", "condition"),
    hold_target=Parameter("steps for which the target is held", "", "condition"),
    dt=Parameter("seconds in a step", "s", "condition"),
    aim_spread=Parameter(
        "SD over trials of where the agent aims, around the target",
        "deg",
        "spread",
        LogUniform(0.01, 10.0),
        typical=0.5,
    ),
    start_spread=Parameter(
        "SD over trials of the angle at the start, around `start`",
        "deg",
        "spread",
        LogUniform(1e-3, 5.0),
        typical=0.1,
    ),
    start_speed_spread=Parameter(
        "SD over trials of the eye's velocity at the start, around 0",
        "deg/s",
        "spread",
        LogUniform(0.01, 300.0),
        typical=5.0,
    ),
)
def saccade(
    effort: Any = 1e-3,
    motor_noise: Any = 0.08**0.5,
    process_noise: Any = 0.1,
    sensory_noise: Any = 1e-3,
    tau_slow: Any = 0.224,
    tau_fast: Any = 0.013,
    start: Any = -10.0,
    target: Any = 10.0,
    steps: int = 40,
    hold_start: int = 5,
    hold_target: int = 10,
    dt: Any = 0.00125,
    aim_spread: Any = 0.0,
    start_spread: Any = 0.0,
    start_speed_spread: Any = 0.0,
) -> Problem:
    """Look at a point, then at another, and stay there.

    The eye is an overdamped second-order plant, tau_slow tau_fast theta'' = u - theta -
    (tau_slow + tau_fast) theta', sampled exactly. The control is noisy in proportion to its
    size. The cost is the squared distance from the start during the first `hold_start` steps
    and from the target during the last `hold_target`, plus effort / T times the squared
    control at each step. In between, the eye is free.

    Angles are measured from a point that is not the target: the start is stored as a multiple
    of the target, which must not be 0.

    Trials may differ: the agent aims at target + N(0, aim_spread²), and the eye starts at
    start + N(0, start_spread²) with the velocity N(0, start_speed_spread²); the agent knows both.
    An aim that varies needs angles that are measured from the start (start=0), or hold_start=0.

    Examples
    --------
    >>> problem = mc.tasks.saccade(target=5.0)
    >>> problem.state_names, problem.state_units
    (('angle', 'velocity', 'target'), ('deg', 'deg/s', 'deg'))
    """
    checks.nonnegative(
        motor_noise=motor_noise, process_noise=process_noise, sensory_noise=sensory_noise
    )
    checks.nonnegative(
        aim_spread=aim_spread, start_spread=start_spread, start_speed_spread=start_speed_spread
    )
    checks.positive(effort=effort, dt=dt, tau_slow=tau_slow, tau_fast=tau_fast)
    T = checks.whole("steps", steps, 2, "T, the number of states in a trial")
    first = checks.whole("hold_start", hold_start, 0, "steps for which the start is held")
    last = checks.whole("hold_target", hold_target, 0, "steps for which the target is held")
    _require_possible(T, first, last, start, target, aim_spread)
    eye = parts.eye(dt, tau_slow=tau_slow, tau_fast=tau_fast)
    off_start = {"angle": 1.0, "target": -start / target}
    return parts.assemble(
        eye,
        steps=T,
        points=[parts.Point("target", target, spread=aim_spread)],
        goals=[
            parts.first_steps(first, [(off_start, 1.0)]),
            parts.last_steps(last, {"angle - target": 1.0}),
        ],
        effort=effort / T,
        control_noise=parts.signal_dependent_noise(motor_noise),
        disturbances={
            "angle": process_noise * abs(eye.B[0, 0]),
            "velocity": process_noise * abs(eye.B[1, 0]),
        },
        senses={"seen": {"angle": sensory_noise, "velocity": sensory_noise}},
        start=start,
        start_spreads={"angle": start_spread, "velocity": start_speed_spread},
    )


def _require_possible(
    T: int, first: int, last: int, start: Any, target: Any, aim_spread: Any
) -> None:
    """Raise unless the angles can be held for so long, and the aim can vary."""
    if first + last > T:
        raise InputError(
            f"hold_start + hold_target must be at most steps = {T}, got {first + last}"
        )
    if checks.is_concrete(target) and target == 0:
        raise InputError("target must not be 0: measure angles from another point")
    aim_varies = not checks.is_concrete(aim_spread) or aim_spread > 0
    if aim_varies and first > 0 and checks.is_concrete(start) and start != 0:
        raise InputError(
            f"aim_spread needs angles from the start (start=0) or hold_start=0, got start={start:g}"
        )
