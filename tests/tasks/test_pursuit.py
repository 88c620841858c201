"""Continuous pursuit, against the package that its model comes from."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc

KEY = jax.random.key(0)
SEEN = mc.ObserverSpec(["target", "cursor"], 0.0)
STEPS = 25

# Log likelihoods of `recorded()` by lqg 0.3.1 (Straub and Rothkopf, AGPL), one per trial:
# System.log_likelihood of its OptimalActor, BoundedActor and SubjectiveActor, with a delay in
# lqg.tracking.delay.TemporalDelayModel. Made in double precision (jax 0.10.2, CPU) with
# process_noise=1.2, action_variability=0.4, sigma_target=3, sigma_cursor=2, action_cost=0.3 (not of
# the optimal actor), subj_noise=0.7, subj_vel_noise=0.9, dt=1/60 and T=24. Noises there are per
# step.
LQG = {
    ("ideal", 0): [-47.060668935018725, -48.45889162622629, -49.4898806354313],
    ("ideal", 1): [-45.08482826323989, -47.422674576162116, -49.443018509317206],
    ("ideal", 12): [-51.413925998613244, -50.013787151212256, -47.425220044779635],
    ("bounded", 0): [-48.047565902783866, -48.44795224252927, -45.92289398810619],
    ("bounded", 1): [-48.02312935395667, -48.50297444306644, -45.95476426198171],
    ("bounded", 12): [-48.91313993882434, -49.11839923945267, -46.06777274451606],
    ("subjective", 0): [-48.16191777595111, -48.570951546037854, -45.959182771705855],
    ("subjective", 1): [-48.17578803475862, -48.622929504067336, -45.98477932587654],
    ("subjective", 12): [-48.88593409304336, -49.097655160560166, -46.07479227312856],
}


def recorded():
    """Three trials of target and cursor, without a model having made them."""
    rng = np.random.default_rng(0)
    target = np.cumsum(rng.normal(size=(3, STEPS)), axis=1)
    cursor = np.cumsum(0.3 * rng.normal(size=(3, STEPS)), axis=1)
    for t in range(4, STEPS):
        noise = 0.3 * rng.normal(size=3)
        cursor[:, t] = 0.8 * cursor[:, t - 1] + 0.2 * target[:, t - 4] + noise
    return np.stack([target, cursor], axis=-1)


def problem_of(actor, delay):
    a_second = np.sqrt(60)
    shared = {
        "wander": 1.2 * a_second,
        "motor_noise": 0.4 * a_second,
        "target_noise": 3.0,
        "cursor_noise": 2.0,
        "delay": delay,
        "steps": STEPS,
    }
    if actor == "subjective":
        beliefs = {"believed_wander": 0.7 * a_second, "believed_drift": 0.9 * a_second}
        return mc.tasks.subjective_pursuit(effort=0.3, **beliefs, **shared)
    return mc.tasks.pursuit(effort=1e-3 if actor == "ideal" else 0.3, **shared)


# The ideal and the bounded actor share a program for each delay.
FURTHER = [("ideal", 1), ("bounded", 1), ("subjective", 0), ("subjective", 1)]


@pytest.mark.parametrize(
    ("actor", "delay"),
    [pytest.param(*case, marks=pytest.mark.slow if case in FURTHER else ()) for case in LQG],
)
def test_log_likelihoods_are_those_of_lqg(actor, delay):
    problem, samples = problem_of(actor, delay), recorded()
    trials = mc.Trials.recorded(
        samples,
        dt=1 / 60,
        channels=SEEN.states,
        starts=mc.tasks.pursuit_starts(problem, samples[:, 0]),
    )
    values = mc.log_likelihood(problem, trials, observer=SEEN, per_trial=True)
    assert_allclose(values, LQG[actor, delay], rtol=1e-11)


def test_velocity_is_believed_in_only():
    problem = mc.tasks.subjective_pursuit(steps=10)
    assert problem.state_names == ("target", "cursor", "target velocity")
    policy = mc.solve(problem)
    trials = mc.simulate(problem, policy, n_trials=3, key=KEY, initial_states=np.zeros(3))
    assert_allclose(trials.states[:, :, 2], 0.0)
    assert np.abs(trials.beliefs[:, -1, 2]).min() > 0


def test_the_past_starts_as_the_present():
    problem = mc.tasks.subjective_pursuit(delay=2, steps=10)
    starts = mc.tasks.pursuit_starts(problem, [[1.0, 2.0], [3.0, 4.0]])
    assert_allclose(starts, [[1, 2, 0, 1, 2, 1, 2], [3, 4, 0, 3, 4, 3, 4]])
    with pytest.raises(mc.InputError, match=r"first must have shape \(trials, 2\), target and cur"):
        mc.tasks.pursuit_starts(problem, [1.0, 2.0])


def test_a_delay_of_its_own_is_given_once():
    late = mc.tasks.delayed(mc.tasks.pursuit, 3)(steps=10)
    for other in (
        mc.tasks.pursuit(delay=3, steps=10),
        mc.tasks.delayed(mc.tasks.pursuit, {"seen": 3})(steps=10),
    ):
        for ours, theirs in zip(jax.tree.leaves(late), jax.tree.leaves(other), strict=True):
            assert_allclose(ours, theirs)
    with pytest.raises(mc.InputError, match="the delay is given twice"):
        mc.tasks.delayed(mc.tasks.pursuit, 3)(delay=2)


def test_costly_effort_lags():
    """The cursor of an actor that minds its effort is further from the target."""

    def distance(effort):
        problem = mc.tasks.pursuit(effort=effort, steps=60)
        moments = mc.moments(problem, mc.solve(problem))
        apart = np.array([1.0, -1.0])
        return apart @ moments.state_cov[-1] @ apart

    assert distance(1.0) > 1.5 * distance(0.05) > 1.5 * distance(1e-3)


def recovery(task, truth, delay):
    problem = task(**truth, delay=delay, steps=120)
    start = np.zeros(len(problem.state_names))
    trials = mc.simulate(
        problem, mc.solve(problem), n_trials=20, key=KEY, observer=SEEN, initial_states=start
    )
    fixed = {"delay": delay}
    fit = mc.fit(
        task, trials, list(truth), fixed=fixed, observer=SEEN, n_starts=4, key=jax.random.key(1)
    )
    assert fit.converged
    for name, value in truth.items():
        low, high = fit.interval(0.99)[name]
        assert low < value < high, name
        assert high < 3 * low, name


@pytest.mark.slow
def test_parameters_are_recovered():
    recovery(mc.tasks.pursuit, {"effort": 0.05, "target_noise": 0.02, "motor_noise": 0.005}, 0)


@pytest.mark.slow
def test_parameters_are_recovered_with_a_delay_and_a_wrong_belief():
    truth = {"effort": 0.05, "target_noise": 0.02, "believed_drift": 0.5, "motor_noise": 0.005}
    recovery(mc.tasks.subjective_pursuit, truth, 4)
