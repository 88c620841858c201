"""The solver's iterations from one start: a backward pass, acceleration, a forward pass.

The backward pass gives the control gains L that are optimal for the filter gains K, the forward
pass the filter gains that are optimal for L (`passes`). Both together are one iteration; iterations
go on until the gains no longer change.

Iterations converge slowly where motor noise is strong. Therefore an iteration starts not from the
last control gains but from a combination of the last few (`numerics.anderson`), unless that
combination costs more than the last gains.

Problems may have a batch on the last axes, after those of the matrices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from motorcost.model.passes import backward_pass, forward_pass
from motorcost.model.policy import FilterGains, Gains
from motorcost.model.problem import Problem
from motorcost.numerics.anderson import Acceleration
from motorcost.numerics.linalg import mm

# Expected costs that differ by less than this fraction are equal up to rounding.
COST_ROUNDING = 1e-12


class Noise(NamedTuple):
    """Factors by which noises are multiplied at the beginning, to start from another problem.

    - `control`: of the noise that grows with the control (C).
    - `state`: of the noise that grows with the state (D).
    - `sense`: of the constant noise of the senses (W).
    """

    control: Any = 1.0
    state: Any = 1.0
    sense: Any = 1.0


class Progress(NamedTuple):
    """The state of the iterations: the last accepted gains, and what is known of them.

    `iterations` is negative as long as both passes are those of the problem with other noise (see
    `iteration`). `halted` elements of the batch are not continued, for a reason of the caller's.
    """

    L: Gains
    K: FilterGains
    cost: Float[Array, "*batch"]
    estimates: Float[Array, "steps n n *batch"]
    acceleration: Acceleration
    iterations: Int[Array, "*batch"]
    converged: Bool[Array, "*batch"]
    finite: Bool[Array, "*batch"]
    halted: Bool[Array, "*batch"]
    costs: Float[Array, "max_iterations *batch"]

    def active(self, limit: Any) -> Bool[Array, "*batch"]:
        """Which elements of the batch go on, if they may make this many iterations."""
        ended = self.converged | self.halted | ~self.finite
        return (self.iterations < limit) & ~ended

    @classmethod
    def empty(cls, p: Problem, max_iterations: int) -> Progress:
        """Before the first iteration, with filter gains of zero."""
        batch = p.dt.shape
        steps, n, m, *_ = p.B.shape
        L = jnp.zeros((steps, m, n, *batch))
        return cls(
            L=L,
            K=jnp.zeros((steps, n, p.H.shape[1], *batch)),
            cost=jnp.full(batch, jnp.inf),
            estimates=jnp.zeros((steps, n, n, *batch)),
            acceleration=Acceleration.empty(L),
            iterations=jnp.zeros(batch, int),
            converged=jnp.zeros(batch, bool),
            finite=jnp.ones(batch, bool),
            halted=jnp.zeros(batch, bool),
            costs=jnp.full((max_iterations, *batch), jnp.nan),
        )


def iteration(
    problem: Problem, noise: Noise, tolerance: Any, limit: Any, step: Any, progress: Progress
) -> Progress:
    """A backward pass, acceleration, and a forward pass.

    While `progress.iterations` is negative both passes, and where it is zero the backward pass, are
    those of the problem with its noises multiplied by `noise`. `step` is the number of iterations
    that the whole batch has made, `limit` how many each element may make.
    """
    p = problem
    first = progress.iterations <= 0
    L = backward_pass(_with_noise(p, noise, first), progress.K)
    change = largest_change(L - progress.L, L, progress.estimates)
    converged = first if separates(p) else ~first & (change <= tolerance)
    tried, acceleration = progress.acceleration.next(progress.L, L, step)
    tried = jnp.where(converged, L, tried)
    forward = forward_pass(_with_noise(p, noise, progress.iterations < 0), tried)
    finite = (
        jnp.isfinite(forward.cost)
        & jnp.isfinite(tried).all(axis=(0, 1, 2))
        & jnp.isfinite(forward.K).all(axis=(0, 1, 2))
    )
    # A plain iteration never raises the cost, unless the estimate has noise of its own (E). An
    # accelerated one may, and could then converge to a saddle of the cost: where the cost rises,
    # the gains are refused, and the next iteration is a plain one from the last accepted gains.
    rises = (forward.cost > progress.cost * (1 + COST_ROUNDING)) & (p.E.shape[2] == 0)
    accelerated = ((tried != L) & jnp.isfinite(L)).any(axis=(0, 1, 2))
    refused = accelerated & (~finite | rises)
    active = progress.active(limit)
    accepted = active & finite & ~refused

    def where_accepted(new: Any, old: Any) -> Any:
        return jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, old)

    numbers = jnp.arange(progress.costs.shape[0]).reshape(-1, *[1] * first.ndim)
    this_iteration = numbers == progress.iterations
    return Progress(
        L=where_accepted(tried, progress.L),
        K=where_accepted(forward.K, progress.K),
        cost=where_accepted(forward.cost, progress.cost),
        estimates=where_accepted(forward.estimates, progress.estimates),
        # The first passes were those of another problem, so they must not enter the history.
        acceleration=acceleration.without_history(first | ~accepted),
        iterations=progress.iterations + active,
        converged=progress.converged | (accepted & converged),
        finite=progress.finite & (finite | refused | ~active),
        halted=progress.halted,
        costs=jnp.where(this_iteration & active & finite, forward.cost, progress.costs),
    )


def _with_noise(p: Problem, noise: Noise, where: Bool[Array, "*batch"]) -> Problem:
    """The problem with its noises multiplied by these factors, where `where` is true."""
    factors = [(p.C, noise.control), (p.D, noise.state), (p.W, noise.sense)]
    scaled = [letter * jnp.where(where, factor, 1.0) for letter, factor in factors]
    return eqx.tree_at(lambda p: (p.C, p.D, p.W), p, scaled)


def separates(problem: Problem) -> bool:
    """Whether control and estimation are separate problems, which a single iteration solves.

    They are without signal-dependent noise: then neither gain depends on the other.
    """
    return problem.C.shape[1] == 0 and problem.D.shape[1] == 0


def largest_change(
    dL: Gains, L: Gains, estimates: Float[Array, "steps n n *batch"]
) -> Float[Array, "*batch"]:
    """The largest change of a control that a change of the gains makes, relative to its size.

    Both are root mean squares over trials, the size the largest over time. Therefore neither units
    matter nor gains on states that are always zero.
    """

    largest = control_sizes(L, estimates)
    changes = control_sizes(dL, estimates)
    relative = jnp.where(largest > 0, changes / jnp.where(largest > 0, largest, 1.0), 0.0)
    return jnp.sqrt(jnp.maximum(relative.max(axis=0), 0.0))


def control_sizes(
    gains: Float[Array, "steps m r *batch"], moments: Float[Array, "steps r r *batch"]
) -> Float[Array, "m *batch"]:
    """The mean square of each control, the largest over time, that these gains make of something
    with these second moments."""
    return (jax.vmap(mm)(gains, moments) * gains).sum(axis=2).max(axis=0)
