"""What the page computes, reads and exports, without a browser."""

import dataclasses
import io
import threading
import zipfile

import jax
import numpy as np
import pytest

import motorcost as mc
from motorcost.explore.exports import figure_svg, study_archive, study_text
from motorcost.explore.knobs import BELIEVED_MOTOR, BELIEVED_SENSORY, knobs_of, mistaken
from motorcost.explore.likelihood import Meter
from motorcost.explore.python_lines import python_text
from motorcost.explore.recordings import (
    Folder,
    open_data,
    open_study,
    simulated,
    task_names,
    uploaded,
)
from motorcost.explore.scene import Setting, movements, view
from motorcost.explore.shown import Shown
from motorcost.explore.workers import FitSlot, Latest
from motorcost.fitting.objective import evaluate

STEPS = {"steps": 12, "dt": 0.02}


@pytest.fixture(scope="module")
def setting():
    values = {name: knob.default for name, knob in knobs_of(mc.tasks.reaching).items()}
    return Setting(mc.tasks.reaching, "reaching", values, **STEPS)


@pytest.fixture(scope="module")
def seen(setting):
    return view(setting)


@pytest.mark.parametrize("name", task_names())
def test_every_task_has_sliders_that_hold_its_defaults(name):
    task = getattr(mc.tasks, name)
    knobs = knobs_of(task)
    assert set(mc.tasks.default_costs(task)) <= set(knobs)
    for knob in knobs.values():
        assert knob.low <= knob.default <= knob.high
        assert knob.value(knob.position(knob.default)) == pytest.approx(knob.default, rel=1e-3)
        low, high = knob.position(knob.low), knob.position(knob.high)
        assert np.isfinite([low, high]).all()
        assert low < high


def test_a_view_is_what_the_library_computes(setting, seen):
    problem = mc.tasks.reaching(**setting.values, **STEPS)
    policy = mc.solve(problem)
    exact = mc.moments(problem, policy)
    trials = mc.simulate(problem, policy, n_trials=20, key=jax.random.key(0))
    np.testing.assert_allclose(seen.cost, mc.expected_cost(problem, policy), rtol=1e-9)
    np.testing.assert_allclose(seen.mean, exact.state_mean, atol=1e-9)
    np.testing.assert_allclose(seen.control_gains, policy.L, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(seen.movements, trials.states, atol=1e-9)
    assert sum(seen.shares.values()) == pytest.approx(1.0)
    assert seen.place == ("position",)


def test_an_agent_that_is_not_mistaken_is_the_agent_of_the_task():
    values = {BELIEVED_MOTOR: 1.0, BELIEVED_SENSORY: 1.0}
    right = mistaken(mc.tasks.reaching)(**values, **STEPS)
    np.testing.assert_array_equal(right.as_believed.C, mc.tasks.reaching(**STEPS).C)
    wrong = mistaken(mc.tasks.reaching)(**values | {BELIEVED_MOTOR: 0.0}, **STEPS)
    assert not np.any(wrong.as_believed.C)
    assert np.any(wrong.C)


def test_the_meter_measures_the_log_likelihood(setting, monkeypatch):
    trials = movements(setting)
    supports = {"effort": mc.LogUniform(1e-8, 1e-2)}
    meter = Meter(mc.tasks.reaching, trials, supports)
    expected = float(mc.log_likelihood(mc.tasks.reaching(**setting.values, **STEPS), trials))
    np.testing.assert_allclose(meter.value(setting.values), expected, rtol=1e-9)
    along = meter.slice("effort", setting.values)
    assert along.values.min() < 1e-5 < along.values.max()
    assert along.log_likelihoods.max() < expected + 5  # near the truth
    beliefs = meter.beliefs(3, setting.values)
    assert beliefs.mean.shape == (1, 12, 5)
    # What the agent did believe lies within five SD of what is inferred.
    sd = np.sqrt(np.asarray(beliefs.cov)[0, :, 0, 0])
    off = np.abs(np.asarray(beliefs.mean)[0, :, 0] - np.asarray(trials.beliefs)[3, :, 0])
    assert (off <= 5 * sd + 1e-9).all()
    # A slider outside its support is a constant of the likelihood, and needs no program of its own.
    monkeypatch.setattr("motorcost.explore.likelihood._KEPT", 3)
    programs = [evaluate.compiled(lean=lean)._cached._cache_size for lean in (True, False)]
    compiled = [size() for size in programs]
    for velocity in (0.3, 0.4, 0.5, 0.6):
        moved = meter.value({**setting.values, "velocity": velocity})
    assert [size() for size in programs] == compiled
    assert len(meter._likelihoods) == 3
    problem = mc.tasks.reaching(**{**setting.values, "velocity": 0.6}, **STEPS)
    np.testing.assert_allclose(moved, float(mc.log_likelihood(problem, trials)), rtol=1e-9)
    assert abs(moved - expected) > 1


def test_the_folder_is_all_that_can_be_opened(recordings):
    folder = Folder(recordings)
    assert "reaches.csv" in folder.files()
    assert "notes.txt.exe" not in folder.files()
    (recordings / "link.csv").unlink(missing_ok=True)
    (recordings / "link.csv").symlink_to(recordings.parent / "secret.csv")
    assert "link.csv" not in folder.files()
    for name in ("../secret.csv", "link.csv", str(recordings.parent / "secret.csv")):
        with pytest.raises(mc.InputError, match="is not in the folder"):
            folder.path(name)
    with pytest.raises(mc.InputError, match="neither a study"):
        folder.path("notes.txt.exe")
    with pytest.raises(mc.InputError, match="there is no file"):
        folder.path("other.csv")


def test_a_large_folder_is_not_looked_through_to_its_end(tmp_path, monkeypatch):
    for name in ("b.csv", "a/2.csv", "a/1.toml", ".hidden/x.csv", "a/.x.csv", "c/notes.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    folder = Folder(tmp_path)
    assert folder.files() == ["a/1.toml", "a/2.csv", "b.csv"]
    looked_at = []
    holds = folder._holds
    monkeypatch.setattr(folder, "_holds", lambda path: looked_at.append(path) or holds(path))
    monkeypatch.setattr("motorcost.explore.recordings._MOST_FILES", 1)
    assert folder.files() == ["b.csv"]
    assert len(looked_at) == 1
    monkeypatch.setattr("motorcost.explore.recordings._MOST_LOOKED_AT", 0)
    assert folder.files() == []


def test_studies_read_only_what_lies_in_the_folder(recordings, tmp_path):
    folder = Folder(recordings)
    assert len(open_study(recordings / "study.toml", folder).trials) == 12
    with pytest.raises(mc.InputError, match="is not in the folder"):
        open_study(recordings / "outside.toml", folder)
    code = recordings / "code.toml"
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    code.write_text(
        f'[data]\nfile = "reaches.csv"\n[model]\ntask = "{evil}:task"\n[free]\neffort = "usual"\n'
    )
    with pytest.raises(mc.InputError, match="is not in the folder"):
        open_study(code, folder)
    assert not (tmp_path / "ran").exists()
    code.unlink()


@pytest.mark.parametrize(
    ("name", "content", "answer"),
    [
        ("reaches.csv", b"trial,time,position\n1,0.0,abc\n", "reaches.csv"),
        ("reaches.csv", b"\xff\xfe\x00broken", "reaches.csv"),
        ("reaches.csv", b"", "reaches.csv"),
        ("study.toml", b"", "is not a recording"),
        ("task.py", b"", "is not a recording"),
        ("../../etc/x.csv", b"a,b\n1,2\n", "x.csv"),
    ],
)
def test_broken_uploads_name_the_file(name, content, answer):
    with pytest.raises(mc.InputError, match=answer) as caught:
        uploaded(name, content, "reaching", {})
    assert "/tmp" not in str(caught.value)


def test_an_upload_is_read_as_the_file_is(recordings):
    path = recordings / "reaches.csv"
    sent = uploaded("reaches.csv", path.read_bytes(), "reaching", {})
    read = open_data(path, "reaching", {})
    np.testing.assert_array_equal(sent.trials.observed, read.trials.observed)
    assert [file.name for file in sent.study.files] == ["reaches.csv"]


@pytest.fixture(scope="module")
def shown(recordings, setting):
    recording = open_study(recordings / "study.toml", Folder(recordings))
    free = {"effort": mc.LogUniform(1e-8, 1e-2), "recording_noise": mc.LogUniform(1e-6, 1e-2)}
    return Shown(setting, free, recording, starts=2)


def test_the_study_file_is_one_that_can_be_read(shown, recordings, monkeypatch):
    name, content = study_archive(shown)
    assert name == "study.toml"
    file = recordings / "exported.toml"
    file.write_bytes(content)
    study = mc.Study.read(file)
    assert study.free == dict(shown.free)
    assert study.fixed["velocity"] == shown.setting.values["velocity"]
    assert study.starts == 2
    trials, _ = study.trials()
    np.testing.assert_array_equal(trials.observed, shown.recording.trials.observed)
    file.unlink()


def test_a_mistaken_agent_comes_with_its_task(shown, recordings, tmp_path):
    values = {**shown.setting.values, BELIEVED_MOTOR: 0.0, BELIEVED_SENSORY: 2.0}
    wrong = dataclasses.replace(shown.setting, values=values, is_mistaken=True, delay=2)
    free = {BELIEVED_SENSORY: mc.LogUniform(0.1, 10.0), "effort": mc.LogNormal(1e-5, 0.7, low=1e-7)}
    name, content = study_archive(dataclasses.replace(shown, setting=wrong, free=free))
    assert name == "study.zip"
    zipfile.ZipFile(io.BytesIO(content)).extractall(tmp_path)
    (tmp_path / "reaches.csv").write_bytes((recordings / "reaches.csv").read_bytes())
    study = mc.Study.read(tmp_path / "study.toml")
    assert study.free == free
    problem = study.task(**study.fixed, **{BELIEVED_SENSORY: 2.0}, **STEPS)
    assert not np.any(problem.as_believed.C)
    np.testing.assert_allclose(problem.as_believed.W, 2 * problem.W)
    assert study.delay == (2,)
    again = open_study(tmp_path / "study.toml", Folder(tmp_path))
    assert mistaken(again.study.task) is again.study.task  # which has beliefs already


def test_the_python_lines_find_a_task_of_ones_own(recordings, tmp_path, monkeypatch):
    """Also with beliefs, which the study has in a file beside it."""
    monkeypatch.chdir(recordings)
    monkeypatch.setattr(mc, "analyse", lambda study: pytest.fail("no search in this test"))
    own = open_study(recordings / "own.toml", Folder(recordings))
    setting = Setting(own.study.task, own.study.task_name, {"effort": 1e-5}, **STEPS)
    wrong = dataclasses.replace(
        setting, values={"effort": 1e-5, BELIEVED_MOTOR: 0.0}, is_mistaken=True
    )
    for given in (setting, wrong):
        names = {}
        lines = python_text(Shown(given, dict(own.study.free), own)).split("analysis =")[0]
        # Only what is cheap: without solving and simulating.
        lines, _, fitting = lines.partition("policy =")
        exec(
            compile(lines + "study =" + fitting.partition("study =")[2], "explored.py", "exec"),
            names,
        )
        assert np.any(names["problem"].as_believed.C) == (given is setting)
        assert names["study"].free == own.study.free
    content = study_archive(Shown(wrong, dict(own.study.free), own))[1]
    zipfile.ZipFile(io.BytesIO(content)).extractall(tmp_path)
    (tmp_path / "own.py").write_bytes((recordings / "own.py").read_bytes())
    study = mc.Study.read(tmp_path / "study.toml")
    assert study.fixed[BELIEVED_MOTOR] == 0.0
    assert not np.any(study.task(**study.fixed, **STEPS).as_believed.C)


def test_the_python_lines_fit_simulated_movements(setting, monkeypatch):
    asked = {}

    class Fitted:
        def summary(self):
            return "a summary"

    def fit(task, trials, free, **arguments):
        asked.update(arguments, task=task, trials=trials, free=free)
        return Fitted()

    monkeypatch.setattr(mc, "fit", fit)
    recording = simulated(movements(setting), setting, "simulated.csv")
    moved = dataclasses.replace(setting, values={**setting.values, "effort": 5e-5}, seed=3)
    shown = Shown(moved, {"effort": mc.LogUniform(1e-8, 1e-2)}, recording, noise=1e-3)
    exec(compile(python_text(shown), "explored.py", "exec"), {})
    np.testing.assert_allclose(asked["trials"].observed, recording.trials.observed, atol=1e-9)
    assert asked["free"] == shown.free
    assert asked["fixed"] == shown.fixed
    assert asked["observer"] == mc.ObserverSpec(recording.trials.channel_names, 1e-3)


def test_the_python_lines_run_and_compute_the_same_cost(setting, seen, capsys):
    names = {}
    exec(compile(python_text(Shown(setting, {})), "explored.py", "exec"), names)
    printed = float(capsys.readouterr().out.split()[-1])
    assert printed == pytest.approx(seen.cost, rel=1e-9)
    np.testing.assert_allclose(names["movements"].states, seen.movements, atol=1e-9)


def test_the_python_lines_make_the_same_study(shown, recordings, monkeypatch):
    monkeypatch.chdir(recordings)
    monkeypatch.setattr(mc, "analyse", lambda study: pytest.fail("no search in this test"))
    lines = python_text(shown).split("analysis =")[0]
    names = {}
    exec(compile(lines, "explored.py", "exec"), names)
    assert names["study"].free == dict(shown.free)
    assert len(names["study"].trials()[0]) == 12


def test_the_figure_is_drawn_with_real_text(shown, seen):
    svg = figure_svg(shown, seen)
    assert svg.startswith(b"<?xml")
    assert b"position (m)</text>" in svg
    assert figure_svg(shown, seen) == svg  # without a date


def test_a_study_without_data_says_so(setting):
    assert "write the name of yours" in study_text(
        Shown(setting, {"effort": mc.LogUniform(1e-8, 1e-2)})
    )


def test_only_the_latest_job_is_done():
    done, begun, go = [], threading.Event(), threading.Event()

    def first():
        begun.set()
        go.wait(30)
        done.append(0)

    worker = Latest("test")
    worker.ask(first)
    assert begun.wait(30)
    finished = threading.Event()
    for number in range(1, 50):
        worker.ask(lambda number=number: (done.append(number), finished.set()))
    assert worker.is_stale
    go.set()
    assert finished.wait(30)
    worker.close()
    assert done == [0, 49]


def test_ten_clicks_are_one_fit(monkeypatch):
    running, go, calls = threading.Event(), threading.Event(), []

    def slow_fit(**arguments):
        calls.append(arguments)
        running.set()
        go.wait(30)
        arguments["progress"]("searching", 1, 4)
        return "found"

    monkeypatch.setattr("motorcost.explore.workers.fit", slow_fit)
    slot, done, failed = FitSlot(), threading.Event(), []
    told = {"progress": lambda *_: None, "done": lambda _: done.set(), "failed": failed.append}
    runs = [slot.start({}, **told) for _ in range(10)]
    assert running.wait(30)
    assert sum(run is not None for run in runs) == 1
    go.set()
    assert done.wait(30)
    assert len(calls) == 1
    assert failed == []


def test_a_fit_that_is_stopped_hears_of_it(monkeypatch):
    go, failed, heard = threading.Event(), [], threading.Event()

    def slow_fit(progress):
        go.wait(30)
        progress("searching", 0, 4)

    monkeypatch.setattr("motorcost.explore.workers.fit", slow_fit)
    slot = FitSlot()
    run = slot.start(
        {},
        progress=lambda *_: None,
        done=lambda _: pytest.fail("it was stopped"),
        failed=lambda why: (failed.append(why), heard.set()),
    )
    run.stop()
    go.set()
    assert heard.wait(30)
    assert "stopped" in failed[0]


def test_courses_are_one_line_with_gaps_and_without_what_is_missing():
    pytest.importorskip("bokeh", reason="the page needs: pip install 'motorcost[explore]'")
    from motorcost.explore import figures

    plot = figures.Courses.make("course", figures.colours(False))
    labels = [item.label.value for item in plot.plot.legend[0].items]
    assert "± 2 SD" in labels
    without = figures.Courses.make("speed", figures.colours(False), has_band=False)
    assert [item.label.value for item in without.plot.legend[0].items] == [
        label for label in labels if label != "± 2 SD"
    ]
    samples = np.array([[1.0, np.nan, 3.0], [4.0, 5.0, np.nan]])
    plot.show_data(np.array([0.0, 0.1, 0.2]), samples, 1)
    np.testing.assert_array_equal(plot.data.data["x"], [0.0, 0.2, np.nan, 0.0, 0.1, np.nan])
    np.testing.assert_array_equal(plot.data.data["y"], [1.0, 3.0, np.nan, 4.0, 5.0, np.nan])
    np.testing.assert_array_equal(plot.followed.data["y"], [4.0, 5.0, np.nan])
