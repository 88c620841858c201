import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm

import motorcost as mc

TASKS = {
    "reaching": mc.tasks.reaching,
    "planar_reaching": mc.tasks.planar_reaching,
    "posture": mc.tasks.posture,
    "saccade": mc.tasks.saccade,
    "planar_saccade": mc.tasks.planar_saccade,
    "tracking": mc.tasks.tracking,
    "pursuit": mc.tasks.pursuit,
    "subjective_pursuit": mc.tasks.subjective_pursuit,
    "random_problem": mc.tasks.random_problem(jax.random.key(0)),
}


@pytest.mark.parametrize("name", TASKS)
def test_every_argument_is_declared(name):
    task = TASKS[name]
    assert list(mc.tasks.parameters(task)) == list(inspect.signature(task).parameters)
    assert task.__doc__


@pytest.mark.parametrize("name", TASKS)
def test_defaults_work_and_have_names_and_converge(name):
    problem = TASKS[name](**mc.tasks.defaults(TASKS[name]))
    assert mc.solve(problem).converged
    assert len(set(problem.state_names)) == problem.A.shape[-1]


def test_undeclared_task_is_named():
    def mine():
        pass

    with pytest.raises(mc.InputError, match="the task mine declares no parameters"):
        mc.tasks.parameters(mine)


def test_reaching_is_todorovs():
    p = mc.tasks.reaching(effort=3e-5, velocity=0.3, force=0.05, motor_noise=0.4, target=0.2)
    x = np.array([0.01, 0.2, 3.0, 4.0, 0.2])
    u = 7.0
    after = np.asarray(p.A[0] @ x + p.B[0][:, 0] * u)
    expected = [0.01 + 0.01 * 0.2, 0.2 + 0.01 * 3, 3 + 0.25 * (4 - 3), 4 + 0.25 * (7 - 4), 0.2]
    assert_allclose(after, expected)
    assert_allclose(x @ p.Q[-1] @ x, (0.01 - 0.2) ** 2 + (0.3 * 0.2) ** 2 + (0.05 * 3) ** 2)
    assert_allclose(p.Q[:-1], 0)
    assert_allclose(p.R, 3e-5 / 29)
    assert_allclose(p.C[:, 0], 0.4 * p.B)
    assert_allclose(p.W[0], np.diag([0.01, 0.1, 0.5]))
    assert p.steps == 30


def test_saccade_is_the_plant_sampled_exactly():
    p = mc.tasks.saccade()
    t1, t2, dt = 0.224, 0.013, 0.00125
    F = np.array([[0, 1], [-1 / (t1 * t2), -(t1 + t2) / (t1 * t2)]])
    assert_allclose(p.A[0, :2, :2], expm(F * dt), rtol=1e-12)
    # A constant control u moves the eye towards u: x' = e^{F dt} x + (I - e^{F dt}) (u, 0).
    assert_allclose(p.B[0, :2, 0], (np.eye(2) - expm(F * dt))[:, 0], rtol=1e-10)
    assert_allclose(p.C[0, 0], np.sqrt(0.08) * p.B[0])
    assert_allclose((p.V @ p.V.swapaxes(1, 2))[0], np.diag(1e-2 * np.asarray(p.B[0, :, 0]) ** 2))


def test_saccade_holds_start_then_target():
    p = mc.tasks.saccade()
    at = {angle: np.array([angle, 0, 10.0]) for angle in (-10.0, 10.0)}
    costs = {angle: np.einsum("i,tij,j->t", x, p.Q, x) for angle, x in at.items()}
    assert_allclose(costs[-10.0], [0] * 30 + [400] * 10, atol=1e-12)
    assert_allclose(costs[10.0], [400] * 5 + [0] * 35, atol=1e-12)


def test_tracking_follows_a_random_walk():
    problem = mc.tasks.tracking(wander=0.1, steps=61)
    policy = mc.solve(problem)
    trials = mc.simulate(problem, policy, n_trials=20_000, key=jax.random.key(0))
    hand, target = trials.states[:, :, 0], trials.states[:, :, 2]
    assert_allclose(target[:, -1].std(), 0.1, rtol=0.03)  # a second later
    assert np.corrcoef(hand[:, -1], target[:, -1])[0, 1] > 0.7
    assert (hand - target)[:, -1].std() < target[:, -1].std()


def test_random_problem_is_drawn_as_the_paper_says():
    keys = jax.random.split(jax.random.key(0), 200)
    problems = jax.jit(jax.vmap(lambda key: mc.tasks.random_problem(key)(steps=2)))(keys)
    A, B, H, V, W, E, C, D = (np.asarray(getattr(problems, letter))[:, 0] for letter in "ABHVWECD")
    assert_allclose(np.linalg.norm(A[:, :4, :4], axis=(1, 2)), 1)
    assert_allclose(np.linalg.norm(B, axis=(1, 2)), 1)
    assert abs(H[:, :, :4].std() - 1) < 0.05
    for factor in (V[:, :4], W, E[:, :4]):
        correlation = factor @ factor.swapaxes(1, 2)
        assert_allclose(np.diagonal(correlation, axis1=1, axis2=2), 1)
        # Under LKJ(1) in 4 dimensions each correlation is 2 Beta(2, 2) - 1, of variance 1/5.
        assert abs(correlation[:, 0, 1].var() - 0.2) < 0.05
    for noise, values in ((C, C[:, 0, :4]), (D, D[:, 0, :, :4])):
        assert noise.shape[1] == 1
        assert values.min() >= 0
        assert 0.45 < values.max() <= 0.5
        assert abs(values.mean() - 0.25) < 0.02
    assert_allclose(A[:, 4, 4], 1)  # the target stays


def test_random_problem_costs_its_efforts():
    p = mc.tasks.random_problem(jax.random.key(1))(effort_1=0.3, effort_2=0.7)
    assert_allclose(p.R[0], np.diag([0.3, 0.7]))
    assert p.steps == 50
    x = np.array([0.4, 5, 5, 5, 1.0])
    assert_allclose(x @ p.Q[-1] @ x, 0.36)


def test_random_problem_leaves_the_open_choices_to_the_user():
    task = mc.tasks.random_problem(
        jax.random.key(0), senses=2, control_noises=3, state_noises=0, internal_noise=0,
        additive_noise=0.5, start_spread=0.2,
    )  # fmt: skip
    p = task()
    assert p.H.shape[1:] == (2, 5)
    assert p.C.shape[1] == 3
    assert p.D.shape[1] == 0
    assert_allclose(p.E, 0)
    assert_allclose(np.diagonal(p.W[0] @ p.W[0].T), 0.25)
    assert_allclose(p.initial_belief_cov, np.diag([0.04] * 4 + [0]))
    assert mc.solve(p).converged


VIA = {"via_x": 0.05, "via_y": 0.05, "via_time": 0.1}


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize(
    ("task", "arguments", "message"),
    [
        (mc.tasks.reaching, {"motor_noise": -0.1}, "motor_noise must not be negative, got -0.1"),
        (mc.tasks.reaching, {"effort": 0.0}, "effort must be positive, got 0"),
        (mc.tasks.reaching, {"steps": 1}, "steps .* must be at least 2, got 1"),
        (mc.tasks.reaching, {"target": np.nan}, "must be finite"),
        (mc.tasks.saccade, {"sensory_noise": -1.0}, "sensory_noise must not be negative"),
        (mc.tasks.saccade, {"hold_start": 30, "hold_target": 20}, "must be at most steps = 40"),
        (mc.tasks.saccade, {"target": 0.0}, "target must not be 0"),
        (mc.tasks.saccade, {"aim_spread": 1.0}, r"angles from the start \(start=0\).*start=-10"),
        (mc.tasks.reaching, {"aim_spread": -1.0}, "aim_spread must not be negative"),
        (mc.tasks.planar_reaching, {"target_x": 0.0}, "the target is at the start"),
        (mc.tasks.planar_reaching, {"via_x": 0.1}, "a via-point needs .*: via_y, via_time is miss"),
        (
            mc.tasks.planar_reaching,
            VIA | {"via_time": 1.0},
            r"within the trial of 0.29 s, got .* 1",
        ),
        (mc.tasks.planar_reaching, {"proprioception_delay": 30}, "shorter than the trial of 30"),
        (mc.tasks.planar_reaching, {"across": -1.0}, "across must not be negative"),
        (
            mc.tasks.planar_reaching,
            {"via": 2.0},
            "via needs a via-point: via_x, via_y and via_time",
        ),
        (mc.tasks.planar_reaching, {"adaptation": 0.5}, "adaptation needs a field: curl, visc"),
        (mc.tasks.planar_reaching, {"vision_delay": 3}, "vision_delay needs vision: give vision_n"),
        (mc.tasks.planar_saccade, {"hold_start": 31}, "must be at most steps = 40, got 41"),
        (mc.tasks.posture, {"pulse": 1.0, "pulse_time": 9.0}, "begin within the trial of 4.99 s"),
        (mc.tasks.tracking, {"wander": -1.0}, "wander must not be negative"),
        (mc.tasks.tracking, {"mass": 0.0}, "mass must be positive"),
        (mc.tasks.pursuit, {"target_noise": -1.0}, "target_noise must not be negative"),
        (mc.tasks.pursuit, {"delay": 180}, "delay must be shorter than the trial of 180 steps"),
        (mc.tasks.subjective_pursuit, {"believed_drift": -1.0}, "believed_drift must not be neg"),
        (TASKS["random_problem"], {"effort_2": -1.0}, "effort_2 must be positive"),
    ],
)
def test_bad_parameters(task, arguments, message):
    with pytest.raises(mc.InputError, match=message):
        task(**arguments)


def numbers_of(name):
    """What a task takes as real numbers, none of them 0, where the slope of a square is 0; with a
    field and a push, whose numbers would do nothing without them."""
    numbers = {k: v or 0.1 for k, v in mc.tasks.defaults(TASKS[name]).items() if type(v) is float}
    return numbers | {"planar_reaching": {"curl": 5.0}, "posture": {"pulse": 5.0}}.get(name, {})


@pytest.mark.parametrize("name", TASKS)
def test_every_number_of_a_task_can_be_traced(name):
    """So that it can be inferred."""

    def size(values):
        """Differs, too, where a push comes later and is as large."""
        leaves = jax.tree.leaves(TASKS[name](**values))
        return sum((jnp.arange(1, leaf.size + 1) * leaf.ravel() ** 2).sum() for leaf in leaves)

    slopes = jax.jit(jax.grad(size))(numbers_of(name))
    assert all(np.isfinite(slope) for slope in slopes.values())
    assert [number for number, slope in slopes.items() if slope == 0] == []


@pytest.mark.slow  # the likelihood's slopes by all numbers of a reach are a quick test of their own
@pytest.mark.parametrize("name", TASKS)
def test_tasks_are_pure_functions_of_their_numbers(name):
    """Every number that a task takes can be traced, so that it can be inferred."""
    slopes = jax.jit(jax.grad(lambda v: mc.solve(TASKS[name](**v)).expected_cost))(numbers_of(name))
    assert all(np.isfinite(slope) for slope in slopes.values())
    # What the agent does not know of changes nothing of the cost that it expects.
    unknown = {"planar_reaching": ["field_on"], "subjective_pursuit": ["start_spread", "wander"]}
    assert [number for number, slope in slopes.items() if slope == 0] == unknown.get(name, [])


@pytest.mark.parametrize("name", TASKS)
def test_typical_values_lie_within_the_supports(name):
    declared, typical = mc.tasks.parameters(TASKS[name]), mc.tasks.typical_values(TASKS[name])
    assert list(typical) == list(declared)
    for parameter, value in typical.items():
        support = declared[parameter].support
        assert support is None or value in support
    spreads = [n for n, parameter in declared.items() if parameter.role == "spread"]
    assert all(mc.tasks.defaults(TASKS[name])[spread] == 0 for spread in spreads)


def test_only_a_spread_may_be_zero_outside_its_support():
    def mine(noise=0.0):
        pass

    support = mc.LogUniform(1e-3, 1.0)
    mc.tasks.declare(noise=mc.tasks.Parameter("", "m", "spread", support, typical=0.1))(mine)
    with pytest.raises(mc.InputError, match="the default of noise, 0, lies outside"):
        mc.tasks.declare(noise=mc.tasks.Parameter("", "m", "noise", support))(mine)
    with pytest.raises(mc.InputError, match="the typical value of noise, 2, lies outside"):
        mc.tasks.declare(noise=mc.tasks.Parameter("", "m", "spread", support, typical=2.0))(mine)
