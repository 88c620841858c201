"""A study: everything about an analysis in one value, or in one file that can be shared.

`Study.read` takes a TOML file, whose tables and keys `schema` declares; `motorcost init` writes
one with comments. In Python, and from the command line's options, a `Study` is made directly.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from motorcost import checks
from motorcost.data.joining import concatenate_movements
from motorcost.data.movements import Movements
from motorcost.errors import InputError, errors_at
from motorcost.fitting.delays import delays_of
from motorcost.fitting.derivative_free import METHODS, Method, check_installed
from motorcost.fitting.leads import Lead, leads_of
from motorcost.io import datasets
from motorcost.io.files import printable
from motorcost.model.trials import Trials
from motorcost.study.cuts import check_cuts
from motorcost.study.preparation import ForModel, Prepared, check_steps, prepared
from motorcost.study.selection import with_selection
from motorcost.study.task_lookup import check_free_name, example_problem, find_task
from motorcost.tasks.declarations import Task
from motorcost.tasks.late_senses import Delay
from motorcost.tasks.supports import Support

Files = Path | str | Sequence[Path | str]
Free = Sequence[str] | Mapping[str, Support | None]
Steps = Sequence[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True, init=False)
class Study:
    """Everything about an analysis: recordings, their preparation, model, fit and report.

        study = mc.Study("trials.csv", "reaching", ["effort", "velocity"], noise=1e-3)
        analysis = mc.analyse(study)

    Data:

    - `files`: a file of recordings, or several. Where several files have no condition `subject`,
      each is a subject, called as the file without its suffix.
    - `dataset`: the name of a public data set (`mc.datasets.names()`) that the files are from.
    - `reading`: options of `mc.io.read`, as in `{"units": {"position": "mm"}}`, or of the data
      set's reader.
    - `prepare`: steps in order, each a name and its arguments, as in
      `[("cut", {"speed": 0.05}), ("least", {"duration": 0.1})]`.

    Model:

    - `task`: a function from parameters to a `Problem`, the name of one of motorcost's tasks, or
      `"file.py:function"`. `task_name` is what reports call it.
    - `free`: the parameters to infer: a list of names, or by name where each can lie (None for
      the task's usual support).
    - `fixed`: by name, parameters that are known and differ from the task's defaults.
    - `states`: the states that were recorded; all channels that are states if left out.
    - `noise`: SD of the recording noise: one number, or by name of the channel.
    - `dt`: the model's step in seconds; that of the recordings if left out.
    - `delay`: steps by which the senses are late, in all or by name; of several values each is
      fitted and the best is taken (see `mc.fit`).
    - `lead`: seconds before the first sample at which the model begins, at rest; of several values
      each is fitted and the best is taken (see `mc.fit`).

    Fit and report:

    - `seed`, `starts`, `method`, `priors`: as `key`, `n_starts`, `method`, `priors` of `mc.fit`.
    - `title`: of the report.
    - `folds`: of the cross-validation; it is left out with fewer than two trials per fold.
    - `bootstrap`: data sets to bootstrap from; 0 for none.
    - `cuts`: other speeds of the step `cut`, at which movements are cut out and fitted again; the
      report says whether the estimates depend on it.
    - `baselines`, `profiles`: whether models without signal-dependent noise are fitted for
      comparison, and whether intervals are those of profile likelihoods.
    - `written_at`: by key, as in `prepare.cut` or `data`, where a file or an option says it; errors
      begin with it. `Study.read` fills it in.

    Examples
    --------
    >>> mc.io.write_csv(positions, "trials.csv")
    >>> study = mc.Study("trials.csv", "reaching", ["effort"], noise=1e-3)
    >>> study.movements().channels
    {'position': ''}
    """

    files: tuple[Path, ...]
    task: Task
    free: dict[str, Support | None]
    task_name: str
    dataset: str | None
    reading: dict[str, Any]
    prepare: tuple[tuple[str, dict[str, Any]], ...]
    fixed: dict[str, Any]
    states: tuple[str, ...] | None
    noise: Any
    dt: float | None
    lead: tuple[float, ...]
    delay: tuple[Delay, ...]
    seed: int
    starts: int
    method: Method
    priors: bool
    title: str
    folds: int
    bootstrap: int
    cuts: tuple[float, ...]
    baselines: bool
    profiles: bool
    written_at: dict[str, str] = field(compare=False, repr=False)

    def __init__(
        self,
        files: Files,
        task: Task | str,
        free: Free,
        *,
        task_name: str | None = None,
        dataset: str | None = None,
        reading: Mapping[str, Any] | None = None,
        prepare: Steps = (),
        fixed: Mapping[str, Any] | None = None,
        states: Sequence[str] | None = None,
        noise: Any = 0.0,
        dt: float | None = None,
        lead: Lead = 0.0,
        delay: Delay | Sequence[Delay] = 0,
        seed: int = 0,
        starts: int = 10,
        method: Method = "gradient",
        priors: bool = False,
        title: str = "",
        folds: int = 5,
        bootstrap: int = 0,
        cuts: Sequence[float] = (),
        baselines: bool = True,
        profiles: bool = True,
        written_at: Mapping[str, str] | None = None,
    ) -> None:
        called = task if isinstance(task, str) else getattr(task, "__name__", repr(task))
        values = {
            "files": (Path(files),) if isinstance(files, (str, Path)) else tuple(map(Path, files)),
            "task": find_task(task) if isinstance(task, str) else task,
            "free": _free(free),
            "task_name": called if task_name is None else task_name,
            "dataset": None if dataset is None else datasets.describe(dataset).name,
            "reading": dict(reading or {}),
            "prepare": check_steps(prepare),
            "fixed": dict(fixed or {}),
            "states": None if states is None else _names("states", states),
            "noise": noise,
            "dt": dt,
            "lead": leads_of(lead),
            "delay": delays_of(delay),
            "seed": seed,
            "starts": starts,
            "method": check_method(method),
            "priors": priors,
            "title": title,
            "folds": folds,
            "bootstrap": check_bootstrap(bootstrap),
            "cuts": check_cuts(cuts, prepare),
            "baselines": baselines,
            "profiles": profiles,
            "written_at": dict(written_at or {}),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @staticmethod
    def read(path: Path | str) -> Study:
        """The study in a TOML file, as `motorcost init` writes one.

        Paths in the file are relative to it. Errors name file, line and key.
        """
        from motorcost.study.file import read_study  # loads pydantic

        return Study(**read_study(Path(path)))

    def check_names(self) -> None:
        """Raise where the task, and the recording noise, have no parameter that is to be free."""
        for name in self.free:
            check_free_name(name, self.task, self.task_name, self.states, self.fixed)

    def selected(
        self,
        only: Mapping[str, Any] | None = None,
        trials: str | None = None,
        written_at: Mapping[str, str] | None = None,
    ) -> Study:
        """The same study of some of the trials, as `mc.look` chooses them.

        `written_at`: by key, as in `prepare.only`, what says so if that is no argument.
        """
        given = {"prepare.only": only, "prepare.trials": trials}
        kept = {key: place for key, place in self.written_at.items() if not given.get(key)}
        chosen = {key: place for key, place in (written_at or {}).items() if given.get(key)}
        steps = with_selection(self.prepare, only, trials, written_at)
        return replace(self, prepare=steps, written_at=kept | chosen)

    def prepared(self) -> Prepared:
        """The recordings as they were read, after their preparation, and what each step did."""
        if not self.files:
            raise InputError("the study has no files to read")
        if self.dataset is not None:
            parts = [datasets.load(self.dataset, file, **self.reading) for file in self.files]
        else:
            parts = _by_subject(
                self.files, [datasets.read_any(file, **self.reading) for file in self.files]
            )
        movements = parts[0] if len(parts) == 1 else concatenate_movements(parts)
        return prepared(movements, self.prepare, self.written_at)

    def movements(self) -> Movements:
        """The recordings, read and prepared; their notes say what was done."""
        return self.prepared().movements

    def trials(
        self, movements: Movements | None = None, groups: Collection[str] = ()
    ) -> tuple[Trials, tuple[str, ...]]:
        """The trials on the model's grid, in the model's units, and notes on what was done.

        They have no lead yet: the fit adds it. `movements` are what `self.movements()` returned, or
        some of them; left out, they are read. `groups` are conditions to keep besides those that
        the model takes.
        """
        movements = self.movements() if movements is None else movements
        selected, dt = self.for_model(movements, groups)
        trials, placing = selected.on_grid(dt)
        return trials, (*selected.notes, *placing)

    def for_model(
        self, movements: Movements, groups: Collection[str] = ()
    ) -> tuple[Movements, float]:
        """The channels and conditions that the model takes, in its units, and its step.

        `groups` are conditions to keep besides those.
        """
        per = {support.per for support in self.free.values() if support and support.per}
        wanted = ForModel(
            task=self.task,
            task_name=self.task_name,
            fixed=self.fixed,
            states=self.states,
            groups=per.union(groups),
            named_conditions=self.reading.get("conditions", ()) if self.dataset is None else (),
            dt=self.dt,
        )
        problem = example_problem(self.task, self.task_name, self.fixed)
        recorded = set(self.states or ()) <= set(movements.channels)
        with errors_at(self.written_at.get("data" if recorded else "observer.states")):
            return wanted.select(movements, problem)

    def labels(self, movements: Movements) -> tuple[str, ...]:
        """What the trials on the model's grid are called in their files."""
        selected, dt = self.for_model(movements)
        return selected[selected.long_enough(dt)].labels

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the estimates besides the data, as text: two studies with the same settings
        and the same data have the same estimates."""
        free = {name: "usual" if s is None else repr(s) for name, s in self.free.items()}
        model = ("task_name", "fixed", "states", "noise", "dt", "lead", "delay")
        fields = (*model, "seed", "method", "priors", "reading", "prepare")
        rest = {name: str(getattr(self, name)) for name in fields}
        return {"free": free, **rest}


def check_method(method: str) -> str:
    """`method` itself, if it is a method of `fit` and what it needs is installed."""
    checks.one_of("method", method, METHODS)
    check_installed(method)
    return method


def check_bootstrap(n: int) -> int:
    """`n` itself, if it is a number of data sets to bootstrap from: 0 for none, or at least 2."""
    if n < 0 or n == 1:
        raise InputError(f"bootstrap must be 0 (none) or at least 2 data sets, got {n}")
    return n


def _free(free: Free) -> dict[str, Support | None]:
    if isinstance(free, Mapping):
        return dict(free)
    return dict.fromkeys(_names("free", free))


def _names(what: str, names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise InputError(f"{what} must be a list of names: {what}=[{names!r}]")
    return tuple(names)


def _by_subject(files: Sequence[Path], parts: list[Movements]) -> list[Movements]:
    """Several files without a condition `subject`, each with its name as one."""
    if len(parts) == 1 or any("subject" in part.conditions for part in parts):
        return parts
    names = [printable(file.stem) for file in files]
    if len(set(names)) < len(names):
        names = [printable(f"{file.parent.name}/{file.stem}") for file in files]
    checks.distinct("files", names)
    return [part.with_conditions(subject=name) for part, name in zip(parts, names, strict=True)]
