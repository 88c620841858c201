"""A job in a separate process, which prints its measurements as JSON.

    python benchmarks/child.py JOB [--quick] [--cores N] [--trials N] [--steps N] [--delay N]

Used by processes.py and growth.py. Jobs that begin with `first` are timed on their first call,
compilation included; the others, except imports, on later calls.
"""

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

IMPORTS = ("import-jax", "import")
CALLS = ("likelihood", "gradient", "fit")
FIRST = (f"first-{of}{call}" for of in ("", "straight-") for call in CALLS)
JOBS = (*IMPORTS, *CALLS, *FIRST, "first-lab-fit")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cores", type=int)
    parser.add_argument("--trials", type=int)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--delay", type=int, default=0)
    args = parser.parse_args()
    if args.cores:  # before JAX counts them
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cores])
    begin = time.perf_counter()
    import jax

    jax_imported = time.perf_counter()
    jax.config.update("jax_enable_x64", True)
    import motorcost  # noqa: F401

    imports = dict(
        zip(IMPORTS, (jax_imported - begin, time.perf_counter() - jax_imported), strict=True)
    )
    out = {"seconds": imports[args.job]} if args.job in imports else measure(args)
    print(json.dumps(out | {"imports": sum(imports.values())}))


def measure(args: argparse.Namespace) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp
    import numpy as np

    import core
    import lab
    import motorcost as mc
    from cases import FULL, QUICK, Reaching, point, recorded, value, value_and_gradient

    scale = QUICK if args.quick else FULL
    case = Reaching(args.steps or scale.steps, args.delay)
    n_trials = args.trials or scale.trials
    trials = recorded(case, min(n_trials, 100))
    # The same trials repeated: simulating many takes more memory than evaluating them.
    one_by_one = np.asarray(trials.observed)
    observed = jnp.asarray(np.resize(one_by_one, (n_trials, *one_by_one.shape[1:])))
    many = mc.Trials(observed, trials.times)
    straight = "straight" in args.job
    call: Callable[[], Any]
    if args.job == "first-lab-fit":
        reaches = lab.reaches(4 if args.quick else 40)
        call = partial(lab.fitted, reaches, scale.starts, 1, scale.max_evaluations)
    elif args.job.endswith("fit"):
        call = partial(core.our_fit, trials, scale)
        if straight:
            call = core.straight_fit(case, trials, scale)
    elif args.job.endswith("gradient"):
        compiled = value_and_gradient(case, "straight_unrolled" if straight else "ours")
        call = partial(compiled, point(), many)
    else:
        call = partial(value(case, "straight" if straight else "ours"), point(), many)

    def seconds() -> float:
        begin = time.perf_counter()
        jax.block_until_ready(call())
        return time.perf_counter() - begin

    took = seconds()
    if not args.job.startswith("first"):
        took = float(np.median([seconds() for _ in range(1 if args.job == "fit" else 3)]))
    return {"seconds": took, "peak_bytes": peak_bytes(), "data_bytes": observed.nbytes}


def peak_bytes() -> int:
    """The peak memory of this process."""
    kibibytes = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kibibytes


if __name__ == "__main__":
    main()
