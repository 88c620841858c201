"""How long solving and simulating take. Run with `make bench`."""

from typing import Any

import jax
import jax.numpy as jnp

import motorcost as mc
from timing import compare, report


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    problem = mc.tasks.reaching()
    policy = mc.solve(problem)
    key = jax.random.key(0)

    def cost(effort: Any) -> Any:
        return mc.solve(mc.tasks.reaching(effort=effort)).expected_cost

    one, slope = jax.jit(cost), jax.jit(jax.value_and_grad(cost))
    batch = jax.jit(jax.vmap(cost))
    efforts = jnp.logspace(-6, -4, 256)

    def simulate(n_trials: int) -> Any:
        return mc.simulate(problem, policy, n_trials=n_trials, key=key)

    rows = [
        compare(
            "256 solves, batched",
            lambda: batch(efforts),
            "256 solves, one by one",
            lambda: [one(effort) for effort in efforts],
            repeats=5,
        ),
        compare("solve", lambda: one(1e-5), "its value and gradient", lambda: slope(1e-5)),
        compare(
            "simulate 10,000", lambda: simulate(10_000), "100,000", lambda: simulate(100_000), 7
        ),
    ]
    report("forward", f"reaching task, T = {problem.steps}", rows)


if __name__ == "__main__":
    main()
