"""motorcost design."""

import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from motorcost import checks
from motorcost.cli import options
from motorcost.cli.app import app
from motorcost.cli.computing import Device
from motorcost.cli.progress import showing_progress
from motorcost.diagnostics import Design
from motorcost.diagnostics.allocation import CRITERIA, Criterion
from motorcost.diagnostics.candidates import EVERY
from motorcost.errors import InputError
from motorcost.io.files import printable
from motorcost.study.named_texts import items
from motorcost.study.task_lookup import TASKS, find_task, make_problem


@app.command(
    epilog="Example: motorcost design --task reaching --free effort,velocity,force --trials 200 "
    "--candidates target=0.05,0.1,0.2 --candidates steps=30,45,60 --observe position --noise 1e-3 "
    "-o design/"
)
def design(
    task: options.TaskOption = None,
    free: options.Free = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Assumed true values. Repeatable."),
    ] = None,
    trials: Annotated[int, typer.Option(help="The budget: how many trials in all.")] = 200,
    candidates: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUES",
            help="Values of a condition, or of every; all combinations are tried. Repeatable.",
        ),
    ] = None,
    observe: Annotated[
        str | None,
        typer.Option(
            "--observe", "--channels", metavar="NAMES", help="States recorded. All if left out."
        ),
    ] = None,
    noise: options.Noise = "0",
    every: Annotated[int, typer.Option(help="Record every n-th sample.")] = 1,
    criterion: Annotated[str, typer.Option(help=f"One of {', '.join(CRITERIA)}.")] = "errors",
    simulated: Annotated[int, typer.Option(help="Trials of each candidate to simulate.")] = 1000,
    check: Annotated[
        int, typer.Option(min=0, help="Experiments to simulate and fit, as a check of the result.")
    ] = 0,
    output: options.Output = Path("design"),
    seed: options.Seed = 0,
    device: Device = None,
    quiet: options.Quiet = False,
) -> None:
    """Before an experiment: which conditions, and how many trials of each, are best.

    Writes design.csv, design-errors.csv, design.png and design.html into the output folder.
    """
    import motorcost as mc

    if task is None:
        raise InputError(f"--task is missing: which of {', '.join(TASKS)} is it?")
    checks.one_of("criterion", criterion, CRITERIA)
    if check == 1:
        raise InputError("--check must be at least 2 experiments, got 1")
    chosen = find_task(task)
    values = options.values_of(chosen, assignments)
    states = None if observe is None else items([observe])
    if states is None:
        states = list(make_problem(chosen, task, values).state_names)
    find = partial(
        mc.design,
        chosen,
        candidates=_candidates_from(chosen, candidates),
        free=options.supports_from(chosen, free, None),
        trials=trials,
        values=values,
        observer=mc.ObserverSpec(states, options.noise_from(noise)),
        every=every,
        criterion=cast(Criterion, criterion),
        simulated=simulated,
    )
    _carry_out(find, output, check=check, seed=seed, quiet=quiet)


def _carry_out(
    find: Callable[..., Design], output: Path, *, check: int, seed: int, quiet: bool
) -> None:
    """Find a design, write it into a folder, and print it."""
    import jax

    from motorcost.io.locks import held
    from motorcost.report.design import check_design_places, write_design

    command = shlex.join(["motorcost", *sys.argv[1:]])
    key, of_check = jax.random.split(jax.random.key(seed))
    with held(output, "design"), showing_progress(quiet=quiet) as progress:
        check_design_places(output)
        plan = find(key=key, progress=progress)
        checked = None
        if check:
            checked = plan.simulate(key=of_check, n_experiments=check, progress=progress)
        progress("report", 0, None)
        report = write_design(plan, output, checked, command=command)
    if not quiet:
        typer.echo(printable(plan.summary()))
        typer.echo("" if checked is None else f"\n{checked}\n")
        typer.echo(f"Report: {printable(report)}")


def _candidates_from(task: Any, texts: list[str] | None) -> dict[str, list[Any]]:
    """`--candidates NAME=VALUE,VALUE`: values by condition, whole where the task's default is."""
    found: dict[str, list[Any]] = {}
    for text in texts or ():
        name, equals, values = (part.strip() for part in text.partition("="))
        if not (name and equals and values):
            raise InputError(f"--candidates needs NAME=VALUES, as in target=0.1,0.2, got {text!r}")
        if name in found:
            raise InputError(f"--candidates has {name} twice: give all its values at once")
        if name == EVERY:
            found[name] = [options.whole(f"--candidates {name}", v) for v in values.split(",")]
            continue
        assigned = [
            options.values_of(task, [f"{name}={v.strip()}"], "--candidates")
            for v in values.split(",")
        ]
        found[name] = [value[name] for value in assigned]
    if not found:
        raise InputError(
            "--candidates is missing: name conditions and values, as in target=0.05,0.1,0.2"
        )
    return found
