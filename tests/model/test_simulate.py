import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import motorcost as mc
from strategies import make_problem

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def reaching():
    problem = mc.tasks.reaching()
    return problem, mc.solve(problem)


@pytest.fixture(scope="module")
def noisy():
    problem = make_problem((4, 2, 3, 2, 2), seed=1).believing(A=np.eye(4), B=np.ones((4, 2)))
    return problem, mc.solve(problem)


def test_shapes_and_names(reaching):
    trials = mc.simulate(*reaching, n_trials=7, key=KEY)
    assert trials.states.shape == trials.beliefs.shape == trials.observed.shape == (7, 30, 5)
    assert trials.controls.shape == (7, 29, 1)
    assert trials.senses.shape == (7, 29, 3)
    assert trials.channel_names == ("position", "velocity", "force", "muscle", "target")
    assert_allclose(trials.times, np.arange(30) * 0.01)
    assert len(trials) == 7
    assert repr(trials).startswith("Trials: 7 of 30 steps (position")


def test_same_key_same_trials_and_more_begin_the_same(noisy):
    few, many = (mc.simulate(*noisy, n_trials=n, key=KEY) for n in (5, 50))
    assert_allclose(few.states, many[:5].states, rtol=1e-10)
    assert_allclose(few.senses, many[:5].senses, rtol=1e-10)
    again = mc.simulate(*noisy, n_trials=5, key=KEY)
    assert_array_equal(few.observed, again.observed)
    other = mc.simulate(*noisy, n_trials=5, key=jax.random.key(1))
    assert not np.allclose(few.states, other.states)


def test_trials_obey_the_model(noisy):
    """The agent's update holds exactly, with what it believes; the world's noise and the senses'
    have the covariance that the model gives them at each state and control."""
    problem, policy = noisy
    problem = problem.replace(E=np.zeros((4, 4)))
    t = mc.simulate(problem, policy, n_trials=50_000, key=KEY)
    b = policy.believed
    x, xh, u, y = (np.asarray(part) for part in (t.states, t.beliefs, t.controls, t.senses))
    assert_allclose(u, -np.einsum("tmn,btn->btm", policy.L, xh[:, :-1]), atol=1e-12)
    innovation = y - np.einsum("tkn,btn->btk", b.H, xh[:, :-1])
    update = (
        np.einsum("tij,btj->bti", b.A, xh[:, :-1])
        + np.einsum("tij,btj->bti", b.B, u)
        + np.einsum("tij,btj->bti", policy.K, innovation)
    )
    assert_allclose(xh[:, 1:], update, rtol=1e-9, atol=1e-9)

    world = x[:, 1:] - np.einsum("tij,btj->bti", problem.A, x[:, :-1])
    world -= np.einsum("tij,btj->bti", problem.B, u)
    senses = y - np.einsum("tkn,btn->btk", problem.H, x[:, :-1])
    for noise, constant, terms, signal in (
        (world, problem.V, problem.C, u),
        (senses, problem.W, problem.D, x[:, :-1]),
    ):
        scaled = np.einsum("tcij,btj->btci", terms, signal)
        cov = np.einsum("tij,tkj->tik", constant, constant) + np.einsum(
            "btci,btck->btik", scaled, scaled
        )
        white = np.linalg.solve(np.linalg.cholesky(cov), noise[..., None])[..., 0]
        N = white.shape[0]
        assert np.abs(white.mean(axis=0)).max() < 5 / np.sqrt(N)
        second = np.einsum("bti,btj->tij", white, white) / N
        assert np.abs(second - np.eye(second.shape[-1])).max() < 5 * np.sqrt(2 / N)


def test_internal_noise_enters_the_estimate(noisy):
    problem, policy = noisy
    t = mc.simulate(problem, policy, n_trials=50_000, key=KEY)
    b = policy.believed
    xh, u, y = (np.asarray(part) for part in (t.beliefs, t.controls, t.senses))
    innovation = y - np.einsum("tkn,btn->btk", b.H, xh[:, :-1])
    noise = xh[:, 1:] - np.einsum("tij,btj->bti", b.A, xh[:, :-1])
    noise -= np.einsum("tij,btj->bti", b.B, u)
    noise -= np.einsum("tij,btj->bti", policy.K, innovation)
    E = np.asarray(problem.E)
    EE = E @ np.swapaxes(E, 1, 2)
    cov = np.einsum("bti,btj->tij", noise, noise) / len(t)
    assert_allclose(cov, EE, atol=5 * np.sqrt(2 / len(t)) * float(np.abs(EE).max()))


def test_trials_are_recorded_through_the_observer(reaching):
    problem, policy = reaching
    observer = mc.observe(problem, ["velocity", "position"], noise={"position": 0.01})
    t = mc.simulate(problem, policy, n_trials=20_000, key=KEY, observer=observer)
    assert t.channel_names == ("velocity", "position")
    assert t.channel_units == ("m/s", "m")
    assert_array_equal(t.observed[:, :, 0], t.states[:, :, 1])
    noise = np.asarray(t.observed[:, :, 1] - t.states[:, :, 0])
    assert_allclose(noise.std(axis=0), 0.01, rtol=0.03)


def test_simulate_takes_a_spec_of_the_observer(reaching):
    problem, policy = reaching
    spec = mc.ObserverSpec(["velocity", "position"], noise={"position": 0.01})
    by_observer, by_spec = (
        mc.simulate(problem, policy, n_trials=3, key=KEY, observer=observer)
        for observer in (spec(problem), spec)
    )
    assert_array_equal(by_spec.observed, by_observer.observed)
    assert by_spec.channel_units == ("m/s", "m")


def test_initial_states_are_kept(reaching):
    problem, policy = reaching
    starts = np.random.default_rng(0).normal(size=(6, 5))
    t = mc.simulate(problem, policy, n_trials=6, key=KEY, initial_states=starts)
    assert_allclose(t.states[:, 0], starts)
    assert_allclose(t.beliefs[:, 0], starts)  # this task's start is known to the agent
    t = mc.simulate(
        problem, policy, n_trials=6, key=KEY, initial_states=starts, initial_beliefs=np.zeros(5)
    )
    assert_allclose(t.states[:, 0], starts)
    assert_allclose(t.beliefs[:, 0], 0)


def test_trials_are_selected_by_slices_and_lists(reaching):
    trials = mc.simulate(*reaching, n_trials=9, key=KEY)
    assert_array_equal(trials[np.array([3, 1])].controls, trials.controls[np.array([3, 1])])
    assert_array_equal(trials[[3, 1]].states, trials.states[np.array([3, 1])])
    assert_array_equal(trials[-2:].states, trials.states[-2:])
    for index in (2, -1, np.int64(1), (slice(None), slice(5))):
        with pytest.raises(mc.InputError, match=r"cannot select|must be selected by a slice"):
            trials[index]
    with pytest.raises(mc.InputError, match="cannot select from 9 trials"):
        trials[[99]]


def test_simulation_can_be_compiled_and_differentiated():
    @jax.jit
    @jax.value_and_grad
    def end_point(effort):
        problem = mc.tasks.reaching(effort=effort)
        trials = mc.simulate(problem, mc.solve(problem), n_trials=10, key=KEY)
        return trials.states[:, -1, 0].mean()

    up, down = (end_point(effort)[0] for effort in (1.001e-5, 0.999e-5))
    assert_allclose(end_point(1e-5)[1], (up - down) / 2e-8, rtol=1e-4)


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_trials": 0}, "n_trials .* must be at least 1, got 0"),
        ({"n_trials": 2.5}, "n_trials .* must be a whole number, got 2.5"),
        ({"initial_states": np.zeros((3, 5))}, r"initial_states must have shape .* got \(3, 5\)"),
        ({"key": 0}, r"key must be a random key, as in key=jax.random.key\(0\), got 0"),
        ({"initial_beliefs": [0, 0, 0, 0, np.nan]}, "initial_beliefs must be finite"),
    ],
)
def test_bad_input(reaching, options, message):
    with pytest.raises(mc.InputError, match=message):
        mc.simulate(*reaching, **({"n_trials": 2, "key": KEY} | options))


def test_policy_and_observer_must_fit_the_problem(reaching):
    problem, policy = reaching
    longer = mc.tasks.reaching(steps=40)
    with pytest.raises(mc.InputError, match="solved for another problem"):
        mc.simulate(longer, policy, n_trials=1, key=KEY)
    with pytest.raises(mc.InputError, match="made for 40 steps of 5 states"):
        mc.simulate(problem, policy, n_trials=1, key=KEY, observer=mc.observe(longer))
