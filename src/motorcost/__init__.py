"""Infer what people, animals and robots care about from how they move."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from motorcost import baselines, tasks
from motorcost.beliefs import Beliefs, track_beliefs
from motorcost.delay import delay
from motorcost.diagnostics import (
    bootstrap,
    check_fit,
    compare,
    cross_validate,
    expected_precision,
    simulate_like,
)
from motorcost.errors import ConvergenceError, InputError, PrecisionError
from motorcost.fit import Fit, fit
from motorcost.likelihood import log_likelihood
from motorcost.moments import Moments, expected_cost, moments
from motorcost.movements import Movements, concatenate_movements
from motorcost.observer import Observer, Recording, observe
from motorcost.parameters import LogNormal, LogUniform, Normal, Uniform
from motorcost.problem import Problem
from motorcost.recovery import Recovery
from motorcost.simulate import simulate
from motorcost.solver import Policy, solve
from motorcost.sweeps import sweep
from motorcost.trials import Trials, concatenate

if TYPE_CHECKING:
    from motorcost import datasets, io, plots

__version__ = version("motorcost")

__all__ = [
    "Beliefs",
    "ConvergenceError",
    "Fit",
    "InputError",
    "LogNormal",
    "LogUniform",
    "Moments",
    "Movements",
    "Normal",
    "Observer",
    "Policy",
    "PrecisionError",
    "Problem",
    "Recording",
    "Recovery",
    "Trials",
    "Uniform",
    "baselines",
    "bootstrap",
    "check_fit",
    "compare",
    "concatenate",
    "concatenate_movements",
    "cross_validate",
    "datasets",
    "delay",
    "expected_cost",
    "expected_precision",
    "fit",
    "io",
    "log_likelihood",
    "moments",
    "observe",
    "plots",
    "simulate",
    "simulate_like",
    "solve",
    "sweep",
    "tasks",
    "track_beliefs",
]


def __getattr__(name: str) -> Any:
    # Loaded when first used: matplotlib and pandas are slow to import.
    if name in ("datasets", "io", "plots"):
        return import_module(f"motorcost.{name}")
    raise AttributeError(f"module 'motorcost' has no attribute {name!r}")
