"""Compile large programs in less time."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from motorcost.checks import is_concrete, nothing_is_traced

# On a CPU, XLA's older emitter of fused loops and LLVM's first level of optimisation. Measured on
# the likelihood and its gradient, they halve the time of compilation, and the programs run faster,
# not slower (benchmarks/NOTES.md).
_CPU_OPTIONS = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}


def lean_jit(
    function: Callable[..., Any], *, jit: Callable[..., Any] = eqx.filter_jit, **options: Any
) -> Callable[..., Any]:
    """Compile `function` as `jit` does, with options that compile large programs faster.

    `options` are further ones of `jit`, such as `static_argnames`. Inside another program, and
    under `grad` and `vmap`, the function is compiled without these compiler options: JAX accepts
    them only for a whole program.
    """

    @functools.cache
    def compiled(lean: bool) -> Any:
        faster = {"compiler_options": _CPU_OPTIONS} if lean else {}
        return jit(function, **options, **faster)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        whole = nothing_is_traced() and all(map(is_concrete, jax.tree.leaves((args, kwargs))))
        lean = whole and jax.default_backend() == "cpu" and _has_options()
        return compiled(lean)(*args, **kwargs)

    call.compiled = compiled  # type: ignore[attr-defined]
    return call


@functools.cache
def _has_options() -> bool:
    """Whether this version of XLA has the options, which are not part of its public interface."""
    try:
        jax.jit(lambda x: x, compiler_options=_CPU_OPTIONS).lower(0.0).compile()
    except (RuntimeError, ValueError):
        return False
    return True
