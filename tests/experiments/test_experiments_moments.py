import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
import naive
from motorcost.experiments import moment_matching
from motorcost.experiments.measures import TrajectoryDivergence, symmetrised_kl
from motorcost.model.moments import moments


def kl(mean_p, cov_p, mean_q, cov_q):
    """The paper's formula, as printed."""
    inverse, d = np.linalg.inv(cov_q), mean_p - mean_q
    ratio = np.linalg.det(cov_q) / np.linalg.det(cov_p)
    return 0.5 * (np.log(ratio) - len(d) + d @ inverse @ d + np.trace(inverse @ cov_p))


def gaussians(rng, steps, k):
    factors = rng.normal(size=(steps, k, k + 2))
    return rng.normal(size=(steps, k)), factors @ np.swapaxes(factors, 1, 2)


def test_symmetrised_divergence_is_the_papers_formula():
    rng = np.random.default_rng(0)
    p, q = gaussians(rng, 4, 3), gaussians(rng, 4, 3)
    by_hand = [
        (kl(p[0][t], p[1][t], q[0][t], q[1][t]) + kl(q[0][t], q[1][t], p[0][t], p[1][t])) / 2
        for t in range(4)
    ]
    assert_allclose(symmetrised_kl(*map(jnp.asarray, (*p, *q))), by_hand, rtol=1e-9)


def test_divergence_does_not_depend_on_units():
    rng = np.random.default_rng(1)
    p, q = gaussians(rng, 3, 3), gaussians(rng, 3, 3)
    units = np.array([1e-4, 1.0, 1e5])
    scaled = [(m * units, c * np.outer(units, units)) for m, c in (p, q)]
    assert_allclose(
        symmetrised_kl(*map(jnp.asarray, (*p, *q))),
        symmetrised_kl(*map(jnp.asarray, (*scaled[0], *scaled[1]))),
        rtol=1e-9,
    )


@pytest.fixture(scope="module")
def reach():
    problem = mc.tasks.reaching()
    return problem, mc.solve(problem)


@pytest.fixture(scope="module")
def rollouts(reach):
    return mc.simulate(*reach, n_trials=20_000, key=jax.random.key(3))


def test_exact_moments_are_those_of_rollouts(reach, rollouts):
    x, z = np.asarray(rollouts.observed)[:, 4:, :3], moments(*reach)
    mean, cov = np.asarray(z.state_mean)[4:, :3], np.asarray(z.state_cov)[4:, :3, :3]
    sd = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
    n = len(x)
    assert np.abs((x.mean(axis=0) - mean) / sd * np.sqrt(n)).max() < 4.5
    # Heavier tails than a normal's: errors of the variance from the fourth moments themselves.
    squares = (x - mean) ** 2
    z_score = (squares.mean(axis=0) - sd**2) / (squares.std(axis=0) / np.sqrt(n))
    assert np.abs(z_score).max() < 4.5


def test_sampling_floor_is_what_gaussians_give():
    k, n, sets = 3, 400, 300
    x = np.random.default_rng(2).normal(size=(sets, n, k))
    mean = x.mean(axis=1)
    around = x - mean[:, None]
    cov = np.einsum("sni,snj->sij", around, around) / (n - 1)
    true = np.zeros((sets, k)), np.broadcast_to(np.eye(k), (sets, k, k))
    found = np.asarray(symmetrised_kl(*map(jnp.asarray, (mean, cov, *true))))
    floor = moment_matching.sampling_floor(k, n)
    error = found.std() / np.sqrt(sets)
    assert abs(found.mean() - floor) < 4 * error + 0.02 * floor


def test_from_the_fifth_sample_all_states_vary(reach):
    """Noise enters at the muscle: before, some combination of states is certain."""
    cov = np.asarray(moments(*reach).state_cov)[:, :4, :4]

    def rank(step, k):
        scale = np.sqrt(np.maximum(np.diagonal(cov[step])[:k], 1e-300))
        return np.linalg.matrix_rank(cov[step][:k, :k] / np.outer(scale, scale), tol=1e-9)

    first = moment_matching.FIRST
    assert rank(first, 3) == 3
    assert rank(first, 4) == 4
    assert cov[first - 1, 0, 0] == 0 < cov[first, 0, 0]


def test_baselines_have_the_strength_they_say(reach, rollouts):
    problem, policy = reach
    worlds = moment_matching.baselines(problem, policy, rollouts.controls)
    u = np.asarray(rollouts.controls)[..., 0]
    wanted = {  # SD of the muscle's noise in a step; dt / tau = 1 / 4, motor noise 1 / 2
        "resolved": 0.25 * 0.5 * np.sqrt((u**2).mean()),
        "played": 0.25 * 0.5 * np.sqrt((u**2).mean()),
        "mean_sd": 0.25 * 0.5 * np.sqrt((u**2).mean(axis=0)).mean(),
        "as_variance": 0.25 * np.sqrt(0.5 * np.abs(u).mean()),
        "direct": 0.5 * np.abs(u).mean(),
        "direct_played": 0.5 * np.abs(u).mean(),
    }
    assert worlds.keys() == wanted.keys() == moment_matching._WORDS.keys()
    for name, (world, played) in worlds.items():
        V = np.asarray(world.V)[0]
        sd = np.sqrt(np.diagonal(V @ V.T))
        assert_allclose(sd[3], wanted[name], rtol=0.01)
        assert_allclose(np.delete(sd, 3), 0)
        assert world.C.shape[1] == 0
        L = policy.L if name.endswith("played") else naive.riccati(world)
        assert_allclose(played.L, L, rtol=1e-6, atol=1e-9)


def test_experiment_reports_what_its_function_finds(reach):
    at = {"rollouts": 500, "repetitions": 2}
    (sweep,) = moment_matching.sweeps(at)
    rows = [
        {"states": states, "failed": "", **sweep.function(key=key, states=states, rollouts=500)}
        for states in sweep.over["states"]
        for key in jax.random.split(jax.random.key(4), 2)
    ]
    table = pd.DataFrame(rows)
    numbers = {n.name: n for n in moment_matching.numbers(at, {sweep.name: table})}
    exact, baseline = list(numbers.values())[:2]
    usual = table[table["states"] == moment_matching.USUAL]
    assert_allclose(exact.ours, usual["exact"].astype(float).mean())
    assert exact.paper == 1.60e-3
    assert baseline.paper == 6.05
    # Sampling alone, against a world that is another one.
    floor = moment_matching.sampling_floor(3, 500)
    assert floor / 5 < exact.ours < 5 * floor < 0.5 < baseline.ours < 2
    assert numbers["divergence, baseline (noise without dt / tau, re-solved), 3 states"].ours > 4

    (picture,) = moment_matching.draw(at, {sweep.name: table})
    bands = picture.figure.axes[0].collections[0].get_paths()[0].vertices
    exact_sd = TrajectoryDivergence(("position",), 0).exact(*reach)[1][-1, 0, 0] ** 0.5
    assert_allclose(np.ptp(bands[bands[:, 0] > 0.289, 1]), 4 * exact_sd, rtol=0.15)
