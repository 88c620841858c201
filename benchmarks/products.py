"""Ways to multiply many small matrices: `python benchmarks/products.py`.

Chains of products in a scan, as in the solver: with the batch on the first axis, as JAX's batched
matrix product needs it, and with the batch on the last axis, as a matrix product or as
multiply-and-add. Prints nanoseconds per product.
"""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

STEPS = 29  # as in the reaching task with T = 30
ROUNDS = 15

Product = Callable[[Any, Any], Any]
WAYS: dict[str, tuple[Product, int]] = {  # and the axis of the rows
    "batch first, matrix product": (lambda A, B: A @ B, -2),
    "batch last, matrix product": (lambda A, B: jnp.einsum("ijb,jkb->ikb", A, B), 0),
    "batch last, multiply and add": (lambda A, B: (A[:, :, None] * B[None]).sum(axis=1), 0),
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
    print(f"{'states':>6}{'batch':>7}" + "".join(f"{way:>31}" for way in WAYS))
    for n, batch in (
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
        A, Q = 0.3 * rng.normal(size=(STEPS, batch, n, n)), rng.normal(size=(STEPS, batch, n, n))
        parts = (A, Q, np.tile(np.eye(n), (batch, 1, 1)))
        line = f"{n:>6}{batch:>7}"
        for product, rows in WAYS.values():
            arranged = parts if rows else tuple(np.moveaxis(part, -3, -1) for part in parts)
            line += f"{nanoseconds(product, rows, arranged):>28,.0f} ns"
        print(line, flush=True)


def nanoseconds(product: Product, rows: int, parts: Any) -> float:
    run = jax.jit(lambda *arrays: chain(product, rows, *arrays))
    arrays = [jnp.asarray(part) for part in parts]
    jax.block_until_ready(run(*arrays))
    seconds = []
    for _ in range(9):
        begin = time.perf_counter()
        jax.block_until_ready(run(*arrays))
        seconds.append(time.perf_counter() - begin)
    return float(np.median(seconds)) / (STEPS * ROUNDS * 6) * 1e9


if __name__ == "__main__":
    main()
