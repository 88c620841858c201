"""Policies that take the noise in the agent's estimate (E) into account.

Todorov's alternation takes the estimate to be unbiased, E[x | xh] = xh. Noise in the estimate makes
that untrue (Damiani et al., NeurIPS 2024), and two methods do without it:

- "calibrated": control gains are optimal for the filter gains, with E[x | xh] as it is; filter
  gains make the error of the estimate least.
- "optimal": both gains make the expected cost least. Control gains are replaced backward in time
  and filter gains forward, one at a time, by the minimum of the exact expected cost with all other
  gains fixed. The cost is quadratic in each gain and can therefore only fall; where it no longer
  does, its derivative with respect to every gain is zero. There may be no such minimum: an estimate
  in larger numbers suffers less from noise that is added to it, so that the cost can go on falling
  as filter gains grow and control gains shrink.

Both start from the alternation's policy. Where a gain makes no difference, because the estimate has
no variance or no later control depends on it, it is the one for an unbiased estimate. As in the
alternation, an iteration starts from a combination of the last few results (`numerics.anderson`).

Problems may have a batch on the last axes, after those of the matrices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from motorcost.model.alternation import COST_ROUNDING, control_sizes, largest_change
from motorcost.model.passes import (
    Forward,
    Square,
    backward_pass,
    biased_backward_pass,
    forward_pass,
)
from motorcost.model.policy import FilterGains, Gains
from motorcost.model.problem import Problem
from motorcost.numerics.anderson import Acceleration
from motorcost.numerics.linalg import diagonal, mm
from motorcost.numerics.linear_equations import Unknown


def is_corrected(problem: Problem) -> bool:
    """Whether noise in the estimate is to be taken into account, and there is any."""
    return problem.method != "alternation" and problem.E.shape[2] > 0


class Controller(NamedTuple):
    """What a backward pass tells a forward pass; `wanted` is None unless it is needed."""

    L: Gains
    wanted: Square | None = None


class Estimator(NamedTuple):
    """What a forward pass tells a backward pass; `bias` is None unless it is needed."""

    K: FilterGains
    bias: Square | None = None


def controller(problem: Problem, estimator: Estimator) -> Controller:
    """The backward half of an iteration, by the problem's method."""
    if not is_corrected(problem):
        return Controller(backward_pass(problem, estimator.K))
    assert estimator.bias is not None
    L, wanted = biased_backward_pass(problem, estimator.K, estimator.bias)
    return Controller(L, wanted if problem.method == "optimal" else None)


def estimator(problem: Problem, controller: Controller) -> Estimator:
    """The forward half of an iteration, by the problem's method."""
    forward = forward_pass(problem, *controller)
    return Estimator(forward.K, forward.bias if is_corrected(problem) else None)


class Scale(NamedTuple):
    """The sizes of controls and states over the whole trial, as root mean squares: in these units
    gains are of similar size, whatever the units of the problem."""

    controls: Float[Array, "m *batch"]
    states: Float[Array, "n *batch"]

    @classmethod
    def of(cls, L: Gains, estimates: Square) -> Scale:
        """The sizes under a policy; 1 for what is always zero."""

        def root(mean_squares: Array) -> Array:
            return jnp.sqrt(jnp.where(mean_squares > 0, mean_squares, 1.0))

        states = jax.vmap(diagonal)(estimates).max(axis=0)
        return lax.stop_gradient(cls(root(control_sizes(L, estimates)), root(states)))

    def joined(self, controller: Controller) -> Unknown:
        """A controller as one array, in units of these sizes."""
        L, wanted = controller
        L = L * self.states / self.controls[:, None]
        if wanted is None:
            return L
        return jnp.concatenate([L, wanted * self.states / self.states[:, None]], axis=1)

    def parted(self, unknown: Unknown) -> Controller:
        """The opposite of `joined`."""
        m = self.controls.shape[0]
        L = unknown[:, :m] / self.states * self.controls[:, None]
        if unknown.shape[1] == m:
            return Controller(L)
        return Controller(L, unknown[:, m:] / self.states * self.states[:, None])


class Descent(NamedTuple):
    """The state of the iterations: the last accepted gains, and what is known of them."""

    controller: Controller
    forward: Forward
    acceleration: Acceleration
    iterations: Int[Array, "*batch"]
    converged: Bool[Array, "*batch"]
    ended: Bool[Array, "*batch"]  # no progress is possible, or the numbers are not finite
    costs: Float[Array, "max_iterations *batch"]

    @property
    def cost(self) -> Float[Array, "*batch"]:
        """The expected cost of the gains."""
        return self.forward.cost

    def active(self, limit: int) -> Bool[Array, "*batch"]:
        """Which elements of the batch go on."""
        return (self.iterations < limit) & ~self.converged & ~self.ended


def descend(problem: Problem, L: Gains, tolerance: Any, max_iterations: int) -> Descent:
    """Find the policy of the problem's method from the alternation's control gains L.

    The iterations stop when another one would change no control by more than the fraction
    `tolerance` of its size.
    """
    batch = problem.dt.shape
    wanted = jnp.zeros_like(problem.A) if problem.method == "optimal" else None
    first = Controller(L, wanted)
    forward = forward_pass(problem, *first)
    scale = Scale.of(L, forward.estimates)
    start = Descent(
        controller=first,
        forward=forward,
        acceleration=Acceleration.empty(scale.joined(first)),
        iterations=jnp.zeros(batch, int),
        converged=jnp.zeros(batch, bool),
        ended=~_is_finite(first, forward),
        costs=jnp.full((max_iterations, *batch), jnp.nan),
    )

    def advance(carry: Any) -> Any:
        step, descent = carry
        return step + 1, _iteration(problem, scale, tolerance, max_iterations, step, descent)

    begin = jnp.array(0), start
    return lax.while_loop(lambda carry: carry[1].active(max_iterations).any(), advance, begin)[1]


def _iteration(
    problem: Problem, scale: Scale, tolerance: Any, limit: int, step: Any, last: Descent
) -> Descent:
    """A backward pass, acceleration, and a forward pass."""
    new = controller(problem, Estimator(last.forward.K, last.forward.bias))
    plain = scale.joined(new)
    combined, acceleration = last.acceleration.next(scale.joined(last.controller), plain, step)
    change = largest_change(new.L - last.controller.L, new.L, last.forward.estimates)
    tried = jnp.where(change <= tolerance, plain, combined)
    accelerated = ((tried != plain) & jnp.isfinite(plain)).any(axis=(0, 1, 2))
    new = scale.parted(tried)
    forward = forward_pass(problem, *new)
    by_filter = _change_by_filter(forward.K - last.forward.K, new.L, forward)
    small = (change <= tolerance) & (by_filter <= tolerance)

    finite = _is_finite(new, forward)
    # A plain iteration of the optimal method never raises the cost, except by rounding. Where gains
    # have grown so large that it does, nothing better can be found.
    rises = forward.cost > last.forward.cost * (1 + COST_ROUNDING)
    failed = ~finite | (rises & ~small & (problem.method == "optimal"))
    active = last.active(limit)
    accepted = active & ~failed

    def where_accepted(new: Any, old: Any) -> Any:
        return jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, old)

    numbers = jnp.arange(limit).reshape(-1, *[1] * active.ndim)
    this_iteration = (numbers == last.iterations) & active & finite
    return Descent(
        controller=where_accepted(new, last.controller),
        forward=where_accepted(forward, last.forward),
        # The alternation's gains come without a `wanted` of their own.
        acceleration=acceleration.without_history((step == 0) | ~accepted),
        iterations=last.iterations + active,
        converged=last.converged | (accepted & small),
        # After an accelerated iteration that failed, a plain one is tried.
        ended=last.ended | (active & failed & ~accelerated),
        costs=jnp.where(this_iteration, forward.cost, last.costs),
    )


def _is_finite(controller: Controller, forward: Forward) -> Bool[Array, "*batch"]:
    arrays = [array for array in (*controller, forward.K) if array is not None]
    finite = [jnp.isfinite(array).all(axis=(0, 1, 2)) for array in arrays]
    return jnp.stack([jnp.isfinite(forward.cost), *finite]).all(axis=0)


def _change_by_filter(dK: FilterGains, L: Gains, forward: Forward) -> Float[Array, "*batch"]:
    """The largest change of a control, relative to its size, that a change of the filter gains
    makes through the next estimate."""
    if L.shape[0] == 1:  # no control is left
        return jnp.zeros_like(forward.cost)
    changes = control_sizes(jax.vmap(mm)(L[1:], dK[:-1]), forward.innovations[:-1])
    sizes = control_sizes(L, forward.estimates)
    relative = jnp.where(sizes > 0, changes / jnp.where(sizes > 0, sizes, 1.0), 0.0)
    return jnp.sqrt(jnp.maximum(relative.max(axis=0), 0.0))
