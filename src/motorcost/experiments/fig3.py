"""Figure 3: the costs of recorded reaches, and whether the model moves as the recordings do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from motorcost.experiments.declare import Experiment, Number, Settings, Sweep, Tables
from motorcost.experiments.reaches import LABELS as COSTS
from motorcost.experiments.recorded_drawing import (
    LABELS,
    NOISES,
    by_noise,
    likelihoods,
    movements,
    overview,
)
from motorcost.experiments.recorded_fits import USUAL_NOISE, Fitting
from motorcost.experiments.recorded_reaches import SPEED, cut_out, recorded
from motorcost.report.page import Picture

if TYPE_CHECKING:
    import pandas as pd

NOTHING_MISSED = "The model misses nothing large."


def sweeps(at: Settings) -> list[Sweep]:
    """Fits of each subject, with motor noise as in the paper and free, for each lead."""
    recordings = recorded(at.get("data"))
    reaches = {lead: cut_out(recordings, lead / 1000) for lead in at["leads"]}
    fitting = Fitting(
        reaches=reaches,
        starts=at["starts"],
        points=at["points"],
        replicates=at["replicates"],
        most=at["trials"],
        profiled=tuple(at["profiled"]),
        baseline=at["baseline"],
    )
    people = reaches[at["leads"][0]].people[: at["subjects"]]
    over = {"subject": people, "noise": list(at["noises"]), "lead": list(at["leads"])}
    return [Sweep("fig3", fitting, over, call="each")]


def numbers(at: Settings, tables: Tables) -> Sequence[Number]:
    """Of the first subject with the first lead, the estimates, what the model explains and what
    its checks find; with other leads, the effort; of all subjects, how many the model explains."""
    fine = _fine(tables)
    rows: list[Number] = []
    for row in _first(fine, at):
        rows += _numbers_of_fit(row)
    for row in _records(fine[fine["lead"] != at["leads"][0]]):
        if row["subject"] == fine["subject"].iloc[0]:
            model = f"{row['subject']}, {NOISES[row['noise']]}, lead {row['lead']} ms"
            effort = _estimate(f"{LABELS['effort']} ({model})", row, "effort")
            notes = (effort.note, row["verdict"] or NOTHING_MISSED)
            rows.append(replace(effort, note="; ".join(filter(None, notes))))
    for noise, fits in by_noise(fine[fine["lead"] == at["leads"][0]]):
        title = f"subjects in whom the model misses nothing large, fraction ({NOISES[noise]})"
        passed = float((fits["verdict"] == "").mean())
        rows.append(Number(title, passed, note=f"of {len(fits)}"))
    return rows


def _numbers_of_fit(row: Mapping[str, Any]) -> list[Number]:
    """The estimates of one fit, what the model explains, and what its checks find."""
    model = f"{row['subject']}, {NOISES[row['noise']]}"
    numbers = [
        _estimate(f"{label} ({model})", row, name)
        for name, label in LABELS.items()
        if name != "motor_noise" or row["noise"] == "free"
    ]
    numbers += [
        Number(f"R² of the mean course, position ({model})", row["r2_position"]),
        Number(f"R² of the mean course, velocity ({model})", row["r2_velocity"]),
    ]
    if np.isfinite(row["baseline"]):
        gain = (row["log_likelihood"] - row["baseline"]) / row["trials"]
        title = "log likelihood per trial above the baseline with average noise"
        numbers.append(Number(f"{title} ({model})", gain))
    verdict = row["verdict"] or NOTHING_MISSED
    return [
        *numbers,
        Number(f"variance of innovations, 1 if right ({model})", row["innovations_variance"]),
        Number(
            f"correlation of innovations, 0 if right ({model})",
            row["innovations_lag"],
            float(1 / np.sqrt(row["innovations_n"])),
        ),
        Number(f"samples in the band of 95 %, fraction ({model})", row["coverage"], note=verdict),
    ]


def _estimate(name: str, row: Mapping[str, Any], parameter: str) -> Number:
    value, error = float(row[f"{parameter}_found"]), float(row[f"{parameter}_se"])
    low, high = float(row[f"{parameter}_low"]), float(row[f"{parameter}_high"])
    notes = [] if row["converged"] else ["the search did not converge"]
    if parameter in str(row["at_bounds"]).split(", ") or not error < 1:
        notes.append(f"weakly determined by the data: 95 % interval {low:.2g} to {high:.2g}")
    return Number(name, value, value * error if error < 1 else None, note="; ".join(notes))


def draw(at: Settings, tables: Tables) -> Sequence[Picture]:
    """Likelihoods along each cost, recorded and simulated movements, and estimates by lead and
    subject."""
    fine = _fine(tables)
    rows = _first(fine, at)
    if not rows:
        return []
    reaches = cut_out(recorded(at.get("data")), at["leads"][0] / 1000)
    trials = reaches.of(rows[0]["subject"], at["trials"])
    pictures = [
        Picture(
            likelihoods(rows, at["points"]),
            "Negative log likelihood along each cost, with its estimate and interval",
            "likelihoods",
        ),
        Picture(
            movements(rows, trials),
            "Position, velocity and acceleration: as recorded, and as simulated at the estimates",
            "movements",
        ),
    ]
    alt = "Estimates with intervals, and the checks of the model, for each"
    usual = fine[fine["lead"] == at["leads"][0]]
    subject = fine[fine["subject"] == rows[0]["subject"]]
    if subject["lead"].nunique() > 1:
        pictures.append(Picture(overview(subject, "lead"), f"{alt} lead before the cut", "leads"))
    if usual["subject"].nunique() > 1:
        pictures.append(Picture(overview(usual, "subject"), f"{alt} subject", "subjects"))
    return pictures


def _fine(tables: Tables) -> pd.DataFrame:
    table = tables["fig3"]
    return table[table["failed"] == ""]


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def _first(fine: pd.DataFrame, at: Settings) -> list[dict[str, Any]]:
    """The rows of the first subject, with the first lead."""
    rows = _records(fine[fine["lead"] == at["leads"][0]])
    return [row for row in rows if row["subject"] == rows[0]["subject"]]


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
