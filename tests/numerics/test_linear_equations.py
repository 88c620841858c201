import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from motorcost.numerics.linear_equations import solve_linear

SHAPE = (5, 4, 3)


def symmetric(seed, batch, largest):
    """Random symmetric matrices with eigenvalues from 0 to `largest`, (60, 60, batch)."""
    rng = np.random.default_rng(seed)
    bases = [np.linalg.qr(rng.normal(size=(60, 60)))[0] for _ in range(batch)]
    return np.stack([(Q * np.linspace(0.0, largest, 60)) @ Q.T for Q in bases], axis=-1)


def oblique(seed, batch, eigenvalues):
    """Random matrices with these eigenvalues, otherwise zeros, and eigenvectors that are far from
    orthogonal."""
    rng = np.random.default_rng(seed)
    matrices = []
    for _ in range(batch):
        basis = np.linalg.qr(rng.normal(size=(60, 60)))[0] * np.geomspace(1, 300, 60)
        basis = basis @ np.linalg.qr(rng.normal(size=(60, 60)))[0]
        rank = len(eigenvalues)
        matrices.append(basis[:, :rank] * eigenvalues @ np.linalg.inv(basis)[:rank])
    return np.stack(matrices, axis=-1)


def right_side(batch):
    return jnp.asarray(np.random.default_rng(1).normal(size=(*SHAPE, batch)))


def identity_minus(M):
    """The linear function v - M v, and a list that grows by one with each call of it."""
    calls = []

    def matvec(v):
        jax.debug.callback(lambda: calls.append(1))
        return v - jnp.einsum("ijl,jl->il", M, v.reshape(60, -1)).reshape(v.shape)

    return matvec, calls


SLOW = symmetric(0, 5, 0.999)
# Accelerated iterations can converge to a point that repels plain ones: with an eigenvalue above 1.
UNSTABLE = oblique(0, 5, [1.2, 0.4, -0.3, 0.25, 0.2, 0.15, 0.1, 0.05])


@pytest.mark.parametrize(("M", "most"), [(SLOW, 200), (UNSTABLE, 15)], ids=["slow", "unstable"])
@pytest.mark.parametrize("transposed", [False, True])
def test_every_equation_of_the_batch_is_solved(M, most, transposed):
    M = M.swapaxes(0, 1) if transposed else M
    b = right_side(5)
    matvec, calls = identity_minus(M)
    x = solve_linear(matvec, b)
    jax.effects_barrier()
    assert len(calls) < most
    exact = [np.linalg.solve(np.eye(60) - M[..., i], b[..., i].ravel()) for i in range(5)]
    assert_allclose(x.reshape(60, 5).T, exact, rtol=1e-7, atol=1e-9 * np.abs(exact).max())


def test_a_solution_does_not_depend_on_the_rest_of_the_batch():
    b = right_side(5)
    scaled = b.at[..., 1:].multiply(1e6)
    alone, beside = (solve_linear(identity_minus(UNSTABLE)[0], b) for b in (b, scaled))
    assert_allclose(alone[..., 0], beside[..., 0], rtol=1e-10)


def test_solution_for_a_right_side_of_zero_is_zero():
    assert (solve_linear(lambda v: v, jnp.zeros((2, 1, 3, 4))) == 0).all()


def times(M):
    return lambda v: (M @ v.reshape(-1, 1)).reshape(v.shape)


@pytest.mark.parametrize("angle", [0.0, 1.1])
@pytest.mark.parametrize("M", [[[1.0, 2.0], [0.0, 1.0]], [[0.0, -1.0], [1.0, 0.0]]])
def test_a_step_without_progress_is_not_the_last(M, angle):
    """The residual is orthogonal to its product, so that the first step has length zero."""
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    M, b = rotation @ np.array(M) @ rotation.T, rotation @ np.array([1.0, -1.0])
    assert_allclose(b @ M @ b, 0.0, atol=1e-15)
    x = solve_linear(times(M), jnp.asarray(b).reshape(1, 2, 1, 1))
    assert_allclose(x.ravel(), np.linalg.solve(M, b), rtol=1e-12)


def test_an_equation_without_a_solution_gives_nan():
    """The second unknown has no effect; the third equation's right side is NaN."""
    b = jnp.array([[1.0, 2.0], [1.0, 0.0], [jnp.nan, 1.0]]).T.reshape(1, 2, 1, 3)
    x = solve_linear(lambda v: v.at[:, 1].set(0.0), b).reshape(2, 3)
    assert jnp.isnan(x).all(axis=0).tolist() == [True, False, True]
    assert x[:, 1].tolist() == [1.0, 0.0]
    assert jnp.isnan(solve_linear(lambda v: v, b[..., 2:])).all()
    # This equation needs a longer memory than there is.
    shift = jnp.eye(200) + 1.8 * jnp.eye(200, k=1)
    assert jnp.isnan(solve_linear(times(shift), jnp.ones((8, 5, 5, 1)))).all()
