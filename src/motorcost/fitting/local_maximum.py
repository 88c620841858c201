"""Every different maximum of a fit, as an explanation of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from motorcost.fitting.intervals import standard_errors

if TYPE_CHECKING:
    from motorcost.fitting.fitted import Fit


@dataclass(frozen=True)
class LocalMaximum:
    """A maximum of the likelihood: one explanation of the data.

    Attributes
    ----------
    estimates : dict of str to float
        By name, in natural units.
    search_scale_errors : dict of str to float
        By name, on the search scale.
    log_likelihood, below : float
        Of all trials, and how far that is below the best (with priors, of the log posterior).
    searches : int
        How many of the searches came to it.
    point : array
        The estimates on the search scale.

    Examples
    --------
    >>> best = fit.maxima[0]
    >>> best.below, best.searches
    (0.0, 1)
    """

    estimates: dict[str, float]
    search_scale_errors: dict[str, float]
    log_likelihood: float
    below: float
    searches: int
    point: np.ndarray


def local_maxima(fit: Fit) -> tuple[LocalMaximum, ...]:
    """Return all maxima of a fit, the best first; see `Fit.maxima`."""
    objective, best = fit.objective, fit.all_maxima[0]
    found = []
    for maximum in fit.all_maxima:
        errors, _ = standard_errors(maximum, objective.supports)
        estimates = objective.values(maximum.point)
        found.append(
            LocalMaximum(
                estimates={name: float(value) for name, value in estimates.items()},
                search_scale_errors=dict(zip(fit.names, errors.tolist(), strict=True)),
                log_likelihood=maximum.value - fit.log_prior_at(maximum.point),
                below=best.value - maximum.value,
                searches=maximum.searches,
                point=maximum.point,
            )
        )
    return tuple(found)
