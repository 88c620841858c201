"""motorcost look."""

from pathlib import Path
from typing import Annotated, Any

import typer

from motorcost.cli import options
from motorcost.cli.app import app
from motorcost.errors import InputError

# Kinds of pictures that can be drawn.
_PICTURES = (".png", ".svg", ".pdf")
# Options that describe recordings, which a study file describes already.
_OF_RECORDINGS = ("task", "dataset", "channels", "units", "conditions", "rate", "dt")


@app.command(
    epilog="Examples: motorcost look hand.csv --task reaching --channel position=x --unit "
    "position=mm -o look.png · motorcost look study.toml --only subject=s01"
)
def look(
    context: typer.Context,
    data: options.DataFile,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Picture to draw (.png, .svg, .pdf).")
    ] = None,
    task: options.TaskOption = None,
    dataset: Annotated[
        str | None, typer.Option(help="The public data set that the file is from.")
    ] = None,
    channels: options.Channels = None,
    units: options.Units = None,
    conditions: options.Conditions = None,
    trial_column: options.TrialColumn = "trial",
    time_column: options.TimeColumn = "time",
    time_unit: options.TimeUnit = "s",
    rate: options.Rate = None,
    dt: options.Step = None,
    only: options.Only = None,
    trials: options.TrialRange = None,
    by: Annotated[
        str | None, typer.Option(help="Condition to group trials by; subject if there are several.")
    ] = None,
) -> None:
    """Look at recordings before a fit, in seconds: what is kept, how far and how fast the
    movements are, and what looks wrong."""
    import motorcost as mc
    from motorcost.study.overview import look_at_some

    if output is not None:
        mc.io.check_writable(output)
        if output.suffix.lower() not in _PICTURES:
            raise InputError(f"cannot draw {output}: the name must end in {', '.join(_PICTURES)}")
    reading: dict[str, Any] | None = None
    if data.suffix.lower() == ".toml":
        _refuse_options_of_recordings(context, data)
    elif dataset is None:
        reading = options.table(trial_column, time_column, time_unit, rate)
        reading |= options.columns(channels, units, conditions)
    found = look_at_some(
        data,
        options.SELECTION,
        task=task,
        dataset=dataset,
        reading=reading,
        dt=dt,
        only=options.selection(only),
        trials=trials,
        by=by,
    )
    if output is not None:
        with mc.io.written_whole(output) as draft:
            found.plot().savefig(draft, format=output.suffix[1:].lower(), dpi=130)
    typer.echo(found.summary())


def _refuse_options_of_recordings(context: typer.Context, file: Path) -> None:
    """Raise if an option describes recordings that a study file describes already."""
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        is_given = source is not None and source.name != "DEFAULT"
        described = option.name in _OF_RECORDINGS or str(option.name).endswith(("_column", "_unit"))
        if is_given and described:
            raise InputError(
                f"{file.name} says everything about the recordings: write what "
                f"{option.opts[-1]} says into it instead"
            )
