"""The expected cost can have several minima; the policy is the lowest of those that are found."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost.model.passes import backward_pass, forward_pass
from motorcost.model.solver import solve_each
from strategies import in_time

# Two problems with two minima each, at targets (in metres) near which both cost the same.
FAST = {"effort": 4.408e-6, "velocity": 1.92, "force": 0.00196, "motor_noise": 0.2306, "dt": 0.0125}
STILL = {"effort": 7.87e-7, "velocity": 3.40, "force": 0.0418, "motor_noise": 0.741, "dt": 0.025}
CASES = {
    "fast": (partial(mc.tasks.reaching, steps=53), FAST | {"target": 0.1067}),
    "still": (partial(mc.tasks.reaching, steps=27), STILL | {"target": 0.0945}),
}
SCANS = [(case, name) for case, (_, values) in CASES.items() for name in values]
WIDER = [scan for scan in SCANS if scan != ("still", "target")]
SCANNED = 9  # problems of all scans, so that they share one program


solve_all = jax.jit(solve_each)


@jax.jit
def plain_iterations(problems, starts):
    """The lowest cost that 300 plain iterations reach from each of these control gains."""
    count, repeats = problems.dt.size, len(starts)
    L = jnp.moveaxis(jnp.tile(starts, (count, 1, 1, 1)), 0, -1)
    batch = jax.tree.map(lambda leaf: jnp.moveaxis(jnp.repeat(leaf, repeats, 0), 0, -1), problems)

    def iterate(L, _):
        return backward_pass(batch, forward_pass(batch, L).K), None

    L, _ = jax.lax.scan(iterate, L, length=300)
    return forward_pass(batch, L).cost.reshape(count, repeats).min(axis=1)


def test_both_minima_of_a_fast_reach():
    """The numbers are those of the issue that described them."""
    policy = mc.solve(mc.tasks.reaching(steps=53, **FAST, target=0.107))
    assert_allclose(np.linalg.norm(policy.L), 1226, atol=0.5)
    assert policy.minima.count == 2
    costs = np.asarray(policy.minima.costs) / 0.107**2
    assert_allclose(costs[:2], [0.036939, 0.036962], rtol=1e-4)
    assert np.isnan(costs[2:]).all()
    assert "lowest of 2 minima" in repr(policy)
    assert "2 minima of cost" in repr(policy.minima)
    below = mc.solve(mc.tasks.reaching(steps=53, **FAST, target=0.1064))
    assert_allclose(np.linalg.norm(below.L), 1073, atol=0.5)


def test_an_agent_that_hardly_moves():
    """Below 0.0945 m it is the better one (FAST and STILL are the cases of one issue)."""
    near, far = (mc.solve(mc.tasks.reaching(steps=27, **STILL, target=t)) for t in (0.09, 0.1))
    assert near.minima.count == far.minima.count == 2
    assert_allclose(np.linalg.norm(near.L), 88, atol=0.5)
    assert_allclose(np.linalg.norm(far.L), 264, atol=0.5)
    for policy in (near, far):
        assert_allclose(policy.minima.costs[0], policy.expected_cost, rtol=1e-9)


def solved_along(case, name, values_of_name, **changed):
    """The problems of a scan, and their policies."""
    task, values = CASES[case]
    values = values | changed
    problems = jax.vmap(lambda value: task(**values | {name: value}))(values_of_name)
    return problems, solve_all(problems)


@pytest.mark.parametrize("scan", in_time(SCANS, *WIDER))
def test_lowest_minimum_is_taken_across_the_border(scan):
    """Neighbours in a scan have found minima that the starts of a problem may have missed: none
    leads to a lower cost, nor does a start from gains of zero."""
    case, name = scan
    width = 0.02 if case == "fast" else 0.2
    around = CASES[case][1][name] * np.linspace(1 - width, 1 + width, SCANNED)
    problems, policies = solved_along(case, name, around)
    found = policies.L if scan in WIDER else policies.L[::4]  # on either side of the border
    starts = jnp.concatenate([found, jnp.zeros_like(found[:1])])
    assert policies.converged.all()
    lowest = plain_iterations(problems, starts)
    assert (policies.expected_cost <= lowest * (1 + 1e-8)).all()


@pytest.mark.parametrize("case", CASES)
def test_cost_is_continuous_where_the_policy_jumps(case):
    """Where another minimum becomes the lowest, the cost has a kink."""
    near = (0.004 if case == "fast" else 0.04) * np.linspace(-1, 1, SCANNED)
    targets = CASES[case][1]["target"] * (1 + near)
    _, policies = solved_along(case, "target", targets)
    assert policies.converged.all()
    assert (policies.minima.count == 2).all()
    norms = np.linalg.norm(np.reshape(policies.L, (SCANNED, -1)), axis=1)
    costs = np.asarray(policies.expected_cost)
    jump = np.argmax(np.abs(np.diff(norms)))
    assert np.abs(np.diff(np.log(norms)))[jump] > 0.1
    assert np.delete(np.abs(np.diff(np.log(norms))), jump).max() < 0.05
    # A jump of the cost would show as a slope unlike its neighbours.
    slopes = np.diff(costs) / np.diff(targets)
    assert np.abs(np.diff(slopes)).max() < 0.5 * np.abs(slopes).max()


@pytest.mark.parametrize(("target", "policies_found"), [(0.107, 1), (0.1067, 2)])
def test_no_wall_where_the_force_costs_a_little_more_or_less(target, policies_found):
    """Within 0.6 % of this force there is one policy, or a border between two. The lowest cost is a
    continuous function of the force: at a border it has a kink, for its rise from one problem to
    the next is that of either minimum, which differ by a fifth. Another minimum than the lowest
    would cost a hundred such rises more, away from the border."""
    changes = np.linspace(-0.006, 0.006, 3 * SCANNED)
    batches = (FAST["force"] * (1 + changes)).reshape(3, SCANNED)
    solved = [solved_along("fast", "force", batch, target=target)[1] for batch in batches]
    assert all(policies.converged.all() for policies in solved)
    rises = np.diff(np.concatenate([policies.expected_cost for policies in solved]))
    assert_allclose(rises, np.median(rises), rtol=0.25)
    gains = np.concatenate([policies.L for policies in solved])
    norms = np.linalg.norm(gains.reshape(len(changes), -1), axis=1)
    assert 1 + (np.abs(np.diff(np.log(norms))) > 0.05).sum() == policies_found


def test_no_wall_where_a_minimum_disappears():
    """Just beyond the end of a minimum, iterations from the regulator hardly move."""
    _, policies = solved_along("fast", "target", np.linspace(0.1072, 0.1074, SCANNED))
    assert policies.converged.all()
    assert (policies.iterations < 60).all()


def test_one_minimum_is_found_where_there_is_one():
    policy = mc.solve(mc.tasks.reaching())
    assert policy.minima.count == 1
    assert_allclose(policy.minima.costs[0], policy.expected_cost, rtol=1e-12)
    assert "minima" not in repr(policy)


def test_derivative_is_that_of_the_minimum_that_is_taken():
    def cost(target):
        return mc.solve(mc.tasks.reaching(steps=27, **STILL, target=target)).expected_cost

    slope = jax.jit(jax.grad(cost))
    for target in (0.09, 0.1):
        difference = (cost(target + 1e-6) - cost(target - 1e-6)) / 2e-6
        assert_allclose(slope(target), difference, rtol=1e-6)


def test_starts_are_tried_in_batches():
    """More slow problems than one batch holds, between others that converge fast."""
    targets = jnp.where(jnp.arange(40) % 3 == 0, 0.3, jnp.linspace(0.08, 0.11, 40))
    noises = jnp.where(jnp.arange(40) % 3 == 0, 0.1, STILL["motor_noise"])

    def task(target, noise):
        return mc.tasks.reaching(steps=27, **STILL | {"target": target, "motor_noise": noise})

    together = solve_all(jax.vmap(task)(targets, noises))
    assert (together.minima.count == 2).sum() > 8
    for i in (0, 13, 17, 38):
        alone = mc.solve(task(targets[i], noises[i]))
        assert together.minima.count[i] == alone.minima.count
        assert_allclose(together.expected_cost[i], alone.expected_cost, rtol=1e-10)
        assert_allclose(together.L[i], alone.L, rtol=1e-6, atol=1e-6 * np.abs(alone.L).max())
