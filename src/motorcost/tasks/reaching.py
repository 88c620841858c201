"""Reaching along a line (Todorov 2005), the running example of the paper."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.model.problem import Problem
from motorcost.tasks.declare import Parameter, declare
from motorcost.tasks.supports import LogUniform


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
    """
    checks.nonnegative(
        velocity=velocity, force=force, motor_noise=motor_noise, sensory_noise=sensory_noise
    )
    checks.nonnegative(
        aim_spread=aim_spread, start_spread=start_spread, start_speed_spread=start_speed_spread
    )
    checks.positive(effort=effort, dt=dt, tau=tau)
    T = checks.whole("steps", steps, 2, "T, the number of states in a trial")
    A, B = _arm(dt, tau)
    at_end = jnp.array([[1, 0, 0, 0, -1], [0, velocity, 0, 0, 0], [0, 0, force, 0, 0]], dtype=float)
    spreads = jnp.array([start_spread, start_speed_spread, 0, 0, aim_spread], dtype=float)
    return Problem(
        steps=T,
        A=A,
        B=B,
        C=[motor_noise * B],
        H=jnp.eye(3, 5),
        W=sensory_noise * jnp.diag(jnp.array([0.02, 0.2, 1.0])),
        Q=jnp.zeros((T, 5, 5)).at[-1].set(at_end.T @ at_end),
        R=jnp.array([[effort / (T - 1)]]),
        initial_belief=jnp.array([0, 0, 0, 0, target], dtype=float),
        initial_belief_cov=jnp.diag(spreads**2),
        states={"position": "m", "velocity": "m/s", "force": "N", "muscle": "N", "target": "m"},
        controls={"control": "N"},
        senses={"felt position": "m", "felt velocity": "m/s", "felt force": "N"},
        dt=dt,
    )


def _arm(dt: Any, tau: Any) -> tuple[Float[Array, "5 5"], Float[Array, "5 1"]]:
    """A and B of the hand and its muscle, with an aim that does not move."""
    a = dt / tau
    A = jnp.array(
        [
            [1, dt, 0, 0, 0],
            [0, 1, dt, 0, 0],  # mass 1 kg, no damping
            [0, 0, 1 - a, a, 0],
            [0, 0, 0, 1 - a, 0],
            [0, 0, 0, 0, 1],
        ]
    )
    return A, jnp.array([[0.0], [0.0], [0.0], [1.0], [0.0]]) * a
