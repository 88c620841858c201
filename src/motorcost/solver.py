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
from motorcost.errors import ConvergenceError, InputError
from motorcost.linalg import (
    RANK_TOLERANCE,
    is_definite,
    semidefinite_cholesky,
    solve_least,
    solve_semidefinite,
    symmetrised,
)
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

    def require_fit(self, problem: Problem) -> None:
        """Raise unless the gains have the sizes of this problem."""
        steps, n, m = problem.B.shape
        wanted = (steps, m, n), (steps, n, problem.H.shape[1])
        if (self.L.shape, self.K.shape) != wanted:
            raise InputError(
                f"the policy was solved for another problem: its L and K have shapes "
                f"{self.L.shape} and {self.K.shape}, this problem needs {wanted[0]} and {wanted[1]}"
            )

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

    Sweeps until the gains stop changing: until what the change does to controls and estimates
    is less than `tolerance` of their size. If that does not happen within `max_sweeps`, raises
    `ConvergenceError`; with `throw=False`, and always inside `jit`, `vmap` and `grad`, returns
    a policy with `converged` false (and gains that are finite all the same). There, `converged`
    is false too for costs and covariances that are not positive (semi)definite.

    Derivatives hold fixed what has no variance at all: a noise or spread that is exactly zero is
    taken as known to be zero.
    """
    if not isinstance(problem, Problem):
        raise InputError(f"solve needs a Problem, got {problem!r}: call the task to make one")
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
            f"the expected cost grew beyond all numbers in sweep {sweeps}: numbers are too large, "
            "the world is too unstable, or its noise that grows with control and state (C, D) is "
            "too strong for any linear policy"
        )
    return (
        f"the gains did not settle within {max_sweeps} sweeps (expected cost {cost:.6g} after "
        "the last): raise max_sweeps, or the tolerance if rounding is in the way, as it is where "
        "senses are almost without noise"
    )


@partial(jax.jit, static_argnames="max_sweeps")
def _solve(problem: Problem, tolerance: float | Float[Array, ""], max_sweeps: int) -> Policy:
    quiet, within = lax.stop_gradient((problem, tolerance))
    last = lax.stop_gradient(_sweep_until_settled(quiet, within, max_sweeps))
    last = last._replace(settled=last.settled & _makes_sense(quiet))
    # Where the sweeps failed, what follows runs on a world of zeros: its results are not used,
    # and its derivatives are zero instead of NaN.
    solved = jax.tree.map(lambda leaf: jnp.where(last.settled, leaf, 0.0), problem)
    L = _differentiable(solved, last.L, last.settled)
    K, cost, *_ = forward_pass(solved, L)
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
        # R is positive definite, so there is no zero to look out for.
        L = solve_semidefinite(symmetrised(R + B.T @ PxB + CPC), PxB.T @ A, jnp.zeros(B.shape[1]))
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


class Forward(NamedTuple):
    """What a forward pass finds: the filter gains and the pair's expected cost, and how large
    things are on the way, as mean squares at each step."""

    K: FilterGains
    cost: Float[Array, ""]
    innovations: Float[Array, "steps k k"]  # y - H xh
    estimates: Float[Array, "steps n n"]  # xh
    states: Float[Array, "steps n"]  # x, of each state by itself


def forward_pass(problem: Problem, L: Gains) -> Forward:
    """The filter gains that are best for these control gains."""
    p = problem
    # Senses without any noise leave no error in what they see. Then many gains are equally good,
    # of which the least must be taken: others blow up what rounding leaves.
    noiseless = p.W.shape[-1] == 0 and p.D.shape[1] == 0

    def step(carry: Any, at: Any) -> Any:
        # Second moments, means included: of the error e = x - xh, of the estimate xh, and
        # between the two.
        Se, Sh, She = carry
        A, B, C, V, H, W, D, E, Q, R, L = at
        Sx = Se + Sh + She + She.T
        sense_noise = W @ W.T + jnp.einsum("ikn,nl,ijl->kj", D, Sx, D)
        HSe = H @ Se
        M = symmetrised(HSe @ H.T + sense_noise)
        sensed = jnp.einsum("kn,nl,kl->k", H, Sx, H)
        solve = solve_least if noiseless else solve_semidefinite
        K = solve(M, HSe @ A.T, RANK_TOLERANCE * jnp.maximum(sensed, 0.0)).T

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
        if noiseless:
            Se_next = _without_rounding(Se_next, Se_next + Sh_next + She_next + She_next.T)
        after = (symmetrised(Se_next), symmetrised(Sh_next), She_next)
        return after, (K, cost, M, Sh, jnp.diagonal(Sx))

    m1 = p.initial_belief
    start = (
        p.initial_state_cov,
        jnp.outer(m1, m1) + p.initial_belief_cov,
        jnp.zeros_like(p.initial_state_cov),
    )
    each_step = (p.A, p.B, p.C, p.V, p.H, p.W, p.D, p.E, p.Q[:-1], p.R, L)
    (Se, Sh, She), (K, costs, *sizes) = lax.scan(step, start, each_step)
    cost = jnp.sum(costs) + jnp.sum(p.Q[-1] * (Se + Sh + She + She.T))
    return Forward(K, cost, *sizes)


def _without_rounding(Se: Float[Array, "n n"], Sx: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Se without the directions in which only rounding is left of it.

    Which errors are zero decides the next gains, and only the size of the states tells a zero
    from a small number; left alone, rounding would grow until it looks like one.
    """
    floor = RANK_TOLERANCE * jnp.maximum(jnp.diagonal(Sx), 0.0)
    L = semidefinite_cholesky(lax.stop_gradient(symmetrised(Se)), lax.stop_gradient(floor))
    return symmetrised(Se) + lax.stop_gradient(L @ L.T - symmetrised(Se))


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

    def not_settled(so_far: _Progress) -> Array:
        return (so_far.sweeps < max_sweeps) & ~so_far.settled & so_far.finite

    def sweep(so_far: _Progress) -> _Progress:
        L = backward_pass(problem, so_far.K)
        forward = forward_pass(problem, L)
        K, cost = forward.K, forward.cost
        finite = jnp.isfinite(cost) & jnp.isfinite(L).all() & jnp.isfinite(K).all()
        change = _change(L - so_far.L, K - so_far.K, L, forward)
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
        K=jnp.nan_to_num(forward_pass(problem, L).K, posinf=0.0, neginf=0.0),
        cost=jnp.array(jnp.inf),
        sweeps=jnp.array(0),
        settled=jnp.array(False),
        finite=jnp.array(True),
        costs=jnp.full(max_sweeps, jnp.nan),
    )
    return lax.while_loop(not_settled, sweep, start)


def _change(dL: Gains, dK: FilterGains, L: Gains, forward: Forward) -> Float[Array, ""]:
    """How much a change of the gains would be noticed: the root mean square change of each
    control, over that control's largest, and of each estimate by one innovation, over the
    largest of its state. So units do not matter, nor gains on what is always zero."""

    def mean_square(gains: Array, of: Array) -> Array:
        return jnp.einsum("tij,tjk,tik->ti", gains, of, gains)

    def over_largest(squares: Array, of: Array) -> Array:
        largest = of.max(axis=0)
        return jnp.where(largest > 0, squares / jnp.where(largest > 0, largest, 1.0), 0.0).max()

    controls = over_largest(mean_square(dL, forward.estimates), mean_square(L, forward.estimates))
    estimates = over_largest(mean_square(dK, forward.innovations), forward.states)
    return jnp.sqrt(jnp.maximum(controls, estimates))


def _makes_sense(problem: Problem) -> Bool[Array, ""]:
    """Whether costs and spreads are what they must be. Checked when a problem is made, but for
    the values that were not known then."""
    p = problem
    spreads = jnp.stack([p.initial_belief_cov, p.initial_state_cov])
    semidefinite = is_definite(p.Q, semi=True).all() & is_definite(spreads, semi=True).all()
    return semidefinite & is_definite(p.R).all()


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
        return backward_pass(problem, forward_pass(problem, L).K)

    _, direct = jax.jvp(lambda p: sweep(p, L), (problem,), (problem_dot,))
    _, through_L = jax.linearize(lambda gains: sweep(problem, gains), L)
    L_dot = lax.custom_linear_solve(
        lambda v: v - through_L(v), direct, _richardson, transpose_solve=_richardson
    )
    return L, jnp.where(converged, L_dot, 0.0)


def _richardson(matvec: Any, b: Array) -> Array:
    """x with matvec(x) = b. Converges as fast as the sweeps did, for it is their linearisation;
    the bound on its steps is there only so that it ends."""

    def not_done(carry: Any) -> Any:
        _, residual, i = carry
        return (jnp.linalg.norm(residual) > 1e-13 * jnp.linalg.norm(b)) & (i < 100_000)

    def improve(carry: Any) -> Any:
        x, residual, i = carry
        x = x + residual
        return x, b - matvec(x), i + 1

    x, _, _ = lax.while_loop(not_done, improve, (jnp.zeros_like(b), b, 0))
    return x
