"""Laws that tasks in the plane obey."""

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from strategies import in_time

REACH = {"steps": 25, "dt": 0.015}
FIELD = REACH | {"target_x": 0.0, "target_y": 0.1, "curl": 8.0}


def turn(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


@pytest.mark.parametrize(
    ("task", "values"),
    [
        (mc.tasks.planar_reaching, FIELD | {"adaptation": 0.3, "across": 0.5, "aim_spread": 0.01}),
        (mc.tasks.planar_saccade, {"steps": 25, "across": 0.4}),
    ],
)
def test_turning_the_target_turns_everything(task, values):
    angle, distance = 0.7, 0.1
    rotation = turn(angle)
    straight = task(**values | {"target_x": 0.0, "target_y": distance})
    x, y = rotation @ [0.0, distance]
    turned = task(**values | {"target_x": x, "target_y": y})
    everything = np.kron(np.eye(len(straight.state_names) // 2), rotation)
    policies = mc.solve(straight), mc.solve(turned)
    assert_allclose(policies[1].expected_cost, policies[0].expected_cost, rtol=1e-9)
    moments = [mc.moments(*pair) for pair in zip((straight, turned), policies, strict=True)]
    scale = np.abs(moments[0].state_mean).max()
    assert_allclose(moments[1].state_mean, moments[0].state_mean @ everything.T, atol=1e-8 * scale)
    cov = everything @ np.asarray(moments[0].state_cov) @ everything.T
    assert_allclose(moments[1].state_cov, cov, atol=1e-8 * np.abs(cov).max())
    # The likelihood too, of positions with the same noise along both axes.
    trials = mc.simulate(straight, policies[0], n_trials=3, key=jax.random.key(0))
    seen = np.asarray(trials.states)[..., :2]
    noise = 0.01 * distance
    ours = mc.log_likelihood(straight, seen, observer=mc.observe(straight, ["x", "y"], noise=noise))
    theirs = mc.log_likelihood(
        turned, seen @ rotation.T, observer=mc.observe(turned, ["x", "y"], noise=noise)
    )
    assert_allclose(theirs, ours, rtol=1e-9)


def test_without_noise_across_a_reach_along_an_axis_is_the_reach_on_a_line():
    values = {"effort": 3e-6, "motor_noise": 0.3, "start_spread": 0.0}
    line, plane = mc.tasks.reaching(**values), mc.tasks.planar_reaching(**values, across=0.0)
    on_line, in_plane = mc.solve(line), mc.solve(plane)
    assert_allclose(in_plane.expected_cost, on_line.expected_cost, rtol=1e-9)
    assert_allclose(in_plane.L[:, 0, ::2], on_line.L[:, 0], rtol=1e-6, atol=1e-9)
    assert_allclose(in_plane.K[:, ::2, ::2], on_line.K, rtol=1e-6, atol=1e-9)
    trials = mc.simulate(line, on_line, n_trials=2, key=jax.random.key(0))
    flat = np.zeros((2, line.steps, 2))
    flat[..., 0] = np.asarray(trials.states)[..., 0]
    both = mc.log_likelihood(plane, flat, observer=mc.observe(plane, ["x", "y"], noise=1e-3))
    one = mc.log_likelihood(
        line, flat[..., :1], observer=mc.observe(line, ["position"], noise=1e-3)
    )
    aside = -line.steps * 2 * np.log(1e-3 * np.sqrt(2 * np.pi))  # recording noise alone
    assert_allclose(both, one + aside, rtol=1e-9)


WORLDS = {
    "unknown field": (mc.tasks.planar_reaching, FIELD | {"adaptation": 0.4}),
    "catch trial": (mc.tasks.planar_reaching, FIELD | {"field_on": 0.0}),
    "via-point": (
        mc.tasks.planar_reaching,
        REACH | {"via_x": 0.05, "via_y": 0.03, "via_time": 0.17, "via": 5.0},
    ),
    "late senses": (
        mc.tasks.planar_reaching,
        REACH | {"vision_noise": 0.01, "vision_delay": 3, "proprioception_delay": 1},
    ),
    "load": (
        mc.tasks.planar_reaching,
        REACH | {"load_y": 1.0, "viscosity": 3.0, "adaptation": 0.5},
    ),
    "push": (mc.tasks.posture, {"steps": 40, "pulse": 3.0, "pulse_time": 0.1}),
    "oblique": (mc.tasks.planar_saccade, {"steps": 30, "target_y": 7.0}),
}


@pytest.mark.parametrize("name", in_time(WORLDS, "load", "oblique", "catch trial"))
def test_expected_cost_is_that_of_simulated_trials(name):
    task, values = WORLDS[name]
    problem = task(**values)
    policy = mc.solve(problem)
    trials = mc.simulate(problem, policy, n_trials=4000, key=jax.random.key(1))
    of_states = jnp.einsum("bti,tij,btj->b", trials.states, problem.Q, trials.states)
    of_controls = jnp.einsum("bti,tij,btj->b", trials.controls, problem.R, trials.controls)
    costs = np.asarray(of_states + of_controls)
    error = costs.std() / np.sqrt(len(costs))
    assert abs(costs.mean() - mc.expected_cost(problem, policy)) < 4 * error


SCORED = {
    "unknown field": ["adaptation", "effort", "across"],
    "via-point": ["via", "velocity", "motor_noise"],
    "late senses": ["vision_noise", "sensory_noise", "mass"],
    "push": ["effort", "disturbance", "anticipation"],
    "oblique": ["effort", "across", "process_noise"],
}


@pytest.mark.parametrize("name", in_time(SCORED, *[n for n in SCORED if n != "unknown field"]))
def test_scores_have_mean_zero_at_the_truth(name):
    task, values = WORLDS[name]
    truth = mc.tasks.typical_values(task) | values
    free = {parameter: float(truth[parameter]) for parameter in SCORED[name]}
    problem = task(**values)
    channels, noise = list(problem.state_names[:2]), 1e-3 if name != "oblique" else 0.05
    observer = mc.observe(problem, channels, noise=noise)
    trials = mc.simulate(
        problem, mc.solve(problem), n_trials=200, key=jax.random.key(2), observer=observer
    )

    def per_trial(name, factor):
        world = task(**values | {name: factor * free[name]})
        each = mc.log_likelihood(world, trials.observed, observer=observer, per_trial=True)
        return np.asarray(each)

    h = 1e-4
    scores = np.array([(per_trial(n, 1 + h) - per_trial(n, 1 - h)) / (2 * h) for n in free])
    z = scores.mean(axis=1) / (scores.std(axis=1) / np.sqrt(scores.shape[1]))
    assert np.abs(z).max() < 4
    assert (scores.std(axis=1) > 0).all()


def sideways(**values):
    """The mean distance to the right of the straight path to a target in front, at its largest."""
    problem = mc.tasks.planar_reaching(**FIELD | values)
    return _extreme(problem)


@jax.jit
def _extreme(problem):
    x = mc.moments(problem, mc.solve(problem)).state_mean[:, 0]
    return x[jnp.abs(x).argmax()]


def test_a_field_bends_paths_until_it_is_believed():
    """Shadmehr & Mussa-Ivaldi 1994: a clockwise field pushes to the right; with practice paths
    return to the left, and when the field is gone they bend to the left (the after-effect)."""
    shares = (0.0, 0.25, 0.5, 0.75)
    bent = [float(sideways(adaptation=share)) for share in shares]
    assert bent[0] > 0.01
    assert all(later < earlier for earlier, later in pairwise(bent))
    after = [float(sideways(adaptation=share, field_on=0.0)) for share in shares]
    assert abs(after[0]) < 1e-9
    assert after[-1] < -0.01
    assert all(later < earlier for earlier, later in pairwise(after))
    # The mirror image of the field, the mirror image of the path.
    assert_allclose(sideways(adaptation=0.25, curl=-8.0), -bent[1], rtol=1e-6)


def test_a_heavier_via_point_is_passed_more_closely():
    at = {"via_x": 0.03, "via_y": 0.04, "via_time": 0.15} | REACH
    distances = []
    for weight in (0.1, 1.0, 10.0):
        problem = mc.tasks.planar_reaching(**at, via=weight)
        mean = mc.moments(problem, mc.solve(problem)).state_mean[10, :2]
        distances.append(float(np.hypot(*(mean - np.array([0.03, 0.04])))))
    assert distances[0] > distances[1] > distances[2]
    assert distances[2] < distances[0] / 5


def test_targets_and_fields_are_conditions_of_trials():
    """Trials in one fit may differ in target and in whether there is a field."""
    conditions = {"target_x": [0.1, 0.0, 0.0], "target_y": [0.0, 0.1, 0.1], "curl": [0.0, 5.0, 0.0]}
    task = partial(mc.tasks.planar_reaching, dt=REACH["dt"], adaptation=0.5)
    observed, each = [], []
    for i in range(3):
        problem = task(**{name: values[i] for name, values in conditions.items()}, steps=25)
        observer = mc.observe(problem, ["x", "y"], noise=1e-3)
        key = jax.random.key(i)
        trial = mc.simulate(problem, mc.solve(problem), n_trials=1, key=key, observer=observer)
        observed.append(trial.observed[0])
        each.append(mc.log_likelihood(problem, trial.observed, observer=observer))
    trials = mc.Trials.recorded(
        np.array(observed), dt=REACH["dt"], channels={"x": "m", "y": "m"}, conditions=conditions
    )
    spec = mc.ObserverSpec(["x", "y"], noise=1e-3)
    together = mc.log_likelihood(task, trials, observer=spec, per_trial=True)
    assert_allclose(together, each, rtol=1e-9)
