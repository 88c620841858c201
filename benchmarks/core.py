"""The rows of the reaching task at its usual size: a policy, a likelihood, a fit."""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import motorcost as mc
import straight
from cases import (
    BOUNDS,
    DEFAULTS,
    LOG_DEFAULTS,
    NAMES,
    Reaching,
    Scale,
    point,
    recorded,
    value,
    value_and_gradient,
)
from motorcost.fitting.batching import BatchedObjective
from motorcost.fitting.specification import make_objective
from timing import Comparison, Run


def comparisons(scale: Scale) -> Iterator[Comparison]:
    case = Reaching(scale.steps)
    yield Comparison("solve", "straight", partial(_solves, case), 51, agree=1e-9)
    yield Comparison(
        "log likelihood", "straight", partial(values, case, scale.trials), 51, agree=1e-9
    )
    yield Comparison(
        "log likelihood of an array, in a jit",
        "straight",
        partial(_of_array, case, scale.trials),
        51,
        agree=1e-9,
        aim=5.0,
    )
    yield Comparison(
        "value and gradient", "straight", partial(_gradients, case, scale.trials), 31, agree=1e-7
    )
    yield Comparison(
        "log likelihood",
        "value and gradient",
        partial(gradient_beside_value, case, scale.trials),
        51,
    )
    yield Comparison("log likelihood", "Hessian", partial(_hessian, case, scale.trials), 15)
    yield Comparison(
        f"simulate {scale.simulated:,} trials",
        "straight",
        partial(_simulations, case, scale),
        15,
        aim=1.0,
    )
    sets = f"grid of {scale.grid**3:,} parameter sets"
    yield Comparison(sets, "one by one", partial(_grid, case, scale, _one_by_one), 3, agree=1e-9)
    yield Comparison(sets, "straight", partial(_grid, case, scale, _straight_grid), 3, agree=1e-8)
    # A quick search is stopped before it converges.
    same = None if scale.once else 1e-8
    yield Comparison(
        f"{scale.starts}-start fit, warm",
        "straight",
        partial(_fits, case, scale),
        3,
        agree=same,
        aim=60.0,
    )
    many = 2 if scale.once else 20
    yield Comparison(
        f"recovery of {many} data sets",
        "one fit each",
        partial(_recoveries, scale, many),
        3,
        aim=2.0,
    )


def _solves(case: Reaching) -> tuple[Run, Run]:
    def ours(point: Any) -> Any:
        policy = mc.solve(case.problem(point))
        return policy.L, policy.K, policy.expected_cost

    def theirs(point: Any) -> Any:
        return straight.solve(case.problem(point))[:3]

    return partial(jax.jit(ours), point()), partial(jax.jit(theirs), point())


def values(case: Reaching, n_trials: int) -> tuple[Run, Run]:
    arguments = point(), recorded(case, n_trials)
    return partial(value(case), *arguments), partial(value(case, "straight"), *arguments)


def _of_array(case: Reaching, n_trials: int) -> tuple[Run, Run]:
    """As in a user's own program, in which nothing but shapes is known of samples and problem."""
    trials = recorded(case, n_trials)

    @jax.jit
    def ours(point: Any, observed: Any) -> Any:
        return mc.log_likelihood(case.problem(point), observed)

    theirs = partial(value(case, "straight"), point(), trials)
    return partial(ours, point(), trials.observed), theirs


def gradient_beside_value(case: Reaching, n_trials: int) -> tuple[Run, Run]:
    arguments = point(), recorded(case, n_trials)
    return partial(value(case), *arguments), partial(value_and_gradient(case), *arguments)


def _gradients(case: Reaching, n_trials: int) -> tuple[Run, Run]:
    arguments = point(), recorded(case, n_trials)
    straight_way = value_and_gradient(case, "straight_unrolled")
    return partial(value_and_gradient(case), *arguments), partial(straight_way, *arguments)


def _hessian(case: Reaching, n_trials: int) -> tuple[Run, Run]:
    arguments = point(), recorded(case, n_trials)
    return partial(value(case), *arguments), partial(jax.jit(jax.hessian(case.ours)), *arguments)


def _simulations(case: Reaching, scale: Scale) -> tuple[Run, Run]:
    n = scale.simulated
    problem, key = case.problem(LOG_DEFAULTS), jax.random.key(0)
    policy = mc.solve(problem)
    theirs = jax.jit(straight.simulate, static_argnums=3)

    def ours() -> Any:
        trials = mc.simulate(problem, policy, n_trials=n, key=key)
        return trials.states, trials.beliefs, trials.controls, trials.senses

    return ours, partial(theirs, problem, policy.L, policy.K, n, key)


def _grid(case: Reaching, scale: Scale, other: Any) -> tuple[Run, Run]:
    """A grid half an order of magnitude to either side of the defaults."""
    model = make_objective(mc.tasks.reaching, recorded(case, scale.trials), NAMES)
    offsets = np.log(3) * np.linspace(-1, 1, scale.grid)
    points = np.array([np.add(LOG_DEFAULTS, offset) for offset in product(offsets, repeat=3)])
    together = BatchedObjective(model, expected=min(100, len(points)), gradient=False)
    which = np.zeros(len(points), int)
    return lambda: together(which, points)[0], other(case, model, points)


def _one_by_one(case: Reaching, model: Any, points: np.ndarray) -> Run:
    alone = BatchedObjective(model, expected=1, gradient=False)
    return lambda: alone(np.zeros(len(points), int), points)[0]


def _straight_grid(case: Reaching, model: Any, points: np.ndarray) -> Run:
    # A hundred at a time, as in this library, which is faster than all at once.
    batch = jax.jit(partial(jax.lax.map, batch_size=min(100, len(points))), static_argnums=0)
    return partial(batch, partial(_at, case, model.trials), jnp.asarray(points))


def _at(case: Reaching, trials: mc.Trials, point: Any) -> Any:
    return case.straight(point, trials)


def our_fit(trials: mc.Trials, scale: Scale, observer: Any = None) -> float:
    found = mc.fit(
        mc.tasks.reaching,
        trials,
        NAMES,
        observer=observer,
        key=jax.random.key(1),
        n_starts=scale.starts,
        max_evaluations=scale.max_evaluations,
    )
    return found.log_likelihood


def straight_fit(case: Reaching, trials: mc.Trials, scale: Scale) -> Run:
    """Compiled by its first call, as a user would who fits more than once."""
    at = jax.jit(partial(_at, case, trials))
    most = scale.max_evaluations or 200 * (1 + len(NAMES))
    return lambda: straight.fit(at, BOUNDS, scale.starts, most).log_likelihood


def _fits(case: Reaching, scale: Scale) -> tuple[Run, Run]:
    trials = recorded(case, scale.trials)
    return lambda: our_fit(trials, scale), straight_fit(case, trials, scale)


def _recoveries(scale: Scale, sets: int) -> tuple[Run, Run]:
    """Data sets of 20 trials, fitted side by side (and simulated, which is next to nothing), and
    one after the other."""
    n_trials = 3 if scale.once else 20
    recovery = mc.Recovery(mc.tasks.reaching, NAMES, n_trials=n_trials, n_starts=scale.starts)
    keys = jax.random.split(jax.random.key(2), sets)
    columns = {name: np.full(sets, value) for name, value in zip(NAMES, DEFAULTS, strict=True)}
    problem = mc.tasks.reaching()
    policy = mc.solve(problem)
    data = [mc.simulate(problem, policy, n_trials=n_trials, key=key) for key in keys]

    def side_by_side() -> Any:
        return recovery(keys=keys, **columns)["log_likelihood"]

    return side_by_side, lambda: [our_fit(trials, scale) for trials in data]
