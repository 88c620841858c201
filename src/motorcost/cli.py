"""The command line."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from motorcost import checks
from motorcost.errors import ConvergenceError, InputError

app = typer.Typer(
    name="motorcost",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Infer what people, animals and robots care about from how they move.",
)

TASKS = ("reaching", "saccade", "tracking", "random_problem")


def _version(asked: bool) -> None:
    if asked:
        import motorcost

        typer.echo(f"motorcost {motorcost.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Infer what people, animals and robots care about from how they move."""


@app.command(
    epilog="Example: motorcost simulate reaching --set effort=1e-5 --trials 100 --seed 0 "
    "-o trials.csv --plot trials.png"
)
def simulate(
    task: Annotated[str, typer.Argument(help="One of: " + ", ".join(TASKS) + ".")],
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the task. Repeatable."),
    ] = None,
    trials: Annotated[int, typer.Option(help="How many trials.")] = 100,
    seed: Annotated[int, typer.Option(help="The same seed gives the same trials.")] = 0,
    observe: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="States to record, with commas between. All if left out."
        ),
    ] = None,
    noise: Annotated[float, typer.Option(help="SD of the recording noise.")] = 0.0,
    delay: Annotated[int, typer.Option(help="Steps by which the agent's senses are late.")] = 0,
    problem_seed: Annotated[
        int, typer.Option(help="Which random problem (random_problem only).")
    ] = 0,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="CSV file to write; - for standard output.")
    ] = Path("-"),
    plot: Annotated[Path | None, typer.Option(help="Picture to draw (.png, .svg, .pdf).")] = None,
    parameters: Annotated[
        bool, typer.Option("--parameters", help="List the task's parameters and stop.")
    ] = False,
) -> None:
    """Simulate trials of a task and write them as a tidy CSV file: trial, time, one column for
    each recorded state, and the conditions."""
    import jax

    import motorcost as mc

    chosen = _task(task, problem_seed)
    if parameters:
        _list_parameters(chosen)
        return
    values = _values(chosen, assignments or [])
    to_file = str(output) != "-"
    if to_file:
        mc.io.check_writable(output)
    if plot is not None:
        _check_picture(plot)
        if plot == output:
            raise InputError(f"the table and the picture cannot both be {plot}")

    now = chosen(**values)
    names = observe.split(",") if observe is not None else list(now.state_names)
    problem = mc.delay(now, delay)
    observer = mc.observe(problem, [name.strip() for name in names], noise=noise)
    policy = mc.solve(problem)
    result = mc.simulate(
        problem, policy, n_trials=trials, key=jax.random.key(seed), observer=observer
    )

    # A condition that is recorded as a channel has its column already; time tells steps and dt.
    skip = {"steps", "dt", *result.channel_names}
    given = mc.tasks.defaults(chosen) | values
    result = result.with_conditions(
        **{
            name: given[name]
            for name, parameter in mc.tasks.parameters(chosen).items()
            if parameter.role == "condition" and name not in skip
        }
    )
    try:
        mc.io.write_csv(result, output if to_file else sys.stdout)
    except BrokenPipeError:  # the reader of our output, `head` say, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    if plot is not None:
        _save(mc.plots.plot_trials(result), plot)
    costs = result.costs(problem)
    typer.echo(
        f"{trials} trials of {task}: expected cost {float(policy.expected_cost):.6g}, "
        f"mean of these trials {float(costs.mean()):.6g}"
        + (f"; wrote {output}" if to_file else "")
        + (f"; drew {plot}" if plot is not None else ""),
        err=True,
    )


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the report; made if missing.")
    ] = Path("motorcost-demo"),
    trials: Annotated[int, typer.Option(help="Trials to simulate of each task.")] = 20_000,
) -> None:
    """Solve and simulate the built-in tasks, and write a report. Needs no input."""
    from motorcost.demo import run

    run(output, trials)


def _task(name: str, problem_seed: int) -> Any:
    import jax

    import motorcost as mc

    checks.one_of("task", name, TASKS)
    if name == "random_problem":
        return mc.tasks.random_problem(jax.random.key(problem_seed))
    return getattr(mc.tasks, name)


def _values(task: Any, assignments: list[str]) -> dict[str, Any]:
    import motorcost as mc

    defaults = mc.tasks.defaults(task)
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"--set needs NAME=VALUE, got {assignment!r}")
        checks.one_of("parameter", name, list(defaults))
        kind = type(defaults[name])
        try:
            values[name] = kind(text)
        except ValueError:
            what = "a whole number" if kind is int else "a number"
            raise InputError(f"{name} must be {what}, got {text!r}") from None
    return values


def _list_parameters(task: Any) -> None:
    import motorcost as mc

    defaults = mc.tasks.defaults(task)
    for name, parameter in mc.tasks.parameters(task).items():
        value = f"{defaults[name]:g} {parameter.unit}".strip()
        typer.echo(f"{name:<15}{parameter.role:<11}{value:<18}{parameter.about}")


def _check_picture(path: Path) -> None:
    import motorcost as mc

    mc.io.check_writable(path)
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"cannot draw {path}: the name must end in .png, .svg or .pdf")


def _save(figure: Any, path: Path) -> None:
    import motorcost as mc

    with mc.io.written_whole(path) as draft:
        figure.savefig(draft, dpi=150)


def main() -> None:
    """The console script: one line for an error, exit code 2 for bad input, no traceback."""
    try:
        import jax

        jax.config.update("jax_enable_x64", True)
        code = app(args=sys.argv[1:] or ["--help"], standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except typer.TyperException as error:  # an option that is not there, an argument missing
        _fail(getattr(error, "format_message", error.__str__)(), 2)
    except InputError as error:
        _fail(str(error), 2)
    except ConvergenceError as error:
        _fail(str(error), 1)
    except OSError as error:
        _fail(f"{error.filename or 'file'}: {error.strerror or error}", 2)
    except (MemoryError, OverflowError) as error:
        _fail(f"too large: {error or 'out of memory'}", 2)
    except RuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        _fail("out of memory: simulate fewer trials at a time", 1)
    if code == 130:
        typer.echo("motorcost: interrupted", err=True)
        # JAX may be compiling in another thread, and would crash on the way out.
        os._exit(130)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> None:
    typer.echo("motorcost: " + " ".join(message.split()), err=True)
    sys.exit(code)
