"""The sections of a report on what the fitted agent does, and on whether the model fits."""

from collections.abc import Iterator

from motorcost.diagnostics import Adequacy, Channel
from motorcost.fitting.presenting import number_text
from motorcost.plots import plot_innovations, plot_worst_trials
from motorcost.report.page import Content, Picture, Points, Section, Table
from motorcost.study.analysis import Analysis

# Fewer innovations than this make no picture.
_FEWEST_INNOVATIONS = 10


def agent_section(analysis: Analysis) -> Iterator[Section]:
    """What the fitted agent does beside the recording, and what of it is not plausible."""
    found = analysis.plausibility
    if found is None:
        return
    content: list[Content] = [Points(found.sentences)]
    if found.warnings:
        content.append(Points([f"Not plausible: {line}" for line in found.warnings]))
    yield Section(
        "What does the fitted agent do?",
        "Exact means, spreads and expected costs of the agent with these parameters, in the "
        "conditions of the trials, beside what was recorded.",
        content,
    )


def checks_section(analysis: Analysis) -> Iterator[Section]:
    """Whether the model fits: by channel, phase and group, and in which trials least."""
    adequacy = analysis.adequacy
    if adequacy is None:
        return
    content: list[Content] = [Points(adequacy.conclusion), _table(adequacy)]
    if any(channel.n >= _FEWEST_INNOVATIONS for channel in adequacy.channels):
        content.append(
            Picture(plot_innovations(adequacy), name="innovations"),
        )
    yield Section(
        "Does the model fit?",
        "Innovations, which are whitened prediction errors, have mean 0, variance 1, kurtosis 3 "
        "and no correlation from one to the next (lag) if the model is right. The last two columns "
        "should be near 95 and 50 %: more is as wrong as less. What is said above the table is "
        "large, and more than the same number varies by among simulated experiments.",
        content,
    )
    yield from _worst_trials(analysis, adequacy)


def _table(adequacy: Adequacy) -> Table:
    header = ("channel", "innovations", "mean", "variance", "kurtosis", "lag", "within 95 %")
    parts = [*adequacy.channels, *adequacy.phases]
    parts += [part for of_label in adequacy.groups.values() for part in of_label]
    return Table((*header, "within 50 %"), [_row(part) for part in parts])


def _row(part: Channel) -> tuple[str, ...]:
    return (
        part.subject,
        str(part.n),
        number_text(part.mean, "+.2f"),
        number_text(part.variance, ".2f"),
        number_text(part.kurtosis, ".2f"),
        number_text(part.lag, "+.2f"),
        number_text(100 * part.coverage, ".1f") + " %",
        number_text(100 * part.half, ".1f") + " %",
    )


def _worst_trials(analysis: Analysis, adequacy: Adequacy) -> Iterator[Section]:
    if not adequacy.worst:
        return
    rows = [
        (
            f"{trial.trial + 1}",
            trial.about,
            f"{trial.per_sample:.2f}",
            f"{trial.expected:.2f}",
            f"{trial.improbability:.1f}",
        )
        for trial in adequacy.worst
    ]
    yield Section(
        "Which trials fit least?",
        "The trials that are least probable, compared with the same trials in simulated "
        "experiments. Trials are numbered in the order in which they were fitted.",
        [
            Table(
                ("trial", "conditions", "log likelihood per sample", "simulated", "SD below"), rows
            ),
            Picture(plot_worst_trials(analysis.fit, adequacy), name="worst-trials"),
        ],
    )
