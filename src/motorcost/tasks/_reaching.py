"""Reaching along a line (Todorov 2005), the running example of the paper."""

from typing import Any

from motorcost import checks, parts
from motorcost.model.problem import Problem
from motorcost.tasks.declarations import Parameter, declare
from motorcost.tasks.supports import LogUniform

# The SD with which each quantity is felt, for a `sensory_noise` of 1: in m, m/s and N.
FELT = {"position": 0.02, "velocity": 0.2, "force": 1.0}


@declare(
    effort=Parameter(
        "cost of squared control, averaged over the movement",
        "m²/N²",
        "cost",
        LogUniform(1e-8, 1e-2),
    ),
    velocity=Parameter(
        "weight of the hand's velocity at the end", "s", "cost", LogUniform(1e-3, 10.0)
    ),
    force=Parameter("weight of the force at the end", "m/N", "cost", LogUniform(1e-4, 1.0)),
    motor_noise=Parameter(
        "SD of the control's noise, as a fraction of the control",
        "",
        "noise",
        LogUniform(0.01, 3.0),
    ),
    target=Parameter("position of the target", "m", "condition"),
    steps=Parameter("number of states in a trial, T", "", "condition"),
    dt=Parameter("seconds in a step", "s", "condition"),
    sensory_noise=Parameter(
        "SD of the senses, in units of 0.02 m, 0.2 m/s and 1 N", "", "noise", LogUniform(0.01, 10.0)
    ),
    tau=Parameter(
        "time constant of the muscle, which filters the control twice",
        "s",
        "body",
        LogUniform(0.01, 0.2),
    ),
    aim_spread=Parameter(
        "SD over trials of where the agent aims, around the target",
        "m",
        "spread",
        LogUniform(1e-4, 0.1),
        typical=0.01,
    ),
    start_spread=Parameter(
        "SD over trials of where the hand starts, around 0",
        "m",
        "spread",
        LogUniform(1e-5, 0.05),
        typical=0.002,
    ),
    start_speed_spread=Parameter(
        "SD over trials of the hand's velocity at the start, around 0",
        "m/s",
        "spread",
        LogUniform(1e-4, 1.0),
        typical=0.02,
    ),
)
def reaching(
    effort: Any = 1e-5,
    velocity: Any = 0.2,
    force: Any = 0.02,
    motor_noise: Any = 0.5,
    target: Any = 0.1,
    steps: int = 30,
    dt: Any = 0.01,
    sensory_noise: Any = 0.5,
    tau: Any = 0.04,
    aim_spread: Any = 0.0,
    start_spread: Any = 0.0,
    start_speed_spread: Any = 0.0,
) -> Problem:
    """Reach from 0 to a target and stop there, at the end of a fixed time.

    A hand of 1 kg moves along a line, driven by a muscle-like second-order low-pass filter
    (twice `tau`) of the neural control. The larger the control, the noisier it is. The agent
    senses position, velocity and force, each with noise (SD 0.01 m, 0.1 m/s, 0.5 N at the
    default `sensory_noise`). The cost is

        (position - target)² + (velocity_weight v)² + (force_weight f)²

    at the last step, plus effort / (T-1) times the squared control at every step. The trial
    starts at rest at 0, which the agent knows.

    Trials may differ: the agent aims at target + N(0, aim_spread²), the hand starts at
    N(0, start_spread²) with the velocity N(0, start_speed_spread²). The agent knows both (they are
    a spread of its first estimate, `initial_belief_cov`), the experimenter what is recorded. The
    state `target` is where the agent aims, which need not be where a target was shown. The policy
    is optimal on average over such trials.

    Examples
    --------
    >>> problem = mc.tasks.reaching(effort=1e-5, velocity=0.2, force=0.02)
    >>> problem.state_names, problem.steps
    (('position', 'velocity', 'force', 'muscle', 'target'), 30)
    """
    checks.nonnegative(
        velocity=velocity, force=force, motor_noise=motor_noise, sensory_noise=sensory_noise
    )
    checks.nonnegative(
        aim_spread=aim_spread, start_spread=start_spread, start_speed_spread=start_speed_spread
    )
    checks.positive(effort=effort, dt=dt, tau=tau)
    hand = parts.point_mass(dt, muscle=tau)
    T = checks.whole("steps", steps, 2, "T, the number of states in a trial")
    stop = {"position - target": 1.0, "velocity": velocity, "force": force}
    return parts.assemble(
        hand,
        steps=T,
        points=[parts.Point("target", target, spread=aim_spread)],
        goals=[parts.at_end(stop)],
        effort=effort / (T - 1),
        control_noise=parts.signal_dependent_noise(motor_noise),
        senses={"felt": {name: sensory_noise * sd for name, sd in FELT.items()}},
        start_spreads={"position": start_spread, "velocity": start_speed_spread},
    )
