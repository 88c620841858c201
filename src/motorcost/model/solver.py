"""Find the agent's policy, by Todorov's alternation (appendix B of the paper) and what corrects it.

Iterations (`alternation`) find gains that satisfy L = backward(K) and K = forward(L), a minimum of
the expected cost; where there may be several, they are repeated from other starts and the lowest
minimum is taken (`minima`). Noise in the agent's estimate makes these gains suboptimal; methods
that take it into account start from them, and have a backward and a forward pass of their own
(`descent`).

Derivatives do not follow the iterations: at the fixed point L = backward(K) and K = forward(L), and
the implicit function theorem gives dL and dK from a linear equation, in forward and in reverse
mode and to any order.

Problems may have a batch on the last axes, after those of the matrices.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool

from motorcost import checks
from motorcost.errors import ConvergenceError, InputError
from motorcost.model.alternation import separates
from motorcost.model.descent import (
    Controller,
    Descent,
    Estimator,
    Scale,
    controller,
    descend,
    estimator,
    is_corrected,
)
from motorcost.model.minima import Accuracy, Found, lowest_minimum, only_minimum
from motorcost.model.passes import forward_pass
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.numerics.compiling import lean_jit
from motorcost.numerics.linalg import batch_size, is_definite, map_batches, map_leading_axis
from motorcost.numerics.linear_equations import Unknown, solve_linear

# The iterations have converged if another one would change no control by more than this fraction
# of its size.
TOLERANCE = 1e-10

# What policies are looked for with, unless a search can do with less: then derivatives are right to
# about five digits, and the policy may be that of another minimum where there are several.
EXACT = Accuracy(TOLERANCE, derivative=1e-13, every_start=True)
ROUGH = Accuracy(1e-7, derivative=1e-5, every_start=False)

# The default limit on the number of iterations from a start. At 200 points of its parameters'
# supports the reaching task needed at most 40 (benchmarks/iterations.py).
MAX_ITERATIONS = 500


def solve(
    problem: Problem,
    *,
    method: str | None = None,
    tolerance: float = TOLERANCE,
    max_iterations: int = MAX_ITERATIONS,
    throw: bool = True,
) -> Policy:
    """Find the optimal linear policy for the problem that the agent believes in.

    With strong signal-dependent noise the expected cost can have several minima. The policy is the
    lowest of those that a fixed set of starts leads to: the regulator of the problem without
    signal-dependent noise and, unless the iterations from there converge fast, the minimum found
    from there with four times the motor noise, the same with a tenth of the senses' noise, and an
    agent without senses with half the motor noise. `policy.minima` has the costs of the minima. As
    the problem changes, another one can become the lowest: there the expected cost is continuous,
    but the policy, and with it the likelihood, jumps.

    **Arguments:**

    - `method`: how the policy is found, if not by the problem's own method. The methods differ only
      if there is noise in the agent's estimate (E), which makes E[x | xh] differ from xh.
      "alternation" is Todorov's, which neglects the difference. "calibrated" takes it into account:
      control gains are optimal for the filter gains, and filter gains make the error of the
      estimate least. "optimal" takes both gains to be those with the least expected cost; there may
      be no such policy, because the cost can go on falling as filter gains grow without bound.
    - `tolerance`: the iterations stop when another one would change no control by more than this
      fraction of its size (root mean square over trials).
    - `max_iterations`: the largest number of iterations from each start, and of those that begin
      with the alternation's result if the method is another one.
    - `throw`: whether to raise a `ConvergenceError` if the iterations do not converge. With
      `throw=False`, and always inside `jit`, `vmap` and `grad`, the policy is returned with
      `converged` false; its gains are finite all the same. There, `converged` is also false for
      costs and covariances that are not positive (semi)definite.

    Derivatives are those of the minimum that is taken. They treat a noise or spread that is exactly
    zero as known to be zero: directions without any variance are held fixed.

    Examples
    --------
    >>> policy = mc.solve(mc.tasks.reaching(steps=12))
    >>> bool(policy.converged), policy.L.shape, policy.K.shape
    (True, (11, 1, 5), (11, 5, 3))
    """
    if not isinstance(problem, Problem):
        raise InputError(
            f"solve needs a Problem, got {problem!r}: a task is a function that returns one, as in "
            "mc.solve(mc.tasks.reaching())"
        )
    checks.positive(tolerance=tolerance)
    checks.whole("max_iterations", max_iterations, 1, "the largest number of iterations")
    if method is not None and method != problem.as_believed.method:
        problem = problem.replace(method=method)
    policy = _solve(problem.as_believed, EXACT._replace(tolerance=tolerance), max_iterations)
    concrete = all(checks.is_concrete(leaf) for leaf in (policy.converged, policy.expected_cost))
    if throw and concrete and not policy.converged:
        raise ConvergenceError(_failure(policy, max_iterations))
    return policy


def solve_each(problems: Problem, accuracy: Accuracy = EXACT) -> Policy:
    """Solve problems that are stacked along the first axis, as `solve(..., throw=False)` would
    unless another accuracy is asked for.

    They are solved in batches of the size that is fastest, and the policies are stacked along the
    first axis as well.
    """

    def solve_batch(problems: Problem) -> Policy:
        batch_last = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), problems)
        policies = _solve(batch_last.as_believed, accuracy, MAX_ITERATIONS)
        return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), policies)

    count, _, n, _ = problems.B.shape
    if count == 1:
        return map_leading_axis(lambda p: _solve(p.as_believed, accuracy, MAX_ITERATIONS), problems)
    return map_batches(solve_batch, batch_size(n), problems)


def _failure(policy: Policy, max_iterations: int) -> str:
    cost, iterations = float(policy.expected_cost), int(policy.iterations)
    if policy.believed.method == "optimal" and math.isfinite(cost):
        return (
            f"no policy of least expected cost was found within {iterations} iterations (the last "
            f"expected cost is {cost:.6g}). With noise in the agent's estimate (E) there may be "
            "none: the cost can go on falling as filter gains grow without bound. "
            "method='calibrated' keeps the estimate close to the state instead"
        )
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


@partial(lean_jit, jit=jax.jit, static_argnames="max_iterations")
def _solve(problem: Problem, accuracy: Accuracy, max_iterations: int) -> Policy:
    constant, accuracy = lax.stop_gradient((problem, accuracy))
    lowest = lowest_minimum(constant, accuracy, max_iterations)
    found, minima = lax.stop_gradient(lowest)
    last: Found | Descent = found
    fixed_point = Controller(found.L), Estimator(found.K)
    if is_corrected(problem):
        descent = descend(constant, found.L, accuracy.tolerance, max_iterations)
        last = descent = lax.stop_gradient(descent)
        fixed_point = descent.controller, Estimator(descent.forward.K, descent.forward.bias)
        minima = only_minimum(descent.cost, descent.converged)
    converged = last.converged & _is_valid(constant)
    # Where the iterations failed, what follows runs on a problem of zeros: its results are not
    # used, and its derivatives are zero instead of NaN.
    solved = jax.tree.map(lambda leaf: jnp.where(converged, leaf, 0.0), problem)
    control, estimate = _differentiable(solved, *fixed_point, converged, accuracy.derivative)
    cost = forward_pass(solved, *control).cost
    return Policy(
        L=control.L,
        K=estimate.K,
        believed=problem,
        expected_cost=jnp.where(converged, cost, last.cost),
        iterations=last.iterations,
        converged=converged,
        iteration_costs=last.costs,
        minima=minima,
    )


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
    problem: Problem,
    control: Controller,
    estimate: Estimator,
    converged: Bool[Array, "*batch"],
    tolerance: Any,
) -> tuple[Controller, Estimator]:
    """Controller and estimator themselves, each of which is what a pass makes of the other, with
    derivatives with respect to the problem, up to `tolerance`."""
    return control, estimate


def _implicit_derivative(primals: Any, tangents: Any) -> Any:
    """The derivative of the fixed point: dL = backward'(dp, dK) and dK = forward'(dp, dL).

    Eliminating dK leaves the linear equation dL - backward'(0, forward'(0, dL)) =
    backward'(dp, forward'(dp, 0)), solved here without forming its matrix. L and K stand for all
    that one pass tells the other.
    """
    problem, control, estimate, converged, tolerance = primals
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
    control, estimate = _differentiable(problem, control, estimate, converged, tolerance)
    _, backward = jax.linearize(lambda v, e: controller(with_values(v), e), values, estimate)
    _, forward = jax.linearize(lambda v, c: estimator(with_values(v), c), values, control)
    fixed = jax.tree.map(jnp.zeros_like, values)
    right_side = backward(values_dot, forward(values_dot, jax.tree.map(jnp.zeros_like, control)))
    control_dot = right_side
    if is_corrected(problem) or not separates(problem):
        joined, parted = _as_unknown(problem, control)

        def residual(unknown: Unknown) -> Unknown:
            return unknown - joined(backward(fixed, forward(fixed, parted(unknown))))

        solver = partial(solve_linear, tolerance=tolerance)
        control_dot = parted(
            lax.custom_linear_solve(residual, joined(right_side), solver, transpose_solve=solver)
        )
    estimate_dot = forward(values_dot, _where(converged, control_dot))
    return (control, estimate), (_where(converged, control_dot), _where(converged, estimate_dot))


_differentiable.defjvp(_implicit_derivative, symbolic_zeros=True)


def _where(condition: Bool[Array, "*batch"], tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.where(condition, leaf, 0.0), tree)


def _as_unknown(problem: Problem, control: Controller) -> tuple[Any, Any]:
    """How a controller is written as the unknown of a linear equation, and back."""
    if not is_corrected(problem):
        return lambda control: control.L, Controller
    scale = Scale.of(control.L, forward_pass(problem, *control).estimates)
    return scale.joined, scale.parted
