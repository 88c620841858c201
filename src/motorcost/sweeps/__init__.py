"""A function over many cells and repetitions: on one machine or many, resumable, as a table."""

from motorcost.sweeps.run import Standing, sweep

__all__ = ["Standing", "sweep"]
