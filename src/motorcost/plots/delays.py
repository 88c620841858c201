"""A figure of delays that were compared."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from motorcost.errors import InputError
from motorcost.fitting.delays import WITHIN, DelayFit
from motorcost.plots.style import BLUE, GREY, clean


def plot_delays(tried: Sequence[DelayFit]) -> Figure:
    """Draw the log likelihood of each delay, relative to the best.

    `tried` are the `delays` of a fit. Delays above the dashed line are within the 95 % interval;
    those with which the trials contradict the model are left out.
    """
    shown = [f for f in tried if isinstance(f.delay, int) and np.isfinite(f.log_likelihood)]
    if not shown:
        raise InputError("there are no delays to draw")
    shown = sorted(shown, key=lambda found: found.seconds)
    best = max(found.log_likelihood for found in tried)
    figure = Figure(figsize=(4.6, 2.8), layout="constrained")
    ax = figure.subplots()
    ax.axhline(-WITHIN, color=GREY, linestyle="--", linewidth=0.8)
    steps = [int(found.delay) for found in shown]
    ax.plot(steps, [f.log_likelihood - best for f in shown], "o-", color=BLUE, linewidth=1.2)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("delay of the senses (steps)")
    ax.set_ylabel("log likelihood - best")
    if len(shown) > 1 and steps[-1] > 0:
        step = shown[-1].seconds / steps[-1]
        above = ax.secondary_xaxis(
            "top",
            functions=(
                lambda n: 1e3 * step * np.asarray(n),
                lambda ms: np.asarray(ms) / 1e3 / step,
            ),
        )
        above.set_xlabel("ms", fontsize=8)
        above.tick_params(labelsize=8)
    clean(ax)
    return figure
