"""The section of a report on what was done to the recordings before the fit."""

from collections.abc import Iterator

from motorcost.report.page import Points, Section, Table
from motorcost.study.analysis import Analysis
from motorcost.study.overview import steps_table


def preparation_sections(analysis: Analysis) -> Iterator[Section]:
    """A section with the steps of the preparation; none where no study describes them."""
    if not analysis.preparation:
        return
    yield Section(
        "From the recordings to the trials",
        "What each step did: the trials that it kept and left out, and the samples that there are "
        "after it.",
        [
            Points([f"Warning: {warning}" for warning in analysis.warnings]),
            Table(*steps_table(analysis.preparation)),
            Points([note for record in analysis.preparation for note in record.notes]),
        ],
    )
