"""Every result has a picture: one style, labels with units, a caption, and text that stays text."""

import inspect
import re
from functools import cache
from xml.etree import ElementTree

import jax
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose
from test_posterior_plots import draws, made_posterior

import motorcost as mc
from made import (
    made_adequacy,
    made_analysis,
    made_fit,
    made_plausibility,
    made_profile,
    recorded,
)
from motorcost.diagnostics.candidates import make_candidates, make_setting
from motorcost.diagnostics.comparison import Row
from motorcost.diagnostics.design_check import DesignCheck
from motorcost.diagnostics.designs import BATCHES
from motorcost.diagnostics.gaps import GapProfile
from motorcost.diagnostics.trial_information import TrialInformation
from motorcost.plots.style import COLOURS
from motorcost.posterior.calibrated import calibration_of

RNG = np.random.default_rng(0)


@cache
def reaching():
    problem = mc.tasks.reaching()
    observer = mc.observe(problem, ["position"], noise=2e-3)
    policy = mc.solve(problem)
    trials = mc.simulate(problem, policy, n_trials=12, key=jax.random.key(0), observer=observer)
    return problem, policy, observer, trials


@cache
def fit():
    return made_fit(["effort", "tau"], recorded((8,) * 6, targets=[0.1, 0.1, 0.1, 0.2, 0.2, 0.2]))


def movements():
    times = [np.linspace(0, 0.5, 26) + 0.1 * k for k in range(4)]
    paths = [
        np.column_stack([(k + 1) * (t - t[0]) ** 2, 0.1 * (t - t[0])]) for k, t in enumerate(times)
    ]
    conditions = {"load": ["light", "light", "heavy", "heavy"]}
    return mc.Movements(tuple(paths), tuple(times), {"x": "m", "y": "m"}, conditions)


def bootstrapped():
    return mc.Bootstrap(fit(), "parametric", fit().point + 0.1 * RNG.normal(size=(80, 2)), False)


def compared():
    rows = [
        Row("signal-dependent", 3, 120.0, -234.0, -230.0, 110.0, (50.0, 60.0)),
        Row("plain $noise$", 2, 100.0, -196.0, -193.0, 90.0, (42.0, 48.0)),
    ]
    return mc.Comparison(tuple(rows))


def precision():
    return mc.Precision(fit().objective, fit().point, np.diag([4.0, 9.0]), (20, 80), 1000)


def recovery():
    return mc.Recovery(mc.tasks.reaching, ["effort"], n_trials=5)


def recovered():
    truth = np.geomspace(1e-6, 1e-4, 12)
    found = truth * np.exp(0.1 * RNG.normal(size=12))
    return pd.DataFrame(
        {"effort": truth, "effort_found": found, "effort_low": 0.8 * found}
        | {"effort_high": 1.2 * found, "failed": [*[""] * 11, "no policy at the truth"]}
    )


def approximation():
    offsets = np.arange(-2.0, 3.0)
    profile = GapProfile("effort", offsets, 0.1 * offsets, np.full(5, 0.02), 0.1, 0.01)
    numbers = ({"effort": 0.1}, {"effort": 0.02}, {"effort": 1e-5})
    return mc.Approximation(3.0, 0.2, *numbers, (profile,), 20, 4000)


@cache
def plan():
    values = {"effort": 1e-5, "velocity": 0.2}
    setting = make_setting(mc.tasks.reaching, list(values), values, None)
    candidates = make_candidates(setting, {"target": [0.1, 0.2]}, 1)
    tells = np.broadcast_to(np.eye(2), (BATCHES, 2, 2, 2))
    return mc.Design(
        setting=setting,
        objective=setting.objective(candidates, [1, 1]),
        candidates=tuple(candidates),
        trials=40,
        criterion="errors",
        information=TrialInformation(tells, tells),
        simulated=100,
        counts=(10, 30),
    )


def exact(per_trial):
    estimates = 50 + RNG.normal(size=(6, 4))
    value, error = estimates.mean(axis=1), estimates.std(axis=1) / 2
    parts = (value, error, value - 0.5)
    if not per_trial:
        parts = (value.sum(), np.sqrt((error**2).sum()), value.sum() - 3)
    return mc.ExactLogLikelihood(*map(jax.numpy.asarray, (*parts, estimates)))


def recorded_in_the_plane():
    angles = np.repeat([0.0, 2.0, 4.0], 2)
    along = np.linspace(0, 1, 12)[:, None] ** 2
    samples = [0.1 * along * [np.cos(a), np.sin(a)] + 1e-3 * RNG.normal(size=2) for a in angles]
    conditions = {"target_x": 0.1 * np.cos(angles), "target_y": 0.1 * np.sin(angles)}
    channels = {"x": "m", "y": "m"}
    return mc.Trials.recorded(samples, dt=0.01, channels=channels, conditions=conditions)


def beliefs():
    problem, _, observer, trials = reaching()
    return mc.track_beliefs(problem, trials, observer=observer)


def posterior():
    values = {"effort": ((), 1e-5 * np.exp(0.1 * draws())), "tau": ((), draws(seed=1))}
    return made_posterior(values, prior=values)


# By the name of the class, results as they might be, and what their picture is asked for.
RESULTS = {
    "Adequacy": lambda: made_adequacy(fit()).plot(),
    "Analysis": lambda: made_analysis(fit()).plot(),
    "Approximation": lambda: approximation().plot(),
    "Beliefs": lambda: beliefs().plot(trial=1),
    "Bootstrap": lambda: bootstrapped().plot(),
    "Calibration": lambda: calibration_of(
        RNG.integers(0, 20, (100, 2)), 20, ("effort", "tau"), "nuts"
    ).plot(),
    "Comparison": lambda: compared().plot(),
    "Design": lambda: plan().plot(),
    "DesignCheck": lambda: DesignCheck(plan(), *0.1 * RNG.normal(size=(2, 50, 2))).plot(),
    "ExactLogLikelihood": lambda: exact(per_trial=True).plot(),
    "ExactLogLikelihood, summed": lambda: exact(per_trial=False).plot(),
    "Fit": lambda: fit().plot(truth={"effort": 1e-5}),
    "Look": lambda: mc.look(movements()).plot(),
    "Minima": lambda: reaching()[1].minima.plot(),
    "Moments": lambda: mc.moments(*reaching()[:2]).plot(),
    "Movements": lambda: movements().plot(),
    "Plausibility": lambda: made_plausibility(fit()).plot(),
    "Policy": lambda: reaching()[1].plot(["position", "velocity"]),
    "Posterior": lambda: posterior().plot(),
    "Precision": lambda: precision().plot(),
    "Profile": lambda: made_profile(fit(), "effort").plot(),
    "Recovery": lambda: recovery().plot(recovered()),
    "Trials": lambda: reaching()[3].plot(),
    "Trials, in the plane": lambda: recorded_in_the_plane().plot(),
    "Variability": lambda: mc.Variability(
        "position", "m", "end", 0.01, 0.012, {"motor noise": 0.7, "recording noise": 0.3}
    ).plot(),
}
# Classes of numbers, settings and parts of results, which have no picture of their own. The leads
# of a fit are drawn together, by `mc.plots.plot_leads`, and its delays by `mc.plots.plot_delays`.
WITHOUT = {
    "ConvergenceError", "DelayFit", "Direction", "InputError", "LeadFit", "Likelihood",
    "LocalMaximum", "LogNormal", "LogUniform", "Normal", "Observer", "ObserverSpec",
    "PrecisionError", "Problem", "Study", "Support", "SweepProgress", "Uniform",
}  # fmt: skip


def test_every_result_has_a_picture():
    classes = {name for name in mc.__all__ if inspect.isclass(getattr(mc, name))}
    drawn = {name.split(",")[0] for name in RESULTS}
    assert classes - WITHOUT == drawn - {"DesignCheck"}
    assert all(callable(getattr(mc, name).plot) for name in classes - WITHOUT)
    assert not any(hasattr(getattr(mc, name), "plot") for name in WITHOUT)


@pytest.fixture
def odd_settings():
    """A user's settings, as unlike ours as can be."""
    odd = {"svg.fonttype": "path", "font.size": 23.0, "axes.spines.top": True, "lines.color": "red"}
    with mpl.rc_context(odd):
        yield


def labels_of(figure):
    """The labels of axes that are shown."""
    shown = [ax for ax in figure.axes if ax.get_visible()]
    return [(ax.get_xlabel(), ax.get_ylabel()) for ax in shown]


@pytest.mark.parametrize("name", RESULTS)
def test_pictures_are_ready_to_publish(name, odd_settings, tmp_path):
    from matplotlib import pyplot as plt

    before, open_figures = dict(mpl.rcParams), plt.get_fignums()
    figure = RESULTS[name]()
    figure.savefig(tmp_path / "figure.svg")
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == open_figures
    assert isinstance(figure, Figure)
    assert re.fullmatch(r"[A-Z0-9].*\.", figure.caption)
    page = ElementTree.parse(tmp_path / "figure.svg")
    written = {text.text for text in page.iter("{http://www.w3.org/2000/svg}text")}
    drawn = {label for pair in labels_of(figure) for label in pair if "\n" not in label} - {""}
    assert drawn
    assert drawn <= written
    sizes = {
        float(size)
        for size in re.findall(r"font-size: ([\d.]+)px", (tmp_path / "figure.svg").read_text())
    }
    assert sizes
    assert max(sizes) <= 12


UNITS = {
    "Analysis": "tau (s)",
    "Beliefs": "velocity (m/s)",
    "Bootstrap": "tau (s)",
    "Fit": "tau (s)",
    "Look": "speed (m/s)",
    "Moments": "force (N)",
    "Movements": "speed (m/s)",
    "Policy": "L: control (N)",
    "Trials": "position (m)",
    "Trials, in the plane": "x (m)",
}


@pytest.mark.parametrize("name", UNITS)
def test_labels_have_units(name):
    assert UNITS[name] in {label for pair in labels_of(RESULTS[name]()) for label in pair}


def test_a_profile_of_a_fit_knows_its_scale_and_unit():
    made = made_profile(fit(), "tau", width=0.3)
    support = fit().objective.coordinates[1].support
    estimate = float(fit().point[1])
    profile = mc.Profile(
        made.name, made.level, made.points, made.log_likelihoods, made.parts, 0.0, estimate,
        support, "s",
    )  # fmt: skip
    (ax,) = profile.plot(truth=0.05).axes
    assert ax.get_xlabel() == "tau (s)"
    lines = {line.get_label(): line for line in ax.lines}
    assert_allclose(lines["truth"].get_xdata(), 0.05)
    (at_estimate,) = [
        line for line in ax.lines if line.get_linewidth() == 0.8 and line.get_ls() == "-"
    ]
    assert_allclose(at_estimate.get_xdata(), np.exp(estimate))
    (span,) = ax.patches
    assert_allclose([span.get_x(), span.get_x() + span.get_width()], np.exp(profile.ends))


def test_files_are_the_same_each_time_and_describe_themselves(tmp_path):
    for suffix in ("svg", "pdf", "png"):
        first, second = (tmp_path / f"{name}.{suffix}" for name in ("first", "second"))
        for path in (first, second):
            figure = fit().plot()
            figure.savefig(path)
        assert first.read_bytes() == second.read_bytes()
    assert figure.caption in (tmp_path / "first.svg").read_text()
    written = (tmp_path / "first.pdf").read_bytes()
    fonts = set(re.findall(rb"/Subtype /(CIDFontType2|Type3)", written))
    assert fonts == {b"CIDFontType2"}  # TrueType letters, where Type 3 has shapes
    figure.savefig(tmp_path / "own.svg", metadata={"Description": "my own words"})
    assert "my own words" in (tmp_path / "own.svg").read_text()
    assert figure.caption not in (tmp_path / "own.svg").read_text()


def test_a_caption_can_be_drawn_below_the_picture():
    figure = compared().plot()
    height = figure.get_figheight()
    assert figure.draw_caption() is figure
    higher = figure.get_figheight()
    assert higher > height + 0.1
    figure.draw_caption()
    assert figure.get_figheight() == higher
    figure.draw_without_rendering()
    caption = figure._supxlabel
    assert caption.get_text().replace("\n", " ") == figure.caption
    below = caption.get_window_extent()
    lowest = min(ax.get_tightbbox().y0 for ax in figure.axes)
    assert below.x0 >= 0
    assert below.x1 <= figure.bbox.x1
    assert below.y1 <= lowest


def test_notebooks_show_the_picture():
    assert compared().plot()._repr_png_().startswith(b"\x89PNG")


def test_colours_tell_groups_apart():
    trials = recorded((8,) * 6, targets=[0.1, 0.1, 0.2, 0.2, 0.2, 0.3])
    ax = trials.plot(["position"], single_trials=0).axes[0]
    labels = [line.get_label() for line in ax.lines]
    assert labels == ["target 0.1", "target 0.2", "target 0.3"]
    assert [line.get_color() for line in ax.lines] == list(COLOURS[:3])
    for line, which in zip(ax.lines, ([0, 1], [2, 3, 4], [5]), strict=True):
        assert_allclose(line.get_ydata(), trials.observed[which, :, 0].mean(axis=0))
    with pytest.raises(mc.InputError, match="did you mean target"):
        trials.plot(by="targt")
    many = recorded((8,) * 7, subjects=list("abcdefg"))
    assert len(many.plot(["position"], single_trials=0).axes[0].lines) == 1
    with pytest.raises(mc.InputError, match="subject has 7 values"):
        many.plot(by="subject")


def test_speeds_are_those_of_the_path():
    times = np.linspace(0, 0.3, 31)
    samples = [np.column_stack([3 * times, 4 * times])] * 2
    trials = mc.Trials.recorded(samples, dt=0.01, channels={"x": "m", "y": "m"})
    path, speed, *_ = trials.plot().axes
    assert (path.get_xlabel(), path.get_ylabel()) == ("x (m)", "y (m)")
    assert_allclose(path.lines[0].get_xydata(), samples[0])
    assert_allclose(speed.lines[-1].get_ydata(), 5.0)
    right = movements().plot().axes[1]
    assert_allclose(right.lines[0].get_ydata()[0], np.hypot(3 * 0.02, 0.1))


def test_moments_are_means_and_standard_deviations():
    problem, policy, *_ = reaching()
    moments = mc.moments(problem, policy)
    (ax,) = moments.plot(["velocity"]).axes
    state, estimate = ax.lines
    assert_allclose(state.get_ydata(), moments.state_mean[:, 1])
    assert_allclose(estimate.get_ydata(), moments.belief_mean[:, 1])
    vertices = ax.collections[0].get_paths()[0].vertices
    at = vertices[np.isclose(vertices[:, 0], problem.times[15]), 1]
    assert_allclose(np.ptp(at), 2 * np.sqrt(moments.state_cov[15, 1, 1]))


def test_differences_of_models_have_errors_from_paired_folds():
    criteria, crossed = compared().plot().axes
    assert_allclose([line.get_xdata() for line in criteria.lines], [[0, 38], [0, 37]])
    ends = crossed.collections[-1].get_segments()[0][:, 0]
    error = np.sqrt(2) * np.std([-8.0, -12.0], ddof=1)
    assert_allclose(ends, [-20 - error, -20 + error])


def test_expected_errors_fall_with_the_root_of_the_number_of_trials():
    (ax,) = precision().plot().axes
    line, points = ax.lines[:2]
    errors = 100 * np.array(precision().relative_errors["effort"])
    assert_allclose(points.get_ydata(), errors)
    slope = np.diff(np.log(line.get_ydata())) / np.diff(np.log(line.get_xdata()))
    assert_allclose(slope, -0.5)
    assert_allclose(np.interp(80, line.get_xdata(), line.get_ydata()), errors[1], rtol=1e-2)


def test_recovery_leaves_out_what_failed():
    table = recovered()
    figure = recovery().plot(table)
    points = figure.axes[0].lines[1]
    assert_allclose(points.get_xdata(), table["effort"][:11])
    assert_allclose(points.get_ydata(), table["effort_found"][:11])
    assert "11 simulated data sets" in figure.caption
    assert "1 data set failed" in figure.caption
    with pytest.raises(mc.InputError, match="no column effort_found"):
        recovery().plot(table.drop(columns="effort_found"))


def test_the_bootstrap_shows_all_experiments_and_both_intervals():
    found = bootstrapped()
    ax = found.plot(0.9).axes[0]
    assert sum(patch.get_height() for patch in ax.patches[1:]) == 80
    (span,) = ax.patches[:1]
    low, high = found.interval(0.9)["effort"]
    assert_allclose([span.get_x(), span.get_x() + span.get_width()], [low, high])
    (bar,) = [line for line in ax.lines if line.get_label() == "interval of the fit"]
    assert_allclose(bar.get_xdata(), found.fit.interval(0.9)["effort"])


def test_gaps_and_filters_of_an_exact_likelihood():
    found = exact(per_trial=True)
    gap, filters = found.plot().axes
    assert_allclose(gap.lines[1].get_ydata(), found.gap)
    assert len(filters.lines) == 1 + 4
    assert gap.get_xlabel() == "trial"
    assert exact(per_trial=False).plot().axes[0].get_xlabel() == "all trials together"


def test_leads_are_drawn_together():
    tried = [
        mc.LeadFit(0.05, 12.0, 11.0, 2, 2, True),
        mc.LeadFit(0.0, 10.0, 8.0, 2, 2, True),
        mc.LeadFit(0.1, -np.inf, -np.inf, 0, 0, False),
    ]
    (ax,) = mc.plots.plot_leads(tried).axes
    assert_allclose(ax.lines[0].get_xydata(), [[0, -3], [50, 0]])
    with pytest.raises(mc.InputError, match="no leads"):
        mc.plots.plot_leads(tried[2:])


def test_batches_are_not_drawn():
    problem, policy, *_ = reaching()
    both = jax.tree.map(
        lambda leaf: jax.numpy.stack([leaf] * 2), (policy, mc.moments(problem, policy))
    )
    for what in (both[0], both[0].minima, both[1]):
        with pytest.raises(mc.InputError, match="got a batch"):
            what.plot()


def test_beliefs_from_inside_jit_need_their_trials():
    problem, policy, observer, trials = reaching()
    inside = jax.jit(lambda data: mc.track_beliefs(problem, data, policy=policy, observer=observer))
    found = inside(trials)
    with pytest.raises(mc.InputError, match="pass trials and problem"):
        found.plot()
    figure = mc.plots.plot_beliefs(found, trials, problem)
    assert labels_of(figure) == labels_of(beliefs().plot())
