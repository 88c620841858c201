"""The command line. Importing a module of commands adds them to `app`.

In the order of reading:

- `app`: what all commands share. `options`: their options, and from text to values. `studies`: the
  study that a command works on. `computing`: devices, and compiled programs kept for the next
  command. `progress`: progress on the terminal.
- `planning` (init, precision and datasets), `look`, `fit`, `compare`, `sample`, `calibrate`,
  `design`, `simulate` (and demo), `convert` (and formats), `explore`, `reproduce`: the commands.
"""

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
