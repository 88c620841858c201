"""The engine: from starts to maxima with their information, of one data set or of thousands.

`fit` is the case of one data set, a recovery study and a bootstrap that of many. All take the same
way: every search of every data set in step, the best of each data set polished by Newton's method,
and one meaning of `converged`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from motorcost.fitting.batching import BatchedObjective
from motorcost.fitting.derivative_free import Method, search_by_values
from motorcost.fitting.information import polish
from motorcost.fitting.optimise import Evaluate, Found, search_by_gradient

# Searches that end within this of the best log likelihood found the same maximum.
AGREEMENT = 0.01
# Searches stop where a step promises less than this, in log likelihood per sample.
TOLERANCE = 1e-10
# Evaluations that a search is given by default, times one more than the number of parameters.
EVALUATIONS_BY_GRADIENT = 50
EVALUATIONS_BY_VALUES = 200


@dataclass(frozen=True)
class Maximum:
    """The highest point that the searches of one data set found.

    - `point` on the search scale, `value` (log likelihood, or log posterior) and observed
      `information` there; NaN information if the search was interrupted.
    - `starts`: where each search came to, with values as log likelihoods.
    - `converged`: whether the polished point is a maximum.
    """

    point: np.ndarray
    value: float
    information: np.ndarray
    starts: tuple[Found, ...]
    converged: bool
    interrupted: bool

    @property
    def agreed(self) -> int:
        """How many of the starts found this maximum."""
        best = max(start.value for start in self.starts)
        return sum(best - start.value < AGREEMENT for start in self.starts)


def default_evaluations(method: Method, n_parameters: int) -> int:
    """How many points a search may try unless the user says otherwise."""
    by = EVALUATIONS_BY_GRADIENT if method == "gradient" else EVALUATIONS_BY_VALUES
    return by * (1 + n_parameters)


def search_all(
    evaluate: Evaluate,
    starts: np.ndarray,
    bounds: np.ndarray,
    *,
    scale: float,
    max_evaluations: int,
    method: Method = "gradient",
    tick: Callable[[int], None] = lambda done: None,
) -> tuple[list[Found], bool]:
    """Climb from all `starts` (S, p) in step, and tell whether the user interrupted.

    `evaluate` gives log likelihoods and gradients; `scale` is the number of samples (see
    `to_minimise`). The values that are returned are log likelihoods again.
    """

    def compressed(which: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return to_minimise(*evaluate(which, points), scale)

    if method == "gradient":
        found, interrupted = search_by_gradient(
            compressed,
            starts,
            bounds,
            tolerance=TOLERANCE,
            max_evaluations=max_evaluations,
            tick=tick,
        )
    else:
        found, interrupted = search_by_values(
            compressed, starts, bounds, method=method, max_evaluations=max_evaluations, tick=tick
        )
    return [replace(f, value=float(scale * np.sinh(-f.value))) for f in found], interrupted


def maximise(
    batched: BatchedObjective,
    starts: np.ndarray,
    *,
    max_evaluations: int | None = None,
    method: Method = "gradient",
    tick: Callable[[int], None] = lambda done: None,
) -> list[Maximum | None]:
    """The maximum of each data set, from its `starts` (data sets, starts, p); None for a data set
    none of whose starts is possible (starts of NaN are left out).

    Polishing uses gradients even if the method does not. An interruption (Ctrl-C) ends the
    searches where they are.
    """
    objective = batched.objective
    D, K, p = starts.shape
    possible = np.flatnonzero(np.isfinite(starts).all(axis=2).ravel())
    data_set = possible // K
    searched = batched if method == "gradient" else batched.values_only()
    most = default_evaluations(method, p) if max_evaluations is None else max_evaluations
    found, interrupted = search_all(
        lambda which, points: searched(data_set[which], points),
        starts.reshape(-1, p)[possible],
        objective.bounds,
        scale=objective.n_samples,
        max_evaluations=most,
        method=method,
        tick=tick,
    )
    of_data_set: list[list[Found]] = [[] for _ in range(D)]
    for d, search in zip(data_set, found, strict=True):
        of_data_set[d].append(search)
    points, values = np.full((D, p), np.nan), np.full(D, -np.inf)
    for d, searches in enumerate(of_data_set):
        if searches:
            best = max(searches, key=lambda search: search.value)
            points[d], values[d] = best.point, best.value
    information, converged = np.full((D, p, p), np.nan), np.zeros(D, bool)
    if not interrupted:
        try:
            polished = polish(batched, objective.supports, points, values)
            points, values = polished.points, polished.values
            information, converged = polished.information, polished.converged
        except KeyboardInterrupt:
            interrupted = True
    return [
        Maximum(
            point=points[d],
            value=float(values[d]),
            information=information[d],
            starts=tuple(searches),
            converged=bool(converged[d]),
            interrupted=interrupted,
        )
        if searches
        else None
        for d, searches in enumerate(of_data_set)
    ]


def to_minimise(
    values: np.ndarray, gradients: np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """What a search sees of log likelihoods (S,) and their gradients (S, p).

    `scale` is the size of values that matter, the number of samples. Far from any sensible point a
    log likelihood is -1e10 and falls by orders of magnitude with each step: this is minus its
    inverse hyperbolic sine, which is straight near zero and a logarithm far away.
    """
    small = values / scale
    with np.errstate(invalid="ignore"):
        return -np.arcsinh(small), -gradients / scale / np.hypot(1.0, small)[:, None]
