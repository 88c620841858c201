"""The command line."""

from motorcost.cli import fitting, simulate
from motorcost.cli.app import app, main

__all__ = ["app", "fitting", "main", "simulate"]
