"""The command line. Importing a module of commands adds them to `app`."""

from motorcost.cli import (
    calibrate,
    compare,
    convert,
    design,
    explore,
    fit,
    look,
    planning,
    reproduce,
    sample,
    simulate,
)
from motorcost.cli.app import app, main

__all__ = [
    "app",
    "calibrate",
    "compare",
    "convert",
    "design",
    "explore",
    "fit",
    "look",
    "main",
    "planning",
    "reproduce",
    "sample",
    "simulate",
]
