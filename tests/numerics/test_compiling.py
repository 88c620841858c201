import jax
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


def test_lean_jit_works_inside_other_programs_and_transformations():
    lean = compiling.lean_jit(squares)
    x = jnp.arange(4.0)

    def doubled(x):
        return lean(2 * x, 2)

    assert jax.jit(doubled)(x) == 56.0
    assert jax.grad(doubled)(x).tolist() == (8 * x).tolist()
    assert jax.jvp(doubled, (x,), (x,))[1] == 112.0
    assert jax.vmap(doubled)(x[None]).tolist() == [56.0]
    assert jax.hessian(doubled)(x).tolist() == (8 * jnp.eye(4)).tolist()
    assert jax.jit(jax.grad(lambda x: jax.lax.map(doubled, x[None]).sum()))(x)[1] == 8.0


def test_programs_are_forgotten_before_the_system_has_no_room_for_more(monkeypatch):
    compiled = []

    @jax.jit
    def traced(x):
        compiled.append(x)
        return x + 1.0

    share = 0.4
    monkeypatch.setattr(compiling, "share_of_mappings", lambda: share)
    for expected in (1, 1):
        traced(1.0)
        compiling.forget_programs_if_full()
        assert len(compiled) == expected
    share = 0.6
    compiling.forget_programs_if_full()
    assert traced(1.0) == 2.0
    assert len(compiled) == 2


def test_mappings_are_counted_where_the_system_tells():
    assert 0.0 <= compiling.share_of_mappings() < 1.0
