"""What the page shows, to take away: a study file, Python lines, a figure."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from motorcost.explore.python_lines import has_own_beliefs, task_text
from motorcost.explore.recordings import Recording
from motorcost.explore.scene import View
from motorcost.explore.shown import OF_FIT, OF_REPORT, Shown, support_arguments
from motorcost.io.tidy import write_csv
from motorcost.model.observer import SHARED_NOISE
from motorcost.plots.style import (
    BLUE,
    GREY,
    CaptionedFigure,
    captioned,
    clean,
    new_figure,
    styled,
    with_unit,
)
from motorcost.study.settings import Study
from motorcost.tasks.supports import Support

STUDY_FILE, TASK_FILE, DATA_FILE = "study.toml", "misjudging.py", "simulated.csv"


def study_archive(shown: Shown) -> tuple[str, bytes]:
    """The study file under its name; in an archive where it comes with files of its own."""
    files = {STUDY_FILE: study_text(shown)}
    if has_own_beliefs(shown.setting):
        files[TASK_FILE] = task_text(shown.setting)
    if shown.recording is not None and shown.recording.is_simulated:
        files[DATA_FILE] = _csv(shown.recording)
    if len(files) == 1:
        return STUDY_FILE, files[STUDY_FILE].encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return "study.zip", packed.getvalue()


def _csv(recording: Recording) -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder) / DATA_FILE
        write_csv(recording.trials, path)
        return path.read_text("utf-8")


def study_text(shown: Shown) -> str:
    """The study file: the data, the model with the sliders that are not inferred, and the rest."""
    setting, recording = shown.setting, shown.recording
    study = None if recording is None else recording.study
    noise = {} if SHARED_NOISE in shown.free else {"noise": shown.noise}
    model: dict[str, Any] = {
        "task": f"{TASK_FILE}:task" if has_own_beliefs(setting) else setting.task_name
    }
    if study is not None and study.dt is not None:
        model["dt"] = study.dt
    if recording is not None and recording.trials.lead:
        model["lead"] = recording.trials.lead
    if setting.delay:
        model["delay"] = setting.delay
    tables: dict[str, dict[str, Any]] = {
        "data": _data(study),
        "prepare": {} if study is None else {n: _step(n, a) for n, a in study.prepare},
        "model": model | {"fixed": shown.fixed},
        "free": {name: _support(support) for name, support in shown.free.items()},
        "observer": _states(study) | noise,
        "fit": {"seed": setting.seed, "starts": shown.starts, **shown.kept(OF_FIT)},
        "report": shown.kept(OF_REPORT),
    }
    lines = ["# Run it with: motorcost fit study.toml -o fit/"]
    if study is None:
        lines.append('# The page showed no recording: write the name of yours behind "file".')
    lines += [f"{name} = {_toml(value)}" for name, value in shown.kept(("title",)).items()]
    for name, table in tables.items():
        if table:
            lines += ["", f"[{name}]", *(f"{_key(k)} = {_toml(v)}" for k, v in table.items())]
    return "\n".join(lines) + "\n"


def _data(study: Study | None) -> dict[str, Any]:
    if study is None:
        return {"file": "trials.csv"}
    table: dict[str, Any] = {"file": [file.as_posix() for file in study.files]}
    if study.dataset is not None:
        return table | {"dataset": study.dataset, "options": study.reading}
    return table | {name: value for name, value in study.reading.items() if value is not None}


def _step(name: str, arguments: Mapping[str, Any]) -> Any:
    """A step of the preparation as the file has it."""
    if name in ("keep", "trials"):
        return arguments["where" if name == "keep" else "which"]
    return {key: value for key, value in arguments.items() if value is not None}


def _states(study: Study | None) -> dict[str, Any]:
    return {} if study is None or study.states is None else {"states": list(study.states)}


def _support(support: Support) -> dict[str, Any]:
    is_linear = support.sd is None and not support.logarithmic
    return {**support_arguments(support), **({"scale": "linear"} if is_linear else {})}


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else json.dumps(name)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float, np.number)):
        return repr(float(value)) if isinstance(value, (float, np.floating)) else str(int(value))
    return json.dumps(str(value), ensure_ascii=False)


def figure_svg(shown: Shown, found: View) -> bytes:
    """The figure of what the agent does, and of the data, as SVG."""
    out = io.BytesIO()
    figure_of(shown, found).savefig(out, format="svg")
    return out.getvalue()


@styled
def figure_of(shown: Shown, found: View) -> CaptionedFigure:
    """A figure: the place over time with its exact mean and spread, the speed, and the costs."""

    start = 0.0 if shown.recording is None else -shown.recording.trials.lead
    times, state = found.times + start, found.place[0]
    mean, sd, movements = found.course(state)
    figure = new_figure(9.5, 2.9)
    course, speeds, costs = figure.subplots(1, 3)
    trials = None if shown.recording is None else shown.recording.trials
    if trials is not None and state in trials.channel_names:
        samples = np.asarray(trials.observed[..., trials.channel_names.index(state)])
        course.plot(np.asarray(trials.times), samples.T, color=GREY, lw=0.5, alpha=0.5)
    course.plot(times, movements.T, color=BLUE, lw=0.5, alpha=0.4)
    course.fill_between(times, mean - 2 * sd, mean + 2 * sd, color=BLUE, alpha=0.2, lw=0)
    course.plot(times, mean, color=BLUE, lw=2)
    course.set(xlabel="time (s)", ylabel=with_unit(state, found.states[state]))
    speeds.plot(times, found.speeds.T, color=BLUE, lw=0.5, alpha=0.4)
    speeds.plot(times, found.mean_speed, color=BLUE, lw=2)
    unit = found.states[state]
    speeds.set(xlabel="time (s)", ylabel=with_unit("speed", f"{unit}/s" if unit else ""))
    names = list(found.shares)[::-1]
    costs.barh(names, [100 * found.shares[name] for name in names], color=BLUE)
    costs.set(xlabel="% of the expected cost", xlim=(0, 100))
    for ax in (course, speeds, costs):
        clean(ax)
    band = "Line: mean; band: ± 2 SD over movements (exact); thin blue: simulated"
    grey = "; grey: recorded" if trials is not None else ""
    return captioned(figure, f"{band}{grey}. Expected cost {found.cost:.4g}.")
