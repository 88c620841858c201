"""motorcost fit."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from motorcost.cli import options
from motorcost.cli.app import app
from motorcost.cli.computing import Device
from motorcost.cli.progress import showing_progress
from motorcost.errors import InputError
from motorcost.fitting.derivative_free import Method
from motorcost.io.files import printable
from motorcost.study.selection import with_selection
from motorcost.study.settings import Study
from motorcost.study.task_lookup import TASKS, find_task

if TYPE_CHECKING:
    from motorcost.study.analysis import Analysis

# A study file says everything about a study. These options say what to do with it, or change it
# for one run; every other option describes the study, and is refused beside a file.
CHANGE_A_STUDY = ("starts", "seed", "fixed", "only", "trials")
ALSO_WITH_A_STUDY_FILE = (
    "data", "output", "quick", "device", "quiet", "as_json", *CHANGE_A_STUDY
)  # fmt: skip


@app.command(
    epilog="Examples: motorcost fit trials.csv --task reaching --free effort,velocity -o fit/ "
    "· motorcost fit study.toml -o fit/ · motorcost fit hand.csv --task reaching --free "
    "effort,recording_noise --channel position=x --unit position=mm --dt 0.01 -o fit/"
)
def fit(
    context: typer.Context,
    data: options.DataFile,
    output: options.Output = Path("fit"),
    task: options.TaskOption = None,
    free: options.Free = None,
    fixed: options.Fixed = None,
    per: options.Per = None,
    noise: options.Noise = "0",
    channels: options.Channels = None,
    units: options.Units = None,
    conditions: options.Conditions = None,
    trial_column: options.TrialColumn = "trial",
    time_column: options.TimeColumn = "time",
    time_unit: options.TimeUnit = "s",
    rate: options.Rate = None,
    only: options.Only = None,
    trials: options.TrialRange = None,
    dt: options.Step = None,
    lead: options.LeadOption = "0",
    delay: options.DelayOption = "0",
    starts: options.Starts = 10,
    method: options.MethodOption = "gradient",
    priors: options.Priors = False,
    bootstrap: options.Bootstrap = 0,
    seed: options.Seed = 0,
    quick: options.Quick = False,
    device: Device = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Infer costs and noises from recorded movements, and write a report.

    Writes fit.json, report.html, README.md and figures/ into the output folder. Interrupted
    (Ctrl-C), it keeps what it has; the same command then goes on from there, and a finished fit
    stays until then. Beside a study file, --starts, --seed, --set, --only and --trials change it
    for this run.
    """
    if data.suffix.lower() == ".toml":
        _refuse_options_of_a_study(context, data)
        study = _changed(
            Study.read(data),
            fixed,
            starts=starts if _is_given(context, "starts") else None,
            seed=seed if _is_given(context, "seed") else None,
        )
    else:
        chosen = find_task(_needed(task))
        table = options.table(trial_column, time_column, time_unit, rate)
        columns = options.columns(channels, units, conditions)
        study = Study(
            data,
            chosen,
            options.supports_from(chosen, free, per),
            task_name=task,
            fixed=options.values_of(chosen, fixed),
            reading=table | columns,
            states=list(columns["channels"]) if "channels" in columns else None,
            noise=options.noise_from(noise),
            dt=dt,
            lead=options.leads_from(lead),
            delay=options.delays_from(delay),
            seed=seed,
            starts=starts,
            method=cast(Method, method),
            priors=priors,
            bootstrap=bootstrap,
        )
    study = replace(study, prepare=with_selection(study.prepare, options.selection(only), trials))
    study = replace(study, profiles=False, baselines=False) if quick else study
    _carry_out(study, output, quiet=quiet, as_json=as_json)


def _needed(task: str | None) -> str:
    if task is None:
        raise InputError(f"--task is missing: which of {', '.join(TASKS)} was it?")
    return task


def _refuse_options_of_a_study(context: typer.Context, file: Path) -> None:
    """Raise if an option describes a study that a file describes already."""
    for option in context.command.params:
        if _is_given(context, option.name or "") and option.name not in ALSO_WITH_A_STUDY_FILE:
            raise InputError(
                f"{file.name} says everything about the study: write what {option.opts[-1]} "
                "says into it instead"
            )


def _is_given(context: typer.Context, option: str) -> bool:
    """Whether the user gave an option, rather than leaving it at its default."""
    source = context.get_parameter_source(option)
    return source is not None and source.name != "DEFAULT"


def _changed(
    study: Study, fixed: list[str] | None, *, starts: int | None, seed: int | None
) -> Study:
    """A study from a file with what the command line says instead.

    A parameter that `--set` gives a value is no longer inferred.
    """
    values = options.values_of(study.task, fixed)
    free = {name: support for name, support in study.free.items() if name not in values}
    if not free:
        raise InputError(f"--set leaves nothing to infer: {', '.join(study.free)} is all there was")
    return replace(
        study,
        fixed=study.fixed | values,
        free=free,
        starts=study.starts if starts is None else starts,
        seed=study.seed if seed is None else seed,
    )


def _carry_out(study: Study, output: Path, *, quiet: bool, as_json: bool) -> None:
    """Analyse a study, write its results into a folder, and print them."""
    from motorcost.report import write_result
    from motorcost.study.analysis import analyse
    from motorcost.study.folder import REPORT, STATE, ResultFolder
    from motorcost.study.result import RESULT

    def warn(text: str) -> None:
        if not (quiet or as_json):
            typer.echo(f"Warning: {printable(text)}", err=True)

    folder, command = ResultFolder(output), shlex.join(["motorcost", *sys.argv[1:]])
    with folder.held(), showing_progress(quiet=quiet or as_json) as progress:
        analysis = analyse(study, progress=progress, warn=warn, previous=folder.previous())
        progress("report", 0, None)
        try:
            written = output / write_result(analysis, folder, command=command)
        except KeyboardInterrupt:
            raise _interrupted(output / STATE) from None
        if as_json:
            typer.echo(written.read_text("utf-8"), nl=False)
    if not (quiet or as_json):
        _show(analysis, output / REPORT if written.name == RESULT else None)
    if analysis.interrupted:
        raise _interrupted(written)
    if not analysis.fit.converged:
        raise typer.Exit(1)


def _interrupted(where: Path) -> InterruptedError:
    return InterruptedError(
        f"interrupted: what there is lies in {where}; the same command goes on from there"
    )


def _show(analysis: Analysis, report: Path | None) -> None:
    """Print what was found, and where the report is."""
    typer.echo(printable(analysis.fit.summary()))
    if analysis.adequacy is not None:
        typer.echo("\n".join(analysis.adequacy.conclusion))
    if analysis.plausibility is not None:
        typer.echo(f"\n{analysis.plausibility}\n")
    if report is not None:
        typer.echo(f"Report: {printable(report)}")
