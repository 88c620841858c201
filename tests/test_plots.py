import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def reaching():
    problem = mc.tasks.reaching()
    policy = mc.solve(problem)
    return policy, mc.simulate(problem, policy, n_trials=200, key=jax.random.key(0))


def test_trials_show_mean_and_band(reaching):
    _, trials = reaching
    figure = mc.plots.plot_trials(trials, ["velocity", "position"], single_trials=5)
    velocity = figure.axes[0]
    assert velocity.get_title() == "velocity (m/s)"
    assert len(velocity.lines) == 5 + 1
    mean = velocity.lines[-1].get_ydata()
    assert_allclose(mean, trials.observed[:, :, 1].mean(axis=0))
    (band,) = velocity.collections
    vertices = band.get_paths()[0].vertices
    t = 20
    at_t = vertices[np.isclose(vertices[:, 0], trials.times[t]), 1]
    expected = np.quantile(trials.observed[:, t, 1], [0.025, 0.975])
    assert_allclose([at_t.min(), at_t.max()], expected)


def test_what_does_not_move_is_left_out(reaching):
    _, trials = reaching
    titles = [ax.get_title() for ax in mc.plots.plot_trials(trials).axes if ax.get_visible()]
    assert [title.split()[0] for title in titles] == ["position", "velocity", "force", "muscle"]
    assert len(mc.plots.plot_trials(trials, ["target"], single_trials=0).axes[0].lines) == 1
    for nothing in ((trials, []), (trials[:0],)):
        with pytest.raises(mc.InputError, match="there are no"):
            mc.plots.plot_trials(*nothing)


def test_gains_show_every_gain(reaching):
    policy, _ = reaching
    axes = np.array(mc.plots.plot_gains(policy).axes).reshape(4, 5)  # 1 control + 3 senses
    assert_allclose(axes[0, 1].lines[-1].get_ydata(), policy.L[:, 0, 1])
    assert_allclose(axes[3, 2].lines[-1].get_ydata(), policy.K[:, 2, 2])
    assert axes[0, 0].get_ylabel() == "L: control"


def test_gains_of_chosen_states(reaching):
    policy, _ = reaching
    figure = mc.plots.plot_gains(policy, ["force"])
    assert [ax.get_title() for ax in figure.axes if ax.get_title()] == ["force"]
    with pytest.raises(mc.InputError, match="did you mean force"):
        mc.plots.plot_gains(policy, ["forse"])


def test_costs_show_each_sweep(reaching):
    policy, _ = reaching
    (ax,) = mc.plots.plot_costs(policy).axes
    excess = (policy.sweep_costs[:5] - policy.expected_cost) / policy.expected_cost
    assert_allclose(ax.lines[1].get_ydata()[:5], np.abs(excess))
    assert ax.lines[1].get_xdata()[-1] == policy.sweeps


def test_beliefs_show_inferred_and_true():
    problem = mc.tasks.reaching()
    observer = mc.observe(problem, ["position"], noise=2e-3)
    seen = mc.simulate(problem, mc.solve(problem), n_trials=2, key=KEY, observer=observer)
    beliefs = mc.track_beliefs(problem, seen, observer=observer)
    figure = mc.plots.plot_beliefs(beliefs, seen, problem, trial=1)
    titles = [ax.get_title().split()[0] for ax in figure.axes]
    assert titles == ["position", "velocity", "force", "muscle"]
    recorded, inferred, true = figure.axes[0].lines
    assert_allclose(recorded.get_ydata(), seen.observed[1, :, 0])
    assert_allclose(inferred.get_ydata(), beliefs.mean[1, :, 0])
    assert_allclose(true.get_ydata(), seen.beliefs[1, :, 0])
    with pytest.raises(mc.InputError, match="there is no trial 2: there are 2, from 0"):
        mc.plots.plot_beliefs(beliefs, seen, problem, trial=2)
