"""The particle filter: the exact likelihood, but for Monte Carlo error.

Noise that grows with a signal is Gaussian given the signal. So if the signals were known, the
control u = -L xh of every step and D_j x if senses have such noise, the filter's step would be
exact. Each particle draws them from what it knows of z = (x, xh), conditions z on them (`reveal`),
takes the step of the usual filter, and is weighed by the density of the next sample. What remains
of z is integrated exactly (Rao and Blackwell). The product over time of the particles' mean
densities is an unbiased estimate of the likelihood.

Signals without noise of their own are not drawn: without signal-dependent noise all particles are
equal, and one is enough.

Several filters, independent of each other, run at once: on the last axis, the particles of the
first filter come first (`resampling`). They may run under several models that are almost the same:
the first model then draws the signals and chooses which particles go on, and under the others
weights make up for that. Ratios of likelihoods vary little then.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from motorcost.inference.elimination import tolerance
from motorcost.inference.filter import (
    FilterSetting,
    Sample,
    condition,
    first_and_later,
    first_means,
    recorded,
)
from motorcost.inference.resampling import (
    even_normals,
    per_particle,
    resampled,
    spacings,
    weighed,
)
from motorcost.inference.signals import Drawn, Signals, fresh, joined, n_signals, reveal
from motorcost.model.joint import Cov, Joint, Mean, act, sense
from motorcost.numerics.linalg import first_entry, map_leading_axis, mm, mmT, with_leading_axis


class Filter(NamedTuple):
    """How particles start and go on, and which of a problem's arrays have an axis of steps.

    - `start(setting, samples, starts, particles)`: the state of all particles after the first
      sample, and the log density of that for each filter.
    - `step(at, data, state, draws, particles)`: the state one step later, the log density of the
      sample then for each particle, and the signals that were drawn; `at` are the entries of the
      setting for this step, and `data` are the entries of what all models share.
    - `agree(at, data, state, normals, particles)`: from standard normal numbers, those to draw the
      signals with under the first model, and the log weights that make up for the difference.
    - `over_time(setting)`: the setting's arrays with an axis of steps.
    - `data(samples)`: what all models share, with an axis of steps.

    A state is a pair: what belongs to particles, and what those of a filter share.
    """

    start: Callable[..., tuple[Any, Array]]
    step: Callable[..., tuple[Any, Array, Drawn]]
    agree: Callable[..., tuple[Array, Array]]
    over_time: Callable[[Any, Array], Any]
    data: Callable[[Array], Any]


def estimate_log_likelihoods(
    filter: Filter,
    settings: Any,
    samples: Float[Array, "T o filters"],
    starts: Float[Array, "n filters"] | None,
    uniforms: Float[Array, "steps draws filters"],
    *,
    particles: int,
) -> Float[Array, "models filters"]:
    """The log of the likelihood that each filter estimates under each model.

    `settings` are those of all models, along a first axis. `uniforms`: for every step, one number
    for each signal (`n_signals`), and one to resample with.
    """

    def begin(setting: Any) -> Any:
        return filter.start(setting, samples, starts, particles)

    def step(carry: Any, at: Any) -> Any:
        states, log_weights, values = carry
        of_models, data, uniform, spacing = at
        normals = even_normals(uniform[:-1], spacing, particles)

        def go_on(of_model: Any, state: Any, draws: Drawn) -> tuple[Any, Array, Drawn]:
            return filter.step(of_model, data, state, draws, particles)

        of_first, first_state = first_entry((of_models, states))
        normals, log_weight = filter.agree(of_first, data, first_state, normals, particles)
        first_state, density, drawn = go_on(of_first, first_state, fresh(normals))
        after = with_leading_axis((first_state, density + log_weight))
        if len(values) > 1:

            def weighed_go_on(of_model: Any, state: Any) -> Any:
                state, density, taken_over = go_on(of_model, state, drawn)
                return state, density + log_weight + taken_over.log_weight

            others = jax.tree.map(lambda leaf: leaf[1:], (of_models, states))
            after = jax.tree.map(_joined, after, map_leading_axis(weighed_go_on, *others))
        (own, shared), density = after
        gained, log_weights = jax.vmap(weighed)(log_weights, density)
        own, log_weights = resampled(own, log_weights, uniform[-1])
        return ((own, shared), log_weights, values + gained), None

    states, values = map_leading_axis(begin, settings)
    log_weights = jnp.full((len(values), samples.shape[2], particles), -jnp.log(particles))
    spacing = spacings(uniforms.shape[0], uniforms.shape[1] - 1)
    over_time = jax.vmap(filter.over_time, in_axes=(0, None))(settings, samples)
    over_time = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 1, 0), over_time)
    steps = (over_time, filter.data(samples), uniforms, spacing)
    return lax.scan(step, (states, log_weights, values), steps)[0][-1]


def _start(
    setting: FilterSetting,
    samples: Float[Array, "T o filters"],
    starts: Float[Array, "n filters"] | None,
    particles: int,
) -> tuple[Any, Float[Array, " filters"]]:
    """`Filter.start` for any observer. Before the first sample nothing is drawn."""
    entries, of_state = setting.entries()
    first_sample = first_and_later(recorded(setting, samples))[0]
    mean_1 = first_means(setting, samples, starts)
    cov_1 = setting.cov_1[np.ix_(entries, entries)][:, :, None]
    cov_1 = jnp.broadcast_to(cov_1, (*cov_1.shape[:2], mean_1.shape[1]))
    mean, cov, update, _ = condition(
        tolerance(samples),
        None if setting.varying is None else (entries, of_state),
        first_sample,
        mean_1,
        cov_1,
        whiten=False,
        share_covariance=False,
    )
    own = (per_particle(mean, particles), per_particle(cov, particles))
    return (own, None), update.log_density


class _Step(eqx.Module):
    """What one step of the general filter takes of a setting."""

    joint: Joint
    among: Joint | None
    sample: Sample
    varying: tuple[int, ...] | None = eqx.field(static=True)


def _over_time(setting: FilterSetting, samples: Float[Array, "T o filters"]) -> _Step:
    later = first_and_later(recorded(setting, samples))[1]
    # The samples themselves are the same for all models.
    later = eqx.tree_at(lambda sample: sample.values, later, jnp.zeros((len(samples) - 1, 0, 0)))
    return _Step(setting.joint, setting.among, later, setting.varying)


def _data(samples: Float[Array, "T o filters"]) -> tuple[Array, Array]:
    allowed = tolerance(samples)
    return samples[1:], jnp.broadcast_to(allowed, (len(samples) - 1, *allowed.shape))


def _joined(first: Array, others: Array) -> Array:
    return jnp.concatenate([first, others])


def _step(
    at: _Step, data: Any, state: Any, draws: Drawn, particles: int
) -> tuple[Any, Array, Drawn]:
    """`Filter.step` for any observer."""
    (mean, cov), _ = state
    joint, among = at.joint, at.joint if at.among is None else at.among
    z = mean.shape[0]
    entries = np.arange(z) if at.varying is None else np.array(at.varying, int)
    varying = None if at.varying is None else (entries, entries[entries < z // 2])
    values, allowed = (per_particle(part, particles) for part in data)
    sample = eqx.tree_at(lambda s: s.values, at.sample, values)
    first = n_signals(eqx.tree_at(lambda j: j.sensing, joint, None, is_leaf=_is_none))
    mean, cov, drawn = _reveal_in_step(joint, among, entries, mean, cov, draws[:first], at.sample)
    mean, cov = act(joint, mean, cov, among)
    mean, cov, update, contradicting = condition(
        allowed, varying, sample, mean, cov, whiten=False, share_covariance=False
    )
    if joint.sensing is not None and among.sensing is not None:
        both = (joint.sensing, among.sensing)
        mean, cov, senses = _reveal_in_step(*both, entries, mean, cov, draws[first:])
        mean, cov = sense(joint, mean, cov, among)
        drawn = joined(drawn, senses)
    density = jnp.where(contradicting.any(axis=0), -jnp.inf, update.log_density)
    return ((mean, cov), None), density, drawn


def draw_regardless(
    at: Any, data: Any, state: Any, normals: Float[Array, "s particle"], particles: int
) -> tuple[Array, Array]:
    """`Filter.agree` without regard of the next sample: recording noise hides most of what it
    tells of signals."""
    return normals, jnp.zeros(normals.shape[1])


GENERAL = Filter(_start, _step, draw_regardless, _over_time, _data)


def _is_none(leaf: Any) -> bool:
    return leaf is None


def _reveal_in_step(
    joint: Joint,
    among: Joint,
    entries: np.ndarray,
    mean: Mean,
    cov: Cov,
    draws: Drawn,
    sample: Sample | None = None,
) -> tuple[Mean, Cov, Drawn]:
    """The mean and covariance of z given the signals of a step, or of a half of it. `sample` is how
    the next sample is recorded, if it comes before other signals."""
    if not len(draws.numbers):
        return mean, cov, eqx.tree_at(lambda d: d.log_weight, draws, jnp.zeros(mean.shape[1]))
    n, x, v = mean.shape[0] // 2, among.C.shape[-2], cov.shape[0]
    # What each signal is of z, and of the entries of z that vary.
    rows, varying_rows, drawn = [], [], []
    if joint.C.shape[0]:
        rows.append(jnp.pad(joint.L, ((0, 0), (n, 0))))
        varying_rows.append(jnp.pad(among.L, ((0, 0), (x, 0))))
        drawn.append((joint.C != 0).any(axis=(0, 1)))
    for D, varying_D in zip(joint.D, among.D, strict=True):
        rows.append(jnp.pad(D, ((0, 0), (0, n))))
        varying_rows.append(jnp.pad(varying_D, ((0, 0), (0, v - x))))
        drawn.append((D != 0).any(axis=1) & (joint.K != 0).any(axis=0))
    row, varying_row = jnp.concatenate(rows), jnp.concatenate(varying_rows)
    across = mm(varying_row, cov)
    signals = Signals(
        mean=row @ mean,
        among=mmT(across, varying_row),
        across=across,
        size=jnp.abs(row) @ jnp.abs(mean),
        drawn=jnp.concatenate(drawn),
    )

    def information(gains: Float[Array, "s v particle"]) -> Float[Array, "s #particle"]:
        if sample is None:
            return jnp.zeros((len(gains), 1))
        return _information(joint, entries, mean, sample, gains)

    change, cov, found = reveal(signals, cov, draws, information)
    return mean.at[entries].add(change), cov, found


def _information(
    joint: Joint,
    entries: np.ndarray,
    mean: Mean,
    sample: Sample,
    gains: Float[Array, "s v particle"],
) -> Float[Array, "s particle"]:
    """About how much the next sample tells of each whitened signal: channel by channel, and as if
    nothing else were unknown."""
    S, n = sample.S, mean.shape[0] // 2
    moved = mm(S, mm(joint.F[:n][:, entries], jnp.swapaxes(gains, 0, 1)))  # channel, signal
    noise = jnp.diagonal(S @ joint.GG[:n, :n] @ S.T + sample.UU)[:, None]
    u = joint.L @ mean[n:]
    for C in joint.C:
        noise = noise + (S @ C @ u) ** 2
    known = noise > 0
    told = jnp.where(known[:, None], moved**2, 0.0) / jnp.where(known, noise, 1.0)[:, None]
    return told.sum(axis=0)
