"""The study that a command works on: from a file, or from the command's options."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from motorcost.cli import options
from motorcost.errors import InputError
from motorcost.study.cuts import check_cuts
from motorcost.study.settings import Study
from motorcost.study.task_lookup import TASKS, find_task

# A study file says everything about a study. These options change it for one run; others that
# describe the study are refused beside a file.
CHANGE_A_STUDY = ("starts", "seed", "fixed", "only", "trials", "cuts")


def study_of(context: typer.Context, also_with_a_file: Collection[str]) -> Study:
    """The study that the options of a command describe, by the names that `motorcost fit` gives
    them.

    - `also_with_a_file`: options that say what to do with a study, which may stand beside a file.
      The others describe it.
    """
    data: Path = context.params["data"]
    described = {n: v for n, v in context.params.items() if n not in also_with_a_file}
    if data.suffix.lower() == ".toml":
        _refuse_options_of_a_study(context, data, (*CHANGE_A_STUDY, *also_with_a_file))
        study = _changed(
            Study.read(data),
            described["fixed"],
            starts=described["starts"] if _is_given(context, "starts") else None,
            seed=described["seed"] if _is_given(context, "seed") else None,
            cuts=options.cuts_from(described.get("cuts")),
        )
    else:
        study = _from_options(
            data=data,
            **{n: v for n, v in described.items() if n not in ("only", "trials", "cuts")},
        )
        study.check_names()
        check_cuts(options.cuts_from(described.get("cuts")) or (), study.prepare)
    chosen = options.selection(described["only"])
    return study.selected(chosen, described["trials"], options.SELECTION)


def _from_options(
    *,
    data: Path,
    task: str | None,
    free: list[str] | None,
    fixed: list[str] | None,
    per: list[str] | None,
    noise: str,
    channels: list[str] | None,
    units: list[str] | None,
    conditions: list[str] | None,
    trial_column: str,
    time_column: str,
    time_unit: str,
    rate: float | None,
    lead: str,
    delay: str,
    **others: Any,
) -> Study:
    if task is None:
        raise InputError(f"--task is missing: which of {', '.join(TASKS)} was it?")
    chosen = find_task(task)
    table = options.table(trial_column, time_column, time_unit, rate)
    columns = options.columns(channels, units, conditions)
    return Study(
        data,
        chosen,
        options.supports_from(chosen, free, per),
        task_name=task,
        fixed=options.values_of(chosen, fixed),
        reading=table | columns,
        states=list(columns["channels"]) if "channels" in columns else None,
        noise=options.noise_from(noise),
        lead=options.leads_from(lead),
        delay=options.delays_from(delay),
        **others,
    )


def _refuse_options_of_a_study(
    context: typer.Context, file: Path, allowed: Collection[str]
) -> None:
    """Raise if an option describes a study that a file describes already."""
    for option in context.command.params:
        if _is_given(context, option.name or "") and option.name not in allowed:
            raise InputError(
                f"{file.name} says everything about the study: write what {option.opts[-1]} "
                "says into it instead"
            )


def _is_given(context: typer.Context, option: str) -> bool:
    """Whether the user gave an option, rather than leaving it at its default."""
    source = context.get_parameter_source(option)
    return source is not None and source.name != "DEFAULT"


def _changed(
    study: Study,
    fixed: list[str] | None,
    *,
    starts: int | None,
    seed: int | None,
    cuts: list[float] | None,
) -> Study:
    """A study from a file with what the command line says instead.

    A parameter that `--set` gives a value is no longer inferred.
    """
    values = options.values_of(study.task, fixed)
    free = {name: support for name, support in study.free.items() if name not in values}
    if not free:
        raise InputError(f"--set leaves nothing to infer: {', '.join(study.free)} is all there was")
    return replace(
        study,
        fixed=study.fixed | values,
        free=free,
        starts=study.starts if starts is None else starts,
        seed=study.seed if seed is None else seed,
        cuts=study.cuts if cuts is None else tuple(cuts),
    )
