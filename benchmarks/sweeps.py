"""How many sweeps the solver needs: `python benchmarks/sweeps.py`.

At parameters of the reaching task drawn from their whole supports: plain sweeps, and accelerated
ones that remember one step, two, and so on.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import motorcost as mc
from motorcost.model import solver
from motorcost.numerics import fixed_point

POINTS, MOST = 200, 500


def drawn() -> mc.Problem:
    """Problems side by side, at random efforts and weights."""
    parameters = mc.tasks.parameters(mc.tasks.reaching)
    names = ("effort", "velocity", "force")
    keys = jax.random.split(jax.random.key(0), len(names))
    values = {}
    for name, key in zip(names, keys, strict=True):
        support = parameters[name].support
        assert support is not None
        values[name] = support.from_search_scale(support.draw(key, (POINTS,)))
    return jax.jit(jax.vmap(lambda at: mc.tasks.reaching(**at), out_axes=-1))(values)


@jax.jit
def plain_sweeps(problem: mc.Problem) -> jax.Array:
    """After how many sweeps, one from the other, the gains stop changing."""

    def sweep(carry: Any, _: None) -> Any:
        L, estimates, K, count, settled = carry
        new = solver.backward_pass(problem, K)
        settled = settled | (solver._change(new - L, new, estimates) <= solver.TOLERANCE)
        found = solver.forward_pass(problem, new)
        return (new, found.estimates, found.K, count + ~settled, settled), None

    steps, n, _, lanes = problem.B.shape
    L = solver.backward_pass(problem, jnp.zeros((steps, n, problem.H.shape[1], lanes)))
    first = solver.forward_pass(problem, L)
    start = (L, first.estimates, first.K, jnp.ones(lanes, int), jnp.zeros(lanes, bool))
    return jax.lax.scan(sweep, start, length=MOST)[0][3]


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    problem = drawn()
    report("plain", np.asarray(plain_sweeps(problem)))
    for memory in (1, 2, 3, 4, 6):
        fixed_point.MEMORY = memory
        jax.clear_caches()
        found = jax.jit(lambda p: solver._solve(p, solver.TOLERANCE, MOST).sweeps)(problem)
        report(f"remembering {memory}", np.asarray(found))


def report(what: str, sweeps: np.ndarray) -> None:
    low, high = np.quantile(sweeps, [0.5, 0.9])
    print(f"{what:<16} median {low:4.0f}, 90 % within {high:4.0f}, at most {sweeps.max():4d}")


if __name__ == "__main__":
    main()
