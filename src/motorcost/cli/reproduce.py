"""motorcost reproduce: the paper's figures and numbers."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from motorcost.cli import options
from motorcost.cli.app import app
from motorcost.cli.computing import Device
from motorcost.cli.progress import showing_progress
from motorcost.errors import InputError

Names = Annotated[
    list[str] | None,
    typer.Argument(help="list, all, fig2 for its panels, or experiments from the list."),
]
ScaleName = Annotated[str, typer.Option(help="smoke (seconds), laptop (minutes) or paper (hours).")]
Workers = Annotated[
    int | None, typer.Option(help="Number of processes on this machine; one if left out.")
]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler to run on: tcp://host:8786.")
]
Data = Annotated[
    Path | None,
    typer.Option(help="Folder with recordings, for fig3: see motorcost datasets."),
]
BatchSize = Annotated[
    int | None,
    typer.Option(help="Fits in one call: many fill a GPU, few spread over many workers."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all randomness.")]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="Run rows again that failed before.")
]
Page = Annotated[
    Path | None,
    typer.Option(help="Also write the results page here (.md), with figures beside it."),
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Show errors only.")]


@app.command(
    epilog="Examples: motorcost reproduce list · motorcost reproduce fig2 --scale laptop "
    "· motorcost reproduce all --scale paper --scheduler tcp://host:8786"
)
def reproduce(
    names: Names = None,
    scale: ScaleName = "laptop",
    output: options.Output = Path("reproduced"),
    workers: Workers = None,
    scheduler: Scheduler = None,
    data: Data = None,
    batch_size: BatchSize = None,
    seed: Seed = 0,
    retry_failed: RetryFailed = False,
    page: Page = None,
    device: Device = None,
    quiet: Quiet = False,
) -> None:
    """Reproduce the paper's figures and numbers, each beside what the paper reports.

    Writes tables, figures and results.html into the output folder. After an interruption the same
    command continues with the rows that are missing.
    """
    from motorcost import checks
    from motorcost.experiments import SCALES
    from motorcost.experiments.page import publish, write_pages
    from motorcost.io import check_folder

    if not names or "list" in names:
        _list()
        return
    checks.one_of("scale", scale, SCALES)
    chosen = _chosen(names)
    if page is not None and page.suffix != ".md":
        raise InputError(f"cannot write {page}: the name of the page must end in .md")
    check_folder(output)
    chosen = _with_data(chosen, data)
    if batch_size is not None:
        checks.whole("batch_size", batch_size, 1, "fits in one call")
    where = {"workers": workers, "scheduler": scheduler, "retry_failed": retry_failed}
    how = {"data": data, "batch_size": batch_size, "seed": seed, **where}
    try:
        for experiment in chosen:
            command = _command(experiment, scale, batch_size, seed, device)
            _carry_out(experiment, scale, output, quiet=quiet, command=command, **how)
    except KeyboardInterrupt:
        raise InterruptedError(
            f"interrupted: results so far are in {output}; the same command continues from there"
        ) from None
    report = write_pages(output)
    if page is not None:
        publish(output, page)
    if not quiet:
        typer.echo(f"Results: {report}")


def _chosen(names: list[str]) -> list[Any]:
    """The experiments that the names stand for, each of them once."""
    from motorcost.experiments import named

    experiments = [experiment for name in names for experiment in named(name)]
    return list({experiment.name: experiment for experiment in experiments}.values())


def _with_data(experiments: list[Any], data: Path | None) -> list[Any]:
    """The experiments without those whose recordings are not there, which are reported."""
    if data is not None:
        return experiments
    lacking = [experiment for experiment in experiments if experiment.data]
    if lacking and len(experiments) == 1:
        raise InputError(_needs_data(lacking[0]))
    for experiment in lacking:
        typer.echo(f"Left out: {_needs_data(experiment)}", err=True)
    return [experiment for experiment in experiments if not experiment.data]


def _carry_out(experiment: Any, scale: Any, output: Path, *, quiet: bool, **how: Any) -> None:
    from motorcost.experiments.run import reproduce as carry_out

    with showing_progress(quiet=quiet) as show:

        def tell(name: str, progress: Any) -> None:
            show(name, progress.done, progress.total, progress)

        outcome = carry_out(experiment, scale, output, progress=tell, **how)
    if not quiet:
        _report(experiment, outcome)


def _list() -> None:
    from motorcost.experiments import NAMES, find

    for name in NAMES:
        experiment = find(name)
        needs = " (needs --data)" if experiment.data else ""
        typer.echo(f"{name:<16} {experiment.part + ':':<38} {experiment.title}{needs}")


def _needs_data(experiment: Any) -> str:
    from motorcost.io.datasets import describe

    places = "; or ".join(f"{name} from {describe(name).where}" for name in experiment.data)
    return f"{experiment.name} needs recordings, --data FOLDER: {places}"


def _command(experiment: Any, scale: str, batch_size: int | None, seed: int, device: Any) -> str:
    parts = ["motorcost", "reproduce", experiment.name, "--scale", scale]
    parts += ["--data", "FOLDER"] if experiment.data else []
    parts += ["--batch-size", str(batch_size)] if batch_size is not None else []
    parts += ["--seed", str(seed)] if seed else []
    return shlex.join(parts + (["--device", str(device)] if device is not None else []))


def _report(experiment: Any, outcome: Any) -> None:
    from motorcost.experiments.page import how_made, with_error

    typer.echo(f"{experiment.part}: {experiment.title}")
    for number in outcome.numbers:
        paper = "" if number.paper is None else f"   the paper's: {number.paper:.3g}"
        ours = with_error(number.ours, number.error)
        typer.echo(f"  {number.name:<58} {ours:<20}{paper}".rstrip())
    typer.echo(f"  {how_made(outcome, code=False)}")
