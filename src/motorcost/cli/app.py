"""The command line: what all commands share."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer

from motorcost.cli.computing import set_up_jax
from motorcost.errors import ConvergenceError, InputError

app = typer.Typer(
    name="motorcost",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Infer what people, animals and robots care about from how they move.",
)


def _show_version(value: bool) -> None:
    if value:
        import motorcost

        typer.echo(f"motorcost {motorcost.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Infer what people, animals and robots care about from how they move."""


def main() -> None:
    """Run the console script. An error is one line without a traceback; the exit code is 2 for bad
    input, 1 where a computation did not converge, 130 after an interruption: Ctrl-C or SIGTERM."""
    try:
        set_up_jax()
        with _sigterm_as_ctrl_c(), _interrupts_heard():
            code = app(args=sys.argv[1:] or ["--help"], standalone_mode=False)
        if code == 130:  # what Typer makes of an interruption
            raise KeyboardInterrupt
    except (typer.Abort, KeyboardInterrupt):
        _leave(130, "interrupted")
    except InterruptedError as error:
        _leave(130, str(error))
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
    sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Treat SIGTERM, which schedulers of clusters and shutdowns send, as Ctrl-C."""

    def interrupt(_: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):  # Ctrl-C is ignored in background jobs; SIGTERM is meant for them
            raise KeyboardInterrupt
        handler(signal.SIGINT, frame)

    usual = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, usual)


@contextmanager
def _interrupts_heard() -> Iterator[None]:
    """Interrupt again where Python dropped an interrupt.

    Python ignores exceptions inside callbacks of its garbage collector, of which JAX has one, and
    inside destructors. A `KeyboardInterrupt` raised there would be lost.
    """
    usual = sys.unraisablehook

    def interrupt_again(dropped: "sys.UnraisableHookArgs") -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            usual(dropped)
            return
        # Later, and from another thread: raised here, it would be dropped again. Where this thread
        # waits longer than that for the other one to start, as on a busy machine, the interrupt
        # arrives here after all.
        main_thread = threading.main_thread().ident
        waiting = True
        while waiting:
            try:
                timer = threading.Timer(0.1, signal.pthread_kill, [main_thread, signal.SIGINT])
                timer.daemon = True
                timer.start()
                waiting = False
            except KeyboardInterrupt:
                pass

    sys.unraisablehook = interrupt_again
    try:
        yield
    finally:
        sys.unraisablehook = usual


def _leave(code: int, message: str) -> None:
    """Exit without cleaning up: JAX may be compiling in another thread, and would crash."""
    typer.echo(f"motorcost: {message}", err=True)
    sys.stdout.flush()
    os._exit(code)


def _fail(message: str, code: int) -> None:
    typer.echo("motorcost: " + " ".join(message.split()), err=True)
    sys.exit(code)
