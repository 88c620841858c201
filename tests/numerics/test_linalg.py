import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from motorcost import checks
from motorcost.numerics import linalg
from motorcost.numerics.linalg import semidefinite_cholesky, solve_semidefinite


def singular(size, rank, seed=0):
    factor = np.random.default_rng(seed).normal(size=(size, rank))
    return jnp.asarray(factor @ factor.T)


@pytest.mark.parametrize(
    ("size", "rank"), [(1, 0), (1, 1), (3, 3), (4, 2), (8, 5), (12, 12), (12, 7)]
)
def test_factor_times_its_transpose_is_the_matrix_for_any_rank(size, rank):
    M = singular(size, rank)
    L = semidefinite_cholesky(M)
    assert_allclose(L @ L.T, M, atol=1e-12 * size)
    assert_allclose(jnp.triu(L, 1), 0)
    assert int((jnp.diagonal(L) > 0).sum()) == rank


@pytest.mark.parametrize(("size", "rank"), [(3, 3), (4, 2), (12, 12), (12, 7)])
def test_solution_satisfies_the_equation(size, rank):
    M = singular(size, rank)
    B = M @ np.random.default_rng(1).normal(size=(size, 2))
    assert_allclose(M @ solve_semidefinite(M, B), B, atol=1e-9)


def test_full_rank_agrees_with_numpy():
    M = singular(5, 5)
    B = jnp.asarray(np.random.default_rng(1).normal(size=(5, 3)))
    assert_allclose(solve_semidefinite(M, B), np.linalg.solve(M, B), rtol=1e-9)


@pytest.mark.parametrize("size", [3, 12])
def test_derivative_is_that_of_the_equation(size):
    M, B = singular(size, size), jnp.ones((size, 1))
    dM = singular(size, 1, seed=3)
    slope = jax.jvp(lambda M: solve_semidefinite(M, B), (M,), (dM,))[1]
    assert_allclose(slope, -np.linalg.solve(M, dM @ np.linalg.solve(M, B)), rtol=1e-7, atol=1e-9)


def test_derivative_is_zero_in_a_direction_without_variance():
    M = jnp.zeros((3, 3)).at[:2, :2].set(singular(2, 2))
    X = jnp.array([[1.0], [1.0], [0.0]])
    grads = jax.grad(lambda M, B: solve_semidefinite(M, B).sum(), argnums=(0, 1))(M, M @ X)
    adjoint = np.zeros((3, 1))
    adjoint[:2] = np.linalg.solve(M[:2, :2], np.ones((2, 1)))
    assert_allclose(grads[0], -adjoint @ X.T, rtol=1e-9)
    assert_allclose(grads[1], adjoint, rtol=1e-9)


@pytest.mark.parametrize("semi", [False, True])
def test_is_definite_agrees_with_eigenvalues(semi):
    rng = np.random.default_rng(0)
    matrices = []
    for lowest in (-1.0, -1e-6, -1e-9, -1e-12, 0.0, 1e-6, 1.0):
        for size in (1, 3, 12):
            axes = np.linalg.qr(rng.normal(size=(size, size)))[0]
            roots = np.concatenate([[lowest], rng.uniform(0.5, 2.0, size - 1)])
            M = (axes * roots) @ axes.T * 10.0 ** rng.integers(-6, 6)
            matrices.append((M + M.T) / 2)
    for M in matrices:
        lowest = checks.definiteness(M)
        if abs(lowest + (linalg.EIGENVALUE_ROUNDING if semi else 0.0)) < 1e-14:
            continue  # rounding decides
        expected = lowest >= -linalg.EIGENVALUE_ROUNDING if semi else lowest > 0
        assert bool(linalg.is_definite(jnp.asarray(M), semi=semi)) == expected


@pytest.mark.parametrize("places", [[], [0, 1, 2, 3, 4, 5], [1, 2, 4], [0, 3, 5], [5]])
def test_places_are_taken_and_filled_as_by_indexing(places):
    array = np.arange(24.0).reshape(6, 4)
    assert_allclose(linalg.at_places(jnp.asarray(array), places), array[places])
    assert_allclose(linalg.at_places(jnp.asarray(array.T), places, axis=-1), array.T[:, places])
    values, filled = -np.arange(4.0 * len(places)).reshape(-1, 4), array.copy()
    filled[places] = values
    assert_allclose(linalg.with_places(jnp.asarray(array), places, jnp.asarray(values)), filled)
