import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost.fitting import batching
from motorcost.fitting.batching import BatchedObjective, log_likelihoods_along
from motorcost.fitting.specification import make_objective


def walk(effort=0.1, steps=4, dt=0.01):
    """Something small that compiles quickly: a place to keep at zero."""
    one = [[1.0]]
    return mc.Problem(
        steps=steps, A=[[0.9]], B=one, C=[[[0.5]]], V=[[0.1]], H=one, W=one, Q=one,
        R=effort * jnp.eye(1), initial_belief=[1.0], dt=dt,
    )  # fmt: skip


@pytest.fixture(scope="module")
def objective():
    problem = walk()
    trials = mc.simulate(problem, mc.solve(problem), n_trials=2, key=jax.random.key(0))
    return make_objective(walk, trials, {"effort": mc.LogUniform(1e-3, 10.0)})


def test_values_do_not_depend_on_the_batch(objective, monkeypatch):
    """Nor on which of several sizes is taken, nor on points of NaN among the others."""
    points = np.linspace(-4, 1, 9)[:, None]
    expected = [mc.log_likelihood(walk(effort=np.exp(x)), objective.trials) for (x,) in points]
    assert_allclose(log_likelihoods_along(objective, points), expected, rtol=1e-10)
    monkeypatch.setattr(batching, "SMALLEST_LARGE_BATCH", 2)
    monkeypatch.setattr(batching, "SMALLER", 2)
    monkeypatch.setattr(batching, "cores_to_use", lambda: 1)
    batched = BatchedObjective(objective, expected=2, gradient=False)
    assert batched._sizes == [2, 1]
    for count in (9, 4, 3, 2, 1):
        values, _ = batched(np.zeros(count, int), points[:count])
        assert_allclose(values, expected[:count], rtol=1e-10)
    some = np.where(np.arange(9)[:, None] == 4, np.nan, points)
    values, gradients = batched(np.zeros(9, int), some)
    assert np.isnan(values[4])
    assert np.isnan(gradients[4]).all()
    assert_allclose(np.delete(values, 4), np.delete(expected, 4), rtol=1e-10)
    nothing, _ = batched(np.zeros(1, int), some[4:5])
    assert np.isnan(nothing).all()
