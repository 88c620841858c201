"""The control problem: the world, the senses, the cost and the start.

    world   x' = A x + B u + V xi + sum_i eps_i C_i u
    senses  y  = H x + W om + sum_j del_j D_j x
    cost    sum_{t=1..T} x' Q x + sum_{t=1..T-1} u' R u
    start   xh_1 ~ N(initial_belief, initial_belief_cov),  x_1 ~ N(xh_1, initial_state_cov)

Every update of the agent's estimate xh adds noise E eta. All noises are standard normal. V, W and E
are factors (the covariance of V xi is V V'); `initial_belief_cov` and `initial_state_cov` are
covariances. The senses are those of the state x before the step or, with `sense_first`, of the
state x' after it.

How the agent finds its policy (`method`) is a part of the problem too: whatever solves it, to
simulate or to compute a likelihood, solves it in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.errors import InputError

Matrix = Any  # a matrix, or one per time step: anything that NumPy converts to an array
Terms = Sequence[Matrix] | Array | np.ndarray  # a list of matrices, or as a problem stores them
Names = Sequence[str] | Mapping[str, str]  # names, or a mapping from name to unit

# How the agent finds its policy.
METHODS = ("alternation", "calibrated", "optimal")

# The longest line of `print(problem)`.
_LINE_LENGTH = 80


class Problem(eqx.Module):
    """A linear-quadratic control problem with signal-dependent noise; immutable, a JAX pytree.

    A matrix argument is a single matrix, or one per time step as a stack along the first axis:
    T-1 steps, T for Q. C and D are lists with one matrix (or stack) per noise term.

    **Arguments** (n states, m controls, k senses):

    - `steps`: T, the number of states in a trial; there are T-1 controls.
    - `A` (n, n), `B` (n, m): dynamics. `H` (k, n): senses.
    - `Q` (n, n), positive semidefinite, and `R` (m, m), positive definite: cost.
    - `C`: list of (n, m), noise that grows with the control.
    - `D`: list of (k, n), sensory noise that grows with the state. C and D of another problem,
      `other.C`, are taken as they are.
    - `V` (n, any), `W` (k, any), `E` (n, any): factors of the process noise, the sensory
      noise, and the noise in the agent's estimate. The default is no noise.
    - `initial_belief` (n,): the mean of the agent's first estimate. The default is zero.
    - `initial_belief_cov` (n, n): the covariance of the first estimate over trials.
      `initial_state_cov` (n, n): the covariance of the true first state around the first
      estimate. The defaults are zero.
    - `states`, `controls`, `senses`: names, or a mapping from name to unit.
    - `dt`: seconds in a step.
    - `method`: how the agent finds its policy: "alternation", "calibrated" or "optimal". They
      differ if there is noise in the agent's estimate (E); see `motorcost.solve`.
    - `sense_first`: whether the agent senses a state before it acts on it. By default it acts at
      step t on what it sensed until step t-1:

          xh' = A xh + B u + K (y - H xh) + E eta,           y  = H x + W om + sum_j del_j D_j x

      With `sense_first` it acts on what it sensed until step t, the state of step t included:

          xh' = p + K (y' - H p) + E eta,   p = A xh + B u,   y' = H x' + W om + sum_j del_j D_j x'

      H, W, D and E of step t then belong to the state after step t, and the first state is not
      sensed: what is known of it is in `initial_belief` and `initial_state_cov`.

    **Attributes.** The matrices have the names of the arguments, and always a time axis:

    - `A`, `B`, `H`, `V`, `W`, `E`, `R`: axes (time, row, column), T-1 time steps; `Q`: the same
      with T time steps.
    - `C`, `D`: axes (time, term, row, column), T-1 time steps. The noise term i of C is
      `problem.C[:, i]`; without noise terms the second axis has length 0.
    - `state_names`, `state_units`, and likewise for controls and senses: tuples of strings; a unit
      is "" where it is not known.
    - `believed`: the problem that the agent believes in, or None if it believes in this one.

    Examples
    --------
    >>> problem = mc.Problem(
    ...     steps=50,
    ...     dt=0.02,
    ...     A=[[1.0]],
    ...     B=[[0.02]],
    ...     H=[[1.0]],
    ...     Q=[[1.0]],
    ...     R=[[0.1]],
    ...     C=[[[0.01]]],
    ...     W=[[0.05]],
    ...     initial_belief=[1.0],
    ...     states={"lean": "rad"},
    ... )
    >>> problem.steps, problem.A.shape, problem.state_names
    (50, (49, 1, 1), ('lean',))
    """

    A: Float[Array, "steps n n"]
    B: Float[Array, "steps n m"]
    C: Float[Array, "steps c n m"]
    V: Float[Array, "steps n v"]
    H: Float[Array, "steps k n"]
    W: Float[Array, "steps k w"]
    D: Float[Array, "steps d k n"]
    E: Float[Array, "steps n e"]
    Q: Float[Array, "T n n"]
    R: Float[Array, "steps m m"]
    initial_belief: Float[Array, " n"]
    initial_belief_cov: Float[Array, "n n"]
    initial_state_cov: Float[Array, "n n"]
    dt: Float[Array, ""]
    believed: Problem | None
    state_names: tuple[str, ...] = eqx.field(static=True)
    state_units: tuple[str, ...] = eqx.field(static=True)
    control_names: tuple[str, ...] = eqx.field(static=True)
    control_units: tuple[str, ...] = eqx.field(static=True)
    sense_names: tuple[str, ...] = eqx.field(static=True)
    sense_units: tuple[str, ...] = eqx.field(static=True)
    method: str = eqx.field(static=True)
    sense_first: bool = eqx.field(static=True)

    def __init__(
        self,
        *,
        steps: int,
        A: Matrix,
        B: Matrix,
        H: Matrix,
        Q: Matrix,
        R: Matrix,
        C: Terms = (),
        V: Matrix | None = None,
        W: Matrix | None = None,
        D: Terms = (),
        E: Matrix | None = None,
        initial_belief: Any = None,
        initial_belief_cov: Any = None,
        initial_state_cov: Any = None,
        states: Names | None = None,
        controls: Names | None = None,
        senses: Names | None = None,
        dt: Any = 1.0,
        method: str = "alternation",
        sense_first: bool = False,
    ) -> None:
        checks.require_float64()
        self.method = checks.one_of("method", method, METHODS)
        if sense_first and method != METHODS[0]:
            raise InputError(f"with sense_first the method must be {METHODS[0]}, got {method}")
        T = checks.whole("steps", steps, 2, "T, the number of states in a trial")
        n = _size("A", A, -1, "states")
        self.A = _per_step("A", A, (n, n), "states, states", T)
        self.B = _per_step("B", B, (n, _count(controls)), "states, controls", T)
        m = _size("B", self.B, -1, "controls")
        self.C = checks.terms("C", C, (n, m), "states, controls", T - 1, "T-1")
        self.V = _per_step("V", V, (n, None), "states, noises", T)
        self.H = _per_step("H", H, (_count(senses), n), "senses, states", T)
        k = _size("H", self.H, -2, "senses")
        self.W = _per_step("W", W, (k, None), "senses, noises", T)
        if checks.is_concrete(self.W) and not np.asarray(self.W).any():
            # The solver treats senses without any noise differently.
            self.W = checks.jax_array(np.zeros((T - 1, k, 0)))
        self.D = checks.terms("D", D, (k, n), "senses, states", T - 1, "T-1")
        self.E = _per_step("E", E, (n, None), "states, noises", T)
        self.Q = checks.symmetric("Q", checks.matrix("Q", Q, (n, n), "states, states", T, "T"))
        self.R = checks.symmetric(
            "R", _per_step("R", R, (m, m), "controls, controls", T), definite=True
        )
        belief = np.zeros(n) if initial_belief is None else initial_belief
        self.initial_belief = checks.vector("initial_belief", belief, n, "states")
        self.initial_belief_cov = _covariance("initial_belief_cov", initial_belief_cov, n)
        self.initial_state_cov = _covariance("initial_state_cov", initial_state_cov, n)
        checks.positive(dt=dt)
        self.dt = jnp.asarray(dt, float)
        self.state_names, self.state_units = checks.labels("states", states, n, "state")
        self.control_names, self.control_units = checks.labels("controls", controls, m, "control")
        self.sense_names, self.sense_units = checks.labels("senses", senses, k, "sense")
        self.sense_first = checks.truth("sense_first", sense_first)
        self.believed = None

    @property
    def steps(self) -> int:
        """T, the number of states in a trial."""
        return self.Q.shape[0]

    @property
    def times(self) -> Float[Array, " T"]:
        """The times of the states, in seconds from the first."""
        return jnp.arange(self.steps) * self.dt

    @property
    def as_believed(self) -> Problem:
        """The problem that the agent believes in: this one, unless set by `believing`."""
        return self if self.believed is None else self.believed

    def replace(self, **changes: Any) -> Problem:
        """Return the problem with other matrices, names, start or method; the agent's beliefs
        stay."""
        believed = self.believed
        # The agent solves the problem that it believes in, by its method and with its senses.
        shared = {n: changes[n] for n in ("states", "sense_first", "method") if n in changes}
        if believed is not None and shared:
            believed = believed.replace(**shared)
        return self._rebuilt(changes).with_believed(believed)

    def believing(self, **changes: Any) -> Problem:
        """Return the same world with an agent that believes in other matrices.

        `problem.believing(C=[])` is an agent that does not know of its motor noise: its policy is
        optimal for what it believes, and is played in the world as it is. Beliefs may differ from
        the world in any matrix, noise or cost, and in the covariance of the first state around the
        first estimate (`initial_state_cov`). Repeated calls add up.
        """
        for name in ("steps", "states", "controls", "senses", "dt", "sense_first"):
            if name in changes:
                raise InputError(f"the agent's {name} must be those of the world: leave {name} out")
        if "method" in changes:
            raise InputError("the method is not a belief: set it with replace(method=...)")
        for name in ("initial_belief", "initial_belief_cov"):
            if name in changes:
                raise InputError(
                    f"{name} is the agent's belief already: set it with replace({name}=...). For a "
                    "first estimate that is wrong, use simulate(..., initial_states=..., "
                    "initial_beliefs=...)"
                )
        for name in ("A", "B", "H"):
            if name in changes:
                self._require_size(name, checks.numbers(name, changes[name]).shape)
        return self.with_believed(self.as_believed._rebuilt(changes))

    def with_believed(self, believed: Problem | None) -> Problem:
        """Return the same world with an agent that believes in the problem `believed`, or in this
        one if it is None.

        The agent may believe in further states: a target that has a velocity, say. The world then
        gets these states too, in the order of `believed`, as states that are always zero: nothing
        moves or disturbs them, they move nothing, are not sensed and cost nothing. The agent's
        first estimate of them is `believed.initial_belief`.
        """
        world = self
        if believed is not None:
            if believed.state_names != self.state_names:
                world = _extended(self, believed)
            for name in ("B", "H"):  # which determine all sizes
                world._require_size(name, getattr(believed, name).shape)
            if believed.sense_first != self.sense_first:
                raise InputError(
                    f"the believed sense_first must be the world's, {self.sense_first}, "
                    f"got {believed.sense_first}"
                )
        return eqx.tree_at(lambda p: p.believed, world, believed, is_leaf=lambda leaf: leaf is None)

    def padded(self, steps: int) -> Problem:
        """Return the problem, extended to `steps` by steps in which nothing moves, is sensed or
        costs anything.

        The policy and the distribution of states until then are the same. Problems of different
        length can so be solved and filtered in one batch.
        """
        extra = steps - self.steps

        def extended(name: str, value: Any) -> Any:
            matrices = getattr(self, name)
            xp = checks.array_module(matrices)
            matrices = xp.asarray(matrices)
            value = matrices[-1] if value is None else xp.broadcast_to(value, matrices.shape[1:])
            repeated = xp.broadcast_to(value, (extra, *value.shape))
            return checks.jax_array(xp.concatenate([matrices, repeated]))

        zeros = dict.fromkeys(("B", "C", "V", "H", "D", "E", "Q"), 0.0)
        # None repeats the last matrix: R must stay positive definite, and the rank of W the same.
        padding: dict[str, Any] = {"A": np.eye(self.A.shape[-1]), "W": None, "R": None, **zeros}
        changed = {name: extended(name, value) for name, value in padding.items()}
        longer = eqx.tree_at(
            lambda p: [getattr(p, name) for name in changed], self, list(changed.values())
        )
        if self.believed is None:
            return longer
        return longer.with_believed(self.believed.padded(steps))

    def _require_size(self, name: str, shape: tuple[int, ...]) -> None:
        wanted = getattr(self, name).shape
        if shape not in (wanted, wanted[1:]):
            raise InputError(
                f"the believed {name} must have the world's shape {wanted[1:]} or {wanted}, "
                f"got {shape}"
            )

    def _rebuilt(self, changes: Mapping[str, Any]) -> Problem:
        # Through the constructor, so that changes are checked.
        C, D = checks.concrete_in_numpy((self.C, self.D))
        arguments: dict[str, Any] = {
            "steps": self.steps,
            "sense_first": self.sense_first,
            "C": [C[:, i] for i in range(C.shape[1])],
            "D": [D[:, j] for j in range(D.shape[1])],
            "states": dict(zip(self.state_names, self.state_units, strict=True)),
            "controls": dict(zip(self.control_names, self.control_units, strict=True)),
            "senses": dict(zip(self.sense_names, self.sense_units, strict=True)),
        }
        plain = ("A", "B", "V", "H", "W", "E", "Q", "R", "dt", "method")
        start = ("initial_belief", "initial_belief_cov", "initial_state_cov")
        arguments |= {name: getattr(self, name) for name in plain + start}
        for name in changes:
            checks.one_of("part of a Problem", name, list(arguments))
        return Problem(**(arguments | dict(changes)))

    def __repr__(self) -> str:
        single = checks.is_concrete(self.dt) and self.dt.ndim == 0
        lines = [
            f"Problem: {self.steps} steps" + (f" of {float(self.dt):g} s" if single else ""),
            _listed("state", self.state_names, self.state_units),
            _listed("control", self.control_names, self.control_units),
            _listed("sense", self.sense_names, self.sense_units),
            f"  noise terms: {self.C.shape[1]} control-dependent (C), "
            f"{self.D.shape[1]} state-dependent (D)",
        ]
        if self.as_believed.method != METHODS[0]:
            lines.append(f"  the agent's policy is found by the method '{self.as_believed.method}'")
        if self.sense_first:
            lines.append("  the agent senses a state before it acts on it (sense_first)")
        if self.believed is not None:
            lines.append("  the agent believes in another problem (problem.believed)")
        return "\n".join(lines)


def _extended(world: Problem, believed: Problem) -> Problem:
    """The world with the states of `believed`, in their order; those that it lacks are zero."""
    lacking = [name for name in world.state_names if name not in believed.state_names]
    if lacking:
        raise InputError(
            f"the believed problem must have all states of the world, it lacks {', '.join(lacking)}"
        )
    for kind in ("control", "sense"):
        ours, theirs = (getattr(p, f"{kind}_names") for p in (world, believed))
        if ours != theirs:
            raise InputError(
                f"the believed {kind}s must be the world's, {', '.join(ours)}; "
                f"got {', '.join(theirs)}"
            )
    n = len(world.state_names)
    places = dict(zip(world.state_names, range(n), strict=True))
    # Which state of the world each is; n is a row, or a column, of zeros.
    index = np.array([places.get(name, n) for name in believed.state_names])

    def along(M: Any, *axes: int) -> Any:
        xp = checks.array_module(M)
        M = xp.asarray(M)
        for axis in axes:
            pads = [(0, int(i == axis % M.ndim)) for i in range(M.ndim)]
            M = xp.take(xp.pad(M, pads), index, axis=axis)
        return M

    xp = checks.array_module(world.initial_belief, believed.initial_belief)
    C, D = along(world.C, -2), along(world.D, -1)
    return world.with_believed(None).replace(
        **{name: along(getattr(world, name), -2) for name in ("B", "V", "E")},
        **{name: along(getattr(world, name), -2, -1) for name in ("A", "Q")},
        C=[C[:, i] for i in range(C.shape[1])],
        D=[D[:, j] for j in range(D.shape[1])],
        H=along(world.H, -1),
        initial_belief=xp.where(
            index == n, believed.initial_belief, along(world.initial_belief, 0)
        ),
        initial_belief_cov=along(world.initial_belief_cov, 0, 1),
        initial_state_cov=along(world.initial_state_cov, 0, 1),
        states=dict(zip(believed.state_names, believed.state_units, strict=True)),
    )


def _listed(kind: str, names: Sequence[str], units: Sequence[str]) -> str:
    """A line of at most `_LINE_LENGTH` characters with as many of the names as fit."""
    line = f"  {len(names)} {kind}{'s' if len(names) != 1 else ''}: "
    for i, (name, unit) in enumerate(zip(names, units, strict=True)):
        item = (", " if i else "") + (f"{name} ({unit})" if unit else name)
        ending = "" if i == len(names) - 1 else ", ..."
        if len(line) + len(item) + len(ending) > _LINE_LENGTH:
            return line + (", ..." if i else "...")
        line += item
    return line


def _per_step(
    name: str, value: Matrix, shape: tuple[int | None, int | None], words: str, T: int
) -> Float[Array, "steps rows cols"]:
    """A matrix for each of T-1 steps; one without columns if `value` is None."""
    if value is None:
        value = np.zeros((shape[0] or 0, 0))
    return checks.matrix(name, value, shape, words, T - 1, "T-1")


def _covariance(name: str, value: Any, n: int) -> Float[Array, "n n"]:
    if value is None:
        return checks.jax_array(np.zeros((n, n)))
    array = checks.numbers(name, value)
    if array.shape != (n, n):
        raise InputError(
            f"{name} must be a covariance of shape (states, states) = ({n}, {n}), got {array.shape}"
        )
    return checks.symmetric(name, checks.jax_array(array))


def _count(names: Names | None) -> int | None:
    return None if names is None else len(names)


def _size(name: str, value: Matrix, axis: int, words: str) -> int:
    array = checks.numbers(name, value)
    if array.ndim not in (2, 3):
        raise InputError(f"{name} must be a matrix, or one per time step, got shape {array.shape}")
    if array.shape[axis] == 0:
        raise InputError(f"{name} has no {words}: its shape is {array.shape}")
    return array.shape[axis]
