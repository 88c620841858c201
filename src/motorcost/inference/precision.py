"""Whether the digits of a log likelihood are lost.

Where the recording noise is tiny beside a channel's range, the variance of a sample given those
before it is a small difference of large numbers, and rounding takes its digits. A likelihood does
not depend on the units of the samples: computed again in others, it changes by what rounding does.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np

from motorcost import checks
from motorcost.errors import InputError
from motorcost.inference.grouping import Group

# A recording noise below this fraction of its channel's range is looked at.
SMALL_NOISE = 1e-6
# A log likelihood whose rounding error exceeds this is refused: differences of 0.1 decide little.
MOST_ROUNDING = 1e-2


def raise_if_digits_are_lost(
    group: Group, values: Any, filled: np.ndarray, run: Callable[[Group], Any]
) -> None:
    """Raise if rounding changes the log likelihoods `values` of the group's trials by too much.

    `run` computes them. It runs again only if all channels have noise and that of one is small.
    """
    ratio = _noise_by_range(group)
    if not 0 < ratio < SMALL_NOISE:
        return
    samples, observer = np.asarray(group.samples), group.observer
    # No powers of two, by which nothing is rounded differently.
    factors = 1.0 + 0.37 * np.arange(1, samples.shape[-1] + 1)
    other = eqx.tree_at(
        lambda g: (g.samples, g.observer.S, g.observer.U),
        group,
        (
            checks.jax_array(samples * factors),
            checks.jax_array(np.asarray(observer.S) * factors[:, None]),
            checks.jax_array(np.asarray(observer.U) * factors[:, None]),
        ),
    )
    units = ((~np.isnan(samples)) * np.log(factors)).sum(axis=(2, 3))
    error = np.abs(np.asarray(run(other)) + units - np.asarray(values))[filled].sum()
    if not error <= MOST_ROUNDING:
        raise InputError(
            f"the log likelihood has lost its digits: computed in other units it differs by "
            f"{error:.2g}, because the recording noise is {ratio:.1g} of a channel's range; use "
            "noise=0, or a larger noise"
        )


def _noise_by_range(group: Group) -> float:
    """The smallest ratio of recording noise and range of a channel; 0 if any has no noise."""
    variance = (np.asarray(group.observer.U) ** 2).sum(axis=-1)
    variance = variance.min(axis=tuple(range(variance.ndim - 1)))
    samples = np.abs(np.nan_to_num(np.asarray(group.samples)))
    largest = samples.max(axis=tuple(range(samples.ndim - 1)))
    moving = largest > 0
    return float((np.sqrt(variance[moving]) / largest[moving]).min(initial=np.inf))
