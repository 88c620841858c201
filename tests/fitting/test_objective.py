from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import motorcost as mc
import naive
from motorcost.fitting.objective import DataSets, evaluate, scores
from motorcost.fitting.specification import check_units, make_objective
from motorcost.inference.grouping import group_trials
from strategies import SHAPES, in_time, make_problem

KEY = jax.random.key(0)
SEEN = mc.ObserverSpec(["place", "target"], noise={"place": 0.1})
EFFORT, GAIN = mc.LogUniform(1e-3, 10.0), mc.Uniform(0.0, 3.0)
TRACES = []


def walk(effort=0.1, gain=0.5, target=1.0, steps=8, dt=0.01):
    """Something small that compiles quickly: a place to bring to a target."""
    TRACES.append(steps)
    return mc.Problem(
        steps=steps,
        A=[[0.9, 0.0], [0.0, 1.0]],
        B=[[1.0], [0.0]],
        C=[gain * jnp.array([[1.0], [0.0]])],
        V=[[0.1], [0.0]],
        H=[[1.0, 0.0]],
        W=[[0.3]],
        Q=[[1.0, -1.0], [-1.0, 1.0]],
        R=effort * jnp.eye(1),
        initial_belief=target * jnp.array([0.0, 1.0]),
        states=["place", "target"],
        dt=dt,
    )


def record(n=6, seed=0, **values):
    problem = walk(**values)
    policy, key = mc.solve(problem), jax.random.key(seed)
    return mc.simulate(problem, policy, n_trials=n, key=key, observer=SEEN(problem))


def by_hand(trials, **values):
    problem = walk(**values)
    return mc.log_likelihood(problem, trials.observed, observer=SEEN(problem), per_trial=True)


def together(model, points, weights, gradient=True, priors=False, observed=None, rough=False):
    """Values and gradients at points that each have their own weights (and samples)."""
    data = DataSets(observed=observed, weights=jnp.asarray(weights, float))
    which = jnp.arange(len(points))
    counted = jnp.ones(len(points))
    found = evaluate(
        model,
        data,
        which,
        jnp.asarray(points),
        counted,
        jnp.asarray(rough),
        gradient=gradient,
        priors=priors,
    )
    return found.values, found.gradients


@pytest.fixture(scope="module")
def trials():
    return record()


def model_of(trials):
    free = {"effort": mc.LogNormal(0.1, 0.5), "gain": GAIN}
    return make_objective(walk, trials, free, fixed={"target": 1.5}, observer=SEEN)


# --- the likelihood of a point is that of the problem made by hand ---


def test_each_trial_has_the_likelihood_of_the_problem_made_by_hand(trials):
    trials = record(target=1.5)
    model = model_of(trials)
    assert model.names == ("effort", "gain")
    point = np.array([np.log(0.2), 0.4])
    assert_allclose(model.point({"effort": 0.2, "gain": 0.4}), point, rtol=1e-12)
    assert_allclose(list(model.values(point).values()), [0.2, 0.4], rtol=1e-12)
    expected = by_hand(trials, effort=0.2, gain=0.4, target=1.5)

    each, derivatives = scores(model, jnp.asarray(point))
    assert_allclose(each, expected, rtol=1e-10)

    # Weights count trials, and scores add up to the gradient.
    weights = np.array([[1, 1, 1, 1, 1, 1], [0, 2, 1, 0, 0, 3]])
    values, gradients = together(model, [point, point], weights)
    assert_allclose(values, weights @ expected, rtol=1e-10)
    assert_allclose(gradients, weights @ derivatives, rtol=1e-8)
    for k, step in enumerate(1e-4 * np.eye(2)):
        (up, down), _ = together(model, [point + step, point - step], weights[[0, 0]])
        assert_allclose(gradients[0, k], (up - down) / 2e-4, rtol=1e-5)

    # Roughly, in the same program: enough for a search, and not the same.
    roughly, slopes = together(model, [point, point], weights, rough=True)
    assert (roughly != values).any()
    assert_allclose(roughly, values, atol=1e-5)
    assert_allclose(slopes, gradients, rtol=1e-4)

    # A trial that is left out may be impossible.
    bent = eqx.tree_at(lambda t: t.observed, trials, trials.observed.at[0, 3, 1].add(0.1))
    values, gradients = together(model_of(bent), [point, point], weights)
    assert values[0] == -np.inf
    assert_allclose(values[1], weights[1] @ expected, rtol=1e-10)
    assert np.isfinite(gradients).all()

    # The prior is a normal density of log effort, around log 0.1 with SD 0.5.
    prior = -0.5 * (np.log(2) / 0.5) ** 2
    values, gradients = together(model, [point, point], weights, gradient=False, priors=True)
    assert_allclose(values, weights @ expected + prior, rtol=1e-10)
    assert_allclose(gradients, 0)

    # Other points, weights and data of the same shape do not compile anew.
    before = len(TRACES)
    for seed in range(3):
        others = record(seed=seed, target=1.5)
        made = len(TRACES)
        values, _ = together(model_of(others), [point + 0.1 * seed] * 2, weights + seed)
        assert len(TRACES) == made
    assert len(TRACES) == before + 3  # those that `record` makes itself
    assert_allclose(
        values[0],
        3 * by_hand(others, effort=0.2 * np.exp(0.2), gain=0.6, target=1.5).sum(),
        rtol=1e-10,
    )


# --- groups, conditions, recording noise ---


def test_values_of_each_subject_and_conditions_reach_their_trials():
    """Whole numbers too, for a condition that is real."""
    labels, efforts, targets = ["ben", "anna", "cleo"], [0.1, 0.4, 0.02], [1, 2, 1]
    parts = [
        record(seed=i, effort=effort, target=float(target)).with_conditions(
            subject=label, target=target, room="blue"
        )
        for i, (label, effort, target) in enumerate(zip(labels, efforts, targets, strict=True))
    ]
    order = np.random.default_rng(0).permutation(18)
    mixed = mc.concatenate(parts)[order]
    free = {"effort": EFFORT.grouped_by("subject"), "gain": GAIN}
    model = make_objective(walk, mixed, free, observer=SEEN)
    assert model.names == ("effort[anna]", "effort[ben]", "effort[cleo]", "gain")
    values = {f"effort[{label}]": effort for label, effort in zip(labels, efforts, strict=True)}
    point = model.point({**values, "gain": 0.3})
    assert_allclose(point, [np.log(0.4), np.log(0.1), np.log(0.02), 0.3], rtol=1e-12)
    expected = [
        by_hand(part, effort=effort, gain=0.3, target=float(target))
        for part, effort, target in zip(parts, efforts, targets, strict=True)
    ]
    likelihoods = eqx.filter_jit(model.log_likelihoods)
    assert_allclose(likelihoods(point), np.concatenate(expected)[order], rtol=1e-10)
    alike = model.point({"effort": 0.2, "gain": 0.3})
    expected = [
        by_hand(part, effort=0.2, gain=0.3, target=float(target))
        for part, target in zip(parts, targets, strict=True)
    ]
    assert_allclose(likelihoods(alike), np.concatenate(expected)[order], rtol=1e-10)


@pytest.mark.parametrize("labels", [[7, 2, 30], [0.5, 0.25, 4.0], [True, False, True]])
def test_groups_may_be_told_by_any_kind_of_label(trials, labels):
    mixed = trials.with_conditions(subject=np.repeat(labels, 2))
    model = make_objective(walk, mixed, {"effort": EFFORT.grouped_by("subject")}, observer=SEEN)
    order = sorted(set(labels))
    assert model.names == tuple(f"effort[{label}]" for label in order)
    (codes,) = model.trials.conditions.values()
    assert [order[int(i)] for i in codes] == mixed.conditions["subject"].tolist()


def test_a_condition_that_the_task_takes_can_group_too():
    """A value of `gain` for each target, while the target goes to the task as well."""
    parts = [record(target=target).with_conditions(target=target) for target in (2.0, 1.0)]
    free = {"gain": mc.Uniform(0.0, 3.0, per="target")}
    model = make_objective(walk, mc.concatenate(parts), free, observer=SEEN)
    assert model.names == ("gain[1.0]", "gain[2.0]")
    values = eqx.filter_jit(model.log_likelihoods)(jnp.array([0.3, 0.9]))
    expected = [by_hand(parts[0], target=2.0, gain=0.9), by_hand(parts[1], target=1.0, gain=0.3)]
    assert_allclose(values, np.concatenate(expected), rtol=1e-10)


def test_an_observer_itself_will_do_for_trials_of_its_length(trials):
    given = SEEN(walk())
    model = make_objective(walk, trials, {"effort": EFFORT}, observer=given)
    _, observer = model.at(model.point({"effort": 0.1}))(steps=8)
    assert_array_equal(observer.S, given.S)
    assert_array_equal(observer.U, given.U)


def test_recording_noise_for_all_channels_or_one(trials):
    for name, noise in (
        ("recording_noise", [0.2, 0.2]),
        ("recording_noise_place", [0.2, 0.0]),
        ("recording_noise_target", [0.1, 0.2]),
    ):
        model = make_objective(walk, trials, {name: mc.LogUniform(1e-4, 1.0)}, observer=SEEN)
        _, observer = model.at(model.point({name: 0.2}))(steps=8)
        assert_allclose(observer.U, np.broadcast_to(np.diag(noise), (8, 2, 2)), rtol=1e-12)
    usual = make_objective(walk, trials, ["recording_noise_place"], observer=SEEN)
    size = np.ptp(np.asarray(trials.observed[:, :, 0]))
    support = usual.coordinates[0].support
    assert_allclose([support.low, support.high], [1e-5 * size, 0.5 * size], rtol=1e-12)


def test_the_step_is_that_of_the_trials():
    trials = mc.Trials.recorded(np.ones((2, 8, 2)), dt=0.02, channels=["place", "target"])
    model = make_objective(walk, trials, {"effort": EFFORT}, observer=SEEN)
    problem, _ = model.at(model.point({"effort": 0.1}))(steps=8)
    assert_allclose(problem.dt, 0.02, rtol=1e-12)


def test_a_task_that_steps_otherwise_than_the_trials_is_refused():
    trials = mc.Trials.recorded(np.ones((2, 8, 2)), dt=0.02, channels=["place", "target"])

    def own(effort=0.1, steps=8):
        return walk(effort, steps=steps, dt=0.01)

    message = r"on a grid of 0.02 s, the problem steps by 0.01 s"
    with pytest.raises(mc.InputError, match=message):
        mc.fit(own, trials, {"effort": EFFORT}, observer=SEEN, n_starts=1, key=KEY)
    with pytest.raises(mc.InputError, match=message):
        make_objective(walk, trials, {"effort": EFFORT}, fixed={"dt": 0.01}, observer=SEEN)


def test_fixed_values_may_be_arrays_of_one_number(trials):
    fixed = {"gain": jnp.asarray(0.8), "target": np.array(1.0)}
    model = make_objective(walk, trials, {"effort": EFFORT}, fixed=fixed, observer=SEEN)
    values, _ = together(model, [model.point({"effort": 0.1})], np.ones((1, 6)), gradient=False)
    assert_allclose(values, by_hand(trials, effort=0.1, gain=0.8).sum(), rtol=1e-10)


def test_starts_of_trials_are_used(trials):
    starts = jnp.array([[0.2, 1.0], [-0.3, 1.0]])
    channels = ["place", "target"]
    two = mc.Trials(trials.observed[:2], trials.times, starts=starts, channels=channels)
    model = make_objective(walk, two, {"effort": EFFORT}, observer=SEEN)
    each = eqx.filter_jit(model.log_likelihoods)(model.point({"effort": 0.1}))
    policy = mc.solve(walk())  # for a start from the usual place
    for i, start in enumerate(starts):
        problem = walk().replace(initial_belief=start)
        seen = mc.observe(problem, ["place"], noise=0.1)
        one = naive.log_likelihood(problem, policy, seen, two.observed[i, :, :1])
        assert_allclose(each[i], one, rtol=1e-9)


# --- several lengths in one run ---


def with_every_noise(shape):
    """A task whose matrices change over time, and an agent that believes otherwise."""
    whole = jax.tree.map(np.asarray, make_problem(shape, 3, steps=12))

    def task(gain=1.0, steps=8):
        names = ("A", "B", "V", "H", "W", "E", "R")
        problem = mc.Problem(
            steps=steps,
            **{name: getattr(whole, name)[: steps - 1] for name in names},
            C=[whole.C[: steps - 1, i] for i in range(whole.C.shape[1])],
            D=[whole.D[: steps - 1, j] for j in range(whole.D.shape[1])],
            Q=gain * whole.Q[:steps],
            initial_belief=whole.initial_belief,
            initial_belief_cov=whole.initial_belief_cov,
            initial_state_cov=whole.initial_state_cov,
        )
        return problem.believing(A=0.9 * problem.A, H=1.1 * problem.H, C=[], W=2 * problem.W)

    return task


def without_sensory_noise(gain=1.0, steps=8):
    """A certain sense (W = 0) sees the state itself; in the steps that are added, nothing."""
    return mc.Problem(
        steps=steps,
        A=[[1.0, 0.1], [0.0, 1.0]],
        B=[[0.0], [0.1]],
        C=[[[0.0], [0.05]]],
        V=0.1 * np.eye(2),
        H=[[1.0, 0.0]],
        Q=gain * jnp.eye(2),
        R=[[0.1]],
        initial_state_cov=0.01 * np.eye(2),
    )


EVERY_NOISE = with_every_noise(SHAPES[1])


@pytest.mark.parametrize(
    "task", in_time([EVERY_NOISE, without_sensory_noise], without_sensory_noise)
)
def test_trials_of_several_lengths_have_the_likelihood_of_each_length(task):
    def see(problem):
        return mc.observe(problem, problem.state_names[:2], noise=[0.3, 0.1])

    rng = np.random.default_rng(0)
    lengths, gains = [8, 11, 8], np.array([1.0, 1.0, 2.0])
    samples = [rng.normal(size=(length, 2)) for length in lengths]
    trials = mc.Trials.recorded(samples, dt=1.0, conditions={"gain": gains})
    assert len(list(group_trials(task, trials, None, see))) == 1
    each = mc.log_likelihood(task, trials, observer=see, per_trial=True)
    for value, one, length, gain in zip(each, samples, lengths, gains, strict=True):
        problem = task(gain, length)
        believed = problem if problem.believed is None else problem.believed
        L, K = naive.alternate(believed)
        policy = SimpleNamespace(L=L, K=K, believed=believed)
        loop = naive.log_likelihood(problem, policy, see(problem), one)
        assert_allclose(value, loop, rtol=1e-9)


def test_samples_after_a_trials_end_do_not_count(trials):
    """Whether or not a longer trial is beside it."""
    whole = trials.observed
    lengths = [6, 8, 6, 6, 6, 6]
    beyond = mc.Trials(whole, trials.times, lengths=lengths, channels=["place", "target"])
    each = mc.log_likelihood(walk, beyond, observer=SEEN, per_trial=True)
    short = mc.Trials(whole[:, :6], trials.times[:6], channels=["place", "target"])
    expected = by_hand(short, steps=6).at[1].set(by_hand(trials)[1])
    assert_allclose(each, expected, rtol=1e-10)


def test_similar_lengths_share_one_compilation():
    before = len(TRACES)
    lengths = [10, 12, 15, 11, 32, 40]
    samples = [np.zeros((n, 2)) for n in lengths]
    trials = mc.Trials.recorded(samples, dt=0.01, channels=["place", "target"])
    found = list(group_trials(walk, trials, None, SEEN))
    assert sorted(TRACES[before:]) == sorted(lengths)
    shapes = [group.samples.shape for group, _ in found]
    assert shapes == [(4, 1, 15, 2), (2, 1, 40, 2)]
    assert sorted(i for _, index in found for i in index.ravel().tolist()) == list(range(6))


@pytest.mark.parametrize("many", [1, 20])  # with 20 trials of one kind, kinds form two groups
def test_each_kind_is_handed_what_it_has_of_its_own(many):
    targets = np.array([0.3, *[0.2] * many, 0.1, 0.3, 0.4, 0.15])
    lengths = [8, *[8] * many, 8, 7, 9, 9]
    samples = [np.zeros((length, 2)) for length in lengths]
    trials = mc.Trials.recorded(
        samples, dt=0.01, channels=["place", "target"], conditions={"target": targets}
    )
    kinds = sorted(set(zip(lengths, targets.tolist(), strict=True)))
    efforts = jnp.arange(1.0, len(kinds) + 1)

    def task(steps, target, **others):
        (own,) = others.values()
        return walk(effort=own["effort"], target=target, steps=steps)

    found = list(group_trials(task, trials, None, SEEN, own={"effort": efforts}))
    assert len(found) == (1 if many == 1 else 2)
    for group, index in found:
        for trial, problem in zip(index[:, 0], group.problem.R[:, 0, 0, 0], strict=True):
            assert problem == efforts[kinds.index((lengths[trial], targets[trial]))]


def test_a_task_is_traced_once_for_each_length():
    samples = [np.zeros((length, 2)) for length in (6, 7, 9)]
    trials = mc.Trials.recorded(samples, dt=0.01, channels=["place", "target"])
    model = make_objective(walk, trials, {"effort": EFFORT}, observer=SEEN)
    before = len(TRACES)
    jax.eval_shape(model.log_likelihoods, jnp.zeros(1))
    assert sorted(TRACES[before:]) == [6, 7, 9]


def test_padding_a_problem_leaves_what_the_agent_does():
    problem = EVERY_NOISE(steps=8)
    longer = problem.padded(11)
    policy, its_policy = mc.solve(problem), mc.solve(longer)
    assert longer.steps == 11
    assert_allclose(its_policy.L[:7], policy.L, rtol=1e-8)
    assert_allclose(its_policy.K[:7], policy.K, rtol=1e-8)
    assert_allclose(its_policy.L[7:], 0, atol=1e-12)
    assert_allclose(
        mc.expected_cost(longer, its_policy), mc.expected_cost(problem, policy), rtol=1e-8
    )
    before, after = mc.moments(problem, policy), mc.moments(longer, its_policy)
    assert_allclose(after.mean[:8], before.mean, rtol=1e-7, atol=1e-10)
    assert_allclose(after.state_mean[8:], np.tile(before.state_mean[-1], (3, 1)), rtol=1e-7)


# --- bad input ---

USUAL = mc.tasks.reaching  # declares its parameters, with their supports
POSITION = mc.ObserverSpec(["position", "velocity"], noise=0.1)


@pytest.fixture
def reaches():
    return mc.Trials.recorded(np.ones((2, 8, 2)), dt=0.01, channels=["position", "velocity"])


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"free": {"efort": EFFORT}}, "unknown parameter 'efort'"),
        ({"free": ["recording_nois"]}, "unknown parameter 'recording_nois'"),
        ({"free": {"effort": EFFORT}, "fixed": {"effort": 1.0}}, "both free and fixed"),
        ({"free": {"effort": EFFORT}, "fixed": {"mass": 1.0}}, "unknown parameter 'mass'"),
        ({"free": {"target": mc.Uniform(0.0, 1.0)}}, "target cannot be free: it is a condition"),
        ({"free": {"effort": EFFORT}, "fixed": {"target": 0.2}}, "target .*condition"),
        ({"free": {}}, "nothing is free"),
        ({"free": []}, "nothing is free"),
        ({"free": "effort"}, "free must name parameters with their support, got 'effort'"),
        ({"free": ["steps"]}, "steps has no usual support"),
        ({"free": {"steps": mc.Uniform(2.0, 9.0)}}, "steps cannot be free"),
        ({"free": {"effort": EFFORT}, "fixed": {"steps": 9}}, "steps cannot be free or fixed"),
        ({"free": {"effort": EFFORT.grouped_by("hand")}}, "no condition 'hand' .*: target"),
        ({"free": {"effort": (1e-8, 1e-2)}}, r"the support of effort must be made by .* \(1e-08"),
        ({"task": USUAL(steps=4)}, "a task is a function that makes a Problem, got P"),
        ({"trials": np.zeros((2, 8, 2))}, r"fitting needs Trials, got ndarray: mc.io.read\(file\)"),
        (
            {"observer": mc.observe(USUAL())},
            "observer was made for 30 steps of 5 states",
        ),
        ({"observer": ["position"]}, r"observer must be an Observer, .* got \['position'\]"),
        (
            {"free": ["recording_noise", "recording_noise_position"]},
            "recording_noise stands for all channels",
        ),
        (
            {"free": ["recording_noise"], "observer": lambda problem: POSITION(problem)},
            "unknown parameter 'recording_noise'",
        ),
    ],
)
def test_bad_models(reaches, options, message):
    with_target = reaches.with_conditions(target=0.1)
    given = {"task": USUAL, "trials": with_target, "free": ["effort"]}
    given |= {"observer": POSITION} | options
    with pytest.raises(mc.InputError, match=message):
        make_objective(**given)


def test_no_trials_and_values_outside(reaches):
    with pytest.raises(mc.InputError, match="there are no trials"):
        make_objective(USUAL, reaches[:0], ["effort"], observer=POSITION)
    model = make_objective(USUAL, reaches, ["effort", "force"], observer=POSITION)
    with pytest.raises(mc.InputError, match="a value for force is missing"):
        model.point({"effort": 1e-5})
    with pytest.raises(mc.InputError, match=r"effort must lie in LogUniform\(1e-08, 0.01\), got 1"):
        model.point({"effort": 1.0, "force": 0.02})


@pytest.mark.slow
def test_each_point_may_have_samples_of_its_own():
    problem = mc.tasks.reaching(steps=12)
    policy = mc.solve(problem)
    sets = [mc.simulate(problem, policy, n_trials=4, key=jax.random.key(seed)) for seed in (0, 1)]
    free = {"effort": mc.LogUniform(1e-8, 1e-2), "velocity": mc.LogUniform(1e-3, 10.0)}
    models = [make_objective(mc.tasks.reaching, trials, free) for trials in sets]
    points = jnp.array([[-11.0, -1.5], [-12.0, -1.0]])
    weights = jnp.array([[1.0, 1.0, 0.0, 2.0], [1.0, 1.0, 1.0, 1.0]])
    observed = jnp.stack([trials.observed for trials in sets])
    values, slopes = together(models[0], points, weights, observed=observed)
    for i, model in enumerate(models):
        value, slope = together(model, points[i : i + 1], weights[i : i + 1])
        assert_allclose(values[i], value[0], rtol=1e-10)
        assert_allclose(slopes[i], slope[0], rtol=1e-8)
        each = model.log_likelihoods(points[i])
        assert_allclose(values[i], (weights[i] * each).sum(), rtol=1e-10)


def test_what_overflows_is_impossible_without_nan():
    """A control noise of 1e200: the policy is to do nothing, and the filter overflows."""
    trials = record().with_conditions(gain=[0.5] * 3 + [1e200] * 3)
    model = make_objective(walk, trials, {"effort": EFFORT}, observer=SEEN)
    values, gradients = together(model, [[-2.0], [-2.0]], [[1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0]])
    assert np.isfinite(values[0])
    assert values[1] == -np.inf
    assert np.isfinite(gradients).all()


@pytest.mark.slow  # it overflows in the policy rather than in the filter, as above
def test_what_does_not_count_may_be_impossible():
    """A target that no policy was found for, and whose trials are left out."""
    problem = mc.tasks.reaching(steps=12)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=4, key=jax.random.key(0))
    trials = trials.with_conditions(motor_noise=[0.5, 0.5, 1e200, 1e200])
    model = make_objective(mc.tasks.reaching, trials, {"effort": mc.LogUniform(1e-8, 1e-2)})
    points = jnp.array([[-11.0], [-11.0]])
    weights = jnp.array([[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]])
    values, slopes = together(model, points, weights)
    assert np.isfinite(values[0])
    assert np.isfinite(slopes).all()
    assert np.isneginf(values[1])


def test_the_rank_is_the_largest_of_all_conditions():
    """The first trial's world has noise in one channel only, a later one's in two."""

    def task(effort=1e-5, shaking=0.0, steps=30, dt=0.01):
        problem = mc.tasks.reaching(effort=effort, steps=steps, dt=dt)
        return problem.replace(V=shaking * jnp.eye(5)[:, 1:2])

    problem = task(shaking=0.01, steps=12)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=2, key=jax.random.key(0))
    quiet = task(steps=12)
    still = mc.simulate(quiet, mc.solve(quiet), n_trials=2, key=jax.random.key(1))
    both = mc.Trials.recorded(
        np.concatenate([still.observed, trials.observed]),
        dt=0.01,
        channels=dict.fromkeys(quiet.state_names, ""),
        conditions={"shaking": [0.0, 0.0, 0.01, 0.01]},
    )
    model = make_objective(task, both, {"effort": mc.LogUniform(1e-8, 1e-2)})
    assert model.structure.rank == 2
    value, _ = together(model, [[np.log(1e-5)]], np.ones((1, 4)), gradient=False)
    alone = mc.log_likelihood(quiet, still.observed) + mc.log_likelihood(problem, trials.observed)
    assert_allclose(value[0], alone, rtol=1e-9)


def test_trials_in_other_units_are_converted_and_it_is_noted():
    samples = np.linspace(0.0, 100.0, 8)[None, :, None]
    trials = mc.Trials.recorded(
        samples,
        dt=0.01,
        channels={"position": "mm"},
        conditions={"target": [100.0]},
        condition_units={"target": "mm"},
    )
    seen = mc.ObserverSpec(["position"], noise=1e-3)
    model = make_objective(USUAL, trials, ["effort"], observer=seen)
    assert_allclose(model.trials.observed, samples / 1000, rtol=1e-12)
    assert_allclose(model.trials.conditions["target"], 0.1, rtol=1e-12)
    assert model.notes == (
        "position converted from mm to m",
        "condition target converted from mm to m",
    )
    angles = mc.Trials.recorded(samples, dt=0.01, channels={"position": "deg"})
    with pytest.raises(mc.InputError, match="'position' is angle in deg: it cannot be in m"):
        make_objective(USUAL, angles, ["effort"], observer=seen)


def recorded(size, **channels):
    """Two straight movements of this size."""
    samples = np.linspace(0.0, size, 8)[None, :, None].repeat(2, axis=0)
    return mc.Trials.recorded(samples, dt=0.01, channels=channels or ["position"])


@pytest.mark.parametrize("channels", [{}, {"position": "m"}])
def test_trials_that_cannot_be_in_the_unit_of_the_target_are_not_fitted(channels):
    with pytest.raises(mc.InputError, match=r"position covers 100 m in a trial, but the target is"):
        mc.fit(USUAL, recorded(100.0, **channels), ["effort"], key=jax.random.key(0))
    check_units(make_objective(USUAL, recorded(0.1, **channels), ["effort"]))


def test_simulated_trials_may_hardly_move():
    """Expected errors and calibrations simulate agents that do not get to the target."""
    model = make_objective(USUAL, recorded(1e-4), ["effort"])
    with pytest.raises(mc.InputError, match=r"position covers 0\.0001 m"):
        check_units(model)


def test_units_that_are_taken_for_granted_are_noted():
    without = recorded(0.1).with_conditions(target=0.1)
    notes = ("no units were given; taken for granted: position in m, target in m",)
    assert make_objective(USUAL, without, ["effort"]).notes == notes
    assert make_objective(USUAL, recorded(0.1, position="m"), ["effort"]).notes == ()
