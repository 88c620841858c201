import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from motorcost.numerics.fixed_point import Acceleration, solve_linear

SHAPE = (5, 4, 3)


def symmetric(seed, lanes, slowest):
    """Random symmetric maps whose factors are spread from 0 to `slowest`, (60, 60, lanes)."""
    rng = np.random.default_rng(seed)
    axes = [np.linalg.qr(rng.normal(size=(60, 60)))[0] for _ in range(lanes)]
    return np.stack([(each * np.linspace(0.0, slowest, 60)) @ each.T for each in axes], axis=-1)


def oblique(seed, lanes, factors):
    """Random maps with these factors and otherwise zeros, along directions far from orthogonal."""
    rng = np.random.default_rng(seed)
    maps = []
    for _ in range(lanes):
        axes = np.linalg.qr(rng.normal(size=(60, 60)))[0] * np.geomspace(1, 300, 60)
        axes = axes @ np.linalg.qr(rng.normal(size=(60, 60)))[0]
        maps.append(axes[:, : len(factors)] * factors @ np.linalg.inv(axes)[: len(factors)])
    return np.stack(maps, axis=-1)


def right_side(lanes):
    return jnp.asarray(np.random.default_rng(1).normal(size=(*SHAPE, lanes)))


def without(M):
    """The linear function v - M v, and the list that every call of it makes longer."""
    calls = []

    def matvec(v):
        jax.debug.callback(lambda: calls.append(1))
        return v - jnp.einsum("ijl,jl->il", M, v.reshape(60, -1)).reshape(v.shape)

    return matvec, calls


SLOW = symmetric(0, 5, 0.999)
# Sweeps can settle where they are not drawn to, with a factor above 1 and far from symmetric.
UNSTABLE = oblique(0, 5, [1.2, 0.4, -0.3, 0.25, 0.2, 0.15, 0.1, 0.05])


@pytest.mark.parametrize(("M", "most"), [(SLOW, 200), (UNSTABLE, 15)], ids=["slow", "unstable"])
@pytest.mark.parametrize("transposed", [False, True])
def test_linear_equations_are_solved_in_every_lane(M, most, transposed):
    M = M.swapaxes(0, 1) if transposed else M
    b = right_side(5)
    matvec, calls = without(M)
    x = solve_linear(matvec, b)
    jax.effects_barrier()
    assert len(calls) < most
    exact = [np.linalg.solve(np.eye(60) - M[..., i], b[..., i].ravel()) for i in range(5)]
    assert_allclose(x.reshape(60, 5).T, exact, rtol=1e-7, atol=1e-9 * np.abs(exact).max())


def test_a_lane_does_not_depend_on_its_neighbours():
    b = right_side(5)
    other = b.at[..., 1:].multiply(1e6)
    alone, beside = (solve_linear(without(UNSTABLE)[0], each) for each in (b, other))
    assert_allclose(alone[..., 0], beside[..., 0], rtol=1e-10)


def test_nothing_to_solve_is_zero():
    assert (solve_linear(lambda v: v, jnp.zeros((2, 1, 3, 4))) == 0).all()


def times(M):
    return lambda v: (M @ v.reshape(-1, 1)).reshape(v.shape)


@pytest.mark.parametrize("turned", [0.0, 1.1])
@pytest.mark.parametrize("M", [[[1.0, 2.0], [0.0, 1.0]], [[0.0, -1.0], [1.0, 0.0]]])
def test_a_step_that_closes_nothing_is_not_the_last(M, turned):
    """The gap is at right angles to what a step along it does."""
    turn = np.array([[np.cos(turned), -np.sin(turned)], [np.sin(turned), np.cos(turned)]])
    M, b = turn @ np.array(M) @ turn.T, turn @ np.array([1.0, -1.0])
    assert_allclose(b @ M @ b, 0.0, atol=1e-15)
    x = solve_linear(times(M), jnp.asarray(b).reshape(1, 2, 1, 1))
    assert_allclose(x.ravel(), np.linalg.solve(M, b), rtol=1e-12)


def test_what_is_not_solved_is_no_number():
    """Nothing reaches the second unknown; the third lane has no numbers to begin with."""
    b = jnp.array([[1.0, 2.0], [1.0, 0.0], [jnp.nan, 1.0]]).T.reshape(1, 2, 1, 3)
    x = solve_linear(lambda v: v.at[:, 1].set(0.0), b).reshape(2, 3)
    assert jnp.isnan(x).all(axis=0).tolist() == [True, False, True]
    assert x[:, 1].tolist() == [1.0, 0.0]
    assert jnp.isnan(solve_linear(lambda v: v, b[..., 2:])).all()
    # More steps would have to be remembered for this one than are.
    shift = jnp.eye(200) + 1.8 * jnp.eye(200, k=1)
    far = solve_linear(times(shift), jnp.ones((8, 5, 5, 1)))
    assert jnp.isnan(far).all()


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
