"""The rows of agents whose senses are late: ten steps, 100 ms at a time step of 10 ms."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import numpy as np

import motorcost as mc
from cases import NAMES, Scale
from timing import Comparison, Run

DELAY = 10


def comparisons(scale: Scale) -> Iterator[Comparison]:
    delay, n_trials, steps = (1, 3, 5) if scale.once else (DELAY, 20, 60)
    of = f"delay of {delay} steps, {n_trials} trials"
    yield Comparison(
        f"{of}: 2-start fit",
        "no delay",
        partial(_fits, scale, delay, n_trials, steps),
        1,
        most=15.0,
    )
    for what, function, most in (
        ("log likelihood", lambda function: function, 0.3),
        ("value and gradient", jax.value_and_grad, 1.5),
    ):
        yield Comparison(
            f"planar, {of}: {what}",
            "no delay",
            partial(_planar, delay, n_trials, steps, function),
            5,
            most=most,
        )


def _fits(scale: Scale, delay: int, n_trials: int, steps: int) -> tuple[Run, Run]:
    trials, observer = _recorded(mc.tasks.reaching(steps=steps), ["position"], n_trials)

    def fitted(delay: int) -> Any:
        return mc.fit(
            mc.tasks.reaching,
            trials,
            NAMES,
            observer=observer,
            delay=delay,
            n_starts=2,
            max_evaluations=scale.max_evaluations,
            key=jax.random.key(1),
        ).log_likelihood

    return partial(fitted, delay), partial(fitted, 0)


def _planar(delay: int, n_trials: int, steps: int, of: Any) -> tuple[Run, Run]:
    trials, observer = _recorded(mc.tasks.planar_reaching(steps=steps), ["x", "y"], n_trials)

    def run(delay: int) -> Run:
        def value(effort: Any) -> Any:
            problem = mc.delay(mc.tasks.planar_reaching(effort=effort, steps=steps), delay)
            return mc.log_likelihood(problem, trials, observer=observer)

        return partial(jax.jit(of(value)), 1e-5)

    return run(delay), run(0)


def _recorded(
    problem: mc.Problem, channels: list[str], n_trials: int
) -> tuple[mc.Trials, mc.ObserverSpec]:
    """Trials of an agent without delay, recorded with noise of 1 mm, and how."""
    observer = mc.ObserverSpec(channels, noise=1e-3)
    simulated = mc.simulate(
        problem,
        mc.solve(problem),
        n_trials=n_trials,
        key=jax.random.key(0),
        observer=observer(problem),
    )
    samples = np.asarray(simulated.observed)
    return mc.Trials.recorded(samples, dt=float(problem.dt), channels=channels), observer
