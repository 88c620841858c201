"""How long likelihoods take, and how much memory. Run with `make bench`."""

import functools
import resource
import time
from typing import Any

import jax

import motorcost as mc
from timing import compare, report


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    problem = mc.tasks.reaching()
    policy = mc.solve(problem)

    def simulated(n_trials: int) -> Any:
        return mc.simulate(problem, policy, n_trials=n_trials, key=jax.random.key(0)).observed

    def value(parameters: Any, observed: Any) -> Any:
        return mc.log_likelihood(mc.tasks.reaching(**parameters), observed)

    at = {"effort": 1e-5, "velocity": 0.2, "force": 0.02}
    compiled, slopes = jax.jit(value), jax.jit(jax.value_and_grad(value))
    sets = {n: simulated(n) for n in (100, 1_000, 100_000)}
    for name, function in (("log likelihood", compiled), ("value and gradient", slopes)):
        begin = time.perf_counter()
        jax.block_until_ready(function(at, sets[100]))
        print(f"first call of {name}, compilation included: {time.perf_counter() - begin:.1f} s")

    def run(n_trials: int, function: Any = compiled) -> Any:
        return functools.partial(function, at, sets[n_trials])

    rows = [
        compare("log likelihood, 100 trials", run(100), "value and gradient", run(100, slopes)),
        compare("log likelihood, 100 trials", run(100), "1,000 trials", run(1_000)),
        compare("log likelihood, 1,000 trials", run(1_000), "100,000 trials", run(100_000), 5),
    ]
    report("inverse", f"reaching task, T = {problem.steps}, all states seen, with the solve", rows)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory, data of all sets included: {peak:.2f} GiB")


if __name__ == "__main__":
    main()
