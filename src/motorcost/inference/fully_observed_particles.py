"""The particle filter where every state is recorded without noise.

It computes what `particle_filter` computes, but faster, where no sample is missing before the end
of a trial and every control has noise that grows with it until then. A sample then says nothing of
the belief beyond the control, which is drawn: so the covariance of the belief is the same for all
particles of a filter, and for all trials unless senses have such noise.
"""

from functools import partial
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from motorcost.inference.adapted_draws import agreeing_normals
from motorcost.inference.elimination import contradicts, eliminate, tolerance
from motorcost.inference.fully_observed import (
    FullyObservedSetting,
    Step,
    condition_first,
    informative_channels,
    matrix_vector,
    next_cov,
)
from motorcost.inference.particle_filter import Filter, draw_regardless
from motorcost.inference.resampling import per_particle
from motorcost.inference.signals import Drawn, Signals, first_root, fresh, joined, reveal
from motorcost.numerics.linalg import diagonal, mm, mmT


def _start_fully_observed(
    setting: FullyObservedSetting,
    samples: Float[Array, "T n filters"],
    starts: Float[Array, "n filters"] | None,
    particles: int,
) -> tuple[Any, Float[Array, " filters"]]:
    """`Filter.start` for full observation."""
    first, present = jnp.nan_to_num(samples[0]), ~jnp.isnan(samples[0]).any(axis=0)
    belief, cov, density, _ = condition_first(setting, first, starts, tolerance(samples))
    if setting.steps.KD.shape[1]:
        cov = jnp.broadcast_to(cov, (*cov.shape[:2], belief.shape[1]))
    return (per_particle(belief, particles), cov), jnp.where(present, density, 0.0)


def _fully_observed_data(samples: Float[Array, "T n filters"]) -> tuple[Array, ...]:
    present = ~jnp.isnan(samples).any(axis=1)
    states = jnp.where(present[:, None], samples, 0.0)
    allowed = jnp.broadcast_to(tolerance(samples), states[1:].shape)
    return states[:-1], states[1:], present[1:], allowed


def _controls(m: Step, belief: Float[Array, "n particle"], cov: Any) -> Signals:
    """The controls, before they are known."""
    across = mm(m.L, cov)
    return Signals(
        mean=matrix_vector(m.L, belief),
        among=mmT(across, m.L),
        across=across,
        # The largest: what decides about a covariance that particles share must be shared too.
        size=(jnp.abs(m.L) @ jnp.abs(belief)).max(axis=1, keepdims=True),
        drawn=(m.informative_C != 0).any(axis=(0, 1)),
    )


def _density_given(
    m: Step, data: Any, u: Float[Array, "m particle"], particles: int
) -> Float[Array, " particle"]:
    """The log density of the next sample given the control."""
    every = partial(per_particle, particles=particles)
    x, x_next, present, allowed = data
    residual = every(x_next - matrix_vector(m.A, x)) + matrix_vector(m.B, u)
    density = _density(m, residual, u, every(allowed), every(jnp.abs(x_next)))
    return jnp.where(every(present), density, 0.0)


def _told(m: Step, data: Any) -> tuple[Float[Array, "m filters"], Float[Array, "q filters"]]:
    """About what the next sample says that the controls are, by least squares, and the variance of
    each informative channel with these controls."""
    x, x_next, *_ = data
    residual = matrix_vector(m.informative, x_next - matrix_vector(m.A, x))
    u = -jnp.linalg.pinv(m.informative_B) @ residual
    noise = diagonal(m.informative_VV)[:, None]
    for C in m.informative_C:
        noise = noise + matrix_vector(C, u) ** 2
    return u, jnp.broadcast_to(noise, residual.shape)


def _agree_fully_observed(
    m: Step, data: Any, state: Any, normals: Float[Array, "s particle"], particles: int
) -> tuple[Array, Array]:
    """`Filter.agree` for full observation, where there is one control; several are drawn without
    regard of the sample."""
    belief, cov = state
    if m.L.shape[0] != 1:
        return draw_regardless(m, data, state, normals, particles)
    signals = _controls(m, belief, cov)
    u, noise = _told(m, data)
    strength = (m.informative_B[:, 0, None] ** 2 / jnp.where(noise > 0, noise, 1.0)).sum(axis=0)
    width = jnp.where((noise > 0).all(axis=0), 1.0 / jnp.sqrt(strength), 0.0)

    def log_density(values: Array, count: int) -> Array:
        return _density_given(m, data, values[None], count)

    drawn, log_weight = agreeing_normals(
        normals[0], signals.mean[0], first_root(signals, cov), (u[0], width), log_density, particles
    )
    return normals.at[0].set(drawn), log_weight


def _step_fully_observed(
    m: Step, data: Any, state: Any, draws: Drawn, particles: int
) -> tuple[Any, Array, Drawn]:
    """`Filter.step` for full observation."""
    belief, cov = state
    x, x_next, *_ = data
    every = partial(per_particle, particles=particles)
    signals = _controls(m, belief, cov)
    noise = every(_told(m, data)[1])

    def of_particles(values: Array) -> Array:
        return values if values.shape[-1] == 1 else every(values)

    def information(gains: Float[Array, "s v #filters"]) -> Float[Array, "s particle"]:
        """About how much the next sample tells of each whitened control, channel by channel."""
        controls = mm(m.L, jnp.swapaxes(of_particles(gains), 0, 1))
        moved = mm(m.informative_B, controls)  # channel, signal
        known = noise > 0
        return (
            jnp.where(known[:, None], moved**2, 0.0) / jnp.where(known, noise, 1.0)[:, None]
        ).sum(axis=0)

    controls = len(m.L)
    of_controls, of_senses = draws[:controls], draws[controls:]
    change, cov, drawn = reveal(signals, cov, of_controls, information, of_particles)
    belief = belief + change
    density = _density_given(m, data, matrix_vector(m.L, belief), particles)
    seen = x_next if m.sense_first else x
    belief = matrix_vector(m.belief_from_belief, belief)
    belief = belief + every(matrix_vector(m.belief_from_state, seen))
    # Of the senses nothing is drawn: the states are known.
    return (belief, next_cov(m, seen, cov)), density, joined(drawn, fresh(of_senses.numbers))


def _density(
    m: Step,
    residual: Float[Array, "n particle"],
    u: Float[Array, "m particle"],
    allowed: Float[Array, "n particle"],
    size: Float[Array, "n particle"],
) -> Float[Array, " particle"]:
    """The log density of a sample given the control u; -inf where it contradicts the model."""
    channels = informative_channels(m, residual, u, None)
    q = len(channels.residual)
    nothing = (jnp.zeros((*shape, u.shape[1])) for shape in ((0,), (0, 0), (q, 0)))
    update = eliminate(channels, *nothing)[2]
    contradicting = contradicts(
        update.unexplained,
        matrix_vector(m.informative, allowed),
        matrix_vector(m.informative, size),
        channels.floor,
    )
    return jnp.where(contradicting.any(axis=0), -jnp.inf, update.log_density)


FULLY_OBSERVED = Filter(
    _start_fully_observed,
    _step_fully_observed,
    _agree_fully_observed,
    lambda setting, samples: setting.steps,
    _fully_observed_data,
)
