"""Profile likelihood: the log likelihood along one parameter, maximised over the others.

An interval ends where the profile has dropped by half the quantile of chi-square, if the model is
right. The standard errors allow for one that is not, and so do these intervals: the drop is larger
by the ratio of a parameter's variance to its variance by the curvature alone (Rotnitzky and Jewell
1990, Biometrika 77; Chandler and Bate 2007, Biometrika 94).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from motorcost import checks
from motorcost.fitting.batching import BatchedObjective
from motorcost.fitting.engine import search_all
from motorcost.fitting.information import robust_covariance, variance_ratios
from motorcost.fitting.intervals import drop_of
from motorcost.fitting.progress import Progress
from motorcost.fitting.settled import require_maximum
from motorcost.tasks.supports import Support

if TYPE_CHECKING:
    from motorcost.fitting.fitted import Fit
    from motorcost.plots.style import CaptionedFigure

# The root of twice the drop may miss the quantile (1.96) by this much: half a per cent.
CLOSE_ENOUGH = 0.01
# Points that a search for the best values of the other parameters may try.
MOST_EVALUATIONS = 60
# Points that are tried between one that is too near and one that is too far.
MOST_BISECTIONS = 8
# Points at which a slice of the likelihood is evaluated.
SLICE_POINTS = 21


@dataclass(frozen=True)
class Profile:
    """The profile likelihood of one coordinate.

    - `points`: on the search scale, increasing; `log_likelihoods` there, with the others at their
      best.
    - `parts`: of the interval at `level`, on the search scale, with increasing ends: one for each
      maximum, or fewer where they overlap. Infinite where the support ends before the data object,
      NaN if the user interrupted.
    - `gain`: by which a point of the profile is more probable than the fit's maximum.
    - `variance_ratio`: by how much the variance of the estimate is larger than its variance by the
      curvature alone (at least 1): trials vary more than the model says.
    - `estimate`: of the fit, on the search scale; `support`: which tells that scale; `unit`: of
      the parameter. They are for pictures.

    Examples
    --------
    >>> profile = fit.profiles()[0]
    >>> profile.name, profile.level
    ('effort', 0.95)
    """

    name: str
    level: float
    points: np.ndarray
    log_likelihoods: np.ndarray
    parts: tuple[tuple[float, float], ...]
    gain: float
    estimate: float = np.nan
    support: Support | None = None
    unit: str = ""
    variance_ratio: float = 1.0

    def plot(self, truth: float | None = None) -> CaptionedFigure:
        """Draw the log likelihood along the parameter, with its interval and the estimate.

        `truth` is the true value, where the trials were simulated.
        """
        from motorcost.plots.fits import plot_profile

        return plot_profile(self, truth)

    @property
    def drop(self) -> float:
        """How far below its maximum the log likelihood may be within the interval."""
        return drop_of(self.level) * self.variance_ratio

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest end of all parts."""
        return self.parts[0][0], self.parts[-1][1]


def profiles(
    batched: BatchedObjective,
    maxima: Sequence[tuple[np.ndarray, float]],
    sd: np.ndarray,
    *,
    ratios: np.ndarray,
    level: float = 0.95,
    which: Sequence[int] | None = None,
    tick: Callable[[], None] = lambda: None,
) -> tuple[list[Profile], bool]:
    """Profiles of the coordinates `which` (all if left out), and whether the user interrupted.

    Around each of the `maxima`, points with their values, the highest first; `sd` by the curvature
    says where to look first, and `ratios` by how much further the log likelihood may drop. Both
    sides of all coordinates are followed together.
    """
    chosen = list(range(len(sd)) if which is None else which)
    bounds = batched.objective.bounds
    roots = np.sqrt(2.0 * drop_of(level) * ratios)
    best = maxima[0][1]
    sides = {
        (k, i, sign): _Side(
            k,
            sign,
            float(roots[k]),
            point,
            best,
            value,
            float(sd[k]),
            float(bounds[k, (sign + 1) // 2]),
        )
        for k in chosen
        for i, (point, value) in enumerate(maxima)
        # From a maximum that lies lower than the interval's ends nothing is to be found.
        if 2 * (best - value) < roots[k] ** 2
        for sign in (-1, 1)
    }
    interrupted = _follow(list(sides.values()), batched, tick)
    result = []
    for k in chosen:
        of_coordinate = {key: side for key, side in sides.items() if key[0] == k}
        around = [i for _, i, sign in of_coordinate if sign == 1]
        at = [maxima[i][0][k] for i in around]
        values = [maxima[i][1] for i in around]
        for side in of_coordinate.values():
            at += side.points
            values += side.values
        order = np.argsort(at)
        result.append(
            Profile(
                name=batched.objective.names[k],
                level=level,
                points=np.array(at)[order],
                log_likelihoods=np.array(values)[order],
                parts=_joined([(sides[k, i, -1].end, sides[k, i, 1].end) for i in around]),
                gain=float(np.nanmax(values) - best),
                estimate=float(maxima[0][0][k]),
                support=batched.objective.coordinates[k].support,
                variance_ratio=float(ratios[k]),
            )
        )
    return result, interrupted


def _joined(parts: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """The parts with those joined that overlap, in increasing order."""
    if any(np.isnan(end) for part in parts for end in part):
        return ((np.nan, np.nan),)
    result: list[tuple[float, float]] = []
    for low, high in sorted(parts):
        if result and low <= result[-1][1]:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return tuple(result)


def _follow(sides: list[_Side], batched: BatchedObjective, tick: Callable[[], None]) -> bool:
    """Walk along all sides until each has its end; true if the user interrupted."""
    objective = batched.objective

    def of_one_data_set(_: np.ndarray, points: np.ndarray) -> Any:
        tick()
        return batched.with_curvatures(np.zeros(len(points), int), points)

    while walking := [side for side in sides if not side.done]:
        starts = np.stack([side.start() for side in walking])
        bounds = np.repeat(objective.bounds[None], len(walking), axis=0)
        for side, held in zip(walking, bounds, strict=True):
            held[side.k] = side.next  # equal bounds hold a coordinate
        found, interrupted = search_all(
            of_one_data_set,
            starts,
            bounds,
            scale=objective.n_samples,
            max_evaluations=MOST_EVALUATIONS,
        )
        if interrupted:
            return True
        for side, best in zip(walking, found, strict=True):
            side.tell(best.point, best.value)
    return False


@dataclass
class _Side:
    """A walk from the maximum outwards until the signed root of twice the drop in log likelihood
    reaches `z`, the normal quantile or more: it grows almost linearly, so secant steps arrive
    quickly."""

    k: int
    sign: int
    z: float
    maximum: np.ndarray
    value: float  # of the highest maximum
    start_value: float  # of the one where the walk begins
    sd: float
    edge: float
    points: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    end: float = np.nan
    done: bool = False

    def __post_init__(self) -> None:
        self._best = self.maximum  # of the others, at the last point
        self._reach = abs(self.edge - self.maximum[self.k])
        known = np.isfinite(self.sd) and self.sd > 0
        self._step = self.z * self.sd if known else self._reach / 4
        # Distances from the maximum: one that the data allow, and one that they refuse.
        self._near = 0.0
        self._near_root = float(np.sqrt(max(2.0 * (self.value - self.start_value), 0.0)))
        self._far, self._far_root = np.inf, np.inf
        self._bisections = 0
        self._outwards()

    @property
    def next(self) -> float:
        """The value at which the coordinate is held next."""
        return float(self.maximum[self.k] + self.sign * self._tried)

    def start(self) -> np.ndarray:
        """Where the search for the best values of the others begins."""
        start = np.array(self._best)
        start[self.k] = self.next
        return start

    def tell(self, point: np.ndarray, value: float) -> None:
        """Take the best point found at `next`, and choose the next one."""
        if np.isfinite(value):
            self._best = point
        self.points.append(self.next)
        self.values.append(value)
        root = float(np.sqrt(max(2.0 * (self.value - value), 0.0)))
        bracketed = bool(np.isfinite(self._far))
        if root >= (self.z - CLOSE_ENOUGH if bracketed else self.z):
            self._far, self._far_root = self._tried, root
        else:
            self._near, self._near_root = self._tried, root
        if not np.isfinite(self._far):
            root = max(self._near_root, 0.1)
            longer = 1.3 * (self.z - self._near_root) / root * self._near
            self._step = min(max(longer, self._step / 4), 3 * self._near)
            self._outwards()
        else:
            self._inwards(count=bracketed)

    def _outwards(self) -> None:
        self._tried = min(self._near + self._step, self._reach)
        if self._tried <= self._near:  # the support ends before the data object
            self.done, self.end = True, self.sign * np.inf

    def _inwards(self, *, count: bool) -> None:
        self._bisections += count
        close = abs(self._far_root - self.z) < CLOSE_ENOUGH
        if close or self._bisections >= MOST_BISECTIONS:
            self.done = True
            self.end = float(self.maximum[self.k] + self.sign * self._far)
            return
        share = (self.z - self._near_root) / (self._far_root - self._near_root)  # 0 if far is inf
        self._tried = self._near + min(max(share, 0.1), 0.95) * (self._far - self._near)


def profiles_of(
    fit: Fit, level: float, names: Sequence[str] | None, progress: Progress | None
) -> list[Profile]:
    """Return the profile likelihoods of a fit; see `Fit.profiles`."""
    names = fit.names if names is None else names
    which = [fit.names.index(checks.one_of("free parameter", n, fit.names)) for n in names]
    require_maximum(fit, "profile")
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress("profiles", done, None)

    supports, at_edge = fit.objective.supports, np.isin(fit.names, fit.at_bounds)
    by_curvature, _ = robust_covariance(supports, fit.information, None, at_edge)
    found, _ = profiles(
        BatchedObjective(fit.objective, expected=fit.size, priors=fit.priors),
        [(maximum.point, maximum.value) for maximum in fit.all_maxima],
        np.sqrt(np.diagonal(by_curvature)),
        ratios=variance_ratios(supports, fit.information, fit.trial_scores, at_edge),
        level=level,
        which=which,
        tick=tick,
    )
    return [replace(profile, unit=fit.units[profile.name]) for profile in found]


def slice_along(fit: Fit, profile: Profile) -> tuple[np.ndarray, np.ndarray]:
    """Return the log likelihood along one parameter of a fit; see `Fit.likelihood_slice`."""
    grid = np.linspace(profile.points.min(), profile.points.max(), SLICE_POINTS)
    points = np.tile(fit.point, (len(grid), 1))
    points[:, fit.names.index(profile.name)] = grid
    # The program of the fit, whose gradients nobody needs here: another one would take longer to
    # compile.
    batched = BatchedObjective(fit.objective, expected=fit.size, priors=fit.priors)
    return grid, batched(np.zeros(len(points), int), points)[0]
