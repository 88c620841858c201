"""Pictures of behaviour and of policies. Each function returns a matplotlib `Figure`."""

from collections.abc import Sequence

import numpy as np
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


def plot_trials(
    trials: Trials, channels: Sequence[str] | None = None, single_trials: int = 30
) -> Figure:
    """What was recorded, over time: mean over trials, the middle 95 % of them, and a few.

    One panel for each channel that is not constant, or for those named.
    """
    if len(trials) == 0:
        raise InputError("there are no trials to draw")
    names = [name for name in trials.channel_names if _moves(trials, name)]
    if channels is not None:
        checks.labels("channels", channels, len(channels), "channel")
        names = list(channels)
    if not names:
        raise InputError("there are no channels to draw")
    figure, axes = grid(len(names))
    time = np.asarray(trials.times)
    for ax, name in zip(axes.flat, names, strict=False):
        i = trials.channel_names.index(checks.one_of("channel", name, trials.channel_names))
        samples = np.asarray(trials.observed[:, :, i])
        seen = ~np.isnan(samples)
        some = seen.any(axis=0)  # a recording slower than the model has steps without samples
        low, high = np.nanquantile(samples[:, some], [0.025, 0.975], axis=0)
        ax.fill_between(
            time[some], low, high, color=BLUE, alpha=0.2, linewidth=0, label="middle 95 %"
        )
        for k, (one, there) in enumerate(zip(samples, seen, strict=True)):
            if k == single_trials:
                break
            label = "single trials" if k == 0 else None
            ax.plot(time[there], one[there], color=GREY, alpha=0.4, linewidth=0.6, label=label)
        mean = np.nanmean(samples[:, some], axis=0)
        ax.plot(time[some], mean, color=BLUE, linewidth=2, label="mean")
        ax.set_title(with_unit(name, trials.channel_units[i]), fontsize=10)
        clean(ax)
    finish_grid(figure, axes, len(names))
    return figure


def plot_gains(policy: Policy, states: Sequence[str] | None = None) -> Figure:
    """The gains over time: how controls answer the estimated states (L, upper rows) and how
    estimates answer the senses (K, lower rows). One column for each state, six at most unless
    `states` names them.
    """
    p = policy.believed
    names = list(p.state_names[:6] if states is None else states)
    if not names:
        raise InputError("there are no states to draw")
    at = [p.state_names.index(checks.one_of("state", name, p.state_names)) for name in names]
    rows = [(f"L: {name}", np.asarray(policy.L[:, i])) for i, name in enumerate(p.control_names)]
    rows += [(f"K: {name}", np.asarray(policy.K[:, :, j])) for j, name in enumerate(p.sense_names)]
    time = np.asarray(p.times[:-1])
    figure = Figure(figsize=(1.9 * len(names) + 0.6, 1.5 * len(rows) + 0.4), layout="constrained")
    axes = figure.subplots(len(rows), len(names), squeeze=False, sharex=True)
    for row, (label, gains) in enumerate(rows):
        color = BLUE if label.startswith("L") else ORANGE
        for column, (name, i) in enumerate(zip(names, at, strict=True)):
            ax = axes[row, column]
            ax.axhline(0, color=GREY, linewidth=0.5)
            ax.plot(time, gains[:, i], color=color, linewidth=1.8)
            ax.ticklabel_format(style="sci", scilimits=(-2, 3), axis="y")
            clean(ax)
            if not gains[:, i].any():  # an axis of its own would only show noise about zero
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
    """What the agent believed in one trial, as far as the samples tell (mean ± 2 SD), with what
    was recorded and, for a simulated trial, what it truly believed. One panel for each state
    about which something is to be found out, or for those named.
    """
    checks.whole("trial", trial, 0, "which trial")
    if trial >= len(trials):
        raise InputError(f"there is no trial {trial}: there are {len(trials)}, from 0")
    mean = np.asarray(beliefs.mean[trial])
    sd = np.sqrt(np.maximum(np.diagonal(np.asarray(beliefs.cov[trial]), axis1=1, axis2=2), 0))
    varied = [name for i, name in enumerate(problem.state_names[:6]) if np.nanmax(sd[:, i]) > 0]
    names = list(varied if states is None else states)
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
    """How the expected cost settled: its distance from the final one after each sweep."""
    costs = np.asarray(policy.iteration_costs)[: int(policy.iterations)]
    final = float(policy.expected_cost)
    apart = (costs - final) / abs(final) if final else costs
    sweep = np.arange(1, len(costs) + 1)
    figure = Figure(figsize=(4.2, 2.8), layout="constrained")
    ax = figure.subplots()
    floor = np.finfo(float).eps
    ax.axhline(floor, color=GREY, linewidth=0.5)
    ax.plot(sweep, np.maximum(np.abs(apart), floor), color=BLUE, linewidth=1.2)
    for below, face, label in ((False, BLUE, "above"), (True, "white", "below")):
        these = (apart < 0) == below
        if these.any():
            ax.plot(
                sweep[these],
                np.maximum(np.abs(apart[these]), floor),
                "o",
                color=BLUE,
                markerfacecolor=face,
                label=f"{label} the final cost",
            )
    ax.set_yscale("log")
    ax.set_xlabel("sweep")
    ax.set_ylabel("relative distance")
    ax.set_title(f"expected cost {final:.6g}", fontsize=10)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(frameon=False, fontsize=8)
    clean(ax)
    return figure


def _moves(trials: Trials, name: str) -> bool:
    samples = np.asarray(trials.observed[:, :, trials.channel_names.index(name)])
    return bool(np.nanmax(samples) > np.nanmin(samples))
