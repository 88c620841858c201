"""How to multiply many small matrices: `python benchmarks/products.py`.

Chains of products as in the solver, in a scan, written in several ways: with the many (lanes) on
the first axis, as JAX's batched matrix product wants them, and with the lanes last, as a matrix
product or as multiply and add. Prints nanoseconds for each product.
"""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

STEPS, ROUNDS = 29, 15

Product = Callable[[Any, Any], Any]
WAYS: dict[str, tuple[Product, int]] = {  # and where the rows of a matrix are
    "lanes first, matrix product": (lambda A, B: A @ B, -2),
    "lanes last, matrix product": (lambda A, B: jnp.einsum("ijb,jkb->ikb", A, B), 0),
    "lanes last, multiply and add": (lambda A, B: (A[:, :, None] * B[None]).sum(axis=1), 0),
}


def chain(product: Product, rows: int, A: Any, Q: Any, P: Any) -> Any:
    def step(P: Any, at: Any) -> Any:
        A, Q = at
        At = jnp.swapaxes(A, rows, rows + 1)
        X = product(product(At, product(At, product(P, A))), A) + Q
        Z = product(product(At, X), A)
        return (Z + jnp.swapaxes(Z, rows, rows + 1)) * 0.1, None

    return lax.fori_loop(0, ROUNDS, lambda _, P: lax.scan(step, P, (A, Q))[0], P)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    print(f"{'states':>6}{'lanes':>7}" + "".join(f"{way:>31}" for way in WAYS))
    for n, lanes in (
        (5, 1),
        (5, 8),
        (5, 32),
        (5, 40),
        (5, 256),
        (10, 4),
        (10, 8),
        (20, 1),
        (20, 8),
    ):
        rng = np.random.default_rng(0)
        A, Q = 0.3 * rng.normal(size=(STEPS, lanes, n, n)), rng.normal(size=(STEPS, lanes, n, n))
        parts = (A, Q, np.tile(np.eye(n), (lanes, 1, 1)))
        line = f"{n:>6}{lanes:>7}"
        for product, rows in WAYS.values():
            given = parts if rows else tuple(np.moveaxis(part, -3, -1) for part in parts)
            line += f"{nanoseconds(product, rows, given):>28,.0f} ns"
        print(line, flush=True)


def nanoseconds(product: Product, rows: int, parts: Any) -> float:
    run = jax.jit(lambda *given: chain(product, rows, *given))
    given = [jnp.asarray(part) for part in parts]
    jax.block_until_ready(run(*given))
    seconds = []
    for _ in range(9):
        begin = time.perf_counter()
        jax.block_until_ready(run(*given))
        seconds.append(time.perf_counter() - begin)
    return float(np.median(seconds)) / (STEPS * ROUNDS * 6) * 1e9


if __name__ == "__main__":
    main()
