"""`fit.json`: what a fit found, for other programs, and comparisons of several."""

import json
import math
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

import jax
import numpy as np

from motorcost.diagnostics import Bootstrap, Channel, Plausibility
from motorcost.diagnostics.courses import CourseComparison
from motorcost.errors import InputError
from motorcost.fitting.fitted import Fit
from motorcost.fitting.optimise import Found
from motorcost.io.files import printable
from motorcost.study.analysis import THIS_MODEL, Analysis

# The file of a result, and the folder of a complete result whose files are not all in place yet
# (see `study.folder`).
RESULT = "fit.json"
NEXT = ".next"
# The version of what is in the file, which `study.result_schema` declares. Format 1 had no `files`.
FORMAT = 2
READABLE = (1, 2)
# The confidence level of the intervals in a result.
LEVEL = 0.95
_VERSIONS = ("motorcost", "jax", "numpy", "scipy")


def result_of(analysis: Analysis) -> dict[str, Any]:
    """Return what was found, as plain numbers and text. Infinite and unknown numbers are None."""
    fit, study = analysis.fit, analysis.study
    result = {
        "format": FORMAT,
        "title": study.title,
        "task": study.task_name,
        **_estimates(analysis),
        "log_likelihood": fit.log_likelihood,
        "aic": fit.aic,
        "bic": fit.bic,
        "cross_validated_log_likelihood": _cross_validated(analysis),
        "n_trials": len(analysis.trials),
        "converged": fit.converged,
        "interrupted": analysis.interrupted,
        "starts": [_start(fit, start) for start in fit.starts],
        "starts_that_agree": fit.agreed,
        "maxima": [
            {"estimates": m.estimates, "below": m.below, "searches": m.searches}
            for m in (() if fit.interrupted else fit.maxima)
        ],
        "lead": fit.trials.lead,
        "leads": [vars(found) for found in fit.leads],
        "delays": [vars(found) for found in fit.delays],
        "cuts": [vars(found) for found in analysis.cuts],
        "checks": _checks(analysis),
        "variability": [vars(part) for part in analysis.variability or ()],
        "plausibility": _plausibility(analysis.plausibility),
        "baselines": []
        if analysis.baselines is None
        else [vars(row) for row in analysis.baselines.rows],
        "bootstrap": None if analysis.bootstrap is None else _bootstrap(analysis.bootstrap),
        "settings": study.settings,
        "preparation": [vars(record) for record in analysis.preparation],
        "warnings": list(analysis.warnings),
        "notes": notes_of(analysis),
        "seed": study.seed,
        "versions": {"python": python_version()} | {name: version(name) for name in _VERSIONS},
        "device": device_name(),
        "data": {"files": [file.name for file in study.files], "checksum": analysis.checksum},
    }
    return plain(result)


def _estimates(analysis: Analysis) -> dict[str, Any]:
    """Estimates and their errors; without a maximum, errors and intervals are unknown."""
    fit = analysis.fit
    unknown = dict.fromkeys(fit.names, math.nan)
    settled = fit.converged
    intervals = {name: list(ends) for name, ends in intervals_of(analysis).items()}
    return {
        "estimates": fit.estimates,
        "standard_errors": fit.standard_errors if settled else unknown,
        "log_standard_errors": fit.log_standard_errors if settled else unknown,
        "intervals": intervals if settled else dict.fromkeys(fit.names, [math.nan] * 2),
        "interval_level": LEVEL,
        "interval_method": "wald" if analysis.profiles is None else "profile",
        "correlation": {
            name: dict(zip(fit.names, row if settled else [math.nan] * len(row), strict=True))
            for name, row in zip(fit.names, fit.correlation.tolist(), strict=True)
        },
    }


def _start(fit: Fit, start: Found) -> dict[str, Any]:
    values = fit.objective.values(start.point)
    return {
        "log_likelihood": start.value,
        "evaluations": start.evaluations,
        "converged": start.converged,
        "parameters": {name: float(value) for name, value in values.items()},
    }


def _checks(analysis: Analysis) -> dict[str, Any]:
    adequacy = analysis.adequacy
    if adequacy is None:
        return {"verdicts": analysis.fit.verdicts, "passed": None, "channels": {}}
    return {
        "verdicts": analysis.fit.verdicts + adequacy.verdicts,
        "passed": adequacy.passed if adequacy.settled else None,
        "channels": {channel.name: _of_channel(channel) for channel in adequacy.channels},
        "phases": [vars(phase) for phase in adequacy.phases],
        "groups": {
            label: [vars(part) for part in parts] for label, parts in adequacy.groups.items()
        },
        "worst_trials": [vars(trial) for trial in adequacy.worst],
        "outlying_trials": adequacy.outlying,
    }


def _plausibility(found: Plausibility | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "sentences": found.sentences,
        "warnings": found.warnings,
        "expected_cost": found.cost,
        "cost_of_not_moving": found.idle_cost,
        "shares_of_cost": found.shares,
        "motor_noise": found.motor_noise,
        "channels": {channel.name: _of_channel(channel) for channel in found.channels},
    }


def _bootstrap(bootstrap: Bootstrap) -> dict[str, Any]:
    return {
        "n": len(bootstrap.points),
        "unsettled": bootstrap.unsettled,
        "standard_errors": bootstrap.standard_errors,
        "intervals": {name: list(ends) for name, ends in bootstrap.interval().items()},
    }


def notes_of(analysis: Analysis) -> list[str]:
    """Return what was done to the data and assumed by the fit, each note once."""
    return list(dict.fromkeys([*analysis.notes, *analysis.fit.notes]))


def device_name() -> str:
    """Return what JAX computes on: `cpu`, or the name of a GPU."""
    return jax.devices()[0].device_kind


def _cross_validated(analysis: Analysis) -> float | None:
    if analysis.baselines is None:
        return analysis.cross_validated
    return next(row.cross_validated for row in analysis.baselines.rows if row.name == THIS_MODEL)


def intervals_of(analysis: Analysis) -> dict[str, tuple[float, float]]:
    """Return 95 % intervals by name, in natural units: of profiles where there are any."""
    fit = analysis.fit
    if analysis.profiles is None:
        return fit.interval(LEVEL)
    ends = {profile.name: profile.ends for profile in analysis.profiles}
    supports = {c.name: c.support for c in fit.objective.coordinates}
    return {name: supports[name].natural(ends[name]) for name in fit.names}


def intervals_in_words(analysis: Analysis) -> str:
    """Return which kind `intervals_of` are, in a sentence."""
    if analysis.profiles is None:
        return (
            "Intervals are from standard errors, which allow for a model that is not quite right."
        )
    return (
        "Intervals are from profile likelihoods, which allow for a model that is not quite right "
        "as standard errors do."
    )


def _of_channel(channel: Channel | CourseComparison) -> dict[str, Any]:
    return {name: value for name, value in vars(channel).items() if name != "name"}


def plain(value: Any) -> Any:
    """Return a value as strict JSON can hold it; infinite and unknown numbers become None."""
    if isinstance(value, Mapping):
        return {printable(key): plain(content) for key, content in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value if value is None else printable(value)


def read_result(path: Path) -> dict[str, Any]:
    """Return the result in a folder, or in a `fit.json` itself."""
    file = path / RESULT if path.is_dir() else path
    if path.is_dir() and (path / NEXT / RESULT).is_file():
        file = path / NEXT / RESULT
    if not file.is_file():
        raise InputError(
            f"{path}: needs a folder with fit.json, as motorcost fit -o and Fit.report write"
        )
    try:
        result = json.loads(file.read_text("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise _unreadable(file, "it is not JSON") from None
    number = result.get("format") if isinstance(result, dict) else None
    if isinstance(number, int) and number > FORMAT:
        raise InputError(
            f"{file}: was written by a newer motorcost (format {str(number)[:9]}); this version "
            f"reads formats {READABLE[0]} to {FORMAT}"
        )
    if number not in READABLE or isinstance(number, bool):
        raise _unreadable(file, "it has no format number")
    from motorcost.study.result_schema import damage_in  # loads pydantic

    if damage := damage_in(result):
        raise _unreadable(file, damage)
    return result


def _unreadable(file: Path, why: str) -> InputError:
    return InputError(
        f"{file}: is not a fit.json that this version can read: {why}. Delete it, or choose "
        "another folder"
    )


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not in JSON")


def compare_results(results: Mapping[str, dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return a table of several results by name: its header and its rows.

    It has the estimates with standard errors, and whether the searches settled. Where all results
    are of the same data, it also says how far each is from the best by AIC and BIC; of two results
    of different data, how far their estimates differ. A fit that did not settle has no standard
    errors, and nothing is concluded from its log likelihood.
    """
    if len(results) < 2:
        raise InputError("a comparison needs two fits or more")
    found = list(results.values())
    same_data = len({result["data"]["checksum"] for result in found}) == 1
    names = list(dict.fromkeys(name for result in found for name in result["estimates"]))
    rows = [["task", *[str(result.get("task", "")) for result in found]]]
    rows += [[name, *[_estimate(result, name) for result in found]] for name in names]
    rows.append(["trials", *[str(result.get("n_trials", "")) for result in found]])
    rows.append(["search", *[_standing(result) for result in found]])
    rows.append(["log likelihood", *[_number(result["log_likelihood"]) for result in found]])
    for key in ("aic", "bic") if same_data else ():
        values = [result[key] if _settled(result) else None for result in found]
        rows.append([f"{key.upper()} - best", *_above_best(values)])
    if len(results) == 2 and not same_data and all(map(_settled, found)):
        rows += _differences(found[0], found[1], names)
    return ["", *results], rows


def _settled(result: dict[str, Any]) -> bool:
    return bool(result.get("converged", True))


def _standing(result: dict[str, Any]) -> str:
    """How the searches of a fit ended, in words."""
    if not _settled(result):
        return "was interrupted" if result.get("interrupted", False) else "did not settle"
    starts, agree = len(result.get("starts", ())), result.get("starts_that_agree")
    return f"settled, {agree} of {starts} searches agree" if starts else "settled"


def _above_best(values: Sequence[float | None]) -> list[str]:
    """How far each value is above the smallest, as text; empty where it is unknown."""
    best = min((value for value in values if value is not None), default=math.nan)
    return ["" if value is None else f"{value - best:.4g}" for value in values]


def _differences(
    first: dict[str, Any], second: dict[str, Any], names: Sequence[str]
) -> list[list[str]]:
    """By how many standard errors two independent estimates differ, on a log scale."""
    rows = []
    for name in names:
        errors = [result["log_standard_errors"].get(name) for result in (first, second)]
        values = [result["estimates"].get(name) for result in (first, second)]
        if any(value is None for value in (*errors, *values)) or min(values) <= 0:
            continue
        ratio = values[1] / values[0]
        error = math.hypot(*errors)
        z = math.log(ratio) / error if error else math.nan
        rows.append([f"{name}, ratio", "1", f"{ratio:.3g} ({z:+.1f} standard errors apart)"])
    return rows


def _estimate(result: dict[str, Any], name: str) -> str:
    value, error = result["estimates"].get(name), result["standard_errors"].get(name)
    if value is None:
        return ""
    return f"{value:.4g} ± " + ("?" if error is None or not _settled(result) else f"{error:.2g}")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
