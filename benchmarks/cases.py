"""The reaching task, by this library and by the direct implementation in `straight`."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import motorcost as mc
import straight

NAMES = ("effort", "velocity", "force")
DEFAULTS = (1e-5, 0.2, 0.02)
LOG_DEFAULTS = tuple(np.log(DEFAULTS).tolist())
SUPPORTS = [mc.tasks.parameters(mc.tasks.reaching)[name].support for name in NAMES]
BOUNDS = [support.bounds for support in SUPPORTS if support is not None]
# Given the past, only the state of the muscle varies, on which the motor noise acts.
VARYING = (3,)


@dataclass(frozen=True)
class Scale:
    """How large the suite is."""

    trials: int = 100
    steps: int = 30
    starts: int = 10
    max_evaluations: int | None = None
    grid: int = 10  # values of each of three parameters
    simulated: int = 10_000
    all_steps: tuple[int, ...] = (30, 100, 300, 1_000)
    all_trials: tuple[int, ...] = (10, 100, 1_000, 10_000, 100_000)
    delays: tuple[int, ...] = (0, 1, 3, 9)  # 5, 8, 14 and 32 states
    all_delays: tuple[int, ...] = (0, 2, 5, 10, 20, 48)  # 5 to 149 states
    once: bool = False  # a single turn, whatever a comparison asks for


FULL = Scale()
QUICK = Scale(
    trials=3,
    steps=5,
    starts=2,
    max_evaluations=10,
    grid=2,
    simulated=10,
    all_steps=(5,),
    all_trials=(3,),
    delays=(1,),
    all_delays=(1,),
    once=True,
)


@dataclass(frozen=True)
class Reaching:
    """The log likelihood as a function of a point on the log scale and of trials, computed in three
    ways."""

    steps: int = 30
    delay: int = 0

    def problem(self, point: Any) -> mc.Problem:
        """The problem at a point."""
        values = dict(zip(NAMES, jnp.exp(jnp.asarray(point)), strict=True))
        return mc.delay(mc.tasks.reaching(**values, steps=self.steps), self.delay)

    def ours(self, point: Any, trials: mc.Trials) -> Any:
        """By this library."""
        return mc.log_likelihood(self.problem(point), trials)

    def straight(self, point: Any, trials: mc.Trials) -> Any:
        """By the direct implementation."""
        # The last control has no effect on the cost and is zero, so the last sample has no noise.
        return straight.log_likelihood(self.problem(point), trials.observed[:, :-1], VARYING)

    def straight_unrolled(self, point: Any, trials: mc.Trials) -> Any:
        """By the direct implementation, with iterations that reverse mode can follow."""
        problem, samples = self.problem(point), trials.observed[:, :-1]
        return straight.log_likelihood(problem, samples, VARYING, straight.solve_unrolled)


@cache
def value(case: Reaching, way: str = "ours") -> Any:
    """The log likelihood, compiled once for all rows that use it."""
    return jax.jit(getattr(case, way))


@cache
def value_and_gradient(case: Reaching, way: str = "ours") -> Any:
    """The log likelihood and its gradient, compiled once for all rows that use them."""
    return jax.jit(jax.value_and_grad(getattr(case, way)))


@cache
def recorded(case: Reaching, n_trials: int) -> mc.Trials:
    """Simulated at the defaults, the same on every call."""
    problem = case.problem(LOG_DEFAULTS)
    return mc.simulate(problem, mc.solve(problem), n_trials=n_trials, key=jax.random.key(0))


def point() -> jax.Array:
    return jnp.array(LOG_DEFAULTS)
