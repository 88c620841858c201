"""The page without a browser: what it asks for, and what it makes of the answers."""

import dataclasses
import queue
import threading
from typing import ClassVar

import pytest

pytest.importorskip("panel", reason="the page needs: pip install 'motorcost[explore]'")

import motorcost as mc
from motorcost.explore.exports import study_archive
from motorcost.explore.fitting import _arguments
from motorcost.explore.page import Page
from motorcost.explore.python_lines import python_text
from motorcost.explore.recordings import Folder, open_study
from motorcost.explore.scene import Setting, view
from motorcost.explore.workers import FitSlot

# Panel renames arguments; older versions, which are allowed too, do not know the new names.
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")

PATIENCE = 30


class Ticks:
    """Stands for the document in a browser: carries out what threads ask for, when told to."""

    def __init__(self):
        self._asked = queue.Queue()

    def add_next_tick_callback(self, change):
        self._asked.put(change)

    def carry_out_next(self):
        self._asked.get(timeout=PATIENCE)()

    def carry_out_all(self):
        while not self._asked.empty():
            self._asked.get()()


@pytest.fixture
def page(recordings):
    """A page that computes nothing yet: no browser has shown it."""
    made = Page(Folder(recordings), FitSlot(), dark=False)
    made._document = Ticks()
    yield made
    made.close()
    made.join(PATIENCE)


@pytest.fixture
def opened(page, recordings):
    page._have(open_study(recordings / "study.toml", Folder(recordings)))
    return page


def test_a_fit_of_other_data_is_given_up(opened, monkeypatch):
    running, go = threading.Event(), threading.Event()

    def slow_fit(**arguments):
        running.set()
        assert go.wait(PATIENCE)
        return "found"

    monkeypatch.setattr("motorcost.explore.workers.fit", slow_fit)
    monkeypatch.setattr(opened.fitting, "_done", lambda found: pytest.fail("of other data"))
    opened.fitting.start(opened._shown())
    assert running.wait(PATIENCE)
    assert opened.fit.fit.disabled
    opened._have(None)
    assert not opened.fit.fit.disabled
    go.set()
    opened.fitting.join(PATIENCE)
    opened._document.carry_out_all()


def test_intervals_are_computed_once_and_beside_the_page(opened, monkeypatch):
    asked = []

    class Found:
        converged = True
        estimates: ClassVar = {"effort": 2e-5}

        def interval(self, level):
            asked.append(threading.current_thread().name)
            return {"effort": (1e-5, 4e-5)}

        def summary(self):
            return "effort 2e-5"

    monkeypatch.setattr("motorcost.explore.workers.fit", lambda **arguments: Found())
    opened.fitting.start(opened._shown())
    opened.fitting.join(PATIENCE)
    opened._document.carry_out_all()
    opened.fitting.mark_intervals()  # as every change of a slider does
    assert asked == ["fit"]
    assert opened.sliders.values["effort"] == 2e-5
    assert "1e-05 to 4e-05" in opened.sliders._bars["effort"].object
    assert "effort 2e-5" in opened.fit.result.object


def test_a_fit_without_intervals_says_why_and_frees_the_button(opened, monkeypatch):
    monkeypatch.setattr("motorcost.explore.workers.fit", lambda **arguments: "no fit at all")
    opened.fitting.start(opened._shown())
    opened.fitting.join(PATIENCE)
    opened._document.carry_out_all()
    assert "AttributeError" in opened.messages.view.object
    assert not opened.fit.fit.disabled


def test_a_study_is_opened_as_it_is_and_exported_so(page, recordings):
    page._have(open_study(recordings / "own.toml", Folder(recordings)))
    assert page.sliders.delay.value == 3
    assert page.noise.value == 2e-3
    assert page.fit.searches.value == 3
    assert "priors of the study" in page.messages.view.object
    file = recordings / "exported.toml"
    file.write_bytes(study_archive(page._shown())[1])
    written, read = mc.Study.read(file), mc.Study.read(recordings / "own.toml")
    file.unlink()
    assert {**written.settings, "noise": read.settings["noise"]} == read.settings
    report = ("title", "starts", "folds", "bootstrap", "cuts", "baselines", "profiles")
    for name in report:
        assert getattr(written, name) == getattr(read, name), name
    assert _arguments(page._shown())["method"] == "nelder-mead"


def test_likelihood_fit_and_export_fix_the_same(page, recordings, monkeypatch):
    page._have(open_study(recordings / "own.toml", Folder(recordings)))
    shown, asked = page._shown(), []

    def asked_for(task, trials, free, *, fixed, observer):
        asked.append(fixed)
        raise mc.InputError("nothing is compiled in this test")

    monkeypatch.setattr("motorcost.explore.likelihood.make_objective", asked_for)
    with pytest.raises(mc.InputError, match="nothing is compiled"):
        page._meter.value({**shown.setting.values, "recording_noise": shown.noise})
    assert asked == [_arguments(shown)["fixed"]] == [shown.fixed] == [{"late": 2}]


def test_a_task_that_declares_nothing_gets_a_message_and_the_page_lives_on(opened, recordings):
    before = opened._recording
    (recordings / "undeclared.toml").write_text(
        '[data]\nfile = "reaches.csv"\n[model]\ntask = "own.py:undeclared"\n'
        "[free]\neffort = [1e-7, 1e-3]\n"
    )
    opened.opener.open("undeclared.toml")
    opened._document.carry_out_next()
    assert "undeclared declares no parameters" in opened.messages.view.object
    # Whatever else a task fails at, once its data are there.
    study = dataclasses.replace(before.study, task=lambda **values: 1 / 0)
    opened._later(lambda: opened._have(dataclasses.replace(before, study=study)))
    opened._document.carry_out_all()
    assert "does not run with defaults" in opened.messages.view.object
    assert opened._recording is before
    assert opened._shown().setting.task is mc.tasks.reaching


def test_the_likelihood_follows_when_beliefs_come_and_go(opened, monkeypatch):
    asked = []
    monkeypatch.setattr(opened._pictures, "ask", lambda job: None)
    monkeypatch.setattr(opened._likelihoods, "ask", asked.append)
    opened._begun = True
    for is_wrong in (True, False):
        asked.clear()
        opened.sliders.wrong.value = is_wrong
        assert len(asked) == 1
        assert ("believed_motor_noise" in opened.fit.free.options) == is_wrong


def test_messages_are_withdrawn_one_by_one(opened):
    seen = view(Setting(mc.tasks.reaching, "reaching", opened.sliders.values, steps=12, dt=0.02))
    say, shown = opened.messages.say, opened._shown()
    say("starts under way", "data")
    opened._draw(shown, dataclasses.replace(seen, converged=False), 0.1)
    assert "No policy was found" in opened.messages.view.object
    assert "starts under way" in opened.messages.view.object
    opened._draw(shown, seen, 0.1)
    assert opened.messages.view.object == "starts under way"
    assert opened.messages.view.visible
    say("", "data")
    assert not opened.messages.view.visible


def test_speeds_of_the_data_before_do_not_stay(opened):
    movement, trials = opened.movement, opened._recording.trials
    movement.show_data(trials, ["position"], 0)
    assert len(movement.speed.data.data["x"]) > 0
    movement.show_data(trials, ["lateral"], 0)  # which these do not have
    assert len(movement.speed.data.data["x"]) == 0


def test_the_lines_follow_the_number_of_searches(opened):
    opened.tabs.active = opened.tabs.objects.index(opened.export.view)
    opened.fit.searches.value = 17
    assert "starts=17" in opened.export.lines.object


def test_simulated_movements_are_taken_as_data(page):
    page.sliders.move({"effort": 3e-5})
    page._take_simulated()
    page._document.carry_out_next()
    assert page._recording.name == page.opener.files.value == "20 simulated movements"
    assert page.sliders.values["effort"] == 3e-5
    assert "mc.fit(" in python_text(page._shown())
