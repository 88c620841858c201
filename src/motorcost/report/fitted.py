"""The report of a fit."""

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

from motorcost import tasks
from motorcost.fitting.engine import AGREEMENT
from motorcost.io import written_whole
from motorcost.plots import (
    plot_beliefs,
    plot_estimates,
    plot_innovations,
    plot_predictions,
    plot_profiles,
    plot_starts,
)
from motorcost.report.page import Picture, Points, Section, Table, write_report
from motorcost.study.analysis import Analysis
from motorcost.study.result import device_name, intervals_of, result_of

_BELIEFS_SHOWN = 3


def write_fit(analysis: Analysis, folder: Path, truth: Mapping[str, float] | None = None) -> Path:
    """Write `fit.json`, `report.html` and `figures/` into a folder, and return the report's path.

    `truth` are the true parameters, where the data were simulated.
    """
    folder.mkdir(exist_ok=True)
    with written_whole(folder / "fit.json") as draft:
        draft.write_text(json.dumps(result_of(analysis), indent=2, allow_nan=False) + "\n", "utf-8")
    sections = list(fit_sections(analysis, truth))
    figures = folder / "figures"
    figures.mkdir(exist_ok=True)
    for section in sections:
        for item in section.content:
            if isinstance(item, Picture) and item.name:
                with written_whole(figures / f"{item.name}.png") as draft:
                    draft.write_bytes(item.png)
    title = analysis.study.title or f"A fit of the task {analysis.study.task_name}"
    write_report(folder / "report.html", title, _lead(analysis), sections)
    return folder / "report.html"


def _lead(analysis: Analysis) -> str:
    fit, n = analysis.fit, len(analysis.trials)
    what = ", ".join(fit.names)
    files = ", ".join(file.name for file in analysis.study.files)
    start = f"What {n} trials from {files} say about {what} of the task {analysis.study.task_name}."
    if fit.interrupted:
        return start + " The search was interrupted: this is the best point so far."
    problems = (
        not fit.converged
        or bool(fit.at_bounds)
        or fit.agreed < 2 <= len(fit.starts)
        or any(direction.verdict == "open" for direction in fit.directions)
    )
    verdict = (
        "The estimates need care: see below."
        if problems
        else f"The search settled, and {fit.agreed} of {len(fit.starts)} starts agree."
    )
    if analysis.adequacy is not None:
        verdict += (
            " The model misses nothing large in the data."
            if analysis.adequacy.passed
            else " The model does not explain everything in the data: see the checks."
        )
    return f"{start} {verdict}"


def fit_sections(analysis: Analysis, truth: Mapping[str, float] | None = None) -> Iterator[Section]:
    """The sections of the report."""
    yield _estimates(analysis, truth)
    yield from _data_and_model(analysis)
    yield from _likelihood(analysis, truth)
    yield from _checks(analysis)
    yield from _beliefs(analysis)
    yield from _baselines(analysis)
    yield _searches(analysis)
    yield _reproduction(analysis)


def _estimates(analysis: Analysis, truth: Mapping[str, float] | None) -> Section:
    fit = analysis.fit
    declared = (
        tasks.parameters(fit.objective.task) if hasattr(fit.objective.task, "parameters") else {}
    )
    errors, logs = fit.standard_errors, fit.log_standard_errors
    intervals = intervals_of(analysis)
    header = ["parameter", "estimate", "unit", "standard error", "relative", "95 % interval"]
    header += ["truth"] if truth else []
    rows = []
    for coordinate in fit.objective.coordinates:
        name = coordinate.name
        parameter = declared.get(coordinate.parameter)
        row = [
            name,
            f"{fit.estimates[name]:.4g}",
            parameter.unit if parameter is not None else "",
            _or_open(errors[name], ".2g"),
            _or_open(100 * logs[name], ".3g") + " %" if name in logs else "",
            f"{_or_open(intervals[name][0], '.4g')} to {_or_open(intervals[name][1], '.4g')}",
        ]
        rows.append([*row, f"{truth[name]:.4g}" if truth and name in truth else ""][: len(header)])
    about = [
        f"{name}: {parameter.about}."
        for name in dict.fromkeys(c.parameter for c in fit.objective.coordinates)
        if (parameter := declared.get(name)) is not None
    ]
    how = (
        "from the curvature of the log likelihood on a logarithmic scale"
        if analysis.profiles is None
        else "from profile likelihoods"
    )
    content: list[Table | Picture | Points] = [Table(header, rows)]
    if not fit.interrupted:
        content.append(
            Picture(
                plot_estimates(fit, {k: (v[0], v[1]) for k, v in intervals.items()}, truth),
                "each estimate as a dot with its interval as a bar, within its support",
                "estimates",
            )
        )
        correlated = _correlations(analysis)
        content += [correlated] if correlated is not None else []
    content.append(Points([*fit.verdicts, *about]))
    return Section(
        "Estimates",
        f"The values under which the trials are most probable. Intervals are {how}; ∞ and 0 mean "
        "that the data do not bound the parameter there.",
        content,
    )


def _or_open(value: float, form: str) -> str:
    if value != value:
        return "?"
    return "∞" if value == float("inf") else f"{value:{form}}"


def _correlations(analysis: Analysis) -> Table | None:
    fit = analysis.fit
    if not 2 <= len(fit.names) <= 12:
        return None
    rows = [
        [name, *["" if each != each else f"{each:+.2f}" for each in row]]
        for name, row in zip(fit.names, fit.correlation.tolist(), strict=True)
    ]
    return Table(["correlation of estimates", *fit.names], rows)


def _data_and_model(analysis: Analysis) -> Iterator[Section]:
    if analysis.adequacy is None:
        return
    yield Section(
        "Data and model",
        "The recorded trials, and what the fitted model does when it is simulated in the same "
        "conditions: its mean and the middle 95 % of its trials.",
        [
            Picture(
                plot_predictions(analysis.fit, analysis.adequacy),
                "recorded trials and their mean, with the mean and the 95 % band of the model",
                "data-and-model",
            )
        ],
    )


def _likelihood(analysis: Analysis, truth: Mapping[str, float] | None) -> Iterator[Section]:
    if not analysis.profiles:
        return
    yield Section(
        "How sharply the data speak",
        "The log likelihood on either side of each estimate. A slice holds the other parameters "
        "where they are; a profile lets them do their best, so it is flatter. Where it stays "
        "above the dashed line, the data do not object.",
        [
            Picture(
                plot_profiles(analysis.fit, analysis.profiles, analysis.slices, truth),
                "profile and slice of the log likelihood for each parameter",
                "profiles",
            ),
            Points(
                [
                    f"The profile of {each.name} came upon a point that is more probable than the "
                    f"estimates, by {each.gain:.2g} in log likelihood: fit with more starts."
                    for each in analysis.profiles
                    if each.gain > AGREEMENT
                ]
            ),
        ],
    )


def _checks(analysis: Analysis) -> Iterator[Section]:
    adequacy = analysis.adequacy
    if adequacy is None:
        return
    header = ("channel", "innovations", "mean", "variance", "kurtosis", "lag", "within 95 %")
    rows = [
        (
            c.name,
            str(c.n),
            _or_open(c.mean, "+.2f"),
            _or_open(c.variance, ".2f"),
            _or_open(c.kurtosis, ".2f"),
            _or_open(c.lag, "+.2f"),
            _or_open(100 * c.coverage, ".1f") + " %",
        )
        for c in adequacy.channels
    ]
    content: list[Table | Picture | Points] = [
        Points(adequacy.verdicts or ["Nothing large is missed."]),
        Table(header, rows),
    ]
    if any(channel.n >= 10 for channel in adequacy.channels):
        content.append(
            Picture(
                plot_innovations(adequacy, analysis.trials),
                "distribution of innovations beside the normal one, and their correlation in time",
                "innovations",
            )
        )
    yield Section(
        "Does the model fit?",
        "Innovations are samples minus what the model predicts from those before them, in its own "
        "standard deviations: mean 0, variance 1, kurtosis 3 and no correlation from one to the "
        "next (lag) if the model is right. The last column should be near 95 %.",
        content,
    )


def _beliefs(analysis: Analysis) -> Iterator[Section]:
    if analysis.adequacy is None:
        return
    fit = analysis.fit
    trials, beliefs = fit.trials, analysis.adequacy.beliefs
    order = sorted(range(len(trials)), key=lambda i: float(trials.lengths[i]))
    shown = [order[int(share * (len(order) - 1))] for share in (0.1, 0.5, 0.9)][:_BELIEFS_SHOWN]
    conditions = {name: values[shown[0]].item() for name, values in trials.conditions.items()}
    problem, _ = fit.at(steps=int(trials.lengths[shown[0]]), **conditions)
    pictures = []
    for i in dict.fromkeys(shown):
        try:
            figure = plot_beliefs(beliefs, trials, problem, trial=i)
        except ValueError:  # nothing about this agent is hidden
            continue
        alt = f"what the agent believed in trial {i + 1}, mean and two standard deviations"
        pictures.append(Picture(figure, alt, f"beliefs-trial-{i + 1}"))
    if pictures:
        yield Section(
            "What did the agent believe?",
            "From the samples of a trial up to each moment follows what the agent believed then "
            "about each state, and how sure we can be of that. A few trials, from short to long.",
            pictures,
        )


def _baselines(analysis: Analysis) -> Iterator[Section]:
    comparison = analysis.baselines
    if comparison is None:
        return
    best_bic = min(row.bic for row in comparison.rows)
    rows = [
        (
            row.name,
            f"{row.log_likelihood:.6g}",
            f"{row.aic - comparison.best.aic:.4g}",
            f"{row.bic - best_bic:.4g}",
            "" if row.cross_validated is None else f"{row.cross_validated:.6g}",
        )
        for row in comparison.rows
    ]
    rows += [(name, "impossible", "", "", "") for name, _ in analysis.impossible]
    yield Section(
        "What signal-dependent noise explains",
        "The same task with plain noise instead: none that depends on signals, or steady noise of "
        "the same mean strength. Smaller AIC and BIC are better, by 10 or more clearly so; a "
        "larger cross-validated log likelihood is better.",
        [
            Table(("model", "log likelihood", "AIC - best", "BIC - best", "cross-validated"), rows),
            Points([f"{name}: {why}" for name, why in analysis.impossible]),
        ],
    )


def _searches(analysis: Analysis) -> Section:
    fit = analysis.fit
    return Section(
        "Searches",
        f"{len(fit.starts)} searches by the {fit.method} method, begun at the most probable of "
        "several times as many points drawn from the supports.",
        [Picture(plot_starts(fit), "distance of each search's end from the best", "starts")],
    )


def _reproduction(analysis: Analysis) -> Section:
    study, fit = analysis.study, analysis.fit
    supports = [f"{c.name} free: {c.support}" for c in fit.objective.coordinates]
    fixed = [f"{name} fixed: {value}" for name, value in fit.objective.fixed]
    return Section(
        "To reproduce this",
        "What was done to the data, and with what.",
        [
            Points(
                [
                    *(analysis.notes or ("the data were taken as they are",)),
                    *supports,
                    *fixed,
                    f"recorded: {', '.join(analysis.trials.channel_names)}; noise {study.noise}",
                    f"seed {study.seed}, method {study.method}",
                    f"data's SHA-256 {analysis.checksum}",
                    f"motorcost {version('motorcost')}, jax {version('jax')}, on {device_name()}",
                ]
            )
        ],
    )
