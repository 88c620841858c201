"""What looks wrong in recordings before a model is fitted to them, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from motorcost.data.measures import Measures
from motorcost.data.movements import Movements
from motorcost.fitting.information import LEAST_FREEDOM
from motorcost.tasks.plausible_units import unit_in_a_study, unit_in_python

# Movements whose median end is farther from the goal than this fraction of the way to it do not
# approach it. Undershooting does not reach this: simulated reaches of 0.2 s miss by 0.7 of the way.
_MISSED = 0.8
# Farther than this fraction of the way, they end short of it.
_SHORT = 0.25
# Path covered plus distance left, relative to the start-goal distance; above this, movements did
# not go straight to the goal.
_DETOUR = 1.1
# Ends that miss goals in several directions all by the same vector, but for this fraction of it,
# have an offset, which counts from this fraction of the way to the goal.
_SAME_OFFSET = 0.25
_OFFSET = 0.3
# A median speed in the first samples above this fraction of the peak is no start from rest: it is
# 0.07 at most for a movement of minimum jerk that is sampled nine times or more.
UNDER_WAY = 0.08
# The same of eyes, which are at their fastest early in a saccade: simulated ones have 0.1 to 0.15.
_UNDER_WAY_OF_EYES = 0.2
# From fewer trials than this, quartiles say nothing of how much such speeds vary.
_FEWEST_FOR_A_SPREAD = 4
# Trials of which more than this share of the way is left at their end, where most get there.
_FELL_SHORT = 0.5
# Trials that last so many times as long as the usual one, or as small a part of it, are other
# movements: reaches to targets at twice the distance take less than twice as long.
_OTHER_DURATION = 3.0
# Trials that cover less than this fraction of the way to the goal, or of the usual distance.
_HARDLY_MOVED = 0.2
# Pauses between two samples of a trial that are this many usual steps and seconds long.
_PAUSE_STEPS = 20
_PAUSE_SECONDS = 1.0
_TAKEN_FOR_ONE = (
    "were several trials with the same number taken for one? Name every column that tells them "
    'apart, as in trial = ["subject", "trial"].'
)
# Channels that begin so are coordinates of a goal. One that changes in a smaller share of the
# samples than this jumps from goal to goal rather than moving.
_GOALS = ("target_", "goal_")
_JUMPS = 0.05
# A peak speed above this many times the distance over the duration is no movement's: it is 1.9 for
# a movement of minimum jerk, and some 20 for one that follows a long pause.
_SPIKE = 60.0
# By unit, the least and the greatest distance (in it) that a movement can be expected to cover,
# and its highest mean speed.
_EXPECTED = {"m": (2e-3, 3.0, 10.0), "deg": (0.05, 180.0, 1000.0)}
# Seconds that a trial can be expected to last.
_DURATIONS = (5e-3, 600.0)
# Length units that a recording may be in, in metres.
_SIZES = {"m": 1.0, "cm": 1e-2, "mm": 1e-3, "um": 1e-6}
# What reaches cover usually, in metres.
_USUAL_REACH = (0.02, 0.7)


@dataclass(frozen=True)
class Inspected:
    """What the warnings are about.

    - `movements`, `measures`: the trials as they are to be fitted, and what was measured of them.
    - `unit`: of the measured channels, "" if it is not known.
    - `step`: of the model, in seconds; `time_constants`: by name, those of its body.
    - `turned`: whether trials lie on the line from their start to their goal, so that misses by
      the same vector have become different.
    - `default_goal`: the goal that the task assumes where the trials have none.
    - `tracked`: whether goals move, so that trials are no movements from rest to rest.
    - `leads`: whether the model begins before the first sample.
    - `of_arrays`: whether they are `Trials` rather than recordings from a file.
    - `scale`: the factor by which the step `scale` of the preparation has set the unit, if it has.
    """

    movements: Movements
    measures: Measures
    unit: str
    step: float
    time_constants: dict[str, float]
    turned: bool = False
    default_goal: float | None = None
    tracked: bool = False
    leads: bool = False
    of_arrays: bool = False
    scale: float | None = None

    def part(self, which: np.ndarray) -> Inspected:
        """The same of some of the trials."""
        return replace(self, movements=self.movements[which], measures=self.measures[which])


def suspicions(recorded: Movements, inspected: Inspected, groups: Sequence[str]) -> tuple[str, ...]:
    """What looks wrong with recordings, as they were read and as they are to be fitted.

    `groups` are the groups of the trials. What is not wrong with most trials may be wrong with
    those of one group, which is then named.
    """
    return (*_merged(recorded), *suspicions_of_trials(inspected, groups))


def suspicions_of_trials(inspected: Inspected, groups: Sequence[str]) -> tuple[str, ...]:
    """The same without what only the recordings tell, as they were read."""
    return (
        *_few(inspected),
        *_units(inspected),
        *_spikes(inspected),
        *_of_all_or_some(_goals, inspected, groups),
        *_of_all_or_some(_under_way, inspected, groups),
        *_hardly_moved(inspected),
        *_fell_short(inspected),
        *_unusually_long_or_short(inspected),
        *_steps(inspected),
    )


def _of_all_or_some(
    find: Callable[[Inspected], Iterator[str]], inspected: Inspected, groups: Sequence[str]
) -> list[str]:
    """What is found in all trials; if that is nothing, what is found in each group."""
    found = list(find(inspected))
    names = list(dict.fromkeys(groups))
    if found or len(names) < 2:
        return found
    parts = {name: inspected.part(np.array(groups) == name) for name in names}
    return [f"{name}: {text}" for name, part in parts.items() for text in find(part)]


def _merged(recorded: Movements) -> Iterator[str]:
    """Trials with a long pause between two samples: several movements under one number."""
    gaps = [np.diff(times) for times in recorded.times]
    usual = float(np.median(np.concatenate([np.zeros(0), *gaps]))) if gaps else 0.0
    longest = np.array([gap.max(initial=0.0) for gap in gaps])
    paused = longest >= max(_PAUSE_SECONDS, _PAUSE_STEPS * usual)
    if paused.any():
        yield (
            f"{recorded.name_trials(paused)} have a pause of up to {longest.max():.3g} s between "
            f"two samples: {_TAKEN_FOR_ONE}"
        )
    jumping = [
        name for name in recorded.channels if name.startswith(_GOALS) and _jumps(recorded, name)
    ]
    if jumping:
        if len(recorded) > 1:
            yield f"{', '.join(jumping)} jump within a trial: {_TAKEN_FOR_ONE}"
        else:
            yield (
                f"{', '.join(jumping)} jump, and all is one trial: has the table a column that "
                "numbers trials? If not, number them where the goal changes (docs/data.md, One "
                "long stream)."
            )


def _jumps(recorded: Movements, channel: str) -> bool:
    """Whether a channel stays the same but for few jumps, as a goal does from trial to trial."""
    column = recorded.columns([channel])[0]
    changed = np.concatenate([np.diff(samples[:, column]) != 0 for samples in recorded.samples])
    return bool(changed.any()) and float(np.mean(changed)) < _JUMPS


def few_trials(count: int) -> str:
    """What to say of too few trials for standard errors that allow for how trials differ, whatever
    is inferred; empty of more."""
    least = 1 + LEAST_FREEDOM
    if count >= least:
        return ""
    are = "is only 1 trial" if count == 1 else f"are only {count} trials"
    return (
        f"there {are}: standard errors are then those of a model that is right, and do not allow "
        f"for how trials differ, which takes {least} trials at least; most checks of the model "
        "need more, too."
    )


def _few(inspected: Inspected) -> Iterator[str]:
    """Too few trials. A goal that moves is followed for long: few trials of that tell much."""
    text = few_trials(len(inspected.movements))
    if text and not inspected.tracked:
        yield text


def _units(inspected: Inspected) -> Iterator[str]:
    """Distances, speeds and durations that no hand and no eye can have."""
    measures = inspected.measures
    duration = float(np.nanmedian(measures.duration))
    if not _DURATIONS[0] <= duration <= _DURATIONS[1]:
        yield f"trials last {duration:.3g} s: is the unit of time right (time_unit)?"
    if inspected.unit not in _EXPECTED:
        return
    least, most, fastest = _EXPECTED[inspected.unit]
    distance = float(np.nanmedian(measures.distance))
    if not least <= distance <= most:
        yield (
            f"movements cover {distance:.3g} {inspected.unit}: is that their unit?"
            + _better_unit(distance, inspected)
        )
    elif distance > fastest * duration:
        yield (
            f"movements cover {length(distance, inspected.unit)} in {duration:.3g} s: are the "
            "units of length and of time right?"
        )


def _spikes(inspected: Inspected) -> Iterator[str]:
    """Speeds that come from single samples rather than from a movement."""
    measures = inspected.measures
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = measures.peak_speed * measures.duration / measures.distance
    jumping = ratio > _SPIKE
    if 2 * jumping.sum() > len(ratio):
        yield (
            f"{inspected.movements.name_trials(jumping)} jump from one sample to the next: their "
            f"peak speed is {np.nanmedian(ratio):.0f} times their distance over their duration; "
            "look for outliers, and for samples at nearly the same time."
        )


def _better_unit(distance: float, inspected: Inspected) -> str:
    """The unit in which a distance would be that of a reach, if there is one."""
    if inspected.unit != "m":
        return ""
    say_unit = unit_in_python if inspected.of_arrays else unit_in_a_study
    # Of movements that were turned onto the line to their goal, the channels in the file are meant.
    turned = inspected.turned and not inspected.of_arrays
    channel = "x" if turned else next(iter(inspected.movements.channels))
    for name, size in _SIZES.items():
        if _USUAL_REACH[0] <= distance * size <= _USUAL_REACH[1]:
            if inspected.scale is not None:
                return (
                    f" The step scale of [prepare] says so: with factor = "
                    f"{inspected.scale * size:.3g} they cover {distance * size:.3g} m."
                )
            return (
                f" If the numbers are in {name}, they cover {distance * size:.3g} m: say so, as in "
                f"{say_unit(channel, name)}, and the units of other channels and of goals."
            )
    return ""


def _goals(inspected: Inspected) -> Iterator[str]:
    """Goals that movements do not end near, as if they were in another frame."""
    measures, unit = inspected.measures, inspected.unit
    known = np.isfinite(measures.end_error) & np.isfinite(measures.goal_distance)
    if not known.any():
        return
    error = float(np.median(measures.end_error[known]))
    distance = float(np.median(measures.goal_distance[known]))
    covered = float(np.median(measures.distance[known]))
    missed = error / max(distance, covered) if max(distance, covered) > 0 else 0.0
    if missed <= _SHORT:
        return
    offset = None if inspected.turned else _offset(inspected, known)
    ends = f"movements end {length(error, unit)} from their goals"
    if inspected.default_goal is not None:
        yield (
            f"movements cover {length(covered, unit)} and end {length(error, unit)} from the "
            f"task's default target of {length(inspected.default_goal, unit)}: the trials have no "
            "condition target, give them one."
        )
    elif missed <= (_MISSED if offset is None else _OFFSET):
        yield (
            f"{ends}, {100 * missed:.0f} % of the way: do trials hold whole movements, or were "
            f"they cut short?{_aside(inspected, known)}{_which_fell_short(inspected)}"
        )
    else:
        text = (
            f"{ends}, which are {length(distance, unit)} from their starts: are goals in the frame "
            "and the unit of the hand, and with y pointing the same way?"
        )
        if offset is not None:
            numbers = ", ".join(f"{number:.3g}" for number in offset)
            text += f" All miss by about ({numbers}) {unit}".rstrip() + ": an offset."
        yield text


def _aside(inspected: Inspected, known: np.ndarray) -> str:
    """A further question where movements do not end on their way to the goals: where they start,
    where they end and the goal are the corners of a triangle, whose sides tell."""
    measures = inspected.measures
    around = measures.distance[known] + measures.end_error[known]
    detour = np.median(around / np.maximum(measures.goal_distance[known], 1e-300))
    if len(inspected.movements.channels) < 2 or detour < _DETOUR:
        return ""
    return " Or are goals in another frame than the hand, or with y pointing the other way?"


def _offset(inspected: Inspected, known: np.ndarray) -> np.ndarray | None:
    """The vector by which all movements miss goals in different directions, if there is one."""
    ends = inspected.measures.ends[known]
    goals = np.array([samples[-1] for samples in inspected.movements.samples])[known] - ends
    offset: np.ndarray = np.median(ends, axis=0)
    size = float(np.linalg.norm(offset))
    apart = float(np.median(np.linalg.norm(ends - offset, axis=1)))
    spread = float(np.median(np.linalg.norm(goals - np.median(goals, axis=0), axis=1)))
    return offset if apart < _SAME_OFFSET * size and spread > size else None


def _under_way(inspected: Inspected) -> Iterator[str]:
    """Movements that do not start from rest."""
    first = inspected.measures.first_speed[np.isfinite(inspected.measures.first_speed)]
    if first.size < _FEWEST_FOR_A_SPREAD or inspected.tracked or inspected.leads:
        return
    limit = _UNDER_WAY_OF_EYES if inspected.unit == "deg" else UNDER_WAY
    middle = float(np.median(first))
    # The standard error of a median, of a spread that few odd trials do not change.
    low, high = np.quantile(first, [0.25, 0.75])
    error = 1.25 * float(high - low) / 1.35 / np.sqrt(first.size)
    if middle > limit and middle > 2 * error:
        yield (
            f"movements are under way at the first sample: their speed is {100 * middle:.0f} % of "
            f"its peak there, at the median (more than {100 * limit:.0f} % in "
            f"{int((first > limit).sum())} of {first.size} trials). The model begins at rest: "
            "try lead = 0.05 to 0.1 s, or cut with a margin."
        )


def _hardly_moved(inspected: Inspected) -> Iterator[str]:
    """Trials that cover only a small part of the way."""
    measures = inspected.measures
    usual = float(np.nanmedian(measures.distance))
    way = np.where(np.isfinite(measures.goal_distance), measures.goal_distance, usual)
    if inspected.tracked:
        return
    still = measures.distance < _HARDLY_MOVED * np.minimum(way, usual)
    if still.any():
        yield (
            f"{inspected.movements.name_trials(still)} hardly move: they cover at most "
            f"{length(float(measures.distance[still].max()), inspected.unit)}; look at them, and "
            "leave them out if nobody moved."
        )


def _fell_short(inspected: Inspected) -> Iterator[str]:
    """Single trials that end far from their goals, where most movements get there."""
    measures = inspected.measures
    with np.errstate(divide="ignore", invalid="ignore"):
        left = measures.end_error / measures.goal_distance
    if inspected.tracked or inspected.default_goal is not None or not np.isfinite(left).any():
        return
    if np.nanmedian(left) > _SHORT:
        return
    moved = measures.distance >= _HARDLY_MOVED * float(np.nanmedian(measures.distance))
    if text := _which_fell_short(inspected, moved):
        yield text.strip()


def _which_fell_short(inspected: Inspected, which: Any = True) -> str:
    """How many trials end before half of the way to their goals, and how to leave them out."""
    measures = inspected.measures
    with np.errstate(invalid="ignore"):
        short = (measures.end_error > _FELL_SHORT * measures.goal_distance) & which
    if not short.any() or short.all():
        return ""
    return (
        f" {inspected.movements.name_trials(short)} end before {100 * _FELL_SHORT:.0f} % of the "
        "way to their goals: the model describes whole movements, not parts of one. To leave "
        f"them out, write least = {{ way = {1 - _FELL_SHORT:g} }} in [prepare]."
    )


def _unusually_long_or_short(inspected: Inspected) -> Iterator[str]:
    """Trials that last much longer or shorter than the others."""
    duration = inspected.measures.duration
    usual = float(np.nanmedian(duration))
    if inspected.tracked or usual <= 0:
        return
    short, long = duration * _OTHER_DURATION < usual, duration > _OTHER_DURATION * usual
    kinds = [
        ("less than a third of that", short, "least", 1 / _OTHER_DURATION),
        ("more than three times that", long, "most", _OTHER_DURATION),
    ]
    kinds = [kind for kind in kinds if kind[1].any()]
    if kinds:
        lasting = " and ".join(
            f"{inspected.movements.name_trials(which)} {how} ({_range(duration[which])} s)"
            for how, which, _, _ in kinds
        )
        steps = " and ".join(
            f"{step} = {{ duration = {usual * factor:.2g} }}" for _, _, step, factor in kinds
        )
        yield (
            f"trials last {usual:.2g} s at the median, but {lasting}: are these the same movement? "
            f"They make a fit slow, too. To leave them out, write {steps} in [prepare]."
        )


def _range(values: np.ndarray) -> str:
    """The least and the greatest of some values, as text."""
    low, high = f"{values.min():.2g}", f"{values.max():.2g}"
    return low if low == high else f"{low} to {high}"


def _steps(inspected: Inspected) -> Iterator[str]:
    """A model that steps over what its body does."""
    for name, seconds in inspected.time_constants.items():
        if inspected.step > seconds:
            yield (
                f"the model's step of {inspected.step:g} s is longer than the time constant {name} "
                f"of {seconds:g} s: choose a shorter one, as in dt = {_shorter(seconds):g}; "
                "steps without a sample stay unobserved."
            )


def _shorter(seconds: float) -> float:
    """A step that a time constant has four of, in one digit."""
    return float(f"{seconds / 4:.0e}")


def length(value: float, unit: str) -> str:
    """A distance in words; metres below one are in centimetres or millimetres."""
    if unit == "m" and abs(value) < 0.01:
        return f"{1000 * value:.3g} mm"
    if unit == "m" and abs(value) < 1:
        return f"{100 * value:.3g} cm"
    return f"{value:.3g} {unit}".rstrip()
