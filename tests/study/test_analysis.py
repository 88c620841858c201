import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost.diagnostics import Bootstrap
from motorcost.inference.diagnose import ContradictionError
from motorcost.report import read_result, result_of, write_fit
from motorcost.study import analysis as module
from motorcost.study.analysis import analyse
from motorcost.study.settings import Study

# Reaches of 0.2 s, which end short of their goals; the last moves by 6 mm. `analyse` says so.
pytestmark = [
    pytest.mark.filterwarnings("ignore:1 of 14 trials .14. hardly move"),
    pytest.mark.filterwarnings("ignore:movements end .* of the way"),
]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    problem = mc.tasks.reaching(steps=8, dt=0.03)
    observer = mc.observe(problem, ["position"], noise=1e-3)
    trials = mc.simulate(
        problem, mc.solve(problem), n_trials=14, key=jax.random.key(0), observer=observer
    )
    mc.io.write_csv(trials.with_conditions(target=0.1), folder / "trials.csv")
    return Study(
        folder / "trials.csv",
        "reaching",
        ["effort"],
        noise=1e-3,
        starts=5,
        baselines=False,
    )


@pytest.fixture(scope="module")
def found(study):
    return analyse(study)


def interrupting(at, times=1):
    """Progress that interrupts at the given kind of work."""
    left = times

    def progress(what, done, total):
        nonlocal left
        if what == at:
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

    return progress


def test_the_analysis_is_the_fit_of_the_study(study, found):
    trials, _ = study.trials()
    alone = mc.fit(
        mc.tasks.reaching,
        trials,
        ["effort"],
        key=jax.random.key(0),
        n_starts=5,
        observer=mc.ObserverSpec(["position"], noise=1e-3),
    )
    assert found.fit.estimates == alone.estimates
    assert_allclose(found.profiles[0].ends, alone.profiles()[0].ends)
    each = mc.cross_validate(alone, key=jax.random.fold_in(jax.random.key(0), 2), folds=5)
    assert_allclose(found.cross_validated, each.sum())


def test_what_looks_wrong_is_said_before_anything_is_compiled(study, monkeypatch):
    said = []

    def no_fit(*_, **__):
        said.append("fit")
        raise mc.InputError("enough")

    monkeypatch.setattr(module, "fit", no_fit)
    with pytest.raises(mc.InputError, match="enough"):
        analyse(study, warn=said.append)
    assert said == [*mc.look(study).warnings, "fit"]
    assert "1 of 14 trials (14) hardly move" in said[1]
    with pytest.raises(mc.InputError), pytest.warns(UserWarning, match="hardly move") as warned:
        analyse(study)
    assert {warning.filename for warning in warned} == {__file__}


def test_progress_says_what_is_compiled(study, monkeypatch):
    told = []
    monkeypatch.setattr(module, "fit", lambda *_, **__: pytest.fail("fitted"))
    with pytest.raises(pytest.fail.Exception):
        analyse(study, progress=lambda what, *_: told.append(what))
    assert told == ["reading", "compiling the likelihood of 14 trials, 8 steps"]


@pytest.mark.usefixtures("without_drawing")
def test_the_steps_of_the_preparation_are_in_the_result_and_in_the_report(found, tmp_path):
    page = write_fit(found, tmp_path).read_text()
    result = read_result(tmp_path)
    assert result["preparation"] == [
        {
            "step": "read",
            "arguments": {},
            "before": None,
            "after": 14,
            "samples": 112,
            "notes": [],
            "unit": "",
        },
        {
            "step": "model",
            "arguments": {"dt": 0.03},
            "before": 14,
            "after": 14,
            "samples": 112,
            "notes": list(found.preparation[1].notes),
            "unit": "",
        },
    ]
    assert result["warnings"] == list(found.warnings)
    assert "From the recordings to the trials" in page
    assert "model: dt = 0.03" in page
    assert "1 of 14 trials (14) hardly move" in page


def test_a_slice_of_one_parameter_is_its_profile(found):
    grid, values = found.slices["effort"]
    profile = found.profiles[0]
    assert_allclose(np.interp(profile.points[[0, -1]], grid, values),
                    profile.log_likelihoods[[0, -1]], rtol=1e-10)  # fmt: skip


@pytest.mark.usefixtures("without_drawing")
def test_an_interrupted_search_is_kept_and_goes_on(study, found, tmp_path):
    stopped = analyse(study, progress=interrupting("searching", 3))
    assert stopped.interrupted
    assert stopped.fit.interrupted
    write_fit(stopped, tmp_path)
    result = read_result(tmp_path)
    assert result["interrupted"] is True
    assert result["standard_errors"] == {"effort": None}
    assert result["estimates"]["effort"] > 0
    assert "interrupted" in (tmp_path / "report.html").read_text()
    resumed = analyse(study, previous=result)
    assert "went on from 5 searches that had been interrupted" in resumed.notes
    assert not resumed.interrupted
    assert_allclose(resumed.fit.estimates["effort"], found.fit.estimates["effort"], rtol=1e-4)


def test_searches_go_on_only_with_the_same_data_and_settings(study, found):
    previous = result_of(found) | {"interrupted": True}
    quick = replace(study, profiles=False, folds=0)

    def went_on(study, previous):
        return any("went on" in note for note in analyse(study, previous=previous).notes)

    assert went_on(quick, json.loads(json.dumps(previous)))
    assert not went_on(quick, previous | {"interrupted": False})
    assert not went_on(quick, previous | {"data": {"checksum": "other"}})
    assert not went_on(replace(quick, seed=1), previous)


@pytest.mark.parametrize("side", [0, 1])
def test_searches_go_on_from_the_edge_of_a_support(study, found, side):
    edge = replace(found.fit, point=found.fit.objective.bounds[:, side])
    start = edge.estimates
    assert start["effort"] in edge.objective.coordinates[0].support  # whatever the rounding
    previous = result_of(found) | {"interrupted": True, "starts": [{"parameters": start}] * 5}
    resumed = analyse(replace(study, profiles=False, folds=0), previous=previous)
    assert "went on from 5 searches that had been interrupted" in resumed.notes
    assert len(resumed.fit.starts) == 5


def test_an_interrupted_profile_keeps_the_fit(study, found):
    stopped = analyse(study, progress=interrupting("profiles"))
    assert stopped.interrupted
    assert not stopped.fit.interrupted
    assert stopped.profiles is None
    assert stopped.adequacy is not None
    assert stopped.cross_validated is None
    assert result_of(stopped)["interval_method"] == "wald"
    missing = "missing, in whole or in part, is the profile, cross-validation"
    assert any(missing in note for note in result_of(stopped)["notes"])


def test_an_interrupted_bootstrap_keeps_the_fit(study, monkeypatch):
    def cut_short(fit, **_):
        return Bootstrap(fit, "parametric", np.stack([fit.point] * 2), interrupted=True)

    monkeypatch.setattr(module, "bootstrap", cut_short)
    stopped = analyse(replace(study, profiles=False, folds=0, bootstrap=9))
    assert stopped.interrupted
    assert result_of(stopped)["bootstrap"]["n"] == 2


def test_an_interrupted_baseline_keeps_the_fit(study, found, monkeypatch):
    def fails_later(task, *args, **kwargs):
        return replace(found.fit, interrupted=task is not mc.tasks.reaching)

    monkeypatch.setattr(module, "fit", fails_later)
    stopped = analyse(replace(study, profiles=False, baselines=True))
    assert stopped.interrupted
    assert stopped.baselines is None
    assert result_of(stopped)["baselines"] == []


def test_without_a_maximum_nothing_starts_from_one(study, found, monkeypatch):
    monkeypatch.setattr(module, "fit", lambda *_, **__: replace(found.fit, converged=False))
    told = analyse(replace(study, bootstrap=9, baselines=True))
    assert told.profiles is told.bootstrap is told.baselines is told.cross_validated is None
    assert told.variability is None
    assert told.notes[-1] == (
        "the search did not settle, so there is no explanation of variability, no profile, "
        "no bootstrap, no comparison with baselines"
    )
    assert not told.adequacy.passed
    assert told.plausibility.sentences[0].startswith("The search did not settle")


def test_labels_that_the_task_does_not_take_are_looked_at(study, found, monkeypatch):
    """A subject need not have parameters of its own to be the one that fits worst."""
    trials = found.trials.with_conditions(subject=np.repeat(["anna", "ben"], 7))
    monkeypatch.setattr(module, "fit", lambda *_, **__: found.fit)
    monkeypatch.setattr(Study, "trials", lambda *_: (trials, ()))
    told = analyse(replace(study, profiles=False, folds=0))
    groups = [part.where for part in told.adequacy.groups["subject"]]
    assert groups == ["for subject anna", "for subject ben"]
    assert result_of(told)["checks"]["groups"]["subject"][1]["trials"] == 7


@pytest.mark.parametrize("lead", [0.0, [0.0, 0.06]])
def test_a_recording_without_noise_is_refused_before_the_search(study, monkeypatch, lead):
    searched = []
    monkeypatch.setattr(module, "fit", lambda *_, **__: searched.append(1) or 1 / 0)
    exact = replace(study, noise=0.0, lead=lead, prepare=[("trials", {"which": "3:12"})])
    if lead:  # without motor noise, no sample before the first can vary it
        exact = replace(exact, fixed={"motor_noise": 0.0})
    message = r"trial 3 contradicts the model at step .*\(noise=1e-3, --noise 1e-3\), or infer it"
    with pytest.raises(mc.InputError, match=message):
        analyse(exact)
    assert not searched


class SearchedError(Exception):
    pass


def searched(*_, **__):
    raise SearchedError


def test_the_first_trial_is_checked_where_noises_do_not_vanish(study, monkeypatch):
    """Starts do not vary at the default of their spread, where this support begins."""
    checked = []

    def check(make, trials):
        conditions = {name: values[0].item() for name, values in trials.conditions.items()}
        checked.append(make(steps=int(trials.lengths[0]), **conditions)[0])

    monkeypatch.setattr(module, "fit", searched)
    monkeypatch.setattr(module, "log_likelihood", check)
    starts = {"effort": None, "start_spread": mc.Uniform(0.0, 0.05)}
    with pytest.raises(SearchedError):
        analyse(replace(study, noise=0.0, free=starts))
    (problem,) = checked
    assert np.any(problem.initial_belief_cov + problem.initial_state_cov)
    assert not np.any(mc.tasks.reaching().initial_belief_cov)


def test_a_likelihood_that_cannot_be_computed_at_one_point_refuses_nothing(study, monkeypatch):
    def beyond(*_, **__):
        raise mc.InputError("the likelihood is beyond what can be computed")

    monkeypatch.setattr(module, "fit", searched)
    monkeypatch.setattr(module, "log_likelihood", beyond)
    with pytest.raises(SearchedError):
        analyse(replace(study, noise=0.0))


@pytest.mark.parametrize(
    "changed", [{"noise": 1e-3}, {"free": ["effort", "recording_noise"]}, {"delay": 1}]
)
def test_what_may_be_possible_is_left_to_the_search(study, monkeypatch, changed):
    monkeypatch.setattr(module, "log_likelihood", lambda *_: 1 / 0)
    monkeypatch.setattr(module, "fit", lambda *_, **__: (_ for _ in ()).throw(KeyError("fit")))
    with pytest.raises(KeyError, match="fit"):
        analyse(replace(study, **{"noise": 0.0} | changed))


def test_a_trial_that_the_search_finds_impossible_is_called_as_in_its_file(study, monkeypatch):
    def fails(*_, **__):
        raise ContradictionError(1, "contradicts the model at step 2")

    monkeypatch.setattr(module, "fit", fails)
    with pytest.raises(mc.InputError, match=r"^trial 8 contradicts the model at step 2$"):
        analyse(replace(study, prepare=[("trials", {"which": "7:12"})]))


def test_that_there_is_only_one_trial_stays_beside_the_estimates(study):
    said = []
    alone = replace(study, prepare=[("trials", {"which": "1"})], profiles=False, starts=1)
    found = analyse(alone, warn=said.append)
    (few,) = [text for text in said if text.startswith("there is only 1 trial")]
    assert few in found.fit.notes
    assert few in found.fit.summary()
    assert not any("under way" in text for text in said)
    assert not set(said) - {few} & set(found.fit.notes)


def test_baselines_that_are_impossible_are_told(study, monkeypatch):
    search = module.fit
    tried = []

    def only_this(task, *args, starts=(), **kwargs):
        if task is mc.tasks.reaching:
            return search(task, *args, starts=starts, **kwargs)
        tried.append(starts)
        raise mc.InputError("trial 0 contradicts the model")

    monkeypatch.setattr(module, "fit", only_this)
    told = analyse(replace(study, profiles=False, baselines=True, folds=0))
    assert [name for name, _ in told.impossible] == [
        "no signal-dependent noise",
        "steady noise of mean strength",
    ]
    assert [row.name for row in told.baselines.rows] == ["this model"]
    assert [list(starts[0]) for starts in tried] == [["effort"]] * 2


@pytest.mark.parametrize("n", [1, -2])
def test_a_bootstrap_of_one_is_refused_before_the_fit(study, n):
    with pytest.raises(mc.InputError, match="bootstrap must be 0"):
        analyse(replace(study, bootstrap=n))
