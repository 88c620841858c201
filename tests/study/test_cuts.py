"""Do estimates depend on the speed at which movements were cut?"""

from dataclasses import replace

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from made import made_fit
from motorcost.report.differences import cuts_section
from motorcost.report.page import Points, Table
from motorcost.study import analysis
from motorcost.study.cuts import cut_fit, cuts_in_words, cuts_table

STUDY = """\
[data]
file = "hand.csv"
units = { x = "m", y = "m", target_x = "m", target_y = "m" }
[prepare]
along = { goal = ["target_x", "target_y"] }
cut = { speed = 0.05, channels = ["position", "lateral"] }
[model]
task = "reaching"
[free]
effort = "usual"
[observer]
states = ["position"]
noise = 0.001
[report]
cuts = [0.02, 0.1]
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Four reaches of minimum jerk, with a fifth of a second at rest on either side."""
    folder = tmp_path_factory.mktemp("cuts")
    s = np.clip((np.arange(90) - 20) / 50, 0, 1)
    x = 0.1 * (10 * s**3 - 15 * s**4 + 6 * s**5)
    rows = [f"{k},{i / 100},{x[i]},{0.01 * x[i]},0.1,0" for k in range(4) for i in range(90)]
    text = "\n".join(["trial,time,x,y,target_x,target_y", *rows])
    (folder / "hand.csv").write_text(text)
    (folder / "study.toml").write_text(STUDY)
    return folder / "study.toml"


def other(speed, fit, shift, **changed):
    return cut_fit(speed, replace(fit, point=fit.point + shift, **changed), fit)


def test_each_cut_is_fitted_from_the_estimates_with_the_lead_that_was_chosen(file, monkeypatch):
    study = mc.Study.read(file)
    trials = study.trials()[0].with_lead(0.05)
    fit = made_fit(["effort"], trials)
    asked = []

    def fitted(run, task, what, starts, n_starts):
        asked.append((what, run.study.prepare[1][1]["speed"], run.trials, starts, n_starts))
        return replace(fit, point=fit.point + fit.search_scale_errors["effort"] * len(asked))

    monkeypatch.setattr(analysis._Run, "fitted", fitted)
    movements = study.movements()
    run = analysis._Run(study, movements, trials, jax.random.key(0), lambda *_: None, None)
    result = analysis.Analysis(study, trials, (), "", fit)
    analysis._cut_elsewhere(run, result)
    assert [call[:2] for call in asked] == [
        ("movements cut at 0.02", 0.02),
        ("movements cut at 0.1", 0.1),
    ]
    slow, fast = (call[2] for call in asked)
    assert slow.lengths[0] > trials.lengths[0] > fast.lengths[0]
    for _, _, elsewhere, starts, n_starts in asked:
        assert elsewhere.lead == pytest.approx(0.05)
        assert starts == [fit.estimates]
        assert n_starts == 3
    assert_allclose([cut.apart["effort"] for cut in result.cuts], [1, 2], rtol=1e-9)
    (section,) = cuts_section(result)
    points, table = section.content
    assert isinstance(points, Points)
    assert isinstance(table, Table)
    assert "effort depends on the cut" in points.lines[0]


def test_what_a_comparison_says(file):
    fit = made_fit(["effort", "velocity"], mc.Study.read(file).trials()[0])
    error = np.array(list(fit.search_scale_errors.values()))
    near, far = other(0.02, fit, 0.3 * error), other(0.1, fit, error * [0.1, 2.5])
    unsettled = other(0.2, fit, error, converged=False)
    assert near.depends == []
    assert far.depends == ["velocity"]
    assert unsettled.apart == {}
    assert cuts_in_words([near], 0.05) == [
        "Estimates do not depend on the cut: with movements cut at 0.02 instead of 0.05, none is "
        "further away than 0.3 standard errors."
    ]
    (said,) = cuts_in_words([near, far], 0.05)
    assert said.startswith("velocity depends on the cut")
    assert said.endswith("2.5 standard errors away.")
    said = cuts_in_words([unsettled], 0.05)
    assert said == [
        "The search did not settle with movements cut at 0.2 instead of 0.05: nothing is said "
        "of that cut."
    ]
    header, rows = cuts_table([near, unsettled], fit, 0.05)
    assert header[:4] == ["parameter", "cut at 0.05", "cut at 0.02", "standard errors apart"]
    assert rows[0] == ["trials", "4", "4", "", "4", "did not settle"]
    assert rows[2][3:] == ["0.3", f"{unsettled.estimates['velocity']:.3g}", ""]


def test_what_cannot_be_compared_is_named(file):
    fit = made_fit(["effort", "velocity"], mc.Study.read(file).trials()[0])
    low, _ = fit.objective.bounds[0]
    # At an end of its support in one of the fits, in both, and with trials of another person.
    to_end = other(0.02, fit, np.array([low - fit.point[0], 0.0]))
    assert to_end.depends == ["effort"]
    at_end = replace(fit, point=np.array([low, fit.point[1]]))
    both = cut_fit(0.02, at_end, at_end)
    assert both.apart == {"effort": 0.0, "velocity": 0.0}
    alone = cut_fit(0.1, made_fit(["velocity"], fit.trials), fit)
    assert alone.uncompared == ("effort",)
    first, second = cuts_in_words([alone], 0.05)
    assert first == "effort could not be compared with movements cut at 0.1 instead of 0.05."
    assert second.startswith("The estimates that were compared do not depend on the cut")
    assert cuts_table([alone], fit, 0.05)[1][1][2:] == ["", ""]
    nothing = made_fit(["effort"], fit.trials, information=0.0)
    (said,) = cuts_in_words([cut_fit(0.1, nothing, nothing)], 0.05)
    assert said.startswith("effort could not be compared")


def test_a_report_without_a_comparison_says_how_to_get_one(file):
    study = replace(mc.Study.read(file), cuts=())
    fit = made_fit(["effort"], study.trials()[0])
    found = analysis.Analysis(study, fit.trials, (), "", fit)
    (section,) = cuts_section(found)
    assert "--cuts 0.03,0.08" in section.text
    assert "at a speed of 0.05. Whether" in section.text
    (section,) = cuts_section(replace(found, preparation=study.prepared().steps))
    assert "at a speed of 0.05 m/s. Whether" in section.text
    assert not list(cuts_section(replace(found, study=replace(study, prepare=()))))


@pytest.mark.parametrize(
    ("cuts", "said"),
    [
        ("[0.05]", "cuts must differ from the speed of the study's own cut, 0.05"),
        ("[0.1, 0.1]", "cuts must differ from each other"),
        ("[-1]", "cuts"),
        ('"fast"', "cuts"),
    ],
)
def test_cuts_that_cannot_be_compared(file, tmp_path, cuts, said):
    bad = tmp_path / "bad.toml"
    bad.write_text(STUDY.replace("[0.02, 0.1]", cuts))
    with pytest.raises(mc.InputError, match=said) as error:
        mc.Study.read(bad)
    assert "bad.toml" in str(error.value)
    assert "\n" not in str(error.value)


def test_cuts_need_a_cut():
    with pytest.raises(mc.InputError, match="the preparation has no step cut with a speed"):
        mc.Study("hand.csv", "reaching", ["effort"], cuts=[0.1])
