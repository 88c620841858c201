"""The agent's policy: Todorov's alternation (appendix B of the paper).

A backward pass gives the control gains L that are best for the filter gains K, a forward pass
the filter gains that are best for L, until neither changes. One such round is a sweep.

Sweeps settle slowly where motor noise matters much, so each starts not from the last gains but
from the best combination of the last few (`fixed_point`), unless that costs more than the last.

Derivatives do not follow the sweeps: at the fixed point L = backward(K) and K = forward(L), and
the implicit function theorem gives dL and dK from a linear equation, in forward and in reverse
mode and to any order.

Problems may have lanes: many side by side, along axes after those of the matrices.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool, Float, Int

from motorcost import checks
from motorcost.errors import ConvergenceError, InputError
from motorcost.model.problem import Problem
from motorcost.numerics.fixed_point import Acceleration, solve_linear
from motorcost.numerics.linalg import (
    RANK_TOLERANCE,
    batch_size,
    congruence,
    diagonal,
    is_definite,
    map_leading_axis,
    mm,
    mmT,
    semidefinite_cholesky,
    solve_least,
    solve_semidefinite,
    symmetrised,
    transposed,
)

Gains = Float[Array, "steps m n *lanes"]
FilterGains = Float[Array, "steps n k *lanes"]


class Policy(eqx.Module):
    """What the agent does: u = -L xh, xh' = A^ xh + B^ u + K (y - H^ xh) + E eta.

    - `L` (T-1, controls, states) and `K` (T-1, states, senses): the gains.
    - `believed`: the problem the agent thinks it has, with its A^, B^ and H^.
    - `expected_cost`: what the agent expects to pay, exactly, if its beliefs are right; see
      `motorcost.expected_cost` for what it pays in another world.
    - `converged`: whether the gains settled; `sweeps`: after how many sweeps.
    - `iteration_costs`: the expected cost of the gains tried in each sweep, NaN after the last one.
    """

    L: Gains
    K: FilterGains
    believed: Problem
    expected_cost: Float[Array, "*lanes"]
    iterations: Int[Array, "*lanes"]
    converged: Bool[Array, "*lanes"]
    iteration_costs: Float[Array, "max_iterations *lanes"]

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
        if not checks.is_concrete(self.converged) or self.converged.ndim:
            return f"Policy(L={self.L.shape}, K={self.K.shape})"
        state = "settled" if self.converged else "did not settle"
        return (
            f"Policy: expected cost {float(self.expected_cost):.10g}, gains {state} "
            f"in {int(self.iterations)} sweeps"
        )


# When the gains count as settled, and how many sweeps they are given.
TOLERANCE = 1e-10
MAX_ITERATIONS = 500
# Costs that differ by less than this are the same.
_COST_ROUNDING = 1e-12


def solve(
    problem: Problem,
    *,
    tolerance: float = TOLERANCE,
    max_iterations: int = MAX_ITERATIONS,
    throw: bool = True,
) -> Policy:
    """The best linear policy for what the agent believes.

    Sweeps until the gains stop changing: until what one more sweep would do to any control is less
    than `tolerance` of that control's size. If that does not happen within `max_iterations`, raises
    `ConvergenceError`; with `throw=False`, and always inside `jit`, `vmap` and `grad`, returns
    a policy with `converged` false (and gains that are finite all the same). There, `converged`
    is false too for costs and covariances that are not positive (semi)definite.

    Derivatives hold fixed what has no variance at all: a noise or spread that is exactly zero is
    taken as known to be zero.
    """
    if not isinstance(problem, Problem):
        raise InputError(f"solve needs a Problem, got {problem!r}: call the task to make one")
    checks.positive(tolerance=tolerance)
    checks.whole("max_iterations", max_iterations, 1, "the most sweeps to try")
    policy = _solve(problem.as_believed, tolerance, max_iterations)
    concrete = all(checks.is_concrete(leaf) for leaf in (policy.converged, policy.expected_cost))
    if throw and concrete and not policy.converged:
        raise ConvergenceError(_why(policy, max_iterations))
    return policy


def solve_each(problems: Problem) -> Policy:
    """The policies of problems that are stacked along the first axis, as `solve` would find them
    with `throw=False`: side by side, as many at a time as is fastest."""

    def side_by_side(problems: Problem) -> Policy:
        lanes_last = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), problems)
        policies = _solve(lanes_last.as_believed, TOLERANCE, MAX_ITERATIONS)
        return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), policies)

    count, _, n, _ = problems.B.shape
    if count == 1:
        return map_leading_axis(partial(solve, throw=False), problems)
    blocks = -(-count // batch_size(n))
    if blocks == 1:
        return side_by_side(problems)
    size = -(-count // blocks)
    pad = blocks * size - count

    def in_blocks(leaf: Array) -> Array:
        filled = jnp.concatenate([leaf, jnp.broadcast_to(leaf[-1:], (pad, *leaf.shape[1:]))])
        return filled.reshape(blocks, size, *leaf.shape[1:])

    policies = lax.map(side_by_side, jax.tree.map(in_blocks, problems))
    return jax.tree.map(lambda leaf: leaf.reshape(blocks * size, *leaf.shape[2:])[:count], policies)


def _why(policy: Policy, max_iterations: int) -> str:
    cost, sweeps = float(policy.expected_cost), int(policy.iterations)
    if sweeps < max_iterations:
        return (
            f"the expected cost grew beyond all numbers in sweep {sweeps}: numbers are too large, "
            "the world is too unstable, or its noise that grows with control and state (C, D) is "
            "too strong for any linear policy"
        )
    return (
        f"the gains did not settle within {max_iterations} iterations (expected cost {cost:.6g} "
        "after the last): raise max_iterations, or the tolerance if rounding limits it, as it "
        "does where senses are almost without noise"
    )


@partial(jax.jit, static_argnames="max_iterations")
def _solve(problem: Problem, tolerance: float | Float[Array, ""], max_iterations: int) -> Policy:
    quiet, within = lax.stop_gradient((problem, tolerance))
    last = lax.stop_gradient(_sweep_until_settled(quiet, within, max_iterations))
    settled = last.settled & _makes_sense(quiet)
    # Where the sweeps failed, what follows runs on a world of zeros: its results are not used,
    # and its derivatives are zero instead of NaN.
    solved = jax.tree.map(lambda leaf: jnp.where(settled, leaf, 0.0), problem)
    L, K = _differentiable(solved, last.L, last.K, settled)
    cost = forward_pass(solved, L).cost
    return Policy(
        L=L,
        K=K,
        believed=problem,
        expected_cost=jnp.where(settled, cost, last.cost),
        iterations=last.iterations,
        converged=settled,
        iteration_costs=last.costs,
    )


def backward_pass(problem: Problem, K: FilterGains) -> Gains:
    """The control gains that are best for these filter gains."""
    p = problem

    def step(carry: Any, at: Any) -> Any:
        Px, Pe = carry  # what a unit of state, and of estimation error, will cost
        A, B, C, H, D, Q, R, K = at
        PxA, PxB = mm(Px, A), mm(Px, B)
        M = R + mm(transposed(B), PxB)
        for i in range(C.shape[0]):
            M = M + congruence(transposed(C[i]), Px + Pe)
        BPA = mm(transposed(B), PxA)
        # R is positive definite, so there is no zero to look out for.
        L = solve_semidefinite(symmetrised(M), BPA, jnp.zeros_like(M[0]))
        saved = mm(transposed(BPA), L)
        Px_next = Q + mm(transposed(A), PxA) - saved
        Pe_next = saved + congruence(transposed(A - mm(K, H)), Pe)
        if D.shape[0]:
            KPK = congruence(transposed(K), Pe)
            for j in range(D.shape[0]):
                Px_next = Px_next + congruence(transposed(D[j]), KPK)
        return (symmetrised(Px_next), symmetrised(Pe_next)), L

    end = (p.Q[-1], jnp.zeros_like(p.Q[-1]))
    _, L = lax.scan(step, end, (p.A, p.B, p.C, p.H, p.D, p.Q[:-1], p.R, K), reverse=True)
    return L


class Forward(NamedTuple):
    """What a forward pass finds: the filter gains, the pair's expected cost, and the mean square
    of the estimates xh at each step."""

    K: FilterGains
    cost: Float[Array, "*lanes"]
    estimates: Float[Array, "steps n n *lanes"]


def forward_pass(problem: Problem, L: Gains) -> Forward:
    """The filter gains that are best for these control gains."""
    p = problem
    # Senses without any noise leave no error in what they see. Then many gains are equally good,
    # of which the least must be taken: others blow up what rounding leaves.
    noiseless = p.W.shape[2] == 0 and p.D.shape[1] == 0
    # An estimate without noise of its own is uncorrelated with its error, for the filter is the
    # best one: then there is nothing between the two to follow.
    uncorrelated = p.E.shape[2] == 0

    def step(carry: Any, at: Any) -> Any:
        # Second moments, means included: of the error e = x - xh, of the estimate xh, and
        # between the two.
        Se, Sh, She = carry
        A, B, C, V, H, W, D, E, Q, R, L = at
        Sx = Se + Sh if uncorrelated else Se + Sh + She + transposed(She)
        sense_noise = mmT(W, W)
        for j in range(D.shape[0]):
            sense_noise = sense_noise + congruence(D[j], Sx)
        HSe = mm(H, Se)
        M = symmetrised(mmT(HSe, H) + sense_noise)
        sensed = (mm(H, Sx) * H).sum(axis=1)
        solve = solve_least if noiseless else solve_semidefinite
        floor = RANK_TOLERANCE * jnp.maximum(sensed, 0.0)
        K = transposed(solve(M, mmT(HSe, A), floor))

        # The paper shortens these with the formula for K. Written out they hold for any K
        # and stay positive semidefinite whatever the rounding.
        A_L, A_K = A - mm(B, L), A - mm(K, H)
        EE = mmT(E, E)
        uu = congruence(L, Sh)
        KNK = congruence(K, sense_noise)
        Se_next = congruence(A_K, Se) + KNK + mmT(V, V) + EE
        for i in range(C.shape[0]):
            Se_next = Se_next + congruence(C[i], uu)
        Sh_next = congruence(A_L, Sh) + congruence(K, M) + EE
        She_next = She
        if not uncorrelated:
            across = mm(A_L, She)
            cross = mmT(mmT(across, H), K)
            Sh_next = Sh_next + cross + transposed(cross)
            She_next = mmT(across + mm(K, HSe), A_K) - KNK - EE
        cost = jnp.sum(Q * Sx, axis=(0, 1)) + jnp.sum(R * uu, axis=(0, 1))
        if noiseless:
            Sx_next = Se_next + Sh_next + She_next + transposed(She_next)
            Se_next = _without_rounding(Se_next, Sx_next)
        after = (symmetrised(Se_next), symmetrised(Sh_next), She_next)
        return after, (K, cost, Sh)

    m1 = p.initial_belief
    start = (
        p.initial_state_cov,
        m1[:, None] * m1[None, :] + p.initial_belief_cov,
        jnp.zeros_like(p.initial_state_cov),
    )
    each_step = (p.A, p.B, p.C, p.V, p.H, p.W, p.D, p.E, p.Q[:-1], p.R, L)
    (Se, Sh, She), (K, costs, estimates) = lax.scan(step, start, each_step)
    at_end = jnp.sum(p.Q[-1] * (Se + Sh + She + transposed(She)), axis=(0, 1))
    return Forward(K, jnp.sum(costs, axis=0) + at_end, estimates)


def _without_rounding(
    Se: Float[Array, "n n *lanes"], Sx: Float[Array, "n n *lanes"]
) -> Float[Array, "n n *lanes"]:
    """Se without the directions in which only rounding is left of it.

    Which errors are zero decides the next gains, and only the size of the states tells a zero
    from a small number; left alone, rounding would grow until it looks like one.
    """
    floor = RANK_TOLERANCE * jnp.maximum(diagonal(Sx), 0.0)
    L = semidefinite_cholesky(lax.stop_gradient(symmetrised(Se)), lax.stop_gradient(floor))
    return symmetrised(Se) + lax.stop_gradient(mmT(L, L) - symmetrised(Se))


class _Progress(NamedTuple):
    L: Gains
    K: FilterGains
    cost: Float[Array, "*lanes"]
    estimates: Float[Array, "steps n n *lanes"]
    acceleration: Acceleration
    iterations: Int[Array, "*lanes"]
    settled: Bool[Array, "*lanes"]
    finite: Bool[Array, "*lanes"]
    costs: Float[Array, "max_iterations *lanes"]


def _sweep_until_settled(problem: Problem, tolerance: Any, max_iterations: int) -> _Progress:
    """The last sweep's gains, or the last finite ones if they grow beyond all bounds.

    The first sweep knows no signal-dependent noise and no filter: it finds the plain
    linear-quadratic regulator, a start that is finite and stable wherever the problem can be
    controlled at all.
    """
    p = problem
    lanes = p.dt.shape

    def active(so_far: _Progress) -> Bool[Array, "*lanes"]:
        return (so_far.iterations < max_iterations) & ~so_far.settled & so_far.finite

    # Plain sweeps make the cost less each time, unless the estimate has noise of its own. Combined
    # ones need not, and could end on a saddle: where the cost grows, go back and take a plain one.
    descends = p.E.shape[2] == 0

    def grows(
        cost: Float[Array, "*lanes"], before: Float[Array, "*lanes"]
    ) -> Bool[Array, "*lanes"]:
        return (cost > before * (1 + _COST_ROUNDING)) & descends

    def sweep(so_far: _Progress) -> _Progress:
        first = so_far.iterations == 0
        quiet = eqx.tree_at(
            lambda p: (p.C, p.D), p, [jnp.where(first, 0.0, noise) for noise in (p.C, p.D)]
        )
        L = backward_pass(quiet, so_far.K)
        change = _change(L - so_far.L, L, so_far.estimates)
        settled = first if _separates(p) else ~first & (change <= tolerance)
        tried, acceleration = so_far.acceleration.next(so_far.L, L, so_far.iterations.max())
        # The first sweep was of another problem: nothing is to be learnt from it.
        acceleration = acceleration.forgotten(first)
        tried = jnp.where(settled, L, tried)
        forward = forward_pass(p, tried)
        finite = (
            jnp.isfinite(forward.cost)
            & jnp.isfinite(tried).all(axis=(0, 1, 2))
            & jnp.isfinite(forward.K).all(axis=(0, 1, 2))
        )
        combined = ((tried != L) & jnp.isfinite(L)).any(axis=(0, 1, 2))
        refused = combined & (~finite | grows(forward.cost, so_far.cost))
        now = active(so_far)
        kept = now & finite & ~refused

        def where(new: Any, old: Any) -> Any:
            return jax.tree.map(lambda a, b: jnp.where(kept, a, b), new, old)

        here = jnp.arange(max_iterations).reshape(-1, *[1] * len(lanes)) == so_far.iterations
        return _Progress(
            L=where(tried, so_far.L),
            K=where(forward.K, so_far.K),
            cost=where(forward.cost, so_far.cost),
            estimates=where(forward.estimates, so_far.estimates),
            acceleration=where(acceleration, so_far.acceleration.forgotten(refused)),
            iterations=so_far.iterations + now,
            settled=so_far.settled | (kept & settled),
            finite=so_far.finite & (finite | refused | ~now),
            costs=jnp.where(here & now & finite, forward.cost, so_far.costs),
        )

    steps, n, m, *_ = p.B.shape
    k = p.H.shape[1]
    L = jnp.zeros((steps, m, n, *lanes))
    start = _Progress(
        L=L,
        K=jnp.zeros((steps, n, k, *lanes)),
        cost=jnp.full(lanes, jnp.inf),
        estimates=jnp.zeros((steps, n, n, *lanes)),
        acceleration=Acceleration.empty(L),
        iterations=jnp.zeros(lanes, int),
        settled=jnp.zeros(lanes, bool),
        finite=jnp.ones(lanes, bool),
        costs=jnp.full((max_iterations, *lanes), jnp.nan),
    )
    return lax.while_loop(lambda so_far: active(so_far).any(), sweep, start)


def _separates(problem: Problem) -> bool:
    """Whether neither gain depends on the other: without signal-dependent noise, control and
    estimation are separate problems, and a single sweep solves both."""
    return problem.C.shape[1] == 0 and problem.D.shape[1] == 0


def _change(
    dL: Gains, L: Gains, estimates: Float[Array, "steps n n *lanes"]
) -> Float[Array, "*lanes"]:
    """How much a change of the gains would be noticed: the root mean square change of each
    control, over that control's largest. So units do not matter, nor gains on what is always
    zero."""

    def mean_square(gains: Array) -> Array:
        return (jax.vmap(mm)(gains, estimates) * gains).sum(axis=2)  # (steps, m, *lanes)

    largest = mean_square(L).max(axis=0)
    changes = mean_square(dL).max(axis=0)
    relative = jnp.where(largest > 0, changes / jnp.where(largest > 0, largest, 1.0), 0.0)
    return jnp.sqrt(jnp.maximum(relative.max(axis=0), 0.0))


def _makes_sense(problem: Problem) -> Bool[Array, "*lanes"]:
    """Whether costs and spreads are what they must be. Checked when a problem is made, but for
    the values that were not known then."""
    p = problem
    spreads = jnp.stack([p.initial_belief_cov, p.initial_state_cov], axis=2)
    Q, R = jnp.moveaxis(p.Q, 0, 2), jnp.moveaxis(p.R, 0, 2)
    semidefinite = [is_definite(each, semi=True).all(axis=0) for each in (Q, spreads)]
    return semidefinite[0] & semidefinite[1] & is_definite(R).all(axis=0)


@jax.custom_jvp
def _differentiable(
    problem: Problem, L: Gains, K: FilterGains, converged: Bool[Array, "*lanes"]
) -> tuple[Gains, FilterGains]:
    """L and K themselves, with L = backward(K) and K = forward(L), and their derivatives by the
    problem."""
    return L, K


def _implicit_derivative(primals: Any, tangents: Any) -> Any:
    problem, L, K, converged = primals
    # Most parts of a problem do not depend on what is free: leave them out, for each that stays
    # makes the program longer.
    leaves, tree = jax.tree.flatten(problem)
    dots = jax.tree.leaves(tangents[0], is_leaf=lambda leaf: isinstance(leaf, SymbolicZero))
    moving = [i for i, dot in enumerate(dots) if not isinstance(dot, SymbolicZero)]
    some, some_dot = [leaves[i] for i in moving], [dots[i] for i in moving]

    def moved(some: Any) -> Problem:
        by_index = dict(zip(moving, some, strict=True))
        return jax.tree.unflatten(tree, [by_index.get(i, leaf) for i, leaf in enumerate(leaves)])

    # Called again here, so that the derivative can itself be differentiated.
    L, K = _differentiable(problem, L, K, converged)
    _, backward = jax.linearize(lambda some, K: backward_pass(moved(some), K), some, K)
    _, forward = jax.linearize(lambda some, L: forward_pass(moved(some), L).K, some, L)
    still = jax.tree.map(jnp.zeros_like, some)
    L_dot = backward(some_dot, forward(some_dot, jnp.zeros_like(L)))
    if not _separates(problem):
        L_dot = lax.custom_linear_solve(
            lambda v: v - backward(still, forward(still, v)),
            L_dot,
            solve_linear,
            transpose_solve=solve_linear,
        )
    L_dot = jnp.where(converged, L_dot, 0.0)
    return (L, K), (L_dot, jnp.where(converged, forward(some_dot, L_dot), 0.0))


_differentiable.defjvp(_implicit_derivative, symbolic_zeros=True)
