"""Recovery of many data sets side by side, against one `fit` after the other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost.fitting.recovery import simulated_samples

EFFORT = {"effort": np.array([0.1, 0.3])}
REACHES = {"effort": np.array([1e-5, 3e-6])}
KEYS = jax.random.split(jax.random.key(0), 2)
FREE = {"effort": mc.LogUniform(1e-3, 10.0)}
FREE_REACHES = {"effort": mc.LogUniform(1e-8, 1e-2)}
FIXED = {"steps": 8}


def walk(effort=0.1, jitter=0.1, steps=8, dt=0.01):
    """Something small that compiles quickly: a place to keep at zero."""
    one = [[1.0]]
    return mc.Problem(
        steps=steps, A=[[0.9]], B=one, C=[[[0.5]]], V=jitter * jnp.eye(1), H=one, W=one, Q=one,
        R=effort * jnp.eye(1), initial_belief=[1.0], dt=dt,
    )  # fmt: skip


def measure(key, truth, true_policy, found, found_policy):
    return {"ratio": found.R[0, 0, 0] / truth.R[0, 0, 0], "costs": true_policy.expected_cost}


@pytest.fixture(scope="module")
def recovery():
    return mc.Recovery(walk, FREE, n_trials=15, n_starts=4, fixed=FIXED, measure=measure)


@pytest.fixture(scope="module")
def rows(recovery):
    return recovery(keys=KEYS, **EFFORT)


def test_each_row_is_what_fit_finds(recovery, rows):
    """The same data, starts and key: the same maximum, errors and flags."""
    given = {name: jax.numpy.asarray(column) for name, column in EFFORT.items()}
    split = jax.vmap(lambda key: jax.random.split(key, 3))(KEYS)
    samples = np.asarray(simulated_samples(recovery, (), 15, split[:, 0], given))
    assert list(rows["failed"]) == ["", ""]
    for i, effort in enumerate(EFFORT["effort"]):
        problem = walk(effort=effort, **FIXED)
        trials = mc.Trials.recorded(samples[i], dt=0.01, channels=problem.state_names)
        found = mc.fit(walk, trials, FREE, key=split[i, 1], n_starts=4)
        assert_allclose(rows["effort_found"][i], found.estimates["effort"], rtol=1e-6)
        assert_allclose(rows["effort_se"][i], found.search_scale_errors["effort"], rtol=1e-6)
        assert_allclose(rows["log_likelihood"][i], found.log_likelihood, rtol=1e-10)
        assert rows["converged"][i] == found.converged
        assert rows["starts_agreed"][i] == found.agreed
        assert rows["at_bounds"][i] == bool(found.at_bounds)
        at_truth = mc.log_likelihood(problem, trials)
        assert_allclose(rows["log_likelihood_true"][i], at_truth, rtol=1e-9)


def test_a_measure_sees_both_problems(rows):
    assert_allclose(rows["ratio"], rows["effort_found"] / EFFORT["effort"])
    policies = [mc.solve(walk(effort=e, **FIXED)) for e in EFFORT["effort"]]
    assert_allclose(rows["costs"], [policy.expected_cost for policy in policies], rtol=1e-8)


@pytest.mark.slow
def test_another_task_can_be_fitted_through_a_camera_of_unknown_noise():
    """A task whose effort counts twice, with the truth at hand, and noise that is inferred: the
    effort comes out half, and the noise as precisely as 400 samples tell."""
    seen = []

    def fitted(effort, steps, true_effort):
        seen.append(true_effort)
        return mc.tasks.reaching(effort=effort * 2, steps=steps)

    recovery = mc.Recovery(
        mc.tasks.reaching,
        {**FREE_REACHES, "recording_noise": mc.LogUniform(1e-5, 1e-1)},
        n_starts=3,
        observer=mc.ObserverSpec(["position"]),
        fixed={"steps": 20},
        fitted=fitted,
    )
    noise = np.array([1e-3, 4e-3])
    rows = recovery(keys=KEYS, n_trials=20, recording_noise=noise, **REACHES)
    assert seen
    assert (np.abs(np.log(rows["recording_noise_found"] / noise)) < 5 / np.sqrt(800)).all()
    apart = np.log(2 * rows["effort_found"] / REACHES["effort"])
    assert (np.abs(apart) < 5 * rows["effort_se"]).all()
    assert (rows["effort_se"] < 0.5).all()


def test_what_cannot_be_fitted_is_a_row_with_its_reason():
    # Plain LQG without any noise contradicts every walk that has some.
    def quiet(effort=0.1, steps=8, dt=0.01):
        return walk(effort, jitter=0.0, steps=steps, dt=dt)

    recovery = mc.Recovery(
        quiet,
        FREE,
        n_trials=3,
        n_starts=1,
        fixed=FIXED,
        fitted=mc.baselines.without_signal_noise(quiet),
    )
    rows = recovery(keys=KEYS, **EFFORT)
    assert list(rows["failed"]) == ["no start has a finite likelihood"] * 2
    assert np.isnan(rows["effort_found"]).all()


def test_bad_arguments_are_told():
    with pytest.raises(mc.InputError, match="nothing is free"):
        mc.Recovery(mc.tasks.reaching, [])
    with pytest.raises(mc.InputError, match="unknown parameter 'mass'"):
        mc.Recovery(mc.tasks.reaching, ["mass"])
    with pytest.raises(mc.InputError, match="n_starts"):
        mc.Recovery(mc.tasks.reaching, ["effort"], n_starts=0)
    recovery = mc.Recovery(mc.tasks.reaching, ["effort"])
    with pytest.raises(mc.InputError, match="needs a column effort"):
        recovery(keys=KEYS, velocity=np.ones(2))
    with pytest.raises(mc.InputError, match="unknown parameter 'mass'"):
        recovery(keys=KEYS, effort=np.ones(2), mass=np.ones(2))
    with pytest.raises(mc.InputError, match=r"the true effort must lie in LogUniform\(.*got 1$"):
        recovery(keys=KEYS, effort=np.array([1e-5, 1.0]))
    columns = {"effort": [1e-5]}
    with pytest.raises(mc.InputError, match="did you mean motor_noise"):  # before the first cell
        mc.sweep(recovery, columns | {"motor_nose": [0.5]}, call="arrays", folder="nowhere/at/all")
    with pytest.raises(mc.InputError, match=r'sweep it static=\["n_trials"\]'):
        mc.sweep(recovery, columns | {"n_trials": [5]}, call="arrays", folder="nowhere/at/all")
    with pytest.raises(mc.InputError, match=r"measure is called with \(key, truth, true_policy"):
        mc.Recovery(mc.tasks.reaching, ["effort"], measure=lambda truth, found: {})


@pytest.mark.slow
def test_an_observer_itself_will_do():
    """Rows are those of its specification."""
    spec = mc.ObserverSpec(["position", "velocity"], noise=[1e-3, 1e-2])
    common = {"n_trials": 5, "n_starts": 1, "fixed": {"steps": 20}}
    column = {"effort": REACHES["effort"][:1]}
    by_spec, by_observer = (
        mc.Recovery(mc.tasks.reaching, FREE_REACHES, observer=observer, **common)(
            keys=KEYS[:1], **column
        )
        for observer in (spec, spec(mc.tasks.reaching(steps=20)))
    )
    assert_allclose(by_observer["effort_found"], by_spec["effort_found"], rtol=1e-9)
