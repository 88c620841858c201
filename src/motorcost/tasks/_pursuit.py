"""Following a target that takes a random walk with a cursor, by an agent that sees both.

The experiment and the models of continuous psychophysics (Bonnen et al. 2015, Straub and Rothkopf
2022). The conventions about time and the first step are those of the package `lqg` of the latter,
so that log likelihoods are the same, given the first samples.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.errors import InputError
from motorcost.model.delay import delay as delayed
from motorcost.model.problem import Problem
from motorcost.numerics.linalg import congruence, mm, mmT, solve_semidefinite, symmetrised
from motorcost.tasks.declarations import Parameter, declare
from motorcost.tasks.supports import LogUniform

_SHARED = {
    "effort": Parameter(
        "cost of the cursor's squared velocity, against squared distance",
        "s²",
        "cost",
        LogUniform(1e-6, 100.0),
    ),
    "target_noise": Parameter(
        "SD with which the target is seen at each step", "m", "noise", LogUniform(1e-5, 1.0)
    ),
    "cursor_noise": Parameter(
        "SD with which the cursor is seen at each step", "m", "noise", LogUniform(1e-5, 1.0)
    ),
    "motor_noise": Parameter(
        "SD in a second of the cursor's displacement by noise",
        "m/√s",
        "noise",
        LogUniform(1e-5, 1.0),
    ),
}
_CONDITIONS = {
    "wander": Parameter("SD of the target's displacement in a second", "m/√s", "condition"),
    "delay": Parameter("steps by which what is seen is late", "", "condition"),
    "steps": Parameter("number of states in a trial, T", "", "condition"),
    "dt": Parameter("seconds in a step", "s", "condition"),
    "start_spread": Parameter(
        "SD over trials of where target and cursor are at first, around 0",
        "m",
        "spread",
        LogUniform(1e-4, 10.0),
        typical=0.05,
    ),
}


@declare(**_SHARED, **_CONDITIONS)
def pursuit(
    effort: Any = 0.05,
    target_noise: Any = 0.02,
    cursor_noise: Any = 0.02,
    motor_noise: Any = 0.02,
    wander: Any = 0.05,
    delay: Any = 0,
    steps: int = 180,
    dt: Any = 1 / 60,
    start_spread: Any = 0.0,
) -> Problem:
    """Keep a cursor on a target that takes a random walk.

    The cursor has no inertia: the control is its velocity, to which noise is added. The agent sees
    the positions of target and cursor with noise, the target that is hard to see with more of it.
    The cost at every step is the squared distance between the two plus effort times the squared
    velocity. An actor whose effort costs something lags behind (the bounded actor); one with an
    effort of 1e-3 s² hardly does (the optimal actor of Straub and Rothkopf).

    The agent sees target and cursor before it acts on them (`sense_first`), or `delay` steps later:
    about 0.2 s in people, 12 steps of 1/60 s. Noises per step are those of a second times √dt.

    Trials begin at a state that is known: give it with `simulate(..., initial_states=...)` and
    `Trials.recorded(..., starts=...)` as `pursuit_starts` makes it. Or they begin anywhere, at
    N(0, start_spread²), as in recordings that are read from a file. The agent takes itself to be as
    sure of the first state as if it had known the one before; its first estimate scatters around
    the first state by what it sees wrongly in a first look.

    Examples
    --------
    >>> problem = mc.tasks.pursuit(effort=0.1, steps=60)
    >>> problem.state_names
    ('target', 'cursor')
    """
    return _pursued(
        _followed(effort, target_noise, cursor_noise, motor_noise, wander, steps, dt, start_spread),
        None,
        delay,
    )


@declare(
    **_SHARED,
    believed_wander=Parameter(
        "SD of the target's displacement in a second, as the agent believes",
        "m/√s",
        "noise",
        LogUniform(1e-5, 10.0),
    ),
    believed_drift=Parameter(
        "SD of the change in a second of the target's velocity, as the agent believes",
        "m/s^1.5",
        "noise",
        LogUniform(1e-5, 10.0),
    ),
    **_CONDITIONS,
)
def subjective_pursuit(
    effort: Any = 0.05,
    target_noise: Any = 0.02,
    cursor_noise: Any = 0.02,
    motor_noise: Any = 0.02,
    believed_wander: Any = 0.05,
    believed_drift: Any = 0.1,
    wander: Any = 0.05,
    delay: Any = 0,
    steps: int = 180,
    dt: Any = 1 / 60,
    start_spread: Any = 0.0,
) -> Problem:
    """Keep a cursor on a target that takes a random walk, believing that the target has a velocity.

    The world is that of `pursuit`. The agent (the subjective actor of Straub and Rothkopf) believes
    that the target moves on with a velocity which takes a random walk itself, and disturbed by a
    random walk of another size than it has. The state `target velocity` is part of its estimate,
    and zero in the world.

    Examples
    --------
    >>> problem = mc.tasks.subjective_pursuit(believed_drift=0.2, steps=60)
    >>> problem.believed is not None
    True
    """
    checks.nonnegative(believed_wander=believed_wander, believed_drift=believed_drift)
    world = _followed(
        effort, target_noise, cursor_noise, motor_noise, wander, steps, dt, start_spread
    )
    moving = np.zeros((3, 3))
    moving[0, 2] = 1.0
    believed = world.replace(
        A=np.eye(3) + moving * dt,
        B=_padded(world.B),
        V=_random_walk([believed_wander, motor_noise, believed_drift], dt),
        H=np.eye(2, 3),
        E=np.zeros((3, 0)),
        Q=_padded(_padded(world.Q, axis=1), axis=2),
        initial_belief=np.zeros(3),
        initial_belief_cov=np.zeros((3, 3)),
        initial_state_cov=np.zeros((3, 3)),
        states={"target": "m", "cursor": "m", "target velocity": "m/s"},
    )
    return _pursued(world, believed, delay)


def pursuit_starts(problem: Problem, first: Any) -> Float[np.ndarray, "trials states"]:
    """Return the first states of trials of `pursuit` or `subjective_pursuit`.

    - `problem`: a problem of the task, with the delay that is meant.
    - `first` (trials, 2): where target and cursor are at first.

    Where what is seen is late, the past is as the present: nothing moved before.

    Examples
    --------
    >>> problem = mc.tasks.pursuit(steps=60)
    >>> mc.tasks.pursuit_starts(problem, [[0.0, 0.1], [0.0, -0.2]]).shape
    (2, 2)
    """
    first = checks.numbers("first", first)
    if first.ndim != 2 or first.shape[1] != 2:
        raise InputError(f"first must have shape (trials, 2), target and cursor, got {first.shape}")
    present = [name.split("(")[0].removeprefix("seen ") for name in problem.state_names]
    columns = {"target": first[:, 0], "cursor": first[:, 1]}
    nothing = np.zeros(len(first))
    return np.stack([columns.get(name, nothing) for name in present], axis=1)


def _followed(
    effort: Any,
    target_noise: Any,
    cursor_noise: Any,
    motor_noise: Any,
    wander: Any,
    steps: int,
    dt: Any,
    start_spread: Any,
) -> Problem:
    """Target and cursor, seen without delay."""
    checks.nonnegative(
        target_noise=target_noise,
        cursor_noise=cursor_noise,
        motor_noise=motor_noise,
        wander=wander,
        start_spread=start_spread,
    )
    checks.positive(effort=effort, dt=dt)
    return Problem(
        steps=steps,
        A=np.eye(2),
        B=np.array([[0.0], [1.0]]) * dt,
        V=_random_walk([wander, motor_noise], dt),
        H=np.eye(2),
        W=checks.diagonal_matrix([target_noise, cursor_noise]),
        Q=np.array([[1.0, -1.0], [-1.0, 1.0]]),
        R=effort * np.eye(1),
        initial_belief_cov=np.eye(2) * start_spread**2,
        states={"target": "m", "cursor": "m"},
        controls={"velocity": "m/s"},
        senses={"seen target": "m", "seen cursor": "m"},
        dt=dt,
        sense_first=True,
    )


def _pursued(world: Problem, believed: Problem | None, delay: Any) -> Problem:
    """The problem with its delay and its start."""
    problem = world if believed is None else world.with_believed(believed)
    problem = delayed(problem, delay)
    b = problem.as_believed
    of_first_step = [checks.concrete_in_numpy(M)[0] for M in (b.A, b.V, b.H, b.W)]
    of_world, of_agent = _first_covariances(*of_first_step)
    problem = problem.replace(initial_state_cov=of_world)
    return problem.believing(initial_state_cov=of_agent)


@jax.jit
def _first_covariances(
    A: Float[Array, "n n"], V: Float[Array, "n v"], H: Float[Array, "k n"], W: Float[Array, "k w"]
) -> tuple[Float[Array, "n n"], Float[Array, "n n"]]:
    """The covariance of the first state around the first estimate: in the world, and as the agent
    believes."""
    sure = mmT(V, V)  # of the present; the past, with a delay, is known
    before = symmetrised(congruence(A, sure) + sure)
    HP = mm(H, before)
    K = solve_semidefinite(symmetrised(mmT(HP, H) + mmT(W, W)), HP).T
    KW = mm(K, W)
    return mmT(KW, KW), sure


def _random_walk(sizes: Sequence[Any], dt: Any) -> Any:
    """V of states that take random walks, from the SD of their change in a second."""
    return checks.diagonal_matrix(sizes) * checks.array_module(dt).sqrt(dt)


def _padded(M: Array | np.ndarray, axis: int = 1) -> Array | np.ndarray:
    """A matrix of each step with one more row (axis 1) or column (axis 2), of zeros."""
    M = checks.concrete_in_numpy(M)
    return checks.array_module(M).pad(M, [(0, int(i == axis)) for i in range(3)])
