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

from motorcost.diagnostics import Channel
from motorcost.errors import InputError
from motorcost.study.analysis import THIS_MODEL, Analysis

FORMAT = 1
_VERSIONS = ("motorcost", "jax", "numpy", "scipy")


def result_of(analysis: Analysis) -> dict[str, Any]:
    """What was found, as plain numbers and text. Infinite and unknown numbers are None."""
    fit, study = analysis.fit, analysis.study
    result = {
        "format": FORMAT,
        "title": study.title,
        "task": study.task_name,
        "estimates": fit.estimates,
        "standard_errors": fit.standard_errors,
        "log_standard_errors": fit.log_standard_errors,
        "intervals": intervals_of(analysis),
        "interval_level": 0.95,
        "interval_method": "wald" if analysis.profiles is None else "profile",
        "correlation": {
            name: dict(zip(fit.names, row, strict=True))
            for name, row in zip(fit.names, fit.correlation.tolist(), strict=True)
        },
        "log_likelihood": fit.log_likelihood,
        "aic": fit.aic,
        "bic": fit.bic,
        "cross_validated_log_likelihood": _cross_validated(analysis),
        "n_trials": len(analysis.trials),
        "converged": fit.converged,
        "interrupted": analysis.interrupted,
        "starts": [
            {
                "log_likelihood": start.value,
                "evaluations": start.evaluations,
                "converged": start.converged,
                "parameters": {
                    name: float(it) for name, it in fit.objective.values(start.point).items()
                },
            }
            for start in fit.starts
        ],
        "starts_that_agree": fit.agreed,
        "checks": {
            "verdicts": fit.verdicts
            + ([] if analysis.adequacy is None else analysis.adequacy.verdicts),
            "passed": None if analysis.adequacy is None else analysis.adequacy.passed,
            "channels": {}
            if analysis.adequacy is None
            else {channel.name: _of_channel(channel) for channel in analysis.adequacy.channels},
        },
        "baselines": []
        if analysis.baselines is None
        else [vars(row) for row in analysis.baselines.rows],
        "bootstrap": None
        if analysis.bootstrap is None
        else {
            "n": len(analysis.bootstrap.points),
            "standard_errors": analysis.bootstrap.standard_errors,
            "intervals": {k: list(v) for k, v in analysis.bootstrap.interval().items()},
        },
        "settings": study.settings,
        "notes": list(analysis.notes),
        "seed": study.seed,
        "versions": {"python": python_version()} | {name: version(name) for name in _VERSIONS},
        "device": device_name(),
        "data": {"files": [file.name for file in study.files], "checksum": analysis.checksum},
    }
    return plain(result)


def device_name() -> str:
    """What JAX computes on: `cpu`, or the name of a GPU."""
    return jax.devices()[0].device_kind


def _cross_validated(analysis: Analysis) -> float | None:
    if analysis.baselines is None:
        return analysis.cross_validated
    return next(row.cross_validated for row in analysis.baselines.rows if row.name == THIS_MODEL)


def intervals_of(analysis: Analysis) -> dict[str, list[float]]:
    """95 % intervals: of profiles where there are any."""
    fit = analysis.fit
    if analysis.profiles is None:
        return {name: list(ends) for name, ends in fit.interval().items()}
    ends = {profile.name: profile.ends for profile in analysis.profiles}
    supports = {c.name: c.support for c in fit.objective.coordinates}
    return {name: list(supports[name].natural(ends[name])) for name in fit.names}


def _of_channel(channel: Channel) -> dict[str, Any]:
    return {name: value for name, value in vars(channel).items() if name != "name"}


def plain(value: Any) -> Any:
    """As JSON can hold it."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value if value is None else str(value)


def read_result(path: Path) -> dict[str, Any]:
    """The result in a folder, or in a `fit.json` itself."""
    file = path / "fit.json" if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"{path}: needs a folder with fit.json, as motorcost fit -o writes")
    try:
        result = json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError):
        result = None
    if not _is_result(result):
        raise InputError(f"{file}: is no fit.json that this version can read")
    return result


def _is_result(result: Any) -> bool:
    if not (isinstance(result, dict) and result.get("format") == FORMAT):
        return False
    named = ("estimates", "standard_errors", "log_standard_errors")
    if not all(isinstance(result.get(key), dict) for key in (*named, "data")):
        return False
    numbers = [each for key in named for each in result[key].values()]
    numbers += [result.get(key, "") for key in ("log_likelihood", "aic", "bic")]
    return "checksum" in result["data"] and all(
        each is None or isinstance(each, (int, float)) for each in numbers
    )


def compare_results(results: Mapping[str, dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """A table of several results: header and rows. Estimates with standard errors; and, where all
    are of the same data, how far each is from the best by AIC and BIC."""
    if len(results) < 2:
        raise InputError("a comparison needs two fits or more")
    same = len({result["data"]["checksum"] for result in results.values()}) == 1
    header = ["", *results]
    rows = [["task", *[str(result.get("task", "")) for result in results.values()]]]
    names = list(dict.fromkeys(name for each in results.values() for name in each["estimates"]))
    rows += [[name, *[_estimate(result, name) for result in results.values()]] for name in names]
    rows.append(["trials", *[str(result.get("n_trials", "")) for result in results.values()]])
    rows.append(["log likelihood", *[_number(r["log_likelihood"]) for r in results.values()]])
    for key in ("aic", "bic") if same else ():
        known = [result[key] for result in results.values() if result[key] is not None]
        row = [
            "" if result[key] is None else f"{result[key] - min(known):.4g}"
            for result in results.values()
        ]
        rows.append([f"{key.upper()} - best", *row])
    if len(results) == 2 and not same:
        one, two = results.values()
        rows += _differences(one, two, names)
    return header, rows


def _differences(one: dict[str, Any], two: dict[str, Any], names: Sequence[str]) -> list[list[str]]:
    """By how many standard errors two independent estimates differ, on a log scale."""
    rows = []
    for name in names:
        logs = [r.get("log_standard_errors", {}).get(name) for r in (one, two)]
        values = [r["estimates"].get(name) for r in (one, two)]
        if any(each is None for each in (*logs, *values)) or min(values) <= 0:
            continue
        ratio = values[1] / values[0]
        apart = math.hypot(*logs)
        z = math.log(ratio) / apart if apart else math.nan
        rows.append([f"{name}, ratio", "1", f"{ratio:.3g} ({z:+.1f} standard errors apart)"])
    return rows


def _estimate(result: dict[str, Any], name: str) -> str:
    value, error = result["estimates"].get(name), result["standard_errors"].get(name)
    if value is None:
        return ""
    return f"{value:.4g} ± " + ("?" if error is None else f"{error:.2g}")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
