"""Profile likelihood: how far a parameter can go before the data object, whatever the others do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from motorcost.fitting.objective import Objective
from motorcost.fitting.search import Ask, Evaluate, StoppedError, run_together, search

# The root of twice the drop may miss the quantile (1.96) by this much: half a per cent.
CLOSE_ENOUGH = 0.01


@dataclass(frozen=True)
class Profile:
    """The profile of one coordinate: at each of `points` (on its line, increasing) the log
    likelihood when the others are chosen best. `ends` are those of the interval at `level`, on
    the line, infinite where the support ends before the data object."""

    name: str
    level: float
    points: np.ndarray
    log_likelihoods: np.ndarray
    ends: tuple[float, float]
    gain: float  # by which a point of the profile is more probable than the fit's maximum


@dataclass(frozen=True)
class _Side:
    points: list[float]
    values: list[float]
    end: float


def profiles(
    objective: Objective,
    evaluate: Evaluate,
    point: np.ndarray,
    value: float,
    sd: np.ndarray,
    *,
    scale: float,
    level: float = 0.95,
    which: Sequence[int] | None = None,
    tick: Callable[[], None] = lambda: None,
) -> tuple[list[Profile], bool]:
    """Profiles of the coordinates `which` (all if left out), both sides of all at once, and
    whether the user interrupted.

    Around the maximum `value` at `point`; `sd` says where to look first.
    """
    chosen = list(range(len(point)) if which is None else which)
    sides = [(k, sign) for k in chosen for sign in (-1, 1)]

    def worker(k: int, sign: int) -> Callable[[Ask], _Side]:
        return lambda ask: _side(objective, ask, point, value, sd, k, sign, scale, level)

    found, stopped = run_together([worker(*side) for side in sides], evaluate, tick)
    both = dict(zip(sides, found, strict=True))
    result = []
    for k in chosen:
        low, high = both[k, -1], both[k, 1]
        at = np.array([*low.points, float(point[k]), *high.points])
        values = np.array([*low.values, value, *high.values])
        order = np.argsort(at)
        result.append(
            Profile(
                objective.names[k],
                level,
                at[order],
                values[order],
                (low.end, high.end),
                float(np.nanmax(values) - value),
            )
        )
    return result, stopped


def _side(
    objective: Objective,
    ask: Ask,
    point: np.ndarray,
    value: float,
    sd: np.ndarray,
    k: int,
    sign: int,
    scale: float,
    level: float,
) -> _Side:
    """Walk from the maximum outwards until the signed root of twice the drop reaches the normal
    quantile: it grows almost linearly, so that secant steps arrive quickly."""
    z = NormalDist().inv_cdf(0.5 + level / 2)
    edge = float(objective.bounds[k, 0 if sign < 0 else 1])
    others = np.delete(np.arange(len(point)), k)
    side = _Side([], [], np.nan)
    so_far = point

    def root_at(x: float) -> float:
        nonlocal so_far
        start = np.array(so_far)
        start[k] = x

        def held(rest: np.ndarray) -> tuple[float, np.ndarray]:
            whole = np.array(start)
            whole[others] = rest
            its_value, gradient = ask(whole)
            return its_value, gradient[others]

        if len(others):
            best = search(held, start[others], objective.bounds[others], "gradient", scale, 60)
            if best.message == "interrupted":
                raise StoppedError
            start[others], best_value = best.point, best.value
        else:
            best_value = held(start[others])[0]
        if np.isfinite(best_value):
            so_far = start
        side.points.append(x)
        side.values.append(best_value)
        return float(np.sqrt(max(2.0 * (value - best_value), 0.0)))

    reach = abs(edge - point[k])
    step = z * float(sd[k]) if np.isfinite(sd[k]) and sd[k] > 0 else reach / 4
    near, near_root = 0.0, 0.0
    try:
        while True:  # outwards, until the quantile lies between `near` and `far`
            far = min(near + step, reach)
            if far <= near:
                return _Side(side.points, side.values, sign * np.inf)
            far_root = root_at(point[k] + sign * far)
            if far_root >= z:
                break
            near, near_root = far, far_root
            step = min(max(1.3 * (z - near_root) / max(near_root, 0.1) * near, step / 4), 3 * near)
        for _ in range(8):  # then inwards
            if abs(far_root - z) < CLOSE_ENOUGH:
                break
            share = (z - near_root) / (far_root - near_root)  # 0 if far_root is infinite
            middle = near + min(max(share, 0.1), 0.95) * (far - near)
            middle_root = root_at(point[k] + sign * middle)
            if middle_root < z - CLOSE_ENOUGH:
                near, near_root = middle, middle_root
            else:
                far, far_root = middle, middle_root
        return _Side(side.points, side.values, point[k] + sign * far)
    except StoppedError:
        return side
