"""Figure 3: what recorded reaches cost, and whether the model moves as the recordings do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from motorcost.experiments.declare import Experiment, Number, Settings, Sweep, Tables
from motorcost.experiments.reaches import LABELS as COSTS
from motorcost.experiments.recorded_fits import SUPPORTS, USUAL_NOISE, Fitting
from motorcost.experiments.recorded_reaches import DT, SPEED, cut_out, recorded
from motorcost.model.problem import Problem
from motorcost.model.simulate import simulate
from motorcost.model.solver import solve
from motorcost.model.trials import Trials
from motorcost.plots.style import BLUE, GREEN, GREY, ORANGE, clean, legend_above, plain
from motorcost.report.page import Picture
from motorcost.tasks import reaching

if TYPE_CHECKING:
    import pandas as pd

LABELS = {**COSTS, "motor_noise": "motor noise", "recording_noise": "recording noise (m)"}
NOISES = {"fixed": f"motor noise {USUAL_NOISE:g}", "free": "motor noise free"}
COLOURS = {"fixed": ORANGE, "free": BLUE}


def sweeps(at: Settings) -> list[Sweep]:
    """Each subject, with motor noise as in the paper and free, and for each lead."""
    movements = recorded(at.get("data"))
    reaches = {lead: cut_out(movements, lead / 1000) for lead in at["leads"]}
    fitting = Fitting(
        reaches,
        at["starts"],
        at["points"],
        at["replicates"],
        at["trials"],
        tuple(at["profiled"]),
        at["baseline"],
    )
    people = reaches[at["leads"][0]].people[: at["subjects"]]
    over = {"subject": people, "noise": list(at["noises"]), "lead": list(at["leads"])}
    return [Sweep("fig3", fitting, over, call="each")]


def numbers(at: Settings, tables: Tables) -> Sequence[Number]:
    """Of the first subject, with the first lead: estimates, what is explained, what the checks
    say; with other leads, the effort; of all subjects, how many the model explains."""
    fine = _fine(tables)
    rows: list[Number] = []
    for row in _first(fine, at):
        model = f"{row['subject']}, {NOISES[row['noise']]}"
        for name, label in LABELS.items():
            if name != "motor_noise" or row["noise"] == "free":
                rows.append(_estimate(f"{label} ({model})", row, name))
        rows += [
            Number(f"R² of the mean course, position ({model})", row["r2_position"]),
            Number(f"R² of the mean course, velocity ({model})", row["r2_velocity"]),
        ]
        if np.isfinite(row["baseline"]):
            gain = (row["log_likelihood"] - row["baseline"]) / row["trials"]
            told = "log likelihood per trial above the baseline with average noise"
            rows.append(Number(f"{told} ({model})", gain))
        verdict = row["verdict"] or "The model misses nothing large."
        rows += [
            Number(f"variance of innovations, 1 if right ({model})", row["innovations_variance"]),
            Number(
                f"correlation of innovations, 0 if right ({model})",
                row["innovations_lag"],
                float(1 / np.sqrt(row["innovations_n"])),
            ),
            Number(
                f"samples in the band of 95 %, fraction ({model})", row["coverage"], note=verdict
            ),
        ]
    for row in _records(fine[fine["lead"] != at["leads"][0]]):
        if row["subject"] == fine["subject"].iloc[0]:
            model = f"{row['subject']}, {NOISES[row['noise']]}, lead {row['lead']} ms"
            effort = _estimate(f"{LABELS['effort']} ({model})", row, "effort")
            notes = (effort.note, row["verdict"] or "The model misses nothing large.")
            rows.append(replace(effort, note="; ".join(filter(None, notes))))
    for noise, its in _by_noise(fine[fine["lead"] == at["leads"][0]]):
        passed = float((its["verdict"] == "").mean())
        rows.append(
            Number(
                f"subjects in whom the model misses nothing large, fraction ({NOISES[noise]})",
                passed,
                note=f"of {len(its)}",
            )
        )
    return rows


def _estimate(name: str, row: Mapping[str, Any], parameter: str) -> Number:
    value, error = float(row[f"{parameter}_found"]), float(row[f"{parameter}_se"])
    low, high = float(row[f"{parameter}_low"]), float(row[f"{parameter}_high"])
    notes = [] if row["converged"] else ["the search did not converge"]
    if parameter in str(row["at_bounds"]).split(", ") or not error < 1:
        notes.append(f"weakly determined by the data: 95 % interval {low:.2g} to {high:.2g}")
    return Number(name, value, value * error if error < 1 else None, note="; ".join(notes))


def draw(at: Settings, tables: Tables) -> Sequence[Picture]:
    """The costs' likelihoods, movements beside simulated ones, and what depends on the lead and on
    the subject."""
    fine = _fine(tables)
    rows = _first(fine, at)
    if not rows:
        return []
    reaches = cut_out(recorded(at.get("data")), at["leads"][0] / 1000)
    trials = reaches.of(rows[0]["subject"], at["trials"])
    pictures = [
        Picture(
            _likelihoods(rows, at["points"]),
            "Negative log likelihood along each cost, with its estimate and interval",
            "likelihoods",
        ),
        Picture(
            _movements(rows, trials),
            "Position, velocity and acceleration: as recorded, and as simulated at the estimates",
            "movements",
        ),
    ]
    told = "Estimates with intervals, and the checks of the model, for each"
    usual = fine[fine["lead"] == at["leads"][0]]
    one = fine[fine["subject"] == rows[0]["subject"]]
    if one["lead"].nunique() > 1:
        pictures.append(Picture(_overview(one, "lead"), f"{told} lead before the cut", "leads"))
    if usual["subject"].nunique() > 1:
        pictures.append(Picture(_overview(usual, "subject"), f"{told} subject", "subjects"))
    return pictures


def _fine(tables: Tables) -> pd.DataFrame:
    table = tables["fig3"]
    return table[table["failed"] == ""]


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): it for name, it in row.items()} for row in table.to_dict("records")]


def _first(fine: pd.DataFrame, at: Settings) -> list[dict[str, Any]]:
    """The rows of the first subject, with the first lead."""
    rows = _records(fine[fine["lead"] == at["leads"][0]])
    return [row for row in rows if row["subject"] == rows[0]["subject"]]


def _by_noise(fine: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    kinds = dict.fromkeys(fine["noise"])
    return [(noise, fine[fine["noise"] == noise]) for noise in kinds]


def _likelihoods(rows: Sequence[Mapping[str, Any]], points: int) -> Figure:
    figure = Figure(figsize=(9.6, 2.6 * len(rows) + 0.3), layout="constrained")
    axes = figure.subplots(len(rows), len(COSTS), squeeze=False)
    for line, row in zip(axes, rows, strict=True):
        colour = COLOURS[row["noise"]]
        for ax, (name, label) in zip(line, COSTS.items(), strict=True):
            x = np.array([row[f"{name}_{i}_at"] for i in range(points)])
            y = np.array([row[f"{name}_{i}_nll"] for i in range(points)])
            y = np.where(np.isfinite(y), y, np.nan)  # where the policy does not settle
            y = y + row["log_likelihood"]
            ends = np.clip([row[f"{name}_low"], row[f"{name}_high"]], x.min(), x.max())
            if row["converged"]:
                ax.axvspan(*ends.tolist(), color=colour, alpha=0.12, lw=0, label="95 % interval")
            ax.plot(x, y, "o-", color=colour, ms=3, lw=1.5, label="others held")
            best = row[f"{name}_found"]
            ax.axvline(best, color=GREEN, ls=":", lw=1.5, label="estimate")
            # A curve that tells nothing should look flat; far away, it matters no more.
            top = np.clip(1.05 * np.nanmax(y), 5.0, 1000.0)
            ax.set_ylim(min(-0.02 * top, 1.05 * np.nanmin(y)), top)
            ax.set_xscale("log")
            ticks = np.geomspace(x.min(), x.max(), 5)[[0, 2, 4]]
            ax.set_xticks(ticks, [f"{tick:.1e}" for tick in ticks])
            ax.set_xticks([], minor=True)
            ax.set_xlabel(f"{label}: {best:.2g}", fontsize=9)
            clean(ax)
        line[0].set_ylabel("negative log likelihood\n(from its minimum)", fontsize=9)
        settled = "" if row["converged"] else " (the search did not converge)"
        title = f"{row['subject']}, {NOISES[row['noise']]}{settled}"
        line[0].set_title(plain(title), fontsize=9, loc="left")
    legend_above(figure, axes[-1, 0])
    return figure


def _movements(rows: Sequence[Mapping[str, Any]], trials: Trials) -> Figure:
    """A column of the data, and one of each fitted model; colours tell targets' distances."""
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
    for one in samples:
        there = np.flatnonzero(np.isfinite(one))
        course = [(there * DT, one[there])]
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
    for length, its in groupby(lengths):
        n = len(list(its))
        parts.append(jax.vmap(partial(make, length))(targets[done : done + n]))
        done += n
    problems = jax.tree.map(lambda *each: jnp.concatenate(each), *parts)
    return jax.vmap(play)(problems, jax.random.split(jax.random.key(0), len(lengths)))


def _overview(fine: pd.DataFrame, by: str) -> Figure:
    """Estimates with intervals, and checks, over a column."""
    checks = {
        "innovations_variance": ("variance of innovations", 1.0),
        "innovations_lag": ("correlation of innovations", 0.0),
        "coverage": ("in the band of 95 %", 0.95),
    }
    figure = Figure(figsize=(10.4, 5.2), layout="constrained")
    axes = figure.subplots(2, 4, squeeze=False, sharex=True)
    places = list(dict.fromkeys(fine[by]))
    places = sorted(places) if by == "lead" else places
    for shift, (noise, its) in zip((-0.12, 0.12), _by_noise(fine), strict=False):
        x = np.array([places.index(one) for one in its[by]]) + shift
        colour, label = COLOURS[noise], NOISES[noise]
        settled = its["converged"].to_numpy(bool)
        for ax, name in zip(axes.flat, LABELS, strict=False):
            ax.set_yscale("log")
            ax.yaxis.set_minor_formatter(NullFormatter())
            ax.set_title(LABELS[name], fontsize=9)
            if name == "motor_noise" and noise == "fixed":
                ax.axhline(USUAL_NOISE, color=colour, lw=0.8, ls="--")
                continue
            value = its[f"{name}_found"].to_numpy(float)
            ends = [its[f"{name}_{end}"].to_numpy(float) for end in ("low", "high")]
            low, high = (np.clip(end, SUPPORTS[name].low, SUPPORTS[name].high) for end in ends)
            ax.vlines(x[settled], low[settled], high[settled], color=colour, lw=2, alpha=0.5)
            for which, face, told in ((settled, colour, ""), (~settled, "none", ", not settled")):
                if which.any():
                    style = {"color": colour, "mfc": face, "ms": 4}
                    ax.plot(x[which], value[which], "o", label=label + told, **style)
        for ax, (name, (title, right)) in zip(
            axes.flat[len(LABELS) :], checks.items(), strict=True
        ):
            ax.plot(x, its[name], "o", color=colour, ms=4)
            ax.axhline(right, color=GREY, lw=0.8, ls="--")
            ax.set_title(title, fontsize=9)
    for ax in axes.flat:
        names = [plain(str(one)) for one in places]
        ax.set_xticks(range(len(places)), names, rotation=60 if by == "subject" else 0)
        ax.margins(x=0.15)
        clean(ax)
    for ax in axes.flat[: len(LABELS)]:  # whole decades: shorter ones may have no number on them
        low, high = np.log10(ax.get_ylim())
        ax.set_ylim(10 ** np.floor(low), 10 ** np.ceil(high))
    if by == "lead":
        for ax in axes[-1]:
            ax.set_xlabel("lead (ms)", fontsize=9)
    legend_above(figure, axes[0, 0])
    return figure


EXPERIMENT = Experiment(
    name="fig3",
    part="Figure 3",
    title="Recorded reaches",
    about="The partially observed reaching model is fitted to recorded reaches: positions only, "
    "velocity and force latent. Drawn: the negative log likelihood along each cost, and recorded "
    "movements beside movements simulated at the estimates. Measured besides: whether the "
    "model's predictions are off by no more than it says.",
    scales={
        "smoke": {
            "subjects": 1,
            "trials": 6,
            "leads": (30,),
            "noises": ("fixed",),
            "starts": 2,
            "points": 7,
            "replicates": 20,
            "profiled": (),
            "baseline": False,
        },
        "laptop": {
            "subjects": 3,
            "trials": 20,
            "leads": (30,),
            "noises": ("fixed", "free"),
            "starts": 6,
            "points": 15,
            "replicates": 40,
            "profiled": (),
            "baseline": True,
        },
        "paper": {
            "subjects": None,
            "trials": None,
            "leads": (30, 0, 60),
            "noises": ("fixed", "free"),
            "starts": 10,
            "points": 25,
            "replicates": 100,
            "profiled": tuple(COSTS),
            "baseline": True,
        },
    },
    sweeps=sweeps,
    numbers=numbers,
    draw=draw,
    deviations=(
        "The paper's recordings of a monkey (Flint et al. 2012, DREAM) may not be passed on. With "
        "them in the folder they are used, by a reader that was only tried on files made after "
        "the published description. Without them, people who point at targets on a screen stand "
        "in: a young person first, 30 ms between samples, three distances, all directions turned "
        "onto one line.",
        "The paper does not say how trials were cut, nor how many there were: here from 30 ms "
        f"before the last sample slower than {SPEED:g} m/s before the peak of speed, to the first "
        "one after it. The 30 ms (lead) matter a great deal: the model's muscle takes about as "
        "long before the hand moves. Simulated reaches that are cut without them give an "
        "effort of next to nothing and too much motor noise; so the largest scale runs other "
        "leads too. A movement that is cut where it is slow ends slowly: the weights of "
        "velocity and force are partly the cut's. "
        "Each trial's own duration is its horizon, its own distance to the target its target. "
        "Movements that end further than half of that distance from the target are left out.",
        "Recording noise is inferred. The paper does not state its own; positions of a real hand "
        "would contradict a model that records them without noise, or with the wrong one.",
        f"The paper holds motor noise at {USUAL_NOISE:g}. That is one of the rows ('fixed'); in "
        "the other motor noise is inferred too ('free').",
        "The pointing recordings jitter in fast movement and not at rest: recording noise of one "
        "size is a compromise, and innovations have heavy tails.",
        "A pixel of the pointing data is taken for 0.26 mm: the recordings do not state it.",
        "Searches follow gradients; the paper's were BOBYQA, without.",
        "At laptop scale three people are fitted, the 20 movements of each that are nearest to the "
        "median duration.",
    ),
    data=("flint2012", "pointing"),
)
