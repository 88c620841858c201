import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from strategies import SHAPES, in_time, make_problem

KEY = jax.random.key(0)


def test_no_delay_changes_nothing():
    problem = mc.tasks.reaching()
    assert mc.delay(problem, 0) is problem


def whole_states(p, late):
    """The problem whose state is extended by all states of the last steps, of which the senses
    measure those that were `late` steps ago."""
    n, k, steps = len(p.state_names), len(p.sense_names), p.steps - 1
    past = max(late) * n
    A = np.tile(np.eye(n + past, k=-n), (steps, 1, 1))
    A[:, :n, :n] = p.A

    def below(M):
        return np.pad(M, [(0, 0)] * (M.ndim - 2) + [(0, past), (0, 0)])

    def sensed(M):
        result = np.zeros((steps, k, n + past))
        for t in range(steps):
            for i, d in enumerate(late):
                result[t, i, d * n : (d + 1) * n] = M[max(t - d, 0), i]
        return result

    W = np.stack([[p.W[max(t - d, 0), i] for i, d in enumerate(late)] for t in range(steps)])
    copies = max(late) + 1
    return mc.Problem(
        steps=p.steps,
        A=A,
        B=below(p.B),
        C=list(np.moveaxis(below(p.C), 1, 0)),
        V=below(p.V),
        H=sensed(p.H),
        W=W,
        D=[sensed(p.D[:, j]) for j in range(p.D.shape[1])],
        E=below(p.E),
        Q=np.pad(p.Q, ((0, 0), (0, past), (0, past))),
        R=p.R,
        initial_belief=np.tile(p.initial_belief, copies),
        initial_belief_cov=np.tile(p.initial_belief_cov, (copies, copies)),
        initial_state_cov=np.tile(p.initial_state_cov, (copies, copies)),
        states=[*p.state_names, *(f"past {i}" for i in range(past))],
        dt=p.dt,
    )


REACH = mc.tasks.reaching(aim_spread=0.01, start_spread=0.02, steps=8)
RANDOM = make_problem(SHAPES[1], seed=0)
# Few senses and many states, or the other way round; all senses late, or not all.
LATE = {
    "senses": (REACH, 3, [3, 3, 3]),
    "some senses": (REACH, {"felt velocity": 1, "felt position": 3}, [3, 1, 0]),
    "states": (RANDOM, 3, [3, 3]),
    "states for some": (
        RANDOM.replace(W=np.diag([1.0, 2.0]), D=[[[0.1, 0.2, 0.3], [0, 0, 0]]]),
        {"sense_1": 2, "sense_2": 1},
        [2, 1],
    ),
}


@pytest.mark.parametrize("case", in_time(LATE, "senses", "states", "states for some"))
def test_what_has_not_arrived_is_all_of_the_past_that_matters(case):
    """The same cost, gains and log likelihood as with all past states in the state."""
    problem, delays, late = LATE[case]
    short, whole = mc.delay(problem, delays), whole_states(problem, late)
    policy, reference = mc.solve(short), mc.solve(whole)
    n = len(problem.state_names)
    assert_allclose(policy.expected_cost, reference.expected_cost, rtol=1e-12)
    assert_allclose(policy.L[:, :, :n], reference.L[:, :, :n], rtol=1e-8, atol=1e-9)
    channels = problem.state_names[:2]
    observed = mc.simulate(
        short, policy, n_trials=3, key=KEY, observer=mc.observe(short, channels, noise=0.01)
    ).observed
    values = [
        mc.log_likelihood(late, observed, observer=mc.observe(late, channels, noise=0.01))
        for late in (short, whole)
    ]
    assert_allclose(*values, rtol=1e-10)


def test_what_has_not_arrived_is_named_by_its_age():
    problem = mc.delay(mc.tasks.tracking(), 2)
    assert problem.state_names[:3] == ("position", "velocity", "target")
    assert problem.state_names[-1] == "seen target(t-2)"
    assert problem.state_units == ("m", "m/s", "m") + ("m", "m") * 2
    states = mc.delay(make_problem(SHAPES[1], seed=0), 2)
    assert states.state_names[-1] == states.state_names[2] + "(t-2)"


def sensing_with_noise():
    """A reach of which only the position is sensed, with noise that grows with it."""
    reach = mc.tasks.reaching(steps=8)
    H = np.eye(1, 5)
    return reach.replace(H=H, W=[[0.01]], D=[0.3 * H], senses=["felt position"])


def test_world_and_belief_remember_the_same():
    """An agent that does not know of noise that grows with the state."""
    late = mc.delay(sensing_with_noise().believing(D=[]), 2)
    assert late.believed.state_names == late.state_names
    assert late.D.shape[1] == 1
    assert late.believed.D.shape[1] == 0
    policy = mc.solve(late)
    costs = mc.simulate(late, policy, n_trials=20_000, key=KEY).costs(late)
    error = costs.std() / np.sqrt(len(costs))
    assert abs(costs.mean() - mc.expected_cost(late, policy)) < 4 * error


@pytest.mark.parametrize("late", in_time([1, 3], 1))
def test_past_states_are_the_states_of_earlier_steps(late):
    problem = mc.delay(make_problem(SHAPES[1], seed=0), late)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=4, key=KEY)
    now = trials.states[:, :, :3]
    for age in range(1, late + 1):
        then = trials.states[:, :, 3 * age : 3 * age + 3]
        assert_allclose(then[:, age:], now[:, :-age])
        assert_allclose(then[:, :age], jnp.broadcast_to(now[:, :1], then[:, :age].shape))


@pytest.mark.parametrize("late", in_time([1, 3], 1))
def test_delayed_senses_are_the_senses_shifted(late):
    """Given the states, the senses have the mean and covariance of the original problem's senses
    `late` steps before."""
    problem = make_problem(SHAPES[1], seed=2)
    delayed = mc.delay(problem, late)
    t = mc.simulate(delayed, mc.solve(delayed), n_trials=40_000, key=KEY)
    x, y = np.asarray(t.states)[:, :, :3], np.asarray(t.senses)
    steps = y.shape[1]
    then = np.maximum(np.arange(steps) - late, 0)
    H, W, D = (np.asarray(letter)[then] for letter in (problem.H, problem.W, problem.D))
    noise = y - np.einsum("tkn,btn->btk", H, x[:, then])
    scaled = np.einsum("tdkn,btn->btdk", D, x[:, then])
    cov = W @ np.swapaxes(W, 1, 2) + np.einsum("btdk,btdl->btkl", scaled, scaled)
    white = np.linalg.solve(np.linalg.cholesky(cov), noise[..., None])[..., 0]
    N = len(t)
    assert np.abs(white.mean(axis=0)).max() < 5 / np.sqrt(N)
    second = np.einsum("bti,btj->tij", white, white) / N
    assert np.abs(second - np.eye(2)).max() < 5 * np.sqrt(2 / N)


def test_a_delay_has_no_effect_on_an_agent_without_feedback():
    """With senses too noisy to use, a delay of them changes neither policy nor cost."""
    problem = mc.tasks.reaching().replace(W=1e6 * np.eye(3))
    policy, late = mc.solve(problem), mc.solve(mc.delay(problem, 3))
    assert_allclose(late.expected_cost, policy.expected_cost, rtol=1e-6)
    assert_allclose(late.L[:, :, :5], policy.L, rtol=1e-4, atol=1e-6 * np.abs(policy.L).max())


def test_a_longer_delay_costs_more():
    costs = [mc.solve(mc.delay(mc.tasks.reaching(), d)).expected_cost for d in (0, 1, 3)]
    assert costs[0] < costs[1] < costs[2]


@pytest.mark.slow  # as above, with other beliefs of longer trials
def test_beliefs_are_delayed_with_the_world():
    problem = mc.delay(mc.tasks.reaching().believing(C=[]), 2)
    assert problem.believed.A.shape == problem.A.shape
    assert problem.believed.C.shape[1] == 0
    policy = mc.solve(problem)
    costs = mc.simulate(problem, policy, n_trials=20_000, key=KEY).costs(problem)
    error = costs.std() / np.sqrt(len(costs))
    assert abs(costs.mean() - mc.expected_cost(problem, policy)) < 4 * error


def test_impossible_delays_are_refused():
    with pytest.raises(
        mc.InputError, match="the delay must be shorter than the trial of 30 steps, got 30"
    ):
        mc.delay(mc.tasks.reaching(), 30)
    with pytest.raises(mc.InputError, match="delayed already"):
        mc.delay(mc.delay(mc.tasks.reaching(), 1), 1)
    with pytest.raises(mc.InputError, match="unknown sense 'felt positions': did you mean felt po"):
        mc.delay(mc.tasks.reaching(), {"felt positions": 1})
    with pytest.raises(mc.InputError, match=r"the delay of felt force .* must be at least 0"):
        mc.delay(mc.tasks.reaching(), {"felt force": -1})
    with pytest.raises(
        mc.InputError, match=r"noises of sense_1 and sense_2 are correlated.* got 2 and 0"
    ):
        mc.delay(RANDOM, {"sense_1": 2})


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize("late", [-1, 1.5])
def test_bad_input(late):
    with pytest.raises(mc.InputError, match=r"the delay in time steps"):
        mc.delay(mc.tasks.reaching(), late)
