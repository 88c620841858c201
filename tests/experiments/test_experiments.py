"""Every experiment of the paper at its smallest scale: it runs, draws, and ends on the page."""

import json
import math
from html import escape

import pytest

from motorcost.errors import InputError
from motorcost.experiments import NAMES, SCALES, find, named
from motorcost.experiments.declare import Number
from motorcost.experiments.page import agrees, publish, with_error, write_pages
from motorcost.experiments.run import outcomes, reproduce

# fig3 needs recordings, and has tests of its own.
WITHOUT_DATA = [name for name in NAMES if not find(name).data]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One for all, so that experiments share sweeps as they do for users."""
    return tmp_path_factory.mktemp("reproduced")


@pytest.mark.parametrize("name", WITHOUT_DATA)
def test_runs_at_smoke_scale_and_draws(name, folder):
    standings = []
    outcome = reproduce(
        find(name),
        "smoke",
        folder,
        command="the command",
        progress=lambda what, standing: standings.append((what, standing)),
    )
    assert outcome.rows > 0
    assert outcome.failed == 0
    assert standings[-1][1].done == standings[-1][1].total
    assert outcome.numbers
    assert all(math.isfinite(number.ours) for number in outcome.numbers)
    assert outcome.pictures
    for file in outcome.pictures:
        assert (folder / "figures" / file).read_bytes().startswith(b"\x89PNG")


def test_all_that_was_run_is_on_the_page(folder, tmp_path):
    done = [outcome.experiment for outcome in outcomes(folder)]
    if not done:
        pytest.skip("needs the outcomes of the tests before it")
    page = write_pages(folder).read_text()
    text = (folder / "results.md").read_text()
    for outcome in outcomes(folder):
        experiment = find(outcome.experiment)
        assert escape(experiment.title).replace("&#x27;", "&#39;") in page
        assert experiment.title in text
        for deviation in experiment.deviations:
            assert deviation in text
        for file in outcome.pictures:
            assert f"](figures/{file})" in text
    (tmp_path / "docs").mkdir()
    publish(folder, tmp_path / "docs" / "results.md")
    text = (tmp_path / "docs" / "results.md").read_text()
    for outcome in outcomes(folder):
        for file in outcome.pictures:
            assert f"](figures/results/{file})" in text
            assert (tmp_path / "docs" / "figures" / "results" / file).exists()


def test_a_second_time_nothing_runs(folder, monkeypatch):
    if not (folder / "fig2d-smoke.json").exists():
        pytest.skip("needs the outcome of a test before it")
    before = json.loads((folder / "fig2d-smoke.json").read_text())
    import motorcost.sweeps.run as sweeping

    def never(*args):
        raise AssertionError("a finished sweep was run again")

    monkeypatch.setattr(sweeping, "_run_here", never)
    again = reproduce(find("fig2d"), "smoke", folder)
    assert [number.ours for number in again.numbers] == [n["ours"] for n in before["numbers"]]


def test_another_seed_is_other_randomness(folder, tmp_path):
    if not (folder / "fig2d-smoke.json").exists():
        pytest.skip("needs the outcome of a test before it")
    before = json.loads((folder / "fig2d-smoke.json").read_text())
    with pytest.raises(InputError, match="seed 0 there, 1 here"):
        reproduce(find("fig2d"), "smoke", folder, seed=1)
    other = reproduce(find("fig2d"), "smoke", tmp_path, seed=1)
    for ours, theirs in zip(other.numbers, before["numbers"], strict=True):
        assert ours.ours != theirs["ours"]


@pytest.mark.parametrize("name", ["fig2b", "fig2c", "fig5", "partial"])
def test_the_seed_reaches_what_is_drawn_besides_the_keys(name):
    at = find(name).scales["smoke"]
    plans = [find(name).sweeps({**at, **seed})[-1] for seed in ({}, {"seed": 0}, {"seed": 1})]
    said = [(plan.function, plan.over) for plan in plans]
    assert said[0] == said[1] != said[2]


@pytest.mark.parametrize("name", NAMES)
def test_declares_everything(name):
    experiment = find(name)
    assert experiment.name == name
    assert set(experiment.scales) == set(SCALES)
    assert experiment.deviations
    keys = [set(experiment.scales[scale]) for scale in SCALES]
    assert keys[0] == keys[1] == keys[2]


def test_names_stand_for_several():
    assert [each.name for each in named("fig2")] == [n for n in NAMES if n.startswith("fig2")]
    assert [each.name for each in named("all")] == list(NAMES)
    assert [each.name for each in named("fig4")] == ["fig4"]
    with pytest.raises(InputError, match="unknown experiment 'fig6'"):
        named("fig6")


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (0.0344, 0.0041, "0.034 ± 0.004"),
        (0.0267, 0.0017, "0.027 ± 0.002"),
        (0.0267, 0.0012, "0.0267 ± 0.0012"),
        (26.9, 12.3, "27 ± 12"),
        (1234.5, 38.0, "1230 ± 40"),
        (4.93e-4, 4.1e-5, "4.9e-4 ± 0.4e-4"),
        (123456.0, 2000.0, "1.23e5 ± 0.02e5"),
        (0.5, 0.096, "0.50 ± 0.10"),
        (0.0, 0.02, "0.00 ± 0.02"),
        (-1.5, 0.2, "-1.5 ± 0.2"),
        (0.00123, None, "0.00123"),
        (0.00123, float("nan"), "0.00123"),
    ],
)
def test_numbers_are_shown_as_well_as_they_are_known(value, error, words):
    assert with_error(value, error) == words


def test_what_agrees():
    assert agrees(Number("", 1.05, None, 1.0))
    assert agrees(Number("", 1.5, 0.3, 1.0))
    assert not agrees(Number("", 1.5, 0.1, 1.0))
    assert not agrees(Number("", math.nan, None, 1.0))
    assert not agrees(Number("", 1.0))


def test_an_outcome_of_another_format_is_refused(tmp_path):
    file = tmp_path / "fig4-smoke.json"
    for content in ("", "[]", '{"format": 99}', '{"format": 1, "version": "0", "numbers": []}'):
        file.write_text(content)
        with pytest.raises(
            InputError, match="is no outcome of an experiment that this version can read"
        ):
            outcomes(tmp_path)
