"""Carrying out a study: its data are read, and a model is fitted, checked and compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from motorcost import checks
from motorcost.data.movements import Movements
from motorcost.diagnostics import (
    Adequacy,
    Bootstrap,
    Comparison,
    Plausibility,
    Variability,
    bootstrap,
    check_fit,
    compare,
    cross_validate,
    plausibility,
    variance_shares,
)
from motorcost.errors import ConvergenceError, InputError
from motorcost.fitting import baselines
from motorcost.fitting.estimate import SEARCHING, fit
from motorcost.fitting.fitted import Fit
from motorcost.fitting.presenting import summary_text
from motorcost.fitting.profiles import Profile
from motorcost.fitting.progress import Progress, silent
from motorcost.fitting.specification import make_objective
from motorcost.inference.diagnose import ContradictionError
from motorcost.inference.likelihood import log_likelihood
from motorcost.model.observer import ObserverSpec
from motorcost.model.trials import Trials
from motorcost.study.cuts import CutFit, cut_fit, with_cut
from motorcost.study.doubts import doubts
from motorcost.study.overview import look_at
from motorcost.study.preparation import StepRecord
from motorcost.study.settings import Study
from motorcost.study.suspicions import few_trials
from motorcost.tasks.declarations import Task
from motorcost.tasks.late_senses import Delay

if TYPE_CHECKING:
    from motorcost.plots.style import CaptionedFigure

# What comparisons with baselines call the model of the study.
THIS_MODEL = "this model"


@dataclass
class Analysis:
    """The result of a study. Parts that were left out, or not reached, are None.

    - `trials`, `notes`: the trials that were fitted, and what was done to the data.
    - `preparation`: what each step did to the trials: how many it kept, and notes.
    - `warnings`: what looked wrong in the data before the fit.
    - `checksum`: SHA-256 of the data.
    - `fit`: the maximum; `adequacy`: whether the model explains the data; `plausibility`: what
      the fitted agent does.
    - `variability`: how much of the variance of movements each source explains, if the search
      settled.
    - `profiles`: profile likelihoods of all parameters.
    - `slices`: by parameter, points on its search scale and the log likelihood there, the other
      parameters at their estimates.
    - `cross_validated`: the log likelihood of trials that were left out of the fit.
    - `bootstrap`: fits of simulated data sets.
    - `baselines`: comparison with models without signal-dependent noise; `impossible`: those that
      contradict the data, and why.
    - `cuts`: fits of the movements that other speeds cut out.
    - `interrupted`: whether the study was interrupted before its end.

    Examples
    --------
    >>> mc.io.write_csv(positions, "trials.csv")
    >>> study = mc.Study(
    ...     "trials.csv",
    ...     "reaching",
    ...     ["effort"],
    ...     noise=1e-3,
    ...     starts=1,
    ...     folds=0,
    ...     baselines=False,
    ...     profiles=False,
    ... )
    >>> warnings = []
    >>> analysis = mc.analyse(study, warn=warnings.append)
    >>> analysis.interrupted, len(analysis.trials.lengths)
    (False, 8)
    """

    study: Study
    trials: Trials
    notes: tuple[str, ...]
    checksum: str
    fit: Fit
    adequacy: Adequacy | None = None
    variability: tuple[Variability, ...] | None = None
    plausibility: Plausibility | None = None
    profiles: list[Profile] | None = None
    slices: dict[str, tuple[np.ndarray, np.ndarray]] | None = None
    cross_validated: float | None = None
    bootstrap: Bootstrap | None = None
    baselines: Comparison | None = None
    impossible: tuple[tuple[str, str], ...] = ()
    cuts: tuple[CutFit, ...] = ()
    interrupted: bool = False
    preparation: tuple[StepRecord, ...] = ()
    warnings: tuple[str, ...] = ()

    def summary(self) -> str:
        """Return the summary of the fit, with the intervals of the profiles where there are any."""
        from motorcost.study.result import LEVEL, intervals_in_words, intervals_of

        about = [intervals_in_words(self)] if self.fit.converged else []
        return summary_text(self.fit, LEVEL, intervals_of(self), about)

    def plot(self) -> CaptionedFigure:
        """Draw trials over the fitted model, and the estimates; see `mc.plots.plot_analysis`."""
        from motorcost.plots.analyses import plot_analysis

        return plot_analysis(self)


def analyse(
    study: Study,
    *,
    progress: Progress | None = None,
    warn: Callable[[str], None] | None = None,
    previous: Mapping[str, Any] | None = None,
) -> Analysis:
    """Carry out a study: read its recordings, fit the model, check it, and compare it.

    - `progress`: a function that is called with what is being done, how far, and of how much.
    - `warn`: a function that is called, before anything is compiled, with each sentence about
      what looks wrong in the data (see `mc.look`); Python's `warnings.warn` if left out.
    - `previous`: the result (`fit.json`, as a dictionary) of an analysis that was interrupted. If
      it is of the same data and settings, the searches go on from where they were.

    Interrupted (Ctrl-C) after the fit has begun, it returns what it has, with `interrupted` set.

    Examples
    --------
    >>> mc.io.write_csv(positions, "trials.csv")
    >>> study = mc.Study(
    ...     "trials.csv",
    ...     "reaching",
    ...     ["effort"],
    ...     noise=1e-3,
    ...     starts=1,
    ...     folds=0,
    ...     baselines=False,
    ...     profiles=False,
    ... )
    >>> warnings = []
    >>> analysis = mc.analyse(study, warn=warnings.append)
    >>> analysis.fit.names
    ('effort',)
    """
    checks.instance(
        "study",
        study,
        Study,
        "a Study",
        'mc.Study.read("study.toml") reads one, mc.Study(file, task, free) makes one',
    )
    study.check_names()
    tell = silent if progress is None else progress
    tell("reading", 0, None)
    prepared = study.prepared()
    movements = prepared.movements
    trials, notes = study.trials(movements)
    looked = look_at(study, prepared)
    for warning in looked.warnings:
        (_python_warning if warn is None else warn)(warning)
    checksum = movements.checksum()
    points = _interrupted_searches(study, checksum, previous)
    if points:
        notes = (*notes, f"went on from {len(points)} searches that had been interrupted")
    key = jax.random.key(study.seed)
    run = _Run(study, movements, trials, key, tell, study.lead, study.delay)
    _check_first_trial(run)
    tell(_compiled(trials), 0, None)
    found = run.fitted(study.task, SEARCHING, points, 0 if points else study.starts)
    # What follows is of the trials with the lead that was chosen, and the task with the delay.
    run = replace(run, trials=trials.with_lead(found.trials.lead), lead=None, delay=(0,))
    result = Analysis(
        study,
        run.trials,
        notes,
        checksum,
        found,
        interrupted=found.interrupted,
        preparation=looked.steps,
        warnings=looked.warnings,
    )
    if not found.interrupted:
        _after_the_fit(run, result)
    return result


def _check_first_trial(run: _Run) -> None:
    """Raise before the search if a recording without noise is none that the model can produce.

    The first trial tells, at the defaults, or where these are ends of supports, at which noises
    may vanish, in their middle. With late senses, and where there is no likelihood at that point,
    the search tells.
    """
    study, observer = run.study, run.observer
    is_noisy = np.min(observer.noise) > 0 or set(study.free) & set(observer.parameters)
    if is_noisy or study.delay != (0,):
        return
    first = run.trials[[0]].with_lead(max(study.lead))
    objective = make_objective(study.task, first, study.free, fixed=study.fixed, observer=observer)
    middle = [support.middle for support in objective.supports]
    usual, (low, high) = objective.usual_point(), objective.bounds.T
    point = np.where((low < usual) & (usual < high), usual, middle)  # NaN is within nothing
    with run.naming_trials():
        try:
            log_likelihood(objective.at(point), objective.trials)
        except ContradictionError:
            raise
        except (ConvergenceError, InputError):
            return


def _python_warning(text: str) -> None:
    # At the line that called `analyse`.
    warnings.warn(text, UserWarning, stacklevel=3)


def _compiled(trials: Trials) -> str:
    """What is compiled before a search, in words."""
    low, high = int(trials.lengths.min()), int(trials.lengths.max())
    steps = f"{low} steps" if low == high else f"{low} to {high} steps"
    return f"compiling the likelihood of {len(trials)} trials, {steps}"


@dataclass(frozen=True)
class _Run:
    """What the stages of an analysis share."""

    study: Study
    movements: Movements
    trials: Trials
    key: Any
    progress: Progress
    lead: tuple[float, ...] | None
    delay: tuple[Delay, ...] = (0,)

    def fitted(
        self, task: Task, what: str, starts: Sequence[Mapping[str, float]], n_starts: int
    ) -> Fit:
        """The fit of a task to the trials; its progress is reported as that of `what`."""
        study = self.study
        with self.naming_trials():
            found = fit(
                task,
                self.trials,
                study.free,
                key=self.key,
                fixed=study.fixed,
                observer=self.observer,
                method=study.method,
                priors=study.priors,
                n_starts=n_starts,
                starts=starts,
                lead=self.lead,
                delay=self.delay,
                progress=lambda stage, done, total: self.progress(
                    what if stage == SEARCHING else stage, done, total
                ),
            )
        # The recordings were looked at, which tell more than the trials. That trials are few stays
        # beside the estimates, whose errors it is about.
        few = few_trials(len(found.trials))
        of_trials = doubts(found.objective.task, found.trials, dict(found.objective.fixed))
        notes = (note for note in found.notes if note == few or note not in of_trials)
        return replace(found, notes=tuple(notes))

    @property
    def observer(self) -> ObserverSpec:
        """How the trials were recorded."""
        return ObserverSpec(self.trials.channel_names, self.study.noise)

    @contextmanager
    def naming_trials(self) -> Iterator[None]:
        """Call a trial that contradicts the model as its file does."""
        try:
            yield
        except ContradictionError as error:
            raise error.named(self.study.labels(self.movements)[error.trial]) from None

    def random_key(self, stage: int) -> Any:
        """A random key for a stage. The numbers of stages are part of what a seed stands for."""
        return jax.random.fold_in(self.key, stage)

    @property
    def folds(self) -> int:
        """Folds of the cross-validation, 0 if there are too few trials for them."""
        return self.study.folds if len(self.trials) >= 2 * self.study.folds else 0


_Stage = tuple[bool, str, Callable[[_Run, Analysis], None]]


def _after_the_fit(run: _Run, result: Analysis) -> None:
    """Run the stages that a study asks for, in order. One that cannot be done is noted: the fit is
    good without it. Those that start from a maximum are left out where none was found."""
    study, settled = run.study, result.fit.converged
    always: list[_Stage] = [
        (True, "check", _check),
        (True, "look at the agent", _look),
    ]
    from_a_maximum: list[_Stage] = [
        (True, "explanation of variability", _explain),
        (study.profiles, "profile", _profile),
        (run.folds >= 2 and not study.baselines, "cross-validation", _validate),
        (study.bootstrap > 0, "bootstrap", _resample),
        (study.baselines, "comparison with baselines", _compare),
        (bool(study.cuts), "comparison of cuts", _cut_elsewhere),
    ]
    left_out = [name for is_asked_for, name, _ in from_a_maximum if is_asked_for]
    if left_out and not settled:
        note = f"the search did not settle, so there is no {', no '.join(left_out)}"
        result.notes = (*result.notes, note)
    stages = [*always, *(from_a_maximum if settled else [])]
    asked_for = [(name, stage) for is_asked_for, name, stage in stages if is_asked_for]
    for i, (name, stage) in enumerate(asked_for):
        try:
            stage(run, result)
        except (InputError, ConvergenceError) as error:
            result.notes = (*result.notes, f"the {name} could not be done: {error}")
        except KeyboardInterrupt:
            result.interrupted = True
        if result.interrupted:
            missing = ", ".join(name for name, _ in asked_for[i:])
            note = f"the analysis was interrupted: missing, in whole or in part, is the {missing}"
            result.notes = (*result.notes, note)
            return


def _check(run: _Run, result: Analysis) -> None:
    run.progress("checks", 0, None)
    result.adequacy = check_fit(
        result.fit, key=run.random_key(1), by=labels_of(run.trials, result.fit)
    )


def labels_of(trials: Trials, fit: Fit) -> dict[str, np.ndarray]:
    """Return the conditions of trials that their fit does not have: subjects, blocks and others
    that the task does not take."""
    return {n: values for n, values in trials.conditions.items() if n not in fit.conditions}


def _look(run: _Run, result: Analysis) -> None:
    run.progress("what the agent does", 0, None)
    result.plausibility = plausibility(result.fit)


def _explain(run: _Run, result: Analysis) -> None:
    result.variability = variance_shares(result.fit)


def _profile(run: _Run, result: Analysis) -> None:
    profiles = result.fit.profiles(progress=run.progress)
    if np.isnan([profile.ends for profile in profiles]).any():
        raise KeyboardInterrupt  # which the profiles keep to themselves
    result.profiles = profiles
    result.slices = {p.name: result.fit.likelihood_slice(p) for p in profiles}


def _validate(run: _Run, result: Analysis) -> None:
    run.progress("cross-validation", 0, None)
    per_trial = cross_validate(result.fit, key=run.random_key(2), folds=run.folds)
    result.cross_validated = float(per_trial.sum())


def _resample(run: _Run, result: Analysis) -> None:
    result.bootstrap = bootstrap(
        result.fit, key=run.random_key(3), n=run.study.bootstrap, progress=run.progress
    )
    if result.bootstrap.interrupted:
        raise KeyboardInterrupt


def _compare(run: _Run, result: Analysis) -> None:
    """Fit the models without signal-dependent noise, from the estimates, and compare all."""
    task = result.fit.objective.task
    models = {
        "no signal-dependent noise": baselines.without_signal_noise(task),
        "steady noise of mean strength": baselines.with_average_noise(task),
    }
    fits, impossible = {THIS_MODEL: result.fit}, []
    for name, model in models.items():
        try:
            fits[name] = run.fitted(
                model, name, [result.fit.estimates], max(1, run.study.starts // 3)
            )
        except (InputError, ConvergenceError) as error:
            impossible.append((name, str(error)))
            continue
        if fits[name].interrupted:
            raise KeyboardInterrupt
    result.impossible = tuple(impossible)
    run.progress("comparing", 0, None)
    key = None if run.folds < 2 else run.random_key(2)
    result.baselines = compare(fits, key=key, folds=run.folds)


def _cut_elsewhere(run: _Run, result: Analysis) -> None:
    """Fit the same model to the movements that other speeds cut out, from the estimates too."""
    for speed in run.study.cuts:
        study = replace(run.study, prepare=with_cut(run.study.prepare, speed), cuts=())
        movements = study.movements()
        trials = study.trials(movements)[0].with_lead(result.fit.trials.lead)
        there = replace(run, study=study, movements=movements, trials=trials)
        found = there.fitted(
            result.fit.objective.task,
            f"movements cut at {speed:g}",
            [result.fit.estimates],
            max(1, study.starts // 3),
        )
        if found.interrupted:
            raise KeyboardInterrupt
        result.cuts = (*result.cuts, cut_fit(speed, found, result.fit))


def _interrupted_searches(
    study: Study, checksum: str, previous: Mapping[str, Any] | None
) -> list[dict[str, float]]:
    """The points that an interrupted fit of the same data and settings had come to."""
    if previous is None or not previous.get("interrupted"):
        return []
    same_data = previous["data"].get("checksum") == checksum
    if not same_data or previous.get("settings") != study.settings:
        return []
    points = [start["parameters"] for start in previous.get("starts", [])]
    return [point for point in points if None not in point.values()]
