"""motorcost fit."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from motorcost.cli import options
from motorcost.cli.app import app
from motorcost.cli.computing import Device
from motorcost.cli.progress import showing_progress
from motorcost.cli.studies import study_of
from motorcost.io.files import printable
from motorcost.study.settings import Study

if TYPE_CHECKING:
    from motorcost.study.analysis import Analysis

# Options that say what to do with a study, which may stand beside a file that describes it.
ALSO_WITH_A_STUDY_FILE = ("data", "output", "quick", "device", "quiet", "as_json")


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
    cuts: options.CutsOption = None,
    seed: options.Seed = 0,
    quick: options.Quick = False,
    device: Device = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Infer costs and noises from recorded movements, and write a report.

    Writes fit.json, report.html, README.md and figures/ into the output folder. Interrupted
    (Ctrl-C), it keeps what it has; the same command then goes on from there, and a finished fit
    stays until then. Beside a study file, --starts, --seed, --set, --only, --trials and --cuts
    change it for this run.
    """
    study = study_of(context, ALSO_WITH_A_STUDY_FILE)
    study = replace(study, profiles=False, baselines=False) if quick else study
    _carry_out(study, output, quiet=quiet, as_json=as_json)


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
    from motorcost.study.cuts import cut_speed, cuts_in_words

    typer.echo(printable(analysis.summary()))
    if analysis.adequacy is not None:
        typer.echo("\n".join(analysis.adequacy.conclusion))
    if analysis.plausibility is not None:
        typer.echo(f"\n{analysis.plausibility}\n")
    if analysis.cuts:
        speed = cut_speed(analysis.study.prepare) or 0.0
        for sentence in cuts_in_words(analysis.cuts, speed):
            typer.echo(sentence)
    if report is not None:
        typer.echo(f"Report: {printable(report)}")
