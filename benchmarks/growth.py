"""Growth of time and memory of a value and gradient with trials, time steps and states.

    python benchmarks/growth.py [--quick] [-o FILE.json] [--draw FILE.svg]

Each size runs in a process of its own, whose peak memory is taken: Python, JAX, compilation and
data included. Reaching task, fully observed, the solver included; more states by delayed senses.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cases import FULL, QUICK, Scale
from motorcost.plots.style import BLUE, GREY, ORANGE, clean
from processes import child
from timing import machine

RESULTS = Path(__file__).parent / "results" / "growth.json"


def measure(scale: Scale) -> dict[str, Any]:
    """Seconds and peak bytes, by number of trials (at the usual T), by T (at the usual number of
    trials), and by the number of states (with few trials)."""
    short, long = (3, 5) if scale.once else (20, 60)
    sizes: dict[str, list[tuple[int, dict[str, int]]]] = {
        "trials": [(size, {"trials": size}) for size in scale.all_trials],
        "steps": [(size, {"steps": size}) for size in scale.all_steps],
        "states": [
            (5 + 3 * delay, {"delay": delay, "steps": long, "trials": short})
            for delay in scale.all_delays
        ],
    }
    found: dict[str, Any] = {"machine": machine()}
    for what, values in sizes.items():
        found[what] = []
        for size, options in values:
            measured = child(scale, "gradient", **options)
            found[what].append({"size": size, **measured})
            mebibytes = measured["peak_bytes"] / 2**20
            print(
                f"{what} {size:>7,}: {measured['seconds']:.4f} s, {mebibytes:.0f} MiB", flush=True
            )
    return found


def draw(found: dict[str, Any]) -> Figure:
    """Time and peak memory against all sizes, on logarithmic scales, with a slope of one; for
    states, with a slope of two."""
    figure = Figure(figsize=(9.5, 5), layout="constrained")
    axes = figure.subplots(2, 3, sharex="col", sharey="row")
    columns = {"trials": ("trials", 1), "steps": ("time steps T", 1), "states": ("states", 2)}
    for column, (what, (label, power)) in enumerate(columns.items()):
        rows = found[what]
        size = np.array([row["size"] for row in rows])
        seconds = np.array([row["seconds"] for row in rows])
        peak = np.array([row["peak_bytes"] for row in rows]) / 2**20
        data = np.array([row["data_bytes"] for row in rows]) / 2**20
        _panel(axes[0, column], size, seconds, BLUE, "value and gradient")
        # Through the largest size, where the constant cost of a call matters least.
        growing = seconds[-1] * (size / size[-1]) ** power
        name = "linear" if power == 1 else "quadratic"
        axes[0, column].plot(size, growing, color=GREY, linewidth=1, linestyle="--", label=name)
        _panel(axes[1, column], size, peak, ORANGE, "peak of the process")
        axes[1, column].plot(
            size, data, color=GREY, linewidth=1, linestyle=":", label="the data alone"
        )
        axes[1, column].set_xlabel(label)
    axes[0, 0].set_ylabel("time (s)")
    axes[1, 0].set_ylabel("memory (MiB)")
    for ax in (*axes[:, 0], axes[0, 2]):
        ax.legend(frameon=False, fontsize=8)
    return figure


def _panel(ax: Axes, size: np.ndarray, values: np.ndarray, color: str, label: str) -> None:
    ax.loglog(size, values, color=color, marker="o", markersize=4, linewidth=2, label=label)
    clean(ax)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure how time and memory grow.")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to test the script")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help="the JSON to write")
    parser.add_argument("--draw", type=Path, help="the figure to write")
    args = parser.parse_args(arguments)
    found = measure(QUICK if args.quick else FULL)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(found, indent=1) + "\n")
    print(f"wrote {args.output}")
    if args.draw:
        draw(found).savefig(args.draw)
        print(f"drew {args.draw}")


if __name__ == "__main__":
    main()
