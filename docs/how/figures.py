"""Draw the figures of "How it works": python docs/how/figures.py."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from motorcost.plots.style import BLUE, GREEN, GREY, ORANGE

FIGURES = Path(__file__).parent.parent / "figures"
# A reach whose expected cost has two minima for targets near 0.107 m.
TWO_MINIMA: dict[str, Any] = {
    "effort": 4.408e-6,
    "velocity": 1.92,
    "force": 0.00196,
    "motor_noise": 0.2306,
    "dt": 0.0125,
    "steps": 53,
}


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    save(loop_figure(), "how-loop.png")
    save(minima_figure(), "how-minima.png")
    save(moments_figure(), "how-moments.png")
    save(innovations_figure(), "how-innovations.png")
    save(gradient_figure(), "how-gradient.png")


def loop_figure() -> Figure:
    """World, agent and experimenter, and what passes between them."""
    figure = Figure(figsize=(9, 2.9), layout="constrained")
    ax = figure.subplots()
    ax.set(xlim=(0, 12), ylim=(0.4, 4.5))
    ax.axis("off")
    boxes = {
        "agent": (0.2, 1.3, BLUE, "estimate $\\hat x$\nfilter gains $K$\ncontrol gains $L$"),
        "world": (4.7, 1.3, GREEN, "state $x$\ndynamics $A, B$\nnoise $V, C_i$"),
        "experimenter": (9.2, 1.3, ORANGE, "samples $o$\nbelief about $x$ and $\\hat x$"),
    }
    for name, (left, bottom, color, text) in boxes.items():
        draw_box(ax, left, bottom, color, name, text)
    arrow(ax, (2.8, 3.1), (4.7, 3.1), "control $u = -L \\hat x$", 0.25)
    arrow(ax, (4.7, 1.9), (2.8, 1.9), "senses $y = Hx + \\dots$", -0.55)
    arrow(ax, (7.3, 2.5), (9.2, 2.5), "$o = Sx + U\\vartheta$", 0.25)
    ax.text(1.5, 0.55, "knows $y$, not $x$", ha="center", fontsize=10, color=GREY)
    ax.text(10.5, 0.55, "knows $o$, not $y$, $u$, $\\hat x$", ha="center", fontsize=10, color=GREY)
    return figure


def draw_box(ax: Axes, left: float, bottom: float, color: str, name: str, text: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    box = FancyBboxPatch((left, bottom), 2.6, 2.4, "round,pad=0,rounding_size=0.2", fill=False)
    box.set(edgecolor=color, linewidth=1.8)
    ax.add_patch(box)
    ax.text(left + 1.3, bottom + 2.6, name, ha="center", va="bottom", fontsize=12, color=color)
    ax.text(left + 1.3, bottom + 1.2, text, ha="center", va="center", fontsize=11)


def arrow(
    ax: Axes, start: tuple[float, float], end: tuple[float, float], text: str, above: float
) -> None:
    ax.annotate("", end, start, arrowprops={"arrowstyle": "->", "linewidth": 1.4})
    middle = (start[0] + end[0]) / 2
    ax.text(middle, start[1] + above, text, ha="center", fontsize=9)


def minima_figure() -> Figure:
    """Costs of the minima, and how fast the best agent moves, over the distance of the target."""
    import motorcost as mc

    targets = np.linspace(0.1058, 0.1076, 25)
    costs, peaks = [], []
    for target in targets:
        problem = mc.tasks.reaching(**TWO_MINIMA, target=target)
        policy = mc.solve(problem)
        costs.append(np.asarray(policy.minima.costs)[:2])
        peaks.append(float(mc.moments(problem, policy).state_mean[:, 1].max()))
    figure = Figure(figsize=(8, 3), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True)
    lowest, second = 1e6 * np.array(costs).T
    left.plot(1000 * targets, second - lowest, "o-", color=ORANGE, markersize=4)
    left.axhline(0, color=BLUE, linewidth=2)
    left.set(ylabel="cost above the lowest minimum (10⁻⁶)", title="the other minimum")
    right.plot(1000 * targets, peaks, "o-", color=BLUE, markersize=4)
    right.set(ylabel="peak of the mean velocity (m/s)", title="the agent, at the lowest")
    left.set_xticks([106.0, 106.5, 107.0, 107.5])
    finish(left, right, xlabel="target (mm)")
    return figure


def moments_figure() -> Figure:
    """Mean and 2 SD of reaches, computed and simulated."""
    import motorcost as mc

    problem = mc.tasks.reaching()
    policy = mc.solve(problem)
    exact = mc.moments(problem, policy)
    trials = mc.simulate(problem, policy, n_trials=5000, key=jax.random.key(0))
    states = np.asarray(trials.states)
    figure = Figure(figsize=(9, 2.8), layout="constrained")
    axes = figure.subplots(1, 3)
    for i, (ax, name) in enumerate(zip(axes, ("position", "velocity", "force"), strict=True)):
        mean, sd = exact.state_mean[:, i], jnp.sqrt(exact.state_cov[:, i, i])
        ax.fill_between(trials.times, mean - 2 * sd, mean + 2 * sd, color=BLUE, alpha=0.2, lw=0)
        ax.plot(trials.times, mean, color=BLUE, linewidth=2, label="computed")
        m, s = states[..., i].mean(axis=0), states[..., i].std(axis=0)
        for line in (m, m - 2 * s, m + 2 * s):
            ax.plot(trials.times, line, color=ORANGE, linewidth=1.2, linestyle="--")
        ax.set_title(f"{name} ({problem.state_units[i]})", fontsize=10)
    axes[0].plot([], [], color=ORANGE, linestyle="--", label="5,000 simulated trials")
    axes[0].legend(frameon=False, fontsize=8)
    finish(*axes, xlabel="time (s)")
    return figure


def innovations_figure() -> Figure:
    """How far from Gaussian the next sample is, where all states or only positions are recorded."""
    import motorcost as mc

    problem = mc.tasks.reaching()
    policy = mc.solve(problem)
    observers = {
        "all states, without noise": None,
        "positions, 1 mm noise": mc.observe(problem, ["position"], noise=1e-3),
    }
    figure = Figure(figsize=(8, 3), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    grid = np.linspace(-6, 6, 200)
    for ax, (title, observer) in zip(axes, observers.items(), strict=True):
        trials = mc.simulate(
            problem, policy, n_trials=2000, key=jax.random.key(0), observer=observer
        )
        tracked = mc.track_beliefs(problem, trials, policy=policy, observer=observer)
        e = np.asarray(tracked.innovations)
        e = e[np.isfinite(e)]
        kurtosis = np.mean((e - e.mean()) ** 4) / e.var() ** 2
        ax.hist(e, bins=np.linspace(-6, 6, 61), density=True, color=BLUE, alpha=0.5)
        ax.plot(grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), color=ORANGE, linewidth=1.5)
        ax.set_title(f"{title}: kurtosis {kurtosis:.2f}", fontsize=10)
        ax.set(yscale="log", ylim=(1e-5, 1))
    axes[0].set_ylabel("density")
    finish(*axes, xlabel="whitened innovation")
    return figure


def gradient_figure() -> Figure:
    """The log likelihood over effort, and its derivative through the policy."""
    import motorcost as mc

    problem = mc.tasks.reaching()
    trials = mc.simulate(problem, mc.solve(problem), n_trials=20, key=jax.random.key(0))

    def value(log_effort: Any) -> Any:
        return mc.log_likelihood(mc.tasks.reaching(effort=jnp.exp(log_effort)), trials)

    efforts = np.geomspace(5e-6, 2e-5, 31)
    values = jax.jit(jax.vmap(value))(np.log(efforts))
    points = np.log(np.array([6.5e-6, 1e-5, 1.6e-5]))
    heights, slopes = jax.jit(jax.vmap(jax.value_and_grad(value)))(points)
    figure = Figure(figsize=(5, 3), layout="constrained")
    ax = figure.subplots()
    ax.plot(efforts, values, color=BLUE, linewidth=2)
    for x, height, slope in zip(points, heights, slopes, strict=True):
        near = x + np.array([-0.15, 0.15])
        ax.plot(np.exp(near), height + slope * (near - x), color=ORANGE, linewidth=2)
        ax.plot(np.exp(x), height, "o", color=ORANGE, markersize=5)
    ax.set(xscale="log", ylabel="log likelihood of 20 reaches")
    ax.set_xticks([5e-6, 1e-5, 2e-5], ["5e-6", "1e-5", "2e-5"], minor=False)
    ax.set_xticks([], minor=True)
    finish(ax, xlabel="effort")
    return figure


def finish(*axes: Axes, xlabel: str) -> None:
    """Labels, and no frame above and to the right."""
    for ax in axes:
        ax.set_xlabel(xlabel)
        ax.title.set_fontsize(10)
        ax.spines[["top", "right"]].set_visible(False)


def save(figure: Figure, name: str) -> None:
    figure.savefig(FIGURES / name, dpi=110)
    print(f"drew {FIGURES.name}/{name}")


if __name__ == "__main__":
    main()
