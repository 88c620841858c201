"""Figure 2 C: what the agent believed, from noisy positions alone."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from motorcost.experiments.declare import Experiment, Number, Settings, Sweep, Tables
from motorcost.experiments.reaches import CAMERA, STATES, TRUTH, reaches
from motorcost.fitting.estimate import fit
from motorcost.inference.beliefs import track_beliefs
from motorcost.plots import plot_beliefs
from motorcost.report.page import Picture
from motorcost.tasks import reaching


def tracked(key: Any, data_seed: int, n_trials: int, n_starts: int) -> dict[str, Any]:
    """Infer costs and beliefs from positions, and compare the beliefs with the true ones."""
    trials = reaches(n_trials, data_seed, CAMERA)
    found = fit(reaching, trials, list(TRUTH), observer=CAMERA, n_starts=n_starts, key=key)
    beliefs = found.beliefs()
    assert trials.beliefs is not None
    row: dict[str, Any] = {f"{name}_found": value for name, value in found.estimates.items()}
    for i, name in enumerate(STATES):
        variance = np.asarray(beliefs.cov[:, :, i, i])
        error = np.asarray(beliefs.mean[:, :, i] - trials.beliefs[:, :, i])
        uncertain = variance > 1e-12 * variance.max()  # at first the belief is certain
        z = error[uncertain] / np.sqrt(variance[uncertain])
        row[f"{name}_error"] = np.sqrt(np.mean(error**2))
        row[f"{name}_range"] = np.ptp(np.asarray(trials.beliefs[:, :, i]))
        row[f"{name}_within"] = np.mean(np.abs(z) < 2)
    return row


def sweeps(at: Settings) -> list[Sweep]:
    """Data sets with a seed of their own."""
    over = {
        "data_seed": [1000 * at.get("seed", 0) + i for i in range(at["data_sets"])],
        "n_trials": [at["trials"]],
        "n_starts": [at["starts"]],
    }
    return [Sweep("reaching-beliefs", tracked, over, call="each")]


def numbers(at: Settings, tables: Tables) -> Sequence[Number]:
    """The error of the inferred beliefs, and the coverage of their standard deviations."""
    table = tables["reaching-beliefs"]
    table = table[table["failed"] == ""]
    rows = []
    for name in STATES:
        relative = table[f"{name}_error"] / table[f"{name}_range"]
        within = table[f"{name}_within"]
        root = np.sqrt(max(len(table), 1))
        rows += [
            Number(f"{name}: RMS error of the belief, of its range", float(relative.mean())),
            Number(
                f"{name}: true belief within 2 SD, fraction",
                float(within.mean()),
                float(within.std() / root) if len(table) > 1 else None,
            ),
        ]
    return rows


def draw(at: Settings, tables: Tables) -> Sequence[Picture]:
    """One trial of the first data set."""
    row = tables["reaching-beliefs"].iloc[0]
    found: dict[str, Any] = {name: float(row[f"{name}_found"]) for name in TRUTH}
    problem = reaching(**found)
    trials = reaches(at["trials"], int(row["data_seed"]), CAMERA)
    beliefs = jax.jit(lambda data: track_beliefs(problem, data, observer=CAMERA(problem)))(trials)
    figure = plot_beliefs(beliefs, trials, problem, trial=1, states=STATES)
    return [Picture(figure, "An agent's beliefs in one reach, true and inferred", "beliefs")]


EXPERIMENT = Experiment(
    name="fig2c",
    part="Figure 2 C",
    title="Beliefs, tracked from noisy positions",
    about="20 reaches of which only the position is recorded, with noise. The costs are inferred, "
    "then what the agent believed about position, velocity and force at each time, given the "
    "samples up to then. Measured: how far that is from what the simulated agent did believe.",
    scales={
        "smoke": {"data_sets": 1, "trials": 20, "starts": 2},
        "laptop": {"data_sets": 10, "trials": 20, "starts": 10},
        "paper": {"data_sets": 100, "trials": 20, "starts": 10},
    },
    sweeps=sweeps,
    numbers=numbers,
    draw=draw,
    deviations=(
        "The paper does not state the noise of the recording: here an SD of 1 mm.",
        "The paper's code draws the prediction for the next step under the name of the belief; "
        "here it is the belief itself, given the samples up to the same time.",
        "The paper shows one trial; the fractions are our check.",
    ),
)
