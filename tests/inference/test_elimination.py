"""One elimination: the two filters agree on values, derivatives and contradictions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

import motorcost as mc
from motorcost.inference import elimination
from motorcost.inference.grouping import group_trials
from motorcost.inference.likelihood import log_likelihoods_of
from strategies import SHAPES, for_problems, make_problem

KEY = jax.random.key(0)
POSITION, VELOCITY, FORCE, MUSCLE, TARGET = range(5)


@eqx.filter_jit
def outcome(group):
    """The log likelihoods and first contradictions of one group, by the filter that it takes."""
    values, converged, first, _ = log_likelihoods_of(None, group)
    return values[0], converged[0], first[0]


def by_both_filters(problem, samples, starts=None):
    """Outcomes of the filter for full observation, and of the general filter."""
    trials = mc.Trials.recorded(np.asarray(samples), dt=float(problem.dt), starts=starts)
    ((group, _),) = group_trials(problem, trials, mc.solve(problem), None)
    general = jax.tree.map(lambda leaf: leaf, group.observer)
    object.__setattr__(general, "fully_observed", False)
    assert group.observer.fully_observed
    assert group.complete
    return outcome(group), outcome(eqx.tree_at(lambda g: g.observer, group, general))


def require_agreement(problem, samples, starts=None, rtol=1e-9):
    """Raise unless both filters agree; return where the samples contradict, None if nowhere."""
    (values, _, first), (general_values, _, general_first) = by_both_filters(
        problem, samples, starts
    )
    assert_allclose(values, general_values, rtol=rtol, atol=rtol)
    np.testing.assert_array_equal(first, general_first)
    n = len(problem.state_names)
    none = elimination.NO_CONTRADICTION
    return [None if i == none else divmod(int(i), n) for i in np.asarray(first)]


@pytest.fixture(scope="module")
def reaches():
    problem = mc.tasks.reaching(steps=12)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=3, key=KEY)
    return problem, np.asarray(trials.observed)


def hidden(variance):
    """What a channel with this variance over all trials may vary by when it counts as fixed."""
    return elimination.HIDDEN_DEVIATIONS * np.sqrt(elimination.RANK_TOLERANCE * variance)


def moved(problem, samples, step, channel, predicted, share):
    """`samples` with the second trial's moved by a share of what is tolerated."""
    samples = samples.copy()
    largest = np.abs(samples[1, :, channel]).max()
    variance = mc.moments(problem, mc.solve(problem)).cov[step, channel, channel]
    allowed = elimination.CONTRADICTION * (largest + abs(predicted)) + hidden(variance)
    samples[1, step, channel] = predicted + share * allowed
    return samples


@pytest.mark.parametrize("share", [0.999, -0.999, 1.001, -1.001])
@pytest.mark.parametrize(
    ("step", "channel"),
    [
        (0, POSITION),  # the start is known
        (0, MUSCLE),
        (0, TARGET),
        (5, POSITION),  # deterministic given the sample before
        (5, FORCE),
        (5, TARGET),
        (1, MUSCLE),  # informative, but the first control is known, and so is its effect
        (11, TARGET),
    ],
)
def test_just_inside_and_just_outside_the_tolerance(reaches, step, channel, share):
    problem, samples = reaches
    if (step, channel) == (1, MUSCLE):
        # A belief that is known exactly makes the first control a number; without motor noise
        # nothing is left that varies.
        problem = problem.replace(C=[], initial_state_cov=np.zeros((5, 5)))
        samples = np.asarray(mc.simulate(problem, mc.solve(problem), n_trials=3, key=KEY).observed)
    bent = moved(problem, samples, step, channel, samples[1, step, channel], share)
    found = require_agreement(problem, bent)
    assert found[0] is None
    assert found[2] is None
    if abs(share) > 1:
        assert found[1] == (step, channel)
    else:
        assert found[1] != (step, channel)


def test_an_informative_channel_may_be_anywhere(reaches):
    """If what follows from it does follow: the last control is zero, so that everything does."""
    problem, samples = reaches
    bent = samples.copy()
    bent[1, 10, MUSCLE] += 0.5
    assert require_agreement(problem, bent)[1] == (11, FORCE)
    bent[1, 11] += np.asarray(problem.A[10])[:, MUSCLE] * 0.5
    assert require_agreement(problem, bent) == [None, None, None]


def test_tolerated_differences_do_not_add_up(reaches):
    """Each target lies further off than the one before by most of what is tolerated: both filters
    go along with the samples."""
    problem, samples = reaches
    drift = samples.copy()
    allowed = 2 * elimination.CONTRADICTION * samples[1, 0, TARGET]
    drift[1, :, TARGET] += 0.9 * allowed * np.arange(12)
    drift[1, 0, TARGET] = samples[1, 0, TARGET]
    assert require_agreement(problem, drift) == [None, None, None]
    jump = samples.copy()
    jump[1, 5, TARGET] += 0.9 * allowed
    jump[1, 6:, TARGET] -= 0.9 * allowed
    assert require_agreement(problem, jump)[1] == (6, TARGET)


@pytest.mark.parametrize("share", [0.99, 1.01])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("channel", [0, 1, 2])
def test_the_first_sample(share, known, channel):
    """Where the start varies in two of three channels, or is known for every trial."""
    factor = np.array([[1.0, 0.0], [0.5, 0.3], [2.0, 0.6]])  # the third follows from the others
    problem = make_problem(SHAPES[1], 3).replace(
        initial_belief=np.array([0.4, -0.2, 0.3]),
        initial_belief_cov=factor @ np.diag([0.1, 0.2]) @ factor.T,
        initial_state_cov=factor @ np.diag([0.3, 0.0]) @ factor.T,
    )
    simulated = mc.simulate(problem, mc.solve(problem), n_trials=3, key=KEY)
    samples = np.asarray(simulated.observed)
    starts = samples[:, 0] if known else None
    mean = samples[1, 0] if known else np.asarray(problem.initial_belief)
    bent = samples.copy()
    largest = np.abs(samples[1, :, channel]).max()
    allowed = elimination.CONTRADICTION * (largest + abs(mean[channel]))
    if not known:
        spread = problem.initial_belief_cov + problem.initial_state_cov
        allowed += hidden(spread[channel, channel])
    bent[1, 0, channel] += share * allowed
    found = require_agreement(problem, bent, starts)
    assert found[0] is None
    if known:
        assert found[1] == (None if share < 1 else (0, channel))
    elif channel == 2:
        assert found[1] == (None if share < 1 else (0, 2))


@for_problems(max_examples=8)
def test_values_and_contradictions_of_problems(problem, rng):
    """Noise in some directions only, and samples that are moved anywhere by about what is
    tolerated, or by far more. The directions are far from parallel: otherwise the general filter
    can take rounding for noise."""
    n, m = problem.B.shape[-2:]
    B = np.array(problem.B)
    B[:, :m] = np.eye(m)
    steps = problem.steps - 1
    problem = problem.replace(B=B, C=[0.3 * B], V=np.zeros((steps, n, 0)))
    samples = np.array(mc.simulate(problem, mc.solve(problem), n_trials=4, key=KEY).observed)
    require_agreement(problem, samples)
    for trial in range(4):
        step, channel = rng.integers(problem.steps), rng.integers(n)
        largest = np.abs(samples[trial, :, channel]).max()
        samples[trial, step, channel] += largest * rng.choice([1e-8, 1e-7, 1e-4, 0.1])
    require_agreement(problem, samples)


def test_nearly_parallel_directions_are_not_counted_twice():
    """Motor noise nearly parallel to the control in the first two channels, at one step.

    The squared sine between the two channels is 4e-4, so cancellation costs digits: the filters
    were seen to agree to 1.5e-8. The tolerance is an observation, not a bound.
    """
    problem = make_problem(SHAPES[2], 245).replace(V=np.zeros((7, 4, 0)))
    samples = mc.simulate(problem, mc.solve(problem), n_trials=4, key=KEY).observed
    assert require_agreement(problem, samples, rtol=1e-7) == [None] * 4


def test_derivatives_agree_also_where_a_difference_is_tolerated(reaches):
    problem, samples = reaches
    policy = mc.solve(problem)
    bent = moved(problem, samples, 5, FORCE, samples[1, 5, FORCE], 0.9)
    bent = moved(problem, bent, 0, TARGET, samples[1, 0, TARGET], -0.9)

    def value(logs, general):
        world = mc.tasks.reaching(
            sensory_noise=0.5 * jnp.exp(logs[0]),
            motor_noise=0.5 * jnp.exp(logs[1]),
            tau=0.04 * jnp.exp(logs[2]),  # what deterministic channels follow from
            steps=12,
        )
        observer = mc.observe(world)
        if general:
            object.__setattr__(observer, "fully_observed", False)
        trials = mc.Trials(bent, jnp.arange(12) * 0.01)
        return mc.log_likelihood(world, trials, policy=policy, observer=observer)

    slopes = [jax.jit(jax.grad(value), static_argnums=1)(np.zeros(3), g) for g in (False, True)]
    assert (np.abs(slopes[0]) > 1e-3).all()
    assert_allclose(*slopes, rtol=1e-8)


@pytest.mark.parametrize(
    "spreads", [{"aim_spread": 0.1}, {"start_spread": 0.05, "start_speed_spread": 1.0}]
)
def test_simulated_positions_contradict_nothing(spreads):
    """At the ends of supports late positions follow from the earlier ones so closely that rounding
    hides by how much they vary: by little for all trials together, by more than a millionth of
    what is in a trial with small movements."""
    problem = mc.tasks.reaching(effort=1e-2, velocity=1e-3, force=1e-4, **spreads)
    policy, positions = mc.solve(problem), mc.ObserverSpec(["position"])
    trials = mc.simulate(problem, policy, n_trials=40, key=KEY, observer=positions)
    assert np.isfinite(mc.log_likelihood(problem, trials, policy=policy, observer=positions))


def test_a_degenerate_gaussian():
    """Against SciPy's density and the textbook's conditional moments, where the third channel is
    the sum of the first two."""
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(4, 4))
    full = mixing @ mixing.T  # of two channels and of z, which has two dimensions
    picks = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]])
    among, across = picks @ full @ picks.T, picks @ full[:, 2:]
    residual = rng.normal(size=(2, 5))
    residual = np.concatenate([residual, residual.sum(axis=0, keepdims=True)])
    residual[2, 1] += 0.25
    channels = elimination.Channels(
        residual=jnp.asarray(residual),
        cov=jnp.asarray(among)[:, :, None],
        noise=jnp.zeros(3),
        floor=elimination.rounding_floor(*[jnp.diag(jnp.asarray(among))[:, None]] * 2),
    )
    mean, cov, update = elimination.eliminate(
        channels, jnp.zeros((2, 5)), jnp.asarray(full[2:, 2:])[:, :, None], jnp.asarray(across)
        [:, :, None],
    )  # fmt: skip
    gain = full[2:, :2] @ np.linalg.inv(full[:2, :2])
    assert_allclose(mean, gain @ residual[:2], rtol=1e-12)
    assert_allclose(cov[:, :, 0], full[2:, 2:] - gain @ full[:2, 2:], rtol=1e-12, atol=1e-13)
    exact = multivariate_normal(np.zeros(2), full[:2, :2]).logpdf(residual[:2].T)
    assert_allclose(update.log_density, exact, rtol=1e-12)
    expected = np.zeros((3, 5))
    expected[2, 1] = 0.25
    assert_allclose(update.unexplained, expected, atol=1e-14)
