"""Figure 2 D: what errors of the costs do to movements."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from motorcost.experiments.declare import Experiment, Number, Settings, Sweep, Tables
from motorcost.experiments.reaches import STATES, TRUTH, moved
from motorcost.model.moments import moments
from motorcost.model.solver import solve
from motorcost.plots.style import BLUE, GREEN, GREY, ORANGE, clean, legend_above, with_unit
from motorcost.report.page import Picture
from motorcost.tasks import reaching

RMSES = (0.016, 0.1, 0.5, 1.0)
COLOURS = dict(zip(RMSES, (BLUE, GREEN, ORANGE, "#CC79A7"), strict=True))
# The number of directions of errors that are drawn.
DRAWN = 12


def mean_trajectory(errors: Any) -> Any:
    """The mean states over time of an agent whose costs have these errors of their log10."""
    problem = reaching(**moved(errors))
    return moments(problem, solve(problem)).state_mean


def error_of(key: Any, rmse: Any) -> Any:
    """Errors with a given root mean square, in a random direction."""
    direction = jax.random.normal(key, (len(TRUTH),))
    return rmse * jnp.sqrt(len(TRUTH)) * direction / jnp.linalg.norm(direction)


def distance(key: Any, rmse: Any) -> dict[str, Any]:
    """The root mean square over time of the difference between the mean movement at costs with
    such errors and the true mean movement, by state."""
    differences = mean_trajectory(error_of(key, rmse)) - mean_trajectory(jnp.zeros(len(TRUTH)))
    root = jnp.sqrt((differences**2).mean(axis=0))
    return {name: root[i] for i, name in enumerate(STATES)}


def sweeps(at: Settings) -> list[Sweep]:
    """Random directions at each size of error."""
    over = {"rmse": list(RMSES)}
    batch_size = at["directions"] * len(RMSES)
    return [
        Sweep(
            "reaching-errors", distance, over, at["directions"], call="vmap", batch_size=batch_size
        )
    ]


def numbers(at: Settings, tables: Tables) -> Sequence[Number]:
    """The mean difference of positions at each size of error."""
    table = tables["reaching-errors"]
    rows = []
    for size in RMSES:
        mm = 1000 * table.loc[table["rmse"] == size, "position"]
        error = mm.std() / np.sqrt(len(mm))
        title = f"RMSE {size:g}: root mean square difference of the mean position, mm"
        rows.append(Number(title, float(mm.mean()), float(error)))
    return rows


def draw(at: Settings, tables: Tables) -> Sequence[Picture]:
    """Mean movements at errors of each size, in random directions."""
    problem = reaching(**TRUTH)
    keys = jax.random.split(jax.random.key(at.get("seed", 0)), DRAWN)
    errors = jnp.stack([jax.vmap(lambda key, s=s: error_of(key, s))(keys) for s in RMSES])
    errors = errors.reshape(-1, len(TRUTH))
    flat = jnp.concatenate([errors, jnp.zeros((1, len(TRUTH)))])
    means = np.asarray(jax.jit(jax.vmap(mean_trajectory))(flat))
    figure = Figure(figsize=(9.6, 2.8), layout="constrained")
    for ax, (i, name) in zip(figure.subplots(1, 3), enumerate(STATES), strict=True):
        for k, size in reversed(list(enumerate(RMSES))):
            lines = means[k * DRAWN : (k + 1) * DRAWN, :, i].T
            ax.plot(problem.times, lines, color=COLOURS[size], lw=0.8, alpha=0.7)
            ax.plot([], [], color=COLOURS[size], label=f"RMSE {size:g}")
        ax.plot(problem.times, means[-1, :, i], "--", color="black", lw=1.5, label="truth")
        ax.set_title(with_unit(name, problem.state_units[i]), fontsize=10)
        ax.set_xlabel("time (s)")
        ax.axhline(0, color=GREY, lw=0.4)
        clean(ax)
    legend_above(figure, ax)
    return [Picture(figure, "Mean movements at parameter errors of several sizes", "means")]


EXPERIMENT = Experiment(
    name="fig2d",
    part="Figure 2 D",
    title="What errors of the costs do to movements",
    about="All three costs are off by a root mean square error of log10, in random directions. "
    "Drawn: the mean movement, exactly. Measured: how far it is from the true one.",
    scales={
        "smoke": {"directions": 4},
        "laptop": {"directions": 100},
        "paper": {"directions": 1_000},
    },
    sweeps=sweeps,
    numbers=numbers,
    draw=draw,
    deviations=(
        "The paper shows one movement for each size of error and does not state in which "
        "direction its costs were off; here there are many directions.",
    ),
)
