"""The style that all figures share, and the figures that carry it.

Figures are drawn and saved in a context of matplotlib's settings, so that they look the same
whatever the user has set, and leave the user's settings as they were.
"""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable
from contextlib import AbstractContextManager
from io import BytesIO
from pathlib import Path
from typing import Any, ParamSpec

from cycler import cycler
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

# From the Okabe-Ito palette, which people with any colour vision can tell apart (but for grey).
BLUE = "#0072B2"
ORANGE = "#D55E00"
GREEN = "#009E73"
PINK = "#CC79A7"
SKY = "#56B4E9"
AMBER = "#E69F00"
GREY = "#8C8C8C"
COLOURS = (BLUE, ORANGE, GREEN, PINK, SKY, AMBER)

# The most channels or states that are drawn unless the user names some: more do not fit a page.
MOST_PANELS = 6
_SMALL = 8
# Matplotlib's settings, where they are not its defaults.
STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": _SMALL,
    "ytick.labelsize": _SMALL,
    "legend.fontsize": _SMALL,
    "legend.frameon": False,
    "figure.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "axes.prop_cycle": cycler(color=COLOURS),
    "savefig.dpi": 200,
    # Text stays text, which an editor of drawings can change and a search finds.
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    # The names of parts of an SVG file are otherwise different each time.
    "svg.hashsalt": "motorcost",
}
# How many characters of a caption fit an inch, and the height of its lines in inches.
_CHARACTERS_PER_INCH = 17
_LINE = _SMALL * 1.3 / 72
# What a file of each format calls its date, which is left out so that the same figure gives the
# same file, and what it calls its description.
_METADATA = {
    "svg": ({"Date": None}, "Description"),
    "pdf": ({"CreationDate": None}, "Subject"),
    "png": ({}, "Description"),
}

_P = ParamSpec("_P")


class CaptionedFigure(Figure):
    """A matplotlib figure in the style of motorcost, with a caption.

    Attributes
    ----------
    caption : str
        What the lines, the bands and the error bars are, in sentences. It is written into SVG, PDF
        and PNG files as their description.

    Examples
    --------
    >>> figure = mc.plots.plot_costs(policy)
    >>> _ = figure.draw_caption()
    >>> figure.savefig("costs.svg")
    """

    caption: str = ""

    def savefig(self, fname: Any, **kwargs: Any) -> None:
        """Save the figure, as matplotlib does. SVG and PDF files have text as text, and no date."""
        chosen = kwargs.get("format")
        if chosen is None:
            chosen = Path(fname).suffix[1:] if isinstance(fname, str | Path) else "png"
        if chosen.lower() in _METADATA:
            dates, description = _METADATA[chosen.lower()]
            about = {description: self.caption} if self.caption else {}
            kwargs["metadata"] = {**dates, **about, **(kwargs.get("metadata") or {})}
        with settings():
            super().savefig(fname, **kwargs)

    def draw_caption(self) -> CaptionedFigure:
        """Write the caption below the picture, which becomes higher by that; return the figure."""
        lines = textwrap.wrap(self.caption, int(_CHARACTERS_PER_INCH * self.get_figwidth()))
        if lines and self.get_supxlabel() == "":
            self.set_figheight(self.get_figheight() + _LINE * (len(lines) + 1))
            with settings():
                self.supxlabel(plain("\n".join(lines)), x=0.01, ha="left", fontsize=_SMALL)
        return self

    def _repr_png_(self) -> bytes:
        """The picture for notebooks, which else show only figures that pyplot has made."""
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


def settings() -> AbstractContextManager[None]:
    """A context in which matplotlib has our settings in place of the user's."""
    found: AbstractContextManager[None] = style.context(["default", STYLE])
    return found


def styled(function: Callable[_P, CaptionedFigure]) -> Callable[_P, CaptionedFigure]:
    """Make a function draw in our style."""

    @functools.wraps(function)
    def in_style(*args: _P.args, **kwargs: _P.kwargs) -> CaptionedFigure:
        with settings():
            return function(*args, **kwargs)

    return in_style


def new_figure(width: float, height: float) -> CaptionedFigure:
    """An empty figure of this size in inches. Pyplot does not know of it, so nothing shows it."""
    return CaptionedFigure(figsize=(width, height), layout="constrained")


def captioned(figure: CaptionedFigure, *sentences: str) -> CaptionedFigure:
    """Give a figure its caption; empty sentences are left out."""
    figure.caption = " ".join(sentence for sentence in sentences if sentence)
    return figure


def counted(count: int, what: str) -> str:
    """A number with its noun: "1 trial", "3 trials"."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def with_unit(name: str, unit: str) -> str:
    """Return a name with its unit in brackets, if it has one."""
    return plain(f"{name} ({unit})" if unit else name)


def plain(text: str) -> str:
    """Return text that matplotlib shows as it is: between dollar signs it would read formulas."""
    return text.replace("$", r"\$")


def clean(ax: Axes) -> None:
    """Remove the upper and right spines, and make the tick labels small."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=_SMALL)


def shape_of(panels: int) -> tuple[int, int]:
    """Rows and columns of a grid with room for so many panels."""
    columns = 2 if panels == 4 else min(panels, 3)
    return -(-panels // columns), columns


def grid(panels: int, *, share: bool = True) -> tuple[CaptionedFigure, Any]:
    """Return a figure and its axes, with room for `panels` panels; `share` the time axis."""
    rows, columns = shape_of(panels)
    figure = new_figure(max(4.2, 3.2 * columns), 2.3 * rows + 0.3)
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=share)


def legend_above(figure: Figure | SubFigure, *axes: Axes) -> None:
    """Draw one legend for all of these axes, above them."""
    handles: dict[str, Any] = {}
    for artists, labels in [ax.get_legend_handles_labels() for ax in axes]:
        handles |= dict(zip(labels, artists, strict=True))
    if handles:
        # As many beside each other as fit: a letter is about 0.065 inches, a line with space 0.5.
        widths = [0.5 + 0.065 * len(label) for label in handles]
        room = figure.bbox.width / figure.dpi
        fitting = len(handles) if sum(widths) < room else int(room / max(widths))
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside upper right",
            ncols=max(1, fitting),
            frameon=False,
            fontsize=_SMALL,
        )


def finish_grid(figure: Figure | SubFigure, axes: Any, used: int) -> None:
    """Hide all panels but the first `used`, label the lowest of each column, and draw a legend."""
    columns = axes.shape[1]
    legend_above(figure, *axes.flat)
    for i, ax in enumerate(axes.flat):
        if i >= used:
            ax.set_visible(False)
        elif i + columns >= used or not ax.get_shared_x_axes().joined(ax, axes.flat[0]):
            ax.set_xlabel("time (s)")
            ax.tick_params(labelbottom=True)
