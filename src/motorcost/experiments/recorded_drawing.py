"""The pictures of figure 3: likelihoods, movements, and estimates by subject or lead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from motorcost.experiments.reaches import LABELS as COSTS
from motorcost.experiments.recorded_fits import SUPPORTS, USUAL_NOISE
from motorcost.experiments.recorded_reaches import DT
from motorcost.model.problem import Problem
from motorcost.model.simulate import simulate
from motorcost.model.solver import solve
from motorcost.model.trials import Trials
from motorcost.plots.style import BLUE, GREEN, GREY, ORANGE, clean, legend_above, plain
from motorcost.tasks import reaching

if TYPE_CHECKING:
    import pandas as pd

LABELS = {**COSTS, "motor_noise": "motor noise", "recording_noise": "recording noise (m)"}
NOISES = {"fixed": f"motor noise {USUAL_NOISE:g}", "free": "motor noise free"}
COLOURS = {"fixed": ORANGE, "free": BLUE}


def by_noise(fine: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The rows with motor noise fixed and free, each with its name, in order of appearance."""
    kinds = dict.fromkeys(fine["noise"])
    return [(noise, fine[fine["noise"] == noise]) for noise in kinds]


def likelihoods(rows: Sequence[Mapping[str, Any]], points: int) -> Figure:
    """The negative log likelihood along each cost: one line of panels per fitted model."""
    figure = Figure(figsize=(9.6, 2.6 * len(rows) + 0.3), layout="constrained")
    axes = figure.subplots(len(rows), len(COSTS), squeeze=False)
    for panels, row in zip(axes, rows, strict=True):
        for ax, name in zip(panels, COSTS, strict=True):
            _likelihood(ax, row, name, points)
        panels[0].set_ylabel("negative log likelihood\n(from its minimum)", fontsize=9)
        not_converged = "" if row["converged"] else " (the search did not converge)"
        title = f"{row['subject']}, {NOISES[row['noise']]}{not_converged}"
        panels[0].set_title(plain(title), fontsize=9, loc="left")
    legend_above(figure, axes[-1, 0])
    return figure


def _likelihood(ax: Axes, row: Mapping[str, Any], name: str, points: int) -> None:
    """Draw the negative log likelihood of one fitted model along one cost."""
    colour = COLOURS[row["noise"]]
    x = np.array([row[f"{name}_{i}_at"] for i in range(points)])
    y = np.array([row[f"{name}_{i}_nll"] for i in range(points)])
    y = np.where(np.isfinite(y), y, np.nan)  # where the policy does not converge
    y = y + row["log_likelihood"]
    ends = np.clip([row[f"{name}_low"], row[f"{name}_high"]], x.min(), x.max())
    if row["converged"]:
        ax.axvspan(*ends.tolist(), color=colour, alpha=0.12, lw=0, label="95 % interval")
    ax.plot(x, y, "o-", color=colour, ms=3, lw=1.5, label="others held")
    best = row[f"{name}_found"]
    ax.axvline(best, color=GREEN, ls=":", lw=1.5, label="estimate")
    # A curve without information should look flat, and far from the minimum its height does not
    # matter any more: the axis spans at least 5 and at most 1000.
    top = np.clip(1.05 * np.nanmax(y), 5.0, 1000.0)
    ax.set_ylim(min(-0.02 * top, 1.05 * np.nanmin(y)), top)
    ax.set_xscale("log")
    ticks = np.geomspace(x.min(), x.max(), 5)[[0, 2, 4]]
    ax.set_xticks(ticks, [f"{tick:.1e}" for tick in ticks])
    ax.set_xticks([], minor=True)
    ax.set_xlabel(f"{COSTS[name]}: {best:.2g}", fontsize=9)
    clean(ax)


def movements(rows: Sequence[Mapping[str, Any]], trials: Trials) -> Figure:
    """One column of panels for the data and one per fitted model; colours show the distance of the
    target."""
    figure = Figure(figsize=(3.2 * (1 + len(rows)), 6.4), layout="constrained")
    axes = figure.subplots(3, 1 + len(rows), squeeze=False, sharex=True, sharey="row")
    targets = trials.conditions["target"]
    third = np.searchsorted(np.quantile(targets, [1 / 3, 2 / 3]), targets)
    colours = [(GREY, BLUE, ORANGE)[k] for k in third]
    titles = [f"{rows[0]['subject']}, recorded", *[f"model, {NOISES[r['noise']]}" for r in rows]]
    columns = [_courses(np.asarray(trials.observed)[:, :, 0])]
    columns += [_simulated(row, trials) for row in rows]
    for column, (title, courses) in enumerate(zip(titles, columns, strict=True)):
        for colour, course in zip(colours, courses, strict=True):
            for ax, (time, values) in zip(axes[:, column], course, strict=True):
                ax.plot(time, values, color=colour, lw=0.7, alpha=0.7)
        axes[0, column].set_title(plain(title), fontsize=9)
        axes[-1, column].set_xlabel("time (s)")
    for ax, label in zip(
        axes[:, 0], ("position (m)", "velocity (m/s)", "acceleration (m/s²)"), strict=True
    ):
        ax.set_ylabel(label, fontsize=9)
    for ax in axes.flat:
        clean(ax)
    return figure


Course = list[tuple[np.ndarray, np.ndarray]]  # times and values of position and its derivatives


def _courses(samples: np.ndarray) -> Iterator[Course]:
    """Of each trial: positions, and velocities and accelerations by finite differences."""
    for positions in samples:
        recorded = np.flatnonzero(np.isfinite(positions))
        course = [(recorded * DT, positions[recorded])]
        for _ in range(2):
            time, values = course[-1]
            course.append(((time[1:] + time[:-1]) / 2, np.diff(values) / np.diff(time)))
        yield course


def _simulated(row: Mapping[str, Any], trials: Trials) -> Iterator[Course]:
    """A movement at the estimates for each trial, with its own duration and target: the states
    themselves, as the paper shows them. The hand weighs 1 kg, so force is acceleration."""
    names = ("effort", "velocity", "force", "motor_noise")
    costs = {name: jnp.asarray(row[f"{name}_found"]) for name in names}
    order = np.argsort(trials.lengths, kind="stable")
    lengths = tuple(trials.lengths[order].tolist())
    states = _played(lengths, jnp.asarray(trials.conditions["target"][order]), costs)
    for i in np.argsort(order):
        yield [
            (np.arange(lengths[i]) * DT, np.asarray(states[i, : lengths[i], k])) for k in range(3)
        ]


@eqx.filter_jit
def _played(lengths: tuple[int, ...], targets: Array, costs: dict[str, Array]) -> Array:
    # One program for all lengths (which are sorted) and for both models: drawing stays cheap.
    def make(length: int, target: Array) -> Problem:
        return reaching(steps=length, target=target, dt=DT, **costs).padded(lengths[-1])

    def play(problem: Problem, key: Any) -> Any:
        states = simulate(problem, solve(problem), n_trials=1, key=key).states
        assert states is not None  # simulated trials have them
        return states[0]

    parts, done = [], 0
    for length, trials in groupby(lengths):
        n = len(list(trials))
        parts.append(jax.vmap(partial(make, length))(targets[done : done + n]))
        done += n
    problems = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)
    return jax.vmap(play)(problems, jax.random.split(jax.random.key(0), len(lengths)))


# By column, the title of its panel and the value that it has if the model is right.
_CHECKS = {
    "innovations_variance": ("variance of innovations", 1.0),
    "innovations_lag": ("correlation of innovations", 0.0),
    "coverage": ("in the band of 95 %", 0.95),
}


def overview(fine: pd.DataFrame, by: str) -> Figure:
    """Estimates with intervals, and the checks of the model, over the column `by`."""
    figure = Figure(figsize=(10.4, 5.2), layout="constrained")
    axes = figure.subplots(2, 4, squeeze=False, sharex=True)
    places = list(dict.fromkeys(fine[by]))
    places = sorted(places) if by == "lead" else places
    for shift, (noise, rows) in zip((-0.12, 0.12), by_noise(fine), strict=False):
        x = np.array([places.index(place) for place in rows[by]]) + shift
        for ax, name in zip(axes.flat, LABELS, strict=False):
            _estimates(ax, rows, x, name, noise)
        for ax, (name, (title, right)) in zip(
            axes.flat[len(LABELS) :], _CHECKS.items(), strict=True
        ):
            ax.plot(x, rows[name], "o", color=COLOURS[noise], ms=4)
            ax.axhline(right, color=GREY, lw=0.8, ls="--")
            ax.set_title(title, fontsize=9)
    for ax in axes.flat:
        names = [plain(str(place)) for place in places]
        ax.set_xticks(range(len(places)), names, rotation=60 if by == "subject" else 0)
        ax.margins(x=0.15)
        clean(ax)
    for ax in axes.flat[: len(LABELS)]:  # whole decades: shorter axes may have no number on them
        low, high = np.log10(ax.get_ylim())
        ax.set_ylim(10 ** np.floor(low), 10 ** np.ceil(high))
    if by == "lead":
        for ax in axes[-1]:
            ax.set_xlabel("lead (ms)", fontsize=9)
    legend_above(figure, axes[0, 0])
    return figure


def _estimates(ax: Axes, rows: pd.DataFrame, x: np.ndarray, name: str, noise: str) -> None:
    """Draw the estimates of one parameter with their intervals, at the places x."""
    colour = COLOURS[noise]
    ax.set_yscale("log")
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_title(LABELS[name], fontsize=9)
    if name == "motor_noise" and noise == "fixed":
        ax.axhline(USUAL_NOISE, color=colour, lw=0.8, ls="--")
        return
    converged = rows["converged"].to_numpy(bool)
    value = rows[f"{name}_found"].to_numpy(float)
    ends = [rows[f"{name}_{end}"].to_numpy(float) for end in ("low", "high")]
    low, high = (np.clip(end, SUPPORTS[name].low, SUPPORTS[name].high) for end in ends)
    ax.vlines(x[converged], low[converged], high[converged], color=colour, lw=2, alpha=0.5)
    for which, face, words in ((converged, colour, ""), (~converged, "none", ", not converged")):
        if which.any():
            style: dict[str, Any] = {"color": colour, "mfc": face, "ms": 4}
            ax.plot(x[which], value[which], "o", label=NOISES[noise] + words, **style)
