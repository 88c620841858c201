"""Compile large programs in less time, and forget them before there are too many."""

import functools
import gc
from collections.abc import Callable
from pathlib import Path
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
    def compiled(*, lean: bool) -> Any:
        faster = {"compiler_options": _CPU_OPTIONS} if lean else {}
        return jit(function, **options, **faster)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        whole = nothing_is_traced() and all(map(is_concrete, jax.tree.leaves((args, kwargs))))
        lean = whole and jax.default_backend() == "cpu" and _has_options()
        return compiled(lean=lean)(*args, **kwargs)

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


# Compiled programs are forgotten beyond this share of the mappings of memory that Linux allows a
# process. A fit of recorded trials adds some thousands, of 65,530 by default.
_MOST_MAPPINGS = 0.5


def forget_programs_if_full() -> None:
    """Let JAX forget all that it compiled, if the process has so many mappings of memory that the
    next large programs might not find room: LLVM then ends the process.

    To be called before work that compiles, as fits of one person after the other do. What is needed
    again is compiled again.
    """
    if share_of_mappings() > _MOST_MAPPINGS:
        jax.clear_caches()
        gc.collect()


def share_of_mappings() -> float:
    """How many mappings of memory this process has, as a share of what is allowed; 0 where the
    system does not tell."""
    try:
        allowed = int(Path("/proc/sys/vm/max_map_count").read_text())
        return Path("/proc/self/maps").read_bytes().count(b"\n") / allowed
    except (OSError, ValueError):
        return 0.0
