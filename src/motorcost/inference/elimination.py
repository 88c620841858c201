"""Condition a Gaussian on a sample, channel by channel, by elimination.

Both filters condition through `eliminate`, so that they decide in the same way

- whether a channel varies, given everything before it: it does if noise of its own is added to it,
  or if its variance exceeds what rounding leaves of a zero (`rounding_floor`);
- whether a sample contradicts the model: it does where the channel does not vary and the sample
  differs from what it must be by more than the tolerance, and by more than it could with a variance
  that rounding hides (`contradicts`).

A channel that does not vary has no density, adds nothing to the log likelihood and changes nothing
else. Degenerate noise therefore needs no jitter.

All arrays have trials on the last axis. An axis of length one stands for a value that all trials
share.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from motorcost.numerics.linalg import RANK_TOLERANCE, loop

# A sample may differ from what it must be by this fraction of the trial's largest sample and of
# the prediction: files hold fewer digits than arithmetic.
CONTRADICTION = 1e-6

# A deviation up to this many SDs, at the largest variance that counts as zero, is no
# contradiction.
HIDDEN_DEVIATIONS = 4.0

# Stands in place of a sample's index where no sample contradicts the model.
NO_CONTRADICTION = int(np.iinfo(np.int32).max)


class Channels(eqx.Module):
    """The channels of one sample before they are conditioned on."""

    residual: Float[Array, "o trial"]  # sample minus prediction
    cov: Float[Array, "o o #trial"]
    noise: Float[Array, " o"]  # the least variance of each channel given those before it
    floor: Float[Array, "o #trial"]  # what rounding leaves of a variance that is zero
    present: Bool[Array, "o trial"] | None = None  # not missing; None if no sample is missing


class Whitened(eqx.Module):
    """The channels after whitening: innovation e = R (o - S mu), with R' R the inverse of the
    sample's covariance where it varies, and zero where it does not."""

    residual: Float[Array, "o trial"]  # sample minus what the channels before it predict
    varies: Bool[Array, "o trial"]
    innovation: Float[Array, "o trial"]
    rows: Float[Array, "o z trial"]  # R S: what each whitened channel measures of z
    gain: Float[Array, "o z trial"]  # R S cov: how z answers each whitened channel


class Update(eqx.Module):
    """What conditioning on one sample found."""

    log_density: Float[Array, " trial"]
    unexplained: Float[Array, "o trial"]  # the residual where it must be zero, elsewhere zero
    whitened: Whitened | None  # only if `eliminate` was given the rows


def rounding_floor(
    variance: Float[Array, "o #trial"], over_all_trials: Float[Array, "o #trial"]
) -> Float[Array, "o #trial"]:
    """The variance up to which a channel counts as not varying.

    Covariances are differences of larger numbers, so what rounding leaves of a zero is measured by
    the larger of the channel's `variance` given the samples before it and the variance that it has
    `over_all_trials`, given no samples.
    """
    return RANK_TOLERANCE * jnp.maximum(variance, over_all_trials)


def tolerance(samples: Float[Array, "T o trial"]) -> Float[Array, "o trial"]:
    """The part of the tolerance for contradictions that is the same for all samples of a trial."""
    largest = jnp.abs(jnp.where(jnp.isnan(samples), 0.0, samples)).max(axis=0)
    return CONTRADICTION * lax.stop_gradient(largest)


def contradicts(
    unexplained: Float[Array, "o trial"],
    tolerance: Float[Array, "o trial"],
    size: Float[Array, "o trial"],
    floor: Float[Array, "o #trial"],
) -> Bool[Array, "o trial"]:
    """Whether each channel differs from what it must be.

    `size` is that of the prediction, `floor` the variance up to which a channel counts as not
    varying: it may vary by that much nevertheless, which rounding cannot tell from zero.
    """
    hidden = HIDDEN_DEVIATIONS * jnp.sqrt(jnp.maximum(lax.stop_gradient(floor), 0.0))
    return jnp.abs(unexplained) > tolerance + CONTRADICTION * size + hidden


def first_contradiction(
    contradicting: Bool[Array, "o trial"], step: int | Int[Array, ""] = 0
) -> Int[Array, " trial"]:
    """The index step * o + channel of the first channel that contradicts the model, or
    NO_CONTRADICTION."""
    o = contradicting.shape[0]
    index = step * o + jnp.arange(o)[:, None]
    return jnp.where(contradicting, index, NO_CONTRADICTION).min(axis=0)


def eliminate(
    channels: Channels,
    mean: Float[Array, "z trial"],
    cov: Float[Array, "z z #trial"],
    across: Float[Array, "o z #trial"],
    rows: Float[Array, "o z trial"] | None = None,
) -> tuple[Float[Array, "z trial"], Float[Array, "z z #trial"], Update]:
    """The mean and covariance of a Gaussian z given the channels of a sample.

    `across` is the covariance between channels and z. With `rows`, what each channel measures of
    z, the update contains the whitened channels, which smoothing needs.
    """
    order = jnp.arange(channels.residual.shape[0])[:, None]
    noise, floor, present = channels.noise, channels.floor, channels.present

    def eliminate_channel(k: Any, carry: Any) -> Any:
        mean, cov, residual, among, across, rows, update = carry
        pivot = jnp.maximum(among[k, k], noise[k])
        varies = (noise[k] > 0) | (pivot > floor[k])
        fixed = ~varies & jnp.isfinite(pivot)
        if present is not None:
            varies, fixed = present[k] & varies, present[k] & fixed
        # The inner `where` keeps the derivative of the branch not taken finite.
        root = jnp.sqrt(jnp.where(varies, pivot, 1.0))
        scale = jnp.where(varies, 1.0 / root, 0.0)
        e, gain = residual[k] * scale, across[k] * scale
        log_density = jnp.where(varies, -0.5 * (jnp.log(2 * jnp.pi) + e**2) - jnp.log(root), 0.0)
        whitened = update.whitened
        row = None
        if whitened is not None:
            row = rows[k] * scale
            whitened = _with_channel(whitened, k, (residual[k], varies, e, row, gain))
        update = Update(
            log_density=update.log_density + log_density,
            unexplained=update.unexplained.at[k].set(jnp.where(fixed, residual[k], 0.0)),
            whitened=whitened,
        )
        to_later = jnp.where(order > k, among[:, k] * scale, 0.0)
        return (
            mean + gain * e,
            cov - gain[:, None] * gain[None, :],
            residual - to_later * e,
            among - to_later[:, None] * to_later[None, :],
            across - to_later[:, None] * gain[None, :],
            None if row is None else rows - to_later[:, None] * row[None, :],
            update,
        )

    rest = (channels.residual, channels.cov, across, rows)
    carry = (mean, cov, *rest, _no_update(channels.residual, across, rows))
    mean, cov, *_, update = loop(len(order), eliminate_channel, carry)
    return mean, cov, update


def _with_channel(whitened: Whitened, k: Any, values: tuple[Array, ...]) -> Whitened:
    """`whitened` with the values of channel k, in the order of the fields, put in their place."""
    leaves, tree = jax.tree.flatten(whitened)
    placed = [leaf.at[k].set(value) for leaf, value in zip(leaves, values, strict=True)]
    return jax.tree.unflatten(tree, placed)


def _no_update(residual: Array, across: Array, rows: Array | None) -> Update:
    """The update before the first channel."""
    whitened = None
    if rows is not None:
        nothing = jnp.zeros_like(residual)
        varies = jnp.zeros(residual.shape, bool)
        whitened = Whitened(nothing, varies, nothing, jnp.zeros_like(rows), jnp.zeros_like(across))
    return Update(jnp.zeros_like(residual[0]), jnp.zeros_like(residual), whitened)
