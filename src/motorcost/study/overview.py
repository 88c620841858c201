"""A look at recordings before a fit: what they are, what was left out, and what looks wrong.

Everything here is NumPy: nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from motorcost import checks
from motorcost.data import grid
from motorcost.data.measures import Measures, measure
from motorcost.data.movements import Movements
from motorcost.errors import InputError
from motorcost.io import datasets
from motorcost.markup import aligned, html_paragraphs, html_table
from motorcost.study.positions import viewed_positions
from motorcost.study.preparation import Prepared, StepRecord, prepared, sampling_interval
from motorcost.study.selection import with_selection
from motorcost.study.settings import Study
from motorcost.study.suspicions import Inspected, suspicions
from motorcost.tasks.declarations import Task, defaults_of, parameters

if TYPE_CHECKING:
    from pandas import DataFrame

    from motorcost.plots.style import CaptionedFigure

# Conditions that trials are grouped by, unless the user says otherwise.
_GROUPINGS = ("subject", "condition")
# Groups that a table or a picture shows.
MOST_GROUPS = 12


@dataclass(frozen=True)
class Look:
    """What recordings are like, before a model is fitted to them; `mc.look` makes it.

    `print(look.summary())` shows it; in a notebook it shows itself as a table.

    Attributes
    ----------
    warnings : tuple of str
        What looks wrong, in sentences; empty if nothing does.
    steps : tuple of StepRecord
        What reading, every step of the preparation, and placing the trials on the model's grid
        did: the number of trials before and after, and notes.
    movements : Movements
        The trials after the preparation, in the channels that were measured.
    goals : tuple of arrays, optional
        The goal of each trial, a point or a path; None if none is known.
    measures : Measures
        Of each trial: duration, distance, speeds, end errors.
    groups : tuple of str
        The group of each trial, by the condition `by`; all the same if there is none.
    unit : str
        Of distances; "" if it is not known.
    step : float
        Of the model, in seconds; of the recording, if there is no model.
    title : str
        What the trials are from.

    Examples
    --------
    >>> found = mc.look(mc.io.from_frame(mc.io.to_frame(positions)))
    >>> len(found.movements), found.steps[0].step
    (8, 'read')
    """

    warnings: tuple[str, ...]
    steps: tuple[StepRecord, ...]
    movements: Movements
    goals: tuple[np.ndarray, ...] | None
    measures: Measures
    groups: tuple[str, ...]
    by: str | None
    unit: str
    step: float
    title: str

    def __len__(self) -> int:
        return len(self.movements)

    @property
    def tracked(self) -> bool:
        """Whether goals move."""
        return self.goals is not None and any(goal.ndim > 1 for goal in self.goals)

    @property
    def group_names(self) -> tuple[str, ...]:
        """The groups, in the order of their first trials."""
        return tuple(dict.fromkeys(self.groups))

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows of a table of the measures.

        Of one group it has a row for each measure: the median, and the 5 and 95 % quantiles. Of
        several it has a row for each group, of medians.
        """
        unit = f" ({self.unit})" if self.unit else ""
        per_second = f" ({self.unit}/s)" if self.unit else ""
        m = self.measures
        columns = {
            "samples": m.samples,
            "duration (s)": m.duration,
            f"distance{unit}": m.distance,
            f"peak speed{per_second}": m.peak_speed,
            "first speed (% of peak)": 100 * np.abs(m.first_speed),
            f"{'distance to goal' if self.tracked else 'end error'}{unit}": m.end_error,
        }
        if len(self.group_names) == 1:
            rows = [
                [name, *_quantiles(column, (0.5, 0.05, 0.95))] for name, column in columns.items()
            ]
            return ["of each trial", "median", "5 %", "95 %"], rows
        groups = np.array(self.groups)
        rows = []
        for name in self.group_names[:MOST_GROUPS]:
            which = groups == name
            medians = [_quantiles(column[which], (0.5,))[0] for column in columns.values()]
            rows.append([name, str(which.sum()), *medians])
        return [self.by or "", "trials", *columns], rows

    def steps_table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows of a table with one row per step of the preparation."""
        return steps_table(self.steps)

    @property
    def notes(self) -> tuple[str, ...]:
        """What reading and the preparation did, in words."""
        return tuple(dict.fromkeys(note for record in self.steps for note in record.notes))

    def summary(self) -> str:
        """What the recordings are like, as text."""
        lines = [self.title, "", *aligned(*self.steps_table())]
        lines += [f"- {note}" for note in self.notes]
        lines += ["", *aligned(*self.table())]
        if len(self.group_names) > MOST_GROUPS:
            lines.append(f"... and {len(self.group_names) - MOST_GROUPS} more")
        if len(self.group_names) > 1:
            lines.append("(medians of the trials)")
        return "\n".join([*lines, "", *self.warning_lines()])

    def warning_lines(self) -> list[str]:
        """The warnings as lines of text; one that says so if there are none."""
        if not self.warnings:
            return ["Nothing looks wrong."]
        return [f"Warning: {warning}" for warning in self.warnings]

    def to_frame(self) -> DataFrame:
        """The measures as a pandas table with one row per trial, and the trials' conditions."""
        import pandas as pd  # slow to import, and not needed elsewhere

        measured = {
            name: values for name, values in vars(self.measures).items() if values.ndim == 1
        }
        conditions = {
            name: values
            for name, values in self.movements.conditions.items()
            if name not in measured
        }
        index = pd.Index(self.movements.labels, name="trial")
        return pd.DataFrame({**measured, **conditions}, index=index)

    def plot(self) -> CaptionedFigure:
        """Draw paths, speeds and end errors; see `mc.plots.plot_look`."""
        from motorcost.plots.overview import plot_look

        return plot_look(self)

    def _repr_html_(self) -> str:
        """Tables for notebooks: the steps, the measures, and the warnings below."""
        tables = html_table(*self.steps_table()) + html_table(*self.table())
        return tables + html_paragraphs(self.warning_lines())

    def __repr__(self) -> str:
        return f"Look: {len(self)} trials; {len(self.warnings)} warnings"


def look(
    source: Study | Movements | Path | str,
    *,
    task: Task | str | None = None,
    dataset: str | None = None,
    reading: Mapping[str, Any] | None = None,
    dt: float | None = None,
    only: Mapping[str, Any] | None = None,
    trials: str | None = None,
    by: str | None = None,
) -> Look:
    """Look at recordings before a model is fitted to them, in seconds: nothing is compiled.

        look = mc.look("hand.csv", task="reaching", reading={"units": {"position": "mm"}})
        print(look.summary())
        look.plot().savefig("look.png")

    - `source`: a study (`mc.Study`, or its file), recordings (`mc.Movements`), or a file of
      recordings.
    - `task`: what the recordings are of; a study has one. Without it nothing is known of goals,
      units and steps but what the recordings say.
    - `dataset`, `reading`: as in `mc.Study`, for a file of recordings.
    - `dt`: the model's step in seconds; that of the recordings if left out.
    - `only`: by name of a condition, the value of the trials to look at; `trials`: which of them,
      as in "1:20".
    - `by`: the condition that trials are grouped by; `subject` if there are several.

    Returns a `Look`, whose `warnings` say what looks wrong: goals in another frame than the hand,
    movements under way at the first sample, trials that hardly move, a step longer than a time
    constant of the body, trials that were merged, units that make no sense.

    Examples
    --------
    >>> found = mc.look(mc.io.from_frame(mc.io.to_frame(positions)))
    >>> len(found.to_frame())
    8
    """
    return look_at_some(
        source,
        {},
        task=task,
        dataset=dataset,
        reading=reading,
        dt=dt,
        only=only,
        trials=trials,
        by=by,
    )


def look_at_some(
    source: Study | Movements | Path | str,
    written_at: Mapping[str, str],
    *,
    task: Task | str | None,
    dataset: str | None,
    reading: Mapping[str, Any] | None,
    dt: float | None,
    only: Mapping[str, Any] | None,
    trials: str | None,
    by: str | None,
) -> Look:
    """What `look` does; `written_at` as in `Study.selected`, for errors."""
    checks.instance(
        "source",
        source,
        (Study, Movements, Path, str),
        "a study, recordings (Movements) or a file",
        "mc.fit notes what looks wrong with Trials",
    )
    if isinstance(source, Movements):
        if task is not None:
            raise InputError("task needs a file or a study: movements are looked at as they are")
        steps = with_selection((), only, trials, written_at)
        return _look(prepared(source, steps, written_at), None, by, "movements")
    study = _study(source, task, dataset, reading, dt)
    if study is not None:
        study = study.selected(only, trials, written_at)
        return look_at(study, study.prepared(), by)
    path = Path(str(source))
    recorded = _read(path, dataset, reading)
    steps = with_selection((), only, trials, written_at)
    return _look(prepared(recorded, steps, written_at), None, by, path.name)


def _study(
    source: Study | Path | str,
    task: Task | str | None,
    dataset: str | None,
    reading: Mapping[str, Any] | None,
    dt: float | None,
) -> Study | None:
    """The study that is looked at; None where there is no task."""
    if isinstance(source, Study) or Path(source).suffix.lower() == ".toml":
        given = {"task": task, "dataset": dataset, "reading": reading, "dt": dt}
        for name, value in given.items():
            if value is not None:
                raise InputError(f"{name} is part of the study: change it there")
        return source if isinstance(source, Study) else Study.read(source)
    if task is None:
        if dt is not None:
            raise InputError("dt is the step of a model: name its task too")
        return None
    return Study(source, task, (), dataset=dataset, reading=reading, dt=dt)


def _read(path: Path, dataset: str | None, reading: Mapping[str, Any] | None) -> Movements:
    options = dict(reading or {})
    if dataset is not None:
        return datasets.load(dataset, path, **options)
    return datasets.read_any(path, **options)


def look_at(study: Study, found: Prepared, by: str | None = None) -> Look:
    """Look at the movements of a study, which `study.prepared()` returned."""
    files = ", ".join(file.name for file in study.files)
    return _look(found, study, by, study.title or f"{files}, for the task {study.task_name}")


def _look(found: Prepared, study: Study | None, by: str | None, title: str) -> Look:
    movements = found.movements
    refusals: list[str] = []
    steps = found.steps
    step = sampling_interval(movements)
    if study is not None:
        try:
            record, step = _placed(study, movements)
            steps = (*steps, record)
        except InputError as error:
            refusals.append(f"motorcost fit would refuse this: {error}.")
    viewed, goals, default = viewed_positions(movements, study)
    measures = measure(viewed.samples, viewed.times, goals)
    groups, by = _groups(movements, by)
    inspected = Inspected(
        movements=viewed,
        measures=measures,
        unit=viewed.common_unit(list(viewed.channels)),
        step=step,
        time_constants={} if study is None else time_constants(study),
        turned=any(name == "along" for name, _ in (study.prepare if study else ())),
        default_goal=default,
        tracked=goals is not None and any(goal.ndim > 1 for goal in goals),
        leads=study is not None and max(study.lead) > 0,
        scale=None if study is None else _scale(study, movements),
    )
    return Look(
        warnings=(*refusals, *suspicions(found.recorded, inspected, groups)),
        steps=steps,
        movements=viewed,
        goals=None if goals is None else tuple(goals),
        measures=measures,
        groups=groups,
        by=by,
        unit=inspected.unit,
        step=step,
        title=title,
    )


def _scale(study: Study, movements: Movements) -> float | None:
    """The factor of the last step `scale` that set the unit of the channels, if one has."""
    units = set(movements.channels.values())
    steps = [arguments for step, arguments in study.prepare if step == "scale"]
    return next((step["factor"] for step in reversed(steps) if step["unit"] in units), None)


def _placed(study: Study, movements: Movements) -> tuple[StepRecord, float]:
    """What placing on the model's grid would do, and the model's step."""
    selected, step = study.for_model(movements)
    placements = [
        grid.place(*trial, step) for trial in zip(selected.samples, selected.times, strict=True)
    ]
    kept = sum(placement.long_enough for placement in placements)
    if not kept:
        raise InputError(f"no trial has samples in two model steps of {step:g} s")
    notes = (
        *selected.notes[len(movements.notes) :],
        *grid.placing_notes(placements, step),
    )
    samples = sum(len(placement.index) for placement in placements if placement.long_enough)
    return StepRecord("model", {"dt": step}, len(movements), kept, samples, notes), step


def time_constants(study: Study) -> dict[str, float]:
    """The time constants of the task's body, by name: fixed, or at their defaults."""
    if not hasattr(study.task, "parameters"):
        return {}
    values = defaults_of(study.task) | study.fixed
    return {
        name: float(values[name])
        for name, parameter in parameters(study.task).items()
        if parameter.role == "body" and parameter.unit == "s"
    }


def _groups(movements: Movements, by: str | None) -> tuple[tuple[str, ...], str | None]:
    """The group of each trial, and what they are grouped by."""
    if by is None:
        several = [
            name
            for name in _GROUPINGS
            if name in movements.conditions and len(set(movements.conditions[name].tolist())) > 1
        ]
        by = several[0] if several else None
    if by is None:
        return ("all",) * len(movements), None
    checks.one_of("condition", by, list(movements.conditions))
    return tuple(_name(value) for value in movements.conditions[by]), by


def _name(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (float, np.floating)) else str(value)


def _quantiles(values: np.ndarray, which: Sequence[float]) -> list[str]:
    """Quantiles of the known values, as text; empty if none is known."""
    finite = values[np.isfinite(values)]
    return [_number(float(np.quantile(finite, q))) if finite.size else "" for q in which]


def _number(value: float) -> str:
    """Three digits, or all of a whole number's."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def steps_table(steps: Sequence[StepRecord]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a table with one row per step: what it was given, the trials that it
    kept and left out, and the samples that there are after it."""
    rows = []
    for record in steps:
        given = ", ".join(
            f"{name} = {value_text(value)}" for name, value in record.arguments.items()
        )
        name = f"{record.step}: {given}" if given else record.step
        rows.append([name, str(record.after), str(record.left_out), str(record.samples)])
    return ["step", "trials", "left out", "samples"], rows


def value_text(value: Any) -> str:
    """A setting as text, a number without its rounding error."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value))
    return str(value)
