"""What a Ctrl-C does during a sweep.

A signal handler runs between any two instructions of the main thread, also in the middle of a
file being written or of a message to Dask. Sweeps therefore let a Ctrl-C take effect at places of
their choice, and a second one anywhere.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any


@contextmanager
def noticed() -> Iterator[Callable[[], None]]:
    """A function that raises `KeyboardInterrupt` if a Ctrl-C raised one that was caught since.

    `mc.fit` catches a `KeyboardInterrupt` and returns what it has, which is no result of a cell.
    """
    seen = False

    def notice(number: int, frame: Any, usual: Callable[[int, Any], Any]) -> None:
        nonlocal seen
        try:
            usual(number, frame)
        except KeyboardInterrupt:
            seen = True
            raise

    def check() -> None:
        if seen:
            raise KeyboardInterrupt

    with _handled_by(notice):
        yield check


@contextmanager
def postponed() -> Iterator[Callable[[], None]]:
    """A function in whose calls a Ctrl-C takes effect. A second Ctrl-C takes effect at once.

    If Dask's client is interrupted in the middle of a call, its event loop logs errors later.
    """
    seen = False
    waiting: Callable[[], Any] | None = None

    def postpone(number: int, frame: Any, usual: Callable[[int, Any], Any]) -> None:
        nonlocal seen, waiting
        if seen:
            usual(number, frame)
        else:
            seen, waiting = True, partial(usual, number, frame)

    def check() -> None:
        nonlocal waiting
        if waiting is not None:
            interrupt, waiting = waiting, None
            interrupt()

    with _handled_by(postpone):
        try:
            yield check
        except Exception:
            check()  # an error must not hide the interrupt
            raise
        check()


@contextmanager
def _handled_by(handle: Callable[[int, Any, Callable[[int, Any], Any]], None]) -> Iterator[None]:
    """Call `handle` at a Ctrl-C, with the handler that was there before as its last argument.

    Nothing changes in other threads, which get no signals, and where Ctrl-C is ignored.
    """
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: handle(number, frame, usual))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
