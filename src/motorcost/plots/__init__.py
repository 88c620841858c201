"""Figures of behaviour, policies, fits and designs.

Each function returns a matplotlib `Figure` in one style, with a `caption` that says what its lines
and bands are; `figure.savefig("figure.svg")` saves it. Results have a method `plot` that calls the
function that fits them.

In the order of reading: `style` (what all figures share), `scales`, `groups`; `behaviour`, `plane`
and `overview` of recordings; `policies` and `beliefs` of agents; `fits`, `delays`, `checks`,
`plausibility`, `variability`, `comparisons` and `approximation` of fits; `analyses`, `posterior`,
`calibration` and `design`.
"""

from motorcost.plots.analyses import plot_analysis
from motorcost.plots.approximation import plot_approximation, plot_exact_log_likelihood
from motorcost.plots.behaviour import plot_movements, plot_trials
from motorcost.plots.beliefs import plot_beliefs, plot_moments
from motorcost.plots.calibration import plot_calibration
from motorcost.plots.checks import (
    plot_adequacy,
    plot_innovations,
    plot_predictions,
    plot_worst_trials,
)
from motorcost.plots.comparisons import plot_comparison, plot_precision, plot_recovery
from motorcost.plots.delays import plot_delays, plot_leads
from motorcost.plots.design import plot_design
from motorcost.plots.fits import (
    plot_bootstrap,
    plot_estimates,
    plot_profile,
    plot_profiles,
    plot_starts,
)
from motorcost.plots.overview import plot_look
from motorcost.plots.plane import is_planar, plot_paths, plot_targets
from motorcost.plots.plausibility import plot_plausibility
from motorcost.plots.policies import plot_costs, plot_gains, plot_minima
from motorcost.plots.posterior import plot_posterior, plot_predictive, plot_shrinkage
from motorcost.plots.style import CaptionedFigure
from motorcost.plots.variability import plot_variability

__all__ = [
    "CaptionedFigure",
    "is_planar",
    "plot_adequacy",
    "plot_analysis",
    "plot_approximation",
    "plot_beliefs",
    "plot_bootstrap",
    "plot_calibration",
    "plot_comparison",
    "plot_costs",
    "plot_delays",
    "plot_design",
    "plot_estimates",
    "plot_exact_log_likelihood",
    "plot_gains",
    "plot_innovations",
    "plot_leads",
    "plot_look",
    "plot_minima",
    "plot_moments",
    "plot_movements",
    "plot_paths",
    "plot_plausibility",
    "plot_posterior",
    "plot_precision",
    "plot_predictions",
    "plot_predictive",
    "plot_profile",
    "plot_profiles",
    "plot_recovery",
    "plot_shrinkage",
    "plot_starts",
    "plot_targets",
    "plot_trials",
    "plot_variability",
    "plot_worst_trials",
]
