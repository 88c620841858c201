"""Holding still against disturbances: a hand that is pushed, a person who stands."""

from typing import Any

from motorcost import checks, parts
from motorcost.model.problem import Problem
from motorcost.tasks._reaching import FELT, reaching
from motorcost.tasks.declarations import Parameter, declare
from motorcost.tasks.supports import LogUniform, Uniform

_OF_REACHING = ("motor_noise", "sensory_noise", "steps", "dt", "tau")
_SPREADS = ("start_spread", "start_speed_spread")


@declare(
    **{name: reaching.parameters[name] for name in (*_OF_REACHING, *_SPREADS)},  # type: ignore[attr-defined]
    effort=Parameter(
        "cost of squared control, against squared distance", "m²/N²", "cost", LogUniform(1e-9, 1.0)
    ),
    velocity=Parameter("weight of the velocity", "s", "cost", LogUniform(1e-3, 10.0)),
    disturbance=Parameter(
        "SD of the momentum that random pushes give in a second",
        "N √s",
        "noise",
        LogUniform(1e-3, 100.0),
    ),
    mass=Parameter("mass of the body", "kg", "body", LogUniform(0.1, 200.0)),
    stiffness=Parameter(
        "force back to 0 per m; negative for a body that falls over",
        "N/m",
        "body",
        Uniform(-5e3, 5e3),
    ),
    damping=Parameter(
        "resisting force per m/s", "N s/m", "body", LogUniform(0.01, 1000.0), typical=1.0
    ),
    pulse=Parameter("force of a push; none if left out", "N", "condition"),
    pulse_time=Parameter(
        "time at which the push begins, from the model's first step", "s", "condition"
    ),
    pulse_duration=Parameter("time for which the push lasts", "s", "condition"),
    anticipation=Parameter(
        "share of the push that the agent expects", "", "belief", Uniform(-0.5, 1.5)
    ),
)
def posture(
    effort: Any = 1e-5,
    velocity: Any = 0.1,
    motor_noise: Any = 0.2,
    sensory_noise: Any = 0.5,
    disturbance: Any = 0.5,
    mass: Any = 1.0,
    stiffness: Any = 0.0,
    damping: Any = 1.0,
    tau: Any = 0.04,
    pulse: Any = None,
    pulse_time: Any = 0.5,
    pulse_duration: Any = 0.1,
    anticipation: Any = 0.0,
    steps: int = 500,
    dt: Any = 0.01,
    start_spread: Any = 0.0,
    start_speed_spread: Any = 0.0,
) -> Problem:
    """Hold still at 0 while random forces push, until the end of a long trial.

    A mass on a line is driven by a muscle (as in `reaching`) and pushed by random forces, of which
    the agent knows how strong they are (`disturbance`). With a negative stiffness it is a body that
    falls over unless it is held: for a standing person of mass m whose centre of mass is at the
    height h, stiffness = -m × 9.81 m/s² / h. The cost at every step is

        position² + (velocity_weight v)² + effort u².

    A push of `pulse` N may be added at `pulse_time`, as in experiments on reflexes. The agent does
    not expect it, unless `anticipation` is above 0, and corrects for it when it feels it.

    Examples
    --------
    >>> problem = mc.tasks.posture(steps=100, disturbance=0.3)
    >>> problem.state_names
    ('position', 'velocity', 'force', 'muscle')
    """
    checks.nonnegative(
        velocity=velocity,
        motor_noise=motor_noise,
        sensory_noise=sensory_noise,
        disturbance=disturbance,
    )
    body = parts.point_mass(dt, mass=mass, damping=damping, stiffness=stiffness, muscle=tau)
    pushes = [] if pulse is None else [parts.pulse(pulse, pulse_time, pulse_duration, dt)]
    return parts.assemble(
        body,
        steps=steps,
        goals=[parts.throughout({"position": 1.0, "velocity": velocity})],
        effort=effort,
        control_noise=parts.signal_dependent_noise(motor_noise),
        disturbances={"velocity": disturbance * checks.array_module(dt).sqrt(dt) / mass},
        senses={"felt": {name: sensory_noise * sd for name, sd in FELT.items()}},
        fields=pushes,
        adaptation=anticipation,
        start_spreads={"position": start_spread, "velocity": start_speed_spread},
    )
