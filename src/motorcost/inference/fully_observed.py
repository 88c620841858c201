"""The filter where every state is seen without noise.

It is `filter` for S = I and U = 0 and no sample missing, and says the same. But then x is known at
each step and only the belief xh is left to follow: n dimensions instead of 2n. And a sample can
differ from its prediction only in the span of B, V and the C_i, the same for all trials: the few
channels that tell where in it (in the reaching task one of five) are all that is conditioned on.

All arrays have trials on the last axis.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from motorcost.inference.filter import CONTRADICTION
from motorcost.model.joint import Joint, joint_start, joint_system, predict
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.numerics.linalg import (
    RANK_TOLERANCE,
    congruence,
    diagonal,
    loop,
    mm,
    mmT,
    semidefinite_cholesky,
    solve_semidefinite,
)


class Step(eqx.Module):
    """What all trials share from one sample to the next; here with a first axis of T-1 steps.
    Of the n channels, q are `telling`: the first that differ independently."""

    A: Float[Array, "*steps n n"]
    B: Float[Array, "*steps n m"]
    L: Float[Array, "*steps m n"]
    kept: Float[Array, "*steps n n"]  # A^ - B^ L - K H^: what becomes of an estimate
    told: Float[Array, "*steps n n"]  # K H: what the senses add to it
    spread: Float[Array, "*steps n n"]  # K W W' K' + E E'
    KD: Float[Array, "*steps d n n"]
    telling: Float[Array, "*steps q n"]  # a one in each row
    follow: Float[Array, "*steps n q"]  # how all channels follow from those
    telling_B: Float[Array, "*steps q m"]
    telling_C: Float[Array, "*steps c q m"]
    telling_VV: Float[Array, "*steps q q"]
    noise: Float[Array, "*steps q"]  # the least variance of each, given those before it
    floor: Float[Array, "*steps q"]  # what rounding leaves of a variance that is zero


class FullyObservedSetting(eqx.Module):
    """What trials of one problem share: the way from each sample to the next, and the first sample
    x_1 with the belief then."""

    steps: Step
    mean_1: Float[Array, " n"]
    cov_1: Float[Array, "n n"]
    belief_cov_1: Float[Array, "n n"]  # of xh_1, given x_1
    belief_gain_1: Float[Array, "n n"]  # of xh_1, from x_1 - mean_1


def innovation_rank(problem: Problem) -> Int[Array, ""]:
    """In how many directions a sample can differ from its prediction, at most."""
    return _independent(_span(problem)[0]).sum(axis=1).max()


def _span(problem: Problem) -> tuple[Float[Array, "steps n any"], Float[Array, "steps n 1"]]:
    """Directions in which a sample can differ from its prediction, and how far each channel then
    does: both of length one, so that what is small does not pass for rounding."""
    p = problem
    span = jnp.concatenate([p.B, p.V, *(p.C[:, i] for i in range(p.C.shape[1]))], axis=-1)
    lengths = jnp.sqrt((span**2).sum(axis=1, keepdims=True))
    span = span / jnp.where(lengths > 0, lengths, 1.0)
    sizes = jnp.sqrt((span**2).sum(axis=2, keepdims=True))
    sizes = jnp.where(sizes > 0, sizes, 1.0)
    return span / sizes, sizes


def _independent(span: Float[Array, "steps n any"]) -> Bool[Array, "steps n"]:
    """Which channels are not determined by those before them."""
    return jax.vmap(lambda at: diagonal(semidefinite_cholesky(mmT(at, at))) > 0)(span)


def fully_observed_setting(
    problem: Problem, policy: Policy, known_start: bool, telling: int | None
) -> tuple[FullyObservedSetting, Bool[Array, ""]]:
    """What trials of one problem share. `telling` is how many channels are (at most), if that is
    known; and whether there are in fact no more."""
    p = problem
    n = p.A.shape[-1]
    joint = joint_system(problem, policy)
    span, sizes = lax.stop_gradient(_span(problem))
    q = min(n, span.shape[-1]) if telling is None else telling
    independent = _independent(span)
    rank = jnp.cumsum(independent, axis=1) - 1
    chosen = jnp.where(independent[:, None] & (rank[:, None] == jnp.arange(q)[:, None]), 1.0, 0.0)

    def follow(span: Array, sizes: Array, chosen: Array) -> Array:
        within = mmT(span, span)
        by_chosen = mm(chosen, within)
        shares = solve_semidefinite(mmT(by_chosen, chosen), by_chosen).T
        its_sizes = mm(chosen, sizes).T
        return shares * sizes / jnp.where(its_sizes > 0, its_sizes, 1.0)

    VV = joint.GG[:, :n, :n]
    noise = jnp.zeros(VV.shape[:2])
    if p.V.shape[-1]:
        noise = jax.vmap(lambda M: diagonal(semidefinite_cholesky(M)) ** 2)(VV)
    steps = Step(
        A=p.A,
        B=p.B,
        L=policy.L,
        kept=joint.F[:, n:, n:],
        told=joint.F[:, n:, :n],
        spread=joint.GG[:, n:, n:],
        KD=policy.K[:, None] @ p.D,
        telling=chosen,
        follow=jax.vmap(follow)(span, sizes, chosen),
        telling_B=chosen @ p.B,
        telling_C=chosen[:, None] @ p.C,
        telling_VV=chosen @ VV @ jnp.swapaxes(chosen, 1, 2),
        noise=(chosen @ noise[..., None])[..., 0],
        floor=RANK_TOLERANCE * (chosen @ _variances(problem, joint)[..., None])[..., 0],
    )
    P, S = p.initial_belief_cov, p.initial_state_cov
    cov_1, gain_1 = P + S, jnp.zeros_like(P)
    if known_start:  # x_1 is known, and xh_1 as far from it as x_1 would be from xh_1
        cov_1, belief_cov_1 = jnp.zeros_like(P), S
    else:
        gain_1 = solve_semidefinite(cov_1, P).T
        belief_cov_1 = P - mm(gain_1, P)
    enough = (independent.sum(axis=1) <= q).all()
    return FullyObservedSetting(steps, p.initial_belief, cov_1, belief_cov_1, gain_1), enough


def _variances(problem: Problem, joint: Joint) -> Float[Array, "steps n"]:
    """Of each state over all trials, at all steps but the first: what tells a variance that is
    zero, but for rounding, from a small one."""
    n = problem.A.shape[-1]
    mean, cov = joint_start(problem)

    def step(carry: Any, at: Any) -> Any:
        after = predict(at, *carry)
        return after, jnp.diagonal(after[1][:n, :n, 0])

    start = (mean[:, None], cov[:, :, None])
    return lax.scan(step, *lax.stop_gradient((start, joint)))[1]


def run_fully_observed(
    setting: FullyObservedSetting,
    samples: Float[Array, "T n trial"],
    mean_1: Float[Array, "n trial"],
) -> tuple[Float[Array, " trial"], Bool[Array, " trial"]]:
    """Each trial's log likelihood, and whether a sample contradicts the model.

    Samples after a trial's end are NaN; until then none is missing.
    """
    there = ~jnp.isnan(samples).any(axis=1)
    samples = jnp.where(there[:, None], samples, 0.0)
    tolerance = CONTRADICTION * lax.stop_gradient(jnp.abs(samples).max(axis=0))

    def advance(carry: Any, at: Any) -> Any:
        belief, cov, value, contradicts, x = carry
        s, x_next, there = at
        u = _mv(s.L, belief)  # with its sign turned
        mean = _mv(s.A, x) - _mv(s.B, u)
        off = x_next - mean
        telling = _mv(s.telling, off)
        allowed = tolerance + CONTRADICTION * jnp.abs(mean)
        wrong = (jnp.abs(off - _mv(s.follow, telling)) > allowed).any(axis=0)

        LP = mm(s.L, cov)
        uu = mmT(LP, s.L)
        among = congruence(s.telling_B, uu) + s.telling_VV[:, :, None]
        for i in range(s.telling_C.shape[0]):
            among = among + congruence(s.telling_C[i], uu + u[:, None] * u[None, :])
        # How the next estimate answers the telling channels, before it is known what they say.
        across = -mmT(mmT(s.kept, LP), s.telling_B)
        belief = _mv(s.kept, belief) + _mv(s.told, x)
        cov = congruence(s.kept, cov) + s.spread[:, :, None]
        for j in range(s.KD.shape[0]):
            sensed = _mv(s.KD[j], x)
            cov = cov + sensed[:, None] * sensed[None, :]
        given = _condition(s, telling, _mv(s.telling, allowed), among, across, belief, cov)
        belief, cov, density, impossible = given
        value = value + jnp.where(there, density, 0.0)
        return (belief, cov, value, contradicts | (there & (wrong | impossible)), x_next), None

    off = samples[0] - mean_1
    belief = mean_1 + _mv(setting.belief_gain_1, off)
    n, N = off.shape
    cov = jnp.broadcast_to(setting.belief_cov_1[:, :, None], (n, n, N))
    value, rest = _density(setting.cov_1, off)
    wrong = (jnp.abs(rest) > tolerance + CONTRADICTION * jnp.abs(mean_1)).any(axis=0)
    carry = (belief, cov, jnp.where(there[0], value, 0.0), there[0] & wrong, samples[0])
    each_step = (setting.steps, samples[1:], there[1:])
    # Derivatives compute a step again rather than keep all it went through, which leaves the cache.
    again = jax.checkpoint(advance, prevent_cse=False)
    (_, _, value, contradicts, _), _ = lax.scan(again, carry, each_step)
    return value, contradicts


def _mv(A: Float[Array, "i j"], x: Float[Array, "j trial"]) -> Float[Array, "i trial"]:
    return mm(A, x[:, None])[:, 0]


def _density(
    cov: Float[Array, "n n"], off: Float[Array, "n trial"]
) -> tuple[Float[Array, " trial"], Float[Array, "n trial"]]:
    """The log density of what is `off` with a covariance that all trials share, and what of it
    must be zero."""
    factor = semidefinite_cholesky(cov)
    root = diagonal(factor)
    varies = root > 0
    e = mm(factor.T, solve_semidefinite(cov, off))
    logs = jnp.where(varies, jnp.log(2 * jnp.pi) / 2 + jnp.log(jnp.where(varies, root, 1.0)), 0.0)
    return -0.5 * (e**2).sum(axis=0) - logs.sum(), off - mm(factor, e)


def _condition(
    s: Step,
    off: Float[Array, "q trial"],
    allowed: Float[Array, "q trial"],
    among: Float[Array, "q q trial"],
    across: Float[Array, "n q trial"],
    belief: Float[Array, "n trial"],
    cov: Float[Array, "n n trial"],
) -> tuple[Any, Any, Float[Array, " trial"], Bool[Array, " trial"]]:
    """Belief and its covariance given the telling channels, which are `off` by so much; the log
    density of that, and whether it cannot be."""
    q = among.shape[0]
    floor = jnp.maximum(s.floor[:, None], RANK_TOLERANCE * diagonal(among))
    later = jnp.arange(q)[:, None]

    def eliminate(k: Any, carry: Any) -> Any:
        belief, cov, density, impossible, off, among, across = carry
        pivot = jnp.maximum(among[k, k], s.noise[k])
        varies = (s.noise[k] > 0) | (pivot > floor[k])
        # The inner `where` keeps the derivative of the branch not taken finite.
        root = jnp.sqrt(jnp.where(varies, pivot, 1.0))
        scale = jnp.where(varies, 1.0 / root, 0.0)
        e = off[k] * scale
        gain = across[:, k] * scale
        to_channels = jnp.where(later > k, among[:, k] * scale, 0.0)
        log_density = jnp.where(varies, -0.5 * (jnp.log(2 * jnp.pi) + e**2) - jnp.log(root), 0.0)
        unexpected = ~varies & jnp.isfinite(pivot) & (jnp.abs(off[k]) > allowed[k])
        return (
            belief + gain * e,
            cov - gain[:, None] * gain[None, :],
            density + log_density,
            impossible | unexpected,
            off - to_channels * e,
            among - to_channels[:, None] * to_channels[None, :],
            across - gain[:, None] * to_channels[None, :],
        )

    nothing = (jnp.zeros_like(off[0]), jnp.zeros(off.shape[1:], bool))
    carry = (belief, cov, *nothing, off, among, across)
    belief, cov, density, impossible, *_ = loop(q, eliminate, carry)
    return belief, cov, density, impossible
