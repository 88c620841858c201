"""A design as tables and sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from motorcost.markup import aligned, percent

if TYPE_CHECKING:
    from motorcost.diagnostics.designs import Design

# Candidates without trials that are listed; more are only counted.
_MOST_LISTED = 20


def allocation_table(plan: Design) -> tuple[list[str], list[list[str]]]:
    """Header and rows with the trials of each candidate."""
    rows = [
        [candidate.label, str(count), str(equal)]
        for candidate, count, equal in zip(
            plan.candidates, plan.counts, plan.equal.counts, strict=True
        )
    ]
    return ["condition", "trials", "equal"], rows


def errors_table(plan: Design) -> tuple[list[str], list[list[str]]]:
    """Header and rows with the expected relative errors of each parameter."""
    allocations = (plan.optimal, plan.equal, plan.single)
    rows = [
        [
            name,
            f"{plan.setting.at[name]:.4g}",
            *[error_in_words(allocation.relative_errors[name]) for allocation in allocations],
        ]
        for name in plan.names
    ]
    return ["parameter", "at", "design", "equal", "best single"], rows


def error_in_words(error: float) -> str:
    """A relative error as a table shows it."""
    return percent(error, 3) if np.isfinite(error) else "not known"


def conclusions(plan: Design) -> list[str]:
    """What the design gains and how far that can be trusted, in sentences."""
    what = {
        "errors": "mean squared relative error",
        "determinant": "volume of the confidence region",
    }[plan.criterion]
    gain, error = plan.gain_over(plan.equal.counts)
    single = plan.candidates[int(np.argmax(plan.single.counts))].label
    hardest = plan.hardest
    known = np.array(list(plan.optimal.monte_carlo.values()))
    known = known[np.isfinite(known)]
    lines = [
        f"For the same {what}, equal allocation needs {gain:.3g} (SE {error:.2g}) times as many "
        "trials."
    ]
    if plan.counts == plan.single.counts:
        lines.append(f"All trials are best spent on one condition, {single}.")
    else:
        gain, error = plan.gain_over(plan.single.counts)
        lines.append(
            f"The best single condition ({single}) needs {gain:.3g} (SE {error:.2g}) times as many."
        )
    lines.append(
        f"{hardest} is the hardest to know: {error_in_words(plan.relative_errors[hardest])}."
    )
    if known.size:
        lines.append(
            f"Expected errors come from {plan.simulated} simulated trials of each candidate, and "
            f"are known to about {percent(known.max(), 2)}."
        )
    return lines


def summary_text(plan: Design) -> str:
    """Both tables and the conclusions; candidates without trials are left out if they are many."""
    header, rows = allocation_table(plan)
    shown = rows if len(rows) <= _MOST_LISTED else [row for row in rows if row[1] != "0"]
    lines = aligned(header, shown)
    if len(shown) < len(rows):
        lines.append(f"and {len(rows) - len(shown)} candidates without trials")
    lines += ["", "Expected standard errors, relative:", *aligned(*errors_table(plan)), ""]
    return "\n".join([*lines, *conclusions(plan), *(f"Warning: {note}" for note in plan.notes)])
