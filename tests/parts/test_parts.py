import by_hand
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost import parts

REACHING = {
    "effort": 3e-6, "velocity": 0.7, "force": 0.1, "motor_noise": 0.2, "target": 0.17, "steps": 41,
    "dt": 0.0125, "sensory_noise": 0.9, "tau": 0.05, "aim_spread": 0.01, "start_spread": 0.002,
    "start_speed_spread": 0.03,
}  # fmt: skip
SACCADE = {
    "effort": 2e-2, "motor_noise": 0.1, "process_noise": 0.3, "sensory_noise": 0.1, "start": 0.0,
    "target": 7.0, "steps": 55, "hold_start": 0, "hold_target": 12, "dt": 0.002, "aim_spread": 0.4,
    "start_spread": 0.1, "start_speed_spread": 2.0,
}  # fmt: skip
TRACKING = {
    "effort": 1e-2, "motor_noise": 0.1, "sensory_noise": 0.01, "wander": 0.1, "mass": 2.0,
    "damping": 0.4, "steps": 33, "dt": 0.02, "start_spread": 0.01, "start_speed_spread": 0.05,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("reaching", {}),
        ("reaching", REACHING),
        ("saccade", {}),
        ("saccade", SACCADE),
        ("tracking", {}),
        ("tracking", TRACKING),
    ],
)
def test_tasks_of_parts_are_those_written_by_hand(name, values):
    made, written = getattr(mc.tasks, name)(**values), getattr(by_hand, name)(**values)
    assert jax.tree.structure(made) == jax.tree.structure(written)  # names and units
    for ours, theirs in zip(jax.tree.leaves(made), jax.tree.leaves(written), strict=True):
        assert_allclose(ours, theirs, rtol=1e-12, atol=1e-15)


def test_the_example_of_the_package_is_planar_reaching():
    code = parts.__doc__.split("for example:\n")[1]
    names = {"mc": mc}
    exec("\n".join(line[4:] for line in code.splitlines()), names)
    assert code.strip().count("\n") < 15
    made, task = names["reach"](target_y=0.05), mc.tasks.planar_reaching(target_y=0.05)
    for ours, theirs in zip(jax.tree.leaves(made), jax.tree.leaves(task), strict=True):
        assert_allclose(ours, theirs, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_noise_across_the_control_is_the_same_in_all_directions(dimensions):
    B = jnp.eye(dimensions)
    u = np.array([0.3, -2.0, 0.7])[:dimensions]
    terms = parts.signal_dependent_noise(0.5, across=0.4).terms(B)
    cov = sum(np.outer(C @ u, C @ u) for C in np.asarray(terms))
    along = np.outer(u, u)
    across = u @ u * np.eye(dimensions) - along
    assert_allclose(cov, 0.25 * (along + 0.16 * across), atol=1e-15)


def test_noise_on_a_line_is_along_it():
    assert len(parts.signal_dependent_noise(0.5, across=1.0).terms(jnp.ones((3, 1)))) == 1


def step(problem, x, t=0):
    """The state after a step without control or noise."""
    return np.asarray(problem.A[t] @ x)


def field_problem(fields, dimensions=2, steps=10, dt=0.01, **options):
    body = parts.point_mass(dt, mass=2.0, muscle=0.04, dimensions=dimensions)
    usual = {
        "goals": [parts.throughout({"position": 1.0})],
        "senses": {"vision": {"position": 0.1}},
    }
    return parts.assemble(body, steps=steps, effort=1.0, fields=fields, **usual | options)


def test_places_may_be_arrays():
    at = [np.array([0.1, 0.2]), jnp.array([0.1, 0.2]), (0.1, 0.2)]
    made = [field_problem([], points=[parts.Point("home", p)], start=p) for p in at]
    for problem in made:
        assert_allclose(problem.initial_belief[:2], [0.1, 0.2])
        assert_allclose(problem.initial_belief[-2:], [0.1, 0.2])


def test_fields_push_as_they_say():
    v = np.array([0.3, 0.4])
    x = np.concatenate([[0, 0], v, [0, 0, 0, 0]])
    force = {"curl": 13 * np.array([v[1], -v[0]]), "viscous": -5 * v}
    made = {"curl": parts.curl_field(13.0), "viscous": parts.viscous_field(5.0)}
    for name, field in made.items():
        after = step(field_problem([field]), x)
        assert_allclose(after[2:4], v + 0.01 * force[name] / 2.0)
        assert_allclose(after[:2], 0.01 * v)
    both = step(field_problem(list(made.values())), x)
    assert_allclose(both[2:4], v + 0.01 * (force["curl"] + force["viscous"]) / 2.0)


def test_a_curl_field_pushes_to_the_right():
    forward = np.array([0, 0, 0.0, 0.5, 0, 0, 0, 0])
    assert step(field_problem([parts.curl_field(13.0)]), forward)[2] > 0


def test_a_load_is_a_state_that_the_agent_knows():
    problem = field_problem([parts.load((1.0, -3.0))], adaptation=0.25)
    assert problem.state_names[-2:] == ("load_x", "load_y")
    assert problem.state_units[-1] == "N"
    x = np.asarray(problem.initial_belief)
    assert_allclose(x[-2:], [1.0, -3.0])
    assert_allclose(step(problem, x)[2:4], [0.005, -0.015])
    assert_allclose(step(problem.believed, x)[2:4], [0.00125, -0.00375])
    assert_allclose(step(problem, x)[-2:], x[-2:])


@pytest.mark.parametrize(("time", "duration", "dt"), [(0.031, 0.025, 0.01), (0.0, 0.05, 0.02)])
def test_a_pulse_gives_its_momentum_whatever_the_steps(time, duration, dt):
    problem = field_problem([parts.pulse((4.0, 0.0), time, duration, dt)], dt=dt)
    x = np.asarray(problem.initial_belief)
    for t in range(problem.steps - 1):
        x = step(problem, x, t)
    assert_allclose(x[2], 4.0 * duration / 2.0)


def test_what_acts_and_what_is_believed_are_shares_of_the_field():
    field = parts.curl_field(10.0)
    none = field_problem([parts.curl_field(0.0)])
    caught = field_problem([field._replace(present=0.0)], adaptation=0.6)
    assert_allclose(caught.A, none.A)
    weak = field_problem([parts.curl_field(6.0)])
    assert_allclose(caught.believed.A, weak.A, atol=1e-15)


def test_goals_hold_when_they_say():
    T, dt = 11, 0.1
    weights = {"position": 1.0}
    assert_allclose(parts.at_end(weights).share(T), [0] * 10 + [1])
    assert_allclose(parts.first_steps(3, weights).share(T), [1] * 3 + [0] * 8)
    assert_allclose(parts.last_steps(3, weights).share(T), [0] * 8 + [1] * 3)
    assert_allclose(parts.throughout(weights).share(T), 1)
    assert_allclose(parts.at_time(0.3, dt, weights).share(T), np.eye(T)[3], atol=1e-12)
    between = np.asarray(parts.at_time(0.325, dt, weights).share(T))
    assert_allclose(between[3:5], [0.75, 0.25])
    assert_allclose(between.sum(), 1)


def test_cost_is_the_sum_of_weighted_squares():
    body = parts.point_mass(0.01, dimensions=2)
    problem = parts.assemble(
        body,
        steps=5,
        points=[parts.Point("home", (1.0, 2.0)), parts.Point("target", (3.0, 5.0))],
        goals=[
            parts.at_end({"position - target": 2.0, "velocity": 0.5}),
            parts.throughout([({"position": 1.0, "target": -0.5, "home": -0.5}, 3.0)]),
        ],
        effort=0.7,
        senses={"vision": {"position - target": 0.1, "velocity": 0.2}},
    )
    x = np.array([0.4, -0.3, 1.0, 2.0, 1.0, 2.0, 3.0, 5.0])
    middle = 9 * ((0.4 - 2) ** 2 + (-0.3 - 3.5) ** 2)
    end = 4 * ((0.4 - 3) ** 2 + (-0.3 - 5) ** 2) + 0.25 * 5
    assert_allclose(np.einsum("i,tij,j->t", x, problem.Q, x), [middle] * 4 + [middle + end])
    assert_allclose(problem.R[0], 0.7 * np.eye(2))
    assert_allclose(problem.H[0] @ x, [0.4 - 3, -0.3 - 5, 1.0, 2.0])
    assert_allclose(problem.W[0], np.diag([0.1, 0.1, 0.2, 0.2]))
    assert problem.sense_names[1:3] == ("vision position - target_y", "vision velocity_x")


def test_delays_are_by_the_first_word_of_senses():
    body = parts.point_mass(0.01, dimensions=2)
    options = {
        "steps": 12,
        "goals": [parts.at_end({"position": 1.0})],
        "effort": 1.0,
        "senses": {"vision": {"position": 0.1}, "touch": {"velocity": 0.2}},
    }
    late = parts.assemble(body, **options, delays={"vision": 3})
    by_name = mc.delay(parts.assemble(body, **options), {"vision x": 3, "vision y": 3})
    assert late.state_names == by_name.state_names
    assert_allclose(late.A, by_name.A)
    assert_allclose(late.H, by_name.H)


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: field_problem([parts.curl_field(1.0)], dimensions=1), "needs a plane .* got 1"),
        (
            lambda: field_problem([parts.load((1.0, 2.0, 3.0))]),
            "load needs one number for each of 2",
        ),
        (lambda: field_problem([], delays={"visoin": 1}), "unknown sense 'visoin': did you mean"),
        (lambda: field_problem([], delays={"vision": 10}), "shorter than the trial of 10 steps"),
        (
            lambda: field_problem([], points=[parts.Point("force", (0.0, 0.0))]),
            "there is a quantity 'force' already",
        ),
        (
            lambda: field_problem([], start_spreads={"positon": 1.0}),
            "unknown quantity or point 'positon'",
        ),
        (
            lambda: parts.assemble(
                parts.cursor(0.1),
                steps=5,
                goals=[parts.at_end({"position": 1.0})],
                effort=1.0,
                senses={"vision": {"position": 0.1}},
                fields=[parts.viscous_field(1.0)],
            ),
            "a viscous field needs a body that forces move",
        ),
        (lambda: field_problem([parts.load((1.0, 0.0))] * 2), "there is a 'load' already: give"),
        (lambda: field_problem([], senses={}), "a task needs at least one sense"),
        (lambda: field_problem([], goals=[]), "a task needs at least one goal"),
        (lambda: parts.point_mass(0.01, dimensions=4), "dimensions .* must be at most 3, got 4"),
    ],
)
def test_bad_parts(make, message):
    with pytest.raises(mc.InputError, match=message):
        make()
