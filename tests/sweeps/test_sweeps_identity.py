"""Which function a folder belongs to: its name, stated version, and settings."""

import functools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sweeping import GRID, contents, draw, same

import motorcost as mc
from motorcost.errors import InputError
from motorcost.sweeps import sweep
from motorcost.sweeps.identity import LONGEST_SETTING, full_name, settings_of


@dataclass(frozen=True)
class Study:
    factor: float
    inner: object = None

    def __call__(self, key, a):
        return {"x": self.factor * a}


class Module(eqx.Module):
    weights: jax.Array
    label: str = eqx.field(static=True)

    def __call__(self, key, a):
        return {"x": a}


class Unequal:
    """An object that is not compared: its representation has an address."""


def scaled(key, a, factor):
    return {"x": factor * a}


def shifted(key, a, factor):
    return {"x": factor + a}


# By name, a function of a number that is made with it, and the setting that then differs.
MAKERS = {
    "partial": (lambda x: functools.partial(scaled, factor=x), "factor"),
    "argument": (lambda x: functools.partial(scaled, x), "argument 0"),
    "list": (lambda x: functools.partial(scaled, factor={"b": (1, None), "a": ["", x]}), "factor"),
    "data class": (Study, "factor"),
    "nested": (lambda x: Study(1.0, inner={"study": Study(x)}), "inner"),
    "nested partial": (lambda x: Study(1.0, inner=functools.partial(scaled, factor=x)), "inner"),
    "array": (lambda x: Study(1.0, inner=np.array([[x]])), "inner"),
    "module": (lambda x: Module(jnp.array([x]), "a"), "weights"),
    "key": (lambda x: Study(1.0, inner=jax.random.key(int(x))), "inner"),
    "long": (lambda x: Study(1.0, inner=[0.5] * 1000 + [x]), "inner"),
    "partial of an object": (lambda x: functools.partial(Study(x), key=None), "factor"),
    "recovery": (
        lambda x: mc.Recovery(mc.tasks.reaching, ["effort"], n_trials=int(x)),
        "n_trials",
    ),
    "observer": (
        lambda x: mc.Recovery(
            mc.tasks.reaching, ["effort"], observer=mc.ObserverSpec(["position"], noise=x)
        ),
        "observer",
    ),
}


@pytest.mark.parametrize("name", MAKERS)
def test_settings_are_compared(name):
    make, setting = MAKERS[name]
    settings, other = settings_of(make(1.0)), settings_of(make(2.0))
    assert settings == settings_of(make(1.0))
    assert {name for name in settings if settings[name] != other[name]} == {setting}
    assert all(len(text) <= LONGEST_SETTING for text in other.values())


def test_settings_are_the_same_in_another_process():
    code = (
        "import json, test_sweeps_identity as t;"
        "print(json.dumps([t.settings_of(make(1.0)) for make, _ in t.MAKERS.values()]))"
    )
    environment = os.environ | {"PYTHONHASHSEED": "7", "JAX_ENABLE_X64": "1"}
    there = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(there.stdout) == [settings_of(make(1.0)) for make, _ in MAKERS.values()]


def test_functions_are_compared_by_name_and_other_objects_by_type():
    assert settings_of(Study(1.0, inner=scaled)) != settings_of(Study(1.0, inner=shifted))
    assert settings_of(Study(1.0, inner=Unequal())) == settings_of(Study(1.0, inner=Unequal()))
    assert settings_of(scaled) == settings_of(lambda key, a: {"x": a}) == {}
    assert full_name(functools.partial(scaled, factor=1)) == f"{__name__}.scaled"
    assert full_name(Study(1.0)) == f"{__name__}.Study"
    assert full_name(jax.jit(scaled)) == f"{__name__}.scaled"


def written(text):
    """The function `f` of a script with this text."""
    names = {"__name__": "script"}
    exec(text, names)
    return names["f"]


def test_code_is_not_compared_but_the_version_is(tmp_path):
    text = "def g(a): return a\ndef f(key, a): return {'x': g(a)}"
    folder = tmp_path / "results"
    run = functools.partial(sweep, over={"a": [1, 2]}, folder=folder)
    table = run(written(text), version="1")
    before = contents(folder)
    commented = written(text.replace("return a\n", "return a  # as it is\n"))
    same(run(commented, version="1"), table)
    same(run(commented), table)  # what is left out is version 1, the number or the string
    same(run(commented, version=1), table)
    doubled = written(text.replace("return a\n", "return 2 * a\n"))
    with pytest.raises(InputError) as caught:
        run(doubled, version=2)
    assert str(caught.value) == (
        f"{folder} holds results of version 1 of the function, and this call states version 2: "
        "choose another folder, or state version='1'"
    )
    assert contents(folder) == before
    other = sweep(doubled, {"a": [1, 2]}, folder=tmp_path / "others", version=2)
    assert other["x"].tolist() == [2, 4]
    with pytest.raises(InputError, match=r"\(seed 0 there, 1 here; version 1 there, 2 here\)"):
        run(doubled, version=2, seed=1)
    assert json.loads((folder / "sweep.json").read_text())["version"] == "1"


@pytest.mark.parametrize("version", [None, 1.5, True, ["1"]])
def test_versions_are_strings_or_whole_numbers(version, as_users_call_it):
    with pytest.raises(InputError, match=r"version .* must be a string or a whole number, got"):
        sweep(draw, GRID, version=version)


def test_other_settings_are_refused(tmp_path):
    sweep(Study(2.0), {"a": [1]}, folder=tmp_path)
    before = contents(tmp_path)
    with pytest.raises(InputError) as caught:
        sweep(Study(3.0, inner="x"), {"a": [1]}, folder=tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} holds another sweep (the function's factor 2.0 there, 3.0 here; the "
        "function's inner None there, 'x' here): choose another folder, or delete it"
    )
    with pytest.raises(InputError, match=r"\(the function .*Study there, .*scaled here\)"):
        sweep(functools.partial(scaled, factor=2.0), {"a": [1]}, folder=tmp_path)
    assert contents(tmp_path) == before
