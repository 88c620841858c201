"""Colours and layout that all figures share."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

# From the Okabe-Ito palette, which people with any colour vision can tell apart (but for grey).
BLUE = "#0072B2"
ORANGE = "#D55E00"
GREEN = "#009E73"
GREY = "#8C8C8C"


def with_unit(name: str, unit: str) -> str:
    """Return a name with its unit in brackets, if it has one."""
    return plain(f"{name} ({unit})" if unit else name)


def plain(text: str) -> str:
    """Return text that matplotlib shows as it is: between dollar signs it would read formulas."""
    return text.replace("$", r"\$")


def clean(ax: Axes) -> None:
    """Remove the upper and right spines, and make the tick labels small."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)


def grid(panels: int) -> tuple[Figure, Any]:
    """Return a figure and its axes, with room for `panels` panels that share their time axis."""
    columns = 2 if panels == 4 else min(panels, 3)
    rows = -(-panels // columns)
    figure = Figure(figsize=(3.4 * columns, 2.5 * rows + 0.2), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=True)


def legend_above(figure: Figure, *axes: Axes) -> None:
    """Draw one legend for all of these axes, above them."""
    handles: dict[str, Any] = {}
    for artists, labels in [ax.get_legend_handles_labels() for ax in axes]:
        handles |= dict(zip(labels, artists, strict=True))
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside upper right",
        ncols=len(handles),
        frameon=False,
        fontsize=8,
    )


def finish_grid(figure: Figure, axes: Any, used: int) -> None:
    """Hide all panels but the first `used`, label the lowest of each column, and draw a legend."""
    columns = axes.shape[1]
    legend_above(figure, *axes.flat)
    for i, ax in enumerate(axes.flat):
        if i >= used:
            ax.set_visible(False)
        elif i + columns >= used:
            ax.set_xlabel("time (s)")
            ax.tick_params(labelbottom=True)
