"""Figures of behaviour, policies, fits and designs. Each function returns a matplotlib `Figure`."""

from motorcost.plots.behaviour import plot_beliefs, plot_costs, plot_gains, plot_trials
from motorcost.plots.delays import plot_delays
from motorcost.plots.design import plot_design
from motorcost.plots.fits import (
    plot_estimates,
    plot_innovations,
    plot_predictions,
    plot_profiles,
    plot_starts,
    plot_worst_trials,
)
from motorcost.plots.overview import plot_look
from motorcost.plots.plane import is_planar, plot_paths, plot_targets
from motorcost.plots.variability import plot_variability

__all__ = [
    "is_planar",
    "plot_beliefs",
    "plot_costs",
    "plot_delays",
    "plot_design",
    "plot_estimates",
    "plot_gains",
    "plot_innovations",
    "plot_look",
    "plot_paths",
    "plot_predictions",
    "plot_profiles",
    "plot_starts",
    "plot_targets",
    "plot_trials",
    "plot_variability",
    "plot_worst_trials",
]
