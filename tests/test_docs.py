"""The documentation's code runs, and its links lead somewhere."""

import inspect
import re
from pathlib import Path

import pytest

import motorcost as mc
from made import made_fit

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts),
]

SLOW = (
    "README.md",
    "docs/calibration.md",
    "docs/design.md",
    "docs/fitting.md",
    "docs/index.md",
    "docs/inference.md",
    "docs/posteriors.md",
    "docs/real-data.md",
    "docs/sweeps.md",
)


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def is_notebook(page):
    """Notebooks are executed while the site is built."""
    return "kernelspec:" in page.read_text("utf-8")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page, id=name_of(page), marks=[pytest.mark.slow] if name_of(page) in SLOW else []
        )
        for page in PAGES
        if not is_notebook(page)
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


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page)):
        file, _, anchor = target.partition("#")
        if not file.startswith("https://"):
            there = page.parent / file if file else page
            assert there.exists(), target
            assert not anchor or anchor in anchors_of(there), target


def without_code(page):
    text = re.sub(r"(?ms)^(`{3,}|~{3,})(?!\{eval-rst).*?^\1\s*$", "", page.read_text("utf-8"))
    return re.sub(r"`[^`\n]+`", "", text)


def anchors_of(page):
    """What the headings of a page are called in links, on GitHub as in the site."""
    text = re.sub(r"(?ms)^(`{3,}).*?^\1\s*$", "", page.read_text("utf-8"))
    headings = re.findall(r"(?m)^#+ (.*)$", text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_first_page_leads_to_all_pages():
    """To each guide, and to the first page of each folder; `docs/guides.md` is a list itself."""
    there = re.findall(r"\]\((docs/[^)#\s]+)", without_code(ROOT / "README.md"))
    guides = {name_of(page) for page in DOCS.glob("*.md")}
    folders = {name_of(page) for page in DOCS.glob("*/*.md") if page.parent.name == "elsewhere"}
    folders |= {name_of(page) for page in DOCS.glob("*/index.md") if page.parent.name != "start"}
    lists = {"docs/index.md", "docs/guides.md", "docs/measured.md"}
    assert (guides | folders) - lists <= set(there)


def test_links_to_headings_are_checked(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A `name`, and more\n\n```sh\n# a comment\n```\n")
    assert anchors_of(page) == {"a-name-and-more"}
    page.write_text("[there](page.md#nowhere)")
    with pytest.raises(AssertionError):
        test_links_lead_somewhere(page)


def test_notebooks_that_read_recordings_are_known():
    """A build without the recordings leaves those out, and must not fail at them."""
    from notebooks import reading_recordings

    naming = [page for page in PAGES if is_notebook(page) and "shared/data" in page.read_text()]
    assert reading_recordings(DOCS) == [page.relative_to(DOCS).as_posix() for page in naming] != []


def test_pages_that_load_from_the_network_are_found(tmp_path):
    from check_offline import problems

    bad = {
        "script": '<script src="https://cdn.example/x.js"></script>',
        "style": '<link rel="stylesheet" href="//cdn.example/x.css">',
        "picture": '<img src="http://example.org/x.png">',
        "font": "<style>@font-face { src: url(https://example.org/x.woff) }</style>",
    }
    good = '<a href="https://example.org">there</a><link rel="next" href="b.html"><img src="x.png">'
    for name, text in {**bad, "good": good}.items():
        (tmp_path / f"{name}.html").write_text(f"<html><body>{text}</body></html>")
    (tmp_path / "x.css").write_text("a { background: url('https://example.org/x.png') }")
    assert sorted(line.split(".")[0] for line in problems(tmp_path)) == sorted([*bad, "x"])


def test_a_search_that_finds_nothing_is_an_error_and_none_is_said(tmp_path, monkeypatch, capsys):
    import check_offline

    (tmp_path / "index.html").write_text("<p>effort</p>")
    monkeypatch.setattr(check_offline.shutil, "which", lambda name: None)
    check_offline.main(str(tmp_path))
    assert "there is no browser" in capsys.readouterr().out
    monkeypatch.setattr(check_offline, "search_finds", lambda site, word: False)
    with pytest.raises(SystemExit, match="finds nothing"):
        check_offline.main(str(tmp_path))


@pytest.mark.parametrize(
    ("code", "has"),
    [
        (r"\hat x_t", r"<msub><mover.*</mover><mi>t</mi></msub>"),
        (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", r"<mtr>.*<mtr>"),
        (r"\begin{equation} a = b \end{equation}", r"<mi>a</mi><mo>=</mo>|<mi>a</mi><mo>&#x0003D;"),
    ],
)
def test_formulas_become_mathml(code, has):
    from mathml import converted

    made = converted(code, block=True)
    assert re.search(has, made, re.DOTALL)
    assert "begin" not in made
    assert "&amp;" not in made


def test_docstrings_become_restructured_text():
    from docstrings import as_rst

    text = """See `Fit` and `x`s:

    - `a`: of `Fit`,
      2 * 3.

          a formula * here

    >>> print(`1`)
    """
    made = "\n".join(as_rst(inspect.cleandoc(text).split("\n"), {"Fit": "motorcost.Fit"}.get))
    assert "See :py:obj:`Fit <motorcost.Fit>` and ``x``\\ s:" in made
    assert "  .. code-block:: text\n\n      a formula * here" in made
    assert "2 \\* 3" in made
    assert ">>> print(`1`)" in made
