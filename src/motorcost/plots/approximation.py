"""Figures of the approximation of the likelihood: how far it is from the exact one, and what that
does to estimates."""

import numpy as np

from motorcost.diagnostics.approximation import SMALL_BIAS, Approximation
from motorcost.errors import InputError
from motorcost.inference.averages import averaged
from motorcost.inference.particles import ExactLogLikelihood
from motorcost.plots.style import (
    BLUE,
    GREY,
    ORANGE,
    CaptionedFigure,
    captioned,
    counted,
    new_figure,
    plain,
    styled,
)

# Panels beside each other.
_COLUMNS = 4


@styled
def plot_approximation(found: Approximation) -> CaptionedFigure:
    """Draw the gap between the exact and the approximate log likelihood along each parameter, and
    the bias of each estimate.

    `found` is what `mc.check_approximation` returned. Bands and bars are two Monte Carlo errors.

    Examples
    --------
    >>> found = mc.check_approximation(fit, key=jax.random.key(0), particles=50, most_particles=50)
    >>> figure = mc.plots.plot_approximation(found)
    """
    if not found.profiles:
        raise InputError("there is no parameter to draw")
    panels = len(found.profiles) + 1
    columns = min(panels, _COLUMNS)
    rows = -(-panels // columns)
    figure = new_figure(2.9 * columns, 2.4 * rows + 0.2)
    axes = figure.subplots(rows, columns, squeeze=False).flat
    for ax, profile in zip(axes, found.profiles, strict=False):
        low, high = (profile.changes + sign * 2 * profile.errors for sign in (-1, 1))
        ax.fill_between(profile.offsets, low, high, color=BLUE, alpha=0.25, lw=0)
        ax.plot(profile.offsets, profile.changes, "o-", color=BLUE, ms=3, lw=1.4)
        ax.plot(profile.offsets, profile.slope * profile.offsets, color=ORANGE, lw=1.2, ls="--")
        ax.axhline(0, color=GREY, lw=0.8)
        ax.set_title(plain(profile.name))
        ax.set_xlabel("standard errors from the estimate")
        ax.set_ylabel("change of the gap (nats)")
    bars = axes[len(found.profiles)]
    names = [profile.name for profile in found.profiles]
    bars.axvspan(-SMALL_BIAS, SMALL_BIAS, color=GREY, alpha=0.2, lw=0)
    bars.axvline(0, color=GREY, lw=0.8)
    bars.errorbar(
        [found.biases[name] for name in names],
        range(len(names)),
        xerr=[2 * found.bias_errors[name] for name in names],
        fmt="o",
        color=ORANGE,
        ms=4,
        capsize=3,
    )
    bars.set_yticks(range(len(names)), [plain(name) for name in names])
    bars.set_ylim(len(names) - 0.5, -0.5)
    bars.set_title("bias of the estimates")
    bars.set_xlabel("standard errors")
    for ax in list(axes)[panels:]:
        ax.set_visible(False)
    return captioned(
        figure,
        "How the gap between the exact log likelihood and moment matching changes along the "
        "profile of each parameter (points), with the tangent at the estimate (dashed).",
        "Bands and error bars are two Monte Carlo errors.",
        f"Last panel: the bias of each estimate; within {SMALL_BIAS:g} standard errors (grey) it "
        "is small.",
        f"{counted(found.n_trials, 'trial')}, {found.particles} particles each.",
    )


@styled
def plot_exact_log_likelihood(found: ExactLogLikelihood) -> CaptionedFigure:
    """Draw how far moment matching is from the exact log likelihood, and how the filters differ.

    On the left is the gap, one point per trial if `found` has one value per trial, otherwise one
    for all together. On the right is what each filter estimates for each trial, relative to what
    all filters of the trial give together.

    Examples
    --------
    >>> exact = mc.exact_log_likelihood(
    ...     problem, positions, observer=camera, particles=50, key=jax.random.key(0)
    ... )
    >>> figure = mc.plots.plot_exact_log_likelihood(exact)
    """
    estimates = np.asarray(found.estimates)
    together, _ = averaged(estimates)
    gap, error = np.atleast_1d(found.gap), np.atleast_1d(found.error)
    figure = new_figure(7.2, 2.8)
    left, right = figure.subplots(1, 2)
    left.axhline(0, color=GREY, lw=0.8)
    known = np.nan_to_num(2 * error)
    left.errorbar(np.arange(1, len(gap) + 1), gap, yerr=known, fmt="o", color=BLUE, ms=3, lw=1)
    left.set_ylabel("exact - moment matching (nats)")
    left.set_xlabel("trial" if len(gap) == len(estimates) else "all trials together")
    if len(gap) == 1:
        left.set_xticks([])
        left.set_xlim(0, 2)
    right.axhline(0, color=GREY, lw=0.8)
    right.plot(
        np.arange(1, len(estimates) + 1), estimates - together[:, None], ".", color=ORANGE, ms=4
    )
    right.set_xlabel("trial")
    right.set_ylabel("filter - average (nats)")
    return captioned(
        figure,
        "Left: the exact log likelihood minus that of moment matching, with two Monte Carlo "
        "errors.",
        f"Right: what each of {counted(estimates.shape[1], 'particle filter')} estimates for each "
        f"of {counted(len(estimates), 'trial')}, relative to their average.",
    )
