"""Programs that compile quickly."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

# On a CPU, XLA's older way to emit fused loops and LLVM's first level of optimisation: measured
# on the likelihood and its gradient, they compile in half the time, and what they make runs
# faster, not slower (benchmarks/NOTES.md).
_LEAN = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}


def lean_jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """`eqx.filter_jit` for large programs. Not for functions that users' own programs call: these
    options can only be given to a program as a whole."""

    @functools.cache
    def compiled(backend: str) -> Callable[..., Any]:
        options = _LEAN if backend == "cpu" and _understood() else None
        jit: Any = eqx.filter_jit  # which hands on what it does not know to jax.jit
        return jit(function, compiler_options=options)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return compiled(jax.default_backend())(*args, **kwargs)

    return call


@functools.cache
def _understood() -> bool:
    """Whether this version of XLA has the options: they are no promise of its makers."""
    try:
        jax.jit(lambda x: x, compiler_options=_LEAN).lower(0.0).compile()
    except (RuntimeError, ValueError):
        return False
    return True
