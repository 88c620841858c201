"""From what a user hands in to groups of trials that the filter can work on.

Trials of one horizon and one condition share a problem, a policy and a run of the filter.
Conditions that are real numbers (targets, loads) run together, so that a new one does not
compile anew, and so do trials of similar length: the problems of the shorter ones are padded
with steps in which nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.errors import InputError
from motorcost.model.observer import Observer, observe
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.model.solver import solve_each
from motorcost.model.trials import Trials
from motorcost.numerics.linalg import map_leading_axis

# A function of steps and conditions, which may bring its own observer.
ProblemMaker = Callable[..., Problem | tuple[Problem, Observer]]
ProblemOrTask = Problem | ProblemMaker
ObserverOrMaker = Observer | Callable[[Problem], Observer] | None

Kind = tuple[int, tuple[Any, ...]]  # a length, and a value for each condition


class Group(eqx.Module):
    """Trials that run together, arranged by length and condition: the first axis of every array."""

    problem: Problem
    policy: Policy | None
    observer: Observer
    samples: Float[Array, "conditions n T o"]
    starts: Float[Array, "conditions n states"] | None
    complete: bool | None = eqx.field(static=True)  # no sample missing before a trial's end

    def solved(self) -> Group:
        """The same, with the policy that is best for what each agent believes."""
        if self.policy is not None:
            return self
        policy = solve_each(self.problem)
        return eqx.tree_at(lambda g: g.policy, self, policy, is_leaf=lambda leaf: leaf is None)

    def map(self, run: Callable[..., Any]) -> Any:
        """What `run(problem, policy, observer, samples, starts)` gives for each condition."""
        return map_leading_axis(
            run, self.problem, self.policy, self.observer, self.samples, self.starts
        )


def as_trials(problem: ProblemOrTask, observed: Any) -> Trials:
    """`observed` as Trials, finite but for what is missing."""
    if isinstance(observed, Trials):
        trials = observed
    elif not isinstance(problem, Problem):
        raise InputError("a function needs Trials, which know their lengths and conditions")
    else:
        array = observed if checks.is_concrete(observed) else jnp.asarray(observed, float)
        if checks.is_concrete(observed):
            try:
                array = np.ma.filled(np.ma.asarray(observed, float), np.nan)
            except (TypeError, ValueError):
                raise InputError(
                    "observed must be an array of numbers (trial, time, channel); for trials of "
                    "different length see Trials.recorded"
                ) from None
        if array.ndim != 3:
            raise InputError(
                f"observed must have axes (trial, time, channel), got shape {array.shape}"
                + (". For a single trial write observed[None]" if array.ndim == 2 else "")
            )
        trials = Trials(array, jnp.arange(array.shape[1]) * problem.dt)
    if not callable(problem) and not isinstance(problem, Problem):
        raise InputError(f"a Problem or a function that makes one is needed, got {problem!r}")
    if len(trials) == 0:
        raise InputError("there are no trials")
    if checks.is_concrete(trials.observed):
        array = np.asarray(trials.observed)
        if np.isinf(array).any():
            trial, step, channel = (int(i) for i in np.argwhere(np.isinf(array))[0])
            raise InputError(
                f"observed must be finite, or NaN where a sample is missing: got "
                f"{array[trial, step, channel]} in trial {trial}, step {step}, "
                f"{trials.channel_names[channel]}"
            )
        if np.isnan(array).all():
            raise InputError("all samples are missing: observed is NaN throughout")
    return trials


def groups(
    problem: ProblemOrTask, trials: Trials, policy: Policy | None, observer: ObserverOrMaker
) -> Iterator[tuple[Group, np.ndarray]]:
    """Groups of trials, and where each of their trials stands in the whole set: an index of
    shape (condition, n), -1 for the places that only fill up a condition."""
    if not (observer is None or isinstance(observer, Observer) or callable(observer)):
        raise InputError(
            f"observer must be made by mc.observe(problem, [...], noise=...), got {observer!r}"
        )
    if not (policy is None or isinstance(policy, Policy)):
        raise InputError(f"policy must be made by mc.solve(problem), got {type(policy).__name__}")
    if isinstance(problem, Problem):
        _require_alike(trials)
        yield _group(problem, trials, policy, observer, np.arange(len(trials)))
        return
    if policy is not None:
        raise InputError("a policy belongs to one problem: give that problem, not a function")
    if isinstance(observer, Observer):
        raise InputError(
            "an observer belongs to one problem: for a function give a function, as in "
            "observer=lambda problem: mc.observe(problem, ['position'], noise=1e-3)"
        )
    members: dict[Kind, list[int]] = {}
    rows = zip(*(values.tolist() for values in trials.conditions.values()), strict=True)
    for trial, length in enumerate(trials.lengths.tolist()):
        members.setdefault((length, next(rows, ())), []).append(trial)
    real = all(values.dtype.kind == "f" for values in trials.conditions.values())
    for kinds in _alike_in_length(sorted(members)) if real else [[kind] for kind in members]:
        if len(kinds) > 1:
            yield from _batched(problem, trials, observer, {kind: members[kind] for kind in kinds})
            continue
        (length, row), which = kinds[0], members[kinds[0]]
        one, seen = _made(problem, length, dict(zip(trials.conditions, row, strict=True)), observer)
        yield _group(one, trials, None, seen, np.array(which))


def _alike_in_length(kinds: list[Kind]) -> list[list[Kind]]:
    """`kinds`, which are sorted, in runs whose lengths are at most half as long again as the
    first: each run compiles once, and little is spent on steps after a trial's end."""
    runs: list[list[Kind]] = []
    for kind in kinds:
        if not runs or kind[0] > 1.5 * runs[-1][0][0]:
            runs.append([])
        runs[-1].append(kind)
    return runs


def _group(
    problem: Problem,
    trials: Trials,
    policy: Policy | None,
    observer: ObserverOrMaker,
    which: np.ndarray,
) -> tuple[Group, np.ndarray]:
    """The group of the trials `which`, which share this problem."""
    seen = _observer(problem, observer)
    length = int(trials.lengths[which[0]])
    _check(problem, seen, trials, length)
    parts = (problem, policy, seen, trials.observed[which, :length], _starts(trials, which))
    problem, policy, seen, samples, starts = jax.tree.map(lambda leaf: leaf[None], parts)
    return Group(problem, policy, seen, samples, starts, trials.complete), which[None]


def _batched(
    task: ProblemMaker,
    trials: Trials,
    observer: ObserverOrMaker,
    members: dict[Kind, list[int]],
) -> Iterator[tuple[Group, np.ndarray]]:
    """All kinds in one group, filled up to the longest and the most trials; if that would be
    mostly filling, those with about as many trials (up to the next power of two) share one."""
    counts = [len(which) for which in members.values()]
    wasteful = max(counts) * len(counts) > 4 * sum(counts)
    sizes: dict[int, list[Kind]] = {}
    for kind, which in members.items():
        sizes.setdefault((len(which) - 1).bit_length() if wasteful else 0, []).append(kind)
    for kinds in sizes.values():
        index = np.full((len(kinds), max(len(members[kind]) for kind in kinds)), -1)
        for places, kind in zip(index, kinds, strict=True):
            places[: len(members[kind])] = members[kind]
        length = max(kind[0] for kind in kinds)
        problems, observers = _stacked(task, list(trials.conditions), kinds, observer)
        one, its_observer = jax.tree.map(lambda leaf: leaf[0], (problems, observers))
        _check(one, its_observer, trials, length)
        its_steps = np.where(index >= 0, trials.lengths[index], 0)
        within = np.arange(length) < its_steps[:, :, None]
        samples = jnp.where(within[..., None], trials.observed[index][:, :, :length], jnp.nan)
        yield (
            Group(problems, None, observers, samples, _starts(trials, index), trials.complete),
            index,
        )


def _made(
    task: ProblemMaker, length: int, condition: dict[str, Any], observer: ObserverOrMaker
) -> tuple[Problem, Observer]:
    try:
        made = task(steps=length, **condition)
    except TypeError as error:
        if "argument" not in str(error):
            raise
        raise InputError(
            f"the task must take steps and the conditions of the trials by name: {error}"
        ) from None
    return made if isinstance(made, tuple) else (made, _observer(made, observer))


def _stacked(
    task: ProblemMaker, names: list[str], kinds: list[Kind], observer: ObserverOrMaker
) -> tuple[Problem, Observer]:
    """The problems and observers of several kinds, along a leading axis."""
    longest = max(length for length, _ in kinds)

    def of_length(length: int) -> tuple[Problem, Observer]:
        rows = [row for its_length, row in kinds if its_length == length]

        def make(condition: dict[str, Any]) -> tuple[Problem, Observer]:
            problem, seen = _made(task, length, condition, observer)
            return problem.padded(longest), seen.padded(longest)

        if not names:
            return jax.tree.map(lambda leaf: leaf[None], make({}))
        try:
            return jax.vmap(make)(dict(zip(names, np.array(rows).T, strict=True)))
        except jax.errors.JAXTypeError:  # a task in plain NumPy takes one condition at a time
            each = [make(dict(zip(names, row, strict=True))) for row in rows]
            return jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)

    each = [of_length(length) for length in sorted({length for length, _ in kinds})]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *each)


def _starts(trials: Trials, index: np.ndarray) -> Any:
    return None if trials.starts is None else trials.starts[index]


def _observer(problem: Problem, observer: ObserverOrMaker) -> Observer:
    if observer is None:
        return observe(problem)
    return observer if isinstance(observer, Observer) else observer(problem)


def _require_alike(trials: Trials) -> None:
    lengths = np.unique(trials.lengths)
    differ = [name for name, values in trials.conditions.items() if len(np.unique(values)) > 1]
    if len(lengths) > 1 or differ:
        what = "lengths" if len(lengths) > 1 else differ[0]
        raise InputError(
            f"the trials differ in their {what}, so they need several problems: give a function "
            "of steps and conditions, as in functools.partial(mc.tasks.reaching, effort=1e-5)"
        )


def _check(problem: Problem, observer: Observer, trials: Trials, length: int) -> None:
    T, o, n = observer.S.shape
    if length != problem.steps or trials.observed.shape[1] < length:
        raise InputError(
            f"the trials have {min(length, trials.observed.shape[1])} steps, the problem has "
            f"{problem.steps}"
        )
    if problem.steps != T or n != len(problem.state_names):
        raise InputError(
            f"the observer was made for {T} steps of {n} states, the problem has "
            f"{problem.steps} of {len(problem.state_names)}"
        )
    if trials.observed.shape[2] != o:
        raise InputError(
            f"the trials have {trials.observed.shape[2]} channels, the observer records {o}: "
            f"{', '.join(observer.channel_names)}"
        )
    unnamed = checks.labels("channels", None, o, "channel")[0]
    names = (trials.channel_names, observer.channel_names)
    if names[0] != names[1] and unnamed not in names:
        raise InputError(
            f"the trials' channels are {', '.join(names[0])}; the observer records "
            f"{', '.join(names[1])}: they must be the same, in the same order"
        )
    if trials.starts is not None and trials.starts.shape[1] != n:
        raise InputError(f"starts must give {n} states a trial, got {trials.starts.shape[1]}")
    step = trials.times[1] - trials.times[0]
    both_known = checks.is_concrete(step) and checks.is_concrete(problem.dt)
    if both_known and not np.isclose(step, problem.dt, rtol=1e-6):
        raise InputError(
            f"the trials are on a grid of {float(step):g} s, the problem steps by "
            f"{float(problem.dt):g} s"
        )
