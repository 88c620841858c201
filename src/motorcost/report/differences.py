"""Sections of a report about how trials differ: why, and when they began."""

import math
from collections.abc import Iterator

from motorcost.diagnostics.variability import variability_table
from motorcost.fitting.delays import delay_choice_in_words, delays_table
from motorcost.fitting.leads import leads_table
from motorcost.plots import plot_delays, plot_leads, plot_variability
from motorcost.report.page import Content, Picture, Points, Section, Table
from motorcost.study.analysis import Analysis
from motorcost.study.cuts import cut_speed, cuts_in_words, cuts_table


def variability_section(analysis: Analysis) -> Iterator[Section]:
    """The section that says which source of variability explains how much, if that is known."""
    found = analysis.variability
    if not found:
        return
    yield Section(
        "Why do trials differ?",
        "The variance between trials of the same condition, according to the fitted model, and "
        "the part of it that each source explains: where the hand starts, where the agent aims, "
        "and noises, each as it occurs. The SD recorded is that of the samples around the model's "
        "mean; where it differs from the model's, the shares are those of a model that misses "
        "something.",
        [
            Points([part.words for part in found]),
            Table(*variability_table(found)),
            Picture(plot_variability(found), name="variability"),
        ],
    )


def leads_section(analysis: Analysis) -> Iterator[Section]:
    """The section that compares leads, if there were several."""
    fit = analysis.fit
    if not fit.leads:
        return
    content: list[Content] = [Table(*leads_table(fit.leads))]
    if sum(math.isfinite(tried.after_first_sample) for tried in fit.leads) > 1:
        content.append(Picture(plot_leads(fit.leads), name="leads"))
    yield Section(
        "When the movements began",
        "Movements may be under way at their first sample, while the model begins at rest. It was "
        "fitted with several leads, which are times before the first sample that were not "
        f"observed, and {fit.trials.lead:g} s was chosen: the samples after the first are most "
        "probable with it, given the first.",
        content,
    )


def cuts_section(analysis: Analysis) -> Iterator[Section]:
    """The section that says whether estimates depend on the speed at which movements were cut."""
    speed = cut_speed(analysis.study.prepare)
    if speed is None or not analysis.fit.converged:
        return
    title = "Does it matter where movements are cut?"
    if not analysis.cuts:
        others = f"{0.6 * speed:.2g},{1.6 * speed:.2g}"
        yield Section(
            title,
            f"Movements were cut at a speed of {speed:g}{_per_second(analysis)}. Whether the "
            "estimates depend on that was not tried. To try others: motorcost fit STUDY.toml "
            f"--cuts {others}, or cuts = [{others.replace(',', ', ')}] in [report].",
            [],
        )
        return
    yield Section(
        title,
        "The same model, fitted to the movements that other thresholds of speed cut out. Log "
        "likelihoods are not compared: they are of other samples. Distances are in the larger of "
        "the two standard errors, or in the only one: parameters at an end of their support have "
        "none.",
        [
            Points(cuts_in_words(analysis.cuts, speed)),
            Table(*cuts_table(analysis.cuts, analysis.fit, speed)),
        ],
    )


def _per_second(analysis: Analysis) -> str:
    """The unit of the speed at which movements were cut; empty if it is not known."""
    unit = next((record.unit for record in analysis.preparation if record.step == "cut"), "")
    return f" {unit}/s" if unit else ""


def delays_section(analysis: Analysis) -> Iterator[Section]:
    """The section that compares delays of the senses, if there were several."""
    tried = analysis.fit.delays
    if not tried:
        return
    choice = delay_choice_in_words(tried)
    content: list[Content] = [Table(*delays_table(tried))]
    drawn = [f for f in tried if isinstance(f.delay, int) and math.isfinite(f.log_likelihood)]
    if len(drawn) > 1:
        content.append(Picture(plot_delays(tried), name="delays"))
    yield Section(
        "How late the senses are",
        "The model was fitted with several delays of the senses, which are whole numbers of steps: "
        f"{choice}.",
        content,
    )
