"""Options that commands take: their declarations, and from text to values."""

import inspect
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from motorcost import checks
from motorcost.errors import InputError, errors_at
from motorcost.fitting.derivative_free import METHODS
from motorcost.study.named_texts import items, pairs
from motorcost.study.task_lookup import TASKS
from motorcost.tasks.declarations import parameters
from motorcost.tasks.supports import LogUniform, Support

_TASKS = ", ".join(TASKS)
# The methods of `mc.sample`, which takes seconds to import because of ArviZ.
SAMPLERS = ("nuts", "smc", "laplace")


def folder_named(name: str | Path) -> Path:
    """The folder of an option; an empty name, as of a variable of the shell that is not set, would
    be the working directory."""
    if not str(name):
        raise typer.BadParameter("needs the name of a folder, got nothing")
    return Path(name)


# Several commands.
Output = Annotated[
    Path,
    typer.Option(
        "-o",
        "--output",
        parser=folder_named,
        metavar="FOLDER",
        help="Folder for the results; made if missing.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")]
TaskName = Annotated[str, typer.Argument(help=f"One of {_TASKS}.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")]

# motorcost fit: the data.
DataFile = Annotated[
    Path,
    typer.Argument(help="Recordings (motorcost formats lists the formats), or a study (.toml)."),
]
Channels = Annotated[
    list[str] | None,
    typer.Option("--channel", metavar="STATE=COLUMN", help="A recorded column. Repeatable."),
]
Units = Annotated[
    list[str] | None,
    typer.Option("--unit", metavar="STATE=UNIT", help="Unit of a column: position=mm. Repeatable."),
]
Conditions = Annotated[
    list[str] | None,
    typer.Option(
        "--condition", metavar="NAME=COLUMN", help="A column with one value per trial. Repeatable."
    ),
]
TrialColumn = Annotated[
    str, typer.Option(help="The column that numbers trials, or several with commas.")
]
TimeColumn = Annotated[str, typer.Option(help="The column of times.")]
TimeUnit = Annotated[str, typer.Option(help="s, ms or us.")]
Rate = Annotated[
    float | None, typer.Option(help="Samples per second, for data without a column of times.")
]

Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="NAME=VALUE",
        help="Only trials with this condition: subject=s01. Repeatable.",
    ),
]
TrialRange = Annotated[
    str | None,
    typer.Option(
        "--trials",
        metavar="FIRST:LAST",
        help="Only these of the prepared trials, counted from 1: 1:20, 21:, 1::2.",
    ),
]

# motorcost fit: the model.
TaskOption = Annotated[
    str | None, typer.Option("--task", help=f"One of {_TASKS}; or file.py:function.")
]
Free = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES", help="Parameters to infer, with commas: effort,velocity=1e-3:10,force."
    ),
]
Fixed = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter that is known. Repeatable."),
]
Per = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=CONDITION",
        help="A parameter with one value per group: effort=subject. Repeatable.",
    ),
]
Noise = Annotated[
    str, typer.Option(help="SD of the recording noise: one number, or position=1e-3,...")
]
Step = Annotated[
    float | None, typer.Option("--dt", help="The model's step (s); the recording's if left out.")
]
LeadOption = Annotated[
    str,
    typer.Option(
        "--lead",
        metavar="SECONDS",
        help="Seconds before the first sample at which the model begins; 0,0.05,0.1 compares.",
    ),
]

DelayOption = Annotated[
    str,
    typer.Option(
        "--delay",
        metavar="STEPS",
        help="Delay of the senses in steps; 4,8,12 compares, vision=10,felt=5 is by sense.",
    ),
]

CutsOption = Annotated[
    str | None,
    typer.Option(
        "--cuts",
        metavar="SPEEDS",
        help="Other speeds of the study's cut, as in 0.03,0.08: do estimates depend on it?",
    ),
]

# motorcost fit: the search and what follows it.
Starts = Annotated[int, typer.Option(help="Searches from different points.")]
MethodOption = Annotated[str, typer.Option("--method", help=f"One of {', '.join(METHODS)}.")]
Priors = Annotated[bool, typer.Option("--priors", help="Add the supports' priors.")]
Bootstrap = Annotated[int, typer.Option(help="Simulated data sets to bootstrap from.")]
Quick = Annotated[bool, typer.Option("--quick", help="No profiles, no baselines.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print fit.json and nothing else.")]

# motorcost sample.
SamplingMethodOption = Annotated[
    str, typer.Option("--method", help=f"One of {', '.join(SAMPLERS)}.")
]
Draws = Annotated[int, typer.Option(help="Draws of each chain.")]
Chains = Annotated[int, typer.Option(help="Chains; with smc, populations.")]
Warmup = Annotated[int, typer.Option(help="Draws before that, which adapt the sampler.")]
TargetAccept = Annotated[
    float,
    typer.Option(help="Closer to 1: smaller steps, where transitions diverge (0.9)."),
]
Group = Annotated[
    str | None,
    typer.Option(
        metavar="CONDITION",
        help="Whose values come from one population: subject. Mean and spread are inferred.",
    ),
]
Common = Annotated[
    list[str] | None,
    typer.Option(metavar="NAMES", help="With --group: parameters that all groups share."),
]
Between = Annotated[
    str | None,
    typer.Option(
        metavar="CONDITION", help="With --group: a condition whose groups have their own means."
    ),
]
NoPredictive = Annotated[
    bool, typer.Option("--no-predictive", help="Simulate no movements at the draws.")
]


def number(option: str, text: str) -> float:
    """The number in a text."""
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{option} must be a number, got {text!r}") from None


def whole(option: str, text: str) -> int:
    """The whole number in a text."""
    try:
        return int(text)
    except ValueError:
        raise InputError(f"{option} must be whole numbers, got {text!r}") from None


def table(trial: str, time: str, time_unit: str, rate: float | None) -> dict[str, Any]:
    """How a table is read: the columns of trials and times, or samples per second."""
    columns = items([trial])
    reading: dict[str, Any] = {
        "trial": columns if len(columns) > 1 else trial,
        "time": time,
        "time_unit": time_unit,
    }
    return reading if rate is None else reading | {"rate": rate}


def columns(
    channels: list[str] | None, units: list[str] | None, conditions: list[str] | None
) -> dict[str, dict[str, str]]:
    """Which columns of a table are read, as what, and in which units; all if left out."""
    named = {
        "channels": pairs("--channel", channels, "STATE=COLUMN"),
        "units": pairs("--unit", units, "STATE=UNIT"),
        "conditions": pairs("--condition", conditions, "NAME=COLUMN"),
    }
    return {option: columns for option, columns in named.items() if columns}


# What says which trials are looked at, by the key of a study.
SELECTION = {"prepare.only": "--only", "prepare.trials": "--trials"}


def selection(only: list[str] | None) -> dict[str, list[str]]:
    """`--only NAME=VALUE`: by name, the values that a condition may have."""
    chosen: dict[str, list[str]] = {}
    for text in only or []:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise InputError(f"--only needs NAME=VALUE, as in subject=s01, got {text!r}")
        chosen.setdefault(name, []).append(value)
    return chosen


def noise_from(text: str) -> float | dict[str, float]:
    """`--noise`: one number, or numbers by state."""
    if "=" not in text:
        return number("--noise", text)
    named = pairs("--noise", [text], "a number, or STATE=NUMBER")
    return {name: number("--noise", value) for name, value in named.items()}


def delays_from(text: str) -> list[int | dict[str, int]]:
    """`--delay`: a number of steps, several with commas between, or one for each named sense."""
    parts = items([text])
    if any("=" in part for part in parts):
        pairs = [part.partition("=")[::2] for part in parts]
        senses = [sense.strip() for sense, _ in pairs]
        checks.distinct("senses of --delay", senses)
        return [
            {
                sense: whole("--delay", steps)
                for sense, (_, steps) in zip(senses, pairs, strict=True)
            }
        ]
    return [whole("--delay", part) for part in parts]


def leads_from(text: str) -> list[float]:
    """`--lead`: a number of seconds, or several with commas between."""
    return [number("--lead", part) for part in items([text])]


def cuts_from(text: str | None) -> list[float] | None:
    """`--cuts`: speeds with commas between."""
    return None if text is None else [number("--cuts", part) for part in items([text])]


def supports_from(
    task: Any, free: list[str] | None, per: list[str] | None
) -> dict[str, Support | None]:
    """`--free NAME` or `NAME=LOW:HIGH`, with `--per NAME=CONDITION`: where parameters can lie."""
    supports: dict[str, Support | None] = {}
    for item in items(free):
        name, _, bounds = (part.strip() for part in item.partition("="))
        low, colon, high = bounds.partition(":")
        if bounds and not colon:
            raise InputError(f"--free needs NAME or NAME=LOW:HIGH, got {item!r}")
        supports[name] = (
            LogUniform(number("--free", low), number("--free", high)) if bounds else None
        )
    if not supports:
        raise InputError("--free is missing: name what to infer, as in --free effort,velocity")
    for name, condition in pairs("--per", per, "NAME=CONDITION").items():
        checks.one_of("free parameter", name, list(supports))
        supports[name] = replace(supports[name] or _usual(task, name), per=condition)
    return supports


def _usual(task: Any, name: str) -> Support:
    """The support that a task declares for a parameter."""
    declared = parameters(task) if hasattr(task, "parameters") else {}
    support = declared[name].support if name in declared else None
    if support is None:
        raise InputError(f"--per {name}: give its bounds, as in --free {name}=1e-3:10")
    return support


def values_of(
    task: Any, assignments: Iterable[str] | None, option: str = "--set"
) -> dict[str, Any]:
    """`--set NAME=VALUE`: parameters as a task takes them, whole where its default is whole.

    Errors begin with the name of the option.
    """
    signature = inspect.signature(task).parameters
    names = parameters(task) if hasattr(task, "parameters") else signature
    values: dict[str, Any] = {}
    for assignment in assignments or ():
        name, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"{option} needs NAME=VALUE, got {assignment!r}")
        with errors_at(option):
            checks.one_of("parameter", name, list(names))
        is_whole = type(signature[name].default) is int
        try:
            values[name] = int(text) if is_whole else float(text)
        except ValueError:
            what = "a whole number" if is_whole else "a number"
            raise InputError(f"{option}: {name} must be {what}, got {text!r}") from None
    return values


def columns_of(task: Any, texts: Iterable[str] | None) -> dict[str, list[Any]]:
    """`--conditions NAME=VALUE,VALUE`: the values of each condition, as a task takes them."""
    columns: dict[str, list[Any]] = {}
    for text in texts or ():
        name, _, values = text.partition("=")
        columns[name] = [
            values_of(task, [f"{name}={v}"], "--conditions")[name] for v in values.split(",")
        ]
    return columns
