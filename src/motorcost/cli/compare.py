"""motorcost compare."""

import json
from pathlib import Path
from typing import Annotated

import typer

from motorcost import checks
from motorcost.cli.app import app


@app.command(epilog="Example: motorcost compare young/ aged/")
def compare(
    fits: Annotated[list[Path], typer.Argument(help="Folders that motorcost fit wrote.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Compare fits: their estimates, and, of the same data, which model explains it best."""
    from motorcost.markup import aligned
    from motorcost.report import compare_results, read_result

    names = [path.name or str(path) for path in fits]
    if len(set(names)) < len(names):
        names = [str(path) for path in fits]
    checks.distinct("fits", names)
    results = {name: read_result(path) for name, path in zip(names, fits, strict=True)}
    header, rows = compare_results(results)
    if as_json:
        typer.echo(json.dumps([dict(zip(header, row, strict=True)) for row in rows], indent=2))
        return
    typer.echo("\n".join(aligned(header, rows)))
