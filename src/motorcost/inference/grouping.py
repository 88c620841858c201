"""From what a user hands in to groups of trials that the filters can work on.

Trials of the same length and the same conditions share a problem, a policy and a run of the filter.
Conditions that are real numbers (targets, loads) run together, so that a new value does not
compile anew, and so do trials of similar length: the problems of the shorter ones are padded
with steps in which nothing happens.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.errors import InputError
from motorcost.inference.agreement import (
    require_agreement,
    require_one_problem,
    require_samples,
)
from motorcost.model.observer import Observer, ObserverLike, resolve_observer
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.model.solver import solve_each
from motorcost.model.trials import Trials
from motorcost.numerics.compiling import lean_jit
from motorcost.numerics.linalg import entries, first_entry, map_leading_axis, with_leading_axis

# A function of steps and conditions to a problem, or to a problem and its observer.
ProblemMaker = Callable[..., Problem | tuple[Problem, Observer]]
ProblemOrTask = Problem | ProblemMaker


Models = tuple[Problem, Policy | None, Observer]

Kind = tuple[int, tuple[Any, ...]]  # a length, and a value for each condition

# The keyword under which a task receives the parameter values of one kind of trials.
OWN = "what the kind has of its own"

# Lengths of trials that run together: the longest is at most so many times the shortest.
_ALIKE_IN_LENGTH = 3.0

# Conditions with unequal numbers of trials run together if they are padded to at most so many
# times the number of trials.
_PADDED_TRIALS = 4

# Up to this number of problems are made one by one in NumPy (2 ms each); making them together
# compiles about fifteen operations.
_MOST_ONE_BY_ONE = 100


class Group(eqx.Module):
    """Trials that run together, arranged by length and condition: the first axis of every array."""

    problem: Problem
    policy: Policy | None
    observer: Observer
    samples: Float[Array, "conditions n T o"]
    starts: Float[Array, "conditions n states"] | None
    complete: bool | None = eqx.field(static=True)  # no sample missing before a trial's end

    @property
    def models(self) -> Models:
        """The problem, the policy and the observer of each condition."""
        return self.problem, self.policy, self.observer

    def solved(self) -> Group:
        """The same group, with the policy that is optimal for what each agent believes."""
        if self.policy is not None:
            return self
        policy = (solve_each if self.problem.A.shape[0] == 1 else _solve_several)(self.problem)
        return eqx.tree_at(lambda g: g.policy, self, policy, is_leaf=lambda leaf: leaf is None)

    def solved_if_concrete(self) -> Group:
        """The same group, with its policies if its problems are concrete: apart from a filter, the
        solver's program is shared with `solve`."""
        concrete = all(checks.is_concrete(leaf) for leaf in jax.tree.leaves(self.problem))
        return self.solved() if concrete else self

    def map(self, run: Callable[..., Any]) -> Any:
        """What `run(problem, policy, observer, samples, starts)` returns for each condition."""
        return map_leading_axis(run, *self.models, self.samples, self.starts)


_solve_several = lean_jit(solve_each, jit=jax.jit)


def as_trials(problem: ProblemOrTask, observed: Any) -> Trials:
    """`observed` as Trials, finite except where a sample is missing."""
    if not callable(problem) and not isinstance(problem, Problem):
        raise InputError(
            "problem must be a Problem or a function from steps and conditions to one, got "
            f"{type(problem).__name__}"
        )
    trials = observed if isinstance(observed, Trials) else _from_array(problem, observed)
    if len(trials) == 0:
        raise InputError("observed must contain at least one trial, got none")
    if checks.is_concrete(trials.observed):
        require_samples(trials)
    return trials


def _from_array(problem: ProblemOrTask, observed: Any) -> Trials:
    """Trials of one problem from an array (trial, time, channel)."""
    if callable(getattr(observed, "trials", None)):  # Movements, whose module comes after this one
        dt = problem.dt if isinstance(problem, Problem) else None
        step = f"{float(dt):g}" if dt is not None and checks.is_concrete(dt) else "..."
        raise InputError(
            f"observed must be Trials, which lie on the model's grid, got "
            f"{type(observed).__name__}: call its method trials(dt={step}), as in "
            f"mc.io.read(file).trials(dt={step})"
        )
    if not isinstance(problem, Problem):
        raise InputError(
            "observed must be Trials where problem is a function, because Trials know their "
            f"lengths and conditions, got {type(observed).__name__}: use "
            "mc.Trials.recorded(samples, dt=...) or mc.io.read(file).trials(dt=...)"
        )
    array = observed if checks.is_concrete(observed) else jnp.asarray(observed, float)
    if checks.is_concrete(observed):
        try:
            array = np.ma.filled(np.ma.asarray(observed, float), np.nan)
        except (TypeError, ValueError):
            raise InputError(
                "observed must be an array of numbers (trial, time, channel), got "
                f"{type(observed).__name__}: for trials of different lengths use "
                "mc.Trials.recorded(samples, dt=...)"
            ) from None
    if array.ndim != 3:
        raise InputError(
            f"observed must have axes (trial, time, channel), got shape {array.shape}"
            + (". For a single trial write observed[None]" if array.ndim == 2 else "")
        )
    return Trials(array, checks.array_module(problem.dt).arange(array.shape[1]) * problem.dt)


def kinds_of(trials: Trials) -> dict[Kind, list[int]]:
    """The kinds of trials, each of which needs a problem of its own, with their trials."""
    members: dict[Kind, list[int]] = {}
    rows = zip(*(values.tolist() for values in trials.conditions.values()), strict=True)
    for trial, length in enumerate(trials.lengths.tolist()):
        members.setdefault((length, next(rows, ())), []).append(trial)
    return members


def group_trials(
    problem: ProblemOrTask,
    trials: Trials,
    policy: Policy | None,
    observer: ObserverLike,
    *,
    own: Any = None,
) -> Iterator[tuple[Group, np.ndarray]]:
    """Groups of trials, each with the index of its trials in the whole set.

    The index has shape (condition, n), with -1 in the places that only fill up a condition.
    `own` are arrays whose first axis is that of the kinds (see `kinds_of`), in order of length and
    conditions where all conditions are real numbers: the task is handed the entries of its kind
    too, by the name `OWN`.
    """
    _require_kinds(problem, trials, policy, observer)
    if isinstance(problem, Problem):
        require_one_problem(trials)
        yield _group(problem, trials, policy, observer, np.arange(len(trials)))
        return
    names, members = list(trials.conditions), kinds_of(trials)
    real = all(values.dtype.kind == "f" for values in trials.conditions.values())
    ordered = sorted(members) if real else list(members)
    place = {kind: i for i, kind in enumerate(ordered)}

    def own_of(kinds: list[Kind]) -> Any:
        return _at_places(own, [place[kind] for kind in kinds])

    for kinds in _alike_in_length(ordered) if real else [[kind] for kind in ordered]:
        if len(kinds) > 1:
            of_kinds = {kind: members[kind] for kind in kinds}
            yield from _batched(problem, trials, names, observer, of_kinds, own_of)
            continue
        (length, row), which = kinds[0], members[kinds[0]]
        condition = dict(zip(names, row, strict=True))
        of_kind, its_observer = _make(problem, length, condition, observer, _at(own_of(kinds), 0))
        yield _group(of_kind, trials, None, its_observer, np.array(which))


def _at_places(tree: Any, places: list[int]) -> Any:
    """These entries along the first axis of every array; a slice where they follow each other,
    whose derivative is a smaller program than that of other choices."""
    first, count = places[0], len(places)
    following = places == list(range(first, first + count))
    index = slice(first, first + count) if following else np.array(places)
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _require_kinds(
    problem: ProblemOrTask, trials: Trials, policy: Policy | None, observer: ObserverLike
) -> None:
    """Raise unless policy and observer are what they must be beside this problem or task."""
    if not (observer is None or isinstance(observer, Observer) or callable(observer)):
        raise InputError(
            "observer must be an Observer, as from mc.observe(problem, ['position'], noise=0.001), "
            "or an ObserverSpec, as mc.ObserverSpec(['position'], noise=0.001), got "
            f"{observer!r}"
        )
    if not (policy is None or isinstance(policy, Policy)):
        raise InputError(
            f"policy must be a Policy, as from mc.solve(problem), got {type(policy).__name__}"
        )
    if isinstance(problem, Problem):
        return
    if policy is not None:
        raise InputError(
            "a policy belongs to one problem: pass the problem that it was solved for, not a "
            "function that makes problems"
        )
    lengths = np.unique(trials.lengths)
    if isinstance(observer, Observer) and len(lengths) > 1:
        raise InputError(
            f"an Observer is for problems of one length, and the trials have from {lengths[0]} to "
            f"{lengths[-1]} steps: pass an ObserverSpec, as in "
            "observer=mc.ObserverSpec(['position'], noise=0.001)"
        )


def _alike_in_length(kinds: list[Kind]) -> list[list[Kind]]:
    """`kinds`, which are sorted, in runs of similar length: each run compiles once, and little is
    spent on steps after a trial's end."""
    runs: list[list[Kind]] = []
    for kind in kinds:
        if not runs or kind[0] > _ALIKE_IN_LENGTH * runs[-1][0][0]:
            runs.append([])
        runs[-1].append(kind)
    return runs


def _group(
    problem: Problem,
    trials: Trials,
    policy: Policy | None,
    observer: ObserverLike,
    which: np.ndarray,
) -> tuple[Group, np.ndarray]:
    """The group of the trials `which`, which share this problem."""
    recorder = resolve_observer(problem, observer)
    length = int(trials.lengths[which[0]])
    require_agreement(problem, recorder, trials, length)
    samples = entries(trials.observed, (which, slice(length)))
    parts = (problem, policy, recorder, samples, _starts(trials, which))
    problem, policy, recorder, samples, starts = with_leading_axis(parts)
    return Group(problem, policy, recorder, samples, starts, trials.complete), which[None]


def _batched(
    task: ProblemMaker,
    trials: Trials,
    names: list[str],
    observer: ObserverLike,
    members: dict[Kind, list[int]],
    own_of: Callable[[list[Kind]], Any],
) -> Iterator[tuple[Group, np.ndarray]]:
    """All kinds in one group, filled up to the longest and the most trials; if that would be
    mostly filling, those with about as many trials (up to the next power of two) share one."""
    counts = [len(which) for which in members.values()]
    wasteful = max(counts) * len(counts) > _PADDED_TRIALS * sum(counts)
    sizes: dict[int, list[Kind]] = {}
    for kind, which in members.items():
        sizes.setdefault((len(which) - 1).bit_length() if wasteful else 0, []).append(kind)
    for kinds in sizes.values():
        index = np.full((len(kinds), max(len(members[kind]) for kind in kinds)), -1)
        for places, kind in zip(index, kinds, strict=True):
            places[: len(members[kind])] = members[kind]
        length = max(kind[0] for kind in kinds)
        problems, observers = _stacked(task, names, kinds, observer, own_of(kinds))
        problem, recorder = first_entry((problems, observers))
        require_agreement(problem, recorder, trials, length)
        lengths = np.where(index >= 0, trials.lengths[index], 0)
        within = np.arange(length) < lengths[:, :, None]
        xp = checks.array_module(trials.observed)
        observed = xp.asarray(trials.observed)[index][:, :, :length]
        samples = checks.jax_array(xp.where(within[..., None], observed, xp.nan))
        starts = _starts(trials, index)
        yield Group(problems, None, observers, samples, starts, trials.complete), index


def _make(
    task: ProblemMaker,
    length: int,
    condition: dict[str, Any],
    observer: ObserverLike,
    own: Any = None,
) -> tuple[Problem, Observer]:
    """The problem of one length and condition, and its observer."""
    if own is not None:
        condition = {**condition, OWN: own}
    _require_arguments(task, ["steps", *condition])
    result = task(steps=length, **condition)
    problem, recorder = result if isinstance(result, tuple) else (result, observer)
    return problem, resolve_observer(problem, recorder)


def _require_arguments(task: ProblemMaker, names: list[str]) -> None:
    """Raise unless the task takes these arguments by name, as far as its signature tells.

    A decorated function has the signature of what it decorates.
    """
    try:
        signature = inspect.signature(task)
    except (TypeError, ValueError):  # not every function of C has a signature
        return
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        raise InputError(
            f"the task must take steps and the conditions of the trials by name: {error}"
        ) from None


def _stacked(
    task: ProblemMaker, names: list[str], kinds: list[Kind], observer: ObserverLike, own: Any
) -> tuple[Problem, Observer]:
    """The problems and observers of several kinds, which are sorted, along a leading axis."""
    longest = max(length for length, _ in kinds)

    def of_length(length: int, own: Any) -> tuple[Problem, Observer]:
        rows = [row for kind_length, row in kinds if kind_length == length]

        def make(condition: dict[str, Any], own: Any) -> tuple[Problem, Observer]:
            problem, recorder = _make(task, length, condition, observer, own)
            return problem.padded(longest), recorder.padded(longest)

        def one_by_one() -> tuple[Problem, Observer]:
            separate = [
                make(dict(zip(names, row, strict=True)), _at(own, i)) for i, row in enumerate(rows)
            ]
            return jax.tree.map(_joined, *map(with_leading_axis, separate))

        if not names and own is None:
            return with_leading_axis(make({}, None))
        if len(rows) <= _MOST_ONE_BY_ONE and checks.nothing_is_traced():
            return one_by_one()
        columns: Any = np.array(rows).reshape(len(rows), len(names)).T
        try:
            return jax.vmap(make)(dict(zip(names, columns, strict=True)), own)
        except jax.errors.JAXTypeError:  # a task in plain NumPy takes one condition at a time
            return one_by_one()

    lengths, counts = np.unique([length for length, _ in kinds], return_counts=True)
    owns = _split(own, np.cumsum(counts)[:-1])
    parts = [of_length(int(length), part) for length, part in zip(lengths, owns, strict=True)]
    return jax.tree.map(_joined, *parts)


def _at(tree: Any, place: int) -> Any:
    """This entry along the first axis of every array."""
    return jax.tree.map(lambda leaf: leaf[place], tree)


def _split(tree: Any, ends: np.ndarray) -> list[Any]:
    """Every array divided along its first axis at these places."""
    leaves, structure = jax.tree.flatten(tree)
    divided = [jnp.split(leaf, ends) for leaf in leaves]
    parts = range(len(ends) + 1)
    return [jax.tree.unflatten(structure, [of_leaf[i] for of_leaf in divided]) for i in parts]


def _joined(*arrays: Any) -> Any:
    """The arrays one after the other along their first axis."""
    return checks.jax_array(checks.array_module(arrays).concatenate(arrays))


def _starts(trials: Trials, index: np.ndarray) -> Any:
    """The known starts of these trials, if starts are known."""
    return None if trials.starts is None else entries(trials.starts, index)
