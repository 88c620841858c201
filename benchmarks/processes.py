"""The rows that need separate processes: cold starts, imports, and a single core."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cases import Scale
from timing import Comparison, Run, Seconds, SkippedError

CHILD = Path(__file__).with_name("child.py")


def comparisons(scale: Scale) -> Iterator[Comparison]:
    inside, whole = partial(_inside, scale), partial(_whole, scale)
    yield Comparison(
        "import motorcost, after jax", "import jax", _pair(inside, "import", "import-jax"), 5
    )
    for what, job in (("log likelihood", "likelihood"), ("value and gradient", "gradient")):
        yield Comparison(
            f"first {what}, compilation too",
            "straight",
            _pair(inside, f"first-{job}", f"first-straight-{job}"),
            3,
            cold=True,
        )
    yield Comparison(
        f"{scale.starts}-start fit, cold: a new process",
        "straight",
        _pair(whole, "first-fit", "first-straight-fit"),
        2,
        cold=True,
        most=8.0,
    )
    yield Comparison(
        "own targets and lengths, first fit: a new process",
        "one target",
        _pair(partial(_with_imports, scale), "first-lab-fit", "first-fit"),
        2,
        cold=True,
        most=20.0,
    )
    many = scale.trials if scale.once else 10_000
    for what, job, n_trials in (
        (f"value and gradient, {many:,} trials", "gradient", many),
        (f"{scale.starts}-start fit, warm", "fit", scale.trials),
    ):
        yield Comparison(
            f"{what}: all cores", "one core", partial(_cores, scale, job, n_trials), 2, cold=True
        )


def child(scale: Scale, job: str, **options: int) -> dict[str, Any]:
    """The measurements of `child.py` for this job.

    Nothing that an earlier process compiled is used, except at the quick scale.
    """
    command = [sys.executable, str(CHILD), job]
    command += [f"--{option}={value}" for option, value in options.items()]
    command += ["--quick"] if scale.once else []
    cold = {} if scale.once else {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    environment = os.environ | cold
    done = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _inside(scale: Scale, job: str, **options: int) -> Seconds:
    """The time that the job itself took."""
    return Seconds(child(scale, job, **options)["seconds"])


def _with_imports(scale: Scale, job: str) -> Seconds:
    """The time of imports and of the job itself: users have their data, and need not simulate."""
    found = child(scale, job)
    return Seconds(found["imports"] + found["seconds"])


def _whole(scale: Scale, job: str) -> Seconds:
    """From the start of the process to its end: imports, data and compilation included."""
    begin = time.perf_counter()
    child(scale, job)
    return Seconds(time.perf_counter() - begin)


def _pair(run: Callable[[str], Seconds], ours: str, theirs: str) -> Callable[[], tuple[Run, Run]]:
    return lambda: (partial(run, ours), partial(run, theirs))


def _cores(scale: Scale, job: str, n_trials: int) -> tuple[Run, Run]:
    if not hasattr(os, "sched_setaffinity"):
        raise SkippedError("this system cannot keep a process on one core")
    cores = len(os.sched_getaffinity(0))
    if cores == 1:
        raise SkippedError("there is only one core")
    run = partial(_inside, scale, job, trials=n_trials)
    return partial(run, cores=cores), partial(run, cores=1)
