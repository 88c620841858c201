"""The folder of a design: tables, a picture and a short report."""

from __future__ import annotations

import csv
import io
import secrets
import shutil
from pathlib import Path

from motorcost.diagnostics.design_check import DesignCheck
from motorcost.diagnostics.design_tables import allocation_table, conclusions, errors_table
from motorcost.diagnostics.designs import Design
from motorcost.io import check_writable
from motorcost.markup import percent
from motorcost.plots import plot_design
from motorcost.report.page import Picture, Points, Section, Table, write_report
from motorcost.sweeps.interrupts import postponed

# None of these names is that of a file of a fit, so that a folder can hold both.
TRIALS = "design.csv"
ERRORS = "design-errors.csv"
PICTURE = "design.png"
REPORT = "design.html"
FILES = (TRIALS, ERRORS, PICTURE, REPORT)


def check_design_places(folder: Path) -> None:
    """Raise if something else is where the files of a design go; asked before long work."""
    for name in FILES:
        check_writable(folder / name)


def write_design(
    plan: Design, folder: Path, check: DesignCheck | None = None, *, command: str | None = None
) -> Path:
    """Write the tables, the picture and the report of a design; return the report's path.

    The files replace those of an earlier design together, once all are written. `command` is what
    was typed to get here, for the report.
    """
    picture = Picture(plot_design(plan, check))
    draft = folder / f".new-{secrets.token_hex(8)}"
    try:
        draft.mkdir()
        (draft / TRIALS).write_text(_csv(*_trials_columns(plan)), "utf-8")
        (draft / ERRORS).write_text(_csv(*_errors_columns(plan, check)), "utf-8")
        (draft / PICTURE).write_bytes(picture.png)
        lead = f"Made by the command {command}" if command else "Made from Python."
        title = f"A design with {plan.trials} trials"
        write_report(draft / REPORT, title, lead, _sections(plan, check, picture))
        with postponed():  # a Ctrl-C waits until all are in place
            for name in FILES:
                (draft / name).replace(folder / name)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder / REPORT


def _sections(plan: Design, check: DesignCheck | None, picture: Picture) -> list[Section]:
    sections = [
        Section(
            "Which conditions",
            "How many trials of each candidate give the smallest errors, for the parameters that "
            "are assumed to be true. Beside it what an equal allocation would be.",
            [Points([f"Warning: {note}" for note in plan.notes]), Table(*allocation_table(plan))],
        ),
        Section(
            "What to expect",
            "Relative standard errors of the estimates, under the design, under equal allocation, "
            "and with all trials of the best single condition.",
            [Table(*errors_table(plan)), Points(conclusions(plan)), picture],
        ),
    ]
    if check is not None:
        sections.append(
            Section(
                "Does it hold?",
                f"{len(check.optimal)} experiments with either allocation were simulated and "
                "fitted from the assumed true values. How estimates scatter is known to about "
                f"{percent(check.spread_error, 2)}.",
                [Table(*check.table())],
            )
        )
    return sections


def _trials_columns(plan: Design) -> tuple[list[str], list[list[object]]]:
    names = list(plan.candidates[0].conditions)
    rows = zip(plan.candidates, plan.counts, plan.equal.counts, plan.single.counts, strict=True)
    return [*names, "trials", "equal", "single"], [
        [*candidate.conditions.values(), *counts] for candidate, *counts in rows
    ]


def _errors_columns(
    plan: Design, check: DesignCheck | None
) -> tuple[list[str], list[list[object]]]:
    """Relative standard errors by parameter, with what simulated experiments say if there are."""
    columns = {
        "design": plan.relative_errors,
        "equal": plan.equal.relative_errors,
        "single": plan.single.relative_errors,
        "monte_carlo": plan.optimal.monte_carlo,
        "standard_error": plan.standard_errors,
    }
    if check is not None:
        columns |= {"design_simulated": check.spread, "equal_simulated": check.equal_spread}
    rows: list[list[object]] = [
        [name, plan.setting.at[name], *(column[name] for column in columns.values())]
        for name in plan.names
    ]
    return ["parameter", "value", *columns], rows


def _csv(header: list[str], rows: list[list[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
