import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
import naive
from motorcost.experiments import bug, fig2ef
from motorcost.experiments.reaches import TRUTH
from motorcost.model.moments import expected_cost, moments


def forward_as_coded(problem, L, slips):
    """The filter pass with none, the first or both pairs of parentheses misplaced."""
    A, B, C, V, H, W, D, E, _, _ = naive.arrays(problem)
    m1 = np.asarray(problem.initial_belief)
    Se = np.asarray(problem.initial_state_cov)
    Sh = np.outer(m1, m1) + np.asarray(problem.initial_belief_cov)
    She, K = np.zeros_like(Se), []
    for t in range(len(A)):
        a, b, h, gain_u, EE = A[t], B[t], H[t], L[t], E[t] @ E[t].T
        noise = W[t] @ W[t].T + sum(d @ (Se + Sh + She + She.T) @ d.T for d in D[t])
        k = a @ Se @ h.T @ np.linalg.inv(h @ Se @ h.T + noise)
        squares = a - b @ gain_u @ Sh @ (a - b @ gain_u).T
        across = a - b @ gain_u @ She @ h.T @ k.T + k @ h @ She.T @ (a - b @ gain_u).T
        if slips < 1:
            squares = (a - b @ gain_u) @ Sh @ (a - b @ gain_u).T
        if slips < 2:
            across = (a - b @ gain_u) @ She @ h.T @ k.T + k @ h @ She.T @ (a - b @ gain_u).T
        motor = sum(c @ gain_u @ Sh @ gain_u.T @ c.T for c in C[t])
        Se, Sh, She = (
            V[t] @ V[t].T + EE + (a - k @ h) @ Se @ a.T + motor,
            EE + k @ h @ Se @ a.T + squares + across,
            (a - b @ gain_u) @ She @ (a - k @ h).T - EE,
        )
        K.append(k)
    return np.array(K)


def alternate_as_coded(problem, slips, iterations):
    H = np.asarray(problem.H)
    K = np.zeros((len(H), H.shape[2], H.shape[1]))
    for _ in range(iterations):
        L, *_ = naive.backward(problem, K)
        K = forward_as_coded(problem, L, slips)
    return L, K


def with_all_noises():
    """A problem in which every term of the recursion counts."""
    rng = np.random.default_rng(5)
    n, m, k = 3, 2, 2
    return mc.Problem(
        steps=6,
        A=0.5 * rng.normal(size=(n, n)),
        B=rng.normal(size=(n, m)),
        C=[0.2 * rng.normal(size=(n, m)) for _ in range(2)],
        V=0.3 * rng.normal(size=(n, n)),
        H=rng.normal(size=(k, n)),
        W=np.eye(k),
        D=[0.1 * rng.normal(size=(k, n))],
        E=0.2 * rng.normal(size=(n, n)),
        Q=np.eye(n),
        R=np.eye(m),
        initial_belief=rng.normal(size=n),
        initial_state_cov=0.1 * np.eye(n),
    )


@pytest.mark.parametrize("slip", [True, False])
@pytest.mark.parametrize("make", [mc.tasks.reaching, with_all_noises])
def test_forward_is_the_loop(make, slip):
    problem = make()
    L = naive.riccati(problem)
    looped = forward_as_coded(problem, L, 2 * slip)
    found = bug.forward(problem, jnp.asarray(L), slip=slip)
    assert_allclose(found, looped, rtol=1e-8, atol=1e-10 * np.abs(looped).max())


def test_wrong_policy_is_the_loop():
    problem = mc.tasks.reaching()
    L, K = alternate_as_coded(problem, 2, bug.ITERATIONS)
    policy = bug.wrong_policy(problem)
    assert_allclose(policy.L, L, rtol=1e-7, atol=1e-9 * np.abs(L).max())
    assert_allclose(policy.K, K, rtol=1e-7, atol=1e-9 * np.abs(K).max())
    assert policy.converged


def test_without_the_slip_it_is_what_solve_finds():
    problem = mc.tasks.reaching()
    right, solved = bug.alternate(problem, slip=False, iterations=200), mc.solve(problem)
    assert_allclose(right.L, solved.L, rtol=1e-6, atol=1e-8 * np.abs(solved.L).max())
    assert_allclose(right.K, solved.K, rtol=1e-6, atol=1e-8 * np.abs(solved.K).max())
    assert_allclose(right.expected_cost, solved.expected_cost, rtol=1e-9)


def test_slip_does_nothing_without_signal_dependent_noise():
    problem = mc.tasks.reaching().replace(C=[], V=0.1 * np.eye(5))
    assert_allclose(bug.wrong_policy(problem).K, naive.kalman(problem), rtol=1e-7, atol=1e-9)


def as_published():
    """The reaching task of the public code: control cost r / T, motor noise 10^-0.3."""
    steps = 30
    return mc.tasks.reaching(effort=1e-5 * (steps - 1) / steps, motor_noise=10**-0.3, steps=steps)


def test_numbers_of_the_errata():
    """1.6359e-3 instead of 1.2050e-3, and 207 %: what running the public code gave.

    They come out with both pairs of parentheses misplaced, and not with one.
    """
    problem = as_published()
    right, wrong = mc.solve(problem), bug.wrong_policy(problem)

    def off(K):
        return np.linalg.norm(K - right.K) / np.linalg.norm(right.K)

    assert_allclose(right.expected_cost, 1.2050e-3, atol=0.5e-7)
    assert_allclose(wrong.expected_cost, 1.6359e-3, atol=0.5e-7)
    assert_allclose(off(wrong.K), 2.07, atol=0.005)

    L, K = alternate_as_coded(problem, 1, 50)
    once = eqx.tree_at(lambda p: (p.L, p.K), right, (jnp.asarray(L), jnp.asarray(K)))
    assert_allclose(expected_cost(problem, once), 1.5994e-3, atol=0.5e-7)
    assert_allclose(off(K), 2.03, atol=0.005)


def test_expected_cost_is_what_the_wrong_agent_pays():
    problem = as_published()
    policy = bug.wrong_policy(problem)
    trials = mc.simulate(problem, policy, n_trials=20_000, key=jax.random.key(0))
    x, u = np.asarray(trials.states), np.asarray(trials.controls)
    costs = np.einsum("nti,tij,ntj->n", x, np.asarray(problem.Q), x)
    costs += np.einsum("nti,tij,ntj->n", u, np.asarray(problem.R), u)
    error = costs.std() / np.sqrt(len(costs))
    assert abs(costs.mean() - float(policy.expected_cost)) < 4 * error


def test_many_at_once_are_the_same():
    efforts = jnp.array([1e-6, 1e-5, 1e-4])
    many = jax.jit(jax.vmap(lambda r: bug.wrong_policy(mc.tasks.reaching(effort=r))))(efforts)
    for i, effort in enumerate(efforts):
        alone = bug.wrong_policy(mc.tasks.reaching(effort=float(effort)))
        assert_allclose(many.K[i], alone.K, rtol=1e-6, atol=1e-9 * float(jnp.abs(alone.K).max()))


def test_prediction_is_compared_with_the_wrong_agents_movements():
    true, fitted = mc.tasks.reaching(), mc.tasks.reaching(effort=2e-5)
    moved, predicted = (true, bug.wrong_policy(true)), (fitted, mc.solve(fitted))
    divergence = float(bug.mispredicted(None, *moved, *predicted)["kl_exact"])
    a, b = moments(*moved), moments(*predicted)
    by_step = []
    for t in range(4, 30):
        P, Q = (np.asarray(z.state_cov)[t, :3, :3] for z in (a, b))
        d = np.asarray(a.state_mean - b.state_mean)[t, :3]
        p, q = np.linalg.inv(P), np.linalg.inv(Q)
        by_step.append((np.trace(p @ Q + q @ P - 2 * np.eye(3)) + d @ (p + q) @ d) / 4)
    assert_allclose(divergence, np.mean(by_step), rtol=1e-4)


def test_panel_a_is_always_among_the_cells():
    for at in ({"grid": 3, "every": 1}, {"grid": 3, "every": 4}, {"grid": 2, "every": 3}):
        chosen = fig2ef.cells(at)[:: at["every"]]
        assert bug.cells(at) == [TRUTH, *[cell for cell in chosen if cell != TRUTH]]
        assert len(bug.cells(at)) == len({tuple(cell.values()) for cell in bug.cells(at)})


def made_up(factor, se):
    table = pd.DataFrame(bug.cells({"grid": 2, "every": 1}))
    for name in TRUTH:
        table[f"{name}_found"] = factor * table[name]
        table[f"{name}_se"] = se
    return table.assign(failed="", kl_exact=0.5, at_bounds=False)


def test_numbers_are_those_of_the_tables():
    checks = pd.DataFrame(
        {"agent": ["wrong", "right"], "passed": [False, True], "failed": ["", ""]}
    )
    tables = {
        bug.WRONG: made_up(10.0, 0.1),
        bug.RIGHT: made_up(1.05, 0.1),
        bug.CHECKED: checks,
    }
    # A search that found no maximum has no interval, rather than one that holds everything.
    tables[bug.WRONG].loc[0, "effort_se"] = np.inf
    at = bug.EXPERIMENT.scales["smoke"]
    ours = {number.name: number.ours for number in bug.numbers(at, tables)}
    for label in ("effort r", "velocity v", "force f"):
        assert_allclose(ours[f"RMSE of log10 {label}, wrong agent"], 1.0)
        assert_allclose(ours[f"bias of log10 {label}, right agent"], np.log10(1.05))
        assert_allclose(ours[f"factor on {label} at panel A's costs, wrong agent"], 10.0)
        assert ours[f"true {label} within the 95 % interval, fraction, wrong agent"] == 0
        assert ours[f"true {label} within the 95 % interval, fraction, right agent"] == 1
    assert ours["check of the model finds something wrong, fraction, wrong agent"] == 1
    assert ours["check of the model finds something wrong, fraction, right agent"] == 0
    lost = ours["estimates at a bound or without standard errors, fraction, wrong agent"]
    assert_allclose(lost, 1 / len(tables[bug.WRONG]))

    (picture,) = bug.draw(at, tables)
    lines = picture.figure.axes[0].lines
    wrong = next(line for line in lines if len(line.get_xdata()) and line.get_color() == bug.ORANGE)
    assert_allclose(wrong.get_ydata(), 10 * tables[bug.WRONG]["effort"])


def test_sweeps_share_the_right_agents():
    at = bug.EXPERIMENT.scales["laptop"]
    shared, wrong, full = bug.sweeps(at)
    (theirs,) = fig2ef.sweeps(fig2ef.EXPERIMENT.scales["laptop"])
    assert shared == theirs
    assert shared.name == bug.RIGHT
    assert wrong.function.policy is bug.wrong_policy
    assert wrong.over == bug.cells(at)
    assert full.over == {"agent": ["wrong", "right"]}
    assert full.repetitions == at["checked"]
