"""Figure 2 A: simulated reaches."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from motorcost.experiments.declare import Experiment, Number, Settings, Sweep, Tables
from motorcost.experiments.reaches import STATES, TRUTH
from motorcost.model.simulate import simulate
from motorcost.model.solver import solve
from motorcost.plots import plot_trials
from motorcost.report.page import Picture
from motorcost.tasks import reaching


def costs_paid(key: Any, n_trials: int, **costs: Any) -> dict[str, Any]:
    """What the agent expects to pay, and what it paid on average."""
    problem = reaching(**costs)
    policy = solve(problem)
    paid = simulate(problem, policy, n_trials=n_trials, key=key).costs(problem).mean()
    return {"expected": policy.expected_cost, "paid": paid}


def sweeps(at: Settings) -> list[Sweep]:
    """Sets of trials at the paper's costs."""
    over = [{**TRUTH, "n_trials": at["trials"]}]
    return [Sweep("reaching-costs", costs_paid, over, at["repetitions"], call="each")]


def numbers(at: Settings, tables: Tables) -> Sequence[Number]:
    """The cost that was expected, and paid."""
    table = tables["reaching-costs"]
    error = table["paid"].std() / np.sqrt(len(table))
    return [
        Number("expected cost", float(table["expected"].iloc[0])),
        Number("cost paid, mean of simulated trials", float(table["paid"].mean()), float(error)),
    ]


def draw(at: Settings, tables: Tables) -> Sequence[Picture]:
    """Some of the trajectories."""
    problem = reaching(**TRUTH)
    trials = simulate(problem, solve(problem), n_trials=100, key=jax.random.key(at.get("seed", 0)))
    figure = plot_trials(trials, STATES, single_trials=20)
    return [Picture(figure, "Simulated reaches: position, velocity and force over time", "reaches")]


EXPERIMENT = Experiment(
    name="fig2a",
    part="Figure 2 A",
    title="Simulated reaches",
    about="Reaches are simulated at effort 1e-5, velocity 0.2 and force 0.02. Measured: the cost "
    "that the agent expects and the mean cost that it paid, which must agree.",
    scales={
        "smoke": {"trials": 1_000, "repetitions": 2},
        "laptop": {"trials": 10_000, "repetitions": 20},
        "paper": {"trials": 10_000, "repetitions": 100},
    },
    sweeps=sweeps,
    numbers=numbers,
    draw=draw,
    deviations=("The paper shows trajectories only; the costs are our check of the solver.",),
)
