"""Do estimates depend on the speed at which movements were cut?

Where a movement begins and ends is decided by a threshold that is as good as another one near it.
The same model is fitted to the movements that other thresholds cut out, and the estimates are
compared. Log likelihoods are not: they are of other samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from motorcost import checks
from motorcost.errors import InputError

if TYPE_CHECKING:
    from motorcost.fitting.fitted import Fit

# Estimates that are this many standard errors apart, or more, depend on the cut.
APART = 2.0
# Points on the search scale that are closer than this are the same end of a support.
SAME_END = 1e-3
Steps = Sequence[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class CutFit:
    """The fit to the movements that another threshold cut out.

    - `speed`: the threshold, in the unit of the channels that are cut, per second.
    - `trials`: how many there were.
    - `converged`: whether the search settled; otherwise nothing is compared.
    - `estimates`, `standard_errors`: by name.
    - `apart`: by name, how far the estimate is from that of the study, in standard errors (the
      larger of the two, or the only one) on the search scale.
    - `uncompared`: parameters of the study's fit that have no standard error in either fit, unless
      they are at the same end of their support, or for which this cut left no trials.

    Examples
    --------
    >>> CutFit(0.03, 20, True, {"effort": 1e-5}, {"effort": 1e-6}, {"effort": 2.4}).depends
    ['effort']
    """

    speed: float
    trials: int
    converged: bool
    estimates: dict[str, float]
    standard_errors: dict[str, float]
    apart: dict[str, float]
    uncompared: tuple[str, ...] = ()

    @property
    def depends(self) -> list[str]:
        """The parameters whose estimates depend on the cut."""
        return [name for name, distance in self.apart.items() if distance >= APART]


def cut_speed(steps: Steps) -> float | None:
    """The speed at which a preparation cuts movements; None if it does not."""
    return next((arguments.get("speed") for step, arguments in steps if step == "cut"), None)


def check_cuts(cuts: Sequence[float], steps: Steps) -> tuple[float, ...]:
    """The speeds to compare, if the preparation cuts at another one."""
    speed = cut_speed(steps)
    if cuts and speed is None:
        raise InputError(
            "cuts compares speeds at which movements are cut, and the preparation has no step cut "
            "with a speed: cut = { speed = 0.05 }"
        )
    for cut in cuts:
        checks.positive(cuts=cut)
        if cut == speed:
            raise InputError(f"cuts must differ from the speed of the study's own cut, {speed:g}")
    checks.distinct("cuts", [f"{cut:g}" for cut in cuts])
    return tuple(float(cut) for cut in cuts)


def with_cut(steps: Steps, speed: float) -> tuple[tuple[str, dict[str, Any]], ...]:
    """The steps of a preparation with another speed of its cut."""
    return tuple(
        (step, dict(arguments) | ({"speed": speed} if step == "cut" else {}))
        for step, arguments in steps
    )


def cut_fit(speed: float, found: Fit, study_fit: Fit) -> CutFit:
    """What a fit with another cut tells beside that of the study."""
    settled = found.converged and not found.interrupted
    apart: dict[str, float] = {}
    if settled:
        # Another cut may leave a subject without trials, whose parameters are then missing.
        there = dict(zip(found.names, found.point, strict=True))
        for name, here in zip(study_fit.names, study_fit.point, strict=True):
            if name in there:
                apart[name] = errors_apart(
                    float(there[name] - here),
                    [fit.search_scale_errors[name] for fit in (study_fit, found)],
                    at_ends=all(name in fit.at_bounds for fit in (study_fit, found)),
                )
    known = {name: distance for name, distance in apart.items() if np.isfinite(distance)}
    return CutFit(
        speed=speed,
        trials=len(found.trials),
        converged=settled,
        estimates=found.estimates,
        standard_errors=found.standard_errors,
        apart=known,
        uncompared=tuple(n for n in study_fit.names if n not in known) if settled else (),
    )


def errors_apart(difference: float, errors: Sequence[float], *, at_ends: bool) -> float:
    """How far a parameter is apart in two fits of the same trials, in standard errors.

    - `difference`: of the estimates on the search scale; `errors`: their standard errors there.
    - `at_ends`: whether both are at an end of the support. NaN if neither has a standard error,
      unless both are at the same end.
    """
    # Both are of the same trials, so that their errors do not add up as independent ones would. A
    # parameter that is at an end of its support in one fit has an error in the other only.
    known = [error for error in errors if np.isfinite(error) and error > 0]
    if known:
        return abs(difference) / max(known)
    return 0.0 if at_ends and abs(difference) < SAME_END else float("nan")


def cuts_in_words(cuts: Sequence[CutFit], speed: float) -> list[str]:
    """What the comparison says, in sentences."""
    sentences = []
    settled = [cut for cut in cuts if cut.converged]
    for cut in cuts:
        at = f"with movements cut at {cut.speed:g} instead of {speed:g}"
        if not cut.converged:
            sentences.append(f"The search did not settle {at}: nothing is said of that cut.")
        sentences += [
            f"{name} depends on the cut: {cut.estimates[name]:.3g} {at}, "
            f"{cut.apart[name]:.1f} standard errors away."
            for name in cut.depends
        ]
        if cut.uncompared:
            sentences.append(f"{', '.join(cut.uncompared)} could not be compared {at}.")
    distances = [distance for cut in settled for distance in cut.apart.values()]
    if distances and not any(cut.depends for cut in settled):
        speeds = " and ".join(f"{cut.speed:g}" for cut in settled)
        which = "The estimates that were compared" if sentences else "Estimates"
        most = math.ceil(100 * max(distances) - 1e-6) / 100  # never rounded down
        sentences.append(
            f"{which} do not depend on the cut: with movements cut at {speeds} instead of "
            f"{speed:g}, none is further away than {most:g} standard errors."
        )
    return sentences


def cuts_table(
    cuts: Sequence[CutFit], study_fit: Fit, speed: float
) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a table with one row per parameter, and a column per cut."""
    header = ["parameter", f"cut at {speed:g}"]
    for cut in cuts:
        header += [f"cut at {cut.speed:g}", "standard errors apart"]
    rows = [["trials", str(len(study_fit.trials))]]
    for cut in cuts:
        rows[0] += [str(cut.trials), "" if cut.converged else "did not settle"]
    for name, value in study_fit.estimates.items():
        row = [name, _estimate(value, study_fit.standard_errors[name])]
        for cut in cuts:
            error = cut.standard_errors.get(name, np.nan) if cut.converged else np.nan
            apart = f"{cut.apart[name]:.1f}" if name in cut.apart else ""
            estimate = cut.estimates.get(name)
            row += ["" if estimate is None else _estimate(estimate, error), apart]
        rows.append(row)
    return header, rows


def _estimate(value: float, error: float) -> str:
    return f"{value:.3g}" + (f" ± {error:.2g}" if np.isfinite(error) else "")
