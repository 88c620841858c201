import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import motorcost as mc
from motorcost.cli import computing
from motorcost.cli.computing import DeviceKind

SMALL = ("simulate", "reaching", "--set", "steps=5", "--trials", "2")


def motorcost(*arguments, **environment):
    """The command in a new process, with the user's variables changed; None removes one."""
    known = {name: value for name, value in (os.environ | environment).items() if value is not None}
    command = [sys.executable, "-m", "motorcost", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=known, check=False)


@pytest.fixture
def settings(monkeypatch):
    """What is set in JAX, which stays as it was."""
    told = {}
    monkeypatch.setattr(jax.config, "update", told.__setitem__)
    return told


@pytest.fixture
def caching(monkeypatch, tmp_path):
    """As for a user who has set nothing; their caches are in this folder."""
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("MOTORCOST_CACHE", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return tmp_path / "caches"


def keeping(folder):
    return {"MOTORCOST_CACHE": None, "XDG_CACHE_HOME": str(folder)}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """What a small command says, and the folder in which it kept its programs."""
    folder = tmp_path_factory.mktemp("caches")
    return motorcost(*SMALL, "--device", "cpu", **keeping(folder)), folder


def assert_kept(folder, command, first):
    """The second run compiles nothing, and a damaged cache is no reason to say anything."""
    environment = keeping(folder)
    kept = {file: file.stat().st_mtime_ns for file in folder.rglob("*-cache")}
    assert first.returncode == 0, first.stderr
    assert len(kept) > 10
    again = motorcost(*command, **environment)
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*-cache")} == kept
    for file in kept:
        file.write_bytes(file.read_bytes()[:-100])
    damaged = motorcost(*command, **environment)
    for run in (again, damaged):
        assert (run.returncode, run.stdout, run.stderr) == (0, first.stdout, first.stderr)


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="the folder is another there")
def test_a_command_compiles_once(small):
    first, folder = small
    assert_kept(folder, (*SMALL, "--device", "cpu"), first)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="the folder is another there")
def test_a_fit_compiles_once(tmp_path):
    data, caches = tmp_path / "trials.csv", tmp_path / "caches"
    size = ("--set", "steps=8", "--set", "dt=0.03", "--trials", 14)
    seen = ("--observe", "position", "--noise", "1e-3", "-o", data)
    assert motorcost("simulate", "reaching", *size, *seen).returncode == 0
    options = ("--task", "reaching", "--free", "effort", "--noise", "1e-3", "--starts", 2)
    command = ("fit", data, *options, "--quick", "-q", "-o", tmp_path / "fit")
    assert_kept(caches, command, motorcost(*command, **keeping(caches)))


def test_programs_are_kept_in_the_users_cache(settings, caching):
    computing.prepare(None)
    folder = Path(settings["jax_compilation_cache_dir"])
    assert folder.is_dir()
    assert folder.is_relative_to(caching / "motorcost")
    assert folder.stat().st_mode & 0o077 == 0  # nobody else can put programs there
    assert settings["jax_persistent_cache_min_compile_time_secs"] == 0.0


@pytest.mark.parametrize(
    ("system", "variables", "expected"),
    [
        ("linux", {}, "home/.cache/motorcost"),
        ("linux", {"XDG_CACHE_HOME": "elsewhere"}, "elsewhere/motorcost"),
        ("darwin", {"XDG_CACHE_HOME": "elsewhere"}, "home/Library/Caches/motorcost"),
        ("win32", {}, "home/AppData/Local/motorcost"),
        ("win32", {"LOCALAPPDATA": "local"}, "local/motorcost"),
    ],
)
def test_each_system_has_its_place_for_caches(monkeypatch, system, variables, expected):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(Path, "home", lambda: Path("home"))
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert computing.cache_folder().is_relative_to(expected)


def test_processors_that_differ_share_no_programs(monkeypatch):
    here = computing.cache_folder()
    assert here == computing.cache_folder()
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "flags\t\t: fpu sse\n")
    monkeypatch.setattr("platform.machine", lambda: "another")
    there = computing.cache_folder()
    assert there != here
    assert there.parent == here.parent


@pytest.mark.parametrize("word", ["off", "OFF"])
def test_the_cache_can_be_switched_off(monkeypatch, settings, caching, word):
    monkeypatch.setenv("MOTORCOST_CACHE", word)
    computing.prepare(None)
    assert settings == {"jax_enable_compilation_cache": False}
    assert not caching.exists()


def test_what_the_user_told_jax_stays(monkeypatch, settings, caching):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "mine")
    computing.prepare(None)
    assert settings == {"jax_persistent_cache_min_compile_time_secs": 0.0}
    settings.clear()
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "5")
    computing.prepare(None)
    assert settings == {}
    assert not caching.exists()


def no_home():
    raise RuntimeError("Could not determine home directory.")


def test_without_a_folder_to_write_to_nothing_is_kept(monkeypatch, settings, caching):
    caching.write_text("a file where the folder should be")
    computing.prepare(None)
    caching.unlink()
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda *_: False)
        computing.prepare(None)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    computing.prepare(None)
    assert settings == {}


def test_the_oldest_programs_go_first(tmp_path):
    (tmp_path / "other").mkdir()
    for age, name in enumerate(["new", "other/used", "old", "other/oldest"]):
        (tmp_path / name).write_bytes(bytes(10))
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    os.utime(tmp_path / "other" / "used", (2e9, 0))  # long there, and read just now
    computing.forget_oldest(tmp_path, 40)
    assert len([*tmp_path.rglob("*")]) == 5
    computing.forget_oldest(tmp_path, 29)
    assert {file.name for file in tmp_path.rglob("*")} == {"new", "other", "used"}


def test_the_cpu_is_used_whatever_else_there_is(small):
    """With a platform that does not exist, anything that asks JAX for a device before the option
    is heard would fail: importing the library does not."""
    usual, folder = small
    run = motorcost(*SMALL, "--device", "cpu", JAX_PLATFORMS="nonsense", **keeping(folder))
    assert (run.returncode, run.stdout) == (0, usual.stdout)


def test_a_gpu_is_used_whatever_the_environment_says(monkeypatch, settings):
    asked = []
    monkeypatch.setattr(jax, "devices", asked.append)
    computing.use_device(DeviceKind.gpu)
    assert settings == {"jax_platforms": None}
    assert asked == ["gpu"]


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        ([], "JAX has no support for GPUs here: pip install 'jax[cuda13]'"),
        (["cuda"], r"JAX finds no GPU that it can use (see nvidia-smi): no driver"),
    ],
)
def test_a_gpu_that_is_not_there(monkeypatch, settings, plugins, message):
    def fails(platform):
        raise RuntimeError("no driver")

    monkeypatch.setattr(jax, "devices", fails)
    monkeypatch.setattr(computing, "entry_points", lambda group: plugins)
    with pytest.raises(mc.InputError) as raised:
        computing.use_device(DeviceKind.gpu)
    assert str(raised.value).startswith(f"--device gpu: {message}")


def test_users_can_ask_jax_to_speak(monkeypatch, settings):
    computing.set_up_jax()
    assert settings == {"jax_enable_x64": True, "jax_logging_level": "CRITICAL"}
    settings.clear()
    monkeypatch.setenv("JAX_LOGGING_LEVEL", "INFO")
    computing.set_up_jax()
    assert settings == {"jax_enable_x64": True}
