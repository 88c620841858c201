"""The filter for full observation computes what the general filter computes."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost.inference import fully_observed
from strategies import TASKS, built_in, for_problems, in_time


def in_general(problem):
    """An observer of all states without noise, which does not know that it is one."""
    observer = mc.observe(problem)
    general = eqx.tree_at(lambda o: (o.S, o.U), observer, (observer.S, observer.U))
    object.__setattr__(general, "fully_observed", False)
    return general


def both(problem, observed, **options):
    quick = mc.log_likelihood(problem, observed, per_trial=True, **options)
    general = mc.log_likelihood(
        problem, observed, per_trial=True, observer=in_general(problem), **options
    )
    return quick, general


def simulated(problem, n_trials=7, seed=0):
    policy = mc.solve(problem)
    return mc.simulate(problem, policy, n_trials=n_trials, key=jax.random.key(seed)).observed


@pytest.mark.slow  # the filters' values are compared quickly with their contradictions
@for_problems()
def test_it_is_the_general_filter(problem, rng):
    assert mc.observe(problem).fully_observed
    quick, general = both(problem, simulated(problem))
    assert_allclose(quick, general, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", in_time(TASKS, "saccade", "tracking", "random_problem"))
def test_tasks_agree(name):
    problem = built_in(name)
    quick, general = both(problem, simulated(problem))
    assert_allclose(quick, general, rtol=1e-9)


def test_more_trials_than_a_block():
    problem = mc.tasks.reaching()
    quick, general = both(problem, simulated(problem, n_trials=300))
    assert_allclose(quick, general, rtol=1e-10)


@pytest.mark.slow  # so are their derivatives, where a difference is tolerated
def test_derivatives_agree():
    """By the world and by the gains; how these follow from the world is the solver's matter."""
    policy = mc.solve(mc.tasks.reaching())
    observed = simulated(mc.tasks.reaching())

    def value(logs, general):
        problem = mc.tasks.reaching(
            motor_noise=0.5 * jnp.exp(logs[2]), sensory_noise=0.5 * jnp.exp(logs[3])
        )
        gains = policy.L * jnp.exp(logs[0]), policy.K * jnp.exp(logs[1])
        other = eqx.tree_at(lambda p: (p.L, p.K), policy, gains)
        observer = in_general(problem) if general else None
        return mc.log_likelihood(problem, observed, policy=other, observer=observer)

    at = np.array([0.1, -0.1, 0.05, 0.02])
    reverse = jax.jit(jax.grad(value), static_argnums=1)(at, False)
    forward = jax.jit(jax.jacfwd(value), static_argnums=1)(at, True)
    assert_allclose(reverse, forward, rtol=1e-8)


@for_problems()
def test_channels_that_tell_are_the_rank_of_what_can_differ(problem, rng):
    span = np.concatenate(
        [problem.B, problem.V, *(problem.C[:, i] for i in range(problem.C.shape[1]))], axis=2
    )
    ranks = [np.linalg.matrix_rank(directions) for directions in span]
    assert int(fully_observed.innovation_rank(problem)) == max(ranks)


def test_one_channel_tells_in_a_reach():
    assert int(fully_observed.innovation_rank(mc.tasks.reaching())) == 1


def test_a_noise_far_smaller_than_another_counts():
    tiny = mc.tasks.reaching().replace(V=1e-9 * np.eye(5)[:, :2])
    assert int(fully_observed.innovation_rank(tiny)) == 3
    problem = mc.tasks.reaching().replace(V=1e-5 * np.eye(5)[:, :2])
    quick, general = both(problem, simulated(problem))
    assert_allclose(quick, general, rtol=1e-9)


def test_too_few_channels_counted_on_is_impossible_not_wrong():
    problem = mc.tasks.reaching().replace(V=1e-3 * np.eye(5)[:, :2])
    policy = mc.solve(problem)

    @jax.jit
    def enough(problem, policy):
        ranks = (3, 1)
        of = partial(fully_observed.fully_observed_setting, problem, policy, known_start=False)
        return [of(rank=rank)[1] for rank in ranks]

    assert [bool(is_enough) for is_enough in enough(problem, policy)] == [True, False]


@pytest.mark.parametrize("channel", [0, 3, 4])
def test_a_contradiction_is_seen(channel):
    problem = mc.tasks.reaching()
    observed = np.array(simulated(problem))
    observed[3, 9, channel] += 0.1
    contradicts = channel != 3  # the muscle has noise: anything is possible
    if contradicts:
        with pytest.raises(mc.InputError, match="trial 3 contradicts the model at step 9"):
            mc.log_likelihood(problem, observed)
    else:
        with pytest.raises(mc.InputError, match="trial 3 contradicts the model at step 10"):
            mc.log_likelihood(problem, observed)


def test_missing_samples_are_left_to_the_general_filter():
    problem = mc.tasks.reaching()
    observed = np.array(simulated(problem))
    observed[2, 5, 1] = np.nan
    quick, general = both(problem, observed)
    assert_allclose(quick, general, rtol=0)
    policy = mc.solve(problem)
    while_tracing = jax.jit(lambda o: mc.log_likelihood(problem, o, policy=policy, per_trial=True))
    assert_allclose(while_tracing(observed), general, rtol=1e-12)
    complete = simulated(problem)
    assert_allclose(while_tracing(complete), both(problem, complete)[1], rtol=1e-10)


def test_known_and_unknown_starts():
    spread = mc.tasks.reaching().replace(
        initial_belief_cov=1e-4 * np.diag([1.0, 1.0, 0, 0, 0]),
        initial_state_cov=1e-4 * np.diag([1.0, 0, 0, 1.0, 0]),
    )
    observed = simulated(spread)
    assert_allclose(*both(spread, observed), rtol=1e-9)
    starts = observed[:, 0]
    trials = mc.Trials.recorded(np.asarray(observed), dt=0.01, starts=starts)
    assert_allclose(*both(spread, trials), rtol=1e-9)


def test_shorter_trials_beside_longer_ones():
    long, short = mc.tasks.reaching(), mc.tasks.reaching(steps=25)
    samples = [np.asarray(simulated(problem)) for problem in (long, short)]
    trials = mc.Trials.recorded([*samples[0], *samples[1]], dt=0.01)
    together = mc.log_likelihood(mc.tasks.reaching, trials, per_trial=True)
    alone = [
        mc.log_likelihood(problem, of_problem, per_trial=True)
        for problem, of_problem in zip((long, short), samples, strict=True)
    ]
    assert_allclose(together, np.concatenate(alone), rtol=1e-10)
