"""The command line."""

from motorcost.cli import fitting, reproduce, simulate
from motorcost.cli.app import app, main

__all__ = ["app", "fitting", "main", "reproduce", "simulate"]
