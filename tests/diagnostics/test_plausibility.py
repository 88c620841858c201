from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from made import made_fit, made_plausibility, recorded
from motorcost.diagnostics.courses import CourseComparison
from motorcost.diagnostics.expectations import expected_trials, representative
from motorcost.diagnostics.plausible import implausible_body

KEY = jax.random.key(0)
STEPS, NOISE = 30, 1e-3
CAMERA = mc.ObserverSpec(["position"], noise=NOISE)


def reaches(n=40, seed=0, **values):
    problem = mc.tasks.reaching(**{"steps": STEPS} | values)
    key = jax.random.key(seed)
    return mc.simulate(
        problem, mc.solve(problem), n_trials=n, key=key, observer=CAMERA(problem)
    ).with_conditions(target=float(problem.initial_belief[-1]))


def fit_at(trials, task=mc.tasks.reaching, observer=CAMERA, **values):
    """A fit whose estimates are these values."""
    free = {name: mc.LogUniform(value / 10, 10 * value) for name, value in values.items()}
    return made_fit(free, trials, task=task, observer=observer)


@pytest.fixture(scope="module")
def trials():
    return mc.concatenate([reaches(), reaches(seed=1, target=-0.2)])


@pytest.fixture(scope="module")
def found(trials):
    return mc.plausibility(fit_at(trials, effort=1e-5))


def agents():
    for target in (0.1, -0.2):
        problem = mc.tasks.reaching(target=target, steps=STEPS)
        yield problem, mc.solve(problem)


def test_costs_and_their_shares_are_exact(found):
    costs = [float(mc.expected_cost(problem, policy)) for problem, policy in agents()]
    assert_allclose(found.cost, np.mean(costs), rtol=1e-9)
    assert_allclose(found.idle_cost, (0.1**2 + 0.2**2) / 2, rtol=1e-12)  # stays where it is
    assert_allclose(found.saved, 1 - found.cost / found.idle_cost)
    assert list(found.shares) == ["position, target", "velocity", "force", "effort"]
    assert_allclose(sum(found.shares.values()), 1, rtol=1e-12)
    ends = []
    for problem, policy in agents():
        z = mc.moments(problem, policy)
        ends.append(np.asarray(z.state_cov[-1] + jnp.outer(z.state_mean[-1], z.state_mean[-1])))
    velocity, force = (np.mean([end[i, i] for end in ends]) for i in (1, 2))
    assert_allclose(found.shares["velocity"], 0.2**2 * velocity / found.cost, rtol=1e-9)
    assert_allclose(found.shares["force"], 0.02**2 * force / found.cost, rtol=1e-9)


def test_the_agent_that_made_the_data_does_what_was_recorded(found, trials):
    """Against what 80 simulated trials do, within their own errors."""
    (position,) = found.channels
    assert position.moves
    assert position.trials == 80
    sds = [float(mc.moments(*agent).state_cov[-1, 0, 0]) for agent in agents()]
    assert_allclose(position.end_sd, np.sqrt(np.mean(sds) + NOISE**2), rtol=1e-9)
    ends = np.abs(np.asarray(trials.observed)[:, -1, 0])
    means = [abs(float(mc.moments(*agent).state_mean[-1, 0])) for agent in agents()]
    assert_allclose(position.off, np.mean(means) - ends.mean(), atol=1e-9)
    assert abs(position.off) < 4 * position.end_sd / np.sqrt(80)
    assert_allclose(position.recorded_end_sd, position.end_sd, rtol=0.4)
    first = np.asarray(trials.observed)[:, 0, 0] * np.repeat([1, -1], 40)
    assert_allclose(position.distance, (ends - first).mean(), rtol=1e-9)
    assert_allclose(position.covered, 1, atol=0.1)
    assert_allclose(position.peak, position.recorded_peak, rtol=0.1)
    assert_allclose(position.peak_time, position.recorded_peak_time, atol=0.041)
    assert_allclose(position.duration, position.recorded_duration, atol=0.061)
    assert found.warnings == []
    assert "The agent's position ends" in str(found)
    assert f"saves {100 * found.saved:.0f} % of the cost of not moving" in str(found)
    assert "for stability (velocity" in str(found)


def test_what_is_not_plausible_is_said(trials):
    lazy = mc.plausibility(fit_at(trials, effort=1.0, motor_noise=1.7))
    text = " ".join(lazy.warnings)
    assert lazy.channels[0].covered < 0.5
    assert_allclose(lazy.motor_noise, 1.7, rtol=1e-9)
    for words in ("hardly moves", "saves only", "The motor noise is 1.70", "vary"):
        assert words in text
    assert "Not plausible: The agent hardly moves" in str(lazy)


def test_motor_noise_is_put_down_to_what_the_fit_takes_to_be_the_same(trials):
    def put_down_to(fit):
        (warning,) = [line for line in mc.plausibility(fit).warnings if "motor noise is" in line]
        return warning.partition("leaves out")[2]

    bare = fit_at(trials, motor_noise=1.7)
    assert put_down_to(bare) == (
        ", such as starts that differ, aims that differ and movements that are under way at the "
        "first sample."
    )
    with_aims = fit_at(trials.with_lead(0.04), motor_noise=1.7, aim_spread=0.01)
    assert put_down_to(with_aims) == ", such as starts that differ."
    whole = fit_at(trials.with_lead(0.04), motor_noise=1.7, aim_spread=0.01, start_spread=0.01)
    assert put_down_to(whole) == "."


def test_ends_that_are_off_by_chance_are_plausible():
    """The mean of 20 end points that vary by 0.1 m is known to 0.02 m."""
    made = made_plausibility(made_fit(["effort"], recorded()))
    (course,) = made.channels
    far = replace(course, off=0.05, distance=0.1, end_sd=0.1, recorded_end_sd=0.1, trials=20)
    assert not replace(made, channels=(far,)).warnings
    surely = replace(far, trials=200)
    (warning,) = replace(made, channels=(surely,)).warnings
    assert "ends 0.05 m from where the recorded movements end, 50 % of their distance" in warning


def test_an_agent_that_is_mistaken_need_not_gain():
    little = made_plausibility(made_fit(["effort"], recorded()), cost=0.9, idle_cost=1.0)
    assert any("hardly worth its while" in warning for warning in little.warnings)
    assert not replace(little, mistaken=True).warnings


def test_a_body_at_its_edge_is_not_plausible(found, trials):
    fit = made_fit({"effort": None, "tau": mc.LogUniform(0.01, 0.3)}, trials, observer=CAMERA)
    beyond = replace(fit, point=np.log([1e-5, 0.25]))
    edge = replace(fit, point=np.log([1e-5, 0.01]))
    usual = replace(fit, point=np.log([1e-5, 0.05]))
    assert implausible_body(usual) == []
    (line,) = implausible_body(edge)
    assert line.startswith("tau (time constant of the muscle")
    assert "is 0.01 s, at the edge of its support" in line
    (line,) = implausible_body(beyond)
    assert "is 0.25 s, outside its usual range, LogUniform(0.01, 0.2)" in line
    assert replace(found, body=(line,)).warnings == [line]


def test_a_target_that_wanders_gives_no_direction():
    problem = mc.tasks.tracking(steps=20)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=30, key=KEY, observer=CAMERA(problem))
    fit = fit_at(trials, mc.tasks.tracking, effort=1e-3)
    found = mc.plausibility(fit)
    (position,) = found.channels
    assert np.isnan(position.peak)
    assert list(found.shares) == ["position, target", "effort"]
    # The hand goes about as far as the recorded one, in a random direction.
    sd = np.sqrt(float(mc.moments(problem, mc.solve(problem)).state_cov[-1, 0, 0]) + NOISE**2)
    travelled = np.asarray(trials.observed)[:, -1, 0] - np.asarray(trials.observed)[:, 0, 0]
    assert_allclose(position.covered, sd / np.sqrt(np.mean(travelled**2)), rtol=1e-9)


def test_own_starts_and_lengths():
    """Against the moments of a problem that begins there; samples may be missing."""
    starts = np.zeros((3, 5))
    starts[:, 0], starts[:, 4] = [0.0, 0.02, -0.03], 0.1
    samples = [np.linspace(start, 0.1, length)[:, None] for start, length in
               zip(starts[:, 0], (25, 30, 25), strict=True)]  # fmt: skip
    samples[1][-1] = np.nan
    trials = mc.Trials.recorded(
        samples, dt=0.01, channels={"position": "m"}, starts=starts, lengths=[25, 30, 25]
    )
    fit = fit_at(trials, effort=1e-5)
    expected = expected_trials(fit, 20)
    assert expected.which.tolist() == [0, 1, 2]
    for trial, length in enumerate((25, 30, 25)):
        problem, _ = fit.at(steps=length)
        z = mc.moments(problem.replace(initial_belief=starts[trial]), mc.solve(problem))
        mean = expected.expected.mean[trial, :length, 0]
        assert_allclose(mean, z.state_mean[:, 0], atol=1e-12)
        sd = np.sqrt(np.asarray(z.state_cov[:, 0, 0]) + NOISE**2)
        assert_allclose(expected.expected.sd[trial, :length, 0], sd, rtol=1e-9)
    (position,) = mc.plausibility(fit).channels
    last = [samples[i][k, 0] for i, k in enumerate((-1, -2, -1))]
    model = [expected.expected.mean[i, k, 0] for i, k in enumerate((24, 28, 24))]
    assert_allclose(position.off, np.mean(np.array(model) - last), rtol=1e-9)


def test_of_many_kinds_a_few_stand_for_all():
    targets = np.linspace(0.05, 0.25, 50)
    fit = fit_at(recorded((8,) * 100, targets=np.repeat(targets, 2)), effort=1e-5)
    members = representative(fit, 20)
    chosen = [kind[0] for kind in members]
    assert len(members) == 20
    assert chosen[0] == targets[0]
    assert chosen[-1] == targets[-1]
    assert all(len(trials) == 2 for trials in members.values())
    assert {fit.trials.conditions["target"][i] for i in members[chosen[3], 8]} == {chosen[3]}


def test_without_a_maximum_it_says_so(found, trials):
    assert replace(found, settled=False).sentences[0].startswith("The search did not settle")
    with pytest.raises(mc.InputError, match="interrupted"):
        mc.plausibility(replace(fit_at(trials, effort=1e-5), interrupted=True))


def test_sentences_without_units_and_with_one_trial():
    one = CourseComparison(
        name="angle", unit="", trials=1, moves=True, distance=10.0, covered=0.9, off=-1.0,
        end_sd=0.5, recorded_end_sd=np.nan, peak=300.0, recorded_peak=310.0, peak_time=0.02,
        recorded_peak_time=0.021, duration=0.05, recorded_duration=0.051,
    )  # fmt: skip
    assert one.sentences[0] == (
        "The agent's angle ends 1 short of the recorded end points on average, and covers 90 % of "
        "the recorded 10."
    )
