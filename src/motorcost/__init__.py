"""Infer what people, animals and robots care about from how they move."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from motorcost import tasks
from motorcost.delay import delay
from motorcost.errors import ConvergenceError, InputError, PrecisionError
from motorcost.moments import Moments, expected_cost, moments
from motorcost.observer import Observer, observe
from motorcost.problem import Problem
from motorcost.simulate import simulate
from motorcost.solver import Policy, solve
from motorcost.trials import Trials

if TYPE_CHECKING:
    from motorcost import io, plots

__version__ = "0.1.0"

__all__ = [
    "ConvergenceError",
    "InputError",
    "Moments",
    "Observer",
    "Policy",
    "PrecisionError",
    "Problem",
    "Trials",
    "delay",
    "expected_cost",
    "io",
    "moments",
    "observe",
    "plots",
    "simulate",
    "solve",
    "tasks",
]


def __getattr__(name: str) -> Any:
    # Loaded when first used: matplotlib and pandas are slow to import.
    if name in ("io", "plots"):
        return import_module(f"motorcost.{name}")
    raise AttributeError(f"module 'motorcost' has no attribute {name!r}")
