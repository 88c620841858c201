"""Figures of delays and of leads that were compared."""

from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import MaxNLocator

from motorcost.errors import InputError
from motorcost.fitting.delays import WITHIN, DelayFit
from motorcost.fitting.leads import LeadFit
from motorcost.plots.style import BLUE, GREY, CaptionedFigure, captioned, new_figure, styled


@styled
def plot_delays(tried: Sequence[DelayFit]) -> CaptionedFigure:
    """Draw the log likelihood of each delay, relative to the best.

    `tried` are the `delays` of a fit. Delays above the dashed line are within the 95 % interval;
    those with which the trials contradict the model are left out.

    Examples
    --------
    >>> compared = mc.fit(
    ...     mc.tasks.reaching,
    ...     positions,
    ...     ["effort"],
    ...     observer=camera,
    ...     n_starts=1,
    ...     delay=[0, 1],
    ...     key=jax.random.key(1),
    ... )
    >>> figure = mc.plots.plot_delays(compared.delays)
    """
    shown = [f for f in tried if isinstance(f.delay, int) and np.isfinite(f.log_likelihood)]
    if not shown:
        raise InputError("there are no delays to draw")
    shown = sorted(shown, key=lambda found: found.seconds)
    best = max(found.log_likelihood for found in tried)
    figure = new_figure(4.6, 2.8)
    ax = figure.subplots()
    ax.axhline(-WITHIN, color=GREY, linestyle="--", linewidth=0.8)
    steps = [int(found.delay) for found in shown]
    ax.plot(steps, [f.log_likelihood - best for f in shown], "o-", color=BLUE, linewidth=1.2)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("delay of the senses (steps)")
    ax.set_ylabel("log likelihood - best (nats)")
    if len(shown) > 1 and steps[-1] > 0:
        step = shown[-1].seconds / steps[-1]
        above = ax.secondary_xaxis(
            "top",
            functions=(
                lambda n: 1e3 * step * np.asarray(n),
                lambda ms: np.asarray(ms) / 1e3 / step,
            ),
        )
        above.set_xlabel("delay of the senses (ms)")
    return captioned(
        figure,
        "Log likelihood of the best fit with each delay of the senses, relative to the best delay.",
        "Delays above the dashed line are within the 95 % interval.",
    )


@styled
def plot_leads(tried: Sequence[LeadFit]) -> CaptionedFigure:
    """Draw the log likelihood of each lead, relative to the best.

    `tried` are the `leads` of a fit. Leads with which the trials contradict the model are left out.

    Examples
    --------
    >>> compared = mc.fit(
    ...     mc.tasks.reaching,
    ...     positions,
    ...     ["effort"],
    ...     observer=camera,
    ...     n_starts=1,
    ...     lead=[0, 0.01],
    ...     key=jax.random.key(1),
    ... )
    >>> figure = mc.plots.plot_leads(compared.leads)
    """
    shown = sorted(
        (found for found in tried if np.isfinite(found.after_first_sample)),
        key=lambda found: found.lead,
    )
    if not shown:
        raise InputError("there are no leads to draw")
    best = max(found.after_first_sample for found in shown)
    figure = new_figure(4.6, 2.6)
    ax = figure.subplots()
    ax.plot(
        [1e3 * found.lead for found in shown],
        [found.after_first_sample - best for found in shown],
        "o-",
        color=BLUE,
        linewidth=1.2,
    )
    ax.set_xlabel("lead before the first sample (ms)")
    ax.set_ylabel("log likelihood - best (nats)")
    return captioned(
        figure,
        "Log likelihood of the samples after the first, given the first, of the best fit with each "
        "lead, relative to the best lead.",
    )
