"""How far to trust a fit: uncertainty, checks of the model, and comparison with others.

In the order of reading:

- `replicates`: experiments simulated at the estimates. `resampling`: the bootstrap.
- `discrepancies`: statistics of a recorded experiment beside those of simulated ones, ->
  `checking`: `check_fit` -> `adequacy`: its result.
- `expectations`, `courses`: what the fitted agent does in each trial, and its mean course ->
  `plausible`: `plausibility`. `variability`: why trials differ.
- `comparison`: cross-validation, and which of several models explains the trials best.
- `gaps`: from moment matching to the exact likelihood, -> `approximation`: `check_approximation`.
- `trial_information`: what one trial tells, -> `precision`: errors to expect of an experiment.
- `candidates`, `allocation`: conditions, and how many trials of each, -> `designing`: `design` ->
  `designs`: its result, with `design_tables` and `design_check`.
"""

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
