"""The paper's baselines: plain LQG fitted to reaches with signal-dependent noise."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from motorcost.experiments import fig2ef
from motorcost.experiments.declare import Experiment, Number, Settings, Sweep, Tables
from motorcost.experiments.drawing import distributions
from motorcost.experiments.measures import log_errors, rmse
from motorcost.experiments.reaches import LABELS, TRUTH, recovering
from motorcost.fitting.baselines import with_average_noise, without_signal_noise
from motorcost.model.problem import Problem
from motorcost.report.page import Picture
from motorcost.tasks import reaching

# The paper's code adds this variance to every state at every step. Plain LQG of a reach has no
# noise, so that without it no recorded reach would be possible.
JITTER = 1e-7
NAMES = {"reaching-grid": "our model", "plain-lqg": "plain LQG", "average-lqg": "average noise"}
PAPER = {"reaching-grid": 0.027, "plain-lqg": 1.766, "average-lqg": 0.702}


def plain_lqg(effort: Any, velocity: Any, force: Any) -> Problem:
    """A reach without signal-dependent noise, but with the variance `JITTER` in every state."""
    problem = without_signal_noise(reaching)(effort=effort, velocity=velocity, force=force)
    return problem.replace(V=jnp.sqrt(JITTER) * jnp.eye(5, 4))


def average_lqg(
    effort: Any, velocity: Any, force: Any, true_effort: Any, true_velocity: Any, true_force: Any
) -> Problem:
    """A reach with additive motor noise of the mean strength of the true agent's noise."""
    truth = {"effort": true_effort, "velocity": true_velocity, "force": true_force}
    return with_average_noise(reaching, at=truth)(effort=effort, velocity=velocity, force=force)


def sweeps(at: Settings) -> list[Sweep]:
    """The fits of Figure 2 E, and fits of the two baselines to the same kind of data."""
    plans = list(fig2ef.sweeps(at))
    for name, fitted in (("plain-lqg", plain_lqg), ("average-lqg", average_lqg)):
        recovery = recovering(at, fitted=fitted)
        cells = fig2ef.cells(at)[:: at["every"]]
        plans.append(Sweep(name, recovery, cells, at["repetitions"], batch_size=at["batch_size"]))
    return plans


def numbers(at: Settings, tables: Tables) -> Sequence[Number]:
    """The error over all parameters."""
    rows = []
    for name, label in NAMES.items():
        ours, error = rmse(log_errors(tables[name], list(TRUTH)))
        note = fig2ef.RANGE
        if name != "reaching-grid":
            stuck = tables[name]["at_bounds"].astype(bool).mean()
            note = (
                "The paper does not state how it measured the average noise, over which true "
                f"costs, nor between which bounds it searched ({stuck:.0%} of our fits by {label} "
                "end at theirs)."
            )
        rows.append(Number(f"RMSE of log10, {label}", ours, error, PAPER[name], note))
    return rows


def draw(at: Settings, tables: Tables) -> Sequence[Picture]:
    """The distribution of the errors of each model, overall and by parameter."""
    errors = {
        label: np.sqrt((log_errors(tables[name], list(TRUTH)) ** 2).mean(axis=1))
        for name, label in NAMES.items()
    }
    paper = {label: PAPER[name] for name, label in NAMES.items()}
    figure = distributions(errors, "RMSE (log10)", paper)
    by_parameter = {
        f"{LABELS[cost].split()[-1]}\n{label}": np.abs(log_errors(tables[name], list(TRUTH))[:, k])
        for name, label in NAMES.items()
        for k, cost in enumerate(TRUTH)
    }
    return [
        Picture(figure, "Errors of our model and of the baselines", "errors"),
        Picture(
            distributions(by_parameter, "error (log10)"), "The same by parameter", "parameters"
        ),
    ]


EXPERIMENT = Experiment(
    name="baselines",
    part="Section 4.1 and appendix, baselines",
    title="Without signal-dependent noise",
    about="The reaches of Figure 2 E, fitted by plain LQG: without signal-dependent noise, and "
    "with steady noise as strong as the true agent's is on average.",
    scales={
        scale: {**settings, "every": {"smoke": 4, "laptop": 5, "paper": 1}[scale]}
        for scale, settings in fig2ef.EXPERIMENT.scales.items()
    },
    sweeps=sweeps,
    numbers=numbers,
    draw=draw,
    deviations=(
        f"Plain LQG of a reach has no noise, and no data set is possible. As in the paper's code, "
        f"each state gets a variance of {JITTER:g} per step; here this is a stated assumption.",
        "The average noise is exact, from the moments of the true agent; the paper's was "
        "estimated from simulated trajectories.",
        "At laptop scale the baselines are fitted at every fifth cell of the grids.",
    ),
)
