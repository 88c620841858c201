"""A figure of why trials differ."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from motorcost.diagnostics.variability import RECORDING, Variability
from motorcost.errors import InputError
from motorcost.model.sources import SOURCES
from motorcost.plots.style import clean, legend_above, plain

# One colour for each source, of the Okabe-Ito palette; grey for the recording.
_COLOURS = dict(
    zip(
        (*SOURCES, RECORDING),
        ("#56B4E9", "#0072B2", "#D55E00", "#F0E442", "#009E73", "#CC79A7", "#8C8C8C"),
        strict=True,
    )
)


def plot_variability(found: Sequence[Variability]) -> Figure:
    """Draw which part of the variance between trials each source explains.

    There is one bar for each channel and moment of `found`, which `mc.variance_shares` returned.
    """
    if not found:
        raise InputError("there is no variability to draw")
    figure = Figure(figsize=(6.4, 0.9 + 0.42 * len(found)), layout="constrained")
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
    clean(ax)
    legend_above(figure, ax)
    return figure
