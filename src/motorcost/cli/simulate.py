"""motorcost simulate and motorcost demo."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from motorcost.cli.app import app
from motorcost.cli.computing import Device
from motorcost.cli.options import values_of
from motorcost.cli.progress import showing_progress
from motorcost.errors import InputError
from motorcost.study.settings import TASKS, find_task


@app.command(
    epilog="Example: motorcost simulate reaching --set effort=1e-5 --trials 100 --seed 0 "
    "-o trials.csv --plot trials.png"
)
def simulate(
    task: Annotated[str, typer.Argument(help="One of: " + ", ".join(TASKS) + ".")],
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the task. Repeatable."),
    ] = None,
    trials: Annotated[int, typer.Option(help="How many trials.")] = 100,
    seed: Annotated[int, typer.Option(help="The same seed gives the same trials.")] = 0,
    observe: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="States to record, with commas between. All if left out."
        ),
    ] = None,
    noise: Annotated[float, typer.Option(help="SD of the recording noise.")] = 0.0,
    delay: Annotated[int, typer.Option(help="Steps by which the agent's senses are late.")] = 0,
    problem_seed: Annotated[
        int, typer.Option(help="Which random problem (random_problem only).")
    ] = 0,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="CSV file to write; - for standard output.")
    ] = Path("-"),
    plot: Annotated[Path | None, typer.Option(help="Picture to draw (.png, .svg, .pdf).")] = None,
    parameters: Annotated[
        bool, typer.Option("--parameters", help="List the task's parameters and stop.")
    ] = False,
    device: Device = None,
) -> None:
    """Simulate trials of a task and write them as a tidy CSV file: trial, time, one column for
    each recorded state, and the conditions."""
    import jax

    import motorcost as mc

    chosen = find_task(task, problem_seed)
    if parameters:
        _list_parameters(chosen)
        return
    values = values_of(chosen, assignments or [])
    to_file = str(output) != "-"
    if to_file:
        mc.io.check_writable(output)
    if plot is not None:
        _check_picture(plot)
        if plot == output:
            raise InputError(f"the table and the picture cannot both be {plot}")

    now = chosen(**values)
    names = observe.split(",") if observe is not None else list(now.state_names)
    problem = mc.delay(now, delay)
    observer = mc.observe(problem, [name.strip() for name in names], noise=noise)
    policy = mc.solve(problem)
    result = mc.simulate(
        problem, policy, n_trials=trials, key=jax.random.key(seed), observer=observer
    )

    # A condition that is recorded as a channel has its column already; time tells steps and dt.
    skip = {"steps", "dt", *result.channel_names}
    given = mc.tasks.defaults(chosen) | values
    result = result.with_conditions(
        **{
            name: given[name]
            for name, parameter in mc.tasks.parameters(chosen).items()
            if parameter.role == "condition" and name not in skip
        }
    )
    try:
        mc.io.write_csv(result, output if to_file else sys.stdout)
    except BrokenPipeError:  # the reader of our output, `head` say, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    if plot is not None:
        _save(mc.plots.plot_trials(result), plot)
    costs = result.costs(problem)
    typer.echo(
        f"{trials} trials of {task}: expected cost {float(policy.expected_cost):.6g}, "
        f"mean of these trials {float(costs.mean()):.6g}"
        + (f"; wrote {output}" if to_file else "")
        + (f"; drew {plot}" if plot is not None else ""),
        err=True,
    )


@app.command(epilog="Example: motorcost demo -o motorcost-demo --trials 100")
def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the results; made if missing.")
    ] = Path("motorcost-demo"),
    trials: Annotated[int, typer.Option(help="Trials to simulate.")] = 100,
    seed: Annotated[int, typer.Option(help="The same seed gives the same trials.")] = 0,
    device: Device = None,
) -> None:
    """Simulate reaches, write them to a file, fit it back and report. Needs no input."""
    from motorcost.demo import again, against_truth, run

    with showing_progress(False) as progress:
        analysis, report = run(output, trials, seed, progress)
    if analysis.interrupted:
        raise InterruptedError(f"interrupted: what there is lies in {output}")
    for line in against_truth(analysis):
        typer.echo(line)
    typer.echo(f"Trials: {output / 'trials.csv'}")
    typer.echo(f"To fit them again: {again(output)}")
    typer.echo(f"Report: {report}")


def _list_parameters(task: Any) -> None:
    import motorcost as mc

    defaults = mc.tasks.defaults(task)
    for name, parameter in mc.tasks.parameters(task).items():
        value = f"{defaults[name]:g} {parameter.unit}".strip()
        typer.echo(f"{name:<15}{parameter.role:<11}{value:<18}{parameter.about}")


def _check_picture(path: Path) -> None:
    import motorcost as mc

    mc.io.check_writable(path)
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"cannot draw {path}: the name must end in .png, .svg or .pdf")


def _save(figure: Any, path: Path) -> None:
    import motorcost as mc

    with mc.io.written_whole(path) as draft:
        figure.savefig(draft, dpi=150)
