"""Figure 4: saccades."""

from collections.abc import Sequence

import jax
import numpy as np
from matplotlib.figure import Figure

from motorcost.experiments.declare import Experiment, Number, Settings, Sweep, Tables
from motorcost.experiments.drawing import found_over_true
from motorcost.experiments.measures import log_errors, rmse
from motorcost.fitting.recovery import Recovery
from motorcost.model.simulate import simulate
from motorcost.model.solver import solve
from motorcost.plots import plot_trials
from motorcost.report.page import Picture
from motorcost.tasks import saccade

RANGE = (1e-5, 1e-1)


def sweeps(at: Settings) -> list[Sweep]:
    """Several data sets at each true effort."""
    recovery = Recovery(saccade, ["effort"], n_trials=at["trials"], n_starts=at["starts"])
    over = {"effort": np.geomspace(*RANGE, at["values"]).tolist()}
    return [Sweep("saccades", recovery, over, at["repetitions"], batch_size=at["batch_size"])]


def numbers(at: Settings, tables: Tables) -> Sequence[Number]:
    """Errors of the estimated efforts, and the fraction of large errors."""
    errors = log_errors(tables["saccades"], ["effort"])[:, 0]
    return [
        Number("RMSE of log10 effort", *rmse(errors)),
        Number("median of |log10 error|", float(np.median(np.abs(errors)))),
        Number(
            "estimates off by more than a factor of 2, fraction",
            float(np.mean(np.abs(errors) > np.log10(2))),
        ),
    ]


def draw(at: Settings, tables: Tables) -> Sequence[Picture]:
    """Simulated saccades, and estimated over true efforts."""
    problem = saccade()
    trials = simulate(problem, solve(problem), n_trials=100, key=jax.random.key(at.get("seed", 0)))
    figure = Figure(figsize=(4.4, 4.0), layout="constrained")
    table = tables["saccades"]
    found_over_true(figure.subplots(), table[table["failed"] == ""], "effort", "effort r")
    return [
        Picture(
            plot_trials(trials, ["angle", "velocity"], single_trials=20),
            "Simulated saccades",
            "saccades",
        ),
        Picture(figure, "Efforts found over true efforts: median and quantiles", "efforts"),
    ]


EXPERIMENT = Experiment(
    name="fig4",
    part="Figure 4",
    title="Saccades",
    about="Saccades from -10 to 10 degrees are simulated at a range of efforts, which are "
    "inferred. Drawn: median and quantiles of the estimates.",
    scales={
        "smoke": {"values": 3, "repetitions": 1, "trials": 10, "starts": 1, "batch_size": 3},
        "laptop": {"values": 20, "repetitions": 20, "trials": 100, "starts": 10, "batch_size": 40},
        "paper": {"values": 20, "repetitions": 100, "trials": 100, "starts": 10, "batch_size": 40},
    },
    sweeps=sweeps,
    numbers=numbers,
    draw=draw,
    deviations=(
        "The paper states neither the range of its 20 efforts nor a number for the error.",
        "The model is the variant of the paper's experiment: a step of 1.25 ms as in its text, "
        "signal-dependent noise sqrt(0.08), no delay (Crevecoeur & Kording's has one of 100 ms).",
    ),
)
