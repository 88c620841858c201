"""How far to trust a fit: uncertainty, checks of the model, and comparison with others."""

from motorcost.diagnostics.adequacy import Adequacy, Channel, TrialFit
from motorcost.diagnostics.approximation import Approximation, check_approximation
from motorcost.diagnostics.checking import check_fit
from motorcost.diagnostics.comparison import Comparison, compare, cross_validate
from motorcost.diagnostics.design_check import DesignCheck
from motorcost.diagnostics.designing import design
from motorcost.diagnostics.designs import Allocation, Design
from motorcost.diagnostics.plausible import Plausibility, plausibility
from motorcost.diagnostics.precision import Precision, expected_precision
from motorcost.diagnostics.replicates import simulate_like
from motorcost.diagnostics.resampling import Bootstrap, bootstrap
from motorcost.diagnostics.variability import Variability, variance_shares

__all__ = [
    "Adequacy",
    "Allocation",
    "Approximation",
    "Bootstrap",
    "Channel",
    "Comparison",
    "Design",
    "DesignCheck",
    "Plausibility",
    "Precision",
    "TrialFit",
    "Variability",
    "bootstrap",
    "check_approximation",
    "check_fit",
    "compare",
    "cross_validate",
    "design",
    "expected_precision",
    "plausibility",
    "simulate_like",
    "variance_shares",
]
