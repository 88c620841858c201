"""The demonstration: simulate, write a file, fit it back, and compare with the truth."""

import math
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

import motorcost as mc
from motorcost.errors import InputError
from motorcost.io import check_folder, write_csv
from motorcost.report import write_fit
from motorcost.study.analysis import Analysis, analyse
from motorcost.study.settings import Study

TRUTH: dict[str, Any] = {"effort": 1e-5, "velocity": 0.2, "force": 0.02}
NOISE = 1e-3  # of the camera, in metres


def run(
    folder: Path,
    n_trials: int,
    seed: int = 0,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> tuple[Analysis, Path]:
    """Simulate reaches, write them and a study of them into a folder, and carry the study out.

    The folder then holds `trials.csv`, `study.toml` and the results of the fit. Returns the
    analysis and the path of the report.
    """
    if n_trials < 20:
        raise InputError(f"trials must be at least 20, got {n_trials}")
    check_folder(folder)
    problem = mc.tasks.reaching(**TRUTH)
    observer = mc.observe(problem, ["position"], noise=NOISE)
    trials = mc.simulate(
        problem, mc.solve(problem), n_trials=n_trials, key=jax.random.key(seed), observer=observer
    )
    folder.mkdir(exist_ok=True)
    write_csv(trials.with_conditions(target=0.1), folder / "trials.csv")
    with mc.io.written_whole(folder / "study.toml") as draft:
        draft.write_text(_study(n_trials, seed), "utf-8")
    analysis = analyse(Study.read(folder / "study.toml"), progress=progress)
    command = f"motorcost demo --trials {n_trials} --seed {seed}"
    return analysis, write_fit(analysis, folder, TRUTH, command=command)


def against_truth(analysis: Analysis) -> list[str]:
    """A table with a line for each parameter: true value, estimate, and their difference in
    standard errors on a log scale."""
    fit = analysis.fit
    lines = [f"{'parameter':<12}{'truth':>10}{'estimate':>12}{'std. error':>12}{'difference':>12}"]
    for name, truth in TRUTH.items():
        value, error = fit.estimates[name], fit.standard_errors[name]
        difference = math.log(value / truth) / fit.log_standard_errors[name]
        lines.append(f"{name:<12}{truth:>10.4g}{value:>12.4g}{error:>12.2g}{difference:>+9.2f} SE")
    return lines


def again(folder: Path) -> str:
    """The command that fits the trials of a demonstration once more."""
    return f"motorcost fit {shlex.quote(str(folder / 'study.toml'))} -o fit/"


def _study(n_trials: int, seed: int) -> str:
    return f"""\
# {n_trials} simulated reaches, recorded by a camera. The true values are {TRUTH}.
title = "motorcost: a demonstration"

[data]
file = "trials.csv"
units = {{ position = "m", target = "m" }}

[model]
task = "reaching"

[free]
effort = "usual"
velocity = "usual"
force = "usual"

[observer]
states = ["position"]
noise = {NOISE}

[fit]
seed = {seed}
"""
