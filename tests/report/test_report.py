import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

import motorcost as mc
from made import FITS, made_analysis, made_fit, made_plausibility, made_profile, recorded
from motorcost import demo
from motorcost.fitting.engine import Maximum
from motorcost.fitting.specification import make_objective
from motorcost.report import (
    Picture,
    Points,
    Section,
    Table,
    read_result,
    write_fit,
    write_report,
)
from motorcost.report.fitted import fit_sections
from motorcost.study.result import intervals_of
from motorcost.study.settings import Study
from strategies import in_time

EVIL = "<script>alert('x')</script> \"&quot; {{ title }} </main>"


class Page(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.tags, self.images, self.text, self.attributes = [], [], "", []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "img":
            self.images.append(dict(attrs))

    def handle_data(self, data):
        self.text += data


def assert_accessible_and_alone(page):
    assert not {"script", "link", "iframe", "object", "a"} & set(page.tags)
    for name, value in page.attributes:
        assert not name.startswith("on")
        assert name not in ("src", "href") or value.startswith("data:image/png;base64,iVBOR")
    assert all(image["alt"].strip() for image in page.images)
    headings = [int(tag[1]) for tag in page.tags if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(headings))
    assert "title" in page.tags
    assert dict(page.attributes)["lang"] == "en"


def page_of(analysis, folder, truth=None):
    return Page(write_fit(analysis, folder, truth).read_text("utf-8"))


def test_page_is_self_contained_and_escaped(tmp_path):
    figure = Figure()
    figure.subplots().plot([1, 2])
    write_report(
        tmp_path / "r.html",
        EVIL,
        EVIL,
        [Section(EVIL, EVIL, [Table((EVIL,), [(EVIL,)]), Points([EVIL]), Picture(figure, EVIL)])],
    )
    page = Page((tmp_path / "r.html").read_text())
    assert page.text.count(EVIL) == 8
    (image,) = page.images
    assert image["alt"] == EVIL
    assert_accessible_and_alone(page)


def test_a_report_escapes_what_users_call_things(tmp_path):
    subjects = [EVIL, "被験者", "a$b$", '"; drop'] * 3
    trials = recorded((8,) * 12, subjects=subjects)
    free = {"effort": mc.LogUniform(1e-8, 1e-2, per="subject")}
    fit = made_fit(free, trials)
    profiles = [made_profile(fit, name) for name in fit.names]
    slices = {p.name: (p.points, p.log_likelihoods) for p in profiles}
    analysis = made_analysis(fit, profiles=profiles, slices=slices, notes=(EVIL,))
    study = Study(
        files=(Path(f"{EVIL.replace('/', '')}.csv"),),
        task_name=EVIL,
        task=mc.tasks.reaching,
        free=free,
        title=EVIL,
    )
    analysis.study = study
    page = page_of(analysis, tmp_path)
    assert_accessible_and_alone(page)
    assert f"effort[{EVIL}]" in page.text
    assert "effort[a$b$]" in page.text
    assert page.text.count(EVIL) > 5


@pytest.mark.parametrize(
    "what",
    in_time(
        ["nothing known", "no information", "lengths and targets", "interrupted at once"],
        "lengths and targets",  # whose pictures are drawn with the other plots
    ),
)
def test_every_fit_has_a_report(tmp_path, what):
    fit = FITS[what]()
    analysis = made_analysis(fit, interrupted=fit.interrupted)
    if not fit.interrupted:
        analysis.profiles = [made_profile(fit, name) for name in fit.names]
    page = page_of(analysis, tmp_path, truth={fit.names[0]: 1e-5})
    assert_accessible_and_alone(page)
    drawn = sorted(file.stem for file in (tmp_path / "figures").iterdir())
    assert len(drawn) == len(page.images)
    if fit.interrupted:
        assert drawn == ["starts"]
        assert "The search was interrupted" in page.text
    elif fit.converged:
        assert {"starts", "estimates", "profiles", "data-and-model", "worst-trials"} <= set(drawn)
    else:  # without a maximum there are no intervals and no profiles
        assert {"starts", "data-and-model", "worst-trials"} <= set(drawn)
        assert not {"estimates", "profiles"} & set(drawn)


@pytest.mark.usefixtures("without_drawing")
def test_a_report_says_what_is_wrong(tmp_path):
    fit = made_fit({"effort": mc.LogUniform(1e-8, 1e-2)}, recorded(), information=0.0)
    page = page_of(made_analysis(fit), tmp_path)
    assert "The estimates need care: see below." in page.text


@pytest.mark.usefixtures("without_drawing")
@pytest.mark.parametrize(("below", "opens"), [(0.5, True), (4.0, False)])
@pytest.mark.parametrize("known", [25.0, 0.0])
def test_a_report_opens_with_another_explanation(tmp_path, below, opens, known):
    fit = made_fit({"effort": mc.LogUniform(1e-8, 1e-2)}, recorded(), information=known)
    other = Maximum(fit.point + 3.0, fit.log_likelihood - below, 25.0 * np.eye(1), 1, True)
    analysis = made_analysis(replace(fit, other_maxima=(other,)))
    opening = page_of(analysis, tmp_path).text.split("Estimates")[0]
    assert ("Another explanation fits almost as well" in opening) == opens
    assert ("The search settled" in opening) == (known > 0 and not opens)
    assert ("need care" in opening) == (known == 0)


@pytest.mark.usefixtures("without_drawing")
def test_a_report_of_a_search_that_did_not_settle_claims_nothing(tmp_path):
    fit = made_fit(["effort"], recorded(), converged=False)
    profiles = [made_profile(fit, "effort")]
    page = page_of(made_analysis(fit, profiles=profiles), tmp_path)
    assert "The search did not settle: these are the best values that it found" in page.text
    assert "The search did not settle: whether the model fits cannot be said." in page.text
    low, high = fit.interval()["effort"]
    for claim in ("nothing large", "interval", "within the interval", f"{low:.4g} to {high:.4g}"):
        assert claim not in page.text
    result = read_result(tmp_path)
    assert result["checks"]["passed"] is None
    assert result["standard_errors"] == {"effort": None}
    assert result["intervals"] == {"effort": [None, None]}


@pytest.mark.usefixtures("without_drawing")
def test_a_report_says_what_the_agent_does(tmp_path):
    fit = made_fit(["effort"], recorded())
    strong = made_plausibility(fit, motor_noise=1.73)
    analysis = made_analysis(fit, plausibility=strong)
    page = page_of(analysis, tmp_path)
    for line in [*strong.sentences, *strong.warnings]:
        assert line in page.text
    assert "Some of what the fitted agent does is not plausible: see below." in page.text
    result = read_result(tmp_path)["plausibility"]
    assert result["sentences"] == strong.sentences
    assert result["warnings"][0].startswith("The motor noise is 1.73")
    assert result["channels"]["position"]["covered"] == 0.98
    assert "not plausible" not in page_of(made_analysis(fit), tmp_path).text


@pytest.mark.usefixtures("without_drawing")
def test_a_report_shows_numbers_as_the_fit_has_them(tmp_path):
    fit = made_fit(["effort"], recorded())
    page = page_of(made_analysis(fit), tmp_path, truth={"effort": 2e-5})
    low, high = fit.interval()["effort"]
    for shown in ("1e-05", "m²/N²", "20 %", f"{low:.4g} to {high:.4g}", "2e-05"):
        assert shown in page.text
    unknown = made_fit(["effort"], recorded(), information=0.0)
    assert "anywhere" in page_of(made_analysis(unknown), tmp_path).text


@pytest.mark.usefixtures("without_drawing")
def test_a_report_replaces_an_older_one_whole(tmp_path):
    fit = made_fit(["effort"], recorded())
    write_fit(made_analysis(fit), tmp_path)
    before = sorted(file.relative_to(tmp_path) for file in tmp_path.rglob("*"))
    write_fit(made_analysis(fit), tmp_path)
    assert sorted(file.relative_to(tmp_path) for file in tmp_path.rglob("*")) == before


@pytest.mark.usefixtures("without_drawing")
def test_the_demonstration_writes_a_study_of_what_it_simulated(tmp_path, monkeypatch):
    fit = made_fit(list(demo.TRUTH), recorded())
    seen = []

    def without_search(study, progress):
        seen.append(study)
        return made_analysis(fit)

    monkeypatch.setattr(demo, "analyse", without_search)
    analysis, report = demo.run(tmp_path / "demo", n_trials=20, seed=4)
    (study,) = seen
    assert study.files == (tmp_path / "demo" / "trials.csv",)
    assert list(study.free) == list(demo.TRUTH)
    assert (study.noise, study.seed, study.dt) == (demo.NOISE, 4, None)
    trials, _ = study.trials()
    assert trials.observed.shape == (20, 30, 1)
    assert bool(jnp.isfinite(trials.observed).all())
    assert np.unique(trials.conditions["target"]).tolist() == [0.1]
    assert report == tmp_path / "demo" / "report.html"
    assert "truth" in Page(report.read_text()).text
    table = demo.against_truth(analysis)
    assert [line.split()[0] for line in table] == ["parameter", *demo.TRUTH]
    assert demo.again(Path("a b")) == "motorcost fit 'a b/study.toml' -o fit/"
    with pytest.raises(mc.InputError, match="trials must be at least 20, got 19"):
        demo.run(tmp_path / "few", n_trials=19)


def section_of(analysis, title):
    (section,) = [section for section in fit_sections(analysis) if section.title == title]
    return section


def lines_of(section):
    return [line for item in section.content if isinstance(item, Points) for line in item.lines]


def test_the_command_and_the_report_show_the_same_intervals():
    fit = made_fit(["effort"], recorded())
    profile = made_profile(fit, "effort", 0.3)
    for profiles, kind in ((None, "from standard errors"), ([profile], "from profile likelihoods")):
        analysis = made_analysis(fit, profiles=profiles)
        low, high = intervals_of(analysis)["effort"]
        section = section_of(analysis, "Estimates")
        assert f"{low:.4g} to {high:.4g}" in section.content[0].rows[0]
        assert f"{low:.4g} to {high:.4g}\n" in analysis.summary()
        assert kind in section.text
        assert kind in analysis.summary()
    unsettled = made_analysis(made_fit(["effort"], recorded(), converged=False))
    assert "Intervals are" not in unsettled.summary()


def test_a_question_mark_in_the_table_is_explained():
    fit = made_fit(["effort", "force"], recorded())
    assert not [
        line for line in lines_of(section_of(made_analysis(fit), "Estimates")) if "?" in line
    ]
    assert "?" not in fit.summary()
    point = np.array([fit.objective.bounds[0, 0], fit.point[1]])
    at_end = replace(fit, point=point)
    profiles = [made_profile(at_end, name) for name in fit.names]
    analysis = made_analysis(at_end, profiles=profiles)
    said = "?: there is no standard error at an end of a support (effort)"
    assert lines_of(section_of(analysis, "Estimates"))[0].startswith(said)
    assert said in analysis.summary()


def test_meanings_include_the_noise_of_the_recording():
    trials = recorded(channels=("position", "force"))
    fit = made_fit(["effort", "recording_noise"], trials)
    lines = lines_of(section_of(made_analysis(fit), "Estimates"))
    about = "SD of the noise of the recorded position and force"
    assert f"recording_noise: {about}." in lines
    fit = made_fit({"recording_noise_force": mc.LogUniform(1e-3, 1.0)}, trials)
    lines = lines_of(section_of(made_analysis(fit), "Estimates"))
    assert "recording_noise_force: SD of the noise of the recorded force." in lines


def test_searches_beyond_those_asked_for_are_told_apart(tmp_path):
    fit = made_fit(["effort"], recorded())  # of three searches
    analysis = made_analysis(fit)
    files = (tmp_path / "trials.csv",)
    for asked, said in (
        (3, "3 searches by the gradient method, begun at the most"),
        (1, "1 search by the gradient method, begun at the most"),
    ):
        analysis.study = replace(analysis.study, files=files, starts=asked)
        text = section_of(analysis, "Searches").text
        assert text.startswith(said)
        assert ("and 2 more, begun around where those ended" in text) == (asked == 1)


def test_fixed_numbers_are_shown_without_rounding_errors():
    trials = recorded()
    objective = make_objective(
        mc.tasks.reaching,
        trials,
        ["effort"],
        fixed={"tau": 0.010000000000000002},
        observer=mc.ObserverSpec(trials.channel_names, noise=1e-3),
    )
    fit = replace(made_fit(["effort"], trials), objective=objective)
    assert "tau fixed: 0.01" in lines_of(section_of(made_analysis(fit), "To reproduce this"))
