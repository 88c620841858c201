"""The controls of the page: a slider for each parameter, and for delay and beliefs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from typing import ClassVar

import panel as pn
from bokeh.models import CustomJSTickFormatter

from motorcost.explore.knobs import BELIEFS, MOST_DELAY, POSITIONS, Knob, knobs_of, mistaken
from motorcost.markup import html_table
from motorcost.tasks.declarations import Task

_HEADINGS = {
    "cost": "Costs",
    "noise": "Noises",
    "condition": "Conditions",
    "body": "Body",
    "spread": "Differences between trials",
    "belief": "Beliefs of the agent",
}
# Roles whose sliders are visible at once; the others are a click away.
_OPEN = ("cost", "noise")
# Three digits; small numbers with an exponent.
_NUMBER = """
const value = VALUE;
const small = value != 0 && Math.abs(value) < 1e-3;
return small ? value.toExponential(2) : Number(value.toPrecision(3)).toString();
"""
# As wide as the track of the slider above it, so that an interval stands below its values.
_BAR = """
<div class="interval" style="position:relative;height:6px" role="img" aria-label="{words}">
<div style="position:absolute;left:{left:.1f}%;width:{width:.1f}%;min-width:3px;height:6px;
border-radius:3px;background:#009E73"></div></div><small>{words}</small>"""
_WIDE = {"sizing_mode": "stretch_width"}
# Around a slider, whose bar follows below.
_ABOVE_BAR = (5, 10, 0, 10)


class PromptSlider(pn.widgets.FloatSlider):
    """A slider whose changes are heard at once.

    Panel collects changes for 50 ms by default; here only the latest is computed in any case.
    """

    _debounce: ClassVar[int] = 0


def _bar_pane() -> pn.pane.HTML:
    return pn.pane.HTML("", margin=(0, 10), **_WIDE)


def _bar(interval: tuple[float, float], shares: tuple[float, float]) -> str:
    """An interval below a slider. `shares` are the places of its ends along the slider."""
    left, right = (100 * min(max(share, 0.0), 1.0) for share in shares)
    words = escape("95 % interval: {:.3g} to {:.3g}".format(*interval))
    return _BAR.format(left=left, width=right - left, words=words)


class NoiseSlider:
    """The slider of the recording noise, which only data have.

    `changed` is called after every change that the user makes.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._slider = PromptSlider(
            name="recording_noise (SD)", start=0.0, end=1.0, margin=_ABOVE_BAR, **_WIDE
        )
        self._slider.param.watch(lambda _: changed(), "value")
        self._bar = _bar_pane()
        self.column = pn.Column(self._slider, self._bar, margin=0, visible=False, **_WIDE)

    @property
    def value(self) -> float:
        """The SD that the slider stands for; 0 if it is hidden."""
        return float(self._slider.value) if self.column.visible else 0.0

    def show(self, value: float, most: float) -> None:
        """Show the slider at a value, from 0 to `most`."""
        self._slider.param.update(end=most, step=most / POSITIONS, value=value)
        self.column.visible = True

    def hide(self) -> None:
        """Hide the slider: there are no data."""
        self.column.visible = False

    def move(self, value: float) -> None:
        """Put the slider at a value, or at its end."""
        self._slider.value = min(value, self._slider.end)

    def draw_interval(self, interval: tuple[float, float] | None) -> None:
        """Draw an interval below the slider, or none."""
        if interval is None:
            self._bar.object = ""
        else:
            low, high = (value / self._slider.end for value in interval)
            self._bar.object = _bar(interval, (low, high))


class Sliders:
    """A slider for each parameter of a task, and one for the delay; a switch for wrong beliefs.

    `changed` is called after every change that the user makes.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._quiet = False
        self.knobs: dict[str, Knob] = {}
        self._sliders: dict[str, pn.widgets.FloatSlider] = {}
        self._bars: dict[str, pn.pane.HTML] = {}
        self.delay = pn.widgets.IntSlider(
            name="Delay of the senses (steps)", start=0, end=MOST_DELAY, **_WIDE
        )
        self.wrong = pn.widgets.Checkbox(name="The agent misjudges its noises")
        for widget in (self.delay, self.wrong):
            widget.param.watch(self._heard, "value")
        self.column = pn.Column(**_WIDE, margin=0)

    def show(
        self,
        task: Task,
        given: Mapping[str, object],
        hidden: Mapping[str, object],
        delay: int | None = None,
        wrong: bool | None = None,
    ) -> None:
        """Make the sliders of a task.

        - `given`: values other than its defaults.
        - `hidden`: parameters without a slider, because recordings determine them.
        - `delay`: steps by which the senses are late; `wrong`: whether beliefs have sliders. Both
          are left as they are if None.
        """
        knobs = knobs_of(mistaken(task), given)
        # Or Panel would style what is made later than the page in another way.
        with pn.config.set(design=None):
            self._make(knobs, hidden)
        with self._quietly():
            if delay is not None:
                self.delay.param.update(end=max(MOST_DELAY, delay), value=delay)
            if wrong is not None:
                self.wrong.value = wrong
        self._hide_beliefs()

    def _make(self, knobs: Mapping[str, Knob], hidden: Mapping[str, object]) -> None:
        self.knobs = {name: knob for name, knob in knobs.items() if name not in hidden}
        self._sliders = {name: self._slider(knob) for name, knob in self.knobs.items()}
        self._bars = {name: _bar_pane() for name in self.knobs}
        by_role: dict[str, list[pn.viewable.Viewable]] = {}
        for name, knob in self.knobs.items():
            by_role.setdefault(knob.role, []).append(
                pn.Column(self._sliders[name], self._bars[name], margin=0, **_WIDE)
            )
        by_role.setdefault("belief", []).insert(0, self.wrong)
        self.column[:] = [
            *(self._card(role, by_role[role]) for role in _HEADINGS if role in by_role),
            self.delay,
        ]

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        """Changes within are not the user's, and nothing is called after them."""
        self._quiet = True
        try:
            yield
        finally:
            self._quiet = False

    def _card(self, role: str, inside: list[pn.viewable.Viewable]) -> pn.Card:
        return pn.Card(
            *inside,
            title=_HEADINGS[role],
            collapsed=role not in _OPEN,
            **_WIDE,
            margin=(4, 0),
            header_css_classes=["card-header", f"role-{role}"],
        )

    def _slider(self, knob: Knob) -> pn.widgets.FloatSlider:
        low, high = knob.position(knob.low), knob.position(knob.high)
        shown = _NUMBER.replace("VALUE", "10 ** tick" if knob.logarithmic else "tick")
        unit = f" ({knob.unit})" if knob.unit else ""
        slider = PromptSlider(
            name=f"{knob.name}{unit}",
            start=low,
            end=high,
            step=(high - low) / POSITIONS,
            value=knob.position(knob.default),
            format=CustomJSTickFormatter(code=shown),
            **_WIDE,
            margin=_ABOVE_BAR,
        )
        slider.param.watch(self._heard, "value")
        return slider

    def _heard(self, event: object) -> None:
        self._hide_beliefs()
        if not self._quiet:
            self._changed()

    def _hide_beliefs(self) -> None:
        for name in BELIEFS:
            if name in self._sliders:
                self._sliders[name].visible = self.wrong.value

    @property
    def values(self) -> dict[str, float]:
        """The values that the sliders stand for, by name."""
        wanted = {n: k for n, k in self.knobs.items() if self.wrong.value or n not in BELIEFS}
        return {name: knob.value(self._sliders[name].value) for name, knob in wanted.items()}

    def move(self, values: Mapping[str, float]) -> None:
        """Put sliders where values are, as one change."""
        with self._quietly():
            for name, value in values.items():
                if name in self._sliders:
                    self._sliders[name].value = self.knobs[name].position(value)
        self._changed()

    def draw_intervals(self, intervals: Mapping[str, tuple[float, float]]) -> None:
        """Draw an interval below each slider that has one, and none below the others."""
        for name, bar in self._bars.items():
            bar.object = "" if name not in intervals else self._bar(name, intervals[name])

    def _bar(self, name: str, interval: tuple[float, float]) -> str:
        knob = self.knobs[name]
        start, end = knob.position(knob.low), knob.position(knob.high)
        low, high = ((knob.position(value) - start) / (end - start) for value in interval)
        return _bar(interval, (low, high))

    def table(self) -> str:
        """What each parameter means, as an HTML table."""
        rows = [[k.name, k.about, k.unit] for k in self.knobs.values()]
        return html_table(["parameter", "meaning", "unit"], rows)
