"""Recorded reaches, read and cut for figure 3: of a monkey, or of people who point."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from motorcost.data.joining import concatenate_movements
from motorcost.data.movements import Movements
from motorcost.errors import InputError
from motorcost.io import datasets
from motorcost.io.matlab import from_dream, read_mat
from motorcost.model.trials import Trials

# Seconds per step of the model.
DT = 0.01
# The speed in m/s below which a hand is at rest.
SPEED = 0.05
# Metres per pixel, as in the documentation's example.
PIXEL = 0.00026
# Bytes of the largest file that is read: DREAM's files contain field potentials besides.
LARGEST = 8 * 2**30
# The first letters of file names, in order: young people, aged people, people after a stroke.
GROUPS = ("cp", "ap", "pp")


@dataclass(frozen=True, eq=False)
class Reaches:
    """Recorded reaches as plain arrays, which can be sent to workers.

    - `subjects`, `lengths`, `targets`: one name, number of model steps and distance (m) per trial.
    - `samples`: (trial, step), positions in m, NaN where nothing was recorded.
    """

    subjects: tuple[str, ...]
    samples: np.ndarray
    lengths: np.ndarray
    targets: np.ndarray

    @property
    def people(self) -> list[str]:
        """The subjects without duplicates, in order."""
        return list(dict.fromkeys(self.subjects))

    def of(self, subject: str, most: int | None = None) -> Trials:
        """The trials of a subject; at most `most`, those nearest to the median duration."""
        which = np.array([i for i, name in enumerate(self.subjects) if name == subject])
        if most is not None:
            away = np.abs(self.lengths[which] - np.median(self.lengths[which]))
            which = np.sort(which[np.argsort(away, kind="stable")[:most]])
        longest = int(self.lengths[which].max())
        return Trials(
            self.samples[which, :longest, None],
            jnp.arange(longest) * DT,
            channels={"position": "m"},
            lengths=self.lengths[which],
            conditions={"target": self.targets[which]},
        )


def recorded(folder: Any) -> Movements:
    """The reaches in a folder, x and y in m, each from when its target came on: of the monkey if
    its files are there, else of people who point. Conditions: `goal_x`, `goal_y`, `subject`, and
    whether only the horizontal component counts (`level`)."""
    monkey, people = datasets.describe("flint2012"), datasets.describe("pointing")
    path = Path(folder) if folder is not None else None
    found = {
        dataset.name: sorted(file for pattern in dataset.files for file in path.glob(pattern))
        for dataset in (monkey, people)
        if path is not None and path.is_dir()
    }
    if files := found.get("flint2012"):
        return concatenate_movements([monkey_reaches(file) for file in files])
    if files := found.get("pointing"):
        files.sort(key=lambda file: (GROUPS.index(file.stem[:2]), file.stem))
        return concatenate_movements([pointing_reaches(file) for file in files])
    where = "no folder was given" if path is None else f"{path.name or path} has neither"
    raise InputError(
        f"fig3 needs a folder (--data) with {monkey.files[0]} from {monkey.where} "
        f"({monkey.licence}) or {people.files[0]} from {people.where} ({people.licence}); {where}"
    )


def cut_out(movements: Movements, lead: float) -> Reaches:
    """The movements themselves, as distances from where they start.

    A movement starts `lead` seconds before the last sample at rest before the peak of speed, and
    ends at the first one after it. Along the line from its start to its goal, or of that line the
    horizontal component. Kept are movements that end nearer to their goal than half the way: after
    a stroke people get there in several.
    """
    level = bool(movements.conditions["level"].all())
    smooth = 0.05 if level else 0.0  # the monkey was recorded fast enough to need it
    bare = movements.cut(SPEED, smooth=smooth)
    ends = [time[-1] for time in bare.times]
    wide = movements.cut(SPEED, smooth=smooth, margin=lead)
    kept = [time <= end for time, end in zip(wide.times, ends, strict=True)]
    wide = replace(
        wide,
        samples=tuple(x[inside] for x, inside in zip(wide.samples, kept, strict=True)),
        times=tuple(time[inside] for time, inside in zip(wide.times, kept, strict=True)),
    )
    if level:
        first = np.array([x[0] for x in wide.samples])
        flat = wide.conditions["goal_x"] - first[:, 0]
        wide = replace(
            wide,
            samples=tuple(x[:, :1] - x[0, 0] for x in wide.samples),
            channels={"position": "m"},
        ).with_conditions(target=flat)
    else:
        wide = wide.along(("goal_x", "goal_y"))
    wide = wide.select(["position"], ["target", "subject"])
    target = wide.conditions["target"]
    left = np.abs(np.array([x[-1, 0] for x in wide.samples]) - target)
    trials = wide.keep(left < 0.5 * np.abs(target), "they do not end at the goal").trials(DT)
    return Reaches(
        tuple(str(subject) for subject in trials.conditions["subject"]),
        np.array(trials.observed[:, :, 0]),
        np.array(trials.lengths),
        np.array(trials.conditions["target"]),
    )


def pointing_reaches(file: Path) -> Movements:
    """The outward movements in a file of the pointing data."""
    movements = datasets.load("pointing", file)
    if file.stem.startswith("pp03"):
        movements = movements[1:]  # edited by the authors of the data
    movements = movements.keep(movements.conditions["outward"], "return movements")
    movements = movements.rename(target_x="goal_x", target_y="goal_y")
    movements = movements.scaled(PIXEL, "m", ["x", "y", "goal_x", "goal_y"])
    return movements.select(conditions=["goal_x", "goal_y", "subject"]).with_conditions(level=False)


def monkey_reaches(file: Path) -> Movements:
    """The reaches towards the target at 0 degrees in a DREAM file of Flint et al. A subject is a
    recording session.

    `TargetPos` (time, axis) is where the target is shown, in metres as `HandPos`, NaN while there
    is none; the outer targets lie around a centre. A reach starts when the last target comes on.
    """
    variables = read_mat(file, LARGEST)
    hand = from_dream(variables, file.name).select(["x", "y"], ["subject"])
    # Read as if it were a hand, the target's course passes the same checks.
    shown = from_dream(_target_as_hand(variables), file.name).select(["x", "y"], ["subject"])
    goal = np.array([_last_shown(positions) for positions in shown.samples], float)
    right = _to_the_right(goal, shown, file.name)
    since = [_came_on(positions, at) for positions, at in zip(shown.samples, goal, strict=True)]
    hand = hand.with_conditions(
        goal_x=goal[:, 0],
        goal_y=goal[:, 1],
        subject=[f"{file.stem}/{session}" for session in hand.conditions["subject"]],
        level=True,
    )
    hand = replace(
        hand,
        samples=tuple(x[i:] for x, i in zip(hand.samples, since, strict=True)),
        times=tuple(time[i:] for time, i in zip(hand.times, since, strict=True)),
        channels={"x": "m", "y": "m"},
        condition_units={"goal_x": "m", "goal_y": "m"},
    )
    return hand.keep(right, "towards other targets")


def _last_shown(positions: np.ndarray) -> np.ndarray:
    """Where the target of a trial was shown last, NaN if it never was."""
    last = np.flatnonzero(np.isfinite(positions).all(axis=1))[-1:]
    return positions[last[0]] if last.size else np.full(2, np.nan)


def _to_the_right(goal: np.ndarray, shown: Movements, file: str) -> np.ndarray:
    """Which trials have an outer target right of the centre of their session."""
    sessions = shown.conditions["subject"]
    from_centre = np.full_like(goal, np.nan)
    for session in np.unique(sessions):
        trials = sessions == session
        positions = np.concatenate([shown.samples[i] for i in np.flatnonzero(trials)])
        from_centre[trials] = goal[trials] - _centre(positions)
    distance = np.hypot(*from_centre.T)
    with np.errstate(invalid="ignore"):
        outer = distance > 0.5 * np.nanmax(distance, initial=0.0)
        right = outer & (np.abs(np.degrees(np.arctan2(*from_centre.T[::-1]))) < 22.5)
    if not right.any():
        raise InputError(f"{file}: needs reaches to a target right of the centre, got none")
    if not 0.01 < np.median(distance[right]) < 1.0:
        raise InputError(
            f"{file}: needs targets in metres, got {np.median(distance[right]):.3g} from the "
            "centre to the right one"
        )
    return right


def _target_as_hand(struct: Any) -> Any:
    if isinstance(struct, list):
        return [_target_as_hand(entry) for entry in struct]
    if not isinstance(struct, dict):
        return struct
    if "TargetPos" in struct:
        return {"Time": struct.get("Time"), "HandPos": struct["TargetPos"]}
    return {name: _target_as_hand(value) for name, value in struct.items()}


def _centre(shown: np.ndarray) -> np.ndarray:
    """The middle of the targets of a session, each counted once (to a millimetre)."""
    there = shown[np.isfinite(shown).all(axis=1)]
    return np.unique(there.round(3), axis=0).mean(axis=0) if len(there) else np.full(2, np.nan)


def _came_on(shown: np.ndarray, goal: np.ndarray) -> int:
    """The first sample of the last time that the target was shown at `goal`."""
    on = np.isclose(shown, goal, atol=1e-3).all(axis=1)
    before = np.flatnonzero(on[1:] & ~on[:-1])
    return int(before[-1]) + 1 if before.size else 0
