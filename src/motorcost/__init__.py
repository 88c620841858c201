"""Infer what people, animals and robots care about from how they move.

The usual way goes through a few names: a task (`mc.tasks.reaching`) makes a `Problem`, `solve`
finds its `Policy`, `simulate` plays it and gives `Trials`, and `fit` finds the parameters under
which trials are most probable; `sample` draws them from their posterior. `mc.io.read` reads
recordings, and `look` shows what is wrong with them before a fit; `Study` and `analyse` do all that
the command `motorcost fit` does. `dir(mc)` lists every public name.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from motorcost import parts, tasks
from motorcost.data.joining import concatenate_movements
from motorcost.data.movements import Movements
from motorcost.diagnostics import (
    Adequacy,
    Approximation,
    Bootstrap,
    Comparison,
    Design,
    Plausibility,
    Precision,
    Variability,
    bootstrap,
    check_approximation,
    check_fit,
    compare,
    cross_validate,
    design,
    expected_precision,
    plausibility,
    simulate_like,
    variance_shares,
)
from motorcost.errors import ConvergenceError, InputError, PrecisionError
from motorcost.fitting import baselines
from motorcost.fitting.delays import DelayFit
from motorcost.fitting.estimate import fit
from motorcost.fitting.fitted import Fit
from motorcost.fitting.information import Direction
from motorcost.fitting.leads import LeadFit
from motorcost.fitting.local_maximum import LocalMaximum
from motorcost.fitting.profiles import Profile
from motorcost.fitting.recovery import Recovery
from motorcost.inference.beliefs import Beliefs, track_beliefs
from motorcost.inference.likelihood import log_likelihood
from motorcost.inference.particles import ExactLogLikelihood, exact_log_likelihood
from motorcost.model.delay import delay
from motorcost.model.joining import concatenate
from motorcost.model.moments import Moments, expected_cost, moments
from motorcost.model.observer import Observer, ObserverSpec, observe
from motorcost.model.policy import Minima, Policy
from motorcost.model.problem import Problem
from motorcost.model.simulate import simulate
from motorcost.model.solver import solve
from motorcost.model.trials import Trials
from motorcost.references import citation
from motorcost.sweeps import sweep
from motorcost.sweeps.progress import SweepProgress
from motorcost.tasks.supports import LogNormal, LogUniform, Normal, Support, Uniform

if TYPE_CHECKING:
    from motorcost import io, plots
    from motorcost.io import datasets
    from motorcost.io.fits import load
    from motorcost.posterior.calibrated import Calibration
    from motorcost.posterior.calibration import calibrate
    from motorcost.posterior.likelihoods import Likelihood, factor
    from motorcost.posterior.result import Posterior, load_posterior
    from motorcost.posterior.sampling import sample
    from motorcost.study.analysis import Analysis, analyse
    from motorcost.study.overview import Look, look
    from motorcost.study.settings import Study

__version__ = version("motorcost")

__all__ = [
    "Adequacy",
    "Analysis",
    "Approximation",
    "Beliefs",
    "Bootstrap",
    "Calibration",
    "Comparison",
    "ConvergenceError",
    "DelayFit",
    "Design",
    "Direction",
    "ExactLogLikelihood",
    "Fit",
    "InputError",
    "LeadFit",
    "Likelihood",
    "LocalMaximum",
    "LogNormal",
    "LogUniform",
    "Look",
    "Minima",
    "Moments",
    "Movements",
    "Normal",
    "Observer",
    "ObserverSpec",
    "Plausibility",
    "Policy",
    "Posterior",
    "Precision",
    "PrecisionError",
    "Problem",
    "Profile",
    "Recovery",
    "Study",
    "Support",
    "SweepProgress",
    "Trials",
    "Uniform",
    "Variability",
    "analyse",
    "baselines",
    "bootstrap",
    "calibrate",
    "check_approximation",
    "check_fit",
    "citation",
    "compare",
    "concatenate",
    "concatenate_movements",
    "cross_validate",
    "datasets",
    "delay",
    "design",
    "exact_log_likelihood",
    "expected_cost",
    "expected_precision",
    "factor",
    "fit",
    "io",
    "load",
    "load_posterior",
    "log_likelihood",
    "look",
    "moments",
    "observe",
    "parts",
    "plausibility",
    "plots",
    "sample",
    "simulate",
    "simulate_like",
    "solve",
    "sweep",
    "tasks",
    "track_beliefs",
    "variance_shares",
]

# Loaded when first used, because they import pandas, matplotlib or ArviZ, which are slow to
# import: by public name, the module, and the name in it (None for the module itself).
_LAZY: dict[str, tuple[str, str | None]] = {
    "Analysis": ("motorcost.study.analysis", "Analysis"),
    "Calibration": ("motorcost.posterior.calibrated", "Calibration"),
    "Likelihood": ("motorcost.posterior.likelihoods", "Likelihood"),
    "Look": ("motorcost.study.overview", "Look"),
    "Posterior": ("motorcost.posterior.result", "Posterior"),
    "Study": ("motorcost.study.settings", "Study"),
    "analyse": ("motorcost.study.analysis", "analyse"),
    "calibrate": ("motorcost.posterior.calibration", "calibrate"),
    "datasets": ("motorcost.io.datasets", None),
    "factor": ("motorcost.posterior.likelihoods", "factor"),
    "io": ("motorcost.io", None),
    "load": ("motorcost.io.fits", "load"),
    "load_posterior": ("motorcost.posterior.result", "load_posterior"),
    "look": ("motorcost.study.overview", "look"),
    "plots": ("motorcost.plots", None),
    "sample": ("motorcost.posterior.sampling", "sample"),
}

if not TYPE_CHECKING:  # a type checker would otherwise accept every name, misspelt ones too

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module 'motorcost' has no attribute {name!r}")
        module, attribute = _LAZY[name]
        found = import_module(module)
        return found if attribute is None else getattr(found, attribute)


def __dir__() -> list[str]:
    return sorted([*__all__, "__all__", "__doc__", "__file__", "__name__", "__version__"])
