"""An agent that senses a state before it acts on it, against steps that are cut in half: one in
which the agent acts and senses nothing, and one in which it senses while nothing moves."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost.fitting.baselines import with_average_noise
from motorcost.inference.filter import filter_log_likelihoods, filter_setting, is_enough
from motorcost.model.joint import can_vary
from motorcost.model.sources import contributions
from strategies import SHAPES, in_time, make_problem

KEY = jax.random.key(0)


def sensing_first(shape=SHAPES[1], seed=0, *, wrong=False, **options):
    problem = make_problem(shape, seed, **options).replace(sense_first=True)
    if not wrong:
        return problem
    return problem.believing(A=0.9 * problem.A, H=1.1 * problem.H, W=2 * problem.W)


def halves(problem):
    """The problem with twice the steps, which senses after it acts."""
    p = problem
    n, m, k, steps = p.A.shape[-1], p.B.shape[-1], p.H.shape[1], p.steps - 1

    def interleaved(acting, sensing):
        acting = np.broadcast_to(acting, (steps, *np.shape(sensing)[-2:]))
        sensing = np.broadcast_to(sensing, acting.shape)
        return np.stack([acting, sensing], axis=1).reshape(2 * steps, *acting.shape[1:])

    def only_acting(M):
        return interleaved(np.asarray(M), np.zeros(M.shape[-2:]))

    def only_sensing(M):
        return interleaved(np.zeros(M.shape[-2:]), np.asarray(M))

    Q = np.zeros((2 * steps + 1, n, n))
    Q[::2] = p.Q
    twin = mc.Problem(
        steps=2 * steps + 1,
        A=interleaved(np.asarray(p.A), np.eye(n)),
        B=only_acting(p.B),
        C=[only_acting(p.C[:, i]) for i in range(p.C.shape[1])],
        V=only_acting(p.V),
        H=only_sensing(p.H),
        W=interleaved(np.eye(k, p.W.shape[-1]), np.asarray(p.W)),
        D=[only_sensing(p.D[:, j]) for j in range(p.D.shape[1])],
        E=only_sensing(p.E),
        Q=Q,
        R=interleaved(np.asarray(p.R), np.eye(m)),
        initial_belief=p.initial_belief,
        initial_belief_cov=p.initial_belief_cov,
        initial_state_cov=p.initial_state_cov,
    )
    return twin if p.believed is None else twin.with_believed(halves(p.believed))


def at_halves(samples, twice=False):
    """Samples of the twin: each is recorded before it is sensed and, with `twice`, once more
    after."""
    samples = np.asarray(samples)
    N, T, o = samples.shape
    result = np.full((N, 2 * T - 1, o), np.nan)
    result[:, 0] = samples[:, 0]
    result[:, 1::2] = samples[:, 1:]
    if twice:
        result[:, 2::2] = samples[:, 1:]
    return result


CASES = [(shape, wrong) for shape in SHAPES for wrong in (False, True)]


@pytest.mark.parametrize("case", in_time(CASES, *CASES[:3], *CASES[4:]))
def test_policies_and_moments_are_those_of_half_steps(case):
    shape, wrong = case
    problem = sensing_first(shape, 3, wrong=wrong)
    twin = halves(problem)
    policy, other = mc.solve(problem), mc.solve(twin)
    assert_allclose(policy.expected_cost, other.expected_cost, rtol=1e-9)
    assert_allclose(policy.L, other.L[::2], rtol=1e-9, atol=1e-10)
    assert_allclose(policy.K, other.K[1::2], rtol=1e-9, atol=1e-10)
    moments, halved = mc.moments(problem, policy), mc.moments(twin, other)
    assert_allclose(moments.mean, halved.mean[::2], rtol=1e-9, atol=1e-10)
    assert_allclose(moments.cov, halved.cov[::2], rtol=1e-9, atol=1e-10)
    cost = mc.expected_cost(twin, other)
    assert_allclose(mc.expected_cost(problem, policy), cost, rtol=1e-9)
    found, expected = contributions(problem, policy), contributions(twin, other)
    assert_allclose(found.cov, expected.cov[:, ::2], rtol=1e-9, atol=1e-10)


def same_policy(problem, twin):
    """The twin's policy, and that of the problem with the same gains."""
    policy, other = mc.solve(problem), mc.solve(twin)
    L, K = np.array(other.L), np.array(other.K)
    L[::2], K[1::2] = policy.L, policy.K
    return policy, eqx.tree_at(lambda p: (p.L, p.K), other, (jnp.asarray(L), jnp.asarray(K)))


def observers(problem):
    n = problem.A.shape[-1]
    S, U = np.ones((2, n)) + np.eye(2, n), np.array([[0.2, 0.0], [0.1, 0.3]])
    return {
        "full": mc.observe(problem),
        "noisy": mc.observe(problem, noise=0.3),
        "mixed": mc.Observer(problem, S=S, U=U),
    }


RECORDINGS = [(seen, wrong) for seen in ("full", "noisy", "mixed") for wrong in (False, True)]


@pytest.mark.parametrize("case", in_time(RECORDINGS, *RECORDINGS[1:5]))
def test_log_likelihoods_are_those_of_half_steps(case):
    seen, wrong = case
    problem = sensing_first(seed=1, wrong=wrong)
    twin = halves(problem)
    policy, other = same_policy(problem, twin)
    observer, of_twin = observers(problem)[seen], observers(twin)[seen]
    trials = mc.simulate(problem, policy, n_trials=4, key=KEY, observer=observer)
    value = mc.log_likelihood(
        problem, trials.observed, policy=policy, observer=observer, per_trial=True
    )
    for twice in (False, True) if seen == "full" else (False,):
        samples = at_halves(trials.observed, twice)
        expected = mc.log_likelihood(twin, samples, policy=other, observer=of_twin, per_trial=True)
        assert_allclose(value, expected, rtol=1e-10, atol=1e-10)
    missing = np.where(
        np.random.default_rng(0).random(trials.observed.shape) < 0.3, np.nan, trials.observed
    )
    value = mc.log_likelihood(problem, missing, policy=policy, observer=observer)
    expected = mc.log_likelihood(twin, at_halves(missing), policy=other, observer=of_twin)
    assert_allclose(value, expected, rtol=1e-10)


@pytest.mark.parametrize("smooth", [False, True])
def test_beliefs_are_those_of_half_steps(smooth):
    problem = sensing_first(seed=1, wrong=True)
    twin = halves(problem)
    policy, other = same_policy(problem, twin)
    observer, of_twin = observers(problem)["mixed"], observers(twin)["mixed"]
    trials = mc.simulate(problem, policy, n_trials=2, key=KEY, observer=observer)
    beliefs = mc.track_beliefs(
        problem, trials.observed, policy=policy, observer=observer, smooth=smooth
    )
    halved = mc.track_beliefs(
        twin, at_halves(trials.observed), policy=other, observer=of_twin, smooth=smooth
    )
    for name in ("mean", "cov", "state_mean", "state_cov"):
        assert_allclose(getattr(beliefs, name), getattr(halved, name)[:, ::2], atol=1e-9)
    before = slice(1, None, 2)
    for name in ("predicted", "predicted_cov", "innovations"):
        assert_allclose(getattr(beliefs, name)[:, 1:], getattr(halved, name)[:, before], atol=1e-9)


@pytest.mark.slow  # the twin of half steps, some of which have no sample, is general too
def test_full_observation_is_the_general_filter():
    """A missing sample at the very end makes the general filter run."""
    problem = sensing_first(seed=2)
    policy = mc.solve(problem)
    trials = mc.simulate(problem, policy, n_trials=3, key=KEY)
    longer = problem.padded(problem.steps + 1)
    samples = np.pad(trials.observed, ((0, 0), (0, 1), (0, 0)), mode="edge")
    samples[:, -1, 0] = np.nan
    value = mc.log_likelihood(problem, trials.observed, per_trial=True)
    assert_allclose(mc.log_likelihood(longer, samples, per_trial=True), value, rtol=1e-9)


@pytest.mark.parametrize("wrong", in_time([False, True], False))
def test_simulated_trials_cost_what_is_expected(wrong):
    problem = sensing_first(seed=1, wrong=wrong)
    policy = mc.solve(problem)
    trials = mc.simulate(problem, policy, n_trials=20_000, key=KEY)
    x, u = np.asarray(trials.states), np.asarray(trials.controls)
    costs = np.einsum("bti,tij,btj->b", x, problem.Q, x)
    costs = costs + np.einsum("bti,tij,btj->b", u, problem.R, u)
    error = costs.std() / np.sqrt(len(costs))
    assert abs(costs.mean() - mc.expected_cost(problem, policy)) < 4 * error
    moments = mc.moments(problem, policy)
    assert_allclose(
        np.asarray(trials.beliefs[:, -1]).mean(axis=0), moments.belief_mean[-1], atol=0.2
    )


@pytest.mark.parametrize("seen", in_time(["full", "mixed"], "full"))
def test_derivatives_are_those_of_finite_differences(seen):
    problem = sensing_first(seed=1, wrong=True)
    observer = observers(problem)[seen]
    trials = mc.simulate(problem, mc.solve(problem), n_trials=3, key=KEY, observer=observer)

    def value(theta):
        changed = problem.replace(
            R=problem.R * theta[0],
            W=problem.W * theta[1],
            C=[problem.C[:, i] * theta[2] for i in range(problem.C.shape[1])],
            D=[problem.D[:, i] * theta[3] for i in range(problem.D.shape[1])],
        )
        changed = changed.believing(R=problem.R * theta[0], A=problem.believed.A * theta[4])
        return mc.log_likelihood(changed, trials.observed, observer=observer)

    one, h = jnp.ones(5), 1e-5
    run = jax.jit(jax.value_and_grad(value))
    _, exact = run(one)
    central = [(run(one + h * e)[0] - run(one - h * e)[0]) / (2 * h) for e in jnp.eye(5)]
    assert_allclose(exact, central, rtol=2e-5, atol=1e-5)


def test_better_than_sensing_late():
    """Of the same sensing an agent makes more if it need not wait for a step."""
    late = mc.tasks.tracking(steps=6)
    assert mc.solve(late.replace(sense_first=True)).expected_cost < mc.solve(late).expected_cost


@pytest.mark.parametrize("late", in_time([1, 3, {"sense_1": 2}], 1, 3))
def test_a_delay_reads_the_past(late):
    """With senses that do not change in time: the problem with all past states in its state."""
    p = sensing_first(SHAPES[2], 4)
    k, n, steps = p.H.shape[1], p.A.shape[-1], p.steps - 1
    # A noise that disturbs several senses could not be late for some of them.
    D = [p.D[:, j] * np.eye(k)[j][:, None] for j in range(p.D.shape[1])]
    p = p.replace(W=np.eye(k), D=D)
    delayed = mc.delay(p, late)
    assert delayed.sense_first
    by_sense = (
        [late.get(name, 0) for name in p.sense_names] if isinstance(late, dict) else [late] * k
    )
    past = max(by_sense)
    size = n * (past + 1)
    A = np.tile(np.eye(size, k=-n), (steps, 1, 1))
    A[:, :n, :n] = p.A

    def read(M):
        result = np.zeros((steps, k, size))
        for t in range(steps):
            for i, d in enumerate(by_sense):
                result[t, i, d * n : (d + 1) * n] = M[max(t - d, 0), i]
        return result

    def below(M):
        return np.pad(M, [(0, 0)] * (M.ndim - 2) + [(0, size - n), (0, 0)])

    def copied(cov):
        return np.tile(cov, (past + 1, past + 1))

    expected = mc.Problem(
        steps=p.steps,
        A=A,
        B=below(p.B),
        C=[below(p.C[:, i]) for i in range(p.C.shape[1])],
        V=below(p.V),
        H=read(p.H),
        W=p.W,
        D=[read(p.D[:, j]) for j in range(p.D.shape[1])],
        E=below(p.E),
        Q=np.pad(p.Q, ((0, 0), (0, size - n), (0, size - n))),
        R=p.R,
        initial_belief=np.tile(p.initial_belief, past + 1),
        initial_belief_cov=copied(p.initial_belief_cov),
        initial_state_cov=copied(p.initial_state_cov),
        sense_first=True,
    )
    cost = mc.solve(expected).expected_cost
    assert_allclose(mc.solve(delayed).expected_cost, cost, rtol=1e-9)


def test_what_varies_is_enough():
    problem = sensing_first(seed=3)
    still = mc.Problem(
        steps=problem.steps,
        A=np.pad(problem.A, ((0, 0), (0, 1), (0, 1))) + np.diag([0, 0, 0, 1.0]),
        B=np.pad(problem.B, ((0, 0), (0, 1), (0, 0))),
        C=[np.pad(problem.C[:, i], ((0, 0), (0, 1), (0, 0))) for i in range(2)],
        V=np.pad(problem.V, ((0, 0), (0, 1), (0, 0))),
        H=np.pad(problem.H, ((0, 0), (0, 0), (0, 1)), constant_values=0.5),
        W=problem.W,
        D=[
            np.pad(problem.D[:, j], ((0, 0), (0, 0), (0, 1)), constant_values=0.2) for j in range(2)
        ],
        E=np.pad(problem.E, ((0, 0), (0, 1), (0, 0))),
        Q=np.pad(problem.Q, ((0, 0), (0, 1), (0, 1))),
        R=problem.R,
        initial_belief=[*problem.initial_belief, 1.5],
        sense_first=True,
    )
    varying = tuple(np.flatnonzero(can_vary(still)).tolist())
    assert varying == (0, 1, 2, 4, 5, 6)
    policy, observer = mc.solve(still), mc.observe(still, noise=0.1)
    trials = mc.simulate(still, policy, n_trials=3, key=KEY, observer=observer)
    samples = jnp.moveaxis(trials.observed, 0, -1)

    @partial(jax.jit, static_argnames="entries")
    def filtered(still, policy, observer, entries):
        setting = filter_setting(still, policy, observer, known_start=False, varying=entries)
        enough = None if entries is None else is_enough(setting)
        return filter_log_likelihoods(setting, samples, None)[0], enough

    whole, _ = filtered(still, policy, observer, None)
    values, enough = filtered(still, policy, observer, varying)
    assert enough
    assert_allclose(values, whole, rtol=1e-10)
    assert not filtered(still, policy, observer, varying[:-1])[1]


def test_average_noise_is_that_of_the_sensed_states():
    problem = sensing_first(seed=1)
    moments = mc.moments(problem, mc.solve(problem))
    xx = moments.state_cov + np.einsum("ti,tj->tij", moments.state_mean, moments.state_mean)
    D, W = np.asarray(problem.D), np.asarray(problem.W)
    expected = np.einsum("tdij,jk,tdlk->til", D, xx[1:].mean(axis=0), D)
    plain = np.asarray(with_average_noise(lambda: problem)().W)
    added = plain @ plain.swapaxes(1, 2) - W @ W.swapaxes(1, 2)
    assert_allclose(added, expected, rtol=1e-8, atol=1e-10)


def test_it_is_carried_and_shown():
    problem = mc.tasks.tracking(steps=6).replace(sense_first=True)
    assert "sense_first" in repr(problem)
    assert "sense_first" not in repr(mc.tasks.tracking(steps=6))
    wrong = problem.believing(C=[])
    others = (
        wrong,
        wrong.believed,
        problem.padded(9),
        mc.delay(wrong, 2),
        mc.delay(wrong, 2).believed,
    )
    assert all(other.sense_first for other in others)
    assert not wrong.replace(sense_first=False).believed.sense_first


def test_timings_must_agree():
    late = mc.tasks.tracking(steps=6)
    first = late.replace(sense_first=True)
    with pytest.raises(mc.InputError, match="sense_first must be the world's, False, got True"):
        late.with_believed(first)
    with pytest.raises(mc.InputError, match="sense_first must be those of the world"):
        late.believing(sense_first=True)
    with pytest.raises(mc.InputError, match="solved for a problem with sense_first=False"):
        mc.simulate(first, mc.solve(late), n_trials=1, key=KEY)
