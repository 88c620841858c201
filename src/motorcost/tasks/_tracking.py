"""Tracking a target that moves at random."""

from typing import Any

from motorcost import checks, parts
from motorcost.model.problem import Problem
from motorcost.tasks.declarations import Parameter, declare
from motorcost.tasks.supports import LogUniform


@declare(
    effort=Parameter(
        "cost of squared force, against squared distance", "m²/N²", "cost", LogUniform(1e-7, 10.0)
    ),
    motor_noise=Parameter(
        "SD of the force's noise, as a fraction of the force", "", "noise", LogUniform(1e-3, 3.0)
    ),
    sensory_noise=Parameter(
        "SD with which hand and target are sensed", "m", "noise", LogUniform(1e-5, 0.5)
    ),
    wander=Parameter("SD of the target's displacement in a second", "m/√s", "condition"),
    mass=Parameter("mass of the hand", "kg", "body", LogUniform(0.05, 20.0)),
    damping=Parameter("resisting force per m/s", "N s/m", "body", LogUniform(0.01, 100.0)),
    steps=Parameter("number of states in a trial, T", "", "condition"),
    dt=Parameter("seconds in a step", "s", "condition"),
    start_spread=Parameter(
        "SD over trials of the hand's distance from the target at the start",
        "m",
        "spread",
        LogUniform(1e-5, 0.5),
        typical=0.01,
    ),
    start_speed_spread=Parameter(
        "SD over trials of the hand's velocity at the start, around 0",
        "m/s",
        "spread",
        LogUniform(1e-4, 1.0),
        typical=0.05,
    ),
)
def tracking(
    effort: Any = 1e-3,
    motor_noise: Any = 0.2,
    sensory_noise: Any = 0.005,
    wander: Any = 0.05,
    mass: Any = 1.0,
    damping: Any = 1.0,
    steps: int = 180,
    dt: Any = 1 / 60,
    start_spread: Any = 0.0,
    start_speed_spread: Any = 0.0,
) -> Problem:
    """Follow a target that moves at random until the end of the trial.

    The target takes a random walk along a line, the hand is a damped point mass, and the force
    is noisy in proportion to its size. The agent senses the positions of hand and target with
    noise, and has to infer the velocity of the hand. The cost at every step is the squared distance
    between the two plus effort times the squared force. Hand and target start together at 0, the
    hand at rest, or, with the two spreads, the hand at N(0, start_spread²) with the velocity
    N(0, start_speed_spread²), which the agent knows.

    Examples
    --------
    >>> problem = mc.tasks.tracking(wander=0.1, steps=60)
    >>> problem.state_names
    ('position', 'velocity', 'target')
    """
    checks.nonnegative(
        motor_noise=motor_noise,
        sensory_noise=sensory_noise,
        wander=wander,
        damping=damping,
        start_spread=start_spread,
        start_speed_spread=start_speed_spread,
    )
    checks.positive(effort=effort, mass=mass, dt=dt)
    return parts.assemble(
        parts.point_mass(dt, mass=mass, damping=damping),
        steps=steps,
        points=[parts.Point("target", 0.0, wander=wander * checks.array_module(dt).sqrt(dt))],
        goals=[parts.throughout({"position - target": 1.0})],
        effort=effort,
        control_noise=parts.signal_dependent_noise(motor_noise),
        senses={"seen": {"position": sensory_noise, "target": sensory_noise}},
        start_spreads={"position": start_spread, "velocity": start_speed_spread},
    )
