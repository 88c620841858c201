"""Parameter recovery: data sets simulated with known parameters and fitted, many at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.errors import InputError
from motorcost.fitting.batching import BatchedObjective
from motorcost.fitting.derivative_free import METHODS, Method, check_available
from motorcost.fitting.engine import Maxima
from motorcost.fitting.information import at_bounds
from motorcost.fitting.intervals import standard_errors, wald_ends
from motorcost.fitting.nearby import maximise_and_note
from motorcost.fitting.objective import DataSets, Objective, step_and_structure
from motorcost.fitting.specification import (
    FixedObserver,
    Free,
    coordinates_of,
    default_numbers,
    supports_of,
    takes_arguments,
)
from motorcost.fitting.starts import choose_starts
from motorcost.model.observer import (
    Observer,
    ObserverLike,
    ObserverSpec,
    observe,
    resolve_observer,
)
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.model.simulate import simulate
from motorcost.model.solver import solve, solve_each
from motorcost.model.trials import Trials
from motorcost.numerics.compiling import lean_jit
from motorcost.tasks.declarations import Task
from motorcost.tasks.supports import Support

if TYPE_CHECKING:
    from pandas import DataFrame

    from motorcost.plots.style import CaptionedFigure

# Rows that an accelerator measures at once, which may mean thousands of trials for each.
MEASURED_AT_ONCE = 32
# The arguments of a measure.
MEASURED = ("key", "truth", "true_policy", "found", "found_policy")
# Of confidence, of the intervals in a table.
LEVEL = 0.95
# What comes before a parameter's name in the column of its true value.
TRUE = "true_"


@dataclass(frozen=True)
class Recovery:
    """Data sets simulated with known parameters, and fitted: a function for `sweep` with
    `call="arrays"`.

    - `task`: what is simulated, with values of its parameters from the sweep's columns, from
      `fixed`, or the defaults.
    - `free`: what is inferred, as in `fit`; the sweep's columns hold the true values.
    - `n_trials`: trials in each data set, unless it is a static column of the sweep.
    - `n_starts`, `method`: the searches, as in `fit`.
    - `observer`: how trials are recorded; all states without noise if left out.
    - `fitted`: the task that is fitted, if it is another. What it takes besides what is free
      comes from columns of that name; `true_effort` is the true value of `effort`.
    - `policy`: how the agent that is simulated behaves, if not as `solve` says.
    - `measure(key, truth, true_policy, found, found_policy)`: returns more numbers for each row by
      name, from the true and the fitted problem and the policies for them; in JAX.

    The columns of the result are, for each parameter, `effort_found` and `effort_se` (its standard
    error on the search scale, mostly of the natural logarithm), `effort_low` and `effort_high`, the
    ends of its 95 % interval (NaN at an end of its support); `log_likelihood`, at the maximum
    and at the true values (`log_likelihood_true`), `starts_agreed`, `converged`, `at_bounds`;
    how many maxima were found within reach (`maxima`), and how far the second lies below.
    They are those of `fit` with the same data, starts and key, whose engine this is.

    Examples
    --------
    >>> study = mc.Recovery(
    ...     mc.tasks.reaching, ["effort"], n_trials=5, n_starts=1, fixed={"steps": 12}
    ... )
    >>> table = mc.sweep(study, {"effort": [1e-5]}, repetitions=2, call="arrays")
    >>> len(table)
    2
    """

    task: Task
    free: Free
    n_trials: int = 100
    n_starts: int = 10
    observer: ObserverLike = None
    fitted: Task | None = None
    policy: Callable[[Problem], Policy] | None = None
    fixed: Mapping[str, Any] | tuple[tuple[str, Any], ...] = ()
    measure: Callable[[Any, Problem, Policy, Problem, Policy], Mapping[str, Any]] | None = None
    method: Method = "gradient"

    def __post_init__(self) -> None:
        checks.whole("n_starts", self.n_starts, 1, "searches from drawn points")
        checks.whole("n_trials", self.n_trials, 1, "the number of trials")
        checks.one_of("method", self.method, METHODS)
        if self.measure is not None:
            checks.takes("measure", self.measure, *MEASURED)
        # As tuples, which can be compared: so programs are compiled once.
        if isinstance(self.observer, Observer):
            object.__setattr__(self, "observer", FixedObserver(self.observer))
        supports = supports_of(self.task, self.free, self.observer)
        object.__setattr__(self, "free", tuple(supports.items()))
        object.__setattr__(self, "fixed", tuple(dict(self.fixed).items()))

    @property
    def supports(self) -> dict[str, Support]:
        """Where each free parameter can lie, by name."""
        return dict(self.free)  # type: ignore[arg-type]

    @property
    def noises(self) -> tuple[str, ...]:
        """The observer's noises that may be columns or free."""
        return self.observer.parameters if isinstance(self.observer, ObserverSpec) else ()

    def simulated(self, values: Mapping[str, Any]) -> tuple[Problem, Observer]:
        """The problem that is simulated and how it is recorded, for the values of a row."""
        values = dict(self.fixed) | dict(values)
        of_task = {name: value for name, value in values.items() if name not in self.noises}
        problem = self.task(**of_task)
        noises = {name: value for name, value in values.items() if name in self.noises}
        if noises:
            assert isinstance(self.observer, ObserverSpec)  # others have no noises by name
            return problem, self.observer.with_noises(noises)(problem)
        return problem, resolve_observer(problem, self.observer)

    def check_columns(self, names: Iterable[str], static: Collection[str]) -> None:
        """Raise unless these can be the columns of a sweep, some of them the same in a call."""
        known = [*takes_arguments(self.task), *self.noises, "n_trials"]
        names = [checks.one_of("parameter", name, known) for name in names]
        for name in self.supports:
            if name not in names:
                raise InputError(f"the sweep needs a column {name}: the truth to be recovered")
        if "n_trials" in names and "n_trials" not in static:
            raise InputError('n_trials decides the shape of the data: sweep it static=["n_trials"]')

    def plot(self, table: DataFrame) -> CaptionedFigure:
        """Draw estimates over true values, from the table that `mc.sweep` returned for this; see
        `mc.plots.plot_recovery`."""
        from motorcost.plots.comparisons import plot_recovery

        return plot_recovery(self, table)

    def __call__(self, *, keys: Any, **columns: Any) -> dict[str, np.ndarray]:
        """Simulate and fit a data set for each key, with the values in `columns`."""
        static = {n: v for n, v in columns.items() if not isinstance(v, np.ndarray)}
        self.check_columns(columns, static)
        rows = {n: jnp.asarray(v) for n, v in columns.items() if n not in static}
        n_trials = static.pop("n_trials", self.n_trials)
        plain = tuple(static.items())
        truth = _true_points(self, rows, len(keys))
        split = jax.vmap(lambda key: jax.random.split(key, 3))(keys)
        samples = simulated_samples(self, plain, n_trials, split[:, 0], rows)
        batched = _batched(self, plain, rows, samples)
        starts = choose_starts(batched.objective, batched.roughly(), split[:, 1], self.n_starts)
        maxima = maximise_and_note(batched, starts, method=self.method)
        if any(maximum is not None and maximum.interrupted for maximum in maxima):
            raise KeyboardInterrupt
        table = _table(self, batched, maxima, truth)
        if self.measure is not None:
            points = np.stack(
                [t if m is None else m.best.point for m, t in zip(maxima, truth, strict=True)]
            )
            measured = _measured(self, plain, split[:, 2], rows, jnp.asarray(points))
            possible = np.array([maximum is not None for maximum in maxima])
            table |= {n: np.where(possible, value, np.nan) for n, value in measured.items()}
        simulated = np.asarray(jnp.isfinite(samples).all(axis=(1, 2, 3)))
        why = np.where(simulated, "no start has a finite likelihood", "no policy at the truth")
        failed = np.array([maximum is None for maximum in maxima])
        return table | {"failed": np.where(failed, why, "")}


@dataclass(frozen=True)
class FittedTask:
    """The task that a recovery fits, as an objective calls it: with `steps`, which the task has
    from its own arguments, and all columns, of which it takes what it knows."""

    recovery: Recovery
    plain: tuple[tuple[str, Any], ...]

    def __call__(self, steps: int, **values: Any) -> Problem:
        """The problem with the values of the free parameters and the columns."""
        recovery = self.recovery
        values = dict(recovery.fixed) | dict(self.plain) | values
        task = recovery.task if recovery.fitted is None else recovery.fitted
        takes = inspect.signature(task).parameters
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes.values()):
            true = {TRUE + name for name in recovery.supports}
            return task(**{name: value for name, value in values.items() if name not in true})
        return task(**{name: values[name] for name in takes if name in values})


def _batched(
    recovery: Recovery,
    plain: tuple[tuple[str, Any], ...],
    rows: Mapping[str, Array],
    samples: Float[Array, "D N T o"],
) -> BatchedObjective:
    """The objective of all data sets, which differ in their samples and in the rows' values."""
    supports = recovery.supports
    observer: Any = recovery.observer or observe
    D, N, T, o = samples.shape
    columns = {name: value for name, value in rows.items() if name not in supports}
    columns |= {TRUE + name: rows[name] for name in supports if name in rows}
    objective = Objective(
        trials=Trials(np.zeros((N, T, o)), jnp.arange(T, dtype=float)),
        task=FittedTask(recovery, plain),
        observer=observer,
        coordinates=coordinates_of(supports, recovery.observer),
        fixed=(),
        defaults=default_numbers(recovery.fitted or recovery.task),
    )
    check_available(recovery.method, objective.bounds)
    data = DataSets(observed=samples, columns=columns)
    _, structure = step_and_structure(objective, data)
    objective = replace(objective, structure=structure)
    return BatchedObjective(objective, data, expected=D * recovery.n_starts)


def _true_points(recovery: Recovery, rows: Mapping[str, Array], count: int) -> np.ndarray:
    """The true values of what is free, on the search scale (D, p); they must be possible."""
    columns = []
    for name, support in recovery.supports.items():
        values = np.broadcast_to(np.asarray(rows[name], float), count)
        for value in values[(values < support.low) | (values > support.high)]:
            raise InputError(f"the true {name} must lie in {support}, got {value:g}")
        columns.append(np.asarray(support.to_search_scale(values)))
    return np.stack(columns, axis=1)


def _table(
    recovery: Recovery,
    batched: BatchedObjective,
    maxima: list[Maxima | None],
    truth: np.ndarray,
) -> dict[str, np.ndarray]:
    """The columns of estimates, errors and flags."""
    supports = list(recovery.supports.values())
    p, bounds = len(supports), batched.objective.bounds
    nothing = np.full(p, np.nan)
    points = np.stack([nothing if m is None else m.best.point for m in maxima])
    at_edge = at_bounds(bounds, points)
    errors = np.stack(
        [nothing if m is None else standard_errors(m.best, supports)[0] for m in maxima]
    )
    ends = np.stack(
        [
            np.full((p, 2), np.nan) if m is None else wald_ends(m.maxima, supports, LEVEL, m.nearby)
            for m in maxima
        ]
    )
    table: dict[str, np.ndarray] = {}
    for k, (name, support) in enumerate(recovery.supports.items()):
        table[f"{name}_found"] = np.asarray(support.from_search_scale(points[:, k]))
        table[f"{name}_se"] = errors[:, k]
        intervals = np.array([support.natural(tuple(pair)) for pair in ends[:, k].tolist()])
        table[f"{name}_low"], table[f"{name}_high"] = intervals.T
    return table | {
        "log_likelihood": np.array([np.nan if m is None else m.best.value for m in maxima]),
        "log_likelihood_true": batched(np.arange(len(truth)), truth)[0],
        "starts_agreed": np.array([0 if m is None else m.agreed for m in maxima]),
        "converged": np.array([m is not None and m.best.converged for m in maxima]),
        "maxima": np.array([0 if m is None else len(m.maxima) for m in maxima]),
        "next_below": np.array([_next_below(m) for m in maxima]),
        "at_bounds": np.any(at_edge, axis=1),
    }


def _next_below(maxima: Maxima | None) -> float:
    """How far the second highest maximum is below the highest, NaN if there is none."""
    if maxima is None or len(maxima.maxima) < 2:
        return np.nan
    return maxima.best.value - maxima.maxima[1].value


@lean_jit
def simulated_samples(
    recovery: Recovery, plain: Any, n_trials: int, keys: Any, rows: Mapping[str, Array]
) -> Float[Array, "D N T o"]:
    """What is recorded of each data set; NaN where the agent has no policy."""

    def of_row(key: Any, row: Mapping[str, Array]) -> Array:
        problem, observer = recovery.simulated({**row, **dict(plain)})
        policy = (solve if recovery.policy is None else recovery.policy)(problem)
        trials = simulate(problem, policy, n_trials=n_trials, key=key, observer=observer)
        return jnp.where(policy.converged, trials.observed, jnp.nan)

    return jax.vmap(of_row)(keys, rows)


@lean_jit
def _measured(
    recovery: Recovery, plain: Any, keys: Any, rows: Mapping[str, Array], points: Array
) -> dict[str, Array]:
    """What the user measures, of a few data sets at a time: it may simulate a lot."""
    supports = recovery.supports

    def problems(row: Mapping[str, Array], point: Array) -> tuple[Problem, Problem]:
        found = {n: s.from_search_scale(point[k]) for k, (n, s) in enumerate(supports.items())}
        true = {TRUE + name: row[name] for name in supports if name in row}
        rest = {name: value for name, value in row.items() if name not in supports}
        task = FittedTask(recovery, plain)
        of_task = {n: v for n, v in found.items() if n not in recovery.noises}
        truth = recovery.simulated({**row, **dict(plain)})[0]
        return truth, task(steps=truth.steps, **{**rest, **true, **of_task})

    truth, found = jax.vmap(problems)(rows, points)
    true_policy = solve_each(truth) if recovery.policy is None else jax.vmap(recovery.policy)(truth)
    everything = (keys, truth, true_policy, found, solve_each(found))
    assert recovery.measure is not None
    measure = recovery.measure
    few = 1 if jax.default_backend() == "cpu" else MEASURED_AT_ONCE
    return lax.map(lambda row: dict(measure(*row)), everything, batch_size=few)
