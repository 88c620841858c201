"""The figure of an analysis: movements with the fitted model, and what was inferred from them."""

from typing import Any

import numpy as np

from motorcost.plots.checks import draw_predictions, predictions_caption
from motorcost.plots.fits import draw_estimates, estimates_caption
from motorcost.plots.style import CaptionedFigure, captioned, new_figure, styled
from motorcost.study.analysis import Analysis
from motorcost.study.result import LEVEL, intervals_of

_SINGLE_TRIALS = 30


@styled
def plot_analysis(analysis: Analysis) -> CaptionedFigure:
    """Draw the trials over those of the fitted model, and the estimates with their intervals.

    An analysis without checks (`analysis.adequacy`) has the estimates alone.

    Examples
    --------
    >>> mc.io.write_csv(positions, "trials.csv")
    >>> study = mc.Study(
    ...     "trials.csv", "reaching", ["effort"], noise=1e-3, starts=1, folds=0, baselines=False
    ... )
    >>> figure = mc.plots.plot_analysis(mc.analyse(study, warn=print))
    """
    fit, adequacy = analysis.fit, analysis.adequacy
    intervals = intervals_of(analysis)
    about = estimates_caption(fit, LEVEL, known=False)
    height = 0.62 * len(fit.names) + 0.5
    if adequacy is None:
        figure = new_figure(6.4, height)
        draw_estimates(figure, fit, intervals, None)
        return captioned(figure, about)
    trials = fit.trials
    figure = new_figure(9.6, max(2.0 * len(trials.channel_names) + 0.5, height))
    halves: Any = figure.subfigures(1, 2, width_ratios=[1.0, 1.15], wspace=0.04)
    left, right = halves
    everything = [("", np.ones(len(trials), bool))]
    draw_predictions(left, trials, adequacy, everything, _SINGLE_TRIALS)
    draw_estimates(right, fit, intervals, None)
    return captioned(
        figure, "Left: " + predictions_caption(trials, adequacy, _SINGLE_TRIALS), f"Right: {about}"
    )
