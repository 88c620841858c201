"""What the tests of sweeps share: functions to sweep, and ways to look at what came of it."""

import jax
import pandas as pd

GRID = {"effort": [1e-5, 1e-3], "trials": [10, 20, 30]}


def draw(key, effort, trials):
    noise = jax.random.normal(key)
    return {"estimate": effort + noise, "twice": 2 * trials, "large": trials > 10}


def draw_too(key, effort, trials):
    return draw(key, effort, trials)


def draw_many(keys, effort, trials):
    noise = jax.vmap(jax.random.normal)(keys)
    return {"estimate": effort + noise, "twice": 2 * trials, "large": trials > 10}


def same(a, b):
    pd.testing.assert_frame_equal(a, b, check_exact=True)


def contents(folder):
    """The bytes of every file, except the lock, which has none."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


class StopError(Exception):
    """Raised by the progress function of a test, in the place of an interruption."""


def stop_at(done):
    def stop(progress):
        if progress.done == done:
            raise StopError

    return stop
