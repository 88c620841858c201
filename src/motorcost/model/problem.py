"""The world, the senses, the cost and the start: what an agent is up against.

    world   x' = A x + B u + V xi + sum_i eps_i C_i u
    senses  y  = H x + W om + sum_j del_j D_j x
    cost    sum_{t=1..T} x' Q x + sum_{t=1..T-1} u' R u
    start   xh_1 ~ N(initial_belief, initial_belief_cov),  x_1 ~ N(xh_1, initial_state_cov)

and the agent's estimate xh, with noise of its own, E eta, in every update. All noises are
standard normal. V, W and E are factors (the covariance is V V'); the start's spreads are
covariances, as their names say.
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

Matrix = Any  # one matrix, or one for each time step: anything NumPy can read
Names = Sequence[str] | Mapping[str, str]


class Problem(eqx.Module):
    """A linear-quadratic control problem with signal-dependent noise; immutable, a JAX pytree.

    Every matrix is given once, or once for each time step as a stack along the first axis:
    T-1 steps, T for Q. Stored, every matrix has its time axis. C and D are lists with one
    matrix for each noise term, empty for none.

    **Arguments** (n states, m controls, k senses):

    - `steps`: T, the number of states in a trial; there are T-1 controls.
    - `A` (n, n), `B` (n, m): dynamics. `H` (k, n): senses.
    - `Q` (n, n), positive semidefinite, and `R` (m, m), positive definite: cost.
    - `C`: list of (n, m), noise that grows with the control.
    - `D`: list of (k, n), sensory noise that grows with the state.
    - `V` (n, any), `W` (k, any), `E` (n, any): factors of the process noise, the sensory
      noise, and the noise in the agent's own estimate; none if left out.
    - `initial_belief` (n,): the mean of the agent's first estimate, zero if left out;
      `initial_belief_cov`: its spread from trial to trial, `initial_state_cov`: the spread of
      the true first state around it, both (n, n) and zero if left out.
    - `states`, `controls`, `senses`: names, or a mapping from name to unit.
    - `dt`: seconds in a step.
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

    def __init__(
        self,
        *,
        steps: int,
        A: Matrix,
        B: Matrix,
        H: Matrix,
        Q: Matrix,
        R: Matrix,
        C: Sequence[Matrix] = (),
        V: Matrix | None = None,
        W: Matrix | None = None,
        D: Sequence[Matrix] = (),
        E: Matrix | None = None,
        initial_belief: Any = None,
        initial_belief_cov: Any = None,
        initial_state_cov: Any = None,
        states: Names | None = None,
        controls: Names | None = None,
        senses: Names | None = None,
        dt: Any = 1.0,
    ) -> None:
        checks.require_float64()
        T = checks.whole("steps", steps, 2, "T, the number of states in a trial")
        n = _size("A", A, -1, "states")

        def each_step(
            name: str, value: Matrix, shape: tuple[int | None, int | None], words: str
        ) -> Any:
            if value is None:
                value = np.zeros((shape[0] or 0, 0))
            return checks.matrix(name, value, shape, words, T - 1, "T-1")

        self.A = each_step("A", A, (n, n), "states, states")
        self.B = each_step("B", B, (n, _count(controls)), "states, controls")
        m = _size("B", self.B, -1, "controls")
        self.C = checks.terms("C", C, (n, m), "states, controls", T - 1, "T-1")
        self.V = each_step("V", V, (n, None), "states, noises")
        self.H = each_step("H", H, (_count(senses), n), "senses, states")
        k = _size("H", self.H, -2, "senses")
        self.W = each_step("W", W, (k, None), "senses, noises")
        if checks.is_concrete(self.W) and not np.any(self.W):
            self.W = self.W[:, :, :0]  # known to be none, which the solver needs to know
        self.D = checks.terms("D", D, (k, n), "senses, states", T - 1, "T-1")
        self.E = each_step("E", E, (n, None), "states, noises")
        self.Q = checks.symmetric("Q", checks.matrix("Q", Q, (n, n), "states, states", T, "T"))
        self.R = checks.symmetric("R", each_step("R", R, (m, m), "controls, controls"), True)

        def spread(name: str, value: Any) -> Any:
            if value is None:
                return jnp.zeros((n, n))
            array = checks.numbers(name, value)
            if array.shape != (n, n):
                raise InputError(
                    f"{name} must have shape (states, states) = ({n}, {n}), got {array.shape}. "
                    "It is a covariance"
                )
            return checks.symmetric(name, jnp.asarray(array))

        belief = jnp.zeros(n) if initial_belief is None else initial_belief
        self.initial_belief = checks.vector("initial_belief", belief, n, "states")
        self.initial_belief_cov = spread("initial_belief_cov", initial_belief_cov)
        self.initial_state_cov = spread("initial_state_cov", initial_state_cov)
        checks.positive(dt=dt)
        self.dt = jnp.asarray(dt, float)
        self.state_names, self.state_units = checks.labels("states", states, n, "state")
        self.control_names, self.control_units = checks.labels("controls", controls, m, "control")
        self.sense_names, self.sense_units = checks.labels("senses", senses, k, "sense")
        self.believed = None

    @property
    def steps(self) -> int:
        """T, the number of states in a trial."""
        return self.Q.shape[0]

    @property
    def times(self) -> Float[Array, " T"]:
        """The time of each state, in seconds from the first."""
        return jnp.arange(self.steps) * self.dt

    @property
    def as_believed(self) -> Problem:
        """The problem that the agent thinks it has: this one, unless `believing` said otherwise."""
        return self if self.believed is None else self.believed

    def replace(self, **changes: Any) -> Problem:
        """The same problem with other matrices, names or start. What the agent believes stays."""
        return self._rebuilt(changes).with_believed(self.believed)

    def believing(self, **changes: Any) -> Problem:
        """The same world with an agent that believes otherwise.

        `problem.believing(C=[])` is an agent that does not know of its own motor noise:
        its policy is the best one for what it believes, and is played in the world as it is.
        Any matrix, noise or cost may be believed wrongly, and how far the first estimate is off
        (`initial_state_cov`). Beliefs add up over several calls.
        """
        for name in ("steps", "states", "controls", "senses", "dt"):
            if name in changes:
                raise InputError(f"an agent cannot believe in other {name} than the world has")
        for name in ("initial_belief", "initial_belief_cov"):
            if name in changes:
                raise InputError(
                    f"{name} already is what the agent believes; to begin with an estimate that "
                    "is off, give simulate(..., initial_states=..., initial_beliefs=...)"
                )
        for name in ("A", "B", "H"):
            if name in changes:
                self._require_size(name, checks.numbers(name, changes[name]).shape)
        return self.with_believed(self.as_believed._rebuilt(changes))

    def with_believed(self, believed: Problem | None) -> Problem:
        """The same world with an agent that believes in another problem altogether, or (None)
        in this one."""
        for name in ("B", "H") if believed is not None else ():  # other sizes follow from these
            self._require_size(name, getattr(believed, name).shape)
        return eqx.tree_at(lambda p: p.believed, self, believed, is_leaf=lambda leaf: leaf is None)

    def padded(self, steps: int) -> Problem:
        """The same problem followed by steps in which nothing moves, is sensed or costs anything,
        up to `steps` in all. What the agent does until then is the same."""
        more = steps - self.steps

        def then(name: str, value: Any) -> Any:
            last = getattr(self, name)
            value = last[-1] if value is None else jnp.broadcast_to(value, last.shape[1:])
            return jnp.concatenate([last, jnp.broadcast_to(value, (more, *value.shape))])

        nothing = dict.fromkeys(("B", "C", "V", "H", "D", "E", "Q"), 0.0)
        after: dict[str, Any] = {"A": jnp.eye(self.A.shape[-1]), "W": None, "R": None, **nothing}
        changed = {name: then(name, value) for name, value in after.items()}
        longer = eqx.tree_at(
            lambda p: [getattr(p, name) for name in changed], self, list(changed.values())
        )
        return (
            longer if self.believed is None else longer.with_believed(self.believed.padded(steps))
        )

    def _require_size(self, name: str, shape: tuple[int, ...]) -> None:
        ours = getattr(self, name).shape
        if shape not in (ours, ours[1:]):
            raise InputError(
                f"the believed {name} must have the world's shape {ours[1:]} or {ours}, got {shape}"
            )

    def _rebuilt(self, changes: Mapping[str, Any]) -> Problem:
        # Through the constructor, so that what is changed is checked as on the first day.
        given: dict[str, Any] = {
            "steps": self.steps,
            "C": [self.C[:, i] for i in range(self.C.shape[1])],
            "D": [self.D[:, j] for j in range(self.D.shape[1])],
            "states": dict(zip(self.state_names, self.state_units, strict=True)),
            "controls": dict(zip(self.control_names, self.control_units, strict=True)),
            "senses": dict(zip(self.sense_names, self.sense_units, strict=True)),
        }
        plain = ("A", "B", "V", "H", "W", "E", "Q", "R", "dt")
        start = ("initial_belief", "initial_belief_cov", "initial_state_cov")
        given |= {name: getattr(self, name) for name in plain + start}
        for name in changes:
            checks.one_of("part of a Problem", name, list(given))
        return Problem(**(given | dict(changes)))

    def __repr__(self) -> str:
        n, m, k = len(self.state_names), len(self.control_names), len(self.sense_names)
        wrong = "" if self.believed is None else ", whose agent believes otherwise"
        return (
            f"Problem: {self.steps} steps of {n} states ({', '.join(self.state_names)}), "
            f"{m} controls ({', '.join(self.control_names)}), "
            f"{k} senses ({', '.join(self.sense_names)}); noise terms: "
            f"{self.C.shape[1]} control-dependent, {self.D.shape[1]} state-dependent{wrong}"
        )


def _count(names: Names | None) -> int | None:
    return None if names is None else len(names)


def _size(name: str, value: Matrix, axis: int, words: str) -> int:
    array = checks.numbers(name, value)
    if array.ndim not in (2, 3):
        raise InputError(
            f"{name} must be a matrix, or one for each time step, got shape {array.shape}"
        )
    if array.shape[axis] == 0:
        raise InputError(f"{name} has no {words}: its shape is {array.shape}")
    return array.shape[axis]
