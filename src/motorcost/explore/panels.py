"""The tabs of the page: movements, likelihood and fit, one movement, export."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import panel as pn

from motorcost.data.kinematics import speed
from motorcost.explore import figures
from motorcost.explore.exports import figure_svg, study_archive
from motorcost.explore.knobs import Knob
from motorcost.explore.likelihood import Slice
from motorcost.explore.python_lines import python_text
from motorcost.explore.scene import View
from motorcost.explore.shown import Shown
from motorcost.inference.beliefs import Beliefs
from motorcost.model.trials import Trials
from motorcost.plots.style import with_unit
from motorcost.tasks.supports import Support

# Searches of a fit, unless a study has more.
MOST_SEARCHES = 50
_WIDE = {"sizing_mode": "stretch_width"}
_WRAPPED = ".bk-input-group { flex-wrap: wrap; row-gap: 4px; }"


def side_by_side(*plots: Any, least: int = 340) -> pn.FlexBox:
    """Plots beside each other where the page is wide enough, otherwise below each other."""
    boxes = [
        pn.Column(plot, styles={"flex": f"1 1 {least}px", "min-width": "0"}, margin=0, **_WIDE)
        for plot in plots
    ]
    return pn.FlexBox(*boxes, gap="8px", margin=0, **_WIDE)


def _captioned(plot: Any, text: str) -> pn.Column:
    return pn.Column(
        pn.pane.Bokeh(plot, **_WIDE),
        pn.pane.HTML(f"<small>{text}</small>", margin=(0, 10)),
        **_WIDE,
    )


class Messages:
    """What the page says, by what it is about: a message takes the place of the one before about
    the same, and an empty one takes it away."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self.view = pn.pane.Alert("", alert_type="warning", visible=False, **_WIDE)

    def say(self, text: str, about: str) -> None:
        """Say something about something."""
        self._texts[about] = text
        lines = [escape(line) for said in self._texts.values() for line in said.splitlines()]
        self.view.param.update(object="<br>".join(lines), visible=bool(lines))


class MovementPanel:
    """What the agent does, above what was recorded."""

    def __init__(self, palette: Mapping[str, str], changed: Callable[[], None]) -> None:
        self.state = pn.widgets.Select(name="State", options=[], width=160)
        self.state.param.watch(lambda _: changed(), "value")
        self.course = figures.Courses.make("course", palette)
        self.speed = figures.Courses.make("speed", palette, has_band=False)
        self.control = figures.Gains.make("control gains")
        self.filter = figures.Gains.make("filter gains")
        self.shares = figures.Shares.make(palette)
        self.view = pn.Column(
            self.state,
            side_by_side(
                _captioned(
                    self.course.plot,
                    "Mean and SD are exact, over movements; 20 movements are simulated.",
                ),
                _captioned(self.speed.plot, "Speed of the mean movement, and of single ones."),
            ),
            side_by_side(
                _captioned(self.shares.plot, "What the expected cost is for."),
                _captioned(
                    self.control.plot,
                    "Gains of the control, u = -L x̂, each as a share of its largest (beside its "
                    "name).",
                ),
                _captioned(
                    self.filter.plot,
                    "Gains of the agent's filter: how much of a surprise in what is sensed goes "
                    "into its estimate of this state.",
                ),
            ),
            **_WIDE,
        )

    def show(self, found: View, start: float) -> None:
        """Draw what the agent does. `start` is the time of the model's first step."""
        names = list(found.states)
        if self.state.options != names:
            self.state.options = names
            self.state.value = found.place[0]
        state = self.state.value
        times = found.times + start
        axis = with_unit(state, found.states[state])
        self.course.show(times, *found.course(state), axis)
        unit = found.states[found.place[0]]
        self.speed.show(
            times, found.mean_speed, None, found.speeds, f"speed ({unit}/s)" if unit else "speed"
        )
        self.shares.show(found.shares)
        self.control.show(times, figures.control_gains(found))
        self.filter.show(times, figures.filter_gains(found, state))

    @property
    def has_data(self) -> bool:
        """Whether recorded movements are drawn."""
        return len(self.course.data.data["x"]) > 0 or len(self.speed.data.data["x"]) > 0

    def show_data(self, trials: Trials | None, place: Sequence[str], followed: int | None) -> None:
        """Draw recorded movements; nothing where the state was not recorded."""
        if trials is None:
            for plot in (self.course, self.speed):
                plot.show_data(np.empty(0), np.empty((0, 0)), None)
            return
        times, observed = np.asarray(trials.times), np.asarray(trials.observed)
        names = list(trials.channel_names)
        if self.state.value in names:
            self.course.show_data(times, observed[..., names.index(self.state.value)], followed)
        else:
            self.course.show_data(times, observed[:0, :, 0], None)
        if set(place) <= set(names):
            columns = [names.index(name) for name in place]
            speeds = np.array([speed(samples[:, columns], times) for samples in observed])
            self.speed.show_data(times, speeds, followed)
        else:
            self.speed.show_data(times, observed[:0, :, 0], None)


class FitPanel:
    """The log likelihood, its slices, and a fit."""

    def __init__(
        self,
        palette: Mapping[str, str],
        *,
        changed: Callable[[], None],
        start: Callable[[], None],
        stop: Callable[[], None],
    ) -> None:
        self._palette, self._changed, self._quiet = palette, changed, False
        self._slices: dict[str, figures.SlicePlot] = {}
        self.free = pn.widgets.CheckBoxGroup(
            name="Infer", options=[], inline=True, stylesheets=[_WRAPPED], **_WIDE
        )
        self.free.param.watch(lambda _: self._quiet or self._changed(), "value")
        self.searches = pn.widgets.IntInput(
            name="Searches", value=4, start=1, end=MOST_SEARCHES, width=90
        )
        self.fit = pn.widgets.Button(name="Fit", button_type="primary", width=90)
        self.stop = pn.widgets.Button(name="Stop", disabled=True, width=90)
        self.fit.on_click(lambda _: start())
        self.stop.on_click(lambda _: stop())
        self.progress = pn.indicators.Progress(value=0, max=100, visible=False, **_WIDE)
        self.doing = pn.pane.HTML("")
        self.result = pn.pane.HTML("", **_WIDE)
        self.value = pn.pane.HTML("", css_classes=["log-likelihood"])
        self.plots = pn.Column(**_WIDE)
        self.hint = pn.pane.HTML(
            "<p>There are no data yet: open a recording or a study on the left, or take the "
            "simulated movements as data.</p>"
        )
        self.body = pn.Column(
            pn.pane.HTML("<label>To infer:</label>", margin=(0, 10)),
            self.free,
            pn.Row(self.searches, pn.Column(pn.Spacer(height=18), pn.Row(self.fit, self.stop))),
            self.progress,
            self.doing,
            self.result,
            self.value,
            self.plots,
            visible=False,
            **_WIDE,
        )
        self.view = pn.Column(self.hint, self.body, **_WIDE)

    def offer(self, names: Sequence[str], chosen: Sequence[str]) -> None:
        """Offer parameters to infer, some of them chosen; nobody is told of a change."""
        self._quiet = True
        try:
            self.free.param.update(options=list(names), value=[n for n in names if n in chosen])
        finally:
            self._quiet = False

    def show_searches(self, number: int) -> None:
        """Set the number of searches that a study has."""
        self.searches.param.update(end=max(MOST_SEARCHES, number), value=max(1, number))

    def show_data(self, is_there: bool) -> None:
        """Show the fit where there are data, otherwise how to get some."""
        self.body.visible, self.hint.visible = is_there, not is_there
        self.result.object = ""

    def make_slices(self, knobs: Mapping[str, tuple[str, bool]]) -> None:
        """Make a picture for each parameter: its axis, and whether it is logarithmic."""
        if list(self._slices) == list(knobs):
            return
        self._slices = {
            name: figures.SlicePlot.make(name, axis, logarithmic=logarithmic, palette=self._palette)
            for name, (axis, logarithmic) in knobs.items()
        }
        shown = [pn.pane.Bokeh(plot.plot, **_WIDE) for plot in self._slices.values()]
        caption = (
            "<small>The log likelihood along each parameter, the others at their sliders. The "
            "line is where the slider is, the box the 95 % interval of the fit.</small>"
        )
        self.plots[:] = [side_by_side(*shown, least=300), pn.pane.HTML(caption, margin=(0, 10))]

    def show_value(self, value: float, trials: int) -> None:
        """Write the log likelihood at the sliders."""
        text = f"{value:.2f}" if np.isfinite(value) else "−∞: the data contradict the model here"
        self.value.object = f"<b>Log likelihood of {trials} trials: {text}</b>"

    def show_slice(self, found: Slice, value: float) -> None:
        """Draw one slice."""
        if found.name in self._slices:
            self._slices[found.name].show(found, value)

    def show_intervals(self, intervals: Mapping[str, tuple[float, float]]) -> None:
        """Draw the intervals of a fit into the slices; none for those that have none."""
        for name, plot in self._slices.items():
            plot.show_interval(intervals.get(name))

    def show_progress(self, what: str, done: int, total: int | None) -> None:
        """Say what a fit is doing."""
        self.doing.object = escape(what if total is None else f"{what}: {done} of {total} searches")
        self.progress.value = -1 if not total or not done else int(100 * done / total)

    def running(self, is_running: bool) -> None:
        """Set the buttons for a fit under way, or for none."""
        self.fit.disabled, self.stop.disabled = is_running, not is_running
        self.progress.visible = is_running
        self.progress.value = -1
        self.doing.object = "compiling" if is_running else ""

    def show_result(self, summary: str) -> None:
        """Write what a fit found."""
        self.result.object = f"<pre style='white-space:pre-wrap'>{escape(summary)}</pre>"


class BeliefPanel:
    """One movement, with what the agent believed."""

    def __init__(self, palette: Mapping[str, str], changed: Callable[[], None]) -> None:
        self.trial = pn.widgets.IntSlider(name="Movement", start=1, end=2, value=1, **_WIDE)
        self.trial.param.watch(lambda _: changed(), "value")
        self.state = pn.widgets.Select(name="State", options=[], width=160)
        self.state.param.watch(lambda _: changed(), "value")
        self.belief = figures.BeliefPlot.make(palette)
        self.words = pn.pane.HTML("", **_WIDE)
        caption = (
            "Given all samples of the movement and the sliders: what the agent took the state to "
            "be, and how well the recording tells us so."
        )
        self.hint = pn.pane.HTML("<p>There are no data yet.</p>")
        self.body = pn.Column(
            pn.Row(self.trial, self.state, **_WIDE),
            self.words,
            _captioned(self.belief.plot, caption),
            visible=False,
            **_WIDE,
        )
        self.view = pn.Column(self.hint, self.body, **_WIDE)

    @property
    def number(self) -> int:
        """The number of the movement that is followed, from 0."""
        return int(self.trial.value) - 1

    def show_data(self, trials: Trials | None, states: Mapping[str, str], first: str) -> None:
        """Offer the movements and states of some trials."""
        self.body.visible, self.hint.visible = trials is not None, trials is None
        if trials is not None:
            # A slider needs two ends.
            self.trial.param.update(value=1, end=max(2, len(trials)), disabled=len(trials) == 1)
            self.state.param.update(options=list(states), value=first)

    def show(self, trials: Trials, found: Beliefs, states: Mapping[str, str], words: str) -> None:
        """Draw what the agent believed in the movement that is followed."""
        number, state = self.number, self.state.value
        i, names = list(states).index(state), list(trials.channel_names)
        length = int(trials.lengths[number])
        recorded = None
        if state in names:
            recorded = np.asarray(trials.observed[number, :length, names.index(state)])
        own = None if trials.beliefs is None else np.asarray(trials.beliefs[number, :length, i])
        variance = np.asarray(found.cov)[0, :length, i, i]
        self.belief.show(
            np.asarray(trials.times)[:length],
            recorded,
            np.asarray(found.mean)[0, :length, i],
            np.sqrt(np.maximum(variance, 0.0)),
            own,
            with_unit(state, states[state]),
        )
        self.words.object = escape(words)


class ExportPanel:
    """The study file, the figure and the Python lines."""

    def __init__(self, shown: Callable[[], tuple[Shown, View | None]]) -> None:
        self._shown = shown
        self.study = pn.widgets.FileDownload(
            callback=self._study, filename="study.toml", label="Study file", width=170
        )
        self.figure = pn.widgets.FileDownload(
            callback=self._figure, filename="motorcost.svg", label="Figure (SVG)", width=170
        )
        self.python = pn.widgets.FileDownload(
            callback=self._python, filename="explored.py", label="Python lines", width=170
        )
        self.lines = pn.pane.HTML("", **_WIDE)
        self.view = pn.Column(pn.FlexBox(self.study, self.figure, self.python), self.lines, **_WIDE)

    def refresh(self) -> None:
        """Show the lines of what the page shows now."""
        shown, _ = self._shown()
        self.study.filename = study_archive(shown)[0]
        self.lines.object = (
            f"<pre tabindex='0' style='overflow:auto'>{escape(python_text(shown))}</pre>"
        )

    def _study(self) -> io.BytesIO:
        return io.BytesIO(study_archive(self._shown()[0])[1])

    def _python(self) -> io.BytesIO:
        return io.BytesIO(python_text(self._shown()[0]).encode())

    def _figure(self) -> io.BytesIO:
        shown, found = self._shown()
        return io.BytesIO(b"" if found is None else figure_svg(shown, found))


def axis_of(name: str, knob: Knob | None, support: Support) -> tuple[str, bool]:
    """What the axis of a slice says, and whether it is logarithmic."""
    return with_unit(name, "" if knob is None else knob.unit), support.logarithmic
