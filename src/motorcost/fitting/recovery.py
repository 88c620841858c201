"""Do parameters come back? Simulate with parameters that are known, fit, compare; many at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from motorcost import checks
from motorcost.errors import InputError
from motorcost.fitting.climb import climb
from motorcost.fitting.fitted import AGREEMENT
from motorcost.fitting.maximum import (
    DRAWN_PER_START,
    cores_to_use,
    covariance_of,
    information_of,
    neighbours,
)
from motorcost.fitting.objective import (
    Free,
    its_recording,
    of_recording,
    supports_of,
    takes_arguments,
)
from motorcost.fitting.search import to_minimise
from motorcost.inference.fully_observed import innovation_rank
from motorcost.inference.grouping import Group
from motorcost.inference.likelihood import log_likelihoods_of
from motorcost.model.observer import Observer, observe
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.model.simulate import simulate
from motorcost.model.solver import solve, solve_each
from motorcost.numerics.compiling import lean_jit
from motorcost.numerics.linalg import batch_size
from motorcost.tasks.declare import Task
from motorcost.tasks.supports import Support

# Samples whose likelihoods even an accelerator computes at once: some 10 GB go through its memory.
_MOST_SAMPLES = 100_000_000
# Rows that an accelerator measures at once, which may mean thousands of trials for each.
_MEASURED_AT_ONCE = 32
# Rounds of steps that all searches are given: few need more than 60.
_ROUNDS = 100
# What a measure gets.
_MEASURED = ("key", "truth", "true_policy", "found", "found_policy")
# Searches stop where a step promises less than this, in log likelihood per sample.
_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Recovery:
    """Data sets simulated with parameters that are known, and fitted: a function to sweep with
    `call="arrays"`.

    - `task`: what is simulated, with values of its parameters from the sweep's columns, from
      `fixed`, or the defaults.
    - `free`: what is inferred, as in `fit`; the sweep's columns hold the truth.
    - `n_trials` in each data set, unless it is a column, kept `apart`.
    - `n_starts`: searches, begun at the best of several times as many points drawn.
    - `observer`: how trials are recorded; all states without noise if left out.
    - `fitted`: the task that is fitted, if it is another. What it takes besides what is free
      comes from columns of that name; `true_effort` is the truth about `effort`.
    - `policy`: how the agent that is simulated behaves, if not as `solve` says.
    - `measure(key, truth, true_policy, found, found_policy)`: more numbers for each row by name,
      of the true and the fitted problem and the policies for them; in JAX.

    For each data set: `effort_found`, and `effort_se`, its standard error on the line that was
    searched (mostly the natural logarithm); `log_likelihood`, there and at the truth
    (`log_likelihood_true`), `starts_agreed`, `converged`, `at_bounds`.

    All data sets of a call are fitted side by side, by searches that take their steps together.
    """

    task: Task
    free: Free
    n_trials: int = 100
    n_starts: int = 10
    observer: Callable[[Problem], Observer] | None = None
    fitted: Task | None = None
    policy: Callable[[Problem], Policy] | None = None
    fixed: Mapping[str, Any] | tuple[tuple[str, Any], ...] = ()
    measure: Callable[[Any, Problem, Policy, Problem, Policy], Mapping[str, Any]] | None = None

    def __post_init__(self) -> None:
        checks.whole("n_starts", self.n_starts, 1, "searches from drawn points")
        checks.whole("n_trials", self.n_trials, 1, "the number of trials")
        if self.measure is not None:
            checks.takes("measure", self.measure, *_MEASURED)
        # As tuples, which can be compared: so programs are compiled once.
        supports = supports_of(self.task, self.free, self.observer)
        object.__setattr__(self, "free", tuple(supports.items()))
        object.__setattr__(self, "fixed", tuple(dict(self.fixed).items()))

    @property
    def supports(self) -> dict[str, Support]:
        """Where each free parameter can lie, by name."""
        return dict(self.free)  # type: ignore[arg-type]

    def simulated(self, given: Mapping[str, Any]) -> tuple[Problem, Observer]:
        """The problem that is simulated and how it is recorded, of a cell's values."""
        values = dict(self.fixed) | dict(given)
        problem = self.task(**{n: it for n, it in values.items() if not of_recording(n)})
        return problem, self._recorded(problem, values)

    def fitted_at(self, point: Any, given: Mapping[str, Any]) -> tuple[Problem, Observer]:
        """The problem that is fitted and how it is recorded, at a point, in a cell."""
        supports = self.supports.items()
        found = {name: s.from_search_scale(point[k]) for k, (name, s) in enumerate(supports)}
        if self.fitted is None:
            return self.simulated({**given, **found})
        values = dict(self.fixed) | {f"true_{name}": given[name] for name in found}
        values |= {**given, **found}
        takes = inspect.signature(self.fitted).parameters
        problem = self.fitted(**{name: values[name] for name in takes if name in values})
        return problem, self._recorded(problem, values)

    def _recorded(self, problem: Problem, values: Mapping[str, Any]) -> Observer:
        if self.observer is None:
            return observe(problem)
        noises = {name: value for name, value in values.items() if of_recording(name)}
        if noises:
            return its_recording(self.observer).with_noises(noises)(problem)
        return self.observer(problem)

    def check_columns(self, names: Iterable[str], apart: Collection[str]) -> None:
        """Raise unless these can be the columns of a sweep, some of them the same in a call."""
        takes = [*takes_arguments(self.task), *filter(of_recording, self.supports), "n_trials"]
        names = [checks.one_of("parameter", name, takes) for name in names]
        for name in self.supports:
            if name not in names:
                raise InputError(f"the sweep needs a column {name}: the truth to be recovered")
        if "n_trials" in names and "n_trials" not in apart:
            raise InputError('n_trials decides the shape of the data: sweep it apart=["n_trials"]')

    def __call__(self, *, keys: Any, **columns: Any) -> dict[str, np.ndarray]:
        """Simulate and fit a data set for each key, with the values in `columns`."""
        same = {n: v for n, v in columns.items() if not isinstance(v, np.ndarray)}
        self.check_columns(columns, same)
        given = {n: jnp.asarray(v) for n, v in columns.items() if n not in same}
        n_trials = same.pop("n_trials", self.n_trials)
        plain = tuple(same.items())
        split = jax.vmap(lambda key: jax.random.split(key, 3))(keys)
        samples = _simulated(self, plain, n_trials, split[:, 0], given)
        return _Fitting(self, plain, given, samples).rows(split[:, 1], split[:, 2])


class _Fitting:
    """The fits of a call's data sets."""

    def __init__(
        self,
        recovery: Recovery,
        plain: Any,
        given: Mapping[str, Array],
        samples: Float[Array, "cells N T o"],
    ) -> None:
        self.recovery, self.plain, self.given = recovery, plain, given
        self.samples = samples
        self.supports = list(recovery.supports.values())
        self.bounds = np.array([support.bounds for support in self.supports])
        self.scale = float(samples[0].size)
        self.truth = _on_lines(recovery, given, len(samples))
        telling, states = _probe(recovery, plain, given)
        self.telling = int(telling)
        most = max(1, _MOST_SAMPLES // samples[0].size)
        searches = len(samples) * recovery.n_starts
        self.size = min(batch_size(int(states)), most, searches)

    def rows(self, start_keys: Any, measure_keys: Any) -> dict[str, np.ndarray]:
        """Each data set's row, by column."""
        recovery, each = self.recovery, np.arange(len(self.samples))
        starts, possible = self.begin(start_keys)
        points, values, converged = self.search(starts, possible)
        best = np.argmax(np.nan_to_num(values, nan=-np.inf), axis=1)
        point, value = points[each, best], values[each, best]
        errors = self.errors(point)
        rows: dict[str, np.ndarray] = {}
        for k, (name, support) in enumerate(recovery.supports.items()):
            rows[f"{name}_found"] = np.asarray(support.from_search_scale(point[:, k]))
            rows[f"{name}_se"] = errors[:, k]
        at_bounds = np.abs(self.bounds - point[:, :, None]).min(axis=2) < 1e-6
        rows |= {
            "log_likelihood": value,
            "log_likelihood_true": self.evaluate(each, self.truth)[0],
            "starts_agreed": (value[:, None] - values < AGREEMENT).sum(axis=1),
            "converged": converged[each, best],
            "at_bounds": at_bounds.any(axis=1),
        }
        if recovery.measure is not None:
            safe = jnp.asarray(np.where(np.isfinite(point), point, self.truth))
            more = _measured(recovery, self.plain, measure_keys, self.given, safe)
            rows |= {name: np.where(possible, it, np.nan) for name, it in more.items()}
        simulated = np.asarray(jnp.isfinite(self.samples).all(axis=(1, 2, 3)))
        why = np.where(simulated, "no start has a finite likelihood", "no policy at the truth")
        return rows | {"failed": np.where(possible, "", why)}

    def search(
        self, starts: np.ndarray, possible: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where each search came to (cells, starts, p), the log likelihood there, and whether it
        settled; NaN where there is nothing to search."""
        searching = np.repeat(np.flatnonzero(possible), starts.shape[1])

        def evaluate(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return to_minimise(*self.evaluate(searching, points), self.scale)

        begun = starts[possible].reshape(-1, starts.shape[2])
        state = climb(evaluate, begun, self.bounds, _TOLERANCE, _ROUNDS)
        points, values = np.full(starts.shape, np.nan), np.full(starts.shape[:2], np.nan)
        converged = np.zeros(starts.shape[:2], bool)
        points[possible] = state.best.reshape(-1, *starts.shape[1:])
        values[possible] = self.scale * np.sinh(-state.value.reshape(-1, starts.shape[1]))
        converged[possible] = state.converged.reshape(-1, starts.shape[1])
        return points, values, converged

    def errors(self, points: np.ndarray) -> np.ndarray:
        """Standard errors on the line (cells, p), by the observed information at `points`."""
        tried, apart = neighbours(self.supports, points)
        which = np.repeat(np.arange(len(points)), tried.shape[1])
        _, slopes = self.evaluate(which, tried.reshape(-1, points.shape[1]))
        information = information_of(slopes.reshape(tried.shape), apart)
        covariances = [covariance_of(self.supports, one) for one in information]
        return np.stack([np.sqrt(np.diagonal(cov)) for cov in covariances])

    def begin(self, keys: Any) -> tuple[np.ndarray, np.ndarray]:
        """The best points of those drawn for each data set, (cells, starts, p); and for which
        there are any that are possible."""
        cells, p, n = len(self.samples), len(self.supports), self.recovery.n_starts
        own = jax.vmap(lambda key: jax.random.split(key, p))(keys)
        shape = (n * DRAWN_PER_START,)
        drawn = np.stack(
            [
                np.asarray(jax.vmap(lambda key, s=s: s.draw(key, shape))(own[:, k]))
                for k, s in enumerate(self.supports)
            ],
            axis=2,
        )
        which = np.repeat(np.arange(cells), shape[0])
        values, gradients = self.evaluate(which, drawn.reshape(-1, p))
        finite = np.isfinite(values) & np.isfinite(gradients).all(axis=1)
        values = np.where(finite, values, -np.inf).reshape(cells, -1)
        order = np.argsort(-values, axis=1, kind="stable")[:, :n]
        kept = np.take_along_axis(drawn, order[:, :, None], axis=1)
        return kept, np.asarray(np.isfinite(values).any(axis=1))

    def evaluate(self, which: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The log likelihood of data set `which[i]` at `points[i]`, and its gradient; NaN at
        points of NaN. So many at a time that one size is compiled, on all cores."""
        values, slopes = np.full(len(points), np.nan), np.full(points.shape, np.nan)
        asked = np.flatnonzero(np.isfinite(points).all(axis=1))
        parts = [asked[i : i + self.size] for i in range(0, len(asked), self.size)]

        def part(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            filled = np.resize(rows, self.size)
            counts = (np.arange(self.size) < len(rows)).astype(float)
            found = _likelihoods(
                self.recovery,
                self.plain,
                self.telling,
                jnp.asarray(points[filled]),
                self.given,
                self.samples,
                jnp.asarray(which[filled]),
                jnp.asarray(counts),
            )
            return np.asarray(found[0]), np.asarray(found[1])

        with ThreadPoolExecutor(cores_to_use()) as pool:
            for rows, (value, slope) in zip(parts, pool.map(part, parts), strict=True):
                values[rows], slopes[rows] = value[: len(rows)], slope[: len(rows)]
        return values, slopes


def _on_lines(recovery: Recovery, given: Mapping[str, Array], cells: int) -> np.ndarray:
    """The true values of what is free, on their lines (cells, p); they must be possible."""
    columns = []
    for name, support in recovery.supports.items():
        values = np.broadcast_to(np.asarray(given[name], float), cells)
        for value in values[(values < support.low) | (values > support.high)]:
            raise InputError(f"the true {name} must lie in {support}, got {value:g}")
        columns.append(np.asarray(support.to_search_scale(values)))
    return np.stack(columns, axis=1)


@lean_jit
def _simulated(
    recovery: Recovery, plain: Any, n_trials: int, keys: Any, given: Mapping[str, Array]
) -> Float[Array, "cells N T o"]:
    """What is recorded of each data set; NaN where the agent has no policy."""

    def one(key: Any, given: Mapping[str, Array]) -> Array:
        problem, observer = recovery.simulated({**given, **dict(plain)})
        policy = (solve if recovery.policy is None else recovery.policy)(problem)
        trials = simulate(problem, policy, n_trials=n_trials, key=key, observer=observer)
        return jnp.where(policy.converged, trials.observed, jnp.nan)

    return jax.vmap(one)(keys, given)


@lean_jit
def _likelihoods(
    recovery: Recovery,
    plain: Any,
    telling: int,
    points: Float[Array, "S p"],
    given: Mapping[str, Array],
    samples: Float[Array, "cells N T o"],
    which: Int[Array, " S"],
    counts: Float[Array, " S"],
) -> tuple[Float[Array, " S"], Float[Array, "S p"]]:
    """The log likelihood at each point of the data set `which`, and its gradient."""
    # Picked here, so that an accelerator is sent all data once and not with every step.
    given, samples = jax.tree.map(lambda leaf: leaf[which], (dict(given), samples))

    def values(points: Float[Array, "S p"]) -> Float[Array, " S"]:
        def one(point: Array, given: Mapping[str, Array]) -> tuple[Problem, Observer]:
            return recovery.fitted_at(point, {**given, **dict(plain)})

        problems, observers = jax.tree.map(lambda leaf: leaf[:, None], jax.vmap(one)(points, given))
        group = Group(problems, None, observers, samples[:1], None, complete=True)
        weights = jnp.broadcast_to(counts[:, None, None], (len(points), 1, samples.shape[1]))
        models = (problems, None, observers)
        return log_likelihoods_of(models, group, samples[:, None], weights, telling)[0][:, 0]

    found, pull_back = jax.vjp(values, points)
    return found, pull_back(jnp.ones_like(found))[0]


@lean_jit
def _probe(recovery: Recovery, plain: Any, given: Mapping[str, Array]) -> tuple[Array, Array]:
    """How many channels of a sample tell something new (see `fully_observed`), well within the
    supports; and how many states there are."""
    middle = jnp.array([support.middle for support in recovery.supports.values()])

    def one(given: Mapping[str, Array]) -> tuple[Array, Array]:
        problem, _ = recovery.fitted_at(middle, {**given, **dict(plain)})
        return innovation_rank(problem), jnp.array(len(problem.state_names))

    telling, states = jax.vmap(one)(given)
    return telling.max(), states.max()


@lean_jit
def _measured(
    recovery: Recovery, plain: Any, keys: Any, given: Mapping[str, Array], points: Array
) -> dict[str, Array]:
    """What the user measures, of a few data sets at a time: it may simulate a lot."""

    def problems(given: Mapping[str, Array], point: Array) -> tuple[Problem, Problem]:
        everything = {**given, **dict(plain)}
        return recovery.simulated(everything)[0], recovery.fitted_at(point, everything)[0]

    truth, found = jax.vmap(problems)(given, points)
    true_policy = solve_each(truth) if recovery.policy is None else jax.vmap(recovery.policy)(truth)
    everything = (keys, truth, true_policy, found, solve_each(found))
    assert recovery.measure is not None
    measure = recovery.measure
    few = 1 if jax.default_backend() == "cpu" else _MEASURED_AT_ONCE
    return lax.map(lambda each: dict(measure(*each)), everything, batch_size=few)
