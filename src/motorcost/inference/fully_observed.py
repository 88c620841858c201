"""The filter where every state is recorded without noise.

It computes what `filter` computes for S = I, U = 0 and no sample missing, but faster. The state x
is known at each step, and only the belief xh is inferred: n dimensions instead of 2n. A sample can
differ from its prediction only in the span of B, V and the C_i, which is the same for all trials.
Its rank is the rank of the innovation. As many channels, the informative ones, determine all
others (in the reaching task one of five does), and only these are conditioned on.

All arrays have trials on the last axis.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from motorcost.inference.elimination import (
    Channels,
    contradicts,
    eliminate,
    first_contradiction,
    rounding_floor,
    tolerance,
)
from motorcost.inference.filter import start_moments
from motorcost.model.joint import joint_system, state_covariances
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.numerics.linalg import (
    congruence,
    diagonal,
    mm,
    mmT,
    semidefinite_cholesky,
    solve_semidefinite,
)


class Step(eqx.Module):
    """What all trials share from one sample to the next; here with a first axis of T-1 steps.

    Of the n channels, q are informative: the first ones that no earlier channels determine.
    """

    A: Float[Array, "*steps n n"]
    B: Float[Array, "*steps n m"]
    L: Float[Array, "*steps m n"]
    # How the estimate follows from the last one, A^ - B^ L - K H^, and from the state that was
    # sensed, K H. That is the last state or, with `sense_first`, the next one; the former is then
    # (1 - K H^) (A^ - B^ L).
    belief_from_belief: Float[Array, "*steps n n"]
    belief_from_state: Float[Array, "*steps n n"]
    belief_noise: Float[Array, "*steps n n"]  # K W W' K' + E E'
    KD: Float[Array, "*steps d n n"]
    informative: Float[Array, "*steps q n"]  # selects the informative channels: a one in each row
    follow: Float[Array, "*steps n q"]  # how all channels follow from the informative ones
    informative_B: Float[Array, "*steps q m"]
    informative_C: Float[Array, "*steps c q m"]
    informative_VV: Float[Array, "*steps q q"]
    noise: Float[Array, "*steps q"]  # the least variance of each, given those before it
    variance: Float[Array, "*steps n"]  # of each channel over all trials, given no samples
    sense_first: bool = eqx.field(static=True, default=False)


class FullyObservedSetting(eqx.Module):
    """What all trials of one problem share: the steps, and the moments of z_1 = (x_1, xh_1)."""

    steps: Step
    mean_1: Float[Array, " z"]
    cov_1: Float[Array, "z z"]


def innovation_rank(problem: Problem) -> Int[Array, ""]:
    """The number of directions in which a sample can differ from its prediction, at most."""
    return _independent(_span(problem)[0]).sum(axis=1).max()


def _span(problem: Problem) -> tuple[Float[Array, "steps n any"], Float[Array, "steps n 1"]]:
    """The directions in which a sample can differ from its prediction, and the size of each
    channel in them.

    Directions are scaled to length one, and then channels too, so that a noise which is far
    smaller than another is not taken for rounding.
    """
    p = problem
    span = jnp.concatenate([p.B, p.V, *(p.C[:, i] for i in range(p.C.shape[1]))], axis=-1)
    lengths = jnp.sqrt((span**2).sum(axis=1, keepdims=True))
    span = span / jnp.where(lengths > 0, lengths, 1.0)
    sizes = jnp.sqrt((span**2).sum(axis=2, keepdims=True))
    sizes = jnp.where(sizes > 0, sizes, 1.0)
    return span / sizes, sizes


def _independent(span: Float[Array, "steps n any"]) -> Bool[Array, "steps n"]:
    """Which channels are not determined by those before them.

    There are at most as many as directions: where directions are nearly parallel, rounding can
    leave more pivots above zero.
    """
    positive = jax.vmap(lambda at: diagonal(semidefinite_cholesky(mmT(at, at))) > 0)(span)
    return positive & (jnp.cumsum(positive, axis=1) <= span.shape[-1])


def fully_observed_setting(
    problem: Problem, policy: Policy, *, known_start: bool, rank: int | None
) -> tuple[FullyObservedSetting, Bool[Array, ""]]:
    """What all trials of one problem share, and whether `rank` was large enough.

    `rank` is the number of informative channels to provide for, as `innovation_rank` gives it; if
    None, as many as there can be.
    """
    p = problem
    n = p.A.shape[-1]
    joint = joint_system(problem, policy)
    start = start_moments(problem, known_start=known_start)
    span, sizes = lax.stop_gradient(_span(problem))
    independent = _independent(span)
    q = min(n, span.shape[-1]) if rank is None else rank
    # Row i selects the i-th independent channel; rows beyond the last one are zero.
    place = jnp.cumsum(independent, axis=1) - 1
    selected = independent[:, None] & (place[:, None] == jnp.arange(q)[:, None])
    informative = jnp.where(selected, 1.0, 0.0)
    VV = joint.GG[:, :n, :n]
    noise = jnp.zeros(VV.shape[:2])
    if p.V.shape[-1]:
        noise = jax.vmap(lambda M: diagonal(semidefinite_cholesky(M)) ** 2)(VV)
    variance = jnp.diagonal(state_covariances(joint, *start)[1:], axis1=1, axis2=2)
    sensing = joint if joint.sensing is None else joint.sensing
    of_belief = joint.F[:, n:, n:]
    if joint.sensing is not None:
        of_belief = sensing.F[:, n:, n:] @ of_belief
    steps = Step(
        A=p.A,
        B=p.B,
        L=policy.L,
        belief_from_belief=of_belief,
        belief_from_state=sensing.F[:, n:, :n],
        belief_noise=sensing.GG[:, n:, n:],
        KD=policy.K[:, None] @ p.D,
        informative=informative,
        follow=jax.vmap(_follow)(span, sizes, informative),
        informative_B=informative @ p.B,
        informative_C=informative[:, None] @ p.C,
        informative_VV=informative @ VV @ jnp.swapaxes(informative, 1, 2),
        noise=(informative @ noise[..., None])[..., 0],
        variance=variance,
        sense_first=p.sense_first,
    )
    enough = (independent.sum(axis=1) <= q).all()
    return FullyObservedSetting(steps, *start), enough


def _follow(
    span: Float[Array, "n any"], sizes: Float[Array, "n 1"], informative: Float[Array, "q n"]
) -> Float[Array, "n q"]:
    """How far each channel differs from its prediction, per unit of each informative channel."""
    from_informative = mm(informative, mmT(span, span))
    shares = solve_semidefinite(mmT(from_informative, informative), from_informative).T
    informative_sizes = mm(informative, sizes).T
    return shares * sizes / jnp.where(informative_sizes > 0, informative_sizes, 1.0)


def fully_observed_log_likelihoods(
    setting: FullyObservedSetting,
    samples: Float[Array, "T n trial"],
    starts: Float[Array, "n trial"] | None,
) -> tuple[Float[Array, " trial"], Int[Array, " trial"]]:
    """The log likelihood of each trial, and the index of its first sample that contradicts the
    model (see `elimination.first_contradiction`).

    Samples after a trial's end are NaN; until then none is missing.
    """
    T, _, N = samples.shape
    present = ~jnp.isnan(samples).any(axis=1)
    samples = jnp.where(present[:, None], samples, 0.0)
    allowed = tolerance(samples)

    def step(carry: Any, at: tuple[Step, Array, Array, Array]) -> Any:
        belief, cov, value, first, x = carry
        matrices, x_next, present, t = at
        belief, cov, density, contradicting = _condition(matrices, x, x_next, allowed, belief, cov)
        value = value + jnp.where(present, density, 0.0)
        first = jnp.minimum(first, first_contradiction(present & contradicting, t))
        return (belief, cov, value, first, x_next), None

    belief, cov, density, contradicting = condition_first(setting, samples[0], starts, allowed)
    if setting.steps.informative_C.shape[1] or setting.steps.KD.shape[1]:
        cov = jnp.broadcast_to(cov, (*cov.shape[:2], N))
    value = jnp.where(present[0], density, 0.0)
    first = first_contradiction(present[0] & contradicting)
    carry = (belief, cov, value, first, samples[0])
    later = (setting.steps, samples[1:], present[1:], jnp.arange(1, T))
    # Derivatives compute a step again rather than keep all its intermediate values, which would
    # not stay in the cache.
    again = jax.checkpoint(step, prevent_cse=False)
    (_, _, value, first, _), _ = lax.scan(again, carry, later)
    return value, first


# A belief, its covariance, the log density of a sample and which channels contradict the model.
Conditioned = tuple[
    Float[Array, "n trial"],
    Float[Array, "n n #trial"],
    Float[Array, " trial"],
    Bool[Array, "n trial"],
]


def condition_first(
    setting: FullyObservedSetting,
    sample: Float[Array, "n trial"],
    starts: Float[Array, "n trial"] | None,
    allowed: Float[Array, "n trial"],
) -> Conditioned:
    """The belief given the first sample. Its covariance, which all trials share, has a last axis of
    length one."""
    n = sample.shape[0]
    mean_1 = jnp.broadcast_to(setting.mean_1[:n, None], sample.shape) if starts is None else starts
    cov_1 = setting.cov_1[:, :, None]
    among = cov_1[:n, :n]
    channels = Channels(
        residual=sample - mean_1,
        cov=among,
        noise=jnp.zeros(n),
        floor=rounding_floor(diagonal(among), diagonal(among)),
    )
    belief, cov, update = eliminate(channels, mean_1, cov_1[n:, n:], cov_1[:n, n:])
    contradicting = contradicts(update.unexplained, allowed, jnp.abs(mean_1), channels.floor)
    return belief, cov, update.log_density, contradicting


def _condition(
    matrices: Step,
    x: Float[Array, "n trial"],
    x_next: Float[Array, "n trial"],
    allowed: Float[Array, "n trial"],
    belief: Float[Array, "n trial"],
    cov: Float[Array, "n n #trial"],
) -> Conditioned:
    """The belief one step later, given the sample then."""
    m = matrices
    u = matrix_vector(m.L, belief)  # with its sign turned
    predicted = matrix_vector(m.A, x) - matrix_vector(m.B, u)
    residual = x_next - predicted

    LP = mm(m.L, cov)
    uu = mmT(LP, m.L)
    across = -mmT(m.informative_B, mmT(m.belief_from_belief, LP))
    seen = x_next if m.sense_first else x
    belief = matrix_vector(m.belief_from_belief, belief) + matrix_vector(m.belief_from_state, seen)
    cov = next_cov(m, seen, cov)
    channels = informative_channels(m, residual, u, uu)
    among = channels.cov
    belief, cov, update = eliminate(channels, belief, cov, across)
    # All channels follow from what the informative ones vary by: the general filter predicts each
    # channel from those that vary before it, and arrives at the same.
    varying = channels.residual - update.unexplained
    unexplained = residual - matrix_vector(m.follow, varying)
    following = (mm(m.follow, among) * m.follow[:, :, None]).sum(axis=1)
    floor = rounding_floor(following, m.variance[:, None])
    contradicting = contradicts(unexplained, allowed, jnp.abs(predicted), floor)
    return belief, cov, update.log_density, contradicting


def informative_channels(
    m: Step,
    residual: Float[Array, "n trial"],
    u: Float[Array, "m trial"],
    uu: Float[Array, "m m #trial"] | None,
) -> Channels:
    """The informative channels of a sample that differs from its prediction by `residual`, if the
    control has the mean `u`, whichever its sign, and the covariance `uu`; None if it is known."""
    among = m.informative_VV[:, :, None]
    if uu is not None:
        among = among + congruence(m.informative_B, uu)
    for C in m.informative_C:
        if uu is None:
            motor = matrix_vector(C, u)
            among = among + motor[:, None] * motor[None, :]
        else:
            among = among + congruence(C, uu + u[:, None] * u[None, :])
    return Channels(
        residual=matrix_vector(m.informative, residual),
        cov=among,
        noise=m.noise,
        floor=rounding_floor(diagonal(among), matrix_vector(m.informative, m.variance[:, None])),
    )


def next_cov(
    m: Step, seen: Float[Array, "n trial"], cov: Float[Array, "n n #trial"]
) -> Float[Array, "n n #trial"]:
    """The covariance of the belief one step later, given the state `seen` by the agent."""
    cov = congruence(m.belief_from_belief, cov) + m.belief_noise[:, :, None]
    for KD in m.KD:
        sensed = matrix_vector(KD, seen)
        cov = cov + sensed[:, None] * sensed[None, :]
    return cov


def matrix_vector(A: Float[Array, "i j"], x: Float[Array, "j trial"]) -> Float[Array, "i trial"]:
    """The product of one matrix with a vector for each trial."""
    return mm(A, x[:, None])[:, 0]
