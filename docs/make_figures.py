"""Draw the figures that the documentation shows: `make figures`, or some of them by name, as in
`make figures ARGS="story gains"`."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from motorcost import tasks
from motorcost.data import kinematics
from motorcost.fitting.fitted import Fit
from motorcost.model.problem import Problem
from motorcost.plots.fits import draw_estimates
from motorcost.plots.style import BLUE, GREEN, GREY, ORANGE, new_figure, settings

FIGURES = Path(__file__).parent / "figures"
# The costs of simulated reaches.
TRUTH = {"effort": 1e-5, "velocity": 0.2, "force": 0.02}
# Seconds over which speeds are averaged.
SMOOTHED = 0.05
# Reaches in a curl field, by an agent that feels well where its hand is.
FIELD: dict[str, Any] = {
    "curl": 13.0,
    "mass": 3.0,
    "steps": 60,
    "sensory_noise": 0.1,
    "motor_noise": 0.2,
}


def main(names: Sequence[str]) -> None:
    """Draw the named figures, or all of them."""
    jax.config.update("jax_enable_x64", True)
    unknown = sorted(set(names) - set(DRAWN))
    if unknown:
        sys.exit(f"no figure is called {', '.join(unknown)}: there are {', '.join(DRAWN)}")
    FIGURES.mkdir(exist_ok=True)
    for name in names or DRAWN:
        with settings():
            figure = DRAWN[name]()
            figure.savefig(FIGURES / f"{name}.png", dpi=130)
        print(f"drew {FIGURES.name}/{name}.png")


def trials_figure(task: Callable[[], Problem]) -> Figure:
    """Simulated trials of a task."""
    import motorcost as mc

    problem = task()
    policy = mc.solve(problem)
    trials = mc.simulate(problem, policy, n_trials=100, key=jax.random.key(0))
    return trials.plot(single_trials=15)


def gains_figure() -> Figure:
    """The gains of a reach."""
    import motorcost as mc

    return mc.solve(mc.tasks.reaching()).plot()


def iterations_figure() -> Figure:
    """How the expected cost of a reach settled."""
    import motorcost as mc

    return mc.plots.plot_costs(mc.solve(mc.tasks.reaching()))


def camera_fit() -> Fit:
    """A fit to 100 reaches that a camera records, as in the README's commands."""
    import motorcost as mc

    problem = mc.tasks.reaching()
    camera = mc.ObserverSpec(["position"], noise=1e-3)
    trials = mc.simulate(
        problem, mc.solve(problem), n_trials=100, key=jax.random.key(0), observer=camera(problem)
    )
    return mc.fit(
        mc.tasks.reaching, trials, list(TRUTH), observer=camera, key=jax.random.key(0), n_starts=4
    )


def story_figure() -> Figure:
    """Movements in, costs out: recorded positions, the fitted model, and estimates."""
    import motorcost as mc

    fit = camera_fit()
    trials = fit.trials
    times, recorded = np.asarray(trials.times), np.asarray(trials.observed)
    simulated = np.asarray(mc.simulate_like(fit, n_replicates=10, key=jax.random.key(2)).observed)
    figure = new_figure(10.5, 3.1)
    halves: Any = figure.subfigures(1, 2, width_ratios=[1.25, 1.0], wspace=0.03)
    positions, speeds = halves[0].subplots(1, 2)
    positions.axhline(0.1, color=GREY, linewidth=0.8, linestyle=":")
    for path in recorded[..., 0]:
        positions.plot(times, path, color=BLUE, alpha=0.35, linewidth=0.7)
    positions.set_ylabel("position (m)")
    positions.set_title(f"{len(trials)} reaches, as a camera records them")
    of_data, of_model = (
        np.array([kinematics.speed(path, times, SMOOTHED) for path in paths])
        for paths in (recorded, simulated)
    )
    low, high = np.quantile(of_model, [0.025, 0.975], axis=0)
    speeds.fill_between(times, low, high, color=ORANGE, alpha=0.25, lw=0, label="model, 95 %")
    speeds.plot(times, of_data.mean(axis=0), color=BLUE, lw=2, label="recorded, mean")
    speeds.plot(times, of_model.mean(axis=0), "--", color=ORANGE, lw=2, label="model, mean")
    speeds.set_ylabel("speed (m/s)")
    speeds.set_title("the agent that explains them")
    speeds.set_ylim(0, 1.45 * high.max())
    speeds.legend(loc="upper right")
    for ax in (positions, speeds):
        ax.set_xlabel("time (s)")
    draw_estimates(halves[1], fit, fit.interval(), TRUTH)
    halves[1].suptitle("what it cared about, with 95 % intervals (green: truth)", fontsize=9)
    return figure


def draw_paths(ax: Axes, problem: Problem, color: str, n_trials: int = 12) -> None:
    """Draw the mean path and a few simulated ones, with the target."""
    import motorcost as mc

    policy = mc.solve(problem)
    trials = mc.simulate(problem, policy, n_trials=n_trials, key=jax.random.key(0))
    for path in np.asarray(trials.states)[..., :2]:
        ax.plot(*path.T, color=color, alpha=0.25, linewidth=0.6)
    ax.plot(*np.asarray(mc.moments(problem, policy).state_mean)[:, :2].T, color=color, linewidth=2)
    place = [problem.state_names.index(f"target_{axis}") for axis in "xy"]
    ax.plot(*np.asarray(problem.initial_belief)[place], "o", color=GREY, mfc="none", markersize=10)


def targets_around(distance: float, count: int = 8) -> list[dict[str, Any]]:
    """Targets on a circle, as arguments of a task."""
    angles = 2 * np.pi * np.arange(count) / count
    return [{"target_x": distance * np.cos(a), "target_y": distance * np.sin(a)} for a in angles]


def finish_paths(axes: Sequence[Axes], unit: str) -> None:
    """Equal scales, and labels."""
    for ax in axes:
        ax.set_aspect("equal", adjustable="box")
        ax.set_xlabel(f"x ({unit})")
    axes[0].set_ylabel(f"y ({unit})")


def field_figure() -> Figure:
    """Paths in a curl field that the agent does not know, knows by half and knows, and where it
    knows the field and the field is absent."""
    import motorcost as mc

    figure = new_figure(12, 3.5)
    axes = figure.subplots(1, 4, sharex=True, sharey=True)
    agents: dict[str, tuple[dict[str, Any], str]] = {
        "adaptation 0": ({"adaptation": 0.0}, ORANGE),
        "adaptation 0.5": ({"adaptation": 0.5}, BLUE),
        "adaptation 1": ({"adaptation": 1.0}, GREEN),
        "adaptation 0.5, field off": ({"adaptation": 0.5, "field_on": 0.0}, GREY),
    }
    for ax, (title, (values, color)) in zip(axes, agents.items(), strict=True):
        for target in targets_around(0.1, 4):
            problem = mc.tasks.planar_reaching(**FIELD, **target, **values)
            draw_paths(ax, problem, color)
        ax.set_title(title)
    finish_paths(axes, "m")
    return figure


def plane_figure() -> Figure:
    """Reaches around a centre, reaches through a via-point, and oblique saccades."""
    import motorcost as mc

    figure = new_figure(11, 3.8)
    axes = figure.subplots(1, 3)
    for target in targets_around(0.1):
        draw_paths(axes[0], mc.tasks.planar_reaching(**target, steps=50), BLUE)
    axes[0].set_title("planar_reaching")
    for weight, color in ((0.3, GREY), (1.0, BLUE), (10.0, ORANGE)):
        problem = mc.tasks.planar_reaching(
            via=weight, via_x=0.03, via_y=0.05, via_time=0.25, steps=60
        )
        draw_paths(axes[1], problem, color, n_trials=6)
    axes[1].plot(0.03, 0.05, "s", color=GREY, mfc="none")
    axes[1].set_title("a via-point of weight 0.3, 1 and 10")
    finish_paths(axes[:2], "m")
    for target in targets_around(10.0):
        draw_paths(axes[2], mc.tasks.planar_saccade(**target, across=0.5), GREEN)
    axes[2].set_title("planar_saccade")
    finish_paths(axes[2:], "deg")
    return figure


def profiles_figure() -> Figure:
    """Profiles of a fit to 100 reaches that a camera records."""
    import motorcost as mc

    fit = camera_fit()
    return mc.plots.plot_profiles(fit, fit.profiles(), truth=TRUTH)


def efforts_figure() -> Figure:
    """The same reach by agents for whom effort costs more or less."""
    import motorcost as mc

    figure = new_figure(9, 3)
    axes = figure.subplots(1, 3)
    for effort, color in ((1e-7, BLUE), (1e-5, GREEN), (1e-4, ORANGE)):
        problem = mc.tasks.reaching(effort=effort)
        policy = mc.solve(problem)
        trials = mc.simulate(problem, policy, n_trials=300, key=jax.random.key(0))
        for ax, name in zip(axes, ("position", "velocity", "force"), strict=True):
            i = problem.state_names.index(name)
            samples = np.asarray(trials.observed[:, :, i])
            low, high = np.quantile(samples, [0.025, 0.975], axis=0)
            ax.fill_between(trials.times, low, high, color=color, alpha=0.18, linewidth=0)
            label = f"effort {effort:.0e}".replace("e-0", "e-")
            ax.plot(trials.times, samples.mean(axis=0), color=color, linewidth=2, label=label)
            ax.set_title(f"{name} ({problem.state_units[i]})")
            ax.set_xlabel("time (s)")
        axes[0].axhline(0.1, color=GREY, linewidth=0.8, linestyle=":")
    axes[0].legend()
    return figure


def beliefs_figure() -> Figure:
    """An agent that does not know of its own motor noise, and one that does."""
    import motorcost as mc

    figure = new_figure(7, 3)
    axes = figure.subplots(1, 2, sharey=True)
    world = mc.tasks.reaching()
    agents = {"knows its noise": world, "does not": world.believing(C=[])}
    for ax, (label, problem), color in zip(axes, agents.items(), (BLUE, ORANGE), strict=True):
        policy = mc.solve(problem)
        trials = mc.simulate(problem, policy, n_trials=60, key=jax.random.key(0))
        ax.plot(trials.times, trials.observed[:, :, 1].T, color=color, alpha=0.25, linewidth=0.8)
        cost = float(mc.expected_cost(problem, policy))
        ax.set_title(f"{label}: cost {cost:.2e}")
        ax.set_xlabel("time (s)")
    axes[0].set_ylabel("velocity (m/s)")
    return figure


def tracking_figure() -> Figure:
    """Like the paper's figure 2C: beliefs inferred from noisy positions alone."""
    import motorcost as mc

    problem = mc.tasks.reaching()
    observer = mc.observe(problem, ["position"], noise=2e-3)
    trials = mc.simulate(
        problem, mc.solve(problem), n_trials=1, key=jax.random.key(1), observer=observer
    )
    beliefs = mc.track_beliefs(problem, trials, observer=observer)
    return beliefs.plot(states=["position", "velocity", "force"])


# By name, what the documentation shows.
DRAWN: dict[str, Callable[[], Figure]] = {
    "story": story_figure,
    **{
        name: partial(trials_figure, task)
        for name, task in {
            "reaching": lambda: tasks.reaching(),
            "posture": lambda: tasks.posture(pulse=5.0, pulse_time=1.0),
            "saccade": lambda: tasks.saccade(),
            "tracking": lambda: tasks.tracking(),
            "random_problem": lambda: tasks.random_problem(jax.random.key(0))(),
        }.items()
    },
    "gains": gains_figure,
    "iterations": iterations_figure,
    "efforts": efforts_figure,
    "beliefs": beliefs_figure,
    "tracked": tracking_figure,
    "profiles": profiles_figure,
    "field": field_figure,
    "plane": plane_figure,
}


if __name__ == "__main__":
    main(sys.argv[1:])
