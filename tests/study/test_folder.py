"""The folder of a fit: whatever stops the writing, it holds the old result or the new one."""

import errno
import json
import os
import re
import shutil
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import motorcost as mc
from made import made_analysis, made_fit, recorded
from motorcost.io.locks import held
from motorcost.report import fitted, read_result, result_of, write_fit
from motorcost.report.page import Picture, Section
from motorcost.study.folder import ResultFolder
from motorcost.study.result import FORMAT


class StopError(BaseException):
    """Ends the process, as far as its files are concerned."""


class Stopper:
    """Stops at one of the changes of files, and lets no later one happen.

    A killed process does not clean up: what `finally` and `except` would still do is not done.
    """

    # Reading is allowed: a dead process that reads changes nothing.
    EVENTS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink")

    def __init__(self):
        self.folder, self.left, self.seen = None, None, 0
        sys.addaudithook(self.heard)

    def heard(self, event, arguments):
        if self.folder is None or not self.changes(event, arguments):
            return
        self.seen += 1
        if self.left is not None and self.seen > self.left:
            raise StopError

    def changes(self, event, arguments):
        if event == "open":
            path, _, flags = arguments
            if not flags & (os.O_WRONLY | os.O_RDWR):
                return False
        elif event not in self.EVENTS:
            return False
        path = arguments[0]
        return isinstance(path, (str, bytes)) and os.fsdecode(path).startswith(str(self.folder))

    @contextmanager
    def after(self, folder, changes):
        """Within the block, only so many changes of a folder's files happen."""
        self.folder, self.left, self.seen = folder, changes, 0
        try:
            yield self
        except StopError:
            pass
        finally:
            self.folder = None


# A hook cannot be removed again: one for all tests, which listens only when it is told to.
STOPPER = Stopper()


@pytest.fixture(autouse=True)
def little_to_draw(monkeypatch):
    """A report of one small page, whose pictures are known bytes."""

    def sections(analysis, truth=None):
        names = {100.0: ("estimates", "starts"), 90.0: ("starts", "beliefs-trial-7")}
        of = analysis.fit.log_likelihood
        pictures = [Picture(None, f"picture of {of}", name) for name in names[of]]
        yield Section("Numbers", f"log likelihood {of}", pictures)

    monkeypatch.setattr(fitted, "fit_sections", sections)
    monkeypatch.setattr(Picture, "png", property(lambda picture: picture.alt.encode()))


@pytest.fixture(scope="module")
def fit():
    return made_fit(["effort"], recorded())


@pytest.fixture
def old(fit):
    return made_analysis(fit)


@pytest.fixture
def new(fit):
    return made_analysis(made_fit(["effort"], recorded(), log_likelihood=90.0))


@pytest.fixture
def stopped(fit):
    interrupted = made_fit(["effort"], recorded(), np.nan, interrupted=True, log_likelihood=90.0)
    return made_analysis(interrupted, interrupted=True)


def contents(folder):
    """The bytes of every file, but for locks, the date and what is hidden from users."""
    files = (path for path in folder.rglob("*") if path.is_file())
    visible = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    if "README.md" in visible:
        visible["README.md"] = re.sub(rb" on \d{4}-.*,", b"", visible["README.md"])
    return {name: text for name, text in visible.items() if not name.startswith(".")}


def written(analysis, folder):
    folder.mkdir()
    write_fit(analysis, folder)
    return contents(folder)


def recover(folder):
    """What the next fit does first."""
    with ResultFolder(folder).held():
        pass


def test_a_folder_describes_itself(old, tmp_path):
    write_fit(old, tmp_path / "fit", command="motorcost fit study.toml -o fit")
    assert sorted(path.name for path in (tmp_path / "fit").iterdir()) == [
        ".lock", "README.md", "figures", "fit.json", "report.html",
    ]  # fmt: skip
    text = (tmp_path / "fit" / "README.md").read_text()
    assert f"motorcost {mc.__version__} wrote this folder on 2" in text
    assert "\n    motorcost fit study.toml -o fit\n" in text
    assert f"JSON, format {FORMAT}" in text
    assert mc.citation() in text
    named = set(re.findall(r"^- `([^`]+)`:", text, re.MULTILINE))
    assert named == set(contents(tmp_path / "fit"))
    assert set(read_result(tmp_path / "fit")["files"]) == named - {"fit.json"}
    write_fit(old, tmp_path / "fit")
    assert "from Python." in (tmp_path / "fit" / "README.md").read_text()


@pytest.mark.parametrize("own", [True, False])
def test_stopped_at_every_step_the_folder_is_old_or_new(old, new, tmp_path, own):
    """And what is in place is never of both. `own`: with files of the user's own."""
    before, after = written(old, tmp_path / "old"), written(new, tmp_path / "new")
    extra = {"notes.txt": b"mine", "figures/mine.png": b"drawn", "data.csv": b"1"} if own else {}
    seen, steps = [], 0
    while True:
        folder = tmp_path / "fit"
        shutil.copytree(tmp_path / "old", folder)
        for name, text in extra.items():
            (folder / name).write_bytes(text)
        with STOPPER.after(folder, steps) as stopper:
            write_fit(new, folder)
        found = contents(folder)
        for name, text in extra.items():
            assert found.pop(name) == text
        assert found.items() <= before.items() or found.items() <= after.items()
        assert "fit.json" in found
        read = read_result(folder)["log_likelihood"]
        recover(folder)
        found = contents(folder)
        for name, text in extra.items():
            assert found.pop(name) == text
        assert found in (before, after)
        assert read == json.loads(found["fit.json"])["log_likelihood"]
        seen.append(found == after)
        assert not [path for path in folder.iterdir() if path.name.startswith((".new", ".next"))]
        shutil.rmtree(folder)
        if stopper.seen <= steps:
            break
        steps += 1
    assert steps > 20
    assert seen == sorted(seen)  # once it is new it stays new
    assert set(seen) == {True, False}


def test_stopped_again_while_it_is_put_right(old, new, tmp_path):
    before, after = written(old, tmp_path / "old"), written(new, tmp_path / "new")
    folder = tmp_path / "fit"
    shutil.copytree(tmp_path / "old", folder)
    with STOPPER.after(folder, None) as stopper:
        write_fit(new, folder)
    steps = stopper.seen
    for first in range(steps - 12, steps, 2):
        for second in range(0, 12, 3):
            shutil.rmtree(folder)
            shutil.copytree(tmp_path / "old", folder)
            with STOPPER.after(folder, first):
                write_fit(new, folder)
            with STOPPER.after(folder, second):
                recover(folder)
            recover(folder)
            assert contents(folder) in (before, after)


def test_the_first_result_of_a_folder_is_whole_or_not_there(new, tmp_path):
    after = written(new, tmp_path / "new")
    folder, steps = tmp_path / "fit", 0
    while True:
        with STOPPER.after(folder, steps) as stopper:
            write_fit(new, folder)
        if folder.exists():
            recover(folder)
        found = contents(folder) if folder.exists() else {}
        assert found in ({}, after)
        shutil.rmtree(folder, ignore_errors=True)
        if stopper.seen <= steps:
            break
        steps += 1
    assert found == after


def test_a_full_disk_leaves_the_old_result_and_names_the_file(old, new, tmp_path, monkeypatch):
    before = written(old, tmp_path / "fit")
    for file in ("report.html", "starts.png", "README.md", "fit.json"):
        write = Path.write_bytes

        def full(path, data, write=write, file=file):
            if path.name.startswith(f".{Path(file).stem}-"):
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(path, data)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "write_bytes", full)
            patch.setattr(
                Path, "write_text", lambda path, text, *_, **__: path.write_bytes(text.encode())
            )
            with pytest.raises(OSError, match="No space left") as raised:
                write_fit(new, tmp_path / "fit")
        place = "figures/starts.png" if file == "starts.png" else file
        assert raised.value.filename == str(tmp_path / "fit" / place)
        found = contents(tmp_path / "fit")
        kept = json.loads(found.pop("interrupted.json"))  # the search is not lost
        assert kept["interrupted"] is True
        assert kept["log_likelihood"] == 90.0
        assert found == before


def test_a_folder_with_a_posterior_is_left_alone(new, tmp_path):
    (tmp_path / "posterior.nc").write_bytes(b"draws")
    before = contents(tmp_path)
    with pytest.raises(
        mc.InputError, match="holds a posterior: write the fit into a folder of its"
    ):
        write_fit(new, tmp_path)
    assert contents(tmp_path) == before


def test_an_interrupted_fit_goes_beside_a_finished_one(old, new, stopped, tmp_path):
    folder = ResultFolder(tmp_path / "fit")
    before = written(old, folder.path)
    write_fit(stopped, folder.path)
    found = contents(folder.path)
    assert read_result(folder.path / "interrupted.json")["interrupted"] is True
    assert folder.previous() == read_result(folder.path / "interrupted.json")
    del found["interrupted.json"]
    assert found == before
    write_fit(new, folder.path)
    assert contents(folder.path).keys() == written(new, tmp_path / "new").keys()
    assert folder.previous()["interrupted"] is False


def test_an_interrupted_fit_replaces_an_interrupted_one(stopped, old, tmp_path):
    folder = ResultFolder(tmp_path)
    assert folder.previous() is None
    for _ in range(2):
        write_fit(stopped, tmp_path)
        assert folder.previous()["interrupted"] is True
        assert not (tmp_path / "interrupted.json").exists()
    write_fit(old, tmp_path)
    assert folder.previous()["interrupted"] is False


def test_a_report_that_cannot_be_drawn_does_not_cost_the_search(old, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(fitted, "fit_sections", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_fit(old, tmp_path)
    state = ResultFolder(tmp_path).previous()
    assert state == result_of(old) | {"interrupted": True}
    assert list(contents(tmp_path)) == ["interrupted.json"]


def test_one_fit_at_a_time_and_who_it_is(old, new, tmp_path):
    before = written(old, tmp_path / "fit")
    with held(tmp_path / "fit", "sweep"), pytest.raises(mc.InputError) as raised:
        write_fit(new, tmp_path / "fit")
    message = str(raised.value)
    assert f"another sweep is writing into {tmp_path / 'fit'} (process {os.getpid()} on" in message
    assert re.search(r", since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d.*\): wait for it", message)
    assert contents(tmp_path / "fit") == before
    assert not (tmp_path / "fit" / ".lock.json").exists()
    with held(tmp_path / "fit", "fit"):
        (tmp_path / "fit" / ".lock.json").write_text("{")  # torn
        with pytest.raises(mc.InputError, match=r"another fit is writing into \S+: wait for it"):
            write_fit(new, tmp_path / "fit")


def test_a_folder_in_which_nothing_was_written_goes_again(tmp_path):
    with held(tmp_path / "fit", "fit"):
        assert (tmp_path / "fit" / ".lock.json").exists()
    assert not list(tmp_path.iterdir())
    (tmp_path / "fit").mkdir()
    recover(tmp_path / "fit")
    assert (tmp_path / "fit").exists()


def test_a_readme_of_the_users_own_stays(old, new, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    for analysis in (old, new):
        write_fit(analysis, tmp_path)
        assert (tmp_path / "README.md").read_text() == "mine"
        assert "README.md" not in read_result(tmp_path)["files"]


def test_a_result_from_elsewhere_removes_nothing_but_its_own(old, new, tmp_path):
    folder = tmp_path / "fit"
    write_fit(old, folder)
    (tmp_path / "precious.png").write_text("mine")
    (folder / "notes.txt").write_text("mine")
    names = ["../precious.png", "notes.txt", str(tmp_path / "precious.png"), "figures/../notes.txt"]
    result = read_result(folder)
    (folder / "fit.json").write_text(json.dumps(result | {"files": [*names, *result["files"]]}))
    write_fit(new, folder)
    assert (tmp_path / "precious.png").read_text() == (folder / "notes.txt").read_text() == "mine"
    assert not (folder / "figures" / "estimates.png").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fit.json", "it is a folder"),
        ("report.html", "it is a folder"),
        ("figures", "it is no folder of its own"),
    ],
)
def test_places_that_are_taken_are_said_at_once(tmp_path, name, message):
    if name == "figures":
        (tmp_path / name).symlink_to(tmp_path)
    else:
        (tmp_path / name).mkdir()
    with pytest.raises(mc.InputError, match=message):
        recover(tmp_path)


def test_results_of_format_1_are_read_and_replaced(old, new, tmp_path):
    write_fit(old, tmp_path)
    result = read_result(tmp_path) | {"format": 1}
    del result["files"]
    (tmp_path / "fit.json").write_text(json.dumps(result))
    (tmp_path / "README.md").unlink()
    assert read_result(tmp_path) == result
    write_fit(new, tmp_path)
    assert read_result(tmp_path)["format"] == FORMAT
    assert (tmp_path / "README.md").exists()


def test_results_of_a_newer_motorcost_are_refused(old, tmp_path):
    write_fit(old, tmp_path)
    result = read_result(tmp_path) | {"format": FORMAT + 1}
    (tmp_path / "fit.json").write_text(json.dumps(result))
    with pytest.raises(mc.InputError, match=rf"newer motorcost \(format {FORMAT + 1}\); this"):
        read_result(tmp_path)


def damages(result):
    """Copies of a result with one part damaged: missing, of another type, or cut short."""

    def changed(path, change):
        copy = json.loads(json.dumps(result))
        part = copy
        for key in path[:-1]:
            part = part[key]
        change(part, path[-1])
        return copy

    def assign(value):
        return lambda part, key: part.__setitem__(key, value)

    def paths(value, at=()):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield (*at, key)
            if isinstance(value[key], (dict, list)):
                yield from paths(value[key], (*at, key))

    free = ("settings", "versions", "channels", "phases", "groups")
    for path in paths(result):
        is_free = any(key in free for key in path)
        if isinstance(path[-1], str) and not is_free and path[-2:-1] != ("shares_of_cost",):
            yield "missing", path, changed(path, lambda part, key: part.pop(key))
        for value in ([], {}, "x" * 9, ["x"], {"x": {}}, True):
            if not is_free and type(value) is not type(_at(result, path)):
                yield "type", path, changed(path, assign(value))
        if path[0] == "intervals" and len(path) == 2:
            yield "cut", path, changed(path, lambda part, key: part.__setitem__(key, part[key][:1]))


def _at(value, path):
    for key in path:
        value = value[key]
    return value


def refusal(folder):
    """Why a result is not read; empty if it is."""
    try:
        read_result(folder)
    except mc.InputError as error:
        return str(error)
    return ""


def test_every_damaged_part_is_refused_in_one_line(old, tmp_path):
    write_fit(old, tmp_path)
    result, file = read_result(tmp_path), tmp_path / "fit.json"
    accepted = []
    count = 0
    for kind, path, damaged in damages(result):
        count += 1
        file.write_text(json.dumps(damaged))
        said = refusal(tmp_path)
        if not said:
            accepted.append((kind, path))
            continue
        assert "\n" not in said
        assert len(said) < 400 + len(str(file))
        assert re.search(r"is not a fit\.json that this version can read: \w+", said)
    assert count > 500
    # There are least probable trials only of a fit that was checked, delays were not always
    # compared, nor other cuts fitted, and format 1 had no files.
    of_checks = [("checks", "worst_trials"), ("checks", "outlying_trials")]
    may_be_missing = [("delays",), ("cuts",), *of_checks, ("files",)]
    assert accepted == [("missing", path) for path in may_be_missing]


def test_a_name_that_is_not_utf_8_does_not_cost_the_report(old, tmp_path):
    name = os.fsdecode(b"caf\xe9.csv")
    study = replace(old.study, files=(Path(name),))
    page = write_fit(replace(old, study=study), tmp_path, command=f"motorcost fit {name}")
    assert r"3 trials from caf\udce9.csv" in page.read_text("utf-8")
    assert r"motorcost fit caf\udce9.csv" in (tmp_path / "README.md").read_text("utf-8")
    assert read_result(tmp_path)["data"]["files"] == [r"caf\udce9.csv"]
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    assert write_fit(old, folder).is_file()
