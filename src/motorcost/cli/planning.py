"""What comes before a fit: motorcost init, precision and datasets."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from motorcost import checks
from motorcost.cli import options
from motorcost.cli.app import app
from motorcost.cli.computing import Device
from motorcost.errors import InputError
from motorcost.study.named_texts import items
from motorcost.study.task_lookup import TASKS, find_task, make_problem


@app.command(epilog="Example: motorcost init study.toml --data trials.csv --task reaching")
def init(
    study: Annotated[Path, typer.Argument(help="File to write.")] = Path("study.toml"),
    data: Annotated[
        Path, typer.Option(help="The recordings; their columns are written down.")
    ] = Path("trials.csv"),
    task: Annotated[str, typer.Option(help="One of " + ", ".join(TASKS) + ".")] = "reaching",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a study file with comments, to be filled in and run by motorcost fit."""
    import motorcost as mc
    from motorcost.study.template import study_template

    if study.exists() and not force:
        raise InputError(f"{study} is there already: choose another name, or --force")
    text = study_template(task, data, study.parent)
    with mc.io.written_whole(study) as draft:
        draft.write_text(text, "utf-8")
    name = shlex.quote(str(study))
    typer.echo(f"Wrote {study}. Read it, then: motorcost look {name}; motorcost fit {name} -o fit/")


@app.command(
    epilog="Example: motorcost precision reaching --set effort=1e-5 --set velocity=0.2 "
    "--trials 50,100,200 --observe position --noise 1e-3"
)
def precision(
    task: options.TaskName,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Assumed true values. Repeatable."),
    ] = None,
    free: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Parameters to infer; costs if left out."),
    ] = None,
    trials: Annotated[str, typer.Option(help="Numbers of trials, with commas.")] = "25,100,400",
    observe: Annotated[
        str | None, typer.Option(metavar="NAMES", help="States recorded. All if left out.")
    ] = None,
    noise: Annotated[float, typer.Option(help="SD of the recording noise.")] = 0.0,
    seed: options.Seed = 0,
    device: Device = None,
) -> None:
    """Before an experiment: which error bars to expect from how many trials."""
    import jax

    import motorcost as mc

    chosen = find_task(task)
    values = options.values_of(chosen, assignments)
    typical = mc.tasks.typical_values(chosen)
    names = mc.tasks.default_costs(chosen) if free is None else items([free])
    for name in names:
        checks.one_of("parameter", name, list(typical))
    at = {name: typical[name] for name in names} | values
    counts = [options.whole("--trials", part) for part in trials.split(",")]
    problem = make_problem(chosen, task, at)
    states = problem.state_names if observe is None else items([observe])
    expected = mc.expected_precision(
        chosen,
        at=at,
        free=names,
        n_trials=counts,
        observer=mc.ObserverSpec(states, noise),
        key=jax.random.key(seed),
    )
    typer.echo(str(expected))


@app.command(epilog="Example: motorcost datasets pointing")
def datasets(
    name: Annotated[str | None, typer.Argument(help="One of them; all if left out.")] = None,
) -> None:
    """Public recordings that motorcost can read: where they are, and their licences."""
    import motorcost as mc

    for dataset in mc.datasets.names() if name is None else [name]:
        typer.echo(str(mc.datasets.describe(dataset)))
