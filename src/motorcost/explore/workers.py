"""Computing beside the page, which goes on answering: the latest request, and one fit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from motorcost.errors import ConvergenceError, InputError
from motorcost.fitting.estimate import fit
from motorcost.fitting.fitted import Fit

Job = Callable[[], None]


class Latest:
    """A thread that carries out the latest job that it was given, and skips those before it.

    A slider that is dragged asks for more pictures than can be computed; only the last matters.
    """

    def __init__(self, name: str) -> None:
        self._asked = threading.Condition()
        self._job: Job | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def ask(self, job: Job) -> None:
        """Carry out a job as soon as the one under way is done, instead of those that wait."""
        with self._asked:
            self._job = job
            self._asked.notify()

    @property
    def is_stale(self) -> bool:
        """Whether something newer was asked for than what is being done."""
        return self._job is not None or self._closed

    def close(self) -> None:
        """End the thread after the job under way."""
        with self._asked:
            self._closed = True
            self._asked.notify()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended, after `close`, but not longer."""
        self._thread.join(seconds)

    def _work(self) -> None:
        while True:
            with self._asked:
                self._asked.wait_for(lambda: self._closed or self._job is not None)
                if self._closed:
                    return
                job, self._job = self._job, None
            assert job is not None  # it was waited for
            job()


class FitSlot:
    """At most one fit at a time, for all pages of a server: a fit uses every core."""

    def __init__(self) -> None:
        self._taken = threading.Lock()

    def start(
        self,
        arguments: Mapping[str, Any],
        *,
        progress: Callable[[str, int, int | None], None],
        done: Callable[[Fit], None],
        failed: Callable[[str], None],
    ) -> FitRun | None:
        """Begin a fit in a thread of its own; None if another one is under way.

        `arguments` are those of `mc.fit`. The functions are called from that thread.
        """
        if not self._taken.acquire(blocking=False):
            return None
        return FitRun(self._taken.release, arguments, progress, done, failed)


class FitRun:
    """A fit under way."""

    def __init__(
        self,
        release: Callable[[], None],
        arguments: Mapping[str, Any],
        progress: Callable[[str, int, int | None], None],
        done: Callable[[Fit], None],
        failed: Callable[[str], None],
    ) -> None:
        self._stopped = threading.Event()
        self._release, self._arguments = release, arguments
        self._progress, self._done, self._failed = progress, done, failed
        self._thread = threading.Thread(target=self._work, name="fit", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop at the next step of the search; the best point so far is kept."""
        self._stopped.set()

    def join(self, seconds: float) -> None:
        """Wait until the fit has ended, after `stop`, but not longer."""
        self._thread.join(seconds)

    def _work(self) -> None:
        try:
            self._done(fit(**self._arguments, progress=self._tell))
        except KeyboardInterrupt:
            self._failed("The fit was stopped before its first point.")
        except (InputError, ConvergenceError) as error:
            self._failed(str(error))
        except Exception as error:  # the page lives on, whatever a task of one's own raises
            self._failed(f"{type(error).__name__}: {error}")
        finally:
            self._release()

    def _tell(self, what: str, done: int, total: int | None) -> None:
        if self._stopped.is_set():
            raise KeyboardInterrupt  # what a search takes for Ctrl-C, and keeps its best point
        self._progress(what, done, total)
