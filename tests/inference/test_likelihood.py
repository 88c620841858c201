import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

import motorcost as mc
import naive
from motorcost.inference import elimination, likelihood
from motorcost.model.passes import backward_pass, forward_pass
from strategies import SHAPES, TASKS, for_problems, in_time, make_problem

KEY = jax.random.key(0)
N, STEPS = 20, 30  # of most trials here, so that they share compiled programs


@pytest.fixture(scope="module")
def reaching():
    problem = mc.tasks.reaching(steps=STEPS)
    observer = mc.observe(problem, ["position", "velocity"], noise=[1e-3, 1e-2])
    trials = mc.simulate(problem, mc.solve(problem), n_trials=N, key=KEY, observer=observer)
    return problem, observer, trials


def wrong_beliefs(problem):
    return problem.believing(A=0.9 * problem.A, H=1.1 * problem.H, C=[], W=2 * problem.W)


def some_missing(samples, rng, share=0.3):
    return np.where(rng.random(samples.shape) < share, np.nan, samples)


def observers(problem):
    n = problem.A.shape[-1]
    return {
        "full": mc.observe(problem),
        "noisy": mc.observe(problem, noise=0.3),
        "part": mc.observe(problem, problem.state_names[:1], noise=0.1),
        "mixed": mc.Observer(problem, S=np.ones((2, n)) + np.eye(2, n), U=[[0.2, 0.0], [0.1, 0.3]]),
    }


# --- against answers obtained another way ---


@for_problems(max_examples=12)
def test_filter_is_the_loop(problem, rng):
    problem = wrong_beliefs(problem)
    assert_filter_is_the_loop(problem, observers(problem)["mixed"], rng)


@pytest.mark.slow
@for_problems(max_examples=12)
def test_filter_is_the_loop_however_it_is_recorded(problem, rng):
    problem = problem if rng.random() < 0.3 else wrong_beliefs(problem)
    assert_filter_is_the_loop(problem, list(observers(problem).values())[rng.integers(4)], rng)


def assert_filter_is_the_loop(problem, observer, rng):
    policy = mc.solve(problem)
    trials = mc.simulate(problem, policy, n_trials=3, key=KEY, observer=observer)
    for samples in (trials.observed, some_missing(trials.observed, rng)):
        each = mc.log_likelihood(problem, samples, policy=policy, observer=observer, per_trial=True)
        loop = [naive.log_likelihood(problem, policy, observer, trial) for trial in samples]
        assert_allclose(each, loop, rtol=1e-10, atol=1e-10)


CASES = [(late, seen) for late in (0, 2) for seen in ("full", "noisy", "part", "mixed")]
WIDER = [case for case in CASES if case != (2, "mixed")]


@pytest.mark.parametrize("case", in_time(CASES, *WIDER))
def test_without_signal_dependent_noise_it_is_the_dense_gaussian(case):
    late, seen = case
    world = wrong_beliefs(make_problem(SHAPES[2], 4, plain=True))
    problem = mc.delay(world, late)
    policy = mc.solve(problem)
    of_now = observers(world)[seen]
    past = np.zeros((*of_now.S.shape[:2], problem.A.shape[-1] - of_now.S.shape[2]))
    observer = mc.Observer(problem, S=np.concatenate([of_now.S, past], axis=2), U=of_now.U)
    trials = mc.simulate(problem, policy, n_trials=3, key=KEY, observer=observer)
    _, _, mean, cov, _ = naive.dense(problem, policy, observer)
    for samples in (trials.observed, some_missing(trials.observed, np.random.default_rng(1))):
        each = mc.log_likelihood(problem, samples, observer=observer, per_trial=True)
        for one, value in zip(np.reshape(samples, (3, -1)), each, strict=True):
            there = ~np.isnan(one)
            exact = multivariate_normal(mean[there], cov[np.ix_(there, there)])
            assert_allclose(value, exact.logpdf(one[there]), rtol=1e-8)


def test_deterministic_directions_are_left_out_exactly():
    """Reaching with noise in the muscle that does not depend on the control: given the past only
    the muscle varies, so the density of all states is that of the muscle's trajectory alone."""
    problem = mc.tasks.reaching(motor_noise=0.0).replace(V=[[0], [0], [0], [0.3], [0]])
    policy = mc.solve(problem)
    trials = mc.simulate(problem, policy, n_trials=4, key=KEY)
    _, _, mean, cov, _ = naive.dense(problem, policy, mc.observe(problem))
    muscle = np.arange(30) * 5 + 3
    varies = muscle[np.diagonal(cov)[muscle] > 0]
    exact = multivariate_normal(mean[varies], cov[np.ix_(varies, varies)])
    each = mc.log_likelihood(problem, trials.observed, per_trial=True)
    flat = np.asarray(trials.observed).reshape(4, -1)
    assert_allclose(each, exact.logpdf(flat[:, varies]), rtol=1e-8)


def test_coordinates_of_an_exact_recording_do_not_matter(reaching):
    """Mixtures of all states, recorded without noise, are the states: the likelihood changes by
    a constant, the Jacobian, and not by what rounding leaves of zero variances."""
    problem, _, trials = reaching
    mixing = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
    mixed = mc.Observer(problem, S=mixing)
    states = np.asarray(trials.states)
    samples = states @ mixing.T

    def difference(effort):
        other = mc.tasks.reaching(effort=effort, steps=STEPS)
        return np.asarray(mc.log_likelihood(other, states, per_trial=True)) - np.asarray(
            mc.log_likelihood(other, samples, observer=mixed, per_trial=True)
        )

    assert_allclose(difference(1e-5), difference(3e-5), rtol=1e-9)
    assert_allclose(np.ptp(difference(1e-5)), 0, atol=1e-7)


def test_the_rank_decision_is_not_a_regularisation(reaching):
    """It only separates zeros from numbers: no value moves when it is a hundred times another."""
    problem, _, trials = reaching

    def value(tolerance):
        """From a program of its own, which holds what is a constant of the module as it is made."""
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(elimination, "RANK_TOLERANCE", tolerance)
            anew = eqx.filter_jit(lambda *parts: likelihood.log_likelihoods_of(*parts))
            patched.setattr(likelihood, "_compiled", anew)
            return mc.log_likelihood(problem, trials.states)

    before = mc.log_likelihood(problem, trials.states)
    for factor in (1e-2, 1e2):
        assert_allclose(value(factor * elimination.RANK_TOLERANCE), before, rtol=1e-14)
    assert value(1.0) == 0  # the tolerance is used: nothing counts as varying


def test_noise_is_never_taken_for_rounding(reaching):
    """However small beside what varies over trials: in a world that runs away, and in recordings
    whose noise is far below the movement, where each decade adds log(10) for every sample that
    would be deterministic without it."""
    one = [[1.0]]
    runaway = mc.Problem(steps=70, A=[[1.5]], B=one, H=one, W=one, V=one, Q=one, R=one)
    policy = mc.solve(runaway)
    policy = eqx.tree_at(lambda p: p.L, policy, 0 * policy.L)
    trials = mc.simulate(runaway, policy, n_trials=2, key=KEY)
    x = np.asarray(trials.states[:, :, 0])
    exact = -0.5 * ((x[:, 1:] - 1.5 * x[:, :-1]) ** 2 + np.log(2 * np.pi)).sum(axis=1)
    each = mc.log_likelihood(runaway, trials, policy=policy, per_trial=True)
    assert_allclose(each, exact, rtol=1e-9)

    problem, _, trials = reaching
    policy = mc.solve(problem)
    states, disturbance = np.asarray(trials.states), np.random.default_rng(0)
    disturbance = disturbance.normal(size=states.shape)

    def value(noise):
        observer, samples = mc.observe(problem, noise=noise), states + noise * disturbance
        return mc.log_likelihood(problem, samples, observer=observer, policy=policy)

    values = [value(1e-5), value(1e-6)]
    with pytest.raises(mc.InputError, match="has lost its digits"):
        value(1e-7)
    deterministic = N * (STEPS * 5 - (STEPS - 2))  # all but the muscle from the third step on
    assert_allclose(np.diff(values), deterministic * np.log(10), rtol=1e-3)


def test_vanishing_noise_approaches_full_observation():
    problem = mc.tasks.saccade()
    trials = mc.simulate(problem, mc.solve(problem), n_trials=10, key=KEY)
    names = ["angle", "velocity"]
    samples = np.asarray(trials.states)[:, :, :2]
    full = mc.log_likelihood(problem, samples, observer=mc.observe(problem, names))
    gaps = []
    for noise in (1e-5, 1e-6, 1e-7):
        observer = mc.observe(problem, names, noise=noise)
        # The start is known exactly: full observation gives it no density, noise does.
        first = multivariate_normal(np.zeros(2), noise**2 * np.eye(2)).logpdf([0, 0])
        near = mc.log_likelihood(problem, samples, observer=observer) - 10 * first
        gaps.append(abs(float(near - full)))
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2]
    assert gaps[2] < 1e-3


# --- laws ---


def test_order_and_parts_of_a_set_do_not_matter(reaching):
    problem, observer, trials = reaching
    each = mc.log_likelihood(problem, trials, observer=observer, per_trial=True)
    total = mc.log_likelihood(problem, trials, observer=observer)
    assert_allclose(total, each.sum(), rtol=1e-12)
    back = mc.log_likelihood(problem, trials[::-1], observer=observer, per_trial=True)
    assert_allclose(back, each[::-1], rtol=1e-12)
    parts = [
        mc.log_likelihood(problem, trials[p], observer=observer) for p in (slice(10), slice(10, 20))
    ]
    assert_allclose(sum(parts), total, rtol=1e-12)


def test_missing_samples_are_marginalised(reaching):
    """Each further sample multiplies by its predictive density: with the samples from t on
    missing, what is left is the sum of the first t terms. And a channel that is missing is a
    channel recorded with boundless noise."""
    problem, observer, trials = reaching
    beliefs = mc.track_beliefs(problem, trials, observer=observer)
    cov = np.asarray(beliefs.predicted_cov)
    r = np.asarray(trials.observed) - np.asarray(beliefs.predicted)
    terms = -0.5 * np.einsum("bti,btij,btj->bt", r, np.linalg.inv(cov), r)
    terms -= 0.5 * np.linalg.slogdet(2 * np.pi * cov)[1]
    observed = np.asarray(trials.observed)
    for t in (1, 10, 29):
        cut = np.where(np.arange(STEPS)[:, None] < t, observed, np.nan)
        each = mc.log_likelihood(problem, cut, observer=observer, per_trial=True)
        assert_allclose(each, terms[:, :t].sum(axis=1), rtol=1e-8)

    only_position = np.where([True, False], observed, np.nan)
    boundless = mc.observe(problem, ["position", "velocity"], noise=[1e-3, 1e6])
    for other, empty in ((observed[:, :, :1], None), (observed, boundless)):
        seen = empty or mc.observe(problem, ["position"], noise=1e-3)
        value = mc.log_likelihood(problem, other, observer=seen)
        if empty:
            value -= N * STEPS * multivariate_normal(0, 1e12).logpdf(0)
        assert_allclose(
            mc.log_likelihood(problem, only_position, observer=observer), value, rtol=1e-6
        )


@pytest.mark.slow
def test_blocks_do_not_matter():
    problem = mc.tasks.reaching(steps=6)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=300, key=KEY)  # three blocks
    each = mc.log_likelihood(problem, trials, per_trial=True)
    few = mc.log_likelihood(problem, trials[250:], per_trial=True)
    assert_allclose(each[250:], few, rtol=1e-12)

    def total(effort, which):
        return mc.log_likelihood(mc.tasks.reaching(effort=effort, steps=6), trials[which])

    slopes = [jax.grad(total)(1e-5, which) for which in (slice(300), slice(150), slice(150, 300))]
    assert_allclose(slopes[0], slopes[1] + slopes[2], rtol=1e-9)


def of_several_kinds():
    """Trials of 2 lengths and 3 targets, in a jumble, and each kind by itself."""
    sets = []
    for i, (steps, target) in enumerate([(20, 0.1), (30, 0.1), (30, 0.15), (30, 0.08)]):
        problem = mc.tasks.reaching(steps=steps, target=target)
        trials = mc.simulate(problem, mc.solve(problem), n_trials=3 + i, key=jax.random.key(i))
        sets.append((problem, trials.with_conditions(target=target)))
    together = mc.concatenate([trials for _, trials in sets])
    jumble = np.random.default_rng(0).permutation(len(together))
    return sets, together[jumble], jumble


@pytest.mark.slow
def test_lengths_and_conditions_are_sorted_out():
    sets, together, jumble = of_several_kinds()
    alone = [mc.log_likelihood(problem, trials, per_trial=True) for problem, trials in sets]
    each = mc.log_likelihood(mc.tasks.reaching, together, per_trial=True)
    assert_allclose(each, np.concatenate(alone)[jumble], rtol=1e-11)
    task = functools.partial(mc.tasks.reaching, effort=2e-5)
    value = mc.log_likelihood(task, together)
    others = sum(mc.log_likelihood(task(**_kind(p)), t) for p, t in sets)
    assert_allclose(value, others, rtol=1e-11)


def _kind(problem):
    return {"steps": problem.steps, "target": float(problem.initial_belief[4])}


def test_conditions_need_not_be_numbers(reaching):
    def task(steps, load):
        return mc.tasks.reaching(steps=steps, tau={"light": 0.04, "heavy": 0.06}[load])

    problem, _, light = reaching
    other = task(STEPS, "heavy")
    heavy = mc.simulate(other, mc.solve(other), n_trials=N, key=KEY)
    samples = [np.asarray(trials.states) for trials in (light, heavy)]
    loads = np.repeat(["light", "heavy"], N)
    together = mc.Trials.recorded(np.concatenate(samples), dt=0.01, conditions={"load": loads})
    parts = zip((problem, other), samples, strict=True)
    expected = sum(float(mc.log_likelihood(of, part)) for of, part in parts)
    assert_allclose(mc.log_likelihood(task, together), expected, rtol=1e-12)


def test_padding_changes_nothing(reaching):
    problem, _, trials = reaching
    samples = np.asarray(trials.states)
    longer = mc.Trials(
        jax.device_put(np.pad(samples, ((0, 0), (0, 15), (0, 0)), constant_values=np.nan)),
        jax.device_put(0.01 * np.arange(STEPS + 15)),
        lengths=[STEPS] * N,
    )
    assert mc.log_likelihood(problem, longer) == mc.log_likelihood(problem, samples)


def test_slow_recordings_are_placed_not_interpolated(reaching):
    problem, _, trials = reaching
    observer = mc.observe(problem, ["position"], noise=1e-3)
    position = np.asarray(trials.observed)[:, :, :1]
    every_third, places = np.full((N, STEPS, 1), np.nan), [*range(2, STEPS, 3)]
    every_third[:, 0], every_third[:, places] = position[:, 0], position[:, places]
    slow = mc.Trials.recorded(
        position[:, [0, *places]], dt=0.01, times=np.array([0, *places]) * 0.01 + 5.0
    )
    assert slow.lengths.tolist() == [STEPS] * N
    assert_allclose(
        mc.log_likelihood(problem, slow, observer=observer),
        mc.log_likelihood(problem, every_third, observer=observer),
        rtol=1e-14,
    )


def test_a_start_of_its_own():
    """A trial's known start replaces the problem's; with the same policy and no noise that
    depends on signals, that is a shift of the mean."""
    problem = make_problem(SHAPES[1], 0, plain=True).replace(
        initial_belief_cov=np.zeros((3, 3)), initial_state_cov=np.zeros((3, 3))
    )
    policy = mc.solve(problem)
    starts = np.random.default_rng(0).normal(size=(4, 3))
    simulated = mc.simulate(problem, policy, n_trials=4, key=KEY, initial_states=starts)
    trials = mc.Trials.recorded(np.asarray(simulated.observed), dt=1.0, starts=starts)
    each = mc.log_likelihood(problem, trials, per_trial=True)
    for i, start in enumerate(starts):
        elsewhere = problem.replace(initial_belief=start)
        four = np.repeat(np.asarray(trials.observed)[i : i + 1], 4, axis=0)
        values = mc.log_likelihood(elsewhere, four, policy=policy, per_trial=True)
        assert_allclose(values, each[i], rtol=1e-12)


def test_a_known_start_is_known_and_the_belief_is_around_it():
    problem = make_problem(SHAPES[1], 0, plain=True)
    policy = mc.solve(problem)
    starts = np.random.default_rng(0).normal(size=(4, 3))
    trials = mc.simulate(problem, policy, n_trials=4, key=KEY, initial_states=starts)
    assert_allclose(trials.starts, starts)
    # The same, told as a start of another problem: x_1 known to the experimenter, because the
    # recording of it is exact and comes first.
    each = mc.log_likelihood(problem, trials, per_trial=True)
    beliefs = mc.track_beliefs(problem, trials)
    assert_allclose(beliefs.predicted[:, 0], starts)
    assert_allclose(beliefs.predicted_cov[:, 0], 0)
    first_beliefs = np.broadcast_to(problem.initial_state_cov, (4, 3, 3))
    assert_allclose(beliefs.cov[:, 0], first_beliefs, atol=1e-14)
    unknown = problem.replace(
        initial_belief_cov=problem.initial_state_cov, initial_state_cov=np.zeros((3, 3))
    )
    assert not np.allclose(each, mc.log_likelihood(unknown, trials.observed, per_trial=True))


# --- scores, innovations, gradients ---


@pytest.mark.parametrize(
    "case", in_time(("reaching", "position only", "saccade"), "reaching", "saccade")
)
def test_scores_have_mean_zero_and_innovations_are_white(case):
    names = {"saccade": ("effort", "motor_noise")}.get(case, ("effort", "velocity", "force"))
    task = mc.tasks.saccade if case == "saccade" else mc.tasks.reaching

    def see(problem):
        partly = case == "position only"
        return mc.observe(problem, ["position"], noise=1e-3) if partly else mc.observe(problem)

    problem = task()
    n_trials = 2000
    trials = mc.simulate(
        problem, mc.solve(problem), n_trials=n_trials, key=jax.random.key(1), observer=see(problem)
    )
    defaults = mc.tasks.defaults(task)

    def each(name, log_step):
        world = task(**{name: defaults[name] * np.exp(log_step)})
        values = mc.log_likelihood(world, trials.observed, observer=see(world), per_trial=True)
        return np.asarray(values)

    for name in names:
        score = (each(name, 1e-4) - each(name, -1e-4)) / 2e-4
        mean, error = score.mean(), score.std() / np.sqrt(n_trials)
        assert abs(mean) < 4 * error, f"{name}: {mean / error:.1f} standard errors"

    e = np.asarray(mc.track_beliefs(problem, trials, observer=see(problem)).innovations)
    assert abs(np.nanmean(e)) < 4 / np.sqrt(np.isfinite(e).sum())
    variance = np.nanmean(e**2)
    assert abs(variance - 1) < 4 * np.nanstd(e**2) / np.sqrt(np.isfinite(e).sum())
    pairs = e[:, 1:] * e[:, :-1]
    assert abs(np.nanmean(pairs)) < 4 * np.nanstd(pairs) / np.sqrt(np.isfinite(pairs).sum())


def unrolled_policy(problem, sweeps=40):
    """A fixed number of sweeps, which JAX differentiates one by one."""
    H = problem.H

    def sweep(K, _):
        return forward_pass(problem, backward_pass(problem, K)).K, None

    K, _ = jax.lax.scan(sweep, jnp.zeros((len(H), H.shape[2], H.shape[1])), length=sweeps)
    policy = jax.lax.stop_gradient(mc.solve(jax.lax.stop_gradient(problem)))
    return eqx.tree_at(
        lambda p: (p.L, p.K, p.believed), policy, (backward_pass(problem, K), K, problem)
    )


@pytest.mark.parametrize("name", in_time(TASKS, "saccade", "tracking", "random_problem"))
def test_gradient_by_every_parameter(name):
    """It is that of finite differences, for every number that a task takes."""
    value, zero = value_by_every_parameter(name)
    with_slopes = jax.jit(jax.value_and_grad(value))
    implicit = with_slopes(zero)[1]
    for key in zero:
        up, down = (
            [with_slopes(zero | {key: sign * h})[0] for h in (1e-5, 2e-5)] for sign in (1.0, -1.0)
        )
        # Richardson's extrapolation of the central difference, of fourth order in the step.
        fourth = (8 * (up[0] - down[0]) - (up[1] - down[1])) / 12e-5
        assert_allclose(implicit[key], fourth, rtol=1e-6, atol=1e-5, err_msg=key)


@pytest.mark.slow  # that of the gains is among the quick tests of the solver
@pytest.mark.parametrize("name", TASKS)
def test_implicit_gradient_is_the_unrolled_one(name):
    value, zero = value_by_every_parameter(name)
    implicit = jax.jit(jax.grad(value))(zero)
    unrolled = jax.jit(jax.grad(lambda s: value(s, unrolled_policy)))(zero)
    for key in zero:
        assert_allclose(implicit[key], unrolled[key], rtol=1e-6, err_msg=key)


def value_by_every_parameter(name):
    """The likelihood as a function of relative steps of all numbers of a task, and no steps."""
    task = mc.tasks.random_problem(KEY) if name == "random_problem" else getattr(mc.tasks, name)
    small = {} if name == "saccade" else {"steps": STEPS if name == "reaching" else 12}
    defaults = {k: v for k, v in mc.tasks.defaults(task).items() if isinstance(v, float)}

    def see(problem):
        scale = jnp.array([0.01 if unit.startswith("m") else 0.3 for unit in problem.state_units])
        return mc.observe(problem, noise=jnp.where(jnp.arange(len(scale)) < 3, scale, 0.3))

    truth = task(**small)
    trials = mc.simulate(truth, mc.solve(truth), n_trials=3, key=KEY, observer=see(truth))

    def value(steps, make_policy=None):
        problem = task(**{k: defaults[k] * (1 + steps[k]) for k in defaults}, **small)
        policy = make_policy(problem) if make_policy else mc.solve(problem, tolerance=1e-12)
        return mc.log_likelihood(problem, trials.observed, observer=see(problem), policy=policy)

    return value, dict.fromkeys(defaults, 0.0)


@pytest.mark.slow
def test_forward_mode_and_hessian():
    problem = mc.tasks.reaching(steps=10)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=20, key=KEY)

    def value(log_effort):
        return mc.log_likelihood(mc.tasks.reaching(jnp.exp(log_effort), steps=10), trials.observed)

    at = np.log(1e-5)
    slope = jax.jit(jax.grad(value))
    assert_allclose(slope(at), jax.jit(jax.jacfwd(value))(at), rtol=1e-9)
    curvature = jax.jit(jax.hessian(value))(at)
    assert_allclose(curvature, (slope(at + 1e-4) - slope(at - 1e-4)) / 2e-4, rtol=1e-5)
    assert curvature < 0


@pytest.mark.slow
def test_any_matrix_can_be_inferred():
    """Motor noise, a sensory noise and a time constant from noisy positions and velocities: one
    step of Newton from the truth, which is where the maximum is to second order, lands within
    the error bars."""
    names = ("motor_noise", "sensory_noise", "tau")
    truth = mc.tasks.reaching()

    def see(problem):
        return mc.observe(problem, ["position", "velocity"], noise=[1e-4, 1e-3])

    trials = mc.simulate(
        truth, mc.solve(truth), n_trials=300, key=jax.random.key(2), observer=see(truth)
    )
    defaults = jnp.array([mc.tasks.defaults(mc.tasks.reaching)[name] for name in names])

    @jax.jit
    def value(logs):
        problem = mc.tasks.reaching(**dict(zip(names, defaults * jnp.exp(logs), strict=True)))
        return mc.log_likelihood(problem, trials.observed, observer=see(problem))

    estimate = jnp.zeros(3)
    for _ in range(3):
        slope, curvature = jax.jacfwd(value)(estimate), jax.jacfwd(jax.jacfwd(value))(estimate)
        estimate = estimate - jnp.linalg.solve(curvature, slope)
    errors = jnp.sqrt(jnp.diagonal(jnp.linalg.inv(-curvature)))
    assert (jnp.abs(slope * errors) < 1e-2).all()  # at a maximum
    assert (jnp.abs(estimate) < 4 * errors).all()
    assert (errors < 0.2).all()  # and one that tells something


@pytest.fixture(scope="module")
def unstable(reaching):
    """The likelihood of samples, of which some are missing, in a world that runs away by a factor
    in each step, and the same with its slopes by effort and factor, compiled."""
    samples = np.array(reaching[2].states)
    samples[0] = np.nan
    samples[1, 3:5, 2] = np.nan

    def value(effort, factor):
        problem = mc.tasks.reaching(effort, steps=STEPS)
        problem = problem.replace(A=factor * problem.A, Q=problem.Q + (factor - 1) * jnp.eye(5))
        return mc.log_likelihood(problem, samples)

    return value, jax.jit(jax.value_and_grad(value, argnums=(0, 1)))


def test_a_failed_solve_is_minus_infinity_without_nan(unstable):
    value, with_slopes = unstable
    result, slopes = with_slopes(1e-5, 1e60)
    assert result == -np.inf
    assert slopes == (0, 0)
    with pytest.raises(mc.ConvergenceError, match="no policy was found"):
        value(1e-5, 1e60)


def test_gradients_with_missing_samples_are_finite_differences(unstable):
    _, with_slopes = unstable
    effort, step = 1e-5, 1e-9
    _, (slope, _) = with_slopes(effort, 1.0)
    above, below = (with_slopes(effort + sign * step, 1.0)[0] for sign in (1, -1))
    assert_allclose(slope, (above - below) / (2 * step), rtol=1e-5)


def test_a_hundred_calls_trace_at_most_twice(reaching):
    samples = np.asarray(reaching[2].states)
    traces = 0

    @jax.jit
    def value(effort):
        nonlocal traces
        traces += 1
        return mc.log_likelihood(mc.tasks.reaching(effort, steps=STEPS), samples)

    values = [value(effort) for effort in np.logspace(-6, -4, 100)]
    assert traces <= 2
    assert len(set(map(float, values))) == 100


@pytest.mark.slow  # test_batching.py has batches of points, test_solver.py of problems
def test_vmap_agrees_with_single_calls(reaching):
    samples, efforts = np.asarray(reaching[2].states), np.logspace(-6, -4, 10)

    @jax.jit
    def value(effort):
        return mc.log_likelihood(mc.tasks.reaching(effort, steps=STEPS), samples)

    assert_allclose(jax.vmap(value)(efforts), [value(e) for e in efforts], rtol=1e-9)


@pytest.mark.parametrize("kind", ["integers", "masked", "numpy task"])
def test_what_users_hand_in(kind):
    problem = mc.tasks.reaching(steps=STEPS)
    observer = mc.observe(problem, ["position"], noise=0.1)
    ones = np.ones((N, STEPS, 1))
    expected = mc.log_likelihood(problem, ones, observer=observer)
    if kind == "integers":
        policy = mc.solve(problem)
        value = jax.jit(lambda o: mc.log_likelihood(problem, o, policy=policy, observer=observer))
        assert_allclose(value(ones.astype(int)), expected, rtol=1e-12)
    if kind == "masked":
        fourth = np.arange(STEPS)[:, None] == 3
        hidden = np.ma.masked_greater(np.where(fourth, 999.0, ones), 10)
        missing = np.where(fourth, np.nan, ones)
        expected = mc.log_likelihood(problem, missing, observer=observer)
        assert_allclose(mc.log_likelihood(problem, hidden, observer=observer), expected)
        recorded = mc.Trials.recorded(hidden, dt=0.01)
        assert_allclose(mc.log_likelihood(problem, recorded, observer=observer), expected)
    if kind == "numpy task":

        def task(steps, target):
            return mc.tasks.reaching(steps=steps, target=float(target))

        def see(problem):
            return mc.observe(problem, ["position"], noise=0.1)

        targets = np.repeat([0.1, 0.3], N // 2)
        trials = mc.Trials.recorded(ones, dt=0.01, conditions={"target": targets})
        each = mc.log_likelihood(task, trials, observer=see, per_trial=True)
        assert_allclose(each[0], expected / N, rtol=1e-12)


# --- bad input ---


def test_contradiction_is_named(reaching):
    problem, _, trials = reaching
    bent = np.array(trials.states)
    bent[3, 7, 1] += 0.1
    message = r"trial 3 contradicts the model at step 7: velocity is .* must be .* no noise"
    with pytest.raises(mc.InputError, match=message):
        mc.log_likelihood(problem, bent)
    policy = mc.solve(problem)
    each = jax.jit(lambda o: mc.log_likelihood(problem, o, policy=policy, per_trial=True))(bent)
    assert np.flatnonzero(np.isneginf(each)).tolist() == [3]
    noisy = mc.observe(problem, noise=0.01)
    assert np.isfinite(mc.log_likelihood(problem, bent, observer=noisy, policy=policy))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros((2, 30, 4)), "the trials have 4 channels, the observer records 5: position"),
        (np.zeros((2, 29, 5)), "the trials have 29 steps, the problem has 30"),
        (np.zeros((30, 5)), r"observed must have axes .* write observed\[None\]"),
        (np.full((2, 30, 5), np.nan), "all samples are missing"),
        (np.full((2, 30, 5), np.inf), "must be finite.* got inf in trial 0, step 0"),
    ],
)
def test_bad_samples(samples, message):
    with pytest.raises(mc.InputError, match=message):
        mc.log_likelihood(mc.tasks.reaching(), samples)


@pytest.mark.usefixtures("as_users_call_it")
def test_things_that_are_not_what_is_asked_for():
    problem = mc.tasks.reaching(steps=STEPS)
    trials = mc.Trials.recorded(np.ones((N, STEPS, 5)), dt=0.01)
    for options, message in (
        ({"observer": "position"}, r"observer must be an Observer, as from mc.observe"),
        ({"policy": (0, 0)}, r"policy must be a Policy, as from mc.solve\(problem\), got tuple"),
    ):
        with pytest.raises(mc.InputError, match=message):
            mc.log_likelihood(problem, trials, **options)
    with pytest.raises(mc.InputError, match="problem must be a Problem or a function"):
        mc.log_likelihood({}, trials)
    with pytest.raises(mc.InputError, match=r"use mc\.Trials\.recorded"):
        mc.log_likelihood(problem, [[[1.0]], [[1.0], [2.0]]])
    with pytest.raises(mc.InputError, match="at least one trial"):
        mc.log_likelihood(problem, trials[:0])
    with pytest.raises(mc.InputError, match=r"must take steps and the conditions .* 'load'"):
        mc.log_likelihood(mc.tasks.reaching, trials.with_conditions(load="heavy"))
    huge = np.full((N, STEPS, 5), 1e200)
    with pytest.raises(mc.InputError, match="beyond what can be computed"):
        mc.log_likelihood(problem, huge, observer=mc.observe(problem, noise=1))


def test_parts_that_do_not_belong_together():
    problem, longer = mc.tasks.reaching(steps=STEPS), mc.tasks.reaching(steps=40)
    trials = mc.Trials.recorded(np.ones((N, STEPS, 5)), dt=0.01)
    together = mc.Trials.recorded([np.ones((20, 5)), np.ones((STEPS, 5))], dt=0.01)
    with pytest.raises(mc.InputError, match="the observer was made for 40 steps"):
        mc.log_likelihood(problem, trials, observer=mc.observe(longer))
    seen = mc.observe(problem, ["velocity", "position"], noise=0.1)
    turned = mc.Trials(trials.observed[:, :, :2], trials.times, channels=["position", "velocity"])
    with pytest.raises(mc.InputError, match="channels are position, velocity; the observer rec"):
        mc.log_likelihood(problem, turned, observer=seen)
    with pytest.raises(mc.InputError, match="the trials differ in their lengths"):
        mc.log_likelihood(problem, together)
    with pytest.raises(mc.InputError, match="an Observer is for problems of one length"):
        mc.log_likelihood(mc.tasks.reaching, together, observer=mc.observe(problem))
    with pytest.raises(mc.InputError, match="a policy belongs to one problem"):
        mc.log_likelihood(mc.tasks.reaching, together, policy=mc.solve(problem))
    with pytest.raises(mc.InputError, match="must be Trials where problem is a function"):
        mc.log_likelihood(mc.tasks.reaching, trials.observed)
    with pytest.raises(mc.InputError, match=r"on a grid of 0.01 s, the problem steps by 0.02 s"):
        mc.log_likelihood(mc.tasks.reaching(dt=0.02, steps=STEPS), trials)


def test_units_must_be_those_of_the_model():
    problem = mc.tasks.reaching(steps=STEPS)
    spec = mc.ObserverSpec(["position", "velocity"], noise=0.1)
    samples = np.ones((N, STEPS, 2))
    right = mc.Trials.recorded(samples, dt=0.01, channels={"position": "m", "velocity": ""})
    wrong = mc.Trials.recorded(samples, dt=0.01, channels={"position": "mm", "velocity": "m/s"})
    message = r'position in mm \(model: m\); .* trials.in_units\(position="m"\)'
    for function in (mc.log_likelihood, mc.track_beliefs):
        with pytest.raises(mc.InputError, match=message):
            function(problem, wrong, observer=spec)
    unknown = mc.log_likelihood(problem, samples, observer=spec)
    assert mc.log_likelihood(problem, right, observer=spec) == unknown


def test_an_observer_is_an_observer_or_its_recipe():
    """With a problem and with a task, as long as the trials have one length."""
    problem = mc.tasks.reaching(steps=STEPS)
    spec = mc.ObserverSpec(["position"], noise=0.1)
    trials = mc.Trials.recorded(np.ones((N, STEPS, 1)), dt=0.01)
    expected = mc.log_likelihood(problem, trials, observer=spec)
    for of in (problem, mc.tasks.reaching):
        for observer in (spec, spec(problem), lambda p: spec(p)):
            assert_allclose(mc.log_likelihood(of, trials, observer=observer), expected, rtol=1e-12)
    targets = trials.with_conditions(target=np.repeat([0.1, 0.2], N // 2))
    values = [
        mc.log_likelihood(mc.tasks.reaching, targets, observer=observer)
        for observer in (spec, spec(problem))
    ]
    assert_allclose(*values, rtol=1e-12)


@pytest.mark.usefixtures("as_users_call_it")
def test_movements_are_not_yet_trials():
    walks = [np.ones((6, 1))] * 2
    movements = mc.Movements(walks, [0.01 * np.arange(6)] * 2, {"position": "m"})
    for of in (mc.tasks.reaching(steps=6), mc.tasks.reaching):
        with pytest.raises(mc.InputError, match=r"got Movements: call its method trials\(dt="):
            mc.log_likelihood(of, movements)
