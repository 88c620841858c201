"""motorcost fit, compare, init, precision and datasets."""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from motorcost import checks
from motorcost.cli.app import app
from motorcost.cli.computing import Device
from motorcost.cli.options import pairs, values_of
from motorcost.cli.progress import showing_progress
from motorcost.errors import InputError
from motorcost.fitting.derivative_free import METHODS
from motorcost.study.settings import TASKS, Study, find_task

Output = Annotated[
    Path, typer.Option("-o", "--output", help="Folder for the results; made if missing.")
]


@app.command(
    epilog="Examples: motorcost fit trials.csv --task reaching --free effort,velocity -o fit/ "
    "· motorcost fit study.toml -o fit/ · motorcost fit hand.csv --task reaching --free "
    "effort,recording_noise --channel position=x --unit position=mm --dt 0.01 -o fit/"
)
def fit(
    context: typer.Context,
    data: Annotated[
        Path, typer.Argument(help="Recordings (.csv .parquet .npz .mat), or a study (.toml).")
    ],
    output: Output = Path("fit"),
    task: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(TASKS)}; or file.py:function.")
    ] = None,
    free: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES", help="What to infer, with commas: effort,velocity=1e-3:10,force."
        ),
    ] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter that is known. Repeatable."),
    ] = None,
    per: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=LABEL", help="A value for each: effort=subject. Repeatable."),
    ] = None,
    noise: Annotated[
        str, typer.Option(help="SD of the recording noise: one number, or position=1e-3,...")
    ] = "0",
    channel: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE=COLUMN", help="A column that was recorded. Repeatable."),
    ] = None,
    unit: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE=UNIT", help="What a column is in: position=mm. Repeatable."),
    ] = None,
    condition: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=COLUMN", help="A column with a value a trial. Repeatable."),
    ] = None,
    trial_column: Annotated[str, typer.Option(help="The column that numbers trials.")] = "trial",
    time_column: Annotated[str, typer.Option(help="The column of times.")] = "time",
    time_unit: Annotated[str, typer.Option(help="s, ms or us.")] = "s",
    rate: Annotated[float | None, typer.Option(help="Samples a second, without times.")] = None,
    dt: Annotated[
        float | None, typer.Option(help="The model's step (s); the recording's if left out.")
    ] = None,
    starts: Annotated[int, typer.Option(help="Searches from different points.")] = 10,
    method: Annotated[str, typer.Option(help="One of " + ", ".join(METHODS) + ".")] = "gradient",
    priors: Annotated[bool, typer.Option("--priors", help="Add the supports' priors.")] = False,
    bootstrap: Annotated[int, typer.Option(help="Experiments to bootstrap from.")] = 0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="No profiles, no baselines.")] = False,
    device: Device = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing but errors.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print fit.json and nothing else.")
    ] = False,
) -> None:
    """Infer costs and noises from recorded movements, and write a report.

    Writes fit.json, report.html and figures/ into the output folder. Interrupted (Ctrl-C), it
    keeps what it has; the same command then goes on from there.
    """
    from motorcost.io import check_folder
    from motorcost.report import read_result, result_of, write_fit
    from motorcost.study.analysis import analyse

    study = _study(locals())
    check_folder(output)
    previous = read_result(output) if _has_result(output) else None
    with showing_progress(quiet or as_json) as progress:
        analysis = analyse(study, progress, previous)
        progress("report", 0, None)
        report = write_fit(analysis, output)
    if as_json:
        typer.echo(json.dumps(result_of(analysis), indent=2))
    elif not quiet:
        typer.echo(analysis.fit.summary())
        if analysis.adequacy is not None:
            typer.echo("\n".join(analysis.adequacy.verdicts or ["The model misses nothing large."]))
        typer.echo(f"Report: {report}")
    if analysis.interrupted:
        raise InterruptedError(
            f"interrupted: what there is lies in {output}; the same command goes on from there"
        )
    if not analysis.fit.converged:
        raise typer.Exit(1)


@app.command(epilog="Example: motorcost compare young/ aged/")
def compare(
    fits: Annotated[list[Path], typer.Argument(help="Folders that motorcost fit wrote.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Compare fits: their estimates, and, of the same data, which model explains it best."""
    from motorcost.report import compare_results, read_result

    names = [path.name or str(path) for path in fits]
    if len(set(names)) < len(names):
        names = [str(path) for path in fits]
    checks.distinct("fits", names)
    results = {name: read_result(path) for name, path in zip(names, fits, strict=True)}
    header, rows = compare_results(results)
    if as_json:
        typer.echo(json.dumps([dict(zip(header, row, strict=True)) for row in rows], indent=2))
        return
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    for row in (header, *rows):
        typer.echo("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())


@app.command(epilog="Example: motorcost init study.toml --data trials.csv --task reaching")
def init(
    study: Annotated[Path, typer.Argument(help="File to write.")] = Path("study.toml"),
    data: Annotated[
        Path, typer.Option(help="The recordings; their columns are written down.")
    ] = Path("trials.csv"),
    task: Annotated[str, typer.Option(help="One of " + ", ".join(TASKS) + ".")] = "reaching",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a study file with comments, to be filled in and run by motorcost fit."""
    import motorcost as mc
    from motorcost.study.template import study_template

    if study.exists() and not force:
        raise InputError(f"{study} is there already: choose another name, or --force")
    text = study_template(task, data, study.parent)
    with mc.io.written_whole(study) as draft:
        draft.write_text(text, "utf-8")
    typer.echo(f"Wrote {study}. Read it, then: motorcost fit {shlex.quote(str(study))} -o fit/")


@app.command(
    epilog="Example: motorcost precision reaching --set effort=1e-5 --set velocity=0.2 "
    "--trials 50,100,200 --observe position --noise 1e-3"
)
def precision(
    task: Annotated[str, typer.Argument(help="One of " + ", ".join(TASKS) + ".")],
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="What is thought true. Repeatable."),
    ] = None,
    free: Annotated[
        str | None, typer.Option(metavar="NAMES", help="What to infer; the costs if left out.")
    ] = None,
    trials: Annotated[str, typer.Option(help="Numbers of trials, with commas.")] = "25,100,400",
    observe: Annotated[
        str | None, typer.Option(metavar="NAMES", help="States recorded. All if left out.")
    ] = None,
    noise: Annotated[float, typer.Option(help="SD of the recording noise.")] = 0.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    device: Device = None,
) -> None:
    """Before an experiment: which error bars to expect from how many trials."""
    import jax

    import motorcost as mc

    chosen = find_task(task)
    values = values_of(chosen, assignments or [])
    declared, defaults = mc.tasks.parameters(chosen), mc.tasks.defaults(chosen)
    costs = [name for name, parameter in declared.items() if parameter.role == "cost"]
    names = costs if free is None else [name.strip() for name in free.split(",")]
    for name in names:
        checks.one_of("parameter", name, list(declared))
    at = {name: defaults[name] for name in names} | values
    counts = [_whole("--trials", part) for part in trials.split(",")]
    problem = chosen(**at)
    states = problem.state_names if observe is None else [s.strip() for s in observe.split(",")]
    seen = mc.ObserverSpec(states, noise)
    typer.echo(
        str(
            mc.expected_precision(
                chosen, at=at, free=names, n_trials=counts, observer=seen, key=jax.random.key(seed)
            )
        )
    )


@app.command(epilog="Example: motorcost datasets pointing")
def datasets(
    name: Annotated[str | None, typer.Argument(help="One of them; all if left out.")] = None,
) -> None:
    """Public recordings that motorcost can read: where they are, and their licences."""
    import motorcost as mc

    for each in mc.datasets.names() if name is None else [name]:
        typer.echo(str(mc.datasets.describe(each)))


# What can be asked of a study in a file too.
_OF_A_RUN = ("data", "output", "quick", "device", "quiet", "as_json")


def _has_result(folder: Path) -> bool:
    return (folder / "fit.json").is_file()


def _study(given: dict[str, Any]) -> Any:
    """The study in a file, or the one that the options describe."""
    from motorcost.tasks.supports import LogUniform

    data = given["data"]
    if data.suffix.lower() == ".toml":
        context = given["context"]
        for option in context.command.params:
            source = context.get_parameter_source(option.name)
            if option.name not in _OF_A_RUN and source is not None and source.name != "DEFAULT":
                raise InputError(
                    f"{data.name} says everything about the study: write what {option.opts[-1]} "
                    "says into it instead"
                )
        study = Study.read(data)
        return replace(study, profiles=False, baselines=False) if given["quick"] else study
    if given["task"] is None:
        raise InputError(f"--task is missing: which of {', '.join(TASKS)} was it?")
    task = find_task(given["task"])
    supports: dict[str, Any] = {}
    for each in (part for text in given["free"] or [] for part in text.split(",")):
        name, _, bounds = (part.strip() for part in each.partition("="))
        low, colon, high = bounds.partition(":")
        if bounds and not colon:
            raise InputError(f"--free needs NAME or NAME=LOW:HIGH, got {each!r}")
        supports[name] = (
            LogUniform(_number("--free", low), _number("--free", high)) if bounds else None
        )
    if not supports:
        raise InputError("--free is missing: name what to infer, as in --free effort,velocity")
    for name, label in pairs("--per", given["per"], "NAME=LABEL").items():
        checks.one_of("free parameter", name, list(supports))
        supports[name] = (supports[name] or _usual(task, name)).grouped_by(label)
    reading: dict[str, Any] = {
        "trial": given["trial_column"],
        "time": given["time_column"],
        "time_unit": given["time_unit"],
        "rate": given["rate"],
        "units": pairs("--unit", given["unit"], "STATE=UNIT") or None,
        "channels": pairs("--channel", given["channel"], "STATE=COLUMN") or None,
        "conditions": pairs("--condition", given["condition"], "NAME=COLUMN") or None,
    }
    noise: Any = given["noise"]
    if "=" in noise:
        named = pairs("--noise", [noise], "a number, or STATE=NUMBER")
        noise = {name: _number("--noise", text) for name, text in named.items()}
    else:
        noise = _number("--noise", noise)
    checks.one_of("method", given["method"], METHODS)
    channels = reading["channels"]
    return Study(
        files=(data,),
        task_name=given["task"],
        task=task,
        free=supports,
        fixed=values_of(task, given["fix"] or []),
        reading={name: value for name, value in reading.items() if value is not None},
        states=None if channels is None else tuple(channels),
        noise=noise,
        dt=given["dt"],
        seed=given["seed"],
        starts=given["starts"],
        method=given["method"],
        priors=given["priors"],
        bootstrap=given["bootstrap"],
        profiles=not given["quick"],
        baselines=not given["quick"],
    )


def _usual(task: Any, name: str) -> Any:
    import motorcost as mc

    support = mc.tasks.parameters(task)[name].support if hasattr(task, "parameters") else None
    if support is None:
        raise InputError(f"--per {name}: say where it can lie, as in --free {name}=1e-3:10")
    return support


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{option} must be a number, got {text!r}") from None


def _whole(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(f"{option} must be whole numbers, got {text!r}") from None
