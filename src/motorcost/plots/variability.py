"""A figure of why trials differ."""

from collections.abc import Sequence

from motorcost.diagnostics.variability import RECORDING, Variability
from motorcost.errors import InputError
from motorcost.model.sources import SOURCES
from motorcost.plots.style import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PINK,
    SKY,
    CaptionedFigure,
    captioned,
    legend_above,
    new_figure,
    plain,
    styled,
)

# One colour for each source, of the Okabe-Ito palette; grey for the recording.
_COLOURS = dict(
    zip(
        (*SOURCES, RECORDING),
        (SKY, BLUE, ORANGE, AMBER, GREEN, PINK, GREY),
        strict=True,
    )
)


@styled
def plot_variability(found: Sequence[Variability]) -> CaptionedFigure:
    """Draw which part of the variance between trials each source explains.

    There is one bar for each channel and moment of `found`, which `mc.variance_shares` returned.

    Examples
    --------
    >>> figure = mc.plots.plot_variability(mc.variance_shares(fit))
    """
    if not found:
        raise InputError("there is no variability to draw")
    figure = new_figure(6.4, 0.9 + 0.42 * len(found))
    ax = figure.subplots()
    labels = [
        plain(f"{part.channel}, {part.when} (SD {part.sd:.3g} {part.unit})".replace(" )", ")"))
        for part in found
    ]
    left = [0.0] * len(found)
    for source, colour in _COLOURS.items():
        shares = [100 * part.shares.get(source, 0.0) for part in found]
        if any(shares):
            ax.barh(range(len(found)), shares, left=left, color=colour, label=source, height=0.7)
        left = [start + share for start, share in zip(left, shares, strict=True)]
    ax.set_yticks(range(len(found)), labels)
    ax.invert_yaxis()
    ax.set_xlim(0, 100)
    ax.set_xlabel("% of the variance between trials")
    legend_above(figure, ax)
    return captioned(
        figure,
        "The variance between trials of the same condition, in the fitted model, divided among its "
        "sources, half way through a trial (middle) and at its last step (end).",
    )
