"""What each source of variability contributes to the covariance of states and beliefs.

With fixed gains z = (x, xh) is linear in what varies: the first state and estimate, and the noise
that is added at each step (`joint`). Noise that depends on signals has mean zero given everything
before it, so noises of different sources or times are uncorrelated, and the covariance of z is the
sum of what each of them contributes:

    Sg_s' = F Sg_s F' + N_s,    N_motor = sum_i Gi (Sg_hh + mu_h mu_h') Gi',   and so on,

where Sg, without an index, is the covariance from all sources together. This is exact, and no
source has to be switched off. Motor noise is so counted as it occurs: larger where other sources
make larger controls.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Float

from motorcost.model.joint import joint_system
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.numerics.compiling import lean_jit

# In the order of `Contributions.cov`.
SOURCES = ("start", "aim", "motor noise", "process noise", "sensory noise", "internal noise")


class Contributions(eqx.Module):
    """What each of `SOURCES` contributes to the covariance of the states over trials (`cov`), and
    the mean of the states."""

    cov: Float[Array, "sources T n n"]
    mean: Float[Array, "T n"]


class Additions(eqx.Module):
    """What noise adds at a step, or at all steps with a first axis: the matrices of noise that
    depends on signals, and the covariances of the rest by the place of the source. `sensing` is the
    second half of a step, if sensing comes after acting (see `joint`)."""

    F: Float[Array, "*steps z z"]
    CL: Float[Array, "*steps c n n"]
    KD: Float[Array, "*steps d n n"]
    constant: Float[Array, "*steps sources z z"]
    sensing: Additions | None = None


@partial(lean_jit, jit=jax.jit)
def contributions(
    problem: Problem, policy: Policy, known_start: Float[Array, " n"] | None = None
) -> Contributions:
    """Return what each source contributes to the covariance of the states over trials.

    The first state varies by `initial_belief_cov` and `initial_state_cov`. What varies of the state
    called target is the aim; all else of the first state is the start. With `known_start`, the
    first state is known, and only the first estimate varies around it.
    """
    n = problem.A.shape[-1]
    mean_1, first = _at_the_start(problem, known_start)

    def moved(at: Additions, mean: Array, cov: Array) -> tuple[Array, Array]:
        second_moment = cov.sum(axis=0) + jnp.outer(mean, mean)
        motor = jnp.einsum("iab,bc,idc->ad", at.CL, second_moment[n:, n:], at.CL)
        sensory = jnp.einsum("iab,bc,idc->ad", at.KD, second_moment[:n, :n], at.KD)
        added = at.constant.at[SOURCES.index("motor noise"), :n, :n].add(motor)
        added = added.at[SOURCES.index("sensory noise"), n:, n:].add(sensory)
        return at.F @ mean, jnp.einsum("ij,sjk,lk->sil", at.F, cov, at.F) + added

    def step(carry: Any, at: Additions) -> Any:
        after = moved(at, *carry)
        if at.sensing is not None:
            after = moved(at.sensing, *after)
        return after, (after[0][:n], after[1][:, :n, :n])

    _, (mean, cov) = lax.scan(step, (mean_1, first), _additions(problem, policy))
    return Contributions(
        cov=jnp.swapaxes(jnp.concatenate([first[None, :, :n, :n], cov]), 0, 1),
        mean=jnp.concatenate([mean_1[None, :n], mean]),
    )


def _at_the_start(
    problem: Problem, known_start: Float[Array, " n"] | None
) -> tuple[Float[Array, " z"], Float[Array, "sources z z"]]:
    """The mean of z_1, and its covariance by source."""
    P, S, start = problem.initial_belief_cov, problem.initial_state_cov, problem.initial_belief
    of_aim = jnp.array([float(name.startswith("target")) for name in problem.state_names])
    # Where the aim is correlated with the rest of the first state, what both share is the start's.
    aim = P * jnp.outer(of_aim, of_aim)
    rest = P - aim
    by_source = {
        "start": jnp.block([[rest + S, rest], [rest, rest]]),
        "aim": jnp.block([[aim, aim], [aim, aim]]),
    }
    if known_start is not None:
        start, by_source = known_start, {"start": block_diag(jnp.zeros_like(S), S)}
    nothing = jnp.zeros((2 * len(start), 2 * len(start)))
    cov = jnp.stack([by_source.get(source, nothing) for source in SOURCES])
    return jnp.concatenate([start, start]), cov


def _additions(problem: Problem, policy: Policy) -> Additions:
    """What noise adds at each step."""
    p, K = problem, policy.K

    def squared(factor: Float[Array, "steps rows any"]) -> Float[Array, "steps rows rows"]:
        return factor @ jnp.swapaxes(factor, -1, -2)

    n = p.A.shape[-1]
    constant = jnp.zeros((p.steps - 1, len(SOURCES), 2 * n, 2 * n))
    constant = constant.at[:, SOURCES.index("process noise"), :n, :n].set(squared(p.V))
    constant = constant.at[:, SOURCES.index("sensory noise"), n:, n:].set(squared(K @ p.W))
    constant = constant.at[:, SOURCES.index("internal noise"), n:, n:].set(squared(p.E))
    joint = joint_system(problem, policy)
    CL, KD = p.C @ policy.L[:, None], K[:, None] @ p.D
    if joint.sensing is None:
        return Additions(joint.F, CL, KD, constant)
    process = jnp.arange(len(SOURCES)) == SOURCES.index("process noise")
    while_acting = jnp.where(process[:, None, None], constant, 0.0)
    sensing = Additions(joint.sensing.F, CL[:, :0], KD, constant - while_acting)
    return Additions(joint.F, CL, KD[:, :0], while_acting, sensing)
