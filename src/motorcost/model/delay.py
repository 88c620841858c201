"""Delayed senses."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.errors import InputError
from motorcost.model.problem import Problem


def delay(problem: Problem, steps: int | Mapping[str, int]) -> Problem:
    """Return the problem with senses that arrive late.

    **Arguments:**

    - `steps`: the delay of all senses in time steps, or a mapping from the names of senses to their
      delays; senses that it leaves out are not late. A name may be the first word of several
      senses: `{"vision": 10, "proprioception": 5}`.

    What arrives at time t was sensed, with the noise of that time, at t - steps; with
    `sense_first`, a delay of 0 is that of the state on which the agent acts next. The state is
    extended by what has been sensed (without its noise) and has not arrived yet, named
    `felt position(t-1)` and so on, or by the states of the last steps (`position(t-1)`) if these
    are fewer. Before the first step the state is taken to have been that of the first. The agent
    knows of the delay, and its estimate includes what has not arrived.

    Examples
    --------
    >>> late = mc.delay(problem, 2)  # the agent senses what was 20 ms ago
    >>> problem.A.shape, late.A.shape
    ((11, 5, 5), (11, 11, 11))
    """
    late = _delays(problem, steps)
    if max(late) >= problem.steps:
        raise InputError(
            f"the delay must be shorter than the trial of {problem.steps} steps, got {max(late)}"
        )
    if not any(late):
        return problem
    names = (*problem.state_names, *problem.sense_names)
    if {f"{name}(t-1)" for name in names} & set(problem.state_names):
        raise InputError("the problem is delayed already: delay the original problem by the sum")
    worlds = [problem] if problem.believed is None else [problem, problem.believed]
    for world in worlds:
        _require_separate_noises(world, late)
    # World and belief must have the same states.
    terms = max(world.D.shape[1] for world in worlds)
    fewer = sum(late) * (1 + terms) < max(late) * len(problem.state_names)
    memory = _memory_of_senses(problem, late, terms) if fewer else _memory_of_states(problem, late)
    delayed = [_delayed(world, late, memory) for world in worlds]
    return delayed[0] if len(delayed) == 1 else delayed[0].with_believed(delayed[1])


def _delays(problem: Problem, steps: int | Mapping[str, int]) -> tuple[int, ...]:
    """The delay of each sense."""
    names = problem.sense_names
    if not isinstance(steps, Mapping):
        return (checks.whole("steps", steps, 0, "the delay in time steps"),) * len(names)
    late = dict.fromkeys(names, 0)
    for called, number in steps.items():
        whole = checks.whole(f"the delay of {called}", number, 0, "time steps by which it is late")
        late |= dict.fromkeys(_called(called, names), whole)
    return tuple(late.values())


def _called(name: str, senses: Sequence[str]) -> list[str]:
    """The sense of this name, or all whose names begin with it: "vision" is "vision x" and "vision
    y"."""
    groups = {sense.split(" ")[0] for sense in senses if " " in sense}
    checks.one_of("sense", name, [*senses, *sorted(groups)])
    return [sense for sense in senses if sense == name or sense.startswith(f"{name} ")]


def _require_separate_noises(problem: Problem, late: Sequence[int]) -> None:
    """Raise if one noise disturbs senses whose delays differ: it would have to be the same number
    at different times."""
    noises = [problem.W, *(problem.D[:, j] for j in range(problem.D.shape[1]))]
    if not all(checks.is_concrete(noise) for noise in noises):
        return
    columns = [(np.asarray(noise) != 0).any(axis=0) for noise in noises]
    disturbed = [*columns[0].T, *(terms.any(axis=1) for terms in columns[1:])]
    for senses in disturbed:
        together = np.flatnonzero(senses).tolist()
        for first, other in pairwise(together):
            if late[first] != late[other]:
                names = problem.sense_names
                raise InputError(
                    f"the noises of {names[first]} and {names[other]} are correlated, so both "
                    f"must have the same delay, got {late[first]} and {late[other]}"
                )


class _Memory(NamedTuple):
    """What is kept of the past: numbers that are linear in the state, each for some steps.

    - `names`, `units`, `ages`: of each number; for how many steps it is kept.
    - `of_states`: whether the numbers are the states.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    ages: tuple[int, ...]
    of_states: bool

    def places(self) -> dict[tuple[int, int], int]:
        """Where each number of each age is, after the states of the present."""
        kept = [
            (number, age)
            for age in range(1, max(self.ages) + 1)
            for number in range(len(self.ages))
            if age <= self.ages[number]
        ]
        return {key: place for place, key in enumerate(kept)}

    def aging(self) -> Float[np.ndarray, "kept kept"]:
        """The matrix that makes numbers a step older; those of age 1 come from the present."""
        places = self.places()
        matrix = np.zeros((len(places), len(places)))
        for (number, age), place in places.items():
            if age > 1:
                matrix[place, places[number, age - 1]] = 1.0
        return matrix


def _memory_of_states(problem: Problem, late: Sequence[int]) -> _Memory:
    names = problem.state_names
    return _Memory(names, problem.state_units, (max(late),) * len(names), of_states=True)


def _memory_of_senses(problem: Problem, late: Sequence[int], terms: int) -> _Memory:
    """H x, and D_j x for each noise that grows with the state."""
    noises = [f"noise {j} of {name}" for j in range(1, 1 + terms) for name in problem.sense_names]
    return _Memory(
        (*problem.sense_names, *noises),
        problem.sense_units * (1 + terms),
        tuple(late) * (1 + terms),
        of_states=False,
    )


def _remembering(A: Any, kept: Any, memory: _Memory) -> Any:
    """A (steps, n, n) with a memory: each step what is `kept` (steps, places, n) of the present
    becomes the newest part of it, and the rest ages."""
    xp = checks.array_module(A, kept)
    (steps, places, _), newest = kept.shape, np.array([age == 1 for _, age in memory.places()])
    from_present = xp.where(newest[:, None], kept, 0.0)
    from_memory = xp.broadcast_to(memory.aging(), (steps, places, places))
    memory_rows = xp.concatenate([from_present, from_memory], axis=2)
    return xp.concatenate([xp.pad(A, ((0, 0), (0, 0), (0, places))), memory_rows], axis=1)


def _delayed(p: Problem, late: Sequence[int], memory: _Memory) -> Problem:
    """The problem whose state is extended by a memory from which its senses are read."""
    p = checks.concrete_in_numpy(p)
    xp = checks.array_module(p)
    n, k, steps = len(p.state_names), len(p.sense_names), p.steps - 1
    places = {key: n + place for key, place in memory.places().items()}
    size = n + len(places)
    kept = xp.broadcast_to(xp.eye(n), (steps, n, n))
    if not memory.of_states:
        kept = xp.concatenate([p.H, *(p.D[:, j] for j in range(p.D.shape[1]))], axis=1)
        kept = xp.pad(kept, ((0, 0), (0, len(memory.ages) - kept.shape[1]), (0, 0)))
    if p.sense_first:  # H of a step belongs to the state after it
        kept = xp.concatenate([kept[:1], kept[:-1]])
    # What arrives at t was sensed before; in the first steps arrives what is sensed first.
    sensed_at = np.maximum(np.arange(steps)[:, None] - np.array(late), 0)

    def read(
        M: Float[Array | np.ndarray, "steps k n"], term: int
    ) -> Float[Array | np.ndarray, "steps k N"]:
        """What H (term 0) or a term of D measures, from the memory."""
        then = M[sensed_at, np.arange(k)]
        present = range(n)
        if memory.of_states:
            columns = [[places[i, d] for i in present] if d else [*present] for d in late]
            return xp.einsum("tki,kij->tkj", then, np.eye(size)[np.array(columns)])
        delayed = [(i, places[term * k + i, d]) for i, d in enumerate(late) if d]
        senses, columns = np.array(delayed).T
        from_memory = np.zeros((k, size))
        from_memory[senses, columns] = 1.0
        now = xp.pad(then, ((0, 0), (0, 0), (0, size - n)))
        return xp.where(np.isin(np.arange(k), senses)[:, None], from_memory, now)

    def below(M: Float[Array | np.ndarray, "... n c"]) -> Float[Array | np.ndarray, "... N c"]:
        """M with rows of zeros for the memory, which it does not change."""
        return xp.pad(M, [(0, 0)] * (M.ndim - 2) + [(0, size - n), (0, 0)])

    numbers = np.array([number for number, _ in places])
    start = xp.concatenate([xp.eye(n), kept[0][numbers]])  # at first, the past is the present
    C = below(p.C)

    def at_start(cov: Float[Array | np.ndarray, "n n"]) -> Any:
        return start @ cov @ start.T

    return p.with_believed(None).replace(
        A=_remembering(p.A, kept[:, numbers], memory),
        B=below(p.B),
        C=[C[:, i] for i in range(C.shape[1])],
        V=below(p.V),
        H=read(p.H, 0),
        W=p.W[sensed_at, np.arange(k)],
        D=[read(p.D[:, j], 1 + j) for j in range(p.D.shape[1])],
        E=below(p.E),
        Q=xp.pad(p.Q, ((0, 0), (0, size - n), (0, size - n))),
        initial_belief=start @ p.initial_belief,
        initial_belief_cov=at_start(p.initial_belief_cov),
        initial_state_cov=at_start(p.initial_state_cov),
        states=dict(zip(p.state_names, p.state_units, strict=True))
        | {f"{memory.names[i]}(t-{age})": memory.units[i] for i, age in places},
    )
