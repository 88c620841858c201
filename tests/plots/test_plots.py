from dataclasses import replace
from io import BytesIO

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from made import FITS, made_adequacy, made_fit, made_profile, recorded
from strategies import in_time

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
    assert velocity.get_ylabel() == "velocity (m/s)"
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
    labels = [ax.get_ylabel() for ax in mc.plots.plot_trials(trials).axes if ax.get_visible()]
    assert [label.split()[0] for label in labels] == ["position", "velocity", "force", "muscle"]
    assert len(mc.plots.plot_trials(trials, ["target"], single_trials=0).axes[0].lines) == 1
    for nothing in ((trials, []), (trials[:0],)):
        with pytest.raises(mc.InputError, match="there are no"):
            mc.plots.plot_trials(*nothing)


def test_gains_show_every_gain(reaching):
    policy, _ = reaching
    axes = np.array(mc.plots.plot_gains(policy).axes).reshape(4, 5)  # 1 control + 3 senses
    assert_allclose(axes[0, 1].lines[-1].get_ydata(), policy.L[:, 0, 1])
    assert_allclose(axes[3, 2].lines[-1].get_ydata(), policy.K[:, 2, 2])
    assert axes[0, 0].get_ylabel() == "L: control (N)"


def test_gains_of_chosen_states(reaching):
    policy, _ = reaching
    figure = mc.plots.plot_gains(policy, ["force"])
    assert [ax.get_title() for ax in figure.axes if ax.get_title()] == ["force (N)"]
    with pytest.raises(mc.InputError, match="did you mean force"):
        mc.plots.plot_gains(policy, ["forse"])


def test_costs_show_each_iteration(reaching):
    policy, _ = reaching
    (ax,) = mc.plots.plot_costs(policy).axes
    excess = (policy.iteration_costs[:5] - policy.expected_cost) / policy.expected_cost
    assert_allclose(ax.lines[1].get_ydata()[:5], np.abs(excess))
    assert ax.lines[1].get_xdata()[-1] == policy.iterations


def test_beliefs_show_inferred_and_true():
    problem = mc.tasks.reaching()
    observer = mc.observe(problem, ["position"], noise=2e-3)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=2, key=KEY, observer=observer)
    beliefs = mc.track_beliefs(problem, trials, observer=observer)
    figure = mc.plots.plot_beliefs(beliefs, trials, problem, trial=1)
    labels = [ax.get_ylabel().split()[0] for ax in figure.axes]
    assert labels == ["position", "velocity", "force", "muscle"]
    recorded, inferred, true = figure.axes[0].lines
    assert_allclose(recorded.get_ydata(), trials.observed[1, :, 0])
    assert_allclose(inferred.get_ydata(), beliefs.mean[1, :, 0])
    assert_allclose(true.get_ydata(), trials.beliefs[1, :, 0])
    with pytest.raises(mc.InputError, match="there is no trial 2: there are 2, from 0"):
        mc.plots.plot_beliefs(beliefs, trials, problem, trial=2)


def drawn(figure):
    """The figure, once everything in it has been drawn."""
    figure.savefig(BytesIO(), format="png", dpi=50)
    return figure


SIMPLER = (
    "one parameter", "no information", "a prior without bounds", "on a linear scale",
    "several channels", "one trial", "nothing known", "two steps", "missing samples",
)  # fmt: skip


@pytest.mark.parametrize("what", in_time(FITS, *SIMPLER))
@pytest.mark.filterwarnings("ignore:Glyph .* missing from font")
def test_every_picture_of_a_fit_can_be_drawn(what):
    fit = FITS[what]()
    draw_profiles(fit, 0.3)
    drawn(mc.plots.plot_starts(fit))
    assert len(drawn(mc.plots.plot_estimates(fit, fit.interval())).axes) == len(fit.names)
    adequacy = made_adequacy(fit)
    panels = drawn(mc.plots.plot_predictions(fit, adequacy)).axes
    assert len(panels) % len(fit.trials.channel_names) == 0
    drawn(mc.plots.plot_innovations(adequacy))
    drawn(mc.plots.plot_worst_trials(fit, adequacy))


SCALES = ("a prior without bounds", "on a linear scale")


@pytest.mark.parametrize("what", in_time(FITS, *(name for name in FITS if name not in SCALES)))
@pytest.mark.filterwarnings("ignore:Glyph .* missing from font")
def test_profiles_of_any_width_can_be_drawn(what):
    for width in (2.0, 1e-2, 1e-4):
        draw_profiles(FITS[what](), width)


def draw_profiles(fit, width):
    profiles = [made_profile(fit, name, width) for name in fit.names]
    slices = {p.name: (p.points, p.log_likelihoods) for p in profiles}
    truth = dict.fromkeys(fit.names, fit.estimates[fit.names[0]])
    figure = drawn(mc.plots.plot_profiles(fit, profiles, slices, truth))
    visible = [ax for ax in figure.axes if ax.get_visible()]
    labels = [ax.get_xlabel().replace(r"\$", "$").split(" (")[0] for ax in visible]
    assert labels == list(fit.names)


def test_profiles_without_ends_or_with_impossible_points_can_be_drawn():
    fit = made_fit(["effort", "force"], recorded())
    open_ended = made_profile(fit, "effort", ends=(-np.inf, np.inf))
    impossible = made_profile(fit, "force")
    values = np.array(impossible.log_likelihoods)
    values[:2] = -np.inf
    figure = drawn(
        mc.plots.plot_profiles(fit, [open_ended, replace(impossible, log_likelihoods=values)])
    )
    (span,) = figure.axes[0].patches
    edges = np.exp(open_ended.points[[0, -1]])
    assert_allclose([span.get_x(), span.get_x() + span.get_width()], edges)


def test_estimates_show_intervals_that_leave_the_support_by_arrows():
    fit = made_fit(["effort", "force"], recorded())
    ends = {"effort": (0.0, np.inf), "force": (0.01, 0.02)}
    figure = drawn(mc.plots.plot_estimates(fit, ends, {"effort": 1e-5}))
    markers = [[line.get_marker() for line in ax.lines] for ax in figure.axes]
    assert markers == [["None", "<", ">", "o", "|"], ["None", "o"]]
    assert_allclose(figure.axes[0].lines[0].get_xdata(), [1e-8, 1e-2])
    assert_allclose(figure.axes[1].lines[0].get_xdata(), [0.01, 0.02])


def test_estimates_show_intervals_to_the_end_of_the_support_by_arrows():
    """Where they are exactly the support's own, or miss it by rounding."""
    fit = made_fit(["effort", "force"], recorded())
    low = float(np.exp(np.log(1e-4)))
    assert low > 1e-4
    figure = drawn(mc.plots.plot_estimates(fit, {"effort": (2e-6, 1e-2), "force": (low, 0.02)}))
    markers = [[line.get_marker() for line in ax.lines] for ax in figure.axes]
    assert markers == [["None", ">", "o"], ["None", "<", "o"]]
    texts = [ax.texts[0].get_text() for ax in figure.axes]
    assert [text.split("  ")[1] for text in texts] == ["(above 2e-06)", "(below 0.02)"]


def test_predictions_are_the_means_of_data_and_replicates():
    fit = made_fit(["effort"], recorded((8, 8, 8, 8), targets=[0.1, 0.1, 0.2, 0.2]))
    adequacy = made_adequacy(fit)
    figure = mc.plots.plot_predictions(fit, adequacy)
    assert [ax.get_title() for ax in figure.axes] == ["target 0.1", "target 0.2"]
    for ax, which in zip(figure.axes, ([0, 1], [2, 3]), strict=True):
        lines = {line.get_label(): line.get_ydata() for line in ax.lines}
        assert_allclose(lines["data, mean"], fit.trials.observed[which, :, 0].mean(axis=0))
        model = adequacy.replicates[:, which, :, 0].mean(axis=(0, 1))
        assert_allclose(lines["model, mean"], model)


def test_starts_show_the_distance_from_the_best():
    (ax,) = mc.plots.plot_starts(made_fit(["effort"], recorded())).axes
    assert_allclose(ax.lines[0].get_ydata(), [1e-6, 1e-6, 3.0])
    assert ax.get_title() == "2 of 3 agree (below the dashed line)"


def test_nothing_to_draw_is_said():
    fit = made_fit(["effort"], recorded())
    with pytest.raises(mc.InputError, match="there are no profiles"):
        mc.plots.plot_profiles(fit, [])
    few = made_fit(["effort"], recorded((3,)))
    with pytest.raises(mc.InputError, match="there are no innovations"):
        mc.plots.plot_innovations(made_adequacy(few))
