"""The pictures of the page, made with Bokeh: each is made once, and then only its data change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from bokeh.core.properties import field
from bokeh.models import (
    BoxAnnotation,
    ColumnDataSource,
    CustomJSTickFormatter,
    FactorRange,
    HoverTool,
    Legend,
    LegendItem,
    Range1d,
    Span,
)
from bokeh.palettes import Colorblind
from bokeh.plotting import figure

from motorcost.explore.likelihood import Slice
from motorcost.explore.scene import View

# From the Okabe-Ito palette, lighter on a dark page.
_LIGHT = {"model": "#0072B2", "data": "#6E6E6E", "belief": "#D55E00", "mark": "#009E73"}
_DARK = {"model": "#56B4E9", "data": "#B0B0B0", "belief": "#E69F00", "mark": "#2FBF95"}
# How many SD a band reaches to either side.
BAND = 2.0
# Without yellow and black, which a light page and a dark one hide.
_GAINS = [Colorblind[8][i] for i in (0, 1, 3, 4, 5, 6)]
# Room around the data, as a share of their extent.
_ROOM = 0.05
# Two digits; small numbers with an exponent.
_SHORT_NUMBER = """
const value = Number(tick.toPrecision(2));
return value != 0 && Math.abs(value) < 1e-2 ? value.toExponential() : value.toString();
"""
_DASHES = ("solid", "dashed", "dotted", "dashdot")


def colours(dark: bool) -> dict[str, str]:
    """The colours of a page."""
    return _DARK if dark else _LIGHT


def _figure(x: str, y: str, *, height: int, label: str, **options: object) -> figure:
    # Ranges of their own rather than Bokeh's from the data, which fail as long as there are none.
    options = {"x_range": Range1d(0.1, 1.0), "y_range": Range1d(0.0, 1.0)} | options
    plot = figure(
        height=height,
        sizing_mode="stretch_width",
        min_width=280,
        x_axis_label=x,
        y_axis_label=y,
        tools="pan,wheel_zoom,box_zoom,reset",
        active_scroll=None,
        **options,
    )
    plot.toolbar.autohide = True
    plot.toolbar.logo = None
    plot.name = label
    return plot


def _fit_range(range_: Range1d, *values: np.ndarray, logarithmic: bool = False) -> None:
    """Make a range hold all of these values, with some room on either side."""
    flat = np.concatenate([np.ravel(part) for part in values if np.size(part)] or [np.zeros(1)])
    flat = flat[np.isfinite(flat)]
    if not flat.size:
        return
    low, high = float(flat.min()), float(flat.max())
    if logarithmic:
        range_.update(start=low / 1.05, end=high * 1.05)
        return
    room = _ROOM * (high - low) or max(abs(high), 1e-3)
    range_.update(start=low - room, end=high + room)


def _lines(values: np.ndarray, times: np.ndarray) -> dict[str, np.ndarray]:
    """Several courses (movement, time) without what is missing, as one line with gaps (NaN).

    Two long arrays reach the browser in four messages; two for each course, as `multi_line` wants
    them, take two hundred.
    """
    present = np.concatenate([~np.isnan(values), np.ones((len(values), 1), bool)], axis=1)
    gap = np.full((len(values), 1), np.nan)
    x = np.concatenate([np.broadcast_to(times[: values.shape[1]], values.shape), gap], axis=1)
    return {"x": x[present], "y": np.concatenate([values, gap], axis=1)[present]}


@dataclass(frozen=True)
class Courses:
    """Courses over time: of the data, of the model one by one, and the model's mean with a band."""

    plot: figure
    data: ColumnDataSource
    movements: ColumnDataSource
    mean: ColumnDataSource
    followed: ColumnDataSource
    of_data: tuple[LegendItem, ...]

    @classmethod
    def make(cls, label: str, palette: Mapping[str, str], *, has_band: bool = True) -> Courses:
        """An empty picture. Without a band, its mean has no SD."""
        plot = _figure("time (s)", "", height=300, label=label)
        data, movements, chosen = (ColumnDataSource({"x": [], "y": []}) for _ in range(3))
        mean = ColumnDataSource({"x": [], "mean": [], "low": [], "high": []})
        drawn = plot.line("x", "y", source=data, color=palette["data"], alpha=0.45)
        band = plot.varea("x", "low", "high", source=mean, color=palette["model"], alpha=0.2)
        simulated = plot.line(
            "x", "y", source=movements, color=palette["model"], alpha=0.3, line_width=1
        )
        middle = plot.line("x", "mean", source=mean, color=palette["model"], line_width=3)
        followed = plot.line("x", "y", source=chosen, color=palette["belief"], line_width=2)
        items = [
            LegendItem(label="model: mean", renderers=[middle]),
            *([LegendItem(label=f"± {BAND:.0f} SD", renderers=[band])] if has_band else []),
            LegendItem(label="simulated", renderers=[simulated]),
        ]
        of_data = (
            LegendItem(label="recorded", renderers=[drawn], visible=False),
            LegendItem(label="the one followed", renderers=[followed], visible=False),
        )
        _legend(plot, [*items, *of_data])
        plot.add_tools(HoverTool(renderers=[middle], tooltips=[("time", "@x"), ("mean", "@mean")]))
        return cls(plot, data, movements, mean, chosen, of_data)

    def show(
        self,
        times: np.ndarray,
        mean: np.ndarray,
        sd: np.ndarray | None,
        movements: np.ndarray,
        axis: str,
    ) -> None:
        """Draw the model: its mean and SD over time, and single movements."""
        reach = BAND * (np.zeros_like(mean) if sd is None else sd)
        self.mean.data = {"x": times, "mean": mean, "low": mean - reach, "high": mean + reach}
        self.movements.data = _lines(movements, times)
        self.plot.yaxis.axis_label = axis
        self._fit_ranges()

    def show_data(self, times: np.ndarray, samples: np.ndarray, followed: int | None) -> None:
        """Draw recorded movements (movement, time), one of them in another colour."""
        self.data.data = _lines(samples, times)
        chosen = samples[:0] if followed is None else samples[followed : followed + 1]
        self.followed.data = _lines(chosen, times)
        for item in self.of_data:
            item.visible = len(samples) > 0
        self._fit_ranges()

    def _fit_ranges(self) -> None:
        mean, drawn = self.mean.data, [self.movements.data, self.data.data]
        _fit_range(self.plot.x_range, mean["x"], *(lines["x"] for lines in drawn))
        _fit_range(self.plot.y_range, mean["low"], mean["high"], *(lines["y"] for lines in drawn))


def _legend(plot: figure, items: list[LegendItem]) -> None:
    legend = Legend(items=items, orientation="horizontal", label_text_font_size="11px", ncols=3)
    legend.padding, legend.margin, legend.border_line_alpha = 2, 2, 0.0
    legend.background_fill_alpha = 0.0
    plot.add_layout(legend, "above")


@dataclass(frozen=True)
class Gains:
    """Gains over time, each as a share of its largest."""

    plot: figure
    source: ColumnDataSource

    @classmethod
    def make(cls, label: str) -> Gains:
        """An empty picture."""
        plot = _figure("time (s)", "share of its largest", height=260, label=label)
        source = ColumnDataSource({"x": [], "y": [], "colour": [], "dash": [], "name": []})
        lines = plot.multi_line(
            "x", "y", source=source, line_color="colour", line_dash="dash", line_width=2
        )
        _legend(plot, [LegendItem(label=field("name"), renderers=[lines])])
        return cls(plot, source)

    def show(self, times: np.ndarray, gains: Mapping[str, np.ndarray]) -> None:
        """Draw gains by name; those that are zero throughout are left out."""
        used = {name: line for name, line in gains.items() if np.abs(line).max() > 0}
        count = range(len(used))
        shares = [line / np.abs(line).max() for line in used.values()]
        self.source.data = {  # lists, since each array would be two messages to the browser
            "x": [times[: len(line)].tolist() for line in shares],
            "y": [line.tolist() for line in shares],
            "colour": [_GAINS[i % len(_GAINS)] for i in count],
            "dash": [_DASHES[i // len(_GAINS) % len(_DASHES)] for i in count],
            "name": [f"{name}: {np.abs(line).max():.3g}" for name, line in used.items()],
        }
        _fit_range(self.plot.x_range, times)
        _fit_range(self.plot.y_range, *shares, np.zeros(1))


@dataclass(frozen=True)
class Shares:
    """What the expected cost is for, as bars."""

    plot: figure
    source: ColumnDataSource

    @classmethod
    def make(cls, palette: Mapping[str, str]) -> Shares:
        """An empty picture."""
        plot = _figure(
            "% of the expected cost",
            "",
            height=260,
            label="cost",
            y_range=FactorRange(factors=["effort"]),
            x_range=Range1d(0, 100),
        )
        source = ColumnDataSource({"name": [], "share": []})
        plot.hbar("name", right="share", source=source, height=0.7, color=palette["model"])
        return cls(plot, source)

    def show(self, shares: Mapping[str, float]) -> None:
        """Draw shares by name."""
        names = list(shares)[::-1]
        self.plot.y_range.factors = names
        self.source.data = {"name": names, "share": [100 * shares[name] for name in names]}


@dataclass(frozen=True)
class SlicePlot:
    """The log likelihood along one parameter, below its largest, with the slider's place and the
    interval of a fit."""

    plot: figure
    source: ColumnDataSource
    here: Span
    interval: BoxAnnotation

    @classmethod
    def make(
        cls, name: str, axis: str, *, logarithmic: bool, palette: Mapping[str, str]
    ) -> SlicePlot:
        """An empty picture."""
        plot = _figure(
            axis,
            "log likelihood",
            height=220,
            label=f"slice {name}",
            x_axis_type="log" if logarithmic else "linear",
        )
        plot.xaxis.ticker.desired_num_ticks = 3  # more would overlap
        plot.xaxis.formatter = CustomJSTickFormatter(code=_SHORT_NUMBER)
        source = ColumnDataSource({"x": [], "y": []})
        plot.line("x", "y", source=source, color=palette["model"], line_width=2)
        plot.scatter("x", "y", source=source, color=palette["model"], size=4)
        here = Span(dimension="height", line_color=palette["belief"], line_width=2)
        interval = BoxAnnotation(fill_color=palette["mark"], fill_alpha=0.25, visible=False)
        plot.add_layout(here)
        plot.add_layout(interval)
        return cls(plot, source, here, interval)

    def show(self, found: Slice, value: float) -> None:
        """Draw a slice, and mark a value."""
        possible = np.isfinite(found.log_likelihoods)
        self.source.data = {
            "x": found.values[possible],
            "y": found.log_likelihoods[possible],
        }
        self.here.location = value
        logarithmic = self.plot.x_scale.__class__.__name__ == "LogScale"
        _fit_range(self.plot.x_range, found.values[possible], logarithmic=logarithmic)
        _fit_range(self.plot.y_range, found.log_likelihoods[possible])

    def show_interval(self, ends: tuple[float, float] | None) -> None:
        """Mark an interval, or none."""
        self.interval.visible = ends is not None
        if ends is not None:
            self.interval.left, self.interval.right = ends


@dataclass(frozen=True)
class BeliefPlot:
    """One movement: its samples, and what the agent believed with our uncertainty about it."""

    plot: figure
    samples: ColumnDataSource
    belief: ColumnDataSource
    own: ColumnDataSource
    of_own: LegendItem

    @classmethod
    def make(cls, palette: Mapping[str, str]) -> BeliefPlot:
        """An empty picture."""
        plot = _figure("time (s)", "", height=320, label="belief")
        samples, own = (ColumnDataSource({"x": [], "y": []}) for _ in range(2))
        belief = ColumnDataSource({"x": [], "mean": [], "low": [], "high": []})
        band = plot.varea("x", "low", "high", source=belief, color=palette["belief"], alpha=0.25)
        inferred = plot.line("x", "mean", source=belief, color=palette["belief"], line_width=3)
        truth = plot.line(
            "x", "y", source=own, color=palette["mark"], line_dash="dashed", line_width=2
        )
        dots = plot.scatter("x", "y", source=samples, color=palette["data"], size=5)
        of_own = LegendItem(
            label="what it did believe (simulated)", renderers=[truth], visible=False
        )
        _legend(
            plot,
            [
                LegendItem(label="recorded", renderers=[dots]),
                LegendItem(label="what the agent believed, inferred", renderers=[inferred]),
                LegendItem(label=f"± {BAND:.0f} SD of what we know of it", renderers=[band]),
                of_own,
            ],
        )
        return cls(plot, samples, belief, own, of_own)

    def show(
        self,
        times: np.ndarray,
        samples: np.ndarray | None,
        mean: np.ndarray,
        sd: np.ndarray,
        own: np.ndarray | None,
        axis: str,
    ) -> None:
        """Draw one state of one movement; samples and the agent's own belief where known."""
        self.belief.data = {
            "x": times,
            "mean": mean,
            "low": mean - BAND * sd,
            "high": mean + BAND * sd,
        }
        nothing: dict[str, list[float]] = {"x": [], "y": []}
        self.samples.data = nothing if samples is None else {"x": times, "y": samples}
        self.own.data = nothing if own is None else {"x": times, "y": own}
        self.of_own.visible = own is not None
        self.plot.yaxis.axis_label = axis
        _fit_range(self.plot.x_range, times)
        further = [line for line in (samples, own) if line is not None]
        _fit_range(self.plot.y_range, self.belief.data["low"], self.belief.data["high"], *further)


def control_gains(view: View) -> dict[str, np.ndarray]:
    """Gains of the control by name of the state; with several controls, by both names."""
    several = view.control_gains.shape[1] > 1
    return {
        f"{control} by {state}" if several else state: view.control_gains[:, i, j]
        for i, control in enumerate(view.controls)
        for j, state in enumerate(view.states)
    }


def filter_gains(view: View, state: str) -> dict[str, np.ndarray]:
    """Gains of the filter for one state, by what is sensed."""
    i = list(view.states).index(state)
    return {sense: view.filter_gains[:, i, k] for k, sense in enumerate(view.senses)}
