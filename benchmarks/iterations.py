"""The number of iterations that the solver needs: `python benchmarks/iterations.py`.

At parameters of the reaching task drawn from their supports: plain iterations, and accelerated ones
with a memory of one, two and more evaluations.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import motorcost as mc
from motorcost.model import solver
from motorcost.model.alternation import largest_change
from motorcost.model.passes import backward_pass, forward_pass
from motorcost.numerics import anderson

POINTS = 200
MAX_ITERATIONS = 500


def draw_problems() -> mc.Problem:
    """A batch of problems (on the last axis) with random efforts and weights."""
    parameters = mc.tasks.parameters(mc.tasks.reaching)
    names = ("effort", "velocity", "force")
    keys = jax.random.split(jax.random.key(0), len(names))
    values = {}
    for name, key in zip(names, keys, strict=True):
        support = parameters[name].support
        assert support is not None
        values[name] = support.from_search_scale(support.draw(key, (POINTS,)))
    return jax.jit(jax.vmap(lambda point: mc.tasks.reaching(**point), out_axes=-1))(values)


@jax.jit
def plain_iterations(problem: mc.Problem) -> jax.Array:
    """The number of plain iterations until the gains no longer change."""

    def iteration(carry: Any, _: None) -> Any:
        L, estimates, K, count, converged = carry
        L_next = backward_pass(problem, K)
        change = largest_change(L_next - L, L_next, estimates)
        converged = converged | (change <= solver.TOLERANCE)
        forward = forward_pass(problem, L_next)
        return (L_next, forward.estimates, forward.K, count + ~converged, converged), None

    steps, n, _, batch = problem.B.shape
    L = backward_pass(problem, jnp.zeros((steps, n, problem.H.shape[1], batch)))
    first = forward_pass(problem, L)
    start = (L, first.estimates, first.K, jnp.ones(batch, int), jnp.zeros(batch, bool))
    return jax.lax.scan(iteration, start, length=MAX_ITERATIONS)[0][3]


def accelerated_iterations(problem: mc.Problem, memory: int) -> jax.Array:
    """The number of iterations that the solver takes with this memory."""
    anderson.MEMORY = memory
    jax.clear_caches()
    return solver._solve(problem, solver.EXACT, MAX_ITERATIONS).iterations


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    problem = draw_problems()
    report("plain", np.asarray(plain_iterations(problem)))
    for memory in (1, 2, 3, 4, 6):
        report(f"memory of {memory}", np.asarray(accelerated_iterations(problem, memory)))


def report(name: str, iterations: np.ndarray) -> None:
    median, most, largest = np.quantile(iterations, [0.5, 0.9, 1.0])
    print(f"{name:<16} median {median:4.0f}, 90 % within {most:4.0f}, at most {largest:4.0f}")


if __name__ == "__main__":
    main()
