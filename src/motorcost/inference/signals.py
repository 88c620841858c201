"""Draw the signals that noise grows with: controls, and states that are sensed with such noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from motorcost.model.joint import Joint
from motorcost.numerics.linalg import RANK_TOLERANCE, diagonal, loop

# What later samples tell of a signal too, beside the next one.
LATER = 5.0


class Signals(eqx.Module):
    """Signals that noise grows with, before they are known.

    - `mean`, `among`: their mean and covariance; `across`: the covariance between them and z.
    - `size`: the sum of the sizes of the terms that make up the mean of each.
    - `drawn`: which signals do have noise that grows with them.
    """

    mean: Float[Array, "s particle"]
    among: Float[Array, "s s #groups"]
    across: Float[Array, "s v #groups"]
    size: Float[Array, "s #groups"]
    drawn: Bool[Array, " s"]


class Drawn(eqx.Module):
    """Signals that were drawn, one after the other.

    - `numbers`: their whitened values; `centres`, `roots`: mean and standard deviation of each,
      given those before it.
    - `centring`: how much of a signal another model shall take over, from 0 to 1.
    - `log_weight`: the log of the ratio of densities, of a model that has taken them over.
    """

    numbers: Float[Array, "s particle"]
    centres: Float[Array, "s particle"]
    roots: Float[Array, "s #particle"]
    centring: Float[Array, "s #particle"]
    log_weight: Float[Array, " particle"]

    def __getitem__(self, which: slice) -> Drawn:
        parts = (self.numbers, self.centres, self.roots, self.centring)
        numbers, centres, roots, centring = (part[which] for part in parts)
        return Drawn(numbers, centres, roots, centring, self.log_weight)


def fresh(normals: Float[Array, "s particle"]) -> Drawn:
    """Standard normal numbers to draw signals with, of which no model has taken any over."""
    nothing = jnp.zeros((len(normals), 1))
    return Drawn(normals, normals, nothing, nothing, jnp.zeros(normals.shape[1]))


def joined(first: Drawn, second: Drawn) -> Drawn:
    """The signals of both halves of a step."""
    n = first.numbers.shape[1]
    numbers, centres, roots, centring = (
        jnp.concatenate([jnp.broadcast_to(x, (len(x), n)) for x in pair])
        for pair in (
            (first.numbers, second.numbers),
            (first.centres, second.centres),
            (first.roots, second.roots),
            (first.centring, second.centring),
        )
    )
    return Drawn(numbers, centres, roots, centring, first.log_weight + second.log_weight)


def n_signals(joint: Joint) -> int:
    """How many signals a step has that noise may grow with. Any batch is on the first axes."""
    controls = joint.L.shape[-2] if joint.C.shape[-3] else 0
    senses = joint.D.shape[-3] * joint.D.shape[-2]
    return controls + senses + (0 if joint.sensing is None else n_signals(joint.sensing))


def reveal(
    signals: Signals,
    cov: Float[Array, "v v #groups"],
    draws: Drawn,
    information: Callable[[Array], Array],
    every: Callable[[Array], Array] = lambda values: values,
) -> tuple[Float[Array, "v particle"], Float[Array, "v v #groups"], Drawn]:
    """By how much the mean of z changes once its signals are known, the covariance of z then, and
    the signals.

    - `draws`: `fresh` numbers, or what the first model has drawn, if this is another one.
    - `information`: from how z answers each whitened signal to about how much the next sample tells
      of it, as an inverse variance.
    - `every`: covariances may be shared by all particles, or by groups of them; this goes from a
      value for each group to one for each particle.

    A signal that hardly varies beside its size is not drawn; its variance then counts in the
    noise, as it does in moment matching, and changes no digit of it.

    Another model takes over the signal itself where samples tell it, because its density there
    hardly changes then; where they do not, it takes over the whitened signal, because its own is
    different; and in between in proportion (a partly centred parametrisation). With means m and
    standard deviations s of the first model (0) and the other (j), and the centring k,

        e_j = (s_0 / s_j)^k e_0 - k (m_j - m_0) / s_j

    and the ratio of densities is exp((e_0^2 - e_j^2) / 2) (s_0 / s_j)^k.
    """
    gains, factor, cov = _whitened(signals, cov)
    informed = information(gains)
    gains, factor = every(gains), every(factor)
    change = jnp.zeros((gains.shape[1], signals.mean.shape[1]))
    values, log_weight = signals.mean, jnp.zeros(signals.mean.shape[1])
    numbers, centres = [], []
    for k in range(len(values)):
        varies, e_0, taken = factor[k, k] > 0, draws.numbers[k], draws.centring[k]
        both = varies & (draws.roots[k] > 0)
        root = jnp.where(both, factor[k, k], 1.0)
        ratio = jnp.where(both, draws.roots[k] / root, 1.0) ** taken
        moved = jnp.where(both, taken * (values[k] - draws.centres[k]) / root, 0.0)
        e = jnp.where(varies, ratio * e_0 - moved, 0.0)
        gained = 0.5 * (e_0**2 - e**2) + jnp.log(ratio)
        log_weight = log_weight + jnp.where(both, gained, 0.0)
        numbers.append(e)
        centres.append(values[k])
        values = values + factor[:, k] * e
        change = change + gains[k] * e
    roots = diagonal(factor)
    centring = jnp.where(roots > 0, LATER * informed / (1.0 + LATER * informed), 0.0)
    return change, cov, Drawn(jnp.stack(numbers), jnp.stack(centres), roots, centring, log_weight)


def first_root(signals: Signals, cov: Float[Array, "v v #groups"]) -> Float[Array, " #groups"]:
    """The standard deviation of the first signal, 0 if it is not drawn."""
    return _whitened(signals, cov)[1][0, 0]


def _whitened(
    signals: Signals, cov: Float[Array, "v v #groups"]
) -> tuple[Float[Array, "s v #groups"], Float[Array, "s s #groups"], Float[Array, "v v #groups"]]:
    """How z answers each signal, whitened one after the other; how the signals do (the Cholesky
    factor of their covariance, with zeros for what is not drawn); the covariance of z given all."""
    order = jnp.arange(len(signals.drawn))[:, None]
    floor = RANK_TOLERANCE * (diagonal(signals.among) + signals.size**2)

    def reveal_signal(k: Any, carry: Any) -> Any:
        gains, roots, cov, among, across = carry
        varies = signals.drawn[k] & (among[k, k] > floor[k])
        scale = jnp.where(varies, 1.0 / jnp.sqrt(jnp.where(varies, among[k, k], 1.0)), 0.0)
        gain = across[k] * scale
        column = jnp.where(order >= k, among[:, k] * scale, 0.0)
        return (
            gains.at[k].set(gain),
            roots.at[:, k].set(column),
            cov - gain[:, None] * gain[None, :],
            among - column[:, None] * column[None, :],
            across - column[:, None] * gain[None, :],
        )

    nothing = jnp.zeros_like(signals.across), jnp.zeros_like(signals.among)
    carry = (*nothing, cov, signals.among, signals.across)
    return loop(len(order), reveal_signal, carry)[:3]
