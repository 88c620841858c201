"""motorcost simulate and motorcost demo."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from motorcost import checks
from motorcost.cli import options
from motorcost.cli.app import app
from motorcost.cli.computing import Device
from motorcost.cli.progress import showing_progress
from motorcost.errors import InputError
from motorcost.study.named_texts import items
from motorcost.study.task_lookup import find_task, make_problem

STANDARD_OUTPUT = Path("-")


@app.command(
    epilog="Example: motorcost simulate reaching --set effort=1e-5 --trials 100 --seed 0 "
    "-o trials.csv --plot trials.png"
)
def simulate(
    task: options.TaskName,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the task. Repeatable."),
    ] = None,
    trials: Annotated[int, typer.Option(help="How many trials.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same trials.")] = 0,
    observe: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="States to record, with commas between. All if left out."
        ),
    ] = None,
    noise: Annotated[float, typer.Option(help="SD of the recording noise.")] = 0.0,
    delay: Annotated[
        str,
        typer.Option(
            metavar="STEPS", help="Delay of the senses in steps; or vision=10,felt=5, by sense."
        ),
    ] = "0",
    problem_seed: Annotated[
        int, typer.Option(help="Which random problem (random_problem only).")
    ] = 0,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="CSV file to write; - for standard output.")
    ] = STANDARD_OUTPUT,
    plot: Annotated[Path | None, typer.Option(help="Picture to draw (.png, .svg, .pdf).")] = None,
    parameters: Annotated[
        bool, typer.Option("--parameters", help="List the task's parameters and stop.")
    ] = False,
    device: Device = None,
) -> None:
    """Simulate trials of a task and write them as a tidy CSV file: trial, time, one column for each
    recorded state, and the conditions."""
    import jax

    import motorcost as mc

    chosen = find_task(task, problem_seed)
    if parameters:
        _list_parameters(chosen)
        return
    values = options.values_of(chosen, assignments)
    _check_outputs(output, plot)
    checks.whole("n_trials", trials, 1, "the number of trials")
    late = _one_delay(delay, chosen, task)
    now = make_problem(chosen, task, values)
    # What has been sensed and has not arrived is no state that anybody records.
    present = [name for name in now.state_names if "(t-" not in name]
    names = present if observe is None else items([observe])
    problem = make_problem(mc.tasks.delayed(chosen, late), task, values) if late else now
    observer = mc.observe(problem, names, noise=noise)
    policy = mc.solve(problem)
    result = mc.simulate(
        problem, policy, n_trials=trials, key=jax.random.key(seed), observer=observer
    )
    used = values | ({"delay": late} if late and _has_own_delay(chosen) else {})
    if _write(_with_conditions(result, chosen, used), output, plot):
        costs = float(mc.expected_cost(problem, policy)), float(result.costs(problem).mean())
        _tell(f"{trials} trials of {task}", costs, output, plot)


def _tell(what: str, costs: tuple[float, float], output: Path, plot: Path | None) -> None:
    """Print the expected and the mean cost, and what was written."""
    typer.echo(
        f"{what}: expected cost {costs[0]:.6g}, mean of these trials {costs[1]:.6g}"
        + (f"; wrote {output}" if output != STANDARD_OUTPUT else "")
        + (f"; drew {plot}" if plot is not None else ""),
        err=True,
    )


def _one_delay(text: str, task: Any, name: str) -> Any:
    """The delay of a simulation: a number of steps, or one for each named sense."""
    late, *others = options.delays_from(text)
    if others:
        raise InputError(f"--delay of a simulation is one number, or by sense, got {text}")
    if not isinstance(late, int) and _has_own_delay(task):
        # It is written as a condition, which is a number.
        raise InputError(f"{name} has one delay for all its senses: --delay 3, got {text}")
    return late


def _has_own_delay(task: Any) -> bool:
    return "delay" in getattr(task, "parameters", {})


def _check_outputs(output: Path, plot: Path | None) -> None:
    """Raise unless the table and the picture can be written; asked before the simulation."""
    import motorcost as mc

    if output != STANDARD_OUTPUT:
        mc.io.check_writable(output)
    if plot is None:
        return
    mc.io.check_writable(plot)
    if plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"cannot draw {plot}: the name must end in .png, .svg or .pdf")
    if plot == output:
        raise InputError(f"the table and the picture cannot both be {plot}")


def _with_conditions(trials: Any, task: Any, values: dict[str, Any]) -> Any:
    """Trials with the conditions under which they were simulated. A condition that is recorded as
    a channel has a column already; the column of times tells steps and dt."""
    import motorcost as mc

    skipped = {"steps", "dt", *trials.channel_names}
    used = mc.tasks.defaults(task) | values
    return trials.with_conditions(
        **{
            name: used[name]
            for name, parameter in mc.tasks.parameters(task).items()
            if parameter.role == "condition" and name not in skipped and used[name] is not None
        }
    )


def _write(trials: Any, output: Path, plot: Path | None) -> bool:
    """Write the table and the picture. False if nobody reads the standard output any more."""
    import motorcost as mc

    try:
        mc.io.write_csv(trials, sys.stdout if output == STANDARD_OUTPUT else output)
    except BrokenPipeError:  # the program that reads it, `head` for one, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    if plot is not None:
        with mc.io.written_whole(plot) as draft:
            mc.plots.plot_trials(trials).savefig(draft, dpi=150)
    return True


@app.command(epilog="Example: motorcost demo -o motorcost-demo --trials 100")
def demo(
    output: options.Output = Path("motorcost-demo"),
    trials: Annotated[int, typer.Option(help="Trials to simulate.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same trials.")] = 0,
    device: Device = None,
) -> None:
    """Simulate reaches, write them to a file, fit it back and report. Needs no input."""
    from motorcost.demo import again, against_truth, run

    with showing_progress(quiet=False) as progress:
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
    width = max(map(len, defaults)) + 2
    for name, parameter in mc.tasks.parameters(task).items():
        default = "none" if defaults[name] is None else f"{defaults[name]:g}"
        value = f"{default} {parameter.unit}".strip()
        typer.echo(f"{name:<{width}}{parameter.role:<11}{value:<18}{parameter.about}")
