"""The command line. Importing a module of commands adds them to `app`."""

from motorcost.cli import compare, convert, design, fit, look, planning, reproduce, simulate
from motorcost.cli.app import app, main

__all__ = [
    "app",
    "compare",
    "convert",
    "design",
    "fit",
    "look",
    "main",
    "planning",
    "reproduce",
    "simulate",
]
