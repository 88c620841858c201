"""What an agent does with the sliders where they are: movements, gains, speeds and costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from motorcost.data.kinematics import position_states, speed
from motorcost.diagnostics.expectations import Expectation, expectation
from motorcost.diagnostics.plausible import cost_shares
from motorcost.explore.knobs import mistaken
from motorcost.model.joint import joint_start
from motorcost.model.observer import observe
from motorcost.model.policy import Policy
from motorcost.model.simulate import simulate
from motorcost.model.solver import solve
from motorcost.model.trials import Trials
from motorcost.tasks.declarations import Task
from motorcost.tasks.late_senses import delayed

# Movements that are drawn one by one.
MOVEMENTS = 20
# Compiled programs that are kept: one for each task, length and delay.
_PROGRAMS = 32


@dataclass(frozen=True)
class Setting:
    """What the page is set to, but for the data.

    - `task`, `task_name`: the task, and what it is called.
    - `values`: by name, parameters and conditions.
    - `delay`: steps by which the senses are late; `is_mistaken`: whether the agent's beliefs have
      sliders of their own.
    - `steps`, `dt`: of the movement; the task's own if None.
    - `seed`: of the simulated movements.
    - `whole`: further values that are no real numbers, as numbers of steps.
    """

    task: Task
    task_name: str
    values: Mapping[str, float] = field(default_factory=dict)
    delay: int = 0
    is_mistaken: bool = False
    steps: int | None = None
    dt: float | None = None
    seed: int = 0
    whole: Mapping[str, Any] = field(default_factory=dict)

    @property
    def full_task(self) -> Task:
        """The task with its delay, and with an agent that may be mistaken."""
        task = mistaken(self.task) if self.is_mistaken else self.task
        return task if self.delay == 0 else delayed(task, self.delay)

    @property
    def size(self) -> dict[str, Any]:
        """Steps and time step, where they are not the task's own, and other whole numbers."""
        size = {"steps": self.steps, "dt": self.dt, **self.whole}
        return {name: value for name, value in size.items() if value is not None}


@dataclass(frozen=True)
class View:
    """What an agent does; times first, then states in the order of `states`.

    - `mean`, `sd`: exact, over movements; `movements` (movement, time, state): simulated.
    - `beliefs`: the agent's estimates in the simulated movements.
    - `speeds` (movement, time), `mean_speed`: of the place.
    - `control_gains` (time, control, state), `filter_gains` (time, state, sense).
    - `cost`: expected; `idle_cost`: of an agent that does nothing; `shares`: of the cost, by what
      they are for.
    """

    times: np.ndarray
    states: dict[str, str]
    controls: tuple[str, ...]
    senses: tuple[str, ...]
    place: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    movements: np.ndarray
    beliefs: np.ndarray
    speeds: np.ndarray
    mean_speed: np.ndarray
    control_gains: np.ndarray
    filter_gains: np.ndarray
    cost: float
    idle_cost: float
    shares: dict[str, float]
    converged: bool

    def course(self, state: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, SD and movements of a state, over time."""
        i = list(self.states).index(state)
        return self.mean[:, i], self.sd[:, i], self.movements[:, :, i]


class _Computed(NamedTuple):
    expected: Expectation
    policy: Policy
    states: jax.Array
    beliefs: jax.Array
    times: jax.Array


def view(setting: Setting) -> View:
    """What the agent of a setting does. The first of its kind is compiled, which takes seconds."""
    values = {name: jnp.asarray(value, float) for name, value in setting.values.items()}
    compute, about = _program(*_kind(setting))
    found = jax.tree.map(np.asarray, compute(values, jax.random.key(setting.seed)))
    _seen.add(_kind(setting))
    expected, policy = found.expected, found.policy
    times = found.times
    names = list(about.states)[: about.shown]
    place = position_states(names)
    columns = [names.index(name) for name in place]
    return View(
        times=times,
        states=dict(list(about.states.items())[: about.shown]),
        controls=about.controls,
        senses=about.senses,
        place=place,
        mean=expected.mean[:, : about.shown],
        sd=expected.sd[:, : about.shown],
        movements=found.states[:, :, : about.shown],
        beliefs=found.beliefs[:, :, : about.shown],
        speeds=np.array([speed(states[:, columns], times) for states in found.states]),
        mean_speed=speed(expected.mean[:, columns], times),
        control_gains=policy.L[:, :, : about.shown],
        filter_gains=policy.K[:, : about.shown],
        cost=float(expected.cost),
        idle_cost=float(expected.idle_cost),
        shares=cost_shares(
            list(about.states), expected.state_costs, expected.coupling > 0, float(expected.effort)
        ),
        converged=bool(policy.converged),
    )


def movements(setting: Setting) -> Trials:
    """The simulated movements that a view shows, as if every state had been recorded."""
    found = view(setting)
    return Trials(
        jnp.asarray(found.movements),
        jnp.asarray(found.times),
        channels=found.states,
        beliefs=jnp.asarray(found.beliefs),
    )


# The kinds of pictures that were computed.
_seen: set[Any] = set()


def _kind(setting: Setting) -> tuple[Task, tuple[tuple[str, Any], ...], tuple[str, ...]]:
    """What pictures share that one program computes."""
    return setting.full_task, tuple(sorted(setting.size.items())), tuple(setting.values)


def is_compiled(setting: Setting) -> bool:
    """Whether a picture of this kind was computed before, so that the next one is quick."""
    return _kind(setting) in _seen


class _About(NamedTuple):
    states: dict[str, str]  # units by name
    shown: int  # the first states, without what a delay remembers of them
    controls: tuple[str, ...]
    senses: tuple[str, ...]


@lru_cache(_PROGRAMS)
def _program(task: Task, size: tuple[tuple[str, Any], ...], names: tuple[str, ...]) -> Any:
    """The compiled program of a kind of movement, and what its states are."""
    make = partial(task, **dict(size))

    @jax.jit
    def compute(values: Mapping[str, Any], key: Any) -> _Computed:
        problem = make(**values)
        policy = solve(problem)
        expected = expectation(problem, policy, observe(problem), *joint_start(problem))
        trials = simulate(problem, policy, n_trials=MOVEMENTS, key=key)
        assert trials.states is not None
        assert trials.beliefs is not None
        return _Computed(expected, policy, trials.states, trials.beliefs, problem.times)

    example = dict.fromkeys(names, jnp.ones(()))
    problem = jax.eval_shape(lambda v: make(**v), example)
    original = getattr(task, "delayed_by", {}).get("task", task)
    shown = jax.eval_shape(lambda v: original(**dict(size), **v), example).state_names
    states = dict(zip(problem.state_names, problem.state_units, strict=True))
    return compute, _About(states, len(shown), problem.control_names, problem.sense_names)
