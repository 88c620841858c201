"""The demonstration: every built-in task solved, simulated, checked and drawn."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import motorcost as mc
from motorcost.errors import InputError
from motorcost.io import write_csv
from motorcost.plots import plot_beliefs, plot_costs, plot_gains, plot_trials
from motorcost.report import Picture, Section, Table, write_report

_SEED = 0
_SHOWN = 100  # trials in the CSV file and in the pictures


@dataclass(frozen=True)
class Played:
    """A task that was solved and simulated."""

    name: str
    problem: mc.Problem
    policy: mc.Policy
    shown: mc.Trials
    expected: float
    simulated: float
    standard_error: float

    @property
    def z(self) -> float:
        """How many standard errors the simulated mean lies from the expected cost."""
        return (self.simulated - self.expected) / self.standard_error


def tasks() -> dict[str, mc.Problem]:
    """The built-in tasks at their defaults."""
    return {
        "reaching": mc.tasks.reaching(),
        "saccade": mc.tasks.saccade(),
        "tracking": mc.tasks.tracking(),
        "random problem": mc.tasks.random_problem(jax.random.key(_SEED))(),
    }


def play(name: str, problem: mc.Problem, n_trials: int) -> Played:
    """Solve a problem and compare its expected cost with simulated trials."""
    policy = mc.solve(problem)
    trials = mc.simulate(problem, policy, n_trials=n_trials, key=jax.random.key(_SEED))
    costs = np.asarray(trials.costs(problem))
    return Played(
        name=name,
        problem=problem,
        policy=policy,
        shown=trials[:_SHOWN],
        expected=float(mc.expected_cost(problem, policy)),
        simulated=float(costs.mean()),
        standard_error=float(costs.std(ddof=1) / np.sqrt(n_trials)),
    )


def run(folder: Path, n_trials: int) -> None:
    """Play every task and write `trials.csv` and `report.html` into `folder`."""
    console = Console()
    if n_trials < 2:
        raise InputError(f"trials must be at least 2, got {n_trials}")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"cannot write into {folder}: it is a file")
    if not folder.parent.is_dir():
        raise InputError(f"cannot make {folder}: the folder {folder.parent} does not exist")
    problems = tasks()
    columns = (TextColumn("{task.description:<16}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=len(problems) + 2)
        played = []
        for name, problem in problems.items():
            progress.update(bar, description=name)
            played.append(play(name, problem, n_trials))
            progress.advance(bar)
        progress.update(bar, description="false beliefs")
        believes_wrongly = play(
            "reaching, unaware of own noise", mc.tasks.reaching().believing(C=[]), n_trials
        )
        progress.advance(bar)
        progress.update(bar, description="report")
        folder.mkdir(exist_ok=True)
        write_csv(played[0].shown, folder / "trials.csv")
        write_report(
            folder / "report.html",
            "motorcost: a demonstration",
            "Agents that move as well as their noise allows. Each built-in task was solved for "
            f"its best policy, and the policy played in {n_trials:,} simulated trials.",
            list(_sections(played, believes_wrongly)),
        )
        progress.advance(bar)
    for row in (*played, believes_wrongly):
        console.print(
            f"{row.name:<31} cost {row.expected:<11.6g} simulated {row.simulated:<11.6g}"
            f"± {row.standard_error:.1g}",
            highlight=False,
        )
    console.print(f"Trials: {folder / 'trials.csv'}", highlight=False, soft_wrap=True)
    console.print(f"Report: {folder / 'report.html'}", highlight=False, soft_wrap=True)


def _sections(played: list[Played], believes_wrongly: Played) -> Iterator[Section]:
    yield Section(
        "Is the cost what was promised?",
        "The expected cost is computed exactly, without simulating. The last column says how "
        "many standard errors the simulated mean lies from it; it should rarely be beyond 2. "
        "The last row is an agent that does not know that its own control is noisy: it plans "
        "for a calmer world, and pays for it in the real one.",
        [
            Table(
                ("task", "expected cost", "simulated mean", "standard error", "apart"),
                [
                    (
                        row.name,
                        f"{row.expected:.6g}",
                        f"{row.simulated:.6g}",
                        f"{row.standard_error:.2g}",
                        f"{row.z:+.2f}",
                    )
                    for row in (*played, believes_wrongly)
                ],
            )
        ],
    )
    for row in played:
        yield Section(
            row.name.capitalize(),
            f"{len(row.shown)} of the trials. {row.policy!r}.",
            [
                Picture(
                    plot_trials(row.shown),
                    f"{row.name}: mean, middle 95 % and single trials of each state over time",
                )
            ],
        )
    yield _beliefs_section(played[0])
    reaching = played[0].policy
    yield Section(
        "How the reaching policy was found",
        "Control gains and filter gains are improved in turn until neither changes. Upper row: "
        "how the control answers each estimated state. Lower rows: how far each sense corrects "
        "the estimates. Below: how far the expected cost was from its final value.",
        [
            Picture(
                plot_gains(reaching), "control and filter gains of the reaching task over time"
            ),
            Picture(
                plot_costs(reaching), "expected cost after each sweep, which falls and settles"
            ),
        ],
    )


def _beliefs_section(reaching: Played) -> Section:
    noise = 2e-3
    problem, policy = reaching.problem, reaching.policy
    observer = mc.observe(problem, ["position"], noise=noise)
    trials = mc.simulate(
        problem, policy, n_trials=20, key=jax.random.key(_SEED + 1), observer=observer
    )
    beliefs = mc.track_beliefs(problem, trials, policy=policy, observer=observer)
    return Section(
        "What did the agent believe?",
        f"A camera that sees positions alone, with an error of {1e3 * noise:g} mm, recorded one of "
        "these reaches. From its samples up to each moment follows what the agent believed about "
        "its hand, velocity and force included, and how sure we can be of that.",
        [
            Picture(
                plot_beliefs(beliefs, trials, problem),
                "beliefs inferred from noisy positions, with the true beliefs mostly within the "
                "bands of two standard deviations",
            )
        ],
    )
