import jax.numpy as jnp
import pytest

from motorcost.numerics import compiling


def squares(x, power):
    return (x**power).sum()


@pytest.mark.parametrize("options", [compiling._LEAN, {"no_such_option": True}])
def test_it_is_the_function_whether_or_not_xla_knows_the_options(monkeypatch, options):
    monkeypatch.setattr(compiling, "_LEAN", options)
    compiling._understood.cache_clear()
    assert compiling.lean_jit(squares)(jnp.arange(4.0), 2) == 14.0
    assert compiling._understood() == ("no_such_option" not in options)
    compiling._understood.cache_clear()
