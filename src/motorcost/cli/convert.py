"""motorcost formats and motorcost convert."""

from pathlib import Path
from typing import Annotated

import typer

from motorcost.cli import options
from motorcost.cli.app import app
from motorcost.errors import InputError, shown
from motorcost.markup import aligned

_TABLES = (".csv", ".parquet")


@app.command(epilog="Example: motorcost formats")
def formats() -> None:
    """The formats of recordings that motorcost reads, and what they need."""
    import motorcost as mc

    rows = []
    for format in mc.io.formats():
        needs = "nothing more"
        if format.extra:
            needs = f"motorcost[{format.extra}]"
            needs += ", installed" if format.installed else f": pip install '{needs}'"
        rows.append([format.name, " ".join(format.endings), needs, format.about])
    for line in aligned(["name", "files", "needs", "what is read"], rows):
        typer.echo(line)


@app.command(
    epilog="Examples: motorcost convert gaze.asc gaze.csv · motorcost convert reach.c3d "
    "reach.parquet --channel x=hand_x --channel y=hand_y "
    "· motorcost convert old.txt new.csv --rate 100"
)
def convert(
    source: Annotated[
        Path, typer.Argument(metavar="IN", help="Recordings in any format that is read.")
    ],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="Table to write (.csv or .parquet).")
    ],
    format: Annotated[
        str | None, typer.Option(help="The format of IN, where its name does not say it.")
    ] = None,
    channels: options.Channels = None,
    units: options.Units = None,
    conditions: options.Conditions = None,
    trial_column: options.TrialColumn = "trial",
    time_column: options.TimeColumn = "time",
    time_unit: options.TimeUnit = "s",
    rate: options.Rate = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """Turn recordings into a tidy table: trial, time (s), one column for each channel, and the
    conditions."""
    import motorcost as mc

    if target.suffix.lower() not in _TABLES:
        raise InputError(
            f"cannot write {shown(target, 200)}: the name must end in {' or '.join(_TABLES)}"
        )
    if target.exists() and not force:
        raise InputError(f"{shown(target, 200)} is there already: choose another name, or --force")
    mc.io.check_writable(target)
    reading = options.table(trial_column, time_column, time_unit, rate)
    reading |= options.columns(channels, units, conditions)
    movements = mc.io.read(source, format=format, **reading)
    write = mc.io.write_csv if target.suffix.lower() == ".csv" else mc.io.write_parquet
    write(movements, target)
    if quiet:
        return
    for note in movements.notes:
        typer.echo(note, err=True)
    measured = [f"{shown(name)} in {unit}" for name, unit in movements.channels.items() if unit]
    also = f"; a table has no units: {', '.join(measured)}" if measured else ""
    samples = sum(map(len, movements.times))
    typer.echo(
        f"Wrote {shown(target, 200)}: {len(movements)} trials, {samples} samples{also}", err=True
    )
