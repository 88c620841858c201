"""What `import motorcost` offers."""

import importlib
import inspect
import pkgutil
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest
import yaml

import motorcost as mc
from motorcost import references

ROOT = Path(__file__).parent.parent


def test_dir_shows_what_there_is():
    assert [name for name in dir(mc) if not name.startswith("_")] == sorted(mc.__all__)
    assert len(set(mc.__all__)) == len(mc.__all__)
    assert set(mc._LAZY) <= set(mc.__all__)


@pytest.mark.parametrize("name", mc.__all__)
def test_every_name_is_there_and_documented(name):
    found = getattr(mc, name)
    assert found.__doc__.strip()
    # A data class without a docstring gets its signature for one.
    assert not found.__doc__.startswith(f"{name}(")
    if inspect.isclass(found):
        assert found.__doc__ != found.__mro__[1].__doc__


PACKAGES = [
    "motorcost",
    *(found.name for found in pkgutil.walk_packages(mc.__path__, "motorcost.") if found.ispkg),
]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_has_the_name_of_a_function_beside_it(package):
    """The function would hide the module, or the module the function once it is imported."""
    package = importlib.import_module(package)
    for module in pkgutil.iter_modules(package.__path__):
        assert not inspect.isroutine(getattr(package, module.name, None)), module.name


def test_unknown_names_are_said():
    with pytest.raises(AttributeError, match="module 'motorcost' has no attribute 'fitt'"):
        mc.fitt  # noqa: B018


def test_importing_is_quick():
    slow = ("pandas", "matplotlib", "scipy", "dask", "distributed", "numpyro", "arviz")
    code = f"import sys, motorcost; print([name for name in {slow!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_types_are_declared():
    assert resources.files("motorcost").joinpath("py.typed").is_file()


def test_citations_agree():
    text = mc.citation()
    for part in (*references.AUTHORS, references.TITLE, "@inproceedings", "@software"):
        assert part in text
    assert f"version {mc.__version__}" in text
    stored = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    paper = stored["preferred-citation"]
    people = [f"{a['given-names']} {a['family-names']}" for a in paper["authors"]]
    assert people == list(references.AUTHORS)
    assert paper["title"] == references.TITLE
    assert paper["collection-title"] == references.VENUE
    assert (paper["volume"], paper["year"]) == (references.VOLUME, references.YEAR)
    assert paper["url"] == references.ADDRESS
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert stored["version"] == project["version"] == mc.__version__
    assert stored["license"] == project["license"]
    (authors,) = [author["name"] for author in stored["authors"]]
    assert [authors] == [author["name"] for author in project["authors"]]
    assert f"author  = {{{{{authors}}}}}" in text
    assert f"title   = {{{stored['title']}}}" in text
    assert stored["keywords"] == project["keywords"]
    assert stored["abstract"].rstrip(".") == project["description"]


def test_the_citation_has_what_its_format_requires():
    """Of version 1.2.0: the fields that must be there, and those that a reader needs."""
    stored = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert stored["cff-version"] == "1.2.0"
    assert stored["type"] == "software"
    for name in ("message", "title", "authors", "abstract", "version", "license", "keywords"):
        assert stored[name], name
    paper = stored["preferred-citation"]
    for name in ("type", "title", "authors", "year", "url", "collection-title", "volume"):
        assert paper[name], name
