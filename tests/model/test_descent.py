"""Policies of agents whose estimate has noise of its own (E): "calibrated" and "optimal"."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import motorcost as mc
from motorcost.model.problem import METHODS
from motorcost.model.solver import solve_each
from motorcost.numerics.linalg import first_entry
from strategies import SHAPES, in_time, make_problem

CORRECTED = ("calibrated", "optimal")


def scalar_problem(**changes):
    """A scalar problem whose best linear policy is not that of the alternation."""
    unit, half = [[1.0]], [[0.5]]
    return mc.Problem(
        steps=10, A=unit, B=unit, H=unit, Q=unit, R=unit, C=[half], D=[half], V=half, W=half,
        E=[[0.3]], initial_belief=[1.0],
    ).replace(**changes)  # fmt: skip


def constant_problem(seed, method, n=2):
    """A problem with matrices that do not change over time, and every kind of noise."""
    rng = np.random.default_rng(seed)
    return mc.Problem(
        steps=6,
        A=0.9 * rng.normal(size=(n, n)) / np.sqrt(n),
        B=rng.normal(size=(n, 1)),
        H=rng.normal(size=(1, n)),
        C=[0.3 * rng.normal(size=(n, 1))],
        D=[0.3 * rng.normal(size=(1, n))],
        V=0.3 * np.eye(n),
        W=[[0.5]],
        E=0.3 * np.eye(n),
        Q=np.eye(n),
        R=[[1.0]],
        initial_belief=rng.normal(size=n),
        initial_belief_cov=0.1 * np.eye(n),
        initial_state_cov=0.1 * np.eye(n),
        method=method,
    )


def slopes(problem, policy):
    """Derivatives of the exact cost with respect to L and K, relative to cost and gains."""

    def cost(gains):
        return mc.expected_cost(problem, eqx.tree_at(lambda p: (p.L, p.K), policy, gains))

    by_gain = jax.grad(cost)((policy.L, policy.K))
    sizes = [np.abs(gains).max() / float(policy.expected_cost) for gains in (policy.L, policy.K)]
    return [float(np.abs(s).max() * size) for s, size in zip(by_gain, sizes, strict=True)]


def test_scalar_example_of_the_literature():
    """Damiani et al. (2024): the alternation costs 9.78144, the optimum 9.31867."""
    costs = [float(mc.solve(scalar_problem(), method=m).expected_cost) for m in METHODS]
    assert_allclose([costs[0], costs[2]], [9.78144, 9.31867], atol=5e-6)
    assert costs[2] < costs[1] < costs[0]


def test_no_gain_of_the_optimal_policy_can_be_improved():
    problem = scalar_problem(method="optimal")
    policy = mc.solve(problem)
    assert max(slopes(problem, policy)) < 1e-9
    assert_allclose(policy.expected_cost, mc.expected_cost(problem, policy), rtol=1e-12)
    # So the test can fail: the alternation's control gains can be improved.
    assert slopes(problem, mc.solve(problem, method="alternation"))[0] > 1e-3


def test_no_control_gain_of_the_calibrated_policy_can_be_improved():
    problem = make_problem(SHAPES[1], 0).replace(method="calibrated")
    policy = mc.solve(problem)
    assert slopes(problem, policy)[0] < 1e-9
    assert_allclose(policy.expected_cost, mc.expected_cost(problem, policy), rtol=1e-12)
    # No other filter gain makes a smaller error of the next estimate, in any direction.
    K = np.asarray(policy.K)
    to_error = np.concatenate([np.eye(3), -np.eye(3)], axis=1)

    def error(K):
        """The second moment of the error at the fifth step."""
        z = mc.moments(problem, eqx.tree_at(lambda p: p.K, policy, jnp.asarray(K)))
        return to_error @ (np.asarray(z.cov[4]) + np.outer(z.mean[4], z.mean[4])) @ to_error.T

    rng = np.random.default_rng(0)
    for _ in range(5):
        other = K.copy()
        other[3] += 0.1 * rng.normal(size=K[3].shape)
        assert np.linalg.eigvalsh(error(other) - error(K)).min() > -1e-12


def test_costs_of_a_hundred_problems_with_internal_noise():
    """Neither method costs more than the alternation, and hardly ever as much."""
    problems = [constant_problem(seed, "alternation") for seed in range(100)]
    matrices = [np.stack(leaves) for leaves in zip(*map(jax.tree.leaves, problems), strict=True)]
    policies = {}
    for method in METHODS:
        kind = jax.tree.structure(constant_problem(0, method))
        policies[method] = jax.jit(solve_each)(jax.tree.unflatten(kind, matrices))
    alternation, calibrated, optimal = (np.asarray(p.expected_cost) for p in policies.values())
    assert policies["calibrated"].converged.all()
    assert (calibrated <= alternation).all()
    assert (optimal <= calibrated * (1 + 1e-9)).all()
    assert (calibrated < 0.999 * alternation).mean() > 0.8
    assert np.isfinite(policies["optimal"].K).all()
    # Where "optimal" converged, no gain can be improved.
    converged = np.flatnonzero(policies["optimal"].converged)
    assert len(converged) > 20
    for i in converged[:3]:
        problem = constant_problem(i, "optimal")
        assert max(slopes(problem, first_entry(_from(policies["optimal"], i)))) < 1e-6


def _from(policies, i):
    return jax.tree.map(lambda leaf: leaf[i:], policies)


@pytest.mark.parametrize("method", CORRECTED)
def test_without_internal_noise_methods_agree(method):
    problem = make_problem(SHAPES[1], 0, internal=False)  # E has columns, which are zero
    policy, corrected = mc.solve(problem), mc.solve(problem, method=method)
    assert_allclose(corrected.L, policy.L, atol=1e-9)
    assert_allclose(corrected.K, policy.K, atol=1e-9)
    none = problem.replace(E=np.zeros((3, 0)))
    for name in ("L", "K", "iterations", "iteration_costs"):
        values = [np.asarray(getattr(mc.solve(none, method=m), name)) for m in (None, method)]
        np.testing.assert_array_equal(*values)


def naive_cost(problem, L, K):
    """The expected cost by a plain loop over the second moments of (x, xh)."""
    p, n = jax.tree.map(np.asarray, problem), problem.A.shape[-1]
    m1 = p.initial_belief
    hh = np.outer(m1, m1) + p.initial_belief_cov
    P = np.block([[hh + p.initial_state_cov, hh], [hh, hh]])
    cost = 0.0
    for t in range(len(L)):
        A, B, H, V, W, E = (getattr(p, letter)[t] for letter in "ABHVWE")
        cost += np.sum(p.Q[t] * P[:n, :n]) + np.sum(p.R[t] * (L[t] @ P[n:, n:] @ L[t].T))
        F = np.block([[A, -B @ L[t]], [K[t] @ H, A - B @ L[t] - K[t] @ H]])
        noise = np.zeros((2 * n, 2 * n))
        noise[:n, :n] = V @ V.T + sum(C @ L[t] @ P[n:, n:] @ L[t].T @ C.T for C in p.C[t])
        sensed = W @ W.T + sum(D @ P[:n, :n] @ D.T for D in p.D[t])
        noise[n:, n:] = K[t] @ sensed @ K[t].T + E @ E.T
        P = F @ P @ F.T + noise
    return float(cost + np.sum(p.Q[-1] * P[:n, :n]))


@pytest.mark.parametrize("states", in_time([1, 2], 2))
def test_a_general_minimiser_finds_the_same_cost(states):
    problem = constant_problem(0, "optimal") if states == 2 else scalar_problem(method="optimal")
    policy = mc.solve(problem)
    L, K = np.asarray(policy.L), np.asarray(policy.K)
    assert_allclose(naive_cost(problem, L, K), policy.expected_cost, rtol=1e-10)

    of_numpy = jax.tree.map(np.asarray, problem)

    def cost(gains):
        return naive_cost(
            of_numpy, gains[: L.size].reshape(L.shape), gains[L.size :].reshape(K.shape)
        )

    begin = mc.solve(problem, method="alternation")
    gains = np.concatenate([np.ravel(begin.L), np.ravel(begin.K)])
    found = minimize(cost, gains, method="BFGS", options={"gtol": 1e-7})
    assert_allclose(found.fun, policy.expected_cost, rtol=1e-6)
    assert found.fun < begin.expected_cost * (1 - 1e-4)


def without_minimum():
    """The second state is known and must be moved, the first is sensed and corrected.

    A filter gain on the first state that is larger by any factor, with a control gain that is
    smaller by it, makes the same controls with less noise. No policy is therefore the best.
    """
    return mc.Problem(
        steps=3,
        A=np.eye(2),
        B=np.eye(2),
        H=[[1.0, 0.0]],
        W=[[0.5]],
        E=0.3 * np.eye(2),
        Q=[np.zeros((2, 2)), np.zeros((2, 2)), np.eye(2)],
        R=0.1 * np.eye(2),
        initial_belief=[0.0, 1.0],
        initial_state_cov=np.diag([1.0, 0.0]),
        method="optimal",
    )


def test_a_cost_without_a_minimum_is_reported():
    problem = without_minimum()
    with pytest.raises(mc.ConvergenceError, match=r"there may be none.*method='calibrated'"):
        mc.solve(problem)
    policy = mc.solve(problem, throw=False)
    L, K = np.asarray(policy.L), np.asarray(policy.K)
    assert np.isfinite(L).all()
    assert policy.expected_cost < mc.solve(problem, method="calibrated").expected_cost
    larger, smaller = K.copy(), L.copy()
    larger[0, 0] *= 10
    smaller[1, :, 0] /= 10
    assert naive_cost(problem, smaller, larger) < naive_cost(problem, L, K)


@pytest.mark.slow  # test_solver.py has that of the alternation
def test_a_cost_without_a_minimum_has_no_slope():
    problem = without_minimum()
    by_effort = jax.jit(
        jax.grad(lambda r: mc.solve(problem.replace(R=r * jnp.eye(2))).expected_cost)
    )
    assert by_effort(0.1) == 0


def test_method_is_carried():
    problem = make_problem(SHAPES[1], 0)
    assert problem.method == "alternation"
    optimal = problem.replace(method="optimal")
    changed = [optimal.replace(R=np.eye(2)), optimal.padded(12), mc.delay(optimal, 1)]
    changed += [optimal.believing(C=[]).believed, optimal.believing(C=[]).padded(12).believed]
    changed += [problem.believing(C=[]).replace(method="optimal").believed]
    assert [p.method for p in changed] == ["optimal"] * 6
    assert "method 'optimal'" in repr(optimal)
    assert mc.solve(problem, method="calibrated").believed.method == "calibrated"


@pytest.mark.usefixtures("as_users_call_it")
def test_unknown_methods():
    problem = scalar_problem()
    for call in (mc.solve, mc.Problem.replace):
        with pytest.raises(mc.InputError, match="unknown method 'optimum': did you mean optimal"):
            call(problem, method="optimum")
    with pytest.raises(mc.InputError, match="not a belief"):
        problem.believing(method="optimal")


def summary_of(method):
    """A number to which gains and cost of the scalar problem contribute, by the effort."""
    problem = scalar_problem(method=method)

    def summary(effort):
        policy = mc.solve(problem.replace(R=effort * jnp.eye(1)), tolerance=1e-12)
        return jnp.sum(policy.L**2) + jnp.sum(jnp.sin(policy.K)) + policy.expected_cost

    return summary


def test_the_gradient_of_gains_and_cost():
    both = jax.jit(jax.value_and_grad(summary_of("optimal")))
    (above, _), (below, _) = both(1 + 1e-4), both(1 - 1e-4)
    assert_allclose(both(1.0)[1], (above - below) / 2e-4, rtol=1e-5)


def assert_derivatives(function, at):
    """First derivatives in both modes and the second, against finite differences."""
    value, slope = jax.jit(function), jax.jit(jax.grad(function))
    step = 1e-4 * at
    differences = (value(at + step) - value(at - step)) / (2 * step)
    assert_allclose(slope(at), differences, rtol=1e-5)
    assert_allclose(jax.jit(jax.jacfwd(function))(at), slope(at), rtol=1e-6)
    return slope, step


@pytest.mark.slow  # half a minute of compilation
@pytest.mark.parametrize("method", CORRECTED)
def test_derivatives_of_gains_and_cost(method):
    summary = summary_of(method)
    slope, step = assert_derivatives(summary, 1.0)
    curvature = jax.jit(jax.jacfwd(jax.grad(summary)))(1.0)
    assert_allclose(curvature, (slope(1 + step) - slope(1 - step)) / (2 * step), rtol=1e-4)


def log_likelihood_of(make, at):
    """The log likelihood of simulated movements as a function of a parameter."""
    problem = make(at)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=3, key=jax.random.key(1))
    return lambda value: mc.log_likelihood(make(value), trials.observed)


def reaching_with_internal_noise(effort=1e-5, steps=30):
    E = 1e-2 * np.diag([0.02, 0.2, 1.0, 1.0, 0.0])
    return mc.tasks.reaching(effort=effort, steps=steps).replace(E=E, method="calibrated")


@pytest.mark.slow  # half a minute of compilation
def test_derivatives_of_the_likelihood_of_random_problems():
    """The target is known and always the same: there, the estimate has no variance."""
    task = mc.tasks.random_problem(jax.random.key(0))
    function = log_likelihood_of(
        lambda effort: task(effort_1=effort, steps=10).replace(method="calibrated"), 0.1
    )
    assert_derivatives(function, 0.1)


@pytest.mark.slow
def test_derivatives_of_the_likelihood_of_reaches():
    assert_derivatives(log_likelihood_of(reaching_with_internal_noise, 1e-5), 1e-5)


@pytest.mark.slow
def test_a_fit_recovers_the_effort():
    problem = reaching_with_internal_noise(2e-5)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=40, key=jax.random.key(0))
    fit = mc.fit(
        reaching_with_internal_noise,
        trials,
        free={"effort": mc.LogUniform(1e-7, 1e-3)},
        key=jax.random.key(1),
    )
    low, high = fit.interval(0.99)["effort"]
    assert low < 2e-5 < high
    assert high / low < 2
