"""What searches cost besides their evaluations: `python benchmarks/searches.py`.

A thousand searches for the minimum of a cheap function of three parameters: in step, by
`motorcost.fitting.optimise`, and one after the other, by SciPy's L-BFGS-B, which could be batched
only with a thread for each. Times per evaluation, the evaluation's own time taken off.
"""

import time

import numpy as np
from scipy.optimize import minimize

from motorcost.fitting.optimise import search_by_gradient

SEARCHES = 1000
TURNS = 7


def valley(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A curved valley whose minimum is 0, at (1, 1, 0)."""
    a, b = 1 - points[:, 0], points[:, 1] - points[:, 0] ** 2
    slopes = np.stack([-2 * a - 80 * b * points[:, 0], 40 * b, 2 * points[:, 2]], axis=1)
    return a**2 + 20 * b**2 + points[:, 2] ** 2, slopes


def in_step(starts: np.ndarray, bounds: np.ndarray) -> tuple[float, int, float]:
    """Seconds without the evaluations, evaluations, and the highest value that was found."""
    inside = 0.0

    def evaluate(which: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
        nonlocal inside
        begin = time.perf_counter()
        values, slopes = valley(points)
        inside += time.perf_counter() - begin
        return values, slopes, None

    begin = time.perf_counter()
    found, _ = search_by_gradient(evaluate, starts, bounds, tolerance=1e-12, max_evaluations=300)
    seconds = time.perf_counter() - begin - inside
    return seconds, sum(f.evaluations for f in found), max(f.value for f in found)


def by_scipy(starts: np.ndarray, bounds: np.ndarray) -> tuple[float, int, float]:
    """The same, one search after the other."""
    inside, count, worst = 0.0, 0, 0.0

    def evaluate(point: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal inside
        begin = time.perf_counter()
        (value,), (slope,) = valley(point[None])
        inside += time.perf_counter() - begin
        return float(value), slope

    begin = time.perf_counter()
    for start in starts:
        found = minimize(
            evaluate,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"ftol": 1e-14, "gtol": 1e-8, "maxcor": 20},
        )
        count, worst = count + found.nfev, max(worst, found.fun)
    return time.perf_counter() - begin - inside, count, worst


def main() -> None:
    starts = np.random.default_rng(0).uniform(-2, 2, size=(SEARCHES, 3))
    bounds = np.array([[-5.0, 5.0]] * 3)
    rows = [(in_step(starts, bounds), by_scipy(starts, bounds)) for _ in range(TURNS)]
    for name, column in (("in step", 0), ("L-BFGS-B", 1)):
        seconds, counts, worst = zip(*(row[column] for row in rows), strict=True)
        each = 1e6 * float(np.median(seconds)) / counts[0]
        print(
            f"{name:<10}{each:8.1f} µs per evaluation, {counts[0] / SEARCHES:.1f} evaluations per "
            f"search, highest minimum {max(worst):.1g}"
        )
    ratios = [scipy[0] / ours[0] * ours[1] / scipy[1] for ours, scipy in rows]
    print(f"ratio {np.median(ratios):.1f} (median of {TURNS})")


if __name__ == "__main__":
    main()
