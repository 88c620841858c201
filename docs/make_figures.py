"""Draw every figure that the documentation shows: `make figures`."""

from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure

from motorcost.plots.style import BLUE, GREEN, GREY, ORANGE

FIGURES = Path(__file__).parent / "figures"


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    import motorcost as mc
    from motorcost.plots import plot_costs, plot_gains, plot_trials

    FIGURES.mkdir(exist_ok=True)
    problems = {
        "reaching": mc.tasks.reaching(),
        "saccade": mc.tasks.saccade(),
        "tracking": mc.tasks.tracking(),
        "random_problem": mc.tasks.random_problem(jax.random.key(0))(),
    }
    for name, problem in problems.items():
        policy = mc.solve(problem)
        trials = mc.simulate(problem, policy, n_trials=100, key=jax.random.key(0))
        save(plot_trials(trials, single_trials=15), f"{name}.png")
    policy = mc.solve(problems["reaching"])
    save(plot_gains(policy), "gains.png")
    save(plot_costs(policy), "iterations.png")
    save(efforts_figure(), "efforts.png")
    save(beliefs_figure(), "beliefs.png")
    save(tracking_figure(), "tracked.png")
    save(profiles_figure(), "profiles.png")


def profiles_figure() -> Figure:
    """Profiles of a fit to 100 reaches that a camera records, as in the README's commands."""
    import motorcost as mc

    truth = {"effort": 1e-5, "velocity": 0.2, "force": 0.02}
    problem = mc.tasks.reaching()
    camera = mc.ObserverSpec(["position"], noise=1e-3)
    trials = mc.simulate(
        problem, mc.solve(problem), n_trials=100, key=jax.random.key(0), observer=camera(problem)
    )
    fit = mc.fit(
        mc.tasks.reaching, trials, list(truth), observer=camera, key=jax.random.key(0), n_starts=4
    )
    return mc.plots.plot_profiles(fit, fit.profiles(), truth=truth)


def efforts_figure() -> Figure:
    """The same reach by agents for whom effort costs more or less."""
    import motorcost as mc

    figure = Figure(figsize=(9, 3), layout="constrained")
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
            ax.set_title(f"{name} ({problem.state_units[i]})", fontsize=10)
            ax.set_xlabel("time (s)")
            ax.spines[["top", "right"]].set_visible(False)
    axes[0].axhline(0.1, color=GREY, linewidth=0.8, linestyle=":")
    axes[0].legend(frameon=False, fontsize=9)
    return figure


def beliefs_figure() -> Figure:
    """An agent that does not know of its own motor noise, and one that does."""
    import motorcost as mc

    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    world = mc.tasks.reaching()
    agents = {"knows its noise": world, "does not": world.believing(C=[])}
    for ax, (label, problem), color in zip(axes, agents.items(), (BLUE, ORANGE), strict=True):
        policy = mc.solve(problem)
        trials = mc.simulate(problem, policy, n_trials=60, key=jax.random.key(0))
        ax.plot(trials.times, trials.observed[:, :, 1].T, color=color, alpha=0.25, linewidth=0.8)
        cost = float(mc.expected_cost(problem, policy))
        ax.set_title(f"{label}: cost {cost:.2e}", fontsize=10)
        ax.set_xlabel("time (s)")
        ax.spines[["top", "right"]].set_visible(False)
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
    return mc.plots.plot_beliefs(beliefs, trials, problem, states=["position", "velocity", "force"])


def save(figure: Figure, name: str) -> None:
    figure.savefig(FIGURES / name, dpi=110)
    print(f"drew {FIGURES.name}/{name}")


if __name__ == "__main__":
    main()
