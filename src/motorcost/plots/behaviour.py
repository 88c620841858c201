"""Figures of behaviour and of policies."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from motorcost import checks
from motorcost.errors import InputError
from motorcost.inference.beliefs import Beliefs
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.model.trials import Trials
from motorcost.plots.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    clean,
    finish_grid,
    grid,
    plain,
    with_unit,
)

# The most states that are drawn unless the user names some: more panels do not fit a page.
_MOST_STATES = 6


def plot_trials(
    trials: Trials, channels: Sequence[str] | None = None, single_trials: int = 30
) -> Figure:
    """Draw what was recorded over time: the mean over trials, the middle 95 %, and a few trials.

    There is one panel for each of `channels`, or for each channel that is not constant.
    `single_trials` is the most trials that are drawn one by one.
    """
    if len(trials) == 0:
        raise InputError("there are no trials to draw")
    names = [name for name in trials.channel_names if _varies(trials, name)]
    if channels is not None:
        checks.labels("channels", channels, len(channels), "channel")
        names = list(channels)
    if not names:
        raise InputError("there are no channels to draw")
    figure, axes = grid(len(names))
    for ax, name in zip(axes.flat, names, strict=False):
        i = trials.channel_names.index(checks.one_of("channel", name, trials.channel_names))
        samples = np.asarray(trials.observed[:, :, i])
        _draw_samples(ax, np.asarray(trials.times), samples, single_trials)
        ax.set_title(with_unit(name, trials.channel_units[i]), fontsize=10)
        clean(ax)
    finish_grid(figure, axes, len(names))
    return figure


def _draw_samples(ax: Axes, times: np.ndarray, samples: np.ndarray, single_trials: int) -> None:
    """Draw one channel of all trials, (trial, time)."""
    recorded = np.isfinite(samples)
    sampled = recorded.any(axis=0)  # a recording slower than the model has steps without samples
    low, high = np.nanquantile(samples[:, sampled], [0.025, 0.975], axis=0)
    ax.fill_between(
        times[sampled], low, high, color=BLUE, alpha=0.2, linewidth=0, label="middle 95 %"
    )
    for k in range(min(single_trials, len(samples))):
        label = "single trials" if k == 0 else "_nolegend_"
        time, values = times[recorded[k]], samples[k, recorded[k]]
        ax.plot(time, values, color=GREY, alpha=0.4, linewidth=0.6, label=label)
    mean = np.nanmean(samples[:, sampled], axis=0)
    ax.plot(times[sampled], mean, color=BLUE, linewidth=2, label="mean")


def plot_gains(policy: Policy, states: Sequence[str] | None = None) -> Figure:
    """Draw the gains over time.

    The upper rows show how controls respond to the estimated states (L), the lower rows how
    estimates respond to the senses (K). There is one column for each of `states`, or for each of
    the first six.
    """
    p = policy.believed
    names = list(p.state_names[:_MOST_STATES] if states is None else states)
    if not names:
        raise InputError("there are no states to draw")
    at = [p.state_names.index(checks.one_of("state", name, p.state_names)) for name in names]
    rows = [
        (f"L: {name}", BLUE, np.asarray(policy.L[:, i])) for i, name in enumerate(p.control_names)
    ]
    rows += [
        (f"K: {name}", ORANGE, np.asarray(policy.K[:, :, j]))
        for j, name in enumerate(p.sense_names)
    ]
    time = np.asarray(p.times[:-1])
    figure = Figure(figsize=(1.9 * len(names) + 0.6, 1.5 * len(rows) + 0.4), layout="constrained")
    axes = figure.subplots(len(rows), len(names), squeeze=False, sharex=True)
    for row, (label, color, gains) in enumerate(rows):
        for column, (name, i) in enumerate(zip(names, at, strict=True)):
            ax = axes[row, column]
            ax.axhline(0, color=GREY, linewidth=0.5)
            ax.plot(time, gains[:, i], color=color, linewidth=1.8)
            ax.ticklabel_format(style="sci", scilimits=(-2, 3), axis="y")
            clean(ax)
            if not gains[:, i].any():  # an automatic scale would only show noise about zero
                ax.set_yticks([0])
            if row == 0:
                ax.set_title(plain(name), fontsize=10)
            if column == 0:
                ax.set_ylabel(plain(label), fontsize=9)
    for ax in axes[-1]:
        ax.set_xlabel("time (s)")
    return figure


def plot_beliefs(
    beliefs: Beliefs,
    trials: Trials,
    problem: Problem,
    trial: int = 0,
    states: Sequence[str] | None = None,
) -> Figure:
    """Draw what the agent believed in one trial, as far as the samples tell (mean ± 2 SD).

    Beside it are the samples and, for a simulated trial, what the agent truly believed. There is
    one panel for each of `states`, or for each of the first six states about which the samples
    leave something open. `beliefs` is what `mc.track_beliefs` returned for `trials`, `trial` the
    number of the trial from 0.
    """
    checks.whole("trial", trial, 0, "which trial")
    if trial >= len(trials):
        raise InputError(f"there is no trial {trial}: there are {len(trials)}, from 0")
    mean = np.asarray(beliefs.mean[trial])
    sd = np.sqrt(np.maximum(np.diagonal(np.asarray(beliefs.cov[trial]), axis1=1, axis2=2), 0))
    unknown = [
        name for i, name in enumerate(problem.state_names[:_MOST_STATES]) if np.nanmax(sd[:, i]) > 0
    ]
    names = list(unknown if states is None else states)
    if not names:
        raise InputError("there are no states to draw")
    figure, axes = grid(len(names))
    time = np.asarray(trials.times)
    for ax, name in zip(axes.flat, names, strict=False):
        i = problem.state_names.index(checks.one_of("state", name, problem.state_names))
        low, high = mean[:, i] - 2 * sd[:, i], mean[:, i] + 2 * sd[:, i]
        if name in trials.channel_names:
            samples = trials.observed[trial, :, trials.channel_names.index(name)]
            ax.plot(time, samples, ".", color=BLUE, markersize=4, label="recorded")
        ax.fill_between(time, low, high, color=ORANGE, alpha=0.25, linewidth=0)
        ax.plot(time, mean[:, i], "--", color=ORANGE, label="inferred belief ± 2 SD")
        if trials.beliefs is not None:
            ax.plot(time, trials.beliefs[trial, :, i], ":", color=GREEN, label="true belief")
        ax.set_title(with_unit(name, problem.state_units[i]), fontsize=10)
        clean(ax)
    finish_grid(figure, axes, len(names))
    return figure


def plot_costs(policy: Policy) -> Figure:
    """Draw how the expected cost settled: its distance from the final one after each iteration."""
    costs = np.asarray(policy.iteration_costs)[: int(policy.iterations)]
    final = float(policy.expected_cost)
    distance = (costs - final) / abs(final) if final else costs
    iteration = np.arange(1, len(costs) + 1)
    figure = Figure(figsize=(4.2, 2.8), layout="constrained")
    ax = figure.subplots()
    floor = np.finfo(float).eps
    ax.axhline(floor, color=GREY, linewidth=0.5)
    ax.plot(iteration, np.maximum(np.abs(distance), floor), color=BLUE, linewidth=1.2)
    for below, face, label in ((False, BLUE, "above"), (True, "white", "below")):
        chosen = (distance < 0) == below
        if chosen.any():
            ax.plot(
                iteration[chosen],
                np.maximum(np.abs(distance[chosen]), floor),
                "o",
                color=BLUE,
                markerfacecolor=face,
                label=f"{label} the final cost",
            )
    ax.set_yscale("log")
    ax.set_xlabel("iteration")
    ax.set_ylabel("relative distance")
    ax.set_title(f"expected cost {final:.6g}", fontsize=10)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(frameon=False, fontsize=8)
    clean(ax)
    return figure


def _varies(trials: Trials, name: str) -> bool:
    samples = np.asarray(trials.observed[:, :, trials.channel_names.index(name)])
    return bool(np.nanmax(samples) > np.nanmin(samples))
