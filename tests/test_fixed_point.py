import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose

from motorcost.fixed_point import Acceleration, settle_linear


def contraction(seed, lanes, slowest):
    """A random linear map on 3 x 2 x 2 unknowns in each lane, whose largest factor is known."""
    rng = np.random.default_rng(seed)
    maps = []
    for _ in range(lanes):
        axes = np.linalg.qr(rng.normal(size=(12, 12)))[0]
        maps.append((axes * np.linspace(0.0, slowest, 12)) @ axes.T)
    M = jnp.asarray(np.stack(maps, axis=-1))
    return lambda x: jnp.einsum("ijl,jl->il", M, x.reshape(12, lanes)).reshape(x.shape), M


def test_linear_equations_are_solved_in_every_lane():
    g, M = contraction(0, 5, 0.9)
    b = jnp.asarray(np.random.default_rng(1).normal(size=(3, 2, 2, 5)))
    x = settle_linear(lambda v: v - g(v), b)
    exact = [np.linalg.solve(np.eye(12) - M[..., i], b[..., i].ravel()) for i in range(5)]
    assert_allclose(x.reshape(12, 5).T, exact, rtol=1e-10)


def test_a_lane_does_not_depend_on_its_neighbours():
    g, _ = contraction(0, 3, 0.8)
    b = jnp.asarray(np.random.default_rng(1).normal(size=(3, 2, 2, 3)))
    other = b.at[..., 1:].multiply(1e6)
    alone, beside = (settle_linear(lambda v: v - g(v), each) for each in (b, other))
    assert_allclose(alone[..., 0], beside[..., 0], rtol=1e-10)


def test_nothing_to_solve_is_zero():
    assert (settle_linear(lambda v: v, jnp.zeros((2, 1, 3, 4))) == 0).all()


def steps_until_settled(accelerated):
    """Of x = cos(x + shift), whose plain iteration settles slowly."""
    shift = jnp.linspace(-0.9, 0.3, 12).reshape(3, 2, 2, 1)

    def g(x):
        return jnp.cos(x + shift) + 0.3 * x.mean(axis=(0, 1, 2))

    x, known = jnp.zeros_like(shift), Acceleration.empty(jnp.zeros_like(shift))
    advance = jax.jit(lambda known, x, step: known.next(x, g(x), step))
    for step in range(500):
        tried, known = advance(known, x, step)
        if known.size[0] < 1e-12:
            return step, x, g
        x = tried if accelerated else g(x)
    raise AssertionError("did not settle")


def test_acceleration_finds_the_same_point_sooner():
    plain, x_plain, g = steps_until_settled(accelerated=False)
    quick, x_quick, _ = steps_until_settled(accelerated=True)
    assert_allclose(x_quick, x_plain, atol=1e-11)
    assert_allclose(g(x_quick), x_quick, atol=1e-11)
    assert quick < plain / 2
