"""Infer what people, animals and robots care about from how they move."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from motorcost import tasks
from motorcost.data.movements import Movements, concatenate_movements
from motorcost.diagnostics import (
    bootstrap,
    check_fit,
    compare,
    cross_validate,
    expected_precision,
    simulate_like,
)
from motorcost.errors import ConvergenceError, InputError, PrecisionError
from motorcost.fitting import baselines
from motorcost.fitting.estimate import fit
from motorcost.fitting.fitted import Fit
from motorcost.fitting.recovery import Recovery
from motorcost.inference.beliefs import Beliefs, track_beliefs
from motorcost.inference.likelihood import log_likelihood
from motorcost.model.delay import delay
from motorcost.model.joining import concatenate
from motorcost.model.moments import Moments, expected_cost, moments
from motorcost.model.observer import Observer, ObserverSpec, observe
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.model.simulate import simulate
from motorcost.model.solver import solve
from motorcost.model.trials import Trials
from motorcost.sweeps import sweep
from motorcost.tasks.supports import LogNormal, LogUniform, Normal, Uniform

if TYPE_CHECKING:
    from motorcost import io, plots
    from motorcost.io import datasets

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
    "ObserverSpec",
    "Policy",
    "PrecisionError",
    "Problem",
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


# Loaded when first used: matplotlib and pandas are slow to import.
_LAZY = {"datasets": "motorcost.io.datasets", "io": "motorcost.io", "plots": "motorcost.plots"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return import_module(_LAZY[name])
    raise AttributeError(f"module 'motorcost' has no attribute {name!r}")
