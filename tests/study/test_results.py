import json
import math
from dataclasses import replace

import jax
import numpy as np
import pytest

import motorcost as mc
from made import made_analysis, made_fit, made_profile, recorded
from motorcost.diagnostics import Bootstrap
from motorcost.report import compare_results, read_result, result_of, write_fit


def strict(text):
    """What strict JSON says; NaN and Infinity are not in it."""

    def refuse(token):
        raise ValueError(token)

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(scope="module")
def fit():
    return made_fit(["effort", "velocity"], recorded())


@pytest.mark.usefixtures("without_drawing")
def test_a_result_has_what_programs_need(fit, tmp_path):
    write_fit(made_analysis(fit), tmp_path)
    result = strict((tmp_path / "fit.json").read_text())
    assert result == read_result(tmp_path) == read_result(tmp_path / "fit.json")
    assert result["estimates"] == fit.estimates
    assert result["standard_errors"] == fit.standard_errors
    assert result["intervals"] == {name: list(ends) for name, ends in fit.interval().items()}
    assert result["log_likelihood"] == 100.0
    assert result["seed"] == 7
    assert result["data"] == {"files": [], "checksum": "0" * 64}
    assert result["device"] == jax.devices()[0].device_kind
    assert result["versions"]["jax"] == jax.__version__
    assert set(result["versions"]) == {"python", "motorcost", "jax", "numpy", "scipy"}
    assert result["checks"]["passed"] is True
    assert result["checks"]["channels"]["position"]["variance"] == 1.0
    assert result["checks"]["verdicts"][0] == "2 of 3 searches found this maximum."
    assert result["notes"] == ["a note"]


def test_profiles_and_bootstraps_are_in_natural_units(fit):
    profiles = [made_profile(fit, name) for name in fit.names]
    points = fit.point + np.array([[-1.0, 0.0], [1.0, 0.0]])
    again = Bootstrap(fit, "parametric", points, interrupted=False)
    result = result_of(made_analysis(fit, profiles=profiles, bootstrap=again))
    assert result["interval_method"] == "profile"
    np.testing.assert_allclose(result["intervals"]["effort"], np.exp(fit.point[0] + [-1, 1]))
    assert result["bootstrap"]["n"] == 2
    assert result["bootstrap"]["intervals"]["velocity"] == pytest.approx([0.1, 0.1])


def test_what_is_infinite_or_unknown_is_null():
    nothing_known = result_of(made_analysis(made_fit(["effort"], recorded(), information=0.0)))
    assert nothing_known["standard_errors"] == {"effort": None}
    assert nothing_known["intervals"] == {"effort": [1e-8, 0.01]}
    assert nothing_known["correlation"] == {"effort": {"effort": None}}
    interrupted = made_fit(["effort"], recorded(), np.nan, interrupted=True, log_likelihood=-np.inf)
    result = result_of(made_analysis(interrupted, interrupted=True))
    assert result["log_likelihood"] is result["aic"] is result["bic"] is None
    assert result["interrupted"] is True
    strict(json.dumps(result))


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"3", b"null", b"\xff\xfe", b"[" * 100_000, b"{}", b'{"format": 1}',
        b'{"format": 2}',
        *(json.dumps(result).encode() for result in (
            {"format": 1, "estimates": 1, "standard_errors": {}, "log_standard_errors": {},
             "log_likelihood": 1, "aic": 1, "bic": 1, "data": {"checksum": ""}},
            {"format": 1, "estimates": {"effort": "x"}, "standard_errors": {},
             "log_standard_errors": {}, "log_likelihood": 1, "aic": 1, "bic": 1,
             "data": {"checksum": ""}},
            {"format": 1, "estimates": {}, "standard_errors": {}, "log_standard_errors": {},
             "log_likelihood": 1, "aic": 1, "bic": 1, "data": {}},
            {"format": 1, "estimates": {}, "standard_errors": {}, "log_standard_errors": {},
             "log_likelihood": 1, "aic": "1", "bic": 1, "data": {"checksum": ""}},
        )),
    ],
)  # fmt: skip
def test_garbage_is_no_result(tmp_path, content):
    (tmp_path / "fit.json").write_bytes(content)
    with pytest.raises(mc.InputError, match=r"is not a fit\.json that this version can read"):
        read_result(tmp_path)


def test_a_folder_without_a_result_is_said(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(mc.InputError, match=r"needs a folder with fit\.json"):
            read_result(path)


def rows_of(**results):
    header, rows = compare_results(results)
    return header, {row[0]: row[1:] for row in rows}


def test_fits_of_the_same_data_are_compared_by_aic_and_bic(fit):
    small = made_fit(["effort"], recorded(), log_likelihood=90.0)
    full, reduced = result_of(made_analysis(fit)), result_of(made_analysis(small))
    header, rows = rows_of(large=full, small=reduced)
    assert header == ["", "large", "small"]
    assert rows["AIC - best"] == ["0", "18"]
    assert rows["BIC - best"] == ["0", f"{20 - math.log(3):.4g}"]
    assert rows["velocity"][1] == ""
    assert "effort, ratio" not in rows
    unfinished = reduced | {"aic": None, "bic": None, "log_likelihood": None}
    assert rows_of(large=full, small=unfinished)[1]["AIC - best"] == ["0", ""]
    assert rows_of(a=unfinished, b=unfinished)[1]["BIC - best"] == ["", ""]


def test_fits_of_different_data_are_compared_by_estimates(fit):
    young = result_of(made_analysis(fit))
    moved = replace(fit, point=fit.point + np.array([1.0, 0.0]))
    aged = result_of(made_analysis(moved, checksum="1" * 64))
    _, rows = rows_of(young=young, aged=aged)
    z = 1.0 / math.hypot(0.2, 0.2)
    assert rows["effort, ratio"] == ["1", f"{math.e:.3g} ({z:+.1f} standard errors apart)"]
    assert rows["velocity, ratio"] == ["1", "1 (+0.0 standard errors apart)"]
    assert "AIC - best" not in rows
    certain = aged | {"log_standard_errors": {"effort": 0.0}}
    _, rows = rows_of(a=certain, b=certain | {"data": {"checksum": "2"}})
    assert rows["effort, ratio"] == ["1", "1 (+nan standard errors apart)"]


def test_an_analysis_that_was_interrupted_after_its_search_has_estimates(fit):
    whole = result_of(made_analysis(fit))
    _, rows = rows_of(whole=whole, part=whole | {"interrupted": True})
    assert rows["search"] == ["settled, 2 of 3 searches agree"] * 2
    assert "?" not in rows["effort"][1]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"converged": False}, "did not settle"),
        ({"converged": False, "interrupted": True}, "was interrupted"),
    ],
)
def test_nothing_is_concluded_from_a_fit_that_did_not_settle(fit, changed, words):
    settled, other = result_of(made_analysis(fit)), result_of(made_analysis(fit)) | changed
    _, rows = compare_results({"a": settled, "b": other})
    table = {name: values for name, *values in rows}
    assert table["search"] == ["settled, 2 of 3 searches agree", words]
    assert table["AIC - best"] == ["0", ""]
    assert table["effort"][1].endswith("± ?")
    other["data"] = {"checksum": "1" * 64}
    _, rows = compare_results({"a": settled, "b": other})
    assert not [row for row in rows if "ratio" in row[0]]


def test_one_fit_alone_cannot_be_compared(fit):
    with pytest.raises(mc.InputError, match="needs two fits or more"):
        compare_results({"one": result_of(made_analysis(fit))})
