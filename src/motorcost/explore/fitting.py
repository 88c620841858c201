"""The fit of a page: begun by a button, under way in a thread, shown by the sliders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from motorcost.explore.controls import NoiseSlider, Sliders
from motorcost.explore.panels import FitPanel
from motorcost.explore.shown import Shown
from motorcost.explore.workers import FitRun, FitSlot
from motorcost.fitting.fitted import Fit
from motorcost.model.observer import SHARED_NOISE, ObserverSpec

_LEVEL = 0.95


@dataclass(frozen=True)
class Finding:
    """What a page shows of a fit.

    It is computed in the fit's thread and kept: the interval of an estimate at an end of its
    support takes searches, and the page would wait for them at every change of a slider.
    """

    estimates: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    summary: str

    @classmethod
    def of(cls, found: Fit) -> Finding:
        """What is shown of this fit; no intervals if it did not settle."""
        intervals = found.interval(_LEVEL) if found.converged else {}
        return cls(found.estimates, intervals, found.summary())


class Fitting:
    """Begins and stops the fits of a page, and shows what they find.

    - `slot`: in which fits of all pages take turns.
    - `panel`, `sliders`, `noise`: what shows progress and results.
    - `later`: carries out a change of the page, from another thread; `say`: shows a message.
    """

    def __init__(
        self,
        slot: FitSlot,
        panel: FitPanel,
        sliders: Sliders,
        noise: NoiseSlider,
        *,
        later: Callable[[Callable[[], None]], None],
        say: Callable[[str], None],
    ) -> None:
        self._slot, self._panel, self._sliders, self._noise = slot, panel, sliders, noise
        self._later, self._say = later, say
        self._run: FitRun | None = None  # the latest, which may have been given up
        self._asked_for: object | None = None  # stands for the fit that the page waits for
        self._found: Finding | None = None

    def start(self, shown: Shown) -> None:
        """Begin a fit, unless one is under way: clicks do not queue."""
        if shown.recording is None or self._asked_for is not None:
            return
        if not shown.free:
            self._say("Nothing is to be inferred: choose at least one parameter.")
            return
        asked_for = object()

        def if_wanted(change: Callable[[], None]) -> None:
            """Change the page, unless other data came meanwhile and nobody waits for this fit."""
            self._later(lambda: change() if self._asked_for is asked_for else None)

        def tell(what: str, done: int, total: int | None) -> None:
            if_wanted(partial(self._panel.show_progress, what, done, total))

        def done(found: Fit) -> None:
            tell("intervals", 0, None)
            if_wanted(partial(self._done, Finding.of(found)))

        run = self._slot.start(
            _arguments(shown),
            progress=tell,
            done=done,
            failed=lambda why: if_wanted(partial(self._failed, why)),
        )
        if run is None:
            self._say(
                "A fit is under way, in another tab or for the data before these: it uses every "
                "core. Try again after it."
            )
            return
        self._run, self._asked_for = run, asked_for
        self._say("")
        self._panel.running(True)

    def stop(self) -> None:
        """Stop the fit that is under way; the best point so far is shown."""
        if self._run is not None:
            self._run.stop()

    def join(self, seconds: float) -> None:
        """Wait for a fit that was stopped, but not longer."""
        if self._run is not None:
            self._run.join(seconds)

    def forget(self) -> None:
        """Show no fit any more, and stop one that is under way: it is of other data."""
        self.stop()
        if self._asked_for is not None:
            self._asked_for = None
            self._panel.running(False)
        self._found = None
        self.mark_intervals()

    def mark_intervals(self) -> None:
        """Draw the intervals of the last fit below the sliders and into the slices."""
        intervals = {} if self._found is None else self._found.intervals
        self._sliders.draw_intervals(intervals)
        self._noise.draw_interval(intervals.get(SHARED_NOISE))
        self._panel.show_intervals(intervals)

    def _failed(self, why: str) -> None:
        self._asked_for = None
        self._panel.running(False)
        self._say(why)

    def _done(self, found: Finding) -> None:
        """Put the sliders at the estimate, with its intervals."""
        self._asked_for = None
        self._panel.running(False)
        self._found = found
        self._panel.show_result(found.summary)
        estimates = found.estimates
        if SHARED_NOISE in estimates:
            self._noise.move(estimates[SHARED_NOISE])
        self._sliders.move(estimates)
        self.mark_intervals()


def _arguments(shown: Shown) -> dict[str, Any]:
    """The arguments of `mc.fit`: a search from the sliders, if that is possible, and others."""
    assert shown.recording is not None  # only recordings are fitted
    trials, study, setting = shown.recording.trials, shown.recording.study, shown.setting
    values = {**setting.values, SHARED_NOISE: shown.noise}
    here = {name: values[name] for name in shown.free}
    is_possible = all(here[name] in support for name, support in shown.free.items())
    known = (*shown.free, *trials.conditions, SHARED_NOISE)
    fixed = {name: value for name, value in values.items() if name not in known}
    return {
        "task": setting.full_task,
        "trials": trials,
        "free": shown.free,
        "fixed": fixed | dict(setting.whole),
        "observer": ObserverSpec(trials.channel_names, shown.fixed_noise),
        "key": jax.random.key(setting.seed),
        "starts": [here] if is_possible else [],
        "n_starts": shown.starts - is_possible,
        "method": study.method,
        "priors": study.priors,
    }
