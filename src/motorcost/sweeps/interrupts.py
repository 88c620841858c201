"""What a Ctrl-C does during a sweep."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import resource_tracker
from typing import Any


@contextmanager
def noticed() -> Iterator[Callable[[], None]]:
    """A function that raises `KeyboardInterrupt` if a Ctrl-C raised one, whatever became of it.

    `mc.fit` ends early at a Ctrl-C, and returns what it has: that is no result of a cell.
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
    """A function in whose calls a Ctrl-C takes effect; if a second comes, it does so at once.

    Dask's client cannot be interrupted anywhere without errors that its event loop then logs.
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
            check()  # an error must not make it forgotten
            raise
        check()


@contextmanager
def kept_from_children() -> Iterator[None]:
    """Start threads and processes that a Ctrl-C at the terminal does not reach.

    Until a worker runs, it would end in the middle of its imports, with all its tracebacks.
    """
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    resource_tracker.ensure_running()  # begins with the first process, and would unblock them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _handled_by(handle: Callable[[int, Any, Callable[[int, Any], Any]], None]) -> Iterator[None]:
    """Let `handle` have interrupts, with what would have been done. Elsewhere, nothing changes."""
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: handle(number, frame, usual))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
