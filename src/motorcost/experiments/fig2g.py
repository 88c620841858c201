"""Figure 2 G: more trials, smaller errors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from motorcost.experiments.declare import Experiment, Number, Settings, Sweep, Tables
from motorcost.experiments.drawing import log_axes
from motorcost.experiments.fig2ef import DIVERGENCE
from motorcost.experiments.measures import log_errors
from motorcost.experiments.reaches import TRUTH
from motorcost.fitting.recovery import Recovery
from motorcost.plots.style import BLUE, GREY, ORANGE, clean
from motorcost.report.page import Picture
from motorcost.tasks import reaching


def sweeps(at: Settings) -> list[Sweep]:
    """Data sets of several sizes at the paper's costs."""
    recovery = Recovery(reaching, list(TRUTH), n_starts=at["starts"], measure=DIVERGENCE)
    cells = [{**TRUTH, "n_trials": n} for n in at["trials"]]
    reps = at["repetitions"]
    return [
        Sweep(
            "reaching-trials",
            recovery,
            cells,
            reps,
            batch_size=at["batch_size"],
            static=("n_trials",),
        )
    ]


def numbers(at: Settings, tables: Tables) -> Sequence[Number]:
    """The rates at which errors decrease with the number of trials."""
    table = _with_errors(tables)
    sizes = sorted(at["trials"])
    few, many = sizes[: len(sizes) // 2 - 1], sizes[len(sizes) // 2 - 1 :]
    why = (
        "A maximum likelihood estimate converges as N^-0.5, and so do ours from some ten trials "
        "on. With fewer it is steeper: the paper's line may rest on few trials."
    )
    ranges = {
        "all numbers of trials": sizes,
        f"from {many[0]} trials on": many,
        f"up to {few[-1]} trials" if few else "": few,
    }
    rows = []
    for title, chosen in ranges.items():
        if len(chosen) > 1:
            rate = _rate(table[table["n_trials"].isin(chosen)], "error")
            rows.append(Number(f"rate of the RMSE, {title}", *rate, 0.78, why))
    rows.append(Number("rate of the KL divergence (exact moments)", *_rate(table, "kl_exact")))
    return rows


def draw(at: Settings, tables: Tables) -> Sequence[Picture]:
    """Errors over numbers of trials."""
    table = _with_errors(tables)
    figure = Figure(figsize=(7.6, 3.0), layout="constrained")
    columns = {
        "error": "RMSE (log10)",
        "kl": "symmetrised KL",
    }
    for ax, (column, label) in zip(figure.subplots(1, 2), columns.items(), strict=True):
        by = table.groupby("n_trials")[column]
        n = np.array(sorted(at["trials"]), float)
        median, low, high = by.median(), by.quantile(0.2), by.quantile(0.8)
        ax.fill_between(n, low, high, color=BLUE, alpha=0.25, lw=0, label="20 to 80 %")
        ax.plot(n, median, "o-", color=BLUE, ms=4, label="median")
        if column == "kl":
            exact = table.groupby("n_trials")["kl_exact"].median()
            ax.plot(n, exact, "s:", color=GREY, ms=3, label="exact, without simulating")
        power = 0.5 if column == "error" else 1.0
        line = median.iloc[-1] * (n / n[-1]) ** -power
        if column == "kl":
            line = exact.iloc[-1] * (n / n[-1]) ** -power
        ax.plot(n, line, "--", color=ORANGE, lw=1, label=f"N^-{power:g}")
        log_axes(ax)
        ax.set_xlabel("trials")
        ax.set_ylabel(label)
        ax.legend(frameon=False, fontsize=8)
        clean(ax)
    return [Picture(figure, "Errors and divergences over the number of trials", "rates")]


def _with_errors(tables: Tables) -> Any:
    table = tables["reaching-trials"]
    fine = table[table["failed"] == ""].copy()
    fine["error"] = np.sqrt((log_errors(table, list(TRUTH)) ** 2).mean(axis=1))
    return fine


def _rate(table: Any, column: str) -> tuple[float, float]:
    """Minus the slope of the log-log line through the medians, and its standard error by a
    bootstrap over repetitions."""
    rng = np.random.default_rng(0)
    groups = [np.asarray(part[column]) for _, part in table.groupby("n_trials")]
    n = np.log([float(n) for n, _ in table.groupby("n_trials")])

    def slope(parts: list[np.ndarray]) -> float:
        return float(-np.polyfit(n, np.log([np.median(part) for part in parts]), 1)[0])

    again = [slope([rng.choice(part, len(part)) for part in groups]) for _ in range(200)]
    return slope(groups), float(np.std(again))


EXPERIMENT = Experiment(
    name="fig2g",
    part="Figure 2 G",
    title="More trials, smaller errors",
    about="Data sets of different size at panel A's costs. Measured: the RMSE of the estimates, "
    "the symmetrised KL divergence between true and refitted movements, and the rates at which "
    "they fall: minus the slope of a line through the medians in a log-log plot.",
    scales={
        "smoke": {"trials": [5, 20], "repetitions": 3, "starts": 1, "batch_size": 3},
        "laptop": {
            "trials": [2, 5, 10, 20, 50, 100, 200, 500],
            "repetitions": 25,
            "starts": 10,
            "batch_size": 25,
        },
        "paper": {
            "trials": [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000],
            "repetitions": 100,
            "starts": 10,
            "batch_size": 25,
        },
    },
    sweeps=sweeps,
    numbers=numbers,
    draw=draw,
    deviations=(
        "The paper states neither its numbers of trials nor of repetitions.",
        "The paper's divergence is between simulated trajectories, which has a floor from "
        "sampling; the exact one, from the moments' recursion, has none.",
    ),
)
