"""motorcost explore."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from motorcost.cli.app import app
from motorcost.cli.computing import Device
from motorcost.errors import InputError


@app.command(
    epilog="Examples: motorcost explore · motorcost explore trials.csv · motorcost explore "
    "study.toml --port 5010 --no-browser"
)
def explore(
    data: Annotated[
        Path | None,
        typer.Argument(help="Recording or study to begin with, or a folder of them."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Folder whose files the page may open; the file's own if left out."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port to listen at; a free one if left out."),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    device: Device = None,
) -> None:
    """Play with a task in the browser: sliders, movements, likelihood, a fit, beliefs.

    The page is served on this machine only, until Ctrl-C. It can open the recordings and studies in
    one folder: that of the file, or the present one.
    """
    try:
        from motorcost.explore.server import folder_of, serve
    except ModuleNotFoundError as error:
        if error.name not in ("panel", "bokeh"):
            raise
        raise InputError("motorcost explore needs: pip install 'motorcost[explore]'") from None

    def ready(address: str) -> None:
        typer.echo(f"Exploring at {address} (Ctrl-C ends it)")
        if browser:
            webbrowser.open(address)

    try:
        serve(*folder_of(data, folder), port, ready)
    except OSError as error:
        if port is None:
            raise
        raise InputError(f"--port {port}: {error.strerror or error}") from None
