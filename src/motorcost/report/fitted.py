"""The report of a fit."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import jax
import numpy as np

from motorcost import tasks
from motorcost.diagnostics import check_fit, plausibility, variance_shares
from motorcost.errors import InputError
from motorcost.fitting.fitted import Fit
from motorcost.fitting.maxima import AGREEMENT
from motorcost.fitting.presenting import (
    OTHER_EXPLANATION,
    almost_as_well,
    estimates_table,
    unknown_in_words,
)
from motorcost.io import check_folder, written_whole
from motorcost.io.functions import name_of
from motorcost.model.observer import ObserverSpec
from motorcost.plots import (
    plot_beliefs,
    plot_estimates,
    plot_predictions,
    plot_profiles,
    plot_starts,
)
from motorcost.report.checks import agent_section, checks_section
from motorcost.report.differences import (
    cuts_section,
    delays_section,
    leads_section,
    variability_section,
)
from motorcost.report.page import Content, Picture, Points, Section, Table, write_report
from motorcost.report.plane import plane_section
from motorcost.report.preparation import preparation_sections
from motorcost.report.readme import readme_text
from motorcost.study.analysis import Analysis
from motorcost.study.folder import FIGURES, README, REPORT, STATE, ResultFolder, as_json
from motorcost.study.overview import value_text
from motorcost.study.result import (
    RESULT,
    device_name,
    intervals_in_words,
    intervals_of,
    notes_of,
    result_of,
)
from motorcost.study.settings import Study
from motorcost.sweeps.identity import checksum_of_trials

# The trials whose beliefs are shown, as shares of all trials in the order of their lengths.
_BELIEFS_SHOWN = (0.1, 0.5, 0.9)
# Beyond this many parameters, a table of their correlations does not fit a page.
_MOST_CORRELATED = 12
# Columns of the table of estimates before those that need a maximum: name, estimate and unit.
_WITHOUT_ERRORS = 3


def write_fit(
    analysis: Analysis,
    folder: Path,
    truth: Mapping[str, float] | None = None,
    *,
    command: str | None = None,
) -> Path:
    """Write `fit.json`, `report.html`, `README.md` and `figures/` into a folder, all or none of
    them; return the report's path.

    - `truth`: the true parameters by name, where the data were simulated.
    - `command`: what was typed to get here, for `README.md`.

    See `write_result`, for which the folder is kept from other fits here.
    """
    results = ResultFolder(folder)
    with results.held():
        write_result(analysis, results, truth, command=command)
    return folder / REPORT


def write_result(
    analysis: Analysis,
    folder: ResultFolder,
    truth: Mapping[str, float] | None = None,
    *,
    command: str | None = None,
) -> str:
    """Write what `write_fit` writes into a folder that is held; return the name of the file that
    has the result.

    It is fit.json, or interrupted.json where an interrupted analysis must not replace a finished
    one; nothing else is written then.
    """
    result = result_of(analysis)
    if analysis.interrupted and folder.finished:
        folder.keep_state(result)
        return STATE
    title = analysis.study.title or f"A fit of the task {analysis.study.task_name}"
    with folder.replaced(result) as draft:
        sections = list(fit_sections(analysis, truth))
        figures = _write_figures(sections, draft)
        write_report(draft / REPORT, title, _lead(analysis), sections)
        files = [REPORT, *figures]
        if folder.may_write(README):  # a README of the user's own stays
            files.append(README)
            with written_whole(draft / README) as file:
                file.write_text(readme_text(title, figures, command), "utf-8")
        with written_whole(draft / RESULT) as file:
            file.write_text(as_json(result | {"files": files}), "utf-8")
    return RESULT


def _write_figures(sections: Sequence[Section], folder: Path) -> dict[str, str]:
    """Write the figures of a report; return what each shows, by its path in the folder."""
    (folder / FIGURES).mkdir()
    shown = {}
    for section in sections:
        for item in section.content:
            if isinstance(item, Picture) and item.name:
                name = f"{FIGURES}/{item.name}.png"
                with written_whole(folder / name) as draft:
                    draft.write_bytes(item.png)
                shown[name] = item.alt
    return shown


def report_fit(
    fit: Fit,
    folder: Path,
    *,
    checks: bool,
    profiles: bool,
    seed: int,
    title: str,
    truth: Mapping[str, float] | None,
) -> Path:
    """Write the report of a fit that no study describes; see `Fit.report`."""
    check_folder(folder)
    analysis = Analysis(
        study=_study_of(fit, seed, title),
        trials=fit.trials,
        notes=("the seed is that of the checks: a fit does not keep the key of its search",),
        checksum=checksum_of_trials(fit.trials),
        fit=fit,
        interrupted=fit.interrupted,
    )
    if checks and not fit.interrupted:
        analysis.adequacy = check_fit(fit, key=jax.random.key(seed))
        if fit.converged:  # shares are those of a maximum
            analysis.variability = variance_shares(fit)
        analysis.plausibility = plausibility(fit)
    if profiles and fit.converged and not fit.interrupted:
        analysis.profiles = fit.profiles()
        if np.isnan([profile.ends for profile in analysis.profiles]).any():
            raise KeyboardInterrupt  # which ended the profiles early; there is nothing to report
        analysis.slices = {p.name: fit.likelihood_slice(p) for p in analysis.profiles}
    return write_fit(analysis, folder, truth)


def _study_of(fit: Fit, seed: int, title: str) -> Study:
    """A study without files that describes what was fitted."""
    objective = fit.objective
    spec = objective.observer if isinstance(objective.observer, ObserverSpec) else None
    return Study(
        files=(),
        task_name=name_of(objective.task),
        task=objective.task,
        free={c.parameter: c.support for c in objective.coordinates},
        fixed=dict(objective.fixed),
        states=fit.trials.channel_names if spec is None else spec.states,
        noise=name_of(objective.observer) if spec is None else spec.noise,
        seed=seed,
        starts=len(fit.starts),
        method=fit.method,
        priors=fit.priors,
        title=title,
    )


def _lead(analysis: Analysis) -> str:
    fit = analysis.fit
    files = ", ".join(file.name for file in analysis.study.files)
    trials = f"{len(analysis.trials)} trials" + (f" from {files}" if files else "")
    start = (
        f"What {trials} say about {', '.join(fit.names)} of the task {analysis.study.task_name}."
    )
    if fit.interrupted:
        return start + " The search was interrupted: this is the best point so far."
    if not fit.converged:
        return (
            f"{start} The search did not settle: these are the best values that it found, not "
            "estimates, and what they say about the data is open."
        )
    others = any(almost_as_well(maximum) for maximum in fit.maxima[1:])
    if _needs_care(fit):
        verdict = "The estimates need care: see below."
        verdict += f" {OTHER_EXPLANATION}." if others else ""
    elif others:
        verdict = f"{OTHER_EXPLANATION}: see below."
    else:
        verdict = f"The search settled, and {fit.agreed} of {len(fit.starts)} searches agree."
    if analysis.adequacy is not None:
        verdict += (
            " The model misses nothing large in the data."
            if analysis.adequacy.passed
            else " The model does not explain everything in the data: see the checks."
        )
    if analysis.plausibility is not None and analysis.plausibility.warnings:
        verdict += " Some of what the fitted agent does is not plausible: see below."
    if analysis.interrupted:
        verdict += " The analysis was interrupted before its end: the notes say what is missing."
    return f"{start} {verdict}"


def _needs_care(fit: Fit) -> bool:
    """Whether something about the search or the data makes the estimates doubtful."""
    return (
        bool(fit.at_bounds)
        or fit.agreed < 2 <= len(fit.starts)
        or any(direction.verdict == "open" for direction in fit.directions)
    )


def fit_sections(analysis: Analysis, truth: Mapping[str, float] | None = None) -> Iterator[Section]:
    """Return the sections of the report. Those whose contents were not computed are left out."""
    yield _estimates(analysis, truth)
    yield from plane_section(analysis)
    yield from _data_and_model(analysis)
    yield from _likelihood(analysis, truth)
    yield from agent_section(analysis)
    yield from checks_section(analysis)
    yield from variability_section(analysis)
    yield from _beliefs(analysis)
    yield from _baselines(analysis)
    yield from leads_section(analysis)
    yield from delays_section(analysis)
    yield from cuts_section(analysis)
    yield from preparation_sections(analysis)
    yield _searches(analysis)
    yield _reproduction(analysis)


def _estimates(analysis: Analysis, truth: Mapping[str, float] | None) -> Section:
    fit, intervals = analysis.fit, intervals_of(analysis)
    header, rows = estimates_table(fit, intervals)
    if not fit.converged:  # standard errors and intervals are those of a maximum
        header, rows = header[:_WITHOUT_ERRORS], [row[:_WITHOUT_ERRORS] for row in rows]
    if truth:
        header = [*header, "truth"]
        shown = [f"{truth[name]:.4g}" if name in truth else "" for name in fit.names]
        rows = [[*row, value] for row, value in zip(rows, shown, strict=True)]
    content: list[Content] = [Table(header, rows)]
    if fit.converged and not fit.interrupted:
        picture = Picture(plot_estimates(fit, intervals, truth), name="estimates")
        content += [picture, *_correlations(fit)]
    content.append(Points([*unknown_in_words(fit), *fit.verdicts, *_meanings(fit)]))
    if not fit.converged:
        words = "The best values that the search found. It did not settle, so they have no errors."
        return Section("Estimates", words, content)
    return Section(
        "Estimates",
        f"The values under which the trials are most probable. {intervals_in_words(analysis)} "
        "An interval that is above or below a value has no other end: the data do not bound the "
        "parameter there.",
        content,
    )


def _meanings(fit: Fit) -> list[str]:
    """What each parameter means: as the task declares it, or noise of the recording."""
    task, observer = fit.objective.task, fit.objective.observer
    declared = tasks.parameters(task) if hasattr(task, "parameters") else {}
    about = {name: parameter.about for name, parameter in declared.items()}
    if isinstance(observer, ObserverSpec):
        about |= {
            name: f"SD of the noise of the recorded {' and '.join(observer.states_of(name))}"
            for name in observer.parameters
        }
    names = dict.fromkeys(c.parameter for c in fit.objective.coordinates)
    return [f"{name}: {about[name]}." for name in names if name in about]


def _correlations(fit: Fit) -> list[Table]:
    if not 2 <= len(fit.names) <= _MOST_CORRELATED:
        return []
    rows = [
        [name, *["" if np.isnan(value) else f"{value:+.2f}" for value in row]]
        for name, row in zip(fit.names, fit.correlation.tolist(), strict=True)
    ]
    return [Table(["correlation of estimates", *fit.names], rows)]


def _data_and_model(analysis: Analysis) -> Iterator[Section]:
    if analysis.adequacy is None:
        return
    yield Section(
        "Data and model",
        "The recorded trials, and what the fitted model does when it is simulated in the same "
        "conditions.",
        [Picture(plot_predictions(analysis.fit, analysis.adequacy), name="data-and-model")],
    )


def _likelihood(analysis: Analysis, truth: Mapping[str, float] | None) -> Iterator[Section]:
    if not analysis.profiles or not analysis.fit.converged:
        return
    better = [profile for profile in analysis.profiles if profile.gain > AGREEMENT]
    yield Section(
        "How precise are the estimates?",
        "How fast the log likelihood falls on either side of each estimate. A profile chooses the "
        "other parameters best at each point, so it is flatter than a slice, which holds them.",
        [
            Picture(
                plot_profiles(analysis.fit, analysis.profiles, analysis.slices, truth),
                name="profiles",
            ),
            Points(
                [
                    f"The profile of {profile.name} found a point that is more probable than the "
                    f"estimates, by {profile.gain:.2g} in log likelihood: fit with more starts."
                    for profile in better
                ]
            ),
        ],
    )


def _beliefs(analysis: Analysis) -> Iterator[Section]:
    if analysis.adequacy is None:
        return
    trials, beliefs = analysis.fit.trials, analysis.adequacy.beliefs
    order = np.argsort(trials.lengths, kind="stable")
    shown = [int(order[int(share * (len(order) - 1))]) for share in _BELIEFS_SHOWN]
    conditions = {name: values[shown[0]].item() for name, values in trials.conditions.items()}
    problem, _ = analysis.fit.at(steps=int(trials.lengths[shown[0]]), **conditions)
    pictures = []
    for trial in dict.fromkeys(shown):
        try:
            figure = plot_beliefs(beliefs, trials, problem, trial=trial)
        except InputError:  # nothing about this agent is hidden
            continue
        pictures.append(Picture(figure, name=f"beliefs-trial-{trial + 1}"))
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
    picture = Picture(plot_starts(analysis.fit), name="starts")
    return Section("Searches", _searches_in_words(analysis), [picture])


def _searches_in_words(analysis: Analysis) -> str:
    """How many searches there were, and where they began."""
    fit, asked = analysis.fit, analysis.study.starts
    total = len(fit.starts)
    drawn = "at the most probable of several times as many points drawn from the supports"
    around = "around where those ended, in search of higher maxima"
    if not analysis.study.files:  # a fit alone does not keep how many were asked for
        return (
            f"{_counted_searches(total)} by the {fit.method} method. The first were begun {drawn}; "
            f"later ones, if any, {around}."
        )
    first = f"{_counted_searches(min(asked, total))} by the {fit.method} method, begun {drawn}"
    return first + (f", and {total - asked} more, begun {around}." if total > asked else ".")


def _counted_searches(number: int) -> str:
    return "1 search" if number == 1 else f"{number} searches"


def _reproduction(analysis: Analysis) -> Section:
    study, fit = analysis.study, analysis.fit
    supports = [f"{c.name} free: {c.support}" for c in fit.objective.coordinates]
    fixed = [f"{name} fixed: {value_text(value)}" for name, value in fit.objective.fixed]
    return Section(
        "To reproduce this",
        "What was done to the data, and with what.",
        [
            Points(
                [
                    *(notes_of(analysis) or ["the data were taken as they are"]),
                    *supports,
                    *fixed,
                    f"the model begins {fit.trials.lead:g} s before the first sample",
                    f"recorded: {', '.join(analysis.trials.channel_names)}; noise {study.noise}",
                    f"seed {study.seed}, method {study.method}",
                    f"data's SHA-256 {analysis.checksum}",
                    f"motorcost {version('motorcost')}, jax {version('jax')}, on {device_name()}",
                ]
            )
        ],
    )
