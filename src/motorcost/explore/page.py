"""The page: what is on it, and what happens when something on it is changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import panel as pn

from motorcost.data.kinematics import position_states
from motorcost.errors import ConvergenceError, InputError
from motorcost.explore import figures
from motorcost.explore.controls import NoiseSlider, Sliders
from motorcost.explore.exports import DATA_FILE
from motorcost.explore.fitting import Fitting
from motorcost.explore.knobs import BELIEFS
from motorcost.explore.likelihood import Meter
from motorcost.explore.opening import Opener
from motorcost.explore.panels import (
    BeliefPanel,
    ExportPanel,
    FitPanel,
    Messages,
    MovementPanel,
    axis_of,
)
from motorcost.explore.recordings import Folder, Recording, simulated, task_names
from motorcost.explore.scene import Setting, View, is_compiled, movements, view
from motorcost.explore.shown import Shown
from motorcost.explore.workers import FitSlot, Latest
from motorcost.fitting.specification import usual_noise
from motorcost.model.observer import SHARED_NOISE
from motorcost.study.task_lookup import example_problem, find_task
from motorcost.tasks.declarations import Task
from motorcost.tasks.supports import Support

_COMPILING = "Compiling. The first picture of its kind takes a while; the next ones are quick."
_WIDE = {"sizing_mode": "stretch_width"}
# On a phone the last tabs would be out of sight.
_TABS_WRAP = ":host .bk-headers-wrapper { flex-wrap: wrap; }"
# Where the slider of the recording noise ends, as a share of the largest noise that a fit allows.
_MOST_NOISE = 0.1


class Page:
    """One page in one browser tab.

    - `folder`: whose files may be opened; `slot`: in which fits of all pages take turns.
    - `dark`: whether the page is dark.
    """

    def __init__(self, folder: Folder, slot: FitSlot, *, dark: bool) -> None:
        self._document = pn.state.curdoc
        self._begun = self._closed = False
        self._recording: Recording | None = None
        self._meter: Meter | None = None
        self._view: View | None = None
        self._seed = 0
        self._pictures, self._likelihoods, self._reader = (
            Latest(name) for name in ("pictures", "likelihoods", "reader")
        )
        palette = figures.colours(dark)
        self.task = pn.widgets.Select(name="Task", options=task_names(), **_WIDE)
        self.task.param.watch(lambda _: self._task_chosen(), "value")
        self.sliders = Sliders(self._refresh)
        self.noise = NoiseSlider(self._refresh)
        self.again = pn.widgets.Button(name="Other random numbers", **_WIDE)
        self.again.on_click(lambda _: self._reseed())
        self.take = pn.widgets.Button(name="Take the simulated movements as data", **_WIDE)
        self.take.on_click(lambda _: self._take_simulated())
        self.opener = Opener(folder, self._open)
        self.status = pn.pane.HTML("", css_classes=["status"], **_WIDE)
        self.messages = Messages()
        self.movement = MovementPanel(palette, self._redraw)
        self.fit = FitPanel(
            palette,
            changed=self._refresh,
            start=lambda: self.fitting.start(self._shown()),
            stop=lambda: self.fitting.stop(),
        )
        self.fit.searches.param.watch(lambda _: self._write_lines(), "value")
        self.fitting = Fitting(
            slot,
            self.fit,
            self.sliders,
            self.noise,
            later=self._later,
            say=partial(self.messages.say, about="fit"),
        )
        self.belief = BeliefPanel(palette, self._refresh)
        self.export = ExportPanel(lambda: (self._shown(), self._view))
        self.meaning = pn.pane.HTML("", **_WIDE)
        self.tabs = pn.Tabs(
            ("Movements", self.movement.view),
            ("Likelihood and fit", self.fit.view),
            ("One movement", self.belief.view),
            ("Export", self.export.view),
            ("Parameters", self.meaning),
            stylesheets=[_TABS_WRAP],
            **_WIDE,
        )
        self.tabs.param.watch(lambda _: self._write_lines(), "active")
        self._task_chosen()

    # What is on it.

    def controls(self) -> pn.Column:
        """The column of controls."""
        return pn.Column(
            self.task,
            self.opener.card,
            self.sliders.column,
            self.noise.column,
            self.again,
            self.take,
            margin=0,
            **_WIDE,
        )

    def pictures(self) -> list[pn.viewable.Viewable]:
        """What stands above each other in the column of pictures.

        That column must hold the tabs itself: in a column within a column Bokeh gives the plots of
        a tab no width.
        """
        return [self.messages.view, self.status, self.tabs]

    def begin(self, first: str) -> None:
        """Begin to compute, with a file if `first` names one.

        Not before the browser shows the page: what threads change before then can get lost.
        """
        self._begun = True
        if first:
            self.opener.open(first)
        self._refresh()

    def close(self) -> None:
        """End what runs beside the page."""
        self._closed = True
        for worker in (self._pictures, self._likelihoods, self._reader):
            worker.close()
        self.fitting.stop()

    def join(self, seconds: float) -> None:
        """Wait for what still runs after `close`, for at most so long each."""
        for worker in (self._pictures, self._likelihoods, self._reader, self.fitting):
            worker.join(seconds)

    # What the page is set to.

    @property
    def _task(self) -> Task:
        return find_task(self.task.value) if self._recording is None else self._recording.study.task

    def _setting(self) -> Setting:
        values, name = self.sliders.values, self.task.value
        common: dict[str, Any] = {
            "delay": int(self.sliders.delay.value),
            "is_mistaken": bool(self.sliders.wrong.value),
            "seed": self._seed,
        }
        if self._recording is None:
            return Setting(self._task, name, values, **common)
        study, trials = self._recording.study, self._recording.trials
        number = self.belief.number
        elsewhere = {*values, *BELIEFS, "dt"}
        whole = {name: value for name, value in study.fixed.items() if name not in elsewhere}
        return Setting(
            self._task,
            study.task_name,
            values | self._recording.condition(number),
            whole=whole,
            steps=int(trials.lengths[number]),
            dt=trials.dt,
            **common,
        )

    def _shown(self) -> Shown:
        return Shown(
            self._setting(),
            self._free(),
            self._recording,
            noise=self.noise.value,
            starts=int(self.fit.searches.value),
        )

    def _free(self) -> dict[str, Support]:
        """What a fit infers, and where it can lie."""
        supports = self._supports()
        return {name: supports[name] for name in self.fit.free.value if name in supports}

    def _supports(self) -> dict[str, Support]:
        values = self.sliders.values
        found = {n: k.support for n, k in self.sliders.knobs.items() if k.support and n in values}
        if self._recording is not None:
            found |= {
                name: support
                for name, support in self._recording.study.free.items()
                if support is not None and name in found and support.per is None
            }
        if self._meter is not None:
            found[SHARED_NOISE] = self._meter.supports[SHARED_NOISE]
        return found

    # What happens when something is changed.

    def _task_chosen(self) -> None:
        """Another task: a recording is read for it, other data belong to the one before."""
        held = self._recording
        if held is not None and self.task.value == held.study.task_name:
            return
        self._have(None)
        if held is None:
            return
        again = None if held.is_simulated else self.opener.for_another_task
        if again is not None:
            self._open(again)
        else:
            words = f"{held.name} are data for {held.study.task_name}: there are none now."
            self.messages.say(words, "data")

    def _redraw(self) -> None:
        if self._view is not None:
            self._draw(self._shown(), self._view, None)

    def _reseed(self) -> None:
        self._seed += 1
        self._refresh()

    def _refresh(self) -> None:
        """Ask for what the page should show now."""
        if not self._begun:
            return
        shown = self._shown()
        self._pictures.ask(partial(self._guarded, "pictures", partial(self._compute, shown)))
        if self._recording is not None:
            values = {**shown.setting.values, SHARED_NOISE: shown.noise}
            self._make_meter(shown.setting)
            assert self._meter is not None  # just made
            supports, knobs = self._supports(), self.sliders.knobs
            if self.fit.free.options != list(supports):  # the beliefs came or went
                self.fit.offer(list(supports), self.fit.free.value)
            self.fit.make_slices({n: axis_of(n, knobs.get(n), supports[n]) for n in self._free()})
            self.fitting.mark_intervals()
            job = partial(
                self._measure, self._meter, values, tuple(self._free()), self.belief.number
            )
            self._likelihoods.ask(partial(self._guarded, "likelihood", job))
        self._write_lines()

    def _write_lines(self) -> None:
        """Write what can be exported, where it is to be seen: every change costs a new layout."""
        if self.tabs.objects[self.tabs.active] is self.export.view:
            self.export.refresh()

    def _make_meter(self, setting: Setting) -> None:
        """The likelihood of the data under the task with the present delay and beliefs."""
        assert self._recording is not None
        task, trials = setting.full_task, self._recording.trials
        meter = self._meter
        if meter is None or meter.task is not task or meter.trials is not trials:
            supports = {n: s for n, s in self._supports().items() if n != SHARED_NOISE}
            own = self._recording.study.free.get(SHARED_NOISE)
            supports |= {} if own is None else {SHARED_NOISE: own}
            self._meter = Meter(task, trials, supports, setting.whole)

    # Beside the page, in threads.

    def _guarded(self, about: str, job: Callable[[], None]) -> None:
        """Carry out a job; what goes wrong is said on the page, which lives on."""
        try:
            job()
        except (InputError, ConvergenceError) as error:
            self._later(partial(self.messages.say, str(error), about))
        except Exception as error:  # whatever a task of one's own raises
            self._later(partial(self.messages.say, f"{type(error).__name__}: {error}", about))

    def _compute(self, shown: Shown) -> None:
        if not is_compiled(shown.setting):
            self._later(partial(self._set_status, _COMPILING))
        begun = perf_counter()
        found = view(shown.setting)
        self._later(partial(self._draw, shown, found, perf_counter() - begun))

    def _measure(
        self, meter: Meter, values: dict[str, float], names: tuple[str, ...], trial: int
    ) -> None:
        value, count = meter.value(values), len(meter.trials)
        self._later(partial(self._show_value, value, count))
        if self._likelihoods.is_stale:
            return
        found = meter.beliefs(trial, values)
        self._later(partial(self._show_beliefs, meter, found, trial))
        for name in names:
            if self._likelihoods.is_stale:
                return
            if values.get(name, 0.0) in meter.supports[name]:
                along = meter.slice(name, values)
                self._later(partial(self.fit.show_slice, along, values[name]))

    def _later(self, change: Callable[[], None]) -> None:
        """Change the page, from another thread."""

        def together() -> None:
            with pn.io.unlocked():  # one message to the browser instead of one for each change
                self._guarded("page", change)

        if not self._closed:
            self._document.add_next_tick_callback(together)

    # What is shown.

    def _draw(self, shown: Shown, found: View, seconds: float | None) -> None:
        self._view = found
        trials = None if shown.recording is None else shown.recording.trials
        start = 0.0 if trials is None else -trials.lead
        self.movement.show(found, start)
        number = self.belief.number if trials is not None else None
        if trials is not None or self.movement.has_data:
            self.movement.show_data(trials, found.place, number)
        wrong = "No policy was found with these values: the pictures are not to be trusted."
        self.messages.say("" if found.converged else wrong, "pictures")
        took = "" if seconds is None else f" · computed in {1000 * seconds:.0f} ms"
        saved = 1 - found.cost / found.idle_cost if found.idle_cost > 0 else 0.0
        self._set_status(
            f"Expected cost <b>{found.cost:.4g}</b>, {100 * saved:.0f} % less than without "
            f"moving{took}"
        )

    def _show_value(self, value: float, count: int) -> None:
        self.messages.say("", "likelihood")
        self.fit.show_value(value, count)

    def _show_beliefs(self, meter: Meter, found: Any, trial: int) -> None:
        if self._view is None or self._recording is None or trial != self.belief.number:
            return
        condition = self._recording.condition(trial)
        words = ", ".join(f"{name} {value:.4g}" for name, value in condition.items())
        self.belief.show(meter.trials, found, self._states(), words)

    def _states(self) -> dict[str, str]:
        assert self._view is not None
        return self._view.states

    def _set_status(self, html: str) -> None:
        self.status.object = html

    # Data.

    def _open(self, opening: Callable[[str], Recording] | None) -> None:
        self.messages.say("", "opening")
        if opening is None:
            self._have(None)
            return
        task_name = self.task.value

        def read() -> None:
            found = opening(task_name)
            self._later(partial(self._have, found))

        self._reader.ask(partial(self._guarded, "opening", read))

    def _take_simulated(self) -> None:
        if self._recording is not None:
            self.messages.say("There are data already: choose none first.", "opening")
            return
        setting = self._setting()

        def taken() -> None:
            found = simulated(movements(setting), setting, DATA_FILE)
            self._later(partial(self._have, found))

        self._reader.ask(partial(self._guarded, "opening", taken))

    def _have(self, recording: Recording | None) -> None:
        """Work with these data from now on, or with none."""
        task = find_task(self.task.value) if recording is None else recording.study.task
        name = self.task.value if recording is None else recording.study.task_name
        # What a task of one's own can fail at comes before anything of the page is changed.
        fixed = {} if recording is None else recording.study.fixed
        problem = example_problem(task, name, fixed)
        self._show_sliders(task, recording)
        self._recording, self._meter = recording, None
        self.fitting.forget()
        if recording is not None and name in self.task.options:
            self.task.value = name
        trials = None if recording is None else recording.trials
        self.meaning.object = self.sliders.table()
        self.opener.name_data(None if recording is None else recording.name)
        self.noise.hide()
        self.take.visible = trials is None
        self.fit.show_data(trials is not None)
        states = dict(zip(problem.state_names, problem.state_units, strict=True))
        self.belief.show_data(trials, states, position_states(problem.state_names)[0])
        said = []
        if recording is not None:
            if recording.is_study:
                self._seed = recording.study.seed
                self.fit.show_searches(recording.study.starts)
            self._set_noise(recording)
            self._make_meter(self._setting())
            self.fit.offer(list(self._supports()), list(recording.study.free))
            said = [*recording.warnings, *recording.notes]
        for about in ("likelihood", "fit", "page"):  # of the data before these
            self.messages.say("", about)
        self.messages.say("\n".join(said), "data")
        self._refresh()

    def _show_sliders(self, task: Task, recording: Recording | None) -> None:
        if recording is None:
            self.sliders.show(task, {}, {})
            return
        given = self.sliders.values if recording.is_simulated else recording.values
        switches = _switches(recording) if recording.is_study else {}
        self.sliders.show(task, given, recording.trials.conditions, **switches)

    def _set_noise(self, recording: Recording) -> None:
        most = _MOST_NOISE * usual_noise(np.asarray(recording.trials.observed)).high
        self.noise.show(recording.usual_noise, max(most, recording.usual_noise))


def _switches(recording: Recording) -> dict[str, Any]:
    """How the controls stand that every task has, for a study."""
    study = recording.study
    return {
        "delay": recording.delay,
        "wrong": not BELIEFS.keys().isdisjoint({*study.fixed, *study.free}),
    }
