"""Figures of what an agent does and believes over time: exact moments, and inferred beliefs."""

from collections.abc import Sequence

import numpy as np

from motorcost import checks
from motorcost.errors import InputError
from motorcost.inference.beliefs import Beliefs
from motorcost.model.moments import Moments
from motorcost.model.problem import Problem
from motorcost.model.trials import Trials
from motorcost.plots.style import (
    BLUE,
    GREEN,
    MOST_PANELS,
    ORANGE,
    CaptionedFigure,
    captioned,
    finish_grid,
    grid,
    styled,
    with_unit,
)


@styled
def plot_moments(moments: Moments, states: Sequence[str] | None = None) -> CaptionedFigure:
    """Draw the exact mean and SD over trials of the states, and of the agent's estimates of them.

    There is one panel for each of `states`, or for each of the first six that are not constant.

    Examples
    --------
    >>> figure = mc.plots.plot_moments(mc.moments(problem, policy), ["position"])
    """
    if moments.mean.ndim != 2:
        raise InputError("the moments of one problem are drawn at a time, got a batch: select one")
    parts = {
        "state, mean ± SD": (moments.state_mean, moments.state_cov, BLUE, "-"),
        "estimate, mean ± SD": (moments.belief_mean, moments.belief_cov, ORANGE, "--"),
    }
    courses = {
        label: (np.asarray(mean), _sd(np.asarray(cov)), colour, line)
        for label, (mean, cov, colour, line) in parts.items()
    }
    names = moments.state_names
    moving = [
        name
        for i, name in enumerate(names)
        if any(np.ptp(mean[:, i]) + sd[:, i].max() > 0 for mean, sd, *_ in courses.values())
    ]
    chosen = moving[:MOST_PANELS] if states is None else list(states)
    if not chosen:
        raise InputError("there are no states to draw")
    figure, axes = grid(len(chosen))
    times = np.asarray(moments.times)
    for ax, name in zip(axes.flat, chosen, strict=False):
        i = names.index(checks.one_of("state", name, names))
        for label, (mean, sd, colour, line) in courses.items():
            low, high = mean[:, i] - sd[:, i], mean[:, i] + sd[:, i]
            ax.fill_between(times, low, high, color=colour, alpha=0.2, linewidth=0)
            ax.plot(times, mean[:, i], line, color=colour, linewidth=1.6, label=label)
        ax.set_ylabel(with_unit(name, moments.state_units[i]))
    finish_grid(figure, axes, len(chosen))
    return captioned(
        figure,
        "Exact mean over trials (lines) and one standard deviation to either side (bands) of the "
        "states and of the agent's estimates of them.",
    )


def _sd(cov: np.ndarray) -> np.ndarray:
    """Standard deviations from covariances (time, dim, dim); rounding may make variances < 0."""
    return np.sqrt(np.maximum(np.diagonal(cov, axis1=-2, axis2=-1), 0))


@styled
def plot_beliefs(
    beliefs: Beliefs,
    trials: Trials | None = None,
    problem: Problem | None = None,
    trial: int = 0,
    states: Sequence[str] | None = None,
) -> CaptionedFigure:
    """Draw what the agent believed in one trial, as far as the samples tell (mean ± 2 SD).

    Beside it are the samples and, for a simulated trial, what the agent truly believed.

    Parameters
    ----------
    beliefs : Beliefs
        As `mc.track_beliefs` returns them.
    trials, problem : Trials, Problem, optional
        What they were inferred from, if that happened inside `jit`; otherwise they know.
    trial : int
        The number of the trial, from 0.
    states : sequence of str, optional
        One panel for each; if left out, for each of the first six states about which the samples
        leave something open.

    Examples
    --------
    >>> beliefs = mc.track_beliefs(problem, positions, observer=camera)
    >>> figure = mc.plots.plot_beliefs(beliefs, positions, problem, states=["position"])
    """
    trials = beliefs.trials if trials is None else trials
    names = beliefs.state_names if problem is None else problem.state_names
    units = beliefs.state_units if problem is None else problem.state_units
    if trials is None or not names:
        raise InputError("these beliefs do not know their trials: pass trials and problem")
    checks.whole("trial", trial, 0, "which trial")
    if trial >= len(trials):
        raise InputError(f"there is no trial {trial}: there are {len(trials)}, from 0")
    mean, sd = np.asarray(beliefs.mean[trial]), _sd(np.asarray(beliefs.cov[trial]))
    unknown = [name for i, name in enumerate(names[:MOST_PANELS]) if np.nanmax(sd[:, i]) > 0]
    chosen = list(unknown if states is None else states)
    if not chosen:
        raise InputError("there are no states to draw")
    figure, axes = grid(len(chosen))
    time = np.asarray(trials.times)
    for ax, name in zip(axes.flat, chosen, strict=False):
        i = names.index(checks.one_of("state", name, names))
        low, high = mean[:, i] - 2 * sd[:, i], mean[:, i] + 2 * sd[:, i]
        if name in trials.channel_names:
            samples = trials.observed[trial, :, trials.channel_names.index(name)]
            ax.plot(time, samples, ".", color=BLUE, markersize=4, label="recorded")
        ax.fill_between(time, low, high, color=ORANGE, alpha=0.25, linewidth=0)
        ax.plot(time, mean[:, i], "--", color=ORANGE, label="inferred belief ± 2 SD")
        if trials.beliefs is not None:
            ax.plot(time, trials.beliefs[trial, :, i], ":", color=GREEN, label="true belief")
        ax.set_ylabel(with_unit(name, units[i]))
    finish_grid(figure, axes, len(chosen))
    return captioned(
        figure,
        f"What the agent believed in trial {trial + 1}, inferred from the samples: mean (dashed) "
        "and two standard deviations to either side (band), which say how sure that is.",
        "" if trials.beliefs is None else "Dotted: what the simulated agent did believe.",
    )
