import jax.numpy as jnp
import pytest

from motorcost.numerics import compiling


def squares(x, power):
    return (x**power).sum()


@pytest.mark.parametrize("options", [compiling._CPU_OPTIONS, {"no_such_option": True}])
def test_lean_jit_works_with_and_without_the_options(monkeypatch, options):
    monkeypatch.setattr(compiling, "_CPU_OPTIONS", options)
    compiling._has_options.cache_clear()
    assert compiling.lean_jit(squares)(jnp.arange(4.0), 2) == 14.0
    assert compiling._has_options() == ("no_such_option" not in options)
    compiling._has_options.cache_clear()
