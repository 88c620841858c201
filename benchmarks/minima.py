"""Several minima of the expected cost, and what looking for them takes: `python
benchmarks/minima.py [--points N]`.

At random points of the reaching task where motor noise is strong and effort cheap: how many have
several minima, in how many the first start is not the lowest, the largest number of iterations, and
the time of a solution beside that of iterations from the first start alone (medians of CPU time,
taken in turn), for single problems with one minimum and for a batch of all.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import motorcost as mc
from motorcost.model import minima
from motorcost.model.passes import forward_pass
from motorcost.model.solver import EXACT, MAX_ITERATIONS
from motorcost.numerics.linalg import batch_size

SUPPORTS = {
    "effort": (1e-8, 1e-5),
    "velocity": (1e-3, 10.0),
    "force": (1e-4, 1.0),
    "motor_noise": (0.2, 3.0),
    "target": (0.02, 0.3),
    "dt": (0.008, 0.025),
}
TURNS = 5
SINGLE_PROBLEMS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--points", type=int, default=256, help="number of random problems")
    points = parser.parse_args().points
    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(0)
    values = {
        name: jnp.exp(rng.uniform(np.log(low), np.log(high), size=points))
        for name, (low, high) in SUPPORTS.items()
    }
    problems = jax.jit(jax.vmap(lambda point: mc.tasks.reaching(**point), out_axes=-1))(values)

    count, missed, iterations, converged = (np.asarray(x) for x in facts(problems))
    print(f"{points} problems, {converged.sum()} converged, at most {iterations.max()} iterations")
    print(
        f"several minima: {np.mean(count > 1):.1%}; first start not the lowest: {missed.mean():.1%}"
    )
    # As many problems at once as the package takes.
    size = batch_size(problems.A.shape[1])
    batches = [
        ratio(jax.tree.map(lambda leaf, i=i: leaf[..., i : i + size], problems))
        for i in range(0, points - size + 1, size)
    ]
    print(
        f"batches of {size}, beside the first start alone: median {np.median(batches):.2f}, most "
        f"{max(batches):.2f}"
    )
    single = np.flatnonzero(count == 1)[:SINGLE_PROBLEMS]
    ratios = [ratio(jax.tree.map(lambda leaf, i=i: leaf[..., i], problems)) for i in single]
    print(
        f"single problems with one minimum: median {np.median(ratios):.2f}, most {max(ratios):.2f}"
    )


@jax.jit
def lowest(problem: mc.Problem) -> Any:
    """The lowest of all minima, and its cost by a further forward pass."""
    found = minima.lowest_minimum(problem, EXACT, MAX_ITERATIONS)
    return found, forward_pass(problem, found.found.L).cost


@jax.jit
def first_start(problem: mc.Problem) -> Any:
    """The minimum to which the first start leads, and its cost by a further forward pass."""
    found = minima.lowest_minimum(problem, EXACT, MAX_ITERATIONS, first_only=True)
    return found, forward_pass(problem, found.found.L).cost


def facts(problems: mc.Problem) -> tuple[Any, Any, Any, Any]:
    """For each problem: number of minima, whether the first start missed the lowest, iterations,
    convergence."""
    (best, all_minima), _ = lowest(problems)
    (first, _), _ = first_start(problems)
    missed = ~first.converged | (first.cost > best.cost * (1 + 1e-7))
    return all_minima.count, missed, best.iterations, best.converged


def ratio(problems: mc.Problem) -> float:
    """The time of looking for all minima over that of the first start."""
    turns = [[seconds(lowest, problems), seconds(first_start, problems)] for _ in range(TURNS + 1)]
    ours, alone = np.array(turns[1:]).T  # the first turn compiles
    return float(np.median(ours / alone))


def seconds(run: Callable[..., Any], problems: mc.Problem) -> float:
    begin = time.process_time()
    jax.block_until_ready(run(problems))
    return time.process_time() - begin


if __name__ == "__main__":
    main()
