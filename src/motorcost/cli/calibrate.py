"""motorcost calibrate."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from motorcost import checks
from motorcost.cli import options
from motorcost.cli.app import app
from motorcost.cli.computing import Device
from motorcost.cli.progress import showing_progress
from motorcost.errors import InputError
from motorcost.io.files import printable
from motorcost.study.named_texts import items
from motorcost.study.task_lookup import find_task, make_problem
from motorcost.sweeps import SweepProgress

# The folder of the data sets' ranks, beside the files to look at.
SETS = "sets"


@app.command(
    epilog="Example: motorcost calibrate reaching --free effort,velocity,force --trials 50 "
    "--sets 100 -o calibration/"
)
def calibrate(
    task: options.TaskName,
    free: options.Free = None,
    assignments: options.Fixed = None,
    trials: Annotated[int, typer.Option(help="Trials in each data set.")] = 50,
    sets: Annotated[int, typer.Option(help="Data sets to simulate and sample.")] = 100,
    method: Annotated[str, typer.Option(help="Sampler: smc, nuts or laplace.")] = "smc",
    observe: Annotated[
        str | None, typer.Option(metavar="NAMES", help="States recorded. All if left out.")
    ] = None,
    noise: options.Noise = "0",
    conditions: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUES",
            help="Values that trials take in turn: target=0.05,0.1. Several go together.",
        ),
    ] = None,
    output: options.Output = Path("calibration"),
    workers: Annotated[int | None, typer.Option(help="Processes on this machine.")] = None,
    seed: options.Seed = 0,
    device: Device = None,
    quiet: options.Quiet = False,
) -> None:
    """Are posteriors of this task right? Simulates data sets, samples, and ranks the true values.

    True values come from priors: log-normal around the task's defaults (SD 0.5), or NAME=LOW:HIGH
    of --free. Writes calibration.txt, .csv and .png into the output folder. After an interruption
    the same command continues.
    """
    import motorcost as mc
    from motorcost.io import check_folder
    from motorcost.posterior.calibration import SAMPLERS

    checks.one_of("method", method, list(SAMPLERS))
    chosen = find_task(task)
    priors = options.supports_from(chosen, free, None)
    fixed = options.values_of(chosen, assignments)
    noises = options.noise_from(noise)
    observer = None
    if observe is not None or noises != 0:
        states = make_problem(chosen, task, fixed).state_names
        observer = mc.ObserverSpec(states if observe is None else items([observe]), noises)
    check_folder(output)
    output.mkdir(parents=True, exist_ok=True)
    run = partial(
        mc.calibrate,
        chosen,
        priors,
        n_trials=trials,
        n_sets=sets,
        method=method,
        observer=observer,
        fixed=fixed,
        conditions=options.columns_of(chosen, conditions),
        workers=workers,
        seed=seed,
    )
    _carry_out(run, output, quiet=quiet)


def _carry_out(run: Callable[..., Any], output: Path, *, quiet: bool) -> None:
    """Run a calibration, write its results into a folder, and print them."""
    try:
        with showing_progress(quiet=quiet) as show:

            def tell(progress: SweepProgress) -> None:
                show("data sets", progress.done, progress.total, progress)

            found = run(folder=output / SETS, progress=tell)
    except KeyboardInterrupt:
        raise InterruptedError(
            f"interrupted: data sets so far are in {output}; the same command continues from there"
        ) from None
    if not found.n_sets:
        first = next(iter(found.failures.values()), "")
        raise InputError(f"all {len(found.table)} data sets failed: {first}")
    found.save(output)
    if not quiet:
        typer.echo(printable(found.summary()))
        typer.echo(f"Written: {printable(output / 'calibration.png')}")
