import json
import zipfile
from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import motorcost as mc
from made import made_fit, recorded
from motorcost.diagnostics.comparison import Row
from motorcost.io.fits import FORMAT
from motorcost.io.functions import task_record
from motorcost.report import read_result

KEY = jax.random.key(0)
# The command line's name for a person whom a page must not run.
EVIL = "<script>alert('x')</script>"


def own_task(effort=1e-5, steps=8, dt=0.01):
    return mc.tasks.reaching(effort=effort, steps=steps, dt=dt)


def own_observer(problem):
    return mc.observe(problem, ["position"], noise=2e-3)


@pytest.fixture(scope="module")
def fit():
    """A real fit, small, of the size of those of the studies and of the command line."""
    problem = mc.tasks.reaching(effort=1e-5, steps=8, dt=0.03, target=0.05)
    camera = mc.ObserverSpec(["position"], noise=1e-3)
    trials = mc.simulate(
        problem, mc.solve(problem), n_trials=14, key=KEY, observer=camera(problem)
    ).with_conditions(target=0.05)
    return mc.fit(
        mc.tasks.reaching, trials, ["effort"], observer=camera, n_starts=5, key=jax.random.key(1)
    )


@pytest.fixture(scope="module")
def grouped():
    free = {
        "effort": mc.LogUniform(1e-8, 1e-2, per="subject"),
        "tau": mc.Normal(0.04, 0.01),
        "recording_noise": mc.LogUniform(1e-5, 1e-1),
    }
    trials = recorded((8, 6, 8), subjects=["anna", "bo", "anna"], targets=[0.1, 0.2, 0.1])
    return made_fit(free, trials, notes=("position was converted from mm to m",))


def assert_same(one, two):
    """Two fits with the same numbers, which know the same about the same trials."""
    assert one.estimates == two.estimates
    assert_array_equal(one.covariance, two.covariance)
    assert one.standard_errors == two.standard_errors
    assert one.interval(0.9) == two.interval(0.9)
    assert one.log_likelihood == two.log_likelihood
    assert (one.method, one.priors, one.notes) == (two.method, two.priors, two.notes)
    assert (one.converged, one.interrupted) == (two.converged, two.interrupted)
    assert one.summary() == two.summary()
    assert [start.value for start in one.starts] == [start.value for start in two.starts]
    assert_array_equal(one.trials.observed, two.trials.observed)
    assert_array_equal(one.trials.times, two.trials.times)
    assert_array_equal(one.trials.lengths, two.trials.lengths)
    assert one.trials.channel_units == two.trials.channel_units
    assert list(one.trials.conditions) == list(two.trials.conditions)
    for name, values in one.trials.conditions.items():
        assert_array_equal(values, two.trials.conditions[name])


def test_a_saved_fit_is_the_same_fit(fit, tmp_path):
    file = tmp_path / "fit.npz"
    fit.save(file)
    again = mc.load(file)
    assert_same(again, fit)
    assert [path.name for path in tmp_path.iterdir()] == ["fit.npz"]
    one, two = fit.beliefs(), again.beliefs()
    assert_array_equal(one.mean, two.mean)
    assert_array_equal(one.innovations, two.innovations)
    likelihood = mc.log_likelihood(again.at, again.trials)
    assert_allclose(float(likelihood), fit.log_likelihood, rtol=1e-9)


def test_groups_priors_and_recording_noise_are_saved(grouped, tmp_path):
    grouped.save(str(tmp_path / "fit.npz"))
    again = mc.load(str(tmp_path / "fit.npz"))
    assert_same(again, grouped)
    assert again.conditions["subject"].tolist() == ["anna", "bo", "anna"]
    assert again.objective.supports == grouped.objective.supports


def test_known_starts_and_unknown_numbers_are_saved(tmp_path):
    trials = recorded()
    trials = mc.Trials.recorded(
        trials.observed, dt=0.01, channels={"position": "m"}, starts=np.full((3, 5), 0.01)
    )
    fit = made_fit(["effort"], trials, information=np.nan, interrupted=True)
    fit.save(tmp_path / "fit.npz")
    again = mc.load(tmp_path / "fit.npz")
    assert_array_equal(again.trials.starts, fit.trials.starts)
    assert again.interrupted
    assert np.isnan(again.standard_errors["effort"])


def test_a_random_problem_is_drawn_again(tmp_path):
    task = mc.tasks.random_problem(jax.random.key(3), senses=2, start_spread=0.1)
    problem = task()
    trials = mc.Trials.recorded(np.zeros((1, 4, 1)), dt=1.0, channels=["state_1"])
    fit = made_fit(["effort_1"], trials, task=task)
    fit.save(tmp_path / "fit.npz")
    again = mc.load(tmp_path / "fit.npz").objective.task()
    for name in ("A", "H", "W", "D", "initial_belief_cov"):
        assert_array_equal(getattr(again, name), getattr(problem, name))
    wrapped = mc.baselines.without_signal_noise(task)
    assert "random_problem" not in task_record(wrapped)


def test_functions_of_a_module_are_stored_by_name(tmp_path):
    free = {"effort": mc.LogUniform(1e-8, 1e-2)}
    fit = made_fit(free, recorded(), task=own_task, observer=own_observer)
    fit.save(tmp_path / "fit.npz")
    again = mc.load(tmp_path / "fit.npz")
    assert again.objective.task is own_task
    assert again.objective.observer is own_observer


@pytest.mark.parametrize(
    "task",
    [
        lambda effort=1e-5, steps=8, dt=0.01: own_task(effort, steps, dt),
        partial(own_task),
        mc.baselines.without_signal_noise(own_task),
    ],
    ids=["a lambda", "a partial function", "a wrapped task"],
)
def test_a_task_that_cannot_be_stored_is_asked_for(tmp_path, task):
    free = {"effort": mc.LogUniform(1e-8, 1e-2)}
    fit = made_fit(free, recorded(), task=task, observer=lambda problem: own_observer(problem))
    fit.save(tmp_path / "fit.npz")
    with pytest.raises(mc.InputError, match=r"fit\.npz: the task .* is not in the file: pass it"):
        mc.load(tmp_path / "fit.npz")
    with pytest.raises(mc.InputError, match=r"the observer <lambda> is not in the file.*observer="):
        mc.load(tmp_path / "fit.npz", task=task)
    assert_same(mc.load(tmp_path / "fit.npz", task=task, observer=own_observer), fit)


def test_another_task_than_the_saved_one_is_said(fit, tmp_path):
    fit.save(tmp_path / "fit.npz")
    with pytest.raises(mc.InputError, match="unknown parameter 'effort'"):
        mc.load(tmp_path / "fit.npz", task=lambda force=1.0, steps=8, dt=0.01: None)


def rewritten(file, change):
    """The same archive with a changed header."""
    with np.load(file) as archive:
        arrays = dict(archive)
    header = json.loads(arrays["header"].tobytes())
    change(header)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(file, **arrays)


def test_files_that_are_no_fits_are_refused_in_one_line(fit, tmp_path):
    file = tmp_path / "fit.npz"
    with pytest.raises(mc.InputError, match=r"fit\.npz: there is no such file"):
        mc.load(file)
    fit.save(file)
    whole = file.read_bytes()
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.save(tmp_path / "array.npy", np.zeros(3))
    others = [(tmp_path / name).read_bytes() for name in ("other.npz", "array.npy")]
    for content in (b"", b"{}", b"[1, 2]", whole[:100], whole[:-30], whole[50:], *others):
        file.write_bytes(content)
        with pytest.raises(mc.InputError, match=r"fit\.npz: is not a file that Fit\.save wrote"):
            mc.load(file)
    for change in (
        lambda header: header.update(kind="something else"),
        lambda header: header.pop("free"),
        lambda header: header["fit"].update(unheard_of=1),
        lambda header: header["fit"].update(point={"array": [1.0, 2.0], "shape": [2]}),
        lambda header: header.update(free={"effort": {"low": 1}}),
        lambda header: header.update(names=["velocity"]),
    ):
        file.write_bytes(whole)
        rewritten(file, change)
        with pytest.raises(mc.InputError, match=r"fit\.npz: is not a file that Fit\.save wrote"):
            mc.load(file)
    file.write_bytes(whole)
    rewritten(file, lambda header: header.update(format=FORMAT + 1))
    with pytest.raises(mc.InputError, match=rf"newer version .* \(format {FORMAT + 1}\)"):
        mc.load(file)


def test_a_file_names_no_function_that_is_not_a_task(fit, tmp_path):
    file = tmp_path / "fit.npz"
    fit.save(file)
    rewritten(file, lambda header: header.update(task={"name": "run", "function": "shutil:rmtree"}))
    with pytest.raises(mc.InputError, match="shutil:rmtree is no task any more"):
        mc.load(file)
    rewritten(file, lambda header: header.update(task={"name": "x", "function": "no_module:x"}))
    with pytest.raises(mc.InputError, match="no_module:x cannot be imported"):
        mc.load(file)


def test_a_saved_file_holds_text_and_arrays_only(grouped, tmp_path):
    grouped.save(tmp_path / "fit.npz")
    with zipfile.ZipFile(tmp_path / "fit.npz") as archive:
        assert {name.rsplit(".")[-1] for name in archive.namelist()} == {"npy"}
    with np.load(tmp_path / "fit.npz", allow_pickle=False) as archive:
        header = json.loads(archive["header"].tobytes())
    assert header["task"] == {"name": "reaching", "built_in": "reaching"}
    assert header["versions"]["motorcost"] == mc.__version__


def test_a_file_that_cannot_be_written_is_said(fit, tmp_path):
    with pytest.raises(mc.InputError, match="does not exist"):
        fit.save(tmp_path / "none" / "fit.npz")


def test_a_table_has_a_row_per_parameter(grouped):
    frame = grouped.to_frame(level=0.9)
    assert frame.index.tolist() == list(grouped.names)
    assert frame.index.name == "parameter"
    assert frame["estimate"].to_dict() == grouped.estimates
    assert frame["standard_error"].to_dict() == grouped.standard_errors
    assert frame.loc["effort[bo]", "low"] == grouped.interval(0.9)["effort[bo]"][0]
    assert frame["unit"].tolist() == ["m²/N²", "m²/N²", "s", "m"]
    assert_allclose(frame.loc["effort[anna]", "log_standard_error"], 0.2)
    assert np.isnan(frame.loc["tau", "log_standard_error"])
    assert not frame["at_bound"].any()
    low = grouped.objective.bounds[0, 0]
    # Of a search that did not settle, there are no intervals to compute.
    moved = replace(grouped, point=np.array([low, *grouped.point[1:]]), converged=False)
    assert moved.to_frame()["at_bound"].tolist() == [True, False, False, False]


def test_a_notebook_shows_a_fit_as_a_table():
    trials = recorded((8,) * 2, subjects=[EVIL, "bo"])
    free = {"effort": mc.LogUniform(1e-8, 1e-2, per="subject")}
    html = made_fit(free, trials, notes=(f"a note on {EVIL}",))._repr_html_()
    assert EVIL not in html
    assert html.count("&lt;script&gt;") == 2
    for shown in ("<table>", "m²/N²", "95 % interval", "2 of 3 searches found this maximum."):
        assert shown in html


def test_a_notebook_shows_a_comparison_as_a_table():
    rows = (Row(EVIL, 2, 10.0, -16.0, -15.0, None), Row("plain", 1, 8.0, -14.0, -13.5, 7.5))
    html = mc.Comparison(rows)._repr_html_()
    assert EVIL not in html
    assert "<td>1.5</td><td>7.5</td>" in html


def test_notes_are_in_the_summary(grouped):
    assert "Note: position was converted from mm to m" in grouped.summary()


def test_predictions_are_like_the_first_trial(fit):
    predicted = fit.predict(n_trials=3, key=KEY)
    assert predicted.observed.shape == (3, 8, 1)
    assert predicted.channel_names == ("position",)
    assert predicted.conditions["target"].tolist() == [0.05] * 3
    problem, observer = fit.at(steps=8, target=0.05)
    same = mc.simulate(problem, mc.solve(problem), n_trials=3, key=KEY, observer=observer)
    assert_array_equal(predicted.observed, same.observed)


def test_predictions_take_conditions_and_groups(grouped):
    predicted = grouped.predict(n_trials=2, key=KEY, subject="bo")
    assert predicted.observed.shape == (2, 6, 1)  # as bo's trial is
    assert predicted.conditions["target"].tolist() == [0.2] * 2
    assert predicted.conditions["subject"].tolist() == ["bo"] * 2
    further = grouped.predict(n_trials=1, key=KEY, steps=6, target=0.3)
    assert further.states.shape == (1, 6, 5)
    assert float(further.states[0, 0, 4]) == 0.3
    other = replace(grouped, point=grouped.point + np.array([0.0, 2.0, 0.0, 0.0]))
    assert_array_equal(other.predict(n_trials=1, key=KEY).observed[:, :, 0],
                       grouped.predict(n_trials=1, key=KEY).observed[:, :, 0])  # fmt: skip
    assert not np.array_equal(other.predict(n_trials=2, key=KEY, subject="bo").observed,
                              predicted.observed)  # fmt: skip


def test_predictions_start_where_the_trials_did():
    starts = np.tile([0.02, 0, 0, 0, 0.1], (3, 1))
    trials = mc.Trials.recorded(
        recorded().observed,
        dt=0.01,
        channels=["position"],
        starts=starts,
        conditions={"target": 0.1},
    )
    fit = made_fit(["effort"], trials)
    assert float(fit.predict(n_trials=1, key=KEY).states[0, 0, 0]) == 0.02
    assert float(fit.predict(n_trials=1, key=KEY, target=0.2).states[0, 0, 0]) == 0.0


def test_what_cannot_be_predicted_is_said(grouped):
    for conditions, words in (
        ({"effort": 1e-5}, "effort cannot be a condition of a prediction: it was inferred"),
        ({"dt": 0.02}, "dt cannot be a condition of a prediction: it was fixed at 0.01"),
        ({"subject": "carl"}, "no fitted trial has the subject 'carl'; there are: anna, bo"),
        ({"tarjet": 0.1}, "unknown condition 'tarjet': did you mean target"),
        ({"target": [0.1, 0.2]}, "must be one value for all its trials"),
    ):
        with pytest.raises(mc.InputError, match=words):
            grouped.predict(n_trials=1, key=KEY, **conditions)


@pytest.mark.usefixtures("without_drawing")
def test_any_fit_has_a_report(fit, tmp_path):
    page = fit.report(tmp_path / "all", title="Mine", truth={"effort": 1e-5}).read_text("utf-8")
    assert (tmp_path / "all" / "figures" / "profiles.png").is_file()
    for shown in ("<h1>Mine</h1>", "What 14 trials say", "Does the model fit?", "A slice holds"):
        assert shown in page
    result = read_result(tmp_path / "all")
    assert result["estimates"] == fit.estimates
    assert result["interval_method"] == "profile"
    quick = fit.report(str(tmp_path / "quick"), checks=False, profiles=False).read_text("utf-8")
    assert "Does the model fit?" not in quick
    assert "A fit of the task reaching" in quick
    assert read_result(tmp_path / "quick")["data"] == result["data"]
    with pytest.raises(mc.InputError, match="does not exist"):
        fit.report(tmp_path / "none" / "fit")


def test_an_interrupted_fit_has_a_report(tmp_path):
    fit = made_fit(["effort"], recorded(), information=np.nan, interrupted=True)
    assert "The search was interrupted" in fit.report(tmp_path / "fit").read_text("utf-8")
    assert read_result(tmp_path / "fit")["interrupted"] is True


def test_a_fit_with_an_observer_of_its_own_has_a_report(tmp_path):
    free = {"effort": mc.LogUniform(1e-8, 1e-2)}
    fit = made_fit(free, recorded(), task=own_task, observer=own_observer)
    page = fit.report(tmp_path / "fit", checks=False, profiles=False).read_text("utf-8")
    assert "recorded: position; noise own_observer" in page
