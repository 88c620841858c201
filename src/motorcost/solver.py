"""The agent's policy: Todorov's alternation (appendix B of the paper).

A backward pass gives the control gains L that are best for the filter gains K, a forward pass
the filter gains that are best for L, until neither changes. One such round is a sweep.

Derivatives do not follow the sweeps: at the fixed point L = sweep(L, problem), and the
implicit function theorem gives dL from a linear equation, in forward and in reverse mode and
to any order.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from motorcost import checks
from motorcost.errors import ConvergenceError
from motorcost.linalg import solve_semidefinite, symmetrised
from motorcost.problem import Problem

Gains = Float[Array, "steps m n"]
FilterGains = Float[Array, "steps n k"]


class Policy(eqx.Module):
    """What the agent does: u = -L xh, xh' = A^ xh + B^ u + K (y - H^ xh) + E eta.

    - `L` (T-1, controls, states) and `K` (T-1, states, senses): the gains.
    - `believed`: the problem the agent thinks it has, with its A^, B^ and H^.
    - `expected_cost`: what the agent expects to pay, exactly, if its beliefs are right; see
      `motorcost.expected_cost` for what it pays in another world.
    - `converged`: whether the gains settled; `sweeps`: after how many sweeps.
    - `sweep_costs`: the expected cost after each sweep, NaN after the last one.
    """

    L: Gains
    K: FilterGains
    believed: Problem
    expected_cost: Float[Array, ""]
    sweeps: Int[Array, ""]
    converged: Bool[Array, ""]
    sweep_costs: Float[Array, " max_sweeps"]

    def __repr__(self) -> str:
        if not checks.known(self.converged) or self.converged.ndim:
            return f"Policy(L={self.L.shape}, K={self.K.shape})"
        state = "settled" if self.converged else "did not settle"
        return (
            f"Policy: expected cost {float(self.expected_cost):.10g}, gains {state} "
            f"in {int(self.sweeps)} sweeps"
        )


def solve(
    problem: Problem, *, tolerance: float = 1e-10, max_sweeps: int = 500, throw: bool = True
) -> Policy:
    """The best linear policy for what the agent believes.

    Sweeps until the gains change by less than `tolerance`, relative to their norm. If that
    does not happen within `max_sweeps`, raises `ConvergenceError`; with `throw=False`, and
    always inside `jit`, `vmap` and `grad`, returns a policy with `converged` false (and gains
    that are finite all the same).
    """
    checks.positive(tolerance=tolerance)
    checks.whole("max_sweeps", max_sweeps, 1, "the most sweeps to try")
    policy = _solve(problem.as_believed, tolerance, max_sweeps)
    concrete = all(checks.known(leaf) for leaf in (policy.converged, policy.expected_cost))
    if throw and concrete and not policy.converged:
        raise ConvergenceError(_why(policy, max_sweeps))
    return policy


def _why(policy: Policy, max_sweeps: int) -> str:
    cost, sweeps = float(policy.expected_cost), int(policy.sweeps)
    if sweeps < max_sweeps:
        return (
            f"the expected cost grew beyond all numbers in sweep {sweeps}: the world is too "
            "unstable, or its noise that grows with control and state (C, D) too large, for any "
            "linear policy"
        )
    return (
        f"the gains did not settle within {max_sweeps} sweeps (expected cost {cost:.6g} after "
        "the last): raise max_sweeps"
    )


@partial(jax.jit, static_argnames="max_sweeps")
def _solve(problem: Problem, tolerance: float | Float[Array, ""], max_sweeps: int) -> Policy:
    quiet, within = lax.stop_gradient((problem, tolerance))
    last = lax.stop_gradient(_sweep_until_settled(quiet, within, max_sweeps))
    # Where the sweeps failed, what follows runs on a world of zeros: its results are not used,
    # and its derivatives are zero instead of NaN.
    solved = jax.tree.map(lambda leaf: jnp.where(last.settled, leaf, 0.0), problem)
    L = _differentiable(solved, last.L, last.settled)
    K, cost = forward_pass(solved, L)
    return Policy(
        L=L,
        K=jnp.where(last.settled, K, last.K),
        believed=problem,
        expected_cost=jnp.where(last.settled, cost, last.cost),
        sweeps=last.sweeps,
        converged=last.settled,
        sweep_costs=last.costs,
    )


def backward_pass(problem: Problem, K: FilterGains) -> Gains:
    """The control gains that are best for these filter gains."""
    p = problem

    def step(carry: Any, at: Any) -> Any:
        Px, Pe = carry  # what a unit of state, and of estimation error, will cost
        A, B, C, H, D, Q, R, K = at
        PxB = Px @ B
        CPC = jnp.einsum("inj,nl,ilk->jk", C, Px + Pe, C)
        L = solve_semidefinite(symmetrised(R + B.T @ PxB + CPC), PxB.T @ A)
        A_K = A - K @ H
        KD = K @ D
        DPD = jnp.einsum("inj,nl,ilk->jk", KD, Pe, KD)
        APxBL = A.T @ PxB @ L
        Px_next = Q + A.T @ Px @ A - APxBL + DPD
        Pe_next = APxBL + A_K.T @ Pe @ A_K
        return (symmetrised(Px_next), symmetrised(Pe_next)), L

    end = (p.Q[-1], jnp.zeros_like(p.Q[-1]))
    _, L = lax.scan(step, end, (p.A, p.B, p.C, p.H, p.D, p.Q[:-1], p.R, K), reverse=True)
    return L


def forward_pass(problem: Problem, L: Gains) -> tuple[FilterGains, Float[Array, ""]]:
    """The filter gains that are best for these control gains, and the pair's expected cost."""
    p = problem

    def step(carry: Any, at: Any) -> Any:
        # Second moments, means included: of the error e = x - xh, of the estimate xh, and
        # between the two.
        Se, Sh, She = carry
        A, B, C, V, H, W, D, E, Q, R, L = at
        Sx = Se + Sh + She + She.T
        sense_noise = W @ W.T + jnp.einsum("ikn,nl,ijl->kj", D, Sx, D)
        HSe = H @ Se
        K = solve_semidefinite(symmetrised(HSe @ H.T + sense_noise), HSe @ A.T).T

        # The paper shortens these with the formula for K. Written out they hold for any K
        # and stay positive semidefinite whatever the rounding.
        A_L, A_K, KH = A - B @ L, A - K @ H, K @ H
        KNK, EE = K @ sense_noise @ K.T, E @ E.T
        CL = C @ L
        motor_noise = jnp.einsum("inm,ml,ikl->nk", CL, Sh, CL)
        cross = A_L @ She @ KH.T
        Se_next = A_K @ Se @ A_K.T + KNK + V @ V.T + EE + motor_noise
        Sh_next = A_L @ Sh @ A_L.T + KH @ Se @ KH.T + cross + cross.T + KNK + EE
        She_next = A_L @ She @ A_K.T + KH @ Se @ A_K.T - KNK - EE
        cost = jnp.sum(Q * Sx) + jnp.sum(R * (L @ Sh @ L.T))
        return (symmetrised(Se_next), symmetrised(Sh_next), She_next), (K, cost)

    m1 = p.initial_belief
    start = (
        p.initial_state_cov,
        jnp.outer(m1, m1) + p.initial_belief_cov,
        jnp.zeros_like(p.initial_state_cov),
    )
    each_step = (p.A, p.B, p.C, p.V, p.H, p.W, p.D, p.E, p.Q[:-1], p.R, L)
    (Se, Sh, She), (K, costs) = lax.scan(step, start, each_step)
    return K, jnp.sum(costs) + jnp.sum(p.Q[-1] * (Se + Sh + She + She.T))


def _first_gains(problem: Problem) -> Gains:
    """The plain linear-quadratic regulator, which knows no signal-dependent noise: a start
    that is finite and stable wherever the problem can be controlled at all."""
    quiet = eqx.tree_at(lambda p: (p.C, p.D), problem, (problem.C[:, :0], problem.D[:, :0]))
    K = jnp.zeros((problem.H.shape[0], problem.H.shape[2], problem.H.shape[1]))
    return backward_pass(quiet, K)


class _Progress(NamedTuple):
    L: Gains
    K: FilterGains
    cost: Float[Array, ""]
    sweeps: Int[Array, ""]
    settled: Bool[Array, ""]
    finite: Bool[Array, ""]
    costs: Float[Array, " max_sweeps"]


def _sweep_until_settled(problem: Problem, tolerance: Any, max_sweeps: int) -> _Progress:
    """The last sweep's gains, or the last finite ones if they grow beyond all bounds."""

    def relative_change(new: Array, old: Array) -> Array:
        return jnp.linalg.norm(new - old) / jnp.maximum(jnp.linalg.norm(new), 1e-300)

    def not_settled(so_far: _Progress) -> Array:
        return (so_far.sweeps < max_sweeps) & ~so_far.settled & so_far.finite

    def sweep(so_far: _Progress) -> _Progress:
        L = backward_pass(problem, so_far.K)
        K, cost = forward_pass(problem, L)
        finite = jnp.isfinite(cost) & jnp.isfinite(L).all() & jnp.isfinite(K).all()
        change = jnp.maximum(relative_change(L, so_far.L), relative_change(K, so_far.K))
        return _Progress(
            L=jnp.where(finite, L, so_far.L),
            K=jnp.where(finite, K, so_far.K),
            cost=jnp.where(finite, cost, so_far.cost),
            sweeps=so_far.sweeps + 1,
            settled=finite & (change <= tolerance),
            finite=finite,
            costs=so_far.costs.at[so_far.sweeps].set(jnp.where(finite, cost, jnp.nan)),
        )

    L = jnp.nan_to_num(_first_gains(problem), posinf=0.0, neginf=0.0)
    start = _Progress(
        L=L,
        K=jnp.nan_to_num(forward_pass(problem, L)[0], posinf=0.0, neginf=0.0),
        cost=jnp.array(jnp.inf),
        sweeps=jnp.array(0),
        settled=jnp.array(False),
        finite=jnp.array(True),
        costs=jnp.full(max_sweeps, jnp.nan),
    )
    return lax.while_loop(not_settled, sweep, start)


@jax.custom_jvp
def _differentiable(problem: Problem, L: Gains, converged: Bool[Array, ""]) -> Gains:
    """L itself, which solves L = sweep(L, problem), with its derivative by the problem."""
    return L


@_differentiable.defjvp
def _implicit_derivative(primals: Any, tangents: Any) -> Any:
    problem, L, converged = primals
    problem_dot, _, _ = tangents
    # Called again here, so that the derivative can itself be differentiated.
    L = _differentiable(problem, L, converged)

    def sweep(problem: Problem, L: Gains) -> Gains:
        return backward_pass(problem, forward_pass(problem, L)[0])

    _, direct = jax.jvp(lambda p: sweep(p, L), (problem,), (problem_dot,))
    _, through_L = jax.linearize(lambda gains: sweep(problem, gains), L)
    L_dot = lax.custom_linear_solve(
        lambda v: v - through_L(v), direct, _richardson, transpose_solve=_richardson
    )
    return L, jnp.where(converged, L_dot, 0.0)


def _richardson(matvec: Any, b: Array) -> Array:
    """x with matvec(x) = b. Converges as the sweeps do, for it is their linearisation."""

    def not_done(carry: Any) -> Any:
        _, residual, i = carry
        return (jnp.linalg.norm(residual) > 1e-13 * jnp.linalg.norm(b)) & (i < 1000)

    def improve(carry: Any) -> Any:
        x, residual, i = carry
        x = x + residual
        return x, b - matvec(x), i + 1

    x, _, _ = lax.while_loop(not_done, improve, (jnp.zeros_like(b), b, 0))
    return x
