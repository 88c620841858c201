"""Ticks of logarithmic axes that can be read."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

# A log axis that spans more than this (in powers of ten) has ticks at powers of ten only.
_WIDE = 1.5

# Without a power of ten at the end of the axis, where the label is.
AS_NUMBER = FuncFormatter(lambda value, _: f"{value:.4g}")


def logarithmic_axis(ax: Axes) -> None:
    """Make the horizontal axis logarithmic, with readable numbers."""
    ax.set_xscale("log")
    ticks_of_log_axis(ax.xaxis, ax.get_xlim())


def ticks_of_log_axis(axis: Any, limits: tuple[float, float]) -> None:
    """Choose the ticks of a logarithmic axis by how far it reaches."""
    low, high = limits
    axis.set_minor_formatter(NullFormatter())
    if high > low * 10**_WIDE:
        axis.set_major_locator(LogLocator(numticks=4))
        return
    if high > 6 * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=6))
    else:  # on so short a piece there are few powers of ten and simple multiples of them
        axis.set_major_locator(MaxNLocator(3))
        axis.set_minor_locator(MaxNLocator(3))
    axis.set_major_formatter(AS_NUMBER)
