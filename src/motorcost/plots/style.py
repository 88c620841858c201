"""Colours and layout that all pictures share."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

# From the Okabe-Ito palette, which people with any colour vision can tell apart.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#8C8C8C"


def with_unit(name: str, unit: str) -> str:
    """A name with its unit in brackets, if it has one."""
    return plain(f"{name} ({unit})" if unit else name)


def plain(text: str) -> str:
    """A name as it is: between dollar signs, matplotlib would read formulas."""
    return text.replace("$", r"\$")


def clean(ax: Axes) -> None:
    """Take away what says nothing."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)


def grid(panels: int) -> tuple[Figure, Any]:
    """A figure with room for so many panels that share their time axis."""
    columns = 2 if panels == 4 else min(panels, 3)
    rows = -(-panels // columns)
    figure = Figure(figsize=(3.4 * columns, 2.5 * rows + 0.2), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=True)


def legend_above(figure: Figure, *axes: Axes) -> None:
    """One legend for these panels, above all."""
    handles: dict[str, Any] = {}
    for panel, names in [ax.get_legend_handles_labels() for ax in axes]:
        handles |= dict(zip(names, panel, strict=True))
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside upper right",
        ncols=len(handles),
        frameon=False,
        fontsize=8,
    )


def finish_grid(figure: Figure, axes: Any, used: int) -> None:
    """Hide the panels left over, label the lowest of each column, and draw one legend for all."""
    columns = axes.shape[1]
    legend_above(figure, *axes.flat)
    for i, ax in enumerate(axes.flat):
        if i >= used:
            ax.set_visible(False)
        elif i + columns >= used:
            ax.set_xlabel("time (s)")
            ax.tick_params(labelbottom=True)
