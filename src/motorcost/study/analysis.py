"""A study carried out: read, fitted, checked and compared, as far as the user lets it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from motorcost.diagnostics import (
    Adequacy,
    Bootstrap,
    Comparison,
    bootstrap,
    check_fit,
    compare,
    cross_validate,
)
from motorcost.errors import ConvergenceError, InputError
from motorcost.fitting import baselines
from motorcost.fitting.batching import log_likelihoods_along
from motorcost.fitting.estimate import fit
from motorcost.fitting.fitted import Fit
from motorcost.fitting.profiles import Profile
from motorcost.fitting.progress import Progress
from motorcost.model.observer import ObserverSpec
from motorcost.model.trials import Trials
from motorcost.study.settings import Study, check_bootstrap

THIS_MODEL = "this model"


@dataclass
class Analysis:
    """What a study found. Parts that were left out, or not reached, are None.

    - `notes`: what was done to the data.
    - `slices`: by parameter, points on its line and the log likelihood there, others held.
    - `impossible`: baselines that contradict the data, and why.
    """

    study: Study
    trials: Trials
    notes: tuple[str, ...]
    checksum: str
    fit: Fit
    adequacy: Adequacy | None = None
    profiles: list[Profile] | None = None
    slices: dict[str, tuple[np.ndarray, np.ndarray]] | None = None
    cross_validated: float | None = None
    bootstrap: Bootstrap | None = None
    baselines: Comparison | None = None
    impossible: tuple[tuple[str, str], ...] = ()
    interrupted: bool = False


def analyse(
    study: Study, progress: Progress | None = None, previous: dict[str, Any] | None = None
) -> Analysis:
    """Carry out a study. Interrupted, it returns what it has.

    `previous` is a result (`fit.json`) that was interrupted: if it is of the same data and
    settings, searches go on from where they were.
    """

    def tell(what: str, done: int = 0, total: int | None = None) -> None:
        if progress is not None:
            progress(what, done, total)

    check_bootstrap(study.bootstrap)
    tell("reading")
    movements = study.movements()
    trials, notes = study.trials(movements)
    key = jax.random.key(study.seed)
    observer = ObserverSpec(trials.channel_names, study.noise)

    def fitted(task: Any, what: str, starts: Any = (), n_starts: int = study.starts) -> Fit:
        return fit(
            task,
            trials,
            study.free,
            key=key,
            fixed=study.fixed,
            observer=observer,
            method=study.method,
            priors=study.priors,
            n_starts=n_starts,
            starts=starts,
            progress=None if progress is None else lambda _, done, total: tell(what, done, total),
        )

    checksum = movements.checksum()
    resume = _to_resume(study, checksum, previous)
    if resume:
        notes = (*notes, f"went on from {len(resume)} searches that had been interrupted")
    tell("compiling")
    found = fitted(study.task, "searching", resume, 0 if resume else study.starts)
    result = Analysis(study, trials, notes, checksum, found)
    if found.interrupted:
        result.interrupted = True
        return result

    def profile() -> None:
        profiles = found.profiles(progress=progress)
        if np.isnan([each.ends for each in profiles]).any():  # interrupted on the way to them
            raise KeyboardInterrupt
        result.profiles = profiles
        result.slices = {each.name: _slice(found, each) for each in result.profiles}

    def check() -> None:
        tell("checks")
        result.adequacy = check_fit(found, key=jax.random.fold_in(key, 1))

    def validate() -> None:
        tell("cross-validation")
        each = cross_validate(found, key=jax.random.fold_in(key, 2), folds=_folds(study, trials))
        result.cross_validated = float(each.sum())

    def resample() -> None:
        draws = jax.random.fold_in(key, 3)
        result.bootstrap = bootstrap(found, key=draws, n=study.bootstrap, progress=progress)
        if result.bootstrap.interrupted:
            raise KeyboardInterrupt

    def against_baselines() -> None:
        fits, impossible = {THIS_MODEL: found}, []
        for name, task in (
            ("no signal-dependent noise", baselines.without_signal_noise(study.task)),
            ("steady noise of mean strength", baselines.with_average_noise(study.task)),
        ):
            try:
                here = found.estimates
                fits[name] = fitted(task, name, [here], max(1, study.starts // 3))
            except (InputError, ConvergenceError) as error:
                impossible.append((name, str(error)))
                continue
            if fits[name].interrupted:
                raise KeyboardInterrupt
        result.impossible = tuple(impossible)
        crossing = None if _folds(study, trials) < 2 else jax.random.fold_in(key, 2)
        tell("comparing")
        result.baselines = compare(fits, key=crossing, folds=_folds(study, trials))

    steps: list[tuple[bool, Callable[[], None]]] = [
        (True, check),
        (study.profiles, profile),
        (_folds(study, trials) >= 2 and not study.baselines, validate),
        (study.bootstrap > 0, resample),
        (study.baselines, against_baselines),
    ]
    try:
        for wanted, step in steps:
            try:
                if wanted:
                    step()
            except (InputError, ConvergenceError) as error:  # the fit is good without it
                result.notes = (*result.notes, f"{step.__name__} could not be done: {error}")
    except KeyboardInterrupt:
        result.interrupted = True
    return result


def _to_resume(
    study: Study, checksum: str, previous: dict[str, Any] | None
) -> list[dict[str, float]]:
    """The points that an interrupted fit of the same data and settings had come to."""
    if previous is None or not previous.get("interrupted"):
        return []
    same = previous["data"].get("checksum") == checksum
    if not same or previous.get("settings") != study.settings:
        return []
    return [start["parameters"] for start in previous.get("starts", [])]


def _folds(study: Study, trials: Trials) -> int:
    """As asked for, if there are enough trials."""
    return study.folds if len(trials) >= 2 * study.folds else 0


def _slice(found: Fit, profile: Profile) -> tuple[np.ndarray, np.ndarray]:
    """The log likelihood along one coordinate as far as its profile went, others held."""
    k = found.names.index(profile.name)
    grid = np.linspace(profile.points.min(), profile.points.max(), 21)
    points = np.tile(found.point, (len(grid), 1))
    points[:, k] = grid
    return grid, log_likelihoods_along(found.objective, points, priors=found.priors)
