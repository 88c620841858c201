import jax
import jax.numpy as jnp
from numpy.testing import assert_allclose

from motorcost.numerics.anderson import Acceleration


def iterate(accelerated):
    """Solve x = cos(x + shift) + 0.3 mean(x), on which the plain iteration converges slowly."""
    shift = jnp.linspace(-0.9, 0.3, 12).reshape(3, 2, 2, 1)

    def g(x):
        return jnp.cos(x + shift) + 0.3 * x.mean(axis=(0, 1, 2))

    x, history = jnp.zeros_like(shift), Acceleration.empty(jnp.zeros_like(shift))
    advance = jax.jit(lambda history, x, step: history.next(x, g(x), step))
    for step in range(500):
        following, history = advance(history, x, step)
        if history.size[0] < 1e-12:
            return step, x, g
        x = following if accelerated else g(x)
    raise AssertionError("the iteration did not converge")


def test_acceleration_finds_the_same_point_in_fewer_steps():
    plain, x_plain, g = iterate(accelerated=False)
    quick, x_quick, _ = iterate(accelerated=True)
    assert_allclose(x_quick, x_plain, atol=1e-11)
    assert_allclose(g(x_quick), x_quick, atol=1e-11)
    assert quick < plain / 2
