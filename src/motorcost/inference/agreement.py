"""Whether trials have samples, and agree with a problem and its observer."""

from __future__ import annotations

import numpy as np

from motorcost import checks
from motorcost.errors import InputError
from motorcost.model.observer import Observer
from motorcost.model.problem import Problem
from motorcost.model.trials import Trials

# Relative difference of two time steps that is rounding.
_SAME_STEP = 1e-6


def require_samples(trials: Trials) -> None:
    """Raise if a sample is infinite, or if all samples are missing."""
    array = np.asarray(trials.observed)
    if np.isinf(array).any():
        trial, step, channel = (int(i) for i in np.argwhere(np.isinf(array))[0])
        raise InputError(
            f"observed must be finite, or NaN where a sample is missing: got "
            f"{array[trial, step, channel]} in trial {trial}, step {step}, "
            f"{trials.channel_names[channel]}"
        )
    if np.isnan(array).all():
        raise InputError("all samples are missing: observed is NaN throughout")


def require_one_problem(trials: Trials) -> None:
    """Raise unless all trials have the same length and conditions."""
    lengths = np.unique(trials.lengths)
    differ = [name for name, values in trials.conditions.items() if len(np.unique(values)) > 1]
    if len(lengths) > 1 or differ:
        what = "lengths" if len(lengths) > 1 else differ[0]
        raise InputError(
            f"the trials differ in their {what}, so they need several problems: pass a function "
            "of steps and conditions, as in functools.partial(mc.tasks.reaching, effort=1e-5)"
        )


def require_agreement(problem: Problem, observer: Observer, trials: Trials, length: int) -> None:
    """Raise unless problem, observer and trials fit together."""
    _, o, n = observer.S.shape
    if length != problem.steps or trials.observed.shape[1] < length:
        raise InputError(
            f"the trials have {min(length, trials.observed.shape[1])} steps, the problem has "
            f"{problem.steps}"
        )
    if trials.observed.shape[2] != o:
        raise InputError(
            f"the trials have {trials.observed.shape[2]} channels, the observer records {o}: "
            f"{', '.join(observer.channel_names)}"
        )
    _check_channels(observer, trials)
    if trials.starts is not None and trials.starts.shape[1] != n:
        raise InputError(f"starts must have {n} states per trial, got {trials.starts.shape[1]}")
    if not (checks.is_concrete(trials.times) and checks.is_concrete(problem.dt)):
        return
    first, second = np.asarray(trials.times)[:2]
    step = second - first
    if not np.isclose(step, problem.dt, rtol=_SAME_STEP):
        raise InputError(
            f"the trials are on a grid of {float(step):g} s, the problem steps by "
            f"{float(problem.dt):g} s"
        )


def _check_channels(observer: Observer, trials: Trials) -> None:
    """Raise if names or units of channels are known and differ; units must then be converted."""
    unnamed = checks.labels("channels", None, len(observer.channel_names), "channel")[0]
    names = (trials.channel_names, observer.channel_names)
    if names[0] != names[1] and unnamed not in names:
        raise InputError(
            f"the trials' channels are {', '.join(names[0])}; the observer records "
            f"{', '.join(names[1])}: they must be the same, in the same order"
        )
    units = zip(trials.channel_names, trials.channel_units, observer.channel_units, strict=True)
    differ = [(name, have, need) for name, have, need in units if have and need and have != need]
    if differ:
        found = ", ".join(f"{name} in {have} (model: {need})" for name, have, need in differ)
        convert = ", ".join(f'{name}="{need}"' for name, _, need in differ)
        raise InputError(
            f"the trials have other units than the model: {found}; convert them with "
            f"trials.in_units({convert})"
        )
