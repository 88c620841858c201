"""What the page shows, as Python lines that compute the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from motorcost.explore.knobs import mistaken
from motorcost.explore.scene import MOVEMENTS, Setting
from motorcost.explore.shown import OF_FIT, OF_REPORT, Shown, support_arguments
from motorcost.tasks.supports import Support


def has_own_beliefs(setting: Setting) -> bool:
    """Whether the agent's beliefs have sliders that are no parameters of the task itself."""
    return setting.is_mistaken and mistaken(setting.task) is not setting.task


def task_text(setting: Setting) -> str:
    """A file with the task of an agent that may misjudge its noises, for a study to name."""
    lines = [
        '"""The task of the study, with two parameters more: what the agent believes its noises to',
        'be, as multiples of what they are."""',
        "",
    ]
    beside = ", folder=Path(__file__).parent"
    if ":" in setting.task_name:
        lines += ["from pathlib import Path", ""]
    return "\n".join([*lines, *_imports(setting), "", f"task = {_task(setting, beside)}"]) + "\n"


def python_text(shown: Shown) -> str:
    """Python lines that do what the page does."""
    setting, recording = shown.setting, shown.recording
    lines = ["import jax", "", 'jax.config.update("jax_enable_x64", True)', *_imports(setting)]
    lines += ["", f"task = {_task(setting)}", *_problem(setting)]
    lines += [*_simulation(setting), "print(mc.expected_cost(problem, policy))"]
    if recording is not None and recording.source is not None:
        lines += ["", *_fit_of_simulated(shown, recording.source)]
    elif recording is not None:
        lines += ["", *_fit_of_files(shown)]
    return "\n".join(lines) + "\n"


def _imports(setting: Setting) -> list[str]:
    lines = ["import motorcost as mc"]
    if has_own_beliefs(setting):
        lines.append("from motorcost.explore.knobs import mistaken")
    if ":" in setting.task_name:
        lines.append("from motorcost.study.task_lookup import find_task")
    return lines


def _task(setting: Setting, beside: str = "") -> str:
    """The task as an expression. `beside` says which folder the path of a task's file is in."""
    name = setting.task_name
    task = f"find_task({name!r}{beside})" if ":" in name else f"mc.tasks.{name}"
    return f"mistaken({task})" if has_own_beliefs(setting) else task


def _problem(setting: Setting) -> list[str]:
    late = f"mc.tasks.delayed(task, {setting.delay})" if setting.delay else "task"
    arguments = {**setting.values, **setting.size}
    return [f"problem = {late}(", *_arguments(arguments), ")"]


def _simulation(setting: Setting, name: str = "movements", observer: str = "") -> list[str]:
    seed = f"n_trials={MOVEMENTS}, key=jax.random.key({setting.seed})"
    return [
        "policy = mc.solve(problem)",
        f"{name} = mc.simulate(",
        f"    problem, policy, {seed}{observer}",
        ")",
    ]


def _fit_of_simulated(shown: Shown, source: Setting) -> list[str]:
    """The fit of movements that the page simulated, with the sliders where they were then."""
    assert shown.recording is not None  # only recordings are fitted
    names = list(shown.recording.trials.channel_names)
    noise = f", noise={shown.fixed_noise!r}" if shown.fixed_noise else ""
    given = {"fixed": shown.fixed, "delay": shown.setting.delay, "n_starts": shown.starts}
    then = _task(source)
    return [
        "# The movements that were taken as data, and their fit.",
        *([] if then == _task(shown.setting) else [f"task = {then}"]),
        *_problem(source),
        f"recorded = mc.ObserverSpec({names!r})",
        *_simulation(source, "data", ", observer=recorded"),
        *([] if then == _task(shown.setting) else [f"task = {_task(shown.setting)}"]),
        "fit = mc.fit(",
        "    task,",
        "    data,",
        *_free(shown.free),
        *_arguments({name: value for name, value in given.items() if value}),
        f"    observer=mc.ObserverSpec({names!r}{noise}),",
        f"    key=jax.random.key({shown.setting.seed}),",
        ")",
        "print(fit.summary())",
    ]


def _fit_of_files(shown: Shown) -> list[str]:
    assert shown.recording is not None  # only recordings are fitted
    study = shown.recording.study
    files = [file.as_posix() for file in study.files]
    source = files[0] if len(files) == 1 else files
    given: dict[str, Any] = {
        "dataset": study.dataset,
        "reading": study.reading,
        "prepare": list(study.prepare),
        "fixed": shown.fixed,
        "states": None if study.states is None else list(study.states),
        "noise": shown.fixed_noise,
        "dt": study.dt,
        "lead": shown.recording.trials.lead,
        "delay": shown.setting.delay,
        "starts": shown.starts,
        "seed": shown.setting.seed,
    }
    given = {name: value for name, value in given.items() if value}
    return [
        "study = mc.Study(",
        f"    {source!r},",
        "    task,",
        *_free(shown.free),
        *_arguments(given | shown.kept(("title", *OF_FIT, *OF_REPORT))),
        ")",
        "analysis = mc.analyse(study)",
        "print(analysis.summary())",
    ]


def _arguments(values: Mapping[str, Any]) -> list[str]:
    return [f"    {name}={value!r}," for name, value in values.items()]


def _free(free: Mapping[str, Support]) -> list[str]:
    return ["    {", *(f"        {name!r}: {_support(s)}," for name, s in free.items()), "    },"]


def _support(support: Support) -> str:
    name = str(support).partition("(")[0]
    given = ", ".join(f"{key}={value!r}" for key, value in support_arguments(support).items())
    return f"mc.{name}({given})"
