"""A problem from a body, points, goals, senses, noises and force fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.errors import InputError
from motorcost.model.delay import delay
from motorcost.model.problem import Problem
from motorcost.parts.bodies import Body, axis_names
from motorcost.parts.fields import Field
from motorcost.parts.goals import Expression, Goal, factors
from motorcost.parts.noises import SignalDependentNoise
from motorcost.parts.points import Point


def assemble(
    body: Body,
    *,
    steps: int,
    goals: Sequence[Goal],
    effort: Any,
    senses: Mapping[str, Mapping[str, Any]],
    points: Sequence[Point] = (),
    control_noise: SignalDependentNoise | None = None,
    disturbances: Mapping[str, Any] | None = None,
    fields: Sequence[Field] = (),
    adaptation: Any = 1.0,
    start: Any = 0.0,
    start_spreads: Mapping[str, Any] | None = None,
    delays: Mapping[str, int] | int = 0,
) -> Problem:
    """Return the problem of moving a body to its goals.

    **Arguments:**

    - `body`: what moves. Its quantities are the first states; along the axes of a plane they are
      called `x`, `y`, `velocity_x`, `velocity_y` and so on. Points and loads are further states.
    - `steps`: T, the number of states in a trial.
    - `goals`: what is to be achieved, and when; their costs add up.
    - `effort`: the cost of the squared control at each step.
    - `senses`: by name (such as "vision"), the quantities or differences of quantities that are
      sensed, each with the SD of its noise. A sense of a quantity is called "vision x".
    - `points`: constants that the agent knows, such as a target.
    - `control_noise`: noise that grows with the control.
    - `disturbances`: by quantity, the SD of noise that is added to it at each step.
    - `fields`: forces from outside.
    - `adaptation`: the share of these forces that the agent believes in: with 1 it knows them, with
      0 it knows nothing of them.
    - `start`: where the body is at first, at rest; a number, or one per axis.
    - `start_spreads`: by quantity, its SD over trials at the start, which the agent knows.
    - `delays`: by how many steps senses are late (see `mc.delay`).

    Examples
    --------
    >>> hand = mc.parts.point_mass(0.01, muscle=0.04)
    >>> reach = mc.parts.assemble(
    ...     hand,
    ...     steps=30,
    ...     points=[mc.parts.Point("target", 0.1)],
    ...     goals=[mc.parts.at_end({"position - target": 1.0, "velocity": 0.2})],
    ...     effort=1e-6,
    ...     control_noise=mc.parts.signal_dependent_noise(0.5),
    ...     senses={"felt": {"position": 0.01, "velocity": 0.1}},
    ... )
    >>> reach.state_names, reach.sense_names
    (('position', 'velocity', 'force', 'muscle', 'target'), ('felt position', 'felt velocity'))
    """
    T = checks.whole("steps", steps, 2, "T, the number of states in a trial")
    checks.positive(effort=effort)
    for what, given in (("goal", goals), ("sense", senses)):
        if not given:
            raise InputError(f"a task needs at least one {what}")
    states = _States(body, points, fields)
    A, B = states.among_all(body.A, body.B)
    forces = [_effect(states, body, field, T) for field in fields]
    H, W, sense_units = _sensing(states, senses)
    problem = Problem(
        steps=T,
        A=sum((field.present * force for field, force in zip(fields, forces, strict=True)), A),
        B=B,
        C=[] if control_noise is None else control_noise.terms(B),
        V=_disturbing(states, disturbances or {}, points),
        H=H,
        W=W,
        Q=sum(_cost(states, goal, T) for goal in goals),
        R=effort * np.eye(B.shape[1]),
        initial_belief=_starting(states, body, points, fields, start),
        initial_belief_cov=_spreading(states, points, start_spreads or {}),
        states=states.units,
        controls=dict.fromkeys(axis_names(body.control[0], body.dimensions), body.control[1]),
        senses=sense_units,
        dt=body.dt,
    )
    if fields:
        problem = problem.believing(A=sum((adaptation * force for force in forces), A))
    return delay(problem, delays)


class _States:
    """The states of a problem: the body's, then those of points, then constant forces.

    - `units`: by name.
    - `places`: the states (one per axis) of each quantity, point and constant force.
    """

    def __init__(self, body: Body, points: Sequence[Point], fields: Sequence[Field]) -> None:
        self.dimensions = d = body.dimensions
        place = next(iter(body.quantities))
        parts = dict(body.quantities)
        for point in points:
            if point.name in parts:
                raise InputError(f"there is a quantity {point.name!r} already: rename the point")
            parts[point.name] = parts[place] if point.unit is None else point.unit
        for field in fields:
            if field.force is None:
                continue
            if field.name in parts:
                raise InputError(f"there is a {field.name!r} already: give the force another name")
            parts[field.name] = "N"
        self.places = {name: np.arange(i * d, (i + 1) * d) for i, name in enumerate(parts)}
        self.units = {
            state: unit
            for name, unit in parts.items()
            for state in axis_names(name, d, place=name == place)
        }
        self.size = len(self.units)

    def among_all(
        self, A: Float[Array | np.ndarray, "q q"], B: Float[Array | np.ndarray, "q 1"]
    ) -> tuple[Float[Array | np.ndarray, "n n"], Float[Array | np.ndarray, "n d"]]:
        """A and B of all states, from those of the body along an axis. Other states stay."""
        d, q = self.dimensions, len(A)
        along = np.eye(d)
        xp = checks.array_module(A, B)
        A, B = (xp.kron(A, along), xp.kron(B, along)) if d > 1 else (A, B)
        rest = self.size - q * d
        others = np.diag((np.arange(self.size) >= q * d).astype(float))
        return xp.pad(A, ((0, rest), (0, rest))) + others, xp.pad(B, ((0, rest), (0, 0)))

    def rows(self, expression: Expression) -> Any:
        """The matrix (axis, state) of an expression."""
        rows: Any = np.zeros((self.dimensions, self.size))
        for name, factor in factors(expression).items():
            rows = rows + factor * np.eye(self.size)[self.place(name)]
        return rows

    def place(self, name: str) -> Any:
        """The states of a quantity, a point or a constant force, one per axis."""
        return self.places[checks.one_of("quantity or point", name, list(self.places))]

    def along(self, what: str, values: Any) -> list[Any]:
        """One value per axis; a number holds for all of them."""
        if not isinstance(values, (tuple, list)):
            if np.ndim(values) == 0:
                return [values] * self.dimensions
            values = [values[i] for i in range(len(values))]
        if len(values) != self.dimensions:
            raise InputError(
                f"{what} needs one number for each of {self.dimensions} axes, got {len(values)}"
            )
        return list(values)


def _cost(states: _States, goal: Goal, T: int) -> Any:
    """What a goal adds to Q."""
    weighted = checks.concrete_in_numpy([weight * states.rows(what) for what, weight in goal.terms])
    rows = checks.array_module(weighted).concatenate(weighted)
    return goal.share(T)[:, None, None] * (rows.T @ rows)


def _sensing(
    states: _States, senses: Mapping[str, Mapping[str, Any]]
) -> tuple[Any, Any, dict[str, str]]:
    """H, W and the units of the senses, by name."""
    names, d = list(states.units), states.dimensions
    rows, noises = [], []
    units: dict[str, str] = {}
    for sense, sensed in senses.items():
        for what, noise in sensed.items():
            checks.nonnegative(**{f"the noise of {sense} {what}": noise})
            rows.append(states.rows(what))
            noises += [noise] * d
            state = states.place(next(iter(factors(what))))
            called = [names[i] for i in state] if what in states.places else axis_names(what, d)
            units |= {
                f"{sense} {name}": states.units[names[i]]
                for name, i in zip(called, state, strict=True)
            }
    H = np.concatenate([np.asarray(matrix) for matrix in rows])
    return H, checks.diagonal_matrix(noises), units


def _effect(states: _States, body: Body, field: Field, T: int) -> Any:
    """What a force from outside adds to A."""
    if body.push is None:
        raise InputError(f"a {field.name} needs a body that forces move, such as a point mass")
    d, n = states.dimensions, states.size
    xp = checks.array_module(body.push)
    push = xp.pad(body.push, (0, n // d - len(body.push)))
    pushed = xp.kron(push[:, None], np.eye(d))
    if field.force is not None:
        acting = states.rows(field.name)
    else:
        assert field.by_velocity is not None
        acting = field.by_velocity(d) @ states.rows("velocity")
    effect = pushed @ acting
    return effect if field.share is None else field.share(T - 1)[:, None, None] * effect


def _disturbing(
    states: _States, disturbances: Mapping[str, Any], points: Sequence[Point]
) -> Float[Array | np.ndarray, "n v"] | None:
    """V: noise that is added to quantities and moves points."""
    columns = {point.name: point.wander for point in points if point.wander is not None}
    columns = dict(disturbances) | columns
    if not columns:
        return None
    for name, size in columns.items():
        checks.nonnegative(**{f"the disturbance of {name}": size})
    moved = [states.rows(name).T * size for name, size in columns.items()]
    moved = checks.concrete_in_numpy(moved)
    return checks.array_module(moved).concatenate(moved, axis=1)


def _starting(
    states: _States, body: Body, points: Sequence[Point], fields: Sequence[Field], start: Any
) -> Float[Array | np.ndarray, " n"]:
    """The first estimate: the body at rest at its start, and the constants."""
    place = next(iter(body.quantities))
    values = {place: start} | {point.name: point.at for point in points}
    values |= {field.name: field.force for field in fields if field.force is not None}
    at_first = [
        value for name in states.places for value in states.along(name, values.get(name, 0.0))
    ]
    return checks.array_module(at_first).array(at_first, dtype=float)


def _spreading(
    states: _States, points: Sequence[Point], start_spreads: Mapping[str, Any]
) -> Float[Array | np.ndarray, "n n"]:
    """The covariance over trials of the first estimate."""
    for name in start_spreads:
        states.place(name)
    spreads = {point.name: point.spread for point in points} | dict(start_spreads)
    checks.nonnegative(**{f"the spread of {name}": value for name, value in spreads.items()})
    values = [
        value
        for name in states.places
        for value in states.along(f"the spread of {name}", spreads.get(name, 0.0))
    ]
    return checks.diagonal_matrix(values) ** 2
