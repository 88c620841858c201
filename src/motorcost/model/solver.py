"""Find the agent's policy by Todorov's alternation (appendix B of the paper).

A backward pass gives the control gains L that are optimal for the filter gains K, a forward pass
the filter gains that are optimal for L (`passes`). Both together are one iteration; iterations go
on until the gains no longer change.

Iterations converge slowly where motor noise is strong. Therefore an iteration starts not from the
last control gains but from a combination of the last few (`numerics.anderson`), unless that
combination costs more than the last gains.

Derivatives do not follow the iterations: at the fixed point L = backward(K) and K = forward(L), and
the implicit function theorem gives dL and dK from a linear equation, in forward and in reverse
mode and to any order.

Problems may have a batch on the last axes, after those of the matrices.
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
from motorcost.model.passes import backward_pass, forward_pass
from motorcost.model.policy import FilterGains, Gains, Policy
from motorcost.model.problem import Problem
from motorcost.numerics.anderson import Acceleration
from motorcost.numerics.linalg import batch_size, is_definite, map_leading_axis, mm
from motorcost.numerics.linear_equations import solve_linear

# The iterations have converged if another one would change no control by more than this fraction
# of its size.
TOLERANCE = 1e-10

# The default limit on the number of iterations. At 200 points of its parameters' supports the
# reaching task needed at most 40 (benchmarks/iterations.py).
MAX_ITERATIONS = 500

# Expected costs that differ by less than this fraction are equal up to rounding.
_COST_ROUNDING = 1e-12


def solve(
    problem: Problem,
    *,
    tolerance: float = TOLERANCE,
    max_iterations: int = MAX_ITERATIONS,
    throw: bool = True,
) -> Policy:
    """Find the optimal linear policy for the problem that the agent believes in.

    **Arguments:**

    - `tolerance`: the iterations stop when another one would change no control by more than this
      fraction of its size (root mean square over trials).
    - `max_iterations`: the largest number of iterations.
    - `throw`: whether to raise a `ConvergenceError` if the iterations do not converge. With
      `throw=False`, and always inside `jit`, `vmap` and `grad`, the policy is returned with
      `converged` false; its gains are finite all the same. There, `converged` is also false for
      costs and covariances that are not positive (semi)definite.

    Derivatives treat a noise or spread that is exactly zero as known to be zero: directions
    without any variance are held fixed.
    """
    if not isinstance(problem, Problem):
        raise InputError(
            f"solve needs a Problem, got {problem!r}: a task is a function that returns one, as in "
            "mc.solve(mc.tasks.reaching())"
        )
    checks.positive(tolerance=tolerance)
    checks.whole("max_iterations", max_iterations, 1, "the largest number of iterations")
    policy = _solve(problem.as_believed, tolerance, max_iterations)
    concrete = all(checks.is_concrete(leaf) for leaf in (policy.converged, policy.expected_cost))
    if throw and concrete and not policy.converged:
        raise ConvergenceError(_failure(policy, max_iterations))
    return policy


def solve_each(problems: Problem) -> Policy:
    """Solve problems that are stacked along the first axis, as `solve(..., throw=False)` would.

    They are solved in batches of the size that is fastest, and the policies are stacked along the
    first axis as well.
    """

    def solve_batch(problems: Problem) -> Policy:
        batch_last = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), problems)
        policies = _solve(batch_last.as_believed, TOLERANCE, MAX_ITERATIONS)
        return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), policies)

    count, _, n, _ = problems.B.shape
    if count == 1:
        return map_leading_axis(partial(solve, throw=False), problems)
    batches = -(-count // batch_size(n))
    if batches == 1:
        return solve_batch(problems)
    size = -(-count // batches)
    padding = batches * size - count

    def in_batches(leaf: Array) -> Array:
        # The last batch is filled up with copies of the last problem.
        copies = jnp.broadcast_to(leaf[-1:], (padding, *leaf.shape[1:]))
        return jnp.concatenate([leaf, copies]).reshape(batches, size, *leaf.shape[1:])

    policies = lax.map(solve_batch, jax.tree.map(in_batches, problems))
    return jax.tree.map(
        lambda leaf: leaf.reshape(batches * size, *leaf.shape[2:])[:count], policies
    )


def _failure(policy: Policy, max_iterations: int) -> str:
    cost, iterations = float(policy.expected_cost), int(policy.iterations)
    if iterations < max_iterations:
        return (
            f"the expected cost overflowed in iteration {iterations}: the numbers are too large, "
            "the world is too unstable, or its noise that grows with control and state (C, D) is "
            "too strong for any linear policy"
        )
    return (
        f"the gains did not converge within {max_iterations} iterations (the last expected cost "
        f"is {cost:.6g}): raise max_iterations, or the tolerance if rounding limits it, as it "
        "does where senses are almost without noise"
    )


@partial(jax.jit, static_argnames="max_iterations")
def _solve(problem: Problem, tolerance: float | Float[Array, ""], max_iterations: int) -> Policy:
    constant, constant_tolerance = lax.stop_gradient((problem, tolerance))
    last = lax.stop_gradient(_iterate(constant, constant_tolerance, max_iterations))
    converged = last.converged & _is_valid(constant)
    # Where the iterations failed, what follows runs on a problem of zeros: its results are not
    # used, and its derivatives are zero instead of NaN.
    solved = jax.tree.map(lambda leaf: jnp.where(converged, leaf, 0.0), problem)
    L, K = _differentiable(solved, last.L, last.K, converged)
    cost = forward_pass(solved, L).cost
    return Policy(
        L=L,
        K=K,
        believed=problem,
        expected_cost=jnp.where(converged, cost, last.cost),
        iterations=last.iterations,
        converged=converged,
        iteration_costs=last.costs,
    )


class _Progress(NamedTuple):
    """The state of the iterations: the last accepted gains, and what is known of them."""

    L: Gains
    K: FilterGains
    cost: Float[Array, "*batch"]
    estimates: Float[Array, "steps n n *batch"]
    acceleration: Acceleration
    iterations: Int[Array, "*batch"]
    converged: Bool[Array, "*batch"]
    finite: Bool[Array, "*batch"]
    costs: Float[Array, "max_iterations *batch"]

    def active(self, max_iterations: int) -> Bool[Array, "*batch"]:
        """Which elements of the batch go on."""
        return (self.iterations < max_iterations) & ~self.converged & self.finite


def _iterate(problem: Problem, tolerance: Any, max_iterations: int) -> _Progress:
    """Iterate until the gains converge; if they overflow, up to the last finite ones."""
    return lax.while_loop(
        lambda progress: progress.active(max_iterations).any(),
        partial(_iteration, problem, tolerance, max_iterations),
        _first_progress(problem, max_iterations),
    )


def _first_progress(p: Problem, max_iterations: int) -> _Progress:
    batch = p.dt.shape
    steps, n, m, *_ = p.B.shape
    L = jnp.zeros((steps, m, n, *batch))
    return _Progress(
        L=L,
        K=jnp.zeros((steps, n, p.H.shape[1], *batch)),
        cost=jnp.full(batch, jnp.inf),
        estimates=jnp.zeros((steps, n, n, *batch)),
        acceleration=Acceleration.empty(L),
        iterations=jnp.zeros(batch, int),
        converged=jnp.zeros(batch, bool),
        finite=jnp.ones(batch, bool),
        costs=jnp.full((max_iterations, *batch), jnp.nan),
    )


def _iteration(
    problem: Problem, tolerance: Any, max_iterations: int, progress: _Progress
) -> _Progress:
    """A backward pass, acceleration, and a forward pass.

    The first backward pass is that of the problem without signal-dependent noise and without a
    filter: it finds the linear-quadratic regulator, a start that is finite and stable wherever the
    problem can be controlled at all.
    """
    p = problem
    first = progress.iterations == 0
    without_noise = [jnp.where(first, 0.0, noise) for noise in (p.C, p.D)]
    L = backward_pass(eqx.tree_at(lambda p: (p.C, p.D), p, without_noise), progress.K)
    change = _change(L - progress.L, L, progress.estimates)
    converged = first if _separates(p) else ~first & (change <= tolerance)
    tried, acceleration = progress.acceleration.next(progress.L, L, progress.iterations.max())
    # The first pass was that of another problem, so it must not enter the history.
    acceleration = acceleration.without_history(first)
    tried = jnp.where(converged, L, tried)
    forward = forward_pass(p, tried)
    finite = (
        jnp.isfinite(forward.cost)
        & jnp.isfinite(tried).all(axis=(0, 1, 2))
        & jnp.isfinite(forward.K).all(axis=(0, 1, 2))
    )
    # A plain iteration never raises the cost, unless the estimate has noise of its own (E). An
    # accelerated one may, and could then converge to a saddle of the cost: where the cost rises,
    # the gains are refused, and the next iteration is a plain one from the last accepted gains.
    rises = (forward.cost > progress.cost * (1 + _COST_ROUNDING)) & (p.E.shape[2] == 0)
    accelerated = ((tried != L) & jnp.isfinite(L)).any(axis=(0, 1, 2))
    refused = accelerated & (~finite | rises)
    active = progress.active(max_iterations)
    accepted = active & finite & ~refused

    def where_accepted(new: Any, old: Any) -> Any:
        return jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, old)

    numbers = jnp.arange(max_iterations).reshape(-1, *[1] * first.ndim)
    this_iteration = numbers == progress.iterations
    return _Progress(
        L=where_accepted(tried, progress.L),
        K=where_accepted(forward.K, progress.K),
        cost=where_accepted(forward.cost, progress.cost),
        estimates=where_accepted(forward.estimates, progress.estimates),
        acceleration=where_accepted(acceleration, progress.acceleration.without_history(refused)),
        iterations=progress.iterations + active,
        converged=progress.converged | (accepted & converged),
        finite=progress.finite & (finite | refused | ~active),
        costs=jnp.where(this_iteration & active & finite, forward.cost, progress.costs),
    )


def _separates(problem: Problem) -> bool:
    """Whether control and estimation are separate problems, which a single iteration solves.

    They are without signal-dependent noise: then neither gain depends on the other.
    """
    return problem.C.shape[1] == 0 and problem.D.shape[1] == 0


def _change(
    dL: Gains, L: Gains, estimates: Float[Array, "steps n n *batch"]
) -> Float[Array, "*batch"]:
    """The largest change of a control that a change of the gains makes, relative to its size.

    Both are root mean squares over trials, the size the largest over time. Therefore neither units
    matter nor gains on states that are always zero.
    """

    def mean_square(gains: Array) -> Array:
        return (jax.vmap(mm)(gains, estimates) * gains).sum(axis=2)  # (steps, m, *batch)

    largest = mean_square(L).max(axis=0)
    changes = mean_square(dL).max(axis=0)
    relative = jnp.where(largest > 0, changes / jnp.where(largest > 0, largest, 1.0), 0.0)
    return jnp.sqrt(jnp.maximum(relative.max(axis=0), 0.0))


def _is_valid(problem: Problem) -> Bool[Array, "*batch"]:
    """Whether costs and covariances are positive (semi)definite.

    A `Problem` checks this when it is made, but only for values that are concrete then.
    """
    p = problem
    covariances = jnp.stack([p.initial_belief_cov, p.initial_state_cov], axis=2)
    Q, R = jnp.moveaxis(p.Q, 0, 2), jnp.moveaxis(p.R, 0, 2)
    return (
        is_definite(Q, semi=True).all(axis=0)
        & is_definite(covariances, semi=True).all(axis=0)
        & is_definite(R).all(axis=0)
    )


@jax.custom_jvp
def _differentiable(
    problem: Problem, L: Gains, K: FilterGains, converged: Bool[Array, "*batch"]
) -> tuple[Gains, FilterGains]:
    """L and K themselves, which satisfy L = backward(K) and K = forward(L), with derivatives with
    respect to the problem."""
    return L, K


def _implicit_derivative(primals: Any, tangents: Any) -> Any:
    """The derivative of the fixed point: dL = backward'(dp, dK) and dK = forward'(dp, dL).

    Eliminating dK leaves the linear equation dL - backward'(0, forward'(0, dL)) =
    backward'(dp, forward'(dp, 0)), solved here without forming its matrix.
    """
    problem, L, K, converged = primals
    # Most matrices of a problem do not depend on the free parameters. Their tangents are symbolic
    # zeros, and leaving them out makes the program much shorter.
    leaves, tree = jax.tree.flatten(problem)
    dots = jax.tree.leaves(tangents[0], is_leaf=lambda leaf: isinstance(leaf, SymbolicZero))
    varying = [i for i, dot in enumerate(dots) if not isinstance(dot, SymbolicZero)]
    values, values_dot = [leaves[i] for i in varying], [dots[i] for i in varying]

    def with_values(values: Any) -> Problem:
        by_index = dict(zip(varying, values, strict=True))
        return jax.tree.unflatten(tree, [by_index.get(i, leaf) for i, leaf in enumerate(leaves)])

    # Called again here, so that the derivative can itself be differentiated.
    L, K = _differentiable(problem, L, K, converged)
    _, backward = jax.linearize(lambda values, K: backward_pass(with_values(values), K), values, K)
    _, forward = jax.linearize(lambda values, L: forward_pass(with_values(values), L).K, values, L)
    fixed = jax.tree.map(jnp.zeros_like, values)
    L_dot = backward(values_dot, forward(values_dot, jnp.zeros_like(L)))
    if not _separates(problem):
        L_dot = lax.custom_linear_solve(
            lambda v: v - backward(fixed, forward(fixed, v)),
            L_dot,
            solve_linear,
            transpose_solve=solve_linear,
        )
    L_dot = jnp.where(converged, L_dot, 0.0)
    return (L, K), (L_dot, jnp.where(converged, forward(values_dot, L_dot), 0.0))


_differentiable.defjvp(_implicit_derivative, symbolic_zeros=True)
