"""The folder of a posterior: draws, a table, pictures and a short report."""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from motorcost.errors import InputError
from motorcost.io import check_writable
from motorcost.plots import plot_posterior, plot_predictive, plot_shrinkage
from motorcost.posterior.result import Posterior
from motorcost.posterior.words import convergence_table, numbers_by_name
from motorcost.report.page import Picture, Points, Section, Table, write_report
from motorcost.study.folder import POSTERIOR
from motorcost.sweeps.interrupts import postponed

DRAWS = POSTERIOR
SUMMARY = "summary.txt"
REPORT = "report.html"
PICTURE = "posterior"
PREDICTIVE = "predictive"
FILES = (DRAWS, SUMMARY, REPORT, f"{PICTURE}.png", f"{PREDICTIVE}.png")
# A file of a fit. Its report has the name of ours, so that a folder holds only one of the two.
FIT = "fit.json"
# Pictures of an earlier posterior, which are removed if the new one has none of that name.
_SHRINKAGE = re.compile(r"shrinkage-[\w-]+\.png")


def check_posterior_places(folder: Path) -> None:
    """Raise if something else is where the files of a posterior go; asked before long work."""
    if (folder / FIT).exists():
        raise InputError(f"{folder} holds a fit: write the posterior into a folder of its own")
    for name in FILES:
        check_writable(folder / name)


def write_posterior(
    post: Posterior, folder: Path, *, notes: Sequence[str] = (), command: str | None = None
) -> Path:
    """Write draws, summary, pictures and report of a posterior; return the report's path.

    The files replace those of an earlier posterior together, once all are written. `notes` are on
    the data, and `command` is what was typed to get here, both for the report.
    """
    pictures = _pictures(post)
    draft = folder / f".new-{secrets.token_hex(8)}"
    try:
        draft.mkdir()
        post.save(draft / DRAWS)
        (draft / SUMMARY).write_text(post.summary() + "\n", "utf-8")
        for picture in pictures:
            (draft / f"{picture.name}.png").write_bytes(picture.png)
        lead = f"Made by the command {command}" if command else "Made from Python."
        write_report(draft / REPORT, "Posterior", lead, _sections(post, pictures, notes))
        with postponed():  # a Ctrl-C waits until all are in place
            new = {file.name for file in draft.iterdir()}
            for file in list(folder.iterdir()):
                is_own = file.name in FILES or _SHRINKAGE.fullmatch(file.name)
                if is_own and file.name not in new:
                    file.unlink()
            for name in sorted(new):
                (draft / name).replace(folder / name)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder / REPORT


def _pictures(post: Posterior) -> list[Picture]:
    pictures = [Picture(plot_posterior(post), name=PICTURE)]
    for parameter in json.loads(post.posterior.attrs.get("alone", "{}")):
        name = f"shrinkage-{re.sub(r'[^A-Za-z0-9_]', '-', parameter)}"
        pictures.append(Picture(plot_shrinkage(post, parameter), name=name))
    if "posterior_predictive" in post.groups():
        pictures.append(Picture(plot_predictive(post), name=PREDICTIVE))
    return pictures


def _sections(post: Posterior, pictures: list[Picture], notes: Sequence[str]) -> list[Section]:
    by_name = {picture.name: picture for picture in pictures}
    sections = [
        Section(
            "Parameters",
            f"{post.size_in_words} The table has the median of each parameter and the interval in "
            "which it lies with a probability of 95 %. R-hat should be below 1.01, and the "
            "effective draws above 400.",
            [_table(post), by_name.pop(PICTURE)],
        ),
        Section(
            "Before believing it",
            "What the sampler and the draws tell of themselves."
            if post.verdicts
            else "Nothing in the draws looks wrong.",
            [Points(post.verdicts)] if post.verdicts else [],
        ),
    ]
    predictive = by_name.pop(PREDICTIVE, None)
    if by_name:
        text = "Each person's estimate alone, and with what the others tell of the population."
        sections.append(Section("People", text, list(by_name.values())))
    if predictive is not None:
        text = "Movements simulated at draws of the parameters, beneath the recorded ones."
        sections.append(Section("What it predicts", text, [predictive]))
    if notes:
        sections.append(Section("Data", "What was done to the recordings.", [Points(notes)]))
    return sections


def _table(post: Posterior) -> Table:
    median = numbers_by_name(post.posterior.median(dim=("chain", "draw")))
    ends, checks = post.interval(0.95), convergence_table(post.posterior)
    rows = [
        [
            name,
            f"{value:.4g}",
            f"{ends[name][0]:.4g}",
            f"{ends[name][1]:.4g}",
            f"{checks[name]['r_hat']:.3f}",
            f"{min(checks[name]['ess_bulk'], checks[name]['ess_tail']):.0f}",
        ]
        for name, value in median.items()
    ]
    return Table(["parameter", "median", "2.5 %", "97.5 %", "R-hat", "effective draws"], rows)
