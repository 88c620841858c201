"""The study file that `motorcost init` writes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from motorcost import tasks
from motorcost.study.task_lookup import TASKS, find_task
from motorcost.study.template_data import described

_TEMPLATE = """\
# A study for motorcost: what was recorded, how, and what is to be inferred from it.
# Look at it with: motorcost look STUDY.toml; run it with: motorcost fit STUDY.toml -o fit/

title = "{title}"

[data]
file = "{file}"                 # or a list; paths are relative to this file
{reading}
{columns}

[prepare]                       # what to do with the recordings, in this order
{prepare}
[model]
task = "{task}"                 # {tasks}; or "file.py:function"
{dt}                     # the model's step in seconds; the recording's if left out
{lead}
# delay = [0, 4, 8]             # steps by which the senses are late, a list to compare (not with a
                                # list of leads), or by sense: {{ vision = 10, proprioception = 5 }}
fixed = {{ {fixed} }}  # parameters that are known, as {{ motor_noise = 0.5 }}

[free]                          # what to infer: "usual", [low, high], or more:
                                # {{ low = 1e-8, high = 1e-2, per = "subject" }}
                                # {{ median = 1e-5, sd = 1.0 }} is a prior (see priors below)
{free}

[observer]
{states}         # what was recorded; all columns that are states if left out
noise = 0.0                     # SD of the recording noise, or free recording_noise above

[fit]
seed = 0
starts = 10
method = "gradient"             # or nelder-mead, bobyqa
priors = false                  # add the priors of [free]

[report]
profiles = true                 # intervals by profile likelihood
baselines = true                # what signal-dependent noise explains
folds = 5                       # of the cross-validation
bootstrap = 0                   # simulated data sets to bootstrap from
# cuts = [0.03, 0.08]           # other speeds of the cut: do the estimates depend on it?
"""

# Steps of [prepare] that a study may need, with values for a kind of task, and what they are for.
_REACH_STEPS = {
    "scale": ('{ factor = 0.00026, unit = "m", names = ["x", "y", "target_x", "target_y"] }',),
    "along": (
        '{ goal = ["target_x", "target_y"] }',
        "turn onto the line from start to target,",
        "before cut: the start is then where the hand rested",
    ),
    "cut": ('{ speed = 0.05, channels = ["position", "lateral"] }', "to the movement alone"),
    "least": (
        "{ target = 0.02, duration = 0.1, way = 0.5 }",
        "leave out smaller and shorter ones, and",
        "those that end before half of the way to their goal",
    ),
    "most": ("{ duration = 1.5 }", "leave out longer ones"),
}
_SACCADE_STEPS = _REACH_STEPS | {
    "scale": ('{ factor = 0.03, unit = "deg", names = ["x", "y", "end_x", "end_y"] }',),
    "along": (
        '{ goal = ["end_x", "end_y"], names = ["angle", "lateral"] }',
        "turn onto the line from start",
        "to end, before cut: the start is then where the eye rested",
    ),
    "cut": (
        '{ speed = 30.0, channels = ["angle", "lateral"], smooth = 0.003, margin = 0.01 }',
        "to the saccade alone",
    ),
    "least": ("{ target = 4.0, duration = 0.01, way = 0.5 }", *_REACH_STEPS["least"][1:]),
    "most": ("{ duration = 0.2 }", "leave out longer ones"),
}


def _centred(steps: dict[str, tuple[str, ...]], goal: str, cut: str) -> dict[str, tuple[str, ...]]:
    """The same steps for a task in the plane, which is not turned onto a line."""
    centred = (f"{{ goal = {goal} }}", "measure from where each trial starts")
    turned = {"along": ("centred", centred), "cut": ("cut", (cut, *steps["cut"][1:]))}
    return dict(turned.get(name, (name, step)) for name, step in steps.items())


_LONG_STEPS = {
    "scale": ('{ factor = 0.00026, unit = "m", names = ["position", "target"] }',),
    "least": ("{ duration = 1.0 }", "leave out shorter trials"),
    "most": ("{ duration = 60.0 }", "leave out longer ones"),
}
_PURSUIT_STEPS = _LONG_STEPS | {
    "scale": ('{ factor = 0.00026, unit = "m", names = ["cursor", "target"] }',)
}
_STEPS = {
    "pursuit": _PURSUIT_STEPS,
    "subjective_pursuit": _PURSUIT_STEPS,
    "reaching": _REACH_STEPS,
    "planar_reaching": _centred(_REACH_STEPS, '["target_x", "target_y"]', "{ speed = 0.05 }"),
    "saccade": _SACCADE_STEPS,
    "planar_saccade": _centred(
        _SACCADE_STEPS, '["end_x", "end_y"]', "{ speed = 30.0, smooth = 0.003, margin = 0.01 }"
    ),
}

# What to infer from recorded movements, where that is known from real recordings; otherwise the
# task's costs. Trials of people differ in more than motor noise: where nothing else may vary, motor
# noise has to explain all of it, and the costs with it.
_REACHING = (
    "effort",
    "velocity",
    "force",
    "motor_noise",
    "sensory_noise",
    "tau",
    "aim_spread",
    "start_spread",
    "recording_noise",
)
_PURSUIT = ("effort", "target_noise", "motor_noise", "start_spread")
_SACCADE = ("effort", "motor_noise", "tau_fast", "aim_spread", "recording_noise")
RECOMMENDED = {
    "reaching": _REACHING,
    "planar_reaching": (*_REACHING, "across"),
    "saccade": _SACCADE,
    "planar_saccade": (*_SACCADE, "across"),
    "pursuit": _PURSUIT,
    "subjective_pursuit": (*_PURSUIT, "believed_wander", "believed_drift"),
}
# What to take for known besides. Saccades are over before what the eye sees could guide them: with
# sensory noise free it goes to the upper end of its support in every recording that was tried.
KNOWN = {
    "saccade": {"start": 0.0, "sensory_noise": 10.0},
    "planar_saccade": {"sensory_noise": 10.0},
}
_LEADS = """\
lead = [0, 0.05, 0.1]           # seconds before the first sample at which the model begins, at
                                # rest; each is fitted, the best is taken, the choice reported"""
_NO_LEAD = """\
# lead = 0.05                   # the model begins so long before the first sample; or a list"""


def study_template(task_name: str, data: Path, folder: Path) -> str:
    """The text of a study file with comments, to be filled in.

    - `task_name`: one of the built-in tasks. Its cost parameters are free; for reaching and
      saccades, all that recorded movements need.
    - `data`: the recordings. If the file is there, the comments list its columns.
    - `folder`: where the study file will be, which paths in it are relative to.
    """
    task = find_task(task_name)
    found = described(task_name, data, folder)
    prepare = "".join(f"{line}\n" for line in _steps(task_name, found.prepare))
    states = json.dumps(found.states or ("position",))
    return _TEMPLATE.format(
        title=f"A study of {task_name}",
        file=_toml_text(_relative(data, folder)),
        task=_toml_text(task_name),
        tasks=", ".join(TASKS),
        reading="\n".join(_reading(found.reading)),
        columns="\n".join(_columns(task_name, task().state_names, found.comments)),
        prepare=prepare,
        dt="# dt = 0.01" if found.dt is None else f"dt = {found.dt:g}",
        states=f"states = {states}" if found.states else f"# states = {states}",
        lead=_LEADS if task_name in ("reaching", "planar_reaching") else _NO_LEAD,
        fixed=", ".join(f"{name} = {value}" for name, value in KNOWN.get(task_name, {}).items()),
        free="\n".join(_free(task_name, task)),
    )


def _steps(task_name: str, written: Sequence[str]) -> list[str]:
    """The lines `written`, and comments on the other steps, with values for the task; first the
    scale, which the others are in."""
    there = {line.split("=")[0].strip() for line in written}
    others = {
        name: _commented(name, *step)
        for name, step in _STEPS.get(task_name, _LONG_STEPS).items()
        if name not in there
    }
    scale = others.pop("scale", [])
    return [*scale, *written, *(line for lines in others.values() for line in lines)]


def _commented(name: str, values: str, *about: str) -> list[str]:
    """A step as a comment, with what it is for beside it and below."""
    step = f"# {name} = {values}"
    first = [f"{step}   # {about[0]}" if about else step]
    return [*first, *(f"{'':32}# {more}" for more in about[1:])]


def _free(task_name: str, task: tasks.Task) -> list[str]:
    """A line for each parameter that can be inferred; those that are not recommended are
    comments."""
    recommended = RECOMMENDED.get(task_name, tasks.default_costs(task))
    about = {
        name: f"{parameter.about}; {parameter.support}"
        for name, parameter in tasks.parameters(task).items()
        if parameter.support is not None
    }
    about["recording_noise"] = "SD of the recording noise"
    return [
        f'{"" if name in recommended else "# "}{name} = "usual"'.ljust(32) + f"# {text}"
        for name, text in about.items()
    ]


def _reading(values: Mapping[str, str]) -> list[str]:
    """The lines that say how the file is read: as a table, or as that of a public data set."""
    if "dataset" in values:
        return [_keyed("dataset", values["dataset"], "a public data set, read as it is")]
    return [
        _keyed("trial", values["trial"], "the column that numbers trials; or a list of columns"),
        _keyed("time", values["time"], "the column of times ..."),
        _keyed("time_unit", values["time_unit"], "... in s, ms or us"),
        "# rate = 100                    # or samples per second, without a column of times",
        '# dataset = "pointing"          # or a public data set: motorcost datasets',
    ]


def _keyed(key: str, value: str, about: str) -> str:
    return f'{key} = "{_toml_text(value)}"'.ljust(32) + f"# {about}"


def _columns(task_name: str, states: Sequence[str], found: Sequence[str]) -> list[str]:
    """Comments on how columns become states, and on what was `found` in the file."""
    return [
        f"# The states of {task_name} are {', '.join(states)}.",
        '# channels = { position = "x" }       # state = column; else columns named as states',
        '# units = { position = "mm" }         # what the file is in',
        '# conditions = { target = "goal" }    # values that stay the same within a trial',
        *(_comment(text) for text in found),
    ]


def _relative(data: Path, folder: Path) -> str:
    try:
        return data.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        return data.resolve().as_posix() if data.is_file() else data.as_posix()


def _toml_text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1].replace("\x7f", "\\u007f")


def _comment(value: str) -> str:
    return "# " + "".join(character if character.isprintable() else " " for character in value)
