"""Whether posteriors of the paper's tasks contain the truth as often as they say."""

from collections.abc import Sequence

import jax
import numpy as np
from matplotlib.figure import Figure

from motorcost.experiments.declare import Experiment, Number, Settings, Sweep, Tables
from motorcost.experiments.reaches import CAMERA, TRUTH
from motorcost.model.observer import ObserverSpec
from motorcost.plots.style import COLOURS, GREY, clean
from motorcost.posterior.calibrated import Calibration
from motorcost.posterior.calibration import RANKED, CalibrationSet, chosen_priors
from motorcost.report.page import Picture
from motorcost.tasks import random_problem, reaching, saccade
from motorcost.tasks.declarations import Task

# The tasks by the names of their sweeps: what they are called, what is recorded (None: all states
# without noise), and what is inferred.
CASES: dict[str, tuple[str, ObserverSpec | None, tuple[str, ...]]] = {
    "calibration_saccade": ("saccade, all states", None, ("effort",)),
    "calibration_random": ("random problem, all states", None, ("effort_1", "effort_2")),
    "calibration_positions": ("reaching, positions", CAMERA, tuple(TRUTH)),
    "calibration_reaching": ("reaching, all states", None, tuple(TRUTH)),
}
LEVELS = (0.5, 0.95)
METHOD = "smc"
DRAWS = 640


def _task(name: str) -> Task:
    if name == "calibration_random":
        return random_problem(jax.random.key(0))
    return saccade if name == "calibration_saccade" else reaching


def sweeps(at: Settings) -> list[Sweep]:
    """One for each task, of data sets with parameters from the usual priors."""
    found = []
    for name, (_, observer, free) in CASES.items():
        data_set = CalibrationSet(
            task=_task(name),
            priors=tuple(chosen_priors(_task(name), free, observer).items()),
            n_trials=at["trials"],
            n_draws=DRAWS,
            method=METHOD,
            observer=observer,
            fixed=(),
        )
        found.append(Sweep(name, data_set, {"data_set": list(range(at["sets"]))}, call="each"))
    return found


def calibrations(at: Settings, tables: Tables) -> dict[str, Calibration]:
    """By what each task is called, where the true values lie."""
    return {
        title: Calibration(
            table=tables[name],
            names=free,
            n_ranks=RANKED + 1,
            task=title,
            priors=dict.fromkeys(free, ""),
            n_trials=at["trials"],
            method=METHOD,
        )
        for name, (title, _, free) in CASES.items()
    }


def numbers(at: Settings, tables: Tables) -> Sequence[Number]:
    """For each parameter of each task: whether ranks are uniform, and coverage."""
    rows = []
    for title, found in calibrations(at, tables).items():
        coverage = [found.coverage(level) for level in LEVELS]
        for name, p in found.p_values.items():
            rows.append(Number(f"chi-square p of the ranks of {name}, {title}", p))
            rows += [
                Number(
                    f"{name} within its {100 * level:g} % interval, fraction, {title}",
                    *of_level[name],
                )
                for level, of_level in zip(LEVELS, coverage, strict=True)
            ]
        if found.doubts:
            rows[-1] = Number(
                rows[-1].name,
                rows[-1].ours,
                rows[-1].error,
                note=f"In {title}: {'; '.join(found.doubts)}.",
            )
    return rows


def draw(at: Settings, tables: Tables) -> Sequence[Picture]:
    """The distribution of ranks in each task, less the uniform one, with bands of chance."""
    found = calibrations(at, tables)
    figure = Figure(figsize=(2.6 * len(found), 2.8), layout="constrained")
    for ax, (title, of_task) in zip(
        np.ravel(figure.subplots(1, len(found), sharey=True)), found.items(), strict=True
    ):
        places = np.arange(1, of_task.n_ranks + 1) / of_task.n_ranks
        band = of_task.ecdf_band()
        ax.fill_between(places, -band, band, color=GREY, alpha=0.25, lw=0)
        for name, colour in zip(of_task.names, COLOURS, strict=False):
            ax.plot(places, of_task.ecdf_differences(name), color=colour, lw=1.4, label=name)
        ax.axhline(0, color=GREY, lw=0.8)
        ax.set_title(title, fontsize=9)
        ax.set_xlabel("rank of the true value (fraction)", fontsize=8)
        ax.legend(fontsize=7, frameon=False, loc="upper right")
        clean(ax)
    figure.axes[0].set_ylabel("share of data sets, less expected", fontsize=8)
    alt = "Distribution of the ranks of true values among draws of their posteriors, by task"
    return [Picture(figure, alt, "ranks")]


EXPERIMENT = Experiment(
    name="calibration",
    part="Posteriors",
    title="Calibration of posteriors",
    about="Parameters are drawn from log-normal priors around the defaults of each task (SD 0.5 of "
    "the logarithm), trials are simulated with them, and the posterior is sampled by sequential "
    f"Monte Carlo ({DRAWS} draws). Measured: whether the rank of the true value among {RANKED} "
    "draws is uniform (chi-square test), and how often central intervals contain the true value. "
    "The error of a fraction is the one that it has if intervals are right. Drawn: the share of "
    "data sets up to each rank, less the expected one; 95 % of right calibrations stay within the "
    "band everywhere.",
    scales={
        "smoke": {"sets": 10, "trials": 2},
        "laptop": {"sets": 40, "trials": 20},
        "paper": {"sets": 400, "trials": 50},
    },
    sweeps=sweeps,
    numbers=numbers,
    draw=draw,
    deviations=(
        "The question is ours: the paper has maxima of the likelihood and no posteriors.",
        "At laptop scale there are 40 data sets of 20 trials for each task, so that a fraction of "
        "0.5 has an error of 0.08.",
        "Positions of reaches are recorded with noise of 1 mm. The random problem is the one of "
        "seed 0.",
    ),
)
