"""The documentation's code runs, and its links lead somewhere."""

import inspect
import re
from pathlib import Path

import pytest

import motorcost as mc
from made import made_fit

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


SLOW = ("README.md", "design.md", "fitting.md", "inference.md", "real-data.md", "sweeps.md")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.name in SLOW else [])
        for page in PAGES
    ],
)
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where the pictures go that the examples save
    run_code(page)


def test_the_first_page_runs_without_its_search(tmp_path, monkeypatch):
    """All but the search itself, whose arguments must be right."""
    searched, signature = [], inspect.signature(mc.fit)

    def found_at_once(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        searched.append(given["n_starts"])
        task, trials, free = (given[name] for name in ("task", "trials", "free"))
        return made_fit(free, trials, task=task, observer=given["observer"])

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mc, "fit", found_at_once)
    run_code(ROOT / "README.md")
    assert searched == [4]
    assert {"fit", "fit.npz"} <= {file.name for file in tmp_path.iterdir()}


def run_code(page):
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(block, page.name, "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target
