"""motorcost reproduce: the paper's figures and numbers."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from motorcost.cli.app import app
from motorcost.cli.computing import Device
from motorcost.cli.progress import showing_progress
from motorcost.errors import InputError


@app.command(
    epilog="Examples: motorcost reproduce list · motorcost reproduce fig2 --scale laptop "
    "· motorcost reproduce all --scale paper --scheduler tcp://host:8786"
)
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="list, all, fig2 for its panels, or experiments from the list."),
    ] = None,
    scale: Annotated[
        str, typer.Option(help="smoke (seconds), laptop (minutes) or paper (hours).")
    ] = "laptop",
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the results; made if missing.")
    ] = Path("reproduced"),
    workers: Annotated[
        int | None, typer.Option(help="Processes on this machine; this one if left out.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="A Dask scheduler to run on: tcp://host:8786.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with recordings, for fig3: see motorcost datasets."),
    ] = None,
    together: Annotated[
        int | None,
        typer.Option(help="Fits in one call: many fill a GPU, few spread over many workers."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all randomness in the sweeps.")] = 0,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run again what failed before.")
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(help="Also write the results page here (.md), with figures beside it."),
    ] = None,
    device: Device = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing but errors.")] = False,
) -> None:
    """Make the paper's figures and numbers anew, each beside what the paper reports.

    Writes tables, figures and results.html into the output folder. Killed or interrupted, it
    keeps every row it has; the same command then goes on from there.
    """
    from motorcost import checks
    from motorcost.experiments import SCALES, named
    from motorcost.experiments.page import publish, write_pages
    from motorcost.experiments.run import reproduce as carry_out
    from motorcost.io import check_folder

    if not names or "list" in names:
        _list()
        return
    checks.one_of("scale", scale, SCALES)
    chosen = list({each.name: each for name in names for each in named(name)}.values())
    if page is not None and page.suffix != ".md":
        raise InputError(f"cannot write {page}: the name of the page must end in .md")
    check_folder(output)
    for experiment in [each for each in chosen if each.data and data is None]:
        if len(chosen) == 1:
            raise InputError(_needs_data(experiment))
        typer.echo(f"Left out: {_needs_data(experiment)}", err=True)
        chosen.remove(experiment)
    if together is not None:
        checks.whole("together", together, 1, "fits in one call")
    how = {"workers": workers, "scheduler": scheduler, "retry_failed": retry_failed}
    try:
        for experiment in chosen:
            with showing_progress(quiet=quiet) as show:

                def tell(what: str, at: Any, show: Any = show) -> None:
                    show(what, at.done, at.total, at)

                outcome = carry_out(
                    experiment,
                    scale,  # type: ignore[arg-type]
                    output,
                    data=data,
                    together=together,
                    seed=seed,
                    command=_command(experiment, scale, together, seed, device),
                    progress=tell,
                    **how,
                )
            if not quiet:
                _report(experiment, outcome)
    except KeyboardInterrupt:
        raise InterruptedError(
            f"interrupted: what there is lies in {output}; the same command goes on from there"
        ) from None
    report = write_pages(output)
    if page is not None:
        publish(output, page)
    if not quiet:
        typer.echo(f"Results: {report}")


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


def _command(experiment: Any, scale: str, together: int | None, seed: int, device: Any) -> str:
    parts = ["motorcost", "reproduce", experiment.name, "--scale", scale]
    parts += ["--data", "FOLDER"] if experiment.data else []
    parts += ["--together", str(together)] if together is not None else []
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
