"""How long a fit takes: reaching, 100 trials, 10 starts. Cold (a new process, imports and
compilation included) and warm, by gradients and by BOBYQA. Run with `make bench`."""

import subprocess
import sys
import time
from typing import Any

import jax

import motorcost as mc
from timing import compare, report


def run(trials: mc.Trials, method: Any) -> mc.Fit:
    free = ["effort", "velocity", "force"]
    return mc.fit(mc.tasks.reaching, trials, free, method=method, key=jax.random.key(1))


def recorded() -> mc.Trials:
    problem = mc.tasks.reaching()
    return mc.simulate(problem, mc.solve(problem), n_trials=100, key=jax.random.key(0))


def cold(method: str) -> None:
    """A new process that does nothing but fit."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, __file__, method], check=True)
    print(f"cold, {method}: {time.perf_counter() - begin:.1f} s")


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    if len(sys.argv) > 1:
        run(recorded(), sys.argv[1])
        return
    for method in ("gradient", "bobyqa"):
        cold(method)
    trials = recorded()
    fits: dict[str, mc.Fit] = {}

    def timed(method: str) -> Any:
        def go() -> Any:
            fits[method] = run(trials, method)
            return fits[method].point

        return go

    row = compare("fit by gradients", timed("gradient"), "by BOBYQA", timed("bobyqa"), repeats=3)
    for method, fit in fits.items():
        evaluations = max(start.evaluations for start in fit.starts)
        print(
            f"{method}: {fit.agreed} of {len(fit.starts)} starts agree on "
            f"{fit.log_likelihood:.6f}, after at most {evaluations} evaluations each"
        )
    report("fitting", "reaching task, T = 30, 100 trials, all states seen, 10 starts", [row])


if __name__ == "__main__":
    main()
