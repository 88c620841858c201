"""What never varies is left out of the covariances: nothing may change."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost.inference.filter import filter_log_likelihoods, filter_setting, is_enough
from motorcost.model.joint import can_vary
from strategies import SHAPES, in_time, make_problem

REACH = mc.tasks.reaching(steps=6)


def entries(problem):
    return tuple(np.flatnonzero(can_vary(problem)).tolist())


def with_constants(problem):
    """The problem with two more states that never change, one of which moves the others, is sensed
    and costs something."""
    n, steps = problem.A.shape[-1], problem.steps - 1
    rng = np.random.default_rng(0)

    def wider(M, columns):
        return np.pad(M, [(0, 0)] * (M.ndim - 2) + [(0, 2), (0, 2 if columns else 0)])

    A = np.array(wider(problem.A, columns=True))
    A[:, n:, n:] = np.eye(2)
    A[:, :n, n] = rng.normal(size=(steps, n))
    H = np.pad(problem.H, ((0, 0), (0, 0), (0, 2)))
    H[:, 0, n] = 1.0
    Q = np.array(wider(problem.Q, columns=True))
    Q[:, n, n] = 1.0
    D = np.pad(problem.D, ((0, 0), (0, 0), (0, 0), (0, 2)), constant_values=0.2)
    return mc.Problem(
        steps=problem.steps,
        A=A,
        B=wider(problem.B, columns=False),
        C=list(np.moveaxis(wider(problem.C, columns=False), 1, 0)),
        V=wider(problem.V, columns=False),
        H=H,
        W=problem.W,
        D=list(np.moveaxis(D, 1, 0)),
        E=wider(problem.E, columns=False),
        Q=Q,
        R=problem.R,
        initial_belief=[*problem.initial_belief, 1.5, -0.5],
        initial_belief_cov=wider(problem.initial_belief_cov, columns=True),
        initial_state_cov=wider(problem.initial_state_cov, columns=True),
    )


def test_a_target_does_not_vary_unless_aims_are_spread():
    assert entries(REACH) == (0, 1, 2, 3, 5, 6, 7, 8)
    assert entries(mc.tasks.reaching(steps=6, aim_spread=0.01)) == tuple(range(10))


def test_a_belief_in_noise_varies_where_the_world_does_not():
    """The agent corrects its estimate of a target that it believes to move."""
    wandering = REACH.believing(V=0.01 * np.eye(5)[:, 4:], H=np.eye(5)[[0, 1, 4]])
    assert entries(wandering) == (0, 1, 2, 3, 5, 6, 7, 8, 9)


@partial(jax.jit, static_argnames="varying")
def filtered(problem, policy, observer, samples, starts, varying):
    def total(gains):
        other = eqx.tree_at(lambda p: (p.L, p.K), policy, gains)
        setting = filter_setting(
            problem, other, observer, known_start=starts is not None, varying=varying
        )
        values, first = filter_log_likelihoods(setting, samples, starts)
        return values.sum(), (values, first)

    return jax.value_and_grad(total, has_aux=True)((policy.L, policy.K))


@pytest.mark.parametrize("known_start", in_time([False, True], True))
@pytest.mark.parametrize(
    "problem", [REACH, with_constants(make_problem(SHAPES[1], 1))], ids=["reach", "random"]
)
def test_values_and_derivatives_are_those_of_the_whole(problem, known_start):
    channels = [problem.state_names[0], problem.state_names[-1]]
    observer = mc.observe(problem, channels, noise=[0.1, 0.0])
    policy = mc.solve(problem)
    trials = mc.simulate(problem, policy, n_trials=3, key=jax.random.key(0), observer=observer)
    samples = jnp.moveaxis(trials.observed, 0, -1).at[2, 0, 1].set(jnp.nan)
    samples = samples.at[3, 1, 2].add(0.1)  # a contradiction
    starts = trials.states[:, 0].T if known_start else None
    varying = entries(problem)
    assert len(varying) < 2 * len(problem.state_names)
    run = partial(filtered, problem, policy, observer, samples, starts)
    (_, (values, first)), slopes = run(varying)
    (_, (whole, of_whole)), whole_slopes = run(None)
    assert_allclose(values, whole, rtol=1e-12)
    assert_allclose(first, of_whole)
    assert len(set(first.tolist())) == 2
    # Gains that correct what does not vary are zero, whatever the parameters.
    n = len(problem.state_names)
    corrected = [i - n for i in varying if i >= n]
    assert (np.delete(policy.K, corrected, axis=1) == 0).all()
    slopes, whole_slopes = ((L, K[:, corrected]) for L, K in (slopes, whole_slopes))
    for slope, reference in zip(slopes, whole_slopes, strict=True):
        assert_allclose(slope, reference, rtol=1e-9, atol=1e-10 * np.abs(reference).max())


def test_too_little_that_varies_is_noticed():
    observer = mc.observe(REACH, ["position"], noise=1e-3)

    @jax.jit
    def enough(problem, policy):
        of = partial(filter_setting, problem, policy, observer, known_start=False)
        return [is_enough(of(varying=v)) for v in ((0, 1, 2, 3, 5, 6, 7, 8), (0, 1, 2, 5, 6, 7, 8))]

    assert [bool(e) for e in enough(REACH, mc.solve(REACH))] == [True, False]
    spread = mc.tasks.reaching(steps=6, aim_spread=0.01)
    assert [bool(e) for e in enough(spread, mc.solve(spread))] == [False, False]
