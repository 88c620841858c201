import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import solve_discrete_are

import motorcost as mc
import naive
from motorcost.model import passes, solver
from strategies import SHAPES, TASKS, built_in, for_problems, in_time, make_problem

backward_pass, forward_pass = jax.jit(passes.backward_pass), jax.jit(passes.forward_pass)


@for_problems(plain=True)
def test_gains_without_signal_dependent_noise_are_those_of_riccati_and_kalman(problem, rng):
    policy = mc.solve(problem)
    assert_allclose(policy.L, naive.riccati(problem), rtol=1e-10, atol=1e-12)
    assert_allclose(policy.K, naive.kalman(problem), rtol=1e-10, atol=1e-12)


def test_gains_of_a_long_horizon_satisfy_the_algebraic_riccati_equation():
    rng = np.random.default_rng(0)
    A, B, H = rng.normal(size=(3, 3)), rng.normal(size=(3, 2)), rng.normal(size=(2, 3))
    V, W, R = rng.normal(size=(3, 3)), np.eye(2), np.eye(2)
    policy = mc.solve(mc.Problem(steps=200, A=A, B=B, H=H, Q=np.eye(3), R=R, V=V, W=W))
    P = solve_discrete_are(A, B, np.eye(3), R)
    S = solve_discrete_are(A.T, H.T, V @ V.T, W @ W.T)
    assert_allclose(policy.L[0], np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A), rtol=1e-10)
    assert_allclose(policy.K[-1], A @ S @ H.T @ np.linalg.inv(H @ S @ H.T + W @ W.T), rtol=1e-10)


@for_problems()
def test_passes_agree_with_the_equations_of_the_paper(problem, rng):
    policy = mc.solve(problem)
    other_K = jnp.roll(policy.K, 1, axis=0)
    assert_allclose(backward_pass(problem, other_K), naive.backward(problem, other_K)[0], rtol=1e-9)
    other_L = jnp.roll(policy.L, 1, axis=0)
    K = forward_pass(problem, other_L).K
    assert_allclose(K, naive.forward(problem, other_L), rtol=1e-8, atol=1e-10)


@for_problems()
def test_gains_do_not_depend_on_the_first_iteration(problem, rng):
    """The naive loop starts from filter gains of zero, the solver from the regulator."""
    policy = mc.solve(problem)
    L, K = naive.alternate(problem)
    assert_allclose(policy.L, L, rtol=1e-7, atol=1e-8)
    assert_allclose(policy.K, K, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", in_time(TASKS, "saccade", "tracking", "random_problem"))
def test_tasks_agree_with_the_naive_loop(name):
    problem = built_in(name)
    policy = mc.solve(problem)
    L, K = naive.alternate(problem, iterations=40)
    assert_allclose(policy.L, L, rtol=1e-8, atol=1e-8 * np.abs(L).max())
    assert_allclose(policy.K, K, rtol=1e-8, atol=1e-8 * np.abs(K).max())


@for_problems()
def test_expected_cost_is_the_value_function_at_the_start(problem, rng):
    policy = mc.solve(problem)
    assert_allclose(
        policy.expected_cost, naive.cost_to_go(problem, np.asarray(policy.K)), rtol=1e-9
    )


@for_problems(internal=False)
def test_no_gain_can_be_improved(problem, rng):
    """Without internal noise the policy is stationary: no change of any gain, of control or
    filter, changes the exact cost to first order."""
    policy = mc.solve(problem)

    def cost(gains):
        return mc.expected_cost(problem, eqx.tree_at(lambda p: (p.L, p.K), policy, gains))

    slopes = jax.grad(cost)((policy.L, policy.K))
    scale = float(policy.expected_cost)
    for slope, gains in zip(slopes, (policy.L, policy.K), strict=True):
        assert_allclose(np.asarray(slope) * np.abs(gains).max(), 0, atol=1e-8 * scale)


@for_problems(internal=False)
def test_cost_falls_with_every_plain_iteration(problem, rng):
    policy = mc.solve(problem)
    K, costs = jnp.zeros_like(policy.K), []
    for _ in range(8):
        found = forward_pass(problem, backward_pass(problem, K))
        K = found.K
        costs.append(float(found.cost))
    assert (np.diff(costs) <= 1e-12 * np.array(costs[:-1])).all()
    assert costs[-1] >= policy.expected_cost * (1 - 1e-12)


# Costs far from those of people, with a saddle of the expected cost, to which iterations that are
# always accelerated would converge.
SADDLES = [
    {"effort": 1.10495894e-08, "velocity": 4.41123555e-03, "force": 9.82662446e-03},
    {"effort": 1.64705295e-08, "velocity": 4.27570379e-03, "force": 2.09024758e-02},
]


@pytest.mark.parametrize("costs", in_time(SADDLES, SADDLES[1]))
def test_policy_is_a_minimum_of_the_cost(costs):
    problem = mc.tasks.reaching(**costs)
    policy = mc.solve(problem)
    for change in (0.999, 1.001):
        found = forward_pass(problem, change * policy.L)
        for _ in range(100):
            found = forward_pass(problem, backward_pass(problem, found.K))
        assert_allclose(found.K, policy.K, atol=1e-5 * np.abs(policy.K).max())
        assert_allclose(found.cost, policy.expected_cost, rtol=1e-9)


def test_costs_of_all_iterations_are_kept():
    policy = mc.solve(mc.tasks.reaching())
    assert np.isfinite(policy.iteration_costs[: policy.iterations]).all()
    assert np.isnan(policy.iteration_costs[policy.iterations :]).all()
    assert_allclose(policy.iteration_costs[policy.iterations - 1], policy.expected_cost, rtol=1e-10)


def test_a_batch_of_problems_agrees_with_single_ones():
    """More problems than one batch holds, of which some converge early and others late."""
    efforts = np.logspace(-8, -2, 70)

    @jax.jit
    def solve_all(efforts):
        return solver.solve_each(jax.vmap(lambda e: mc.tasks.reaching(effort=e))(efforts))

    together = solve_all(efforts)
    for i in (0, 33, 69):
        alone = mc.solve(mc.tasks.reaching(effort=efforts[i]))
        assert_allclose(together.L[i], alone.L, rtol=1e-8, atol=1e-8)
        assert_allclose(together.K[i], alone.K, rtol=1e-8, atol=1e-10)
        assert_allclose(together.expected_cost[i], alone.expected_cost, rtol=1e-10)


@for_problems(scale=0.5)
def test_gains_converge_with_internal_noise(problem, rng):
    policy = mc.solve(problem)
    again = forward_pass(problem, backward_pass(problem, policy.K))
    assert_allclose(again.K, policy.K, atol=1e-8 * np.abs(policy.K).max())


def test_cost_may_rise_between_iterations_with_internal_noise():
    rises = 0
    for seed in range(20):
        policy = mc.solve(make_problem(SHAPES[1], seed, scale=0.6))
        costs = np.asarray(policy.iteration_costs)[: int(policy.iterations)]
        rises += (np.diff(costs) > 1e-9 * costs[:-1]).any()
    assert rises > 0  # so the cost cannot be the stopping rule


def test_expected_cost_of_reaching_is_that_of_two_other_implementations():
    # Expected cost at the defaults, from DESIGN.md: two independent implementations.
    assert_allclose(mc.solve(mc.tasks.reaching()).expected_cost, 1.2298091288e-3, rtol=1e-10)


def test_internal_noise_example_of_the_literature():
    """Damiani et al. (2024): with E = 0.3 the alternation costs 9.78144 (the optimum 9.31867)."""
    unit, half = [[1.0]], [[0.5]]
    problem = mc.Problem(
        steps=10, A=unit, B=unit, H=unit, Q=unit, R=unit, C=[half], D=[half], V=half, W=half,
        E=[[0.3]], initial_belief=[1.0],
    )  # fmt: skip
    assert_allclose(mc.solve(problem).expected_cost, 9.78144, rtol=1e-6)


@for_problems()
def test_order_of_states_does_not_matter(problem, rng):
    n = problem.A.shape[-1]
    order = rng.permutation(n)
    policy, permuted = mc.solve(problem), mc.solve(_transformed(problem, np.eye(n)[order]))
    assert_allclose(permuted.expected_cost, policy.expected_cost, rtol=1e-8)
    assert_allclose(permuted.L, policy.L[:, :, order], rtol=1e-6, atol=1e-8)
    assert_allclose(permuted.K, policy.K[:, order], rtol=1e-6, atol=1e-8)


@for_problems()
def test_units_do_not_matter(problem, rng):
    """With states, or the cost, in other units, gains and cost change by the same factors."""
    n = problem.A.shape[-1]
    units = 10.0 ** rng.uniform(-2, 2, size=n)
    policy, rescaled = mc.solve(problem), mc.solve(_transformed(problem, np.diag(units)))
    assert_allclose(rescaled.expected_cost, policy.expected_cost, rtol=1e-8)
    assert_allclose(rescaled.L * units, policy.L, rtol=1e-6, atol=1e-7)
    costlier = mc.solve(problem.replace(Q=7 * problem.Q, R=7 * problem.R))
    assert_allclose(costlier.expected_cost, 7 * policy.expected_cost, rtol=1e-9)
    assert_allclose(costlier.L, policy.L, rtol=1e-6, atol=1e-8)


def _transformed(problem, M):
    """The same problem in the coordinates M x."""
    inverse = np.linalg.inv(M)
    p = problem
    return p.replace(
        A=M @ p.A @ inverse,
        B=M @ p.B,
        C=[M @ p.C[:, i] for i in range(p.C.shape[1])],
        V=M @ p.V,
        H=p.H @ inverse,
        D=[p.D[:, j] @ inverse for j in range(p.D.shape[1])],
        E=M @ p.E,
        Q=inverse.T @ p.Q @ inverse,
        initial_belief=M @ p.initial_belief,
        initial_belief_cov=M @ p.initial_belief_cov @ M.T,
        initial_state_cov=M @ p.initial_state_cov @ M.T,
    )


@for_problems()
def test_covariances_stay_positive_semidefinite(problem, rng):
    cov = np.asarray(mc.moments(problem, mc.solve(problem)).cov)
    assert (cov == cov.swapaxes(-1, -2)).all()
    lowest = np.linalg.eigvalsh(cov).min(axis=-1)
    assert (lowest >= -1e-12 * np.abs(cov).max(axis=(-1, -2))).all()


def test_a_sense_without_noise_needs_no_jitter():
    """A target that is known and sensed without error: its direction has no variance."""
    policy = mc.solve(seeing_target())
    alike = mc.solve(mc.tasks.reaching())
    assert_allclose(policy.expected_cost, alike.expected_cost, rtol=1e-12)
    assert_allclose(policy.K[:, :, 3], 0)
    assert_slope_of_cost_is_that_of_differences(seeing_target())


@pytest.mark.slow
def test_a_sense_without_noise_leaves_derivatives_as_they_are():
    reaching = mc.tasks.reaching()
    slopes = [jax.grad(lambda p: mc.solve(p).expected_cost)(p) for p in (seeing_target(), reaching)]
    for letter in "ABCQR":
        assert_allclose(
            getattr(slopes[0], letter), getattr(slopes[1], letter), rtol=1e-7, atol=1e-12
        )


def seeing_target():
    return mc.tasks.reaching().replace(
        H=np.eye(5)[[0, 1, 2, 4]],
        W=np.diag([0.01, 0.1, 0.5, 0.0]),
        senses=["position", "velocity", "force", "target"],
    )


@pytest.mark.parametrize("seed", range(5))
def test_senses_without_any_noise(seed):
    """The solution does not depend on the order of states, although after a few steps every error
    is zero up to rounding, and the gains converge."""
    rng = np.random.default_rng(seed)
    A, B, c = rng.normal(size=(4, 4)) / 2, rng.normal(size=(4, 1)), rng.normal(size=(4, 1))
    start = {"initial_state_cov": np.eye(4), "initial_belief": np.ones(4)}
    plain = {"steps": 40, "Q": np.eye(4), "R": [[0.1]], **start}
    back = np.eye(4)[::-1]
    seen = mc.Problem(A=A, B=B, C=[0.3 * c], H=np.eye(4), W=np.zeros((4, 4)), **plain)
    fully_observed = mc.solve(seen)
    reverse = mc.solve(seen.replace(A=back @ A @ back, B=back @ B, C=[0.3 * back @ c]))
    assert_allclose(reverse.expected_cost, fully_observed.expected_cost, rtol=1e-9)
    # Almost the same as senses with very little noise.
    almost = seen.replace(W=1e-4 * np.eye(4))
    assert_allclose(mc.solve(almost).expected_cost, fully_observed.expected_cost, rtol=1e-5)

    H = rng.normal(size=(2, 4))
    world = mc.Problem(A=A, B=B, H=H, W=0.05 * np.eye(2), **plain)
    sure = world.believing(W=np.zeros((2, 2)))
    turned = world.replace(A=back @ A @ back, B=back @ B, H=H @ back).believing(W=np.zeros((2, 2)))
    costs = [mc.expected_cost(p, mc.solve(p)) for p in (sure, turned)]
    assert_allclose(costs[0], costs[1], rtol=1e-9)


def test_invalid_values_are_flagged_inside_jit():
    @jax.jit
    def converged(values):
        problem = mc.tasks.reaching(effort=values[0])
        Q = jnp.diag(jnp.array([1.0, values[1], 0, 0, 0]))
        return mc.solve(problem.replace(Q=Q, initial_state_cov=values[2] * jnp.eye(5))).converged

    valid = np.full(3, 1e-4)
    assert converged(valid)
    for sign in 1 - 2 * np.eye(3):
        assert not converged(sign * valid)


def test_implicit_derivative_is_the_unrolled_one():
    names = ("effort", "velocity", "force", "motor_noise", "target")
    defaults = jnp.array([mc.tasks.defaults(mc.tasks.reaching)[name] for name in names])

    def summary(gains, relative):
        """A number that depends on every gain, as a function of parameters over defaults."""
        problem = mc.tasks.reaching(**dict(zip(names, relative * defaults, strict=True)))
        L, K = gains(problem)
        return jnp.sum(jnp.sin(L / 100)) + jnp.sum(K**2)

    def implicit(problem):
        policy = mc.solve(problem, tolerance=1e-13)
        return policy.L, policy.K

    def unrolled(problem):
        """A fixed number of iterations, which JAX differentiates one by one."""

        def iteration(K, _):
            return forward_pass(problem, backward_pass(problem, K)).K, None

        H = problem.H
        K, _ = jax.lax.scan(iteration, jnp.zeros((len(H), H.shape[2], H.shape[1])), length=40)
        return backward_pass(problem, K), K

    ones = np.ones(len(names))
    value = jax.jit(jax.value_and_grad(lambda r: summary(implicit, r)))
    reverse = value(ones)[1]
    forward = jax.jit(jax.jacfwd(lambda r: summary(implicit, r)))(ones)
    step = 1e-4 * np.eye(len(names))
    differences = [(value(ones + h)[0] - value(ones - h)[0]) / 2e-4 for h in step]
    assert_allclose(reverse, forward, rtol=1e-9)
    assert_allclose(reverse, jax.jit(jax.grad(lambda r: summary(unrolled, r)))(ones), rtol=1e-8)
    assert_allclose(reverse, differences, rtol=1e-6)


def moved(problem, direction, step):
    return jax.tree.map(lambda leaf, d: leaf + step * d, problem, direction)


def random_direction(problem, rng):
    return jax.tree.map(lambda leaf: 0.1 * np.asarray(leaf) * rng.normal(), problem)


@jax.jit
def gains_and_cost(problem, direction, step):
    policy = mc.solve(moved(problem, direction, step), tolerance=1e-12)
    return jnp.concatenate([policy.L.ravel(), policy.K.ravel()]), policy.expected_cost


@jax.jit
def with_slopes(problem, direction, step):
    def along(step):
        return gains_and_cost(problem, direction, step)

    return jax.jvp(along, (step,), (1.0,))


@for_problems()
def test_derivatives_by_every_matrix(problem, rng):
    """Along a random direction in all matrices at once, against finite differences."""
    direction = random_direction(problem, rng)
    slope = with_slopes(problem, direction, 0.0)[1][0]
    up, down = (with_slopes(problem, direction, step)[0][0] for step in (1e-4, -1e-4))
    assert_allclose(slope, (up - down) / 2e-4, atol=1e-5 * float(np.abs(slope).max()))


def assert_slope_of_cost_is_that_of_differences(problem):
    direction = random_direction(problem, np.random.default_rng(0))
    slope = with_slopes(problem, direction, 0.0)[1][1]
    up, down = (with_slopes(problem, direction, step)[0][1] for step in (1e-4, -1e-4))
    assert_allclose(slope, (up - down) / 2e-4, rtol=1e-6)


@pytest.mark.slow
def test_second_derivative_is_that_of_the_first():
    def gain(effort):
        return jnp.sum(mc.solve(mc.tasks.reaching(effort=effort)).K ** 2)

    curvature = jax.jit(jax.jacfwd(jax.grad(gain)))(1e-5)
    slope = jax.jit(jax.grad(gain))
    assert_allclose(curvature, (slope(1.001e-5) - slope(0.999e-5)) / 2e-8, rtol=1e-5)


def test_vmap_agrees_with_single_problems():
    efforts = np.logspace(-6, -4, 5)

    def solve(effort):
        policy = mc.solve(mc.tasks.reaching(effort=effort))
        return policy.L, policy.K, policy.expected_cost, policy.iterations

    batch = jax.jit(jax.vmap(solve))(efforts)
    for i, effort in enumerate(efforts):
        for together, alone in zip(batch, solve(effort), strict=True):
            assert_allclose(together[i], alone, rtol=1e-9, atol=1e-12)


def test_a_hundred_solves_compile_once():
    mc.solve(mc.tasks.reaching())
    programs = solver._solve.compiled(lean=True)._cache_size
    compiled = programs()
    for effort in np.logspace(-6, -4, 100):
        mc.solve(mc.tasks.reaching(effort=effort))
    assert programs() == compiled > 0


def in_a_line(A, B, C):
    one = [[1.0]]
    return mc.Problem(steps=60, A=[[A]], B=[[B]], C=[[[C]]], H=one, Q=one, R=one, V=one, W=one)


# It overflows: an unstable world, over a horizon on which its cost exceeds any float.
HOPELESS = in_a_line(1e9, 1e-12, 10.0)
HARD = in_a_line(1.0, 1.0, 0.9)


def cost_in_three_iterations(problem):
    policy = mc.solve(problem, max_iterations=3)
    return policy.expected_cost, policy


slopes_in_three_iterations = jax.jit(jax.grad(cost_in_three_iterations, has_aux=True))


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (HARD, "did not converge within 3 iterations"),
        (HOPELESS, "overflowed in iteration"),
    ],
    ids=["short", "overflow"],
)
def test_failure_to_converge_is_reported(problem, message):
    with pytest.raises(mc.ConvergenceError, match=message):
        mc.solve(problem, max_iterations=3)
    grads, policy = slopes_in_three_iterations(problem)
    assert not policy.converged
    assert np.isfinite(policy.L).all()
    assert np.isfinite(policy.K).all()
    assert not np.isnan(policy.expected_cost)
    assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(grads))


def test_a_failure_does_not_affect_the_gradient_of_the_others():
    def total(scale):
        policies = jax.vmap(
            lambda s: mc.solve(mc.tasks.reaching(effort=1e-5 * s), max_iterations=7)
        )(scale)
        return jnp.where(policies.converged, policies.expected_cost, 0.0).sum(), policies.converged

    grads, converged = jax.jit(jax.grad(total, has_aux=True))(np.array([1.0, 100.0]))
    assert converged.tolist() == [False, True]
    assert np.isfinite(grads).all()
    assert grads[1] > 0


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": 0.0}, "tolerance must be positive"),
        ({"max_iterations": 0}, "max_iterations .* must be at least 1"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(mc.InputError, match=message):
        mc.solve(mc.tasks.reaching(), **options)


def test_repr_of_a_policy():
    text = repr(mc.solve(mc.tasks.reaching()))
    assert "expected cost 0.001229809129" in text
    assert "converged after 9 iterations" in text
