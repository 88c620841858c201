"""What the first calls in a process compile: programs, and CPU time with them.

    python benchmarks/first_calls.py

Each call is the first of its kind; what an earlier one compiled is not compiled again.
"""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import motorcost as mc

COMPILED = "/jax/core/compile/backend_compile_duration"
EVENTS: list[str] = []


def first_call(name: str, call: Callable[[], Any]) -> Any:
    """Print what a call compiles, and return its result."""
    EVENTS.clear()
    before = time.process_time()
    result = jax.block_until_ready(call())
    spent = time.process_time() - before
    print(f"{name:42}  {EVENTS.count(COMPILED):8d}  {spent:7.2f} s")
    return result


def main() -> None:
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: EVENTS.append(event)
    )
    camera = mc.ObserverSpec(["position"], noise=1e-3)
    key = jax.random.key(0)
    print(f"{'first call of':42}  {'programs':>8}  {'CPU':>9}")
    problem = first_call("tasks.reaching()", mc.tasks.reaching)
    first_call("tasks.saccade()", mc.tasks.saccade)
    first_call("tasks.planar_reaching()", mc.tasks.planar_reaching)
    first_call("tasks.subjective_pursuit(delay=2)", lambda: mc.tasks.subjective_pursuit(delay=2))
    first_call("delay(problem, 3)", lambda: mc.delay(problem, 3))
    policy = first_call("solve(problem)", lambda: mc.solve(problem))
    trials = first_call(
        "simulate(problem, policy)",
        lambda: mc.simulate(problem, policy, n_trials=20, key=key, observer=camera),
    )
    first_call(
        "log_likelihood(problem, trials)",
        lambda: mc.log_likelihood(problem, trials, observer=camera),
    )
    targets = trials.with_conditions(target=np.repeat([0.08, 0.1, 0.12, 0.14], 5))
    first_call(
        "log_likelihood(task, trials to 4 targets)",
        lambda: mc.log_likelihood(mc.tasks.reaching, targets, observer=camera),
    )
    first_call(
        "track_beliefs(problem, trials)",
        lambda: mc.track_beliefs(problem, trials, observer=camera).mean,
    )


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
