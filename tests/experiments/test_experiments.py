"""Every experiment of the paper: at its smallest scale it runs, draws, and ends on the page; and
its numbers are those of tables whose errors are known."""

import json
import math
from html import escape

import numpy as np
import pandas as pd
import pytest

from motorcost.errors import InputError
from motorcost.experiments import NAMES, SCALES, find, named
from motorcost.experiments.declare import Number
from motorcost.experiments.page import agrees, publish, with_error, write_pages
from motorcost.experiments.reaches import TRUTH
from motorcost.experiments.run import outcomes, reproduce

# These compile programs for many fits at once, which have tests of their own with `Recovery`; what
# the experiments make of the fits is tested on made-up tables below.
SLOW = {
    "fig2ef",
    "kl",
    "fig2g",
    "baselines",
    "partial",
    "fig5",
    "bug",
    "moment_matching",
    "approximation",
    "calibration",
    "fig4",
    "fig2c",
    "fig2b",
}
# fig3 needs recordings, and has tests of its own.
WITHOUT_DATA = [
    pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name
    for name in NAMES
    if not find(name).data
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One for all, so that experiments share sweeps as they do for users."""
    return tmp_path_factory.mktemp("reproduced")


@pytest.fixture(scope="module")
def fig2d(folder):
    """The outcome of a quick experiment in that folder."""
    return reproduce(find("fig2d"), "smoke", folder, command="the command")


@pytest.mark.parametrize("name", WITHOUT_DATA)
def test_runs_at_smoke_scale_and_draws(name, folder):
    experiment, reports = find(name), []
    outcome = reproduce(
        experiment,
        "smoke",
        folder,
        command="the command",
        progress=lambda what, progress: reports.append((what, progress)),
    )
    settings = {**experiment.scales["smoke"], "seed": 0}
    plans = experiment.sweeps(settings)
    assert outcome.rows == sum(plan.rows for plan in plans)
    assert outcome.failed == 0
    done = {what: progress.done for what, progress in reports}
    assert done == {f"{name} {plan.name}": plan.rows for plan in plans}
    # The numbers are those of the tables that were kept.
    files = {plan.name: folder / "tables" / f"{plan.name}-smoke" for plan in plans}
    tables = {plan: pd.read_parquet(path / "table.parquet") for plan, path in files.items()}
    assert outcome.numbers == tuple(experiment.numbers(settings, tables))
    assert all(math.isfinite(number.ours) for number in outcome.numbers)
    assert outcome.pictures
    for file in outcome.pictures:
        assert (folder / "figures" / file).read_bytes().startswith(b"\x89PNG")


def numbers_of(name, tables):
    """The numbers of an experiment at smoke scale, by name, which it must also be able to draw."""
    experiment = find(name)
    settings = {**experiment.scales["smoke"], "seed": 0}
    for picture in experiment.draw(settings, tables):
        assert picture.png.startswith(b"\x89PNG")
    return {number.name: number.ours for number in experiment.numbers(settings, tables)}


def made_up(name, sweep, factor, se=0.1):
    """A table of recoveries in which every estimate is the truth times a factor."""
    (plan,) = [plan for plan in find(name).sweeps(find(name).scales["smoke"]) if plan.name == sweep]
    table = pd.DataFrame([cell for cell in plan.over for _ in range(plan.repetitions)])
    for cost in plan.function.supports:
        table[f"{cost}_found"] = factor * table[cost]
        table[f"{cost}_se"] = se
    found = {"log_likelihood": -1.0, "log_likelihood_true": -2.0, "at_bounds": False}
    return table.assign(**found, kl=0.5, kl_exact=0.25, failed="")


def test_numbers_of_figure_2_e_and_of_the_divergence():
    table = made_up("fig2ef", "reaching-grid", 10.0, se=2.0)
    table.loc[0, "log_likelihood"] = -3.0  # a search that ended below the truth
    numbers = numbers_of("fig2ef", {"reaching-grid": table})
    assert numbers["RMSE of log10 effort r"] == pytest.approx(1.0)
    assert numbers["RMSE of log10, all three"] == pytest.approx(1.0)
    # log(10) is within 1.96 times 2, and not within 1.96 times 1.
    assert numbers["true force f within its 95 % interval, fraction"] == 1
    assert numbers["searches that missed the maximum, fraction"] == pytest.approx(1 / len(table))
    narrow = made_up("fig2ef", "reaching-grid", 10.0, se=1.0)
    numbers = numbers_of("fig2ef", {"reaching-grid": narrow})
    assert numbers["true force f within its 95 % interval, fraction"] == 0
    numbers = numbers_of("kl", {"reaching-grid": table})
    assert numbers["median symmetrised KL, simulated trajectories"] == 0.5
    assert numbers["median symmetrised KL, exact moments"] == 0.25


def test_numbers_of_figure_2_g():
    table = made_up("fig2g", "reaching-trials", 1.0)
    for cost in TRUTH:
        table[f"{cost}_found"] = table[cost] * 10 ** (table["n_trials"] ** -0.5)
    table["kl"] = table["kl_exact"] = 1 / table["n_trials"]
    numbers = numbers_of("fig2g", {"reaching-trials": table})
    assert numbers["rate of the RMSE, all numbers of trials"] == pytest.approx(0.5)
    assert numbers["rate of the KL divergence (exact moments)"] == pytest.approx(1.0)


def test_numbers_of_the_baselines():
    factors = {"reaching-grid": 1.1, "plain-lqg": 10.0, "average-lqg": 2.0}
    tables = {sweep: made_up("baselines", sweep, factor) for sweep, factor in factors.items()}
    numbers = numbers_of("baselines", tables)
    assert numbers["RMSE of log10, our model"] == pytest.approx(np.log10(1.1))
    assert numbers["RMSE of log10, plain LQG"] == pytest.approx(1.0)
    assert numbers["RMSE of log10, average noise"] == pytest.approx(np.log10(2.0))


def test_numbers_of_positions_alone():
    _, slices = find("partial").sweeps(find("partial").scales["smoke"])
    likelihoods = pd.DataFrame(slices.over).assign(log_likelihood=-1.0)
    tables = {"camera-grid": made_up("partial", "camera-grid", 2.0), "camera-slices": likelihoods}
    numbers = numbers_of("partial", tables)
    assert numbers["RMSE of log10 force f"] == pytest.approx(np.log10(2.0))
    assert numbers["median symmetrised KL of positions, exact"] == 0.25


def test_numbers_of_random_problems():
    table = made_up("fig5", "random-problems", 2.0, se=1.0)
    table.loc[0, "at_bounds"] = True
    numbers = numbers_of("fig5", {"random-problems": table})
    assert numbers["median of |log10 error|, effort r2"] == pytest.approx(np.log10(2.0))
    assert numbers["90th percentile, both"] == pytest.approx(np.log10(2.0))
    assert numbers["fits at the edge of the supports, fraction"] == pytest.approx(1 / len(table))
    assert numbers["truth within the 95 % interval, fraction"] == 1
    assert numbers["searches that missed the maximum, fraction"] == 0


def test_all_that_was_run_is_on_the_page(fig2d, folder, tmp_path):
    found = outcomes(folder)
    assert fig2d in found
    page = write_pages(folder).read_text()
    text = (folder / "results.md").read_text()
    for outcome in found:
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
    for outcome in found:
        for file in outcome.pictures:
            assert f"](figures/results/{file})" in text
            assert (tmp_path / "docs" / "figures" / "results" / file).exists()


def test_other_experiments_stay_on_the_page(fig2d, folder, tmp_path):
    page, figures = tmp_path / "results.md", tmp_path / "figures" / "results"
    figures.mkdir(parents=True)
    for file in ("fig4-old-laptop.png", "of-no-section.png"):
        (figures / file).write_bytes(b"kept as it is")
    alone = reproduce(find("fig2d"), "smoke", tmp_path / "alone", command="the command")
    other, own = find("fig4"), find("fig2d")
    page.write_text(
        "# An older page\n\n"
        f"| {other.part} | a number | 1 | 2 | 0.5 |\n| {own.part} | out of date | 1 | 2 | 0.5 |\n\n"
        f"## {other.title}\n\nAs it was.\n\n![](figures/results/fig4-old-laptop.png)\n\n"
        f"## {own.title}\n\nout of date\n"
    )
    for _ in range(2):  # the second time nothing changes
        publish(tmp_path / "alone", page)
        text = page.read_text()
        assert text.startswith("# The paper, reproduced")
        assert text.index(f"## {own.title}") < text.index(f"## {other.title}\n\nAs it was.\n")
        assert f"| {other.part} | a number | 1 | 2 | 0.5 |" in text
        assert "out of date" not in text
        assert text.count("## ") == 2
    kept = {path.name for path in figures.iterdir()}
    assert kept == {"fig4-old-laptop.png", *alone.pictures}


@pytest.mark.usefixtures("without_drawing")
def test_a_second_time_nothing_runs(fig2d, folder, monkeypatch):
    import motorcost.sweeps.run as sweeping

    def never(*args):
        raise AssertionError("a finished sweep was run again")

    monkeypatch.setattr(sweeping, "_run_here", never)
    again = reproduce(find("fig2d"), "smoke", folder, command="the command")
    assert again.numbers == fig2d.numbers


@pytest.mark.usefixtures("without_drawing")
def test_another_seed_is_other_randomness(fig2d, folder, tmp_path):
    with pytest.raises(InputError, match="seed 0 there, 1 here"):
        reproduce(find("fig2d"), "smoke", folder, seed=1)
    kept = json.loads((folder / "fig2d-smoke.json").read_text())
    assert [number["ours"] for number in kept["numbers"]] == [n.ours for n in fig2d.numbers]
    other = reproduce(find("fig2d"), "smoke", tmp_path, seed=1)
    for ours, theirs in zip(other.numbers, fig2d.numbers, strict=True):
        assert ours.ours != theirs.ours


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
    assert [experiment.name for experiment in named("fig2")] == [
        n for n in NAMES if n.startswith("fig2")
    ]
    assert [experiment.name for experiment in named("all")] == list(NAMES)
    assert [experiment.name for experiment in named("fig4")] == ["fig4"]
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
