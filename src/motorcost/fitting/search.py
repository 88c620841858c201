"""Several searches for a maximum, run together.

Each search is an ordinary optimiser in a thread of its own. When all have asked for a point, the
points are evaluated in one batched call, which costs little more than one of them alone.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from motorcost.errors import InputError

# Values and gradients at several points: (S, p) -> (S,), (S, p).
Evaluate = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
# A function that asks for the value and gradient at a point.
Ask = Callable[[np.ndarray], tuple[float, np.ndarray]]
Method = Literal["gradient", "nelder-mead", "bobyqa"]
METHODS: tuple[Method, ...] = ("gradient", "nelder-mead", "bobyqa")


class StoppedError(Exception):
    """The user interrupted, so no more points are evaluated."""


@dataclass(frozen=True)
class Found:
    """Where one search came to: the best point that it saw."""

    point: np.ndarray
    value: float
    evaluations: int
    converged: bool
    message: str


def run_together(
    workers: Sequence[Callable[[Ask], Any]],
    evaluate: Evaluate,
    tick: Callable[[], None] = lambda: None,
) -> tuple[list[Any], bool]:
    """What each worker returns, and whether the user interrupted (workers then get `StoppedError`).

    `evaluate` always gets as many points as there are workers, so that it compiles once; those
    of workers who are done are NaN. `tick` is called after every batch.
    """
    results: list[Any] = [None] * len(workers)
    errors: list[BaseException] = []
    answers: list[tuple[float, np.ndarray] | None] = [None] * len(workers)
    answered = [threading.Semaphore(0) for _ in workers]
    # What workers have to say: a point that they ask for, or None when they are done.
    inbox: queue.SimpleQueue[tuple[int, np.ndarray | None]] = queue.SimpleQueue()
    active = len(workers)
    stopped = False

    def asker(i: int) -> Ask:
        def ask(point: np.ndarray) -> tuple[float, np.ndarray]:
            inbox.put((i, np.array(point, float)))
            answered[i].acquire()
            answer, answers[i] = answers[i], None
            if answer is None:
                raise StoppedError
            return answer

        return ask

    def work(i: int) -> None:
        try:
            results[i] = workers[i](asker(i))
        except BaseException as error:  # handed on to the caller's thread, below
            errors.append(error)
        finally:
            inbox.put((i, None))

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(len(workers))]
    for thread in threads:
        thread.start()
    asked: dict[int, np.ndarray] = {}
    try:
        while active:
            i, point = inbox.get()
            if point is None:
                active -= 1
            else:
                asked[i] = point
            if not asked or len(asked) < active:
                continue
            nobody = np.full_like(next(iter(asked.values())), np.nan)
            points = np.stack([asked.get(i, nobody) for i in range(len(workers))])
            values, gradients = (np.asarray(part) for part in evaluate(points))
            for i in asked:
                answers[i] = (float(values[i]), gradients[i])
                answered[i].release()
            asked.clear()
            tick()
    except KeyboardInterrupt:
        stopped = True
    finally:
        # Whoever still waits, or will ask, gets no answer.
        for semaphore in answered if active else ():
            semaphore.release()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return results, stopped


def to_minimise(value: Any, gradient: np.ndarray, scale: float) -> tuple[Any, np.ndarray]:
    """What a search sees of log likelihoods and their gradients (..., p).

    `scale` is the size of values that matter, the number of samples. Far from any sense a log
    likelihood is -1e10 and falls by orders of magnitude with each step: this is minus its
    inverse hyperbolic sine, which is straight near zero and a logarithm far away.
    """
    small = value / scale
    return -np.arcsinh(small), -gradient / scale / np.hypot(1.0, small)[..., None]


def search(
    ask: Ask,
    start: np.ndarray,
    bounds: np.ndarray,
    method: Method,
    scale: float,
    max_evaluations: int,
) -> Found:
    """Climb from `start` to a maximum within `bounds` (p, 2). For `scale` see `to_minimise`; where
    a value is not finite the search sees a wall."""
    best = Found(start, -np.inf, 0, False, "")

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best
        inside = np.clip(point, bounds[:, 0], bounds[:, 1])
        value, gradient = ask(inside)
        ok = bool(np.isfinite(value) and np.isfinite(gradient).all())
        count = best.evaluations + 1
        better = ok and value > best.value
        best = Found(
            inside if better else best.point, value if better else best.value, count, False, ""
        )
        if not ok:  # a wall, but one that a line search steps back from by a sensible amount
            return 1.0 - np.arcsinh(best.value / scale), np.zeros_like(point)
        return to_minimise(value, gradient, scale)

    try:
        converged, message = _OPTIMISERS[method](objective, start, bounds, max_evaluations)
    except StoppedError:
        converged, message = False, "interrupted"
    return Found(best.point, best.value, best.evaluations, converged, message)


def _gradient(objective: Any, start: np.ndarray, bounds: np.ndarray, most: int) -> tuple[bool, str]:
    from scipy.optimize import Bounds, minimize  # slow to import

    options = {"maxfun": most, "maxiter": most, "ftol": 1e-10, "gtol": 1e-7, "maxcor": 20}
    found = minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=Bounds(*bounds.T), options=options
    )
    return bool(found.success), str(found.message)


def _nelder_mead(
    objective: Any, start: np.ndarray, bounds: np.ndarray, most: int
) -> tuple[bool, str]:
    from scipy.optimize import Bounds, minimize

    options = {"maxfev": most, "xatol": 1e-6, "fatol": 1e-12, "adaptive": True}
    below, above = start - bounds[:, 0], bounds[:, 1] - start
    sides = np.where(above >= below, np.minimum(above / 2, 1.0), -np.minimum(below / 2, 1.0))
    simplex = np.vstack([start, start + np.diag(sides)])
    found = minimize(
        lambda point: objective(point)[0],
        start,
        method="Nelder-Mead",
        bounds=Bounds(*bounds.T),
        options=options | {"initial_simplex": simplex},
    )
    return bool(found.success), str(found.message)


def _bobyqa(objective: Any, start: np.ndarray, bounds: np.ndarray, most: int) -> tuple[bool, str]:
    try:
        import pybobyqa
    except ImportError:
        raise InputError(
            "method='bobyqa' needs Py-BOBYQA, which is GPL: pip install 'motorcost[bobyqa]'; "
            "method='nelder-mead' needs nothing"
        ) from None
    if not np.isfinite(bounds).all():
        raise InputError("method='bobyqa' needs finite bounds for every parameter")
    inside = np.clip(start, bounds[:, 0], bounds[:, 1])
    found = pybobyqa.solve(
        lambda point: objective(point)[0],
        inside,
        bounds=(bounds[:, 0], bounds[:, 1]),
        maxfun=most,
        rhobeg=0.1,
        rhoend=1e-8,
        scaling_within_bounds=True,
        do_logging=False,
    )
    return found.flag == found.EXIT_SUCCESS, str(found.msg)


_OPTIMISERS: dict[str, Any] = {
    "gradient": _gradient,
    "nelder-mead": _nelder_mead,
    "bobyqa": _bobyqa,
}
