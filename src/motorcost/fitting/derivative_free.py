"""Searches that use values only: adapters of SciPy's Nelder-Mead and of Py-BOBYQA to the engine.

Each search is the library's own optimiser in a thread. When all have asked for a point, the points
are evaluated in one batch, which costs little more than one of them alone.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from motorcost.errors import InputError
from motorcost.fitting.optimise import EvaluateCurved, Found

Method = Literal["gradient", "nelder-mead", "bobyqa"]
METHODS: tuple[Method, ...] = ("gradient", "nelder-mead", "bobyqa")
# A function that asks for the value at a point.
Ask = Callable[[np.ndarray], float]


class StoppedError(Exception):
    """The user interrupted, so no more points are evaluated."""


def search_by_values(
    evaluate: EvaluateCurved,
    starts: np.ndarray,
    bounds: np.ndarray,
    *,
    method: Method,
    max_evaluations: int,
    tick: Callable[[int], None] = lambda done: None,
) -> tuple[list[Found], bool]:
    """Minimise from all `starts` (S, p) within `bounds` (p, 2), and tell whether the user
    interrupted. The counterpart of `search_by_gradient`."""
    check_available(method, bounds)
    done = 0

    def worker(start: np.ndarray) -> Callable[[Ask], Found]:
        def work(ask: Ask) -> Found:
            nonlocal done
            found = _search(ask, start, bounds, method, max_evaluations)
            done += 1
            return found

        return work

    def values(which: np.ndarray, points: np.ndarray) -> np.ndarray:
        found = evaluate(which, points)[0]
        tick(done)
        return found

    return run_together([worker(start) for start in starts], values)


def check_available(method: Method, bounds: np.ndarray) -> None:
    """Raise if the method cannot be used here, or not with these bounds."""
    check_installed(method)
    if method == "bobyqa" and not np.isfinite(bounds).all():
        raise InputError("method='bobyqa' needs finite bounds for every parameter")


def check_installed(method: str) -> None:
    """Raise if the method needs a package that is not there; asked before anything is read."""
    if method != "bobyqa":
        return
    try:
        import pybobyqa  # noqa: F401
    except ImportError:
        raise InputError(
            "method='bobyqa' needs Py-BOBYQA, which is GPL: pip install 'motorcost[bobyqa]'; "
            "method='nelder-mead' needs nothing"
        ) from None


def run_together(
    workers: Sequence[Callable[[Ask], Any]],
    evaluate: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> tuple[list[Any], bool]:
    """What each worker returns, and whether the user interrupted (workers get `StoppedError`).

    `evaluate` gets the numbers of the workers that ask, and their points.
    """
    results: list[Any] = [None] * len(workers)
    errors: list[BaseException] = []
    answers: list[float | None] = [None] * len(workers)
    answered = [threading.Semaphore(0) for _ in workers]
    # What workers have to say: a point that they ask for, or None when they are done.
    inbox: queue.SimpleQueue[tuple[int, np.ndarray | None]] = queue.SimpleQueue()

    def asker(i: int) -> Ask:
        def ask(point: np.ndarray) -> float:
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
    stopped = False
    try:
        _answer(inbox, answers, answered, evaluate)
    except KeyboardInterrupt:
        stopped = True
    finally:
        # Whoever still waits, or will ask, gets no answer.
        for semaphore in answered:
            semaphore.release()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return results, stopped


def _answer(
    inbox: queue.SimpleQueue[tuple[int, np.ndarray | None]],
    answers: list[float | None],
    answered: Sequence[threading.Semaphore],
    evaluate: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> None:
    """Evaluate what workers ask for, all of them at a time, until all are done."""
    active = len(answers)
    asked: dict[int, np.ndarray] = {}
    while active:
        i, point = inbox.get()
        if point is None:
            active -= 1
        else:
            asked[i] = point
        if not asked or len(asked) < active:
            continue
        which = np.array(sorted(asked))
        values = evaluate(which, np.stack([asked[i] for i in which]))
        for i, value in zip(which, values, strict=True):
            answers[i] = float(value)
            answered[i].release()
        asked.clear()


def _search(
    ask: Ask, start: np.ndarray, bounds: np.ndarray, method: Method, max_evaluations: int
) -> Found:
    """One search, remembering the best point that it saw."""
    best, best_value, count = start, np.inf, 0

    def objective(point: np.ndarray) -> float:
        nonlocal best, best_value, count
        inside = np.clip(point, bounds[:, 0], bounds[:, 1])
        value = ask(inside)
        count += 1
        if np.isfinite(value) and value < best_value:
            best, best_value = inside, value
        # A wall, but one that a model of the values can step back from by a sensible amount.
        return value if np.isfinite(value) else best_value + 1.0

    run = _nelder_mead if method == "nelder-mead" else _bobyqa
    try:
        converged, message = run(objective, start, bounds, max_evaluations)
    except StoppedError:
        converged, message = False, "interrupted"
    return Found(best, best_value, count, converged, message)


def _nelder_mead(
    objective: Callable[[np.ndarray], float], start: np.ndarray, bounds: np.ndarray, most: int
) -> tuple[bool, str]:
    from scipy.optimize import Bounds, minimize  # slow to import

    below, above = start - bounds[:, 0], bounds[:, 1] - start
    sides = np.where(above >= below, np.minimum(above / 2, 1.0), -np.minimum(below / 2, 1.0))
    options = {
        "maxfev": most,
        "xatol": 1e-6,
        "fatol": 1e-12,
        "adaptive": True,
        "initial_simplex": np.vstack([start, start + np.diag(sides)]),
    }
    found = minimize(
        objective, start, method="Nelder-Mead", bounds=Bounds(*bounds.T), options=options
    )
    return bool(found.success), str(found.message)


def _bobyqa(
    objective: Callable[[np.ndarray], float], start: np.ndarray, bounds: np.ndarray, most: int
) -> tuple[bool, str]:
    import pybobyqa

    found = pybobyqa.solve(
        objective,
        np.clip(start, bounds[:, 0], bounds[:, 1]),
        bounds=(bounds[:, 0], bounds[:, 1]),
        maxfun=most,
        rhobeg=0.1,
        rhoend=1e-8,
        scaling_within_bounds=True,
        do_logging=False,
    )
    return found.flag == found.EXIT_SUCCESS, str(found.msg)
