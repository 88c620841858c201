"""The one filter: what the experimenter knows of state and belief, sample by sample.

With z = (x, xh): predict z exactly to second order (`joint.predict`), then condition on what
was recorded, o = S x + U th, as if z were Gaussian. Full observation is S = I, U = 0; nothing
else distinguishes it.

Channels are conditioned on one after the other, by elimination. A channel that the model calls
deterministic, given what came before it, has no variance: it adds nothing to the likelihood and
teaches nothing, and if the sample differs from what the model says it must be, the sample
contradicts the model. So degenerate noise needs no jitter. A missing sample (NaN) is skipped.

All arrays have trials on the last axis.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from motorcost.model.joint import Cov, Joint, Mean, predict
from motorcost.numerics.linalg import RANK_TOLERANCE, loop


class Update(eqx.Module):
    """What one sample taught. Channel by channel, in whitened form: innovation e = R (o - S mu),
    with R R' the inverse of its covariance where it varies, and zero where it does not."""

    log_density: Float[Array, " trial"]
    contradicts: Bool[Array, "o trial"]
    residual: Float[Array, "o trial"]  # sample minus what the channels before it say it is
    varies: Bool[Array, "o trial"]
    innovation: Float[Array, "o trial"]
    rows: Float[Array, "o z trial"]  # R S: what each whitened channel sees of z
    gain: Float[Array, "z o trial"]  # cov S' R': how z answers each whitened channel


def condition(
    S: Float[Array, "o n"],
    UU: Float[Array, "o o"],
    sample: Float[Array, "o trial"],
    noise: Float[Array, " o"],
    tolerance: Float[Array, "o trial"],
    mean: Mean,
    cov: Cov,
) -> tuple[Mean, Cov, Update]:
    """Mean and covariance of z given one more sample, and what the sample taught.

    Does a channel vary, or is its variance what rounding leaves of a zero? It varies at least by
    the `noise` that is new in it. Beyond that, the last trial tells, which has no samples: its
    covariance is what z varies by over all trials.
    """
    o, n = S.shape
    present = ~jnp.isnan(sample)
    residual = jnp.where(present, sample - S @ mean[:n], 0.0)
    sees = jnp.einsum("oi,ijb->ojb", S, cov[:n])
    among = jnp.einsum("ojb,kj->okb", sees[:, :n], S) + UU[:, :, None]
    rows = jnp.broadcast_to(jnp.pad(S, ((0, 0), (0, n)))[:, :, None], (o, *mean.shape))
    variance = jnp.einsum("kkb->kb", among)
    floor = RANK_TOLERANCE * jnp.maximum(variance, variance[:, -1:])
    size = jnp.abs(S) @ jnp.abs(mean[:n])
    later = jnp.arange(o)

    def eliminate(k: Any, carry: Any) -> Any:
        mean, cov, residual, among, sees, rows, out = carry
        pivot = jnp.maximum(among[k, k], noise[k])
        varies = present[k] & ((noise[k] > 0) | (pivot > floor[k]))
        impossible = jnp.abs(residual[k]) > tolerance[k] + CONTRADICTION * size[k]
        # The inner `where` keeps the derivative of the branch not taken finite.
        root = jnp.sqrt(jnp.where(varies, pivot, 1.0))
        scale = jnp.where(varies, 1.0 / root, 0.0)
        e = residual[k] * scale
        to_channels = jnp.where((later > k)[:, None], among[:, k] * scale, 0.0)
        gain, row = sees[k] * scale, rows[k] * scale
        log_density = jnp.where(varies, -0.5 * (jnp.log(2 * jnp.pi) + e**2) - jnp.log(root), 0.0)
        out = Update(
            log_density=out.log_density + log_density,
            contradicts=out.contradicts.at[k].set(
                present[k] & ~varies & jnp.isfinite(pivot) & impossible
            ),
            residual=out.residual.at[k].set(residual[k]),
            varies=out.varies.at[k].set(varies),
            innovation=out.innovation.at[k].set(e),
            rows=out.rows.at[k].set(row),
            gain=out.gain.at[:, k].set(gain),
        )
        return (
            mean + gain * e,
            cov - gain[:, None] * gain[None, :],
            residual - to_channels * e,
            among - to_channels[:, None] * to_channels[None, :],
            sees - to_channels[:, None] * gain[None, :],
            rows - to_channels[:, None] * row[None, :],
            out,
        )

    nothing = Update(
        log_density=jnp.zeros_like(mean[0]),
        contradicts=jnp.zeros_like(present),
        residual=jnp.zeros_like(sample),
        varies=jnp.zeros_like(present),
        innovation=jnp.zeros_like(sample),
        rows=jnp.zeros_like(rows),
        gain=jnp.zeros_like(jnp.swapaxes(rows, 0, 1)),
    )
    mean, cov, *_, update = loop(o, eliminate, (mean, cov, residual, among, sees, rows, nothing))
    return mean, cov, update


class Setting(eqx.Module):
    """What trials that share a problem share in the filter."""

    joint: Joint
    S: Float[Array, "T o n"]
    UU: Float[Array, "T o o"]
    mean_1: Float[Array, " z"]
    cov_1: Float[Array, "z z"]
    noise: Float[Array, "T o"]  # the least variance of each channel given those before it


# A sample may differ from what must be by this fraction of its trial's largest: files hold fewer
# digits than arithmetic.
CONTRADICTION = 1e-6


def run_filter(
    setting: Setting,
    samples: Float[Array, "T o trial"],
    mean_1: Mean,
    keep: Callable[[Any, Any], Any],
) -> Any:
    """What `keep((mean, cov) before, (mean, cov, update) after)` says of each sample, stacked.

    Each trial starts at its own mean, `mean_1`.
    """
    # The trial without samples that `condition` needs.
    samples = jnp.concatenate([samples, jnp.full_like(samples[:, :, :1], jnp.nan)], axis=-1)
    mean_1 = jnp.concatenate([mean_1, setting.mean_1[:, None]], axis=-1)
    cov_1 = jnp.broadcast_to(setting.cov_1[:, :, None], (*setting.cov_1.shape, mean_1.shape[1]))
    largest = jnp.abs(jnp.where(jnp.isnan(samples), 0.0, samples)).max(axis=0)
    tolerance = CONTRADICTION * lax.stop_gradient(largest)

    def given(sample: Any, before: tuple[Mean, Cov]) -> tuple[Mean, Cov, Update]:
        S, UU, noise, values = sample
        return condition(S, UU, values, noise, tolerance, *before)

    def step(carry: Any, at: Any) -> Any:
        joint_step, sample = at
        before = predict(joint_step, *carry)
        after = given(sample, before)
        return after[:2], keep(before, after)

    seen = (setting.S, setting.UU, setting.noise, samples)
    start = (mean_1, cov_1)
    first = given(jax.tree.map(lambda leaf: leaf[0], seen), start)
    later = jax.tree.map(lambda leaf: leaf[1:], seen)
    # Derivatives compute a step again rather than keep all it went through.
    _, rest = lax.scan(jax.checkpoint(step, prevent_cse=False), first[:2], (setting.joint, later))
    return jax.tree.map(
        lambda one, others: jnp.concatenate([one[None], others])[..., :-1], keep(start, first), rest
    )
