"""The reaching model fitted to one person's recorded reaches, and checked: a row of figure 3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from motorcost.diagnostics import check_fit
from motorcost.experiments.reaches import LABELS as COSTS
from motorcost.experiments.recorded_reaches import DT, Reaches
from motorcost.fitting.baselines import with_average_noise
from motorcost.fitting.batching import log_likelihoods_along
from motorcost.fitting.estimate import fit
from motorcost.fitting.fitted import Fit
from motorcost.model.observer import ObserverSpec
from motorcost.tasks import defaults, reaching
from motorcost.tasks.supports import LogUniform

SUPPORTS = {
    "effort": LogUniform(1e-8, 1e-2),
    "velocity": LogUniform(0.02, 5.0),
    "force": LogUniform(3e-4, 0.5),
    "motor_noise": LogUniform(0.01, 3.0),
    "recording_noise": LogUniform(1e-5, 0.1),
}
# The number of evaluations of the likelihood that one search may take.
MOST_EVALUATIONS = 100
# The paper holds motor noise at the value of its simulations.
USUAL_NOISE = float(defaults(reaching)["motor_noise"])
CAMERA = ObserverSpec(["position"])


@dataclass(frozen=True, eq=False)
class Fitting:
    """Fits one subject, and checks the fit: a function to sweep over subjects, treatments of motor
    noise ("fixed" or "free") and leads.

    - `reaches`: the recorded reaches, by lead in milliseconds.
    - `starts`: the number of starts of a fit; `replicates`: of simulated data sets in its check.
    - `points`: the number of points of the likelihood along each cost, the others held.
    - `most`: the largest number of trials of a subject, None for all.
    - `profiled`: parameters whose interval follows the profile likelihood, not the curvature.
    - `baseline`: whether the model with average noise is fitted too, for the first lead.
    """

    reaches: Mapping[int, Reaches]
    starts: int
    points: int
    replicates: int
    most: int | None = None
    profiled: tuple[str, ...] = ()
    baseline: bool = True

    def __call__(self, *, key: Any, subject: str, noise: str, lead: int) -> dict[str, Any]:
        """Fit the trials of one subject."""
        keys = jax.random.split(key, 3)
        trials = self.reaches[lead].of(subject, self.most)
        free = {n: s for n, s in SUPPORTS.items() if n != "motor_noise" or noise == "free"}
        found = fit(
            reaching,
            trials,
            free,
            observer=CAMERA,
            n_starts=self.starts,
            max_evaluations=MOST_EVALUATIONS,
            key=keys[0],
        )
        row: dict[str, Any] = {"trials": len(trials), **self._estimates(found)}
        row |= {
            "log_likelihood": found.log_likelihood,
            "baseline": np.nan,
            "starts_agreed": found.agreed,
            "converged": found.converged,
            "at_bounds": ", ".join(found.at_bounds),
        }
        if self.baseline and lead == next(iter(self.reaches)):
            row["baseline"] = _with_average_noise(found, keys[1]).log_likelihood
        checked = check_fit(found, key=keys[2], n_replicates=self.replicates)
        (position,) = checked.channels
        for name in ("n", "mean", "variance", "kurtosis", "lag"):
            row[f"innovations_{name}"] = getattr(position, name)
        row |= {"coverage": position.coverage, "covered": position.covered}
        row["verdict"] = " ".join(checked.verdicts)
        course = checked.replicates[:, :, :, 0].mean(axis=0)
        row |= _explained(np.asarray(trials.observed)[:, :, 0], course)
        return row | self._slices(found)

    def _estimates(self, found: Fit) -> dict[str, float]:
        ends = found.interval(0.95)
        if self.profiled and found.converged:
            coordinates = {c.name: c.support for c in found.objective.coordinates}
            for profile in found.profiles(0.95, self.profiled):
                ends[profile.name] = coordinates[profile.name].natural(profile.ends)
        row = {}
        for name in SUPPORTS:
            row[f"{name}_found"] = found.estimates.get(name, USUAL_NOISE)
            row[f"{name}_se"] = found.search_scale_errors.get(name, np.nan)
            row[f"{name}_low"], row[f"{name}_high"] = ends.get(name, (np.nan, np.nan))
        return row

    def _slices(self, found: Fit) -> dict[str, float]:
        """Points of the negative log likelihood along each cost, the others at their estimates:
        five standard errors either way, at most a factor of a thousand, within the support."""
        which = [found.names.index(name) for name in COSTS]
        lines = []
        for k, name in zip(which, COSTS, strict=True):
            reach = min(
                5 * np.nan_to_num(found.search_scale_errors[name], posinf=10.0), np.log(1000.0)
            )
            line = np.tile(found.point, (self.points, 1))
            low, high = np.clip(
                found.point[k] + np.array([-reach, reach]), *found.objective.bounds[k]
            )
            # The estimate is in the middle, even if the support ends near it.
            ends = np.array([low, found.point[k], high])
            line[:, k] = np.interp(np.linspace(0, 2, self.points), [0, 1, 2], ends)
            lines.append(line)
        values = log_likelihoods_along(found.objective, np.concatenate(lines))
        row: dict[str, float] = {}
        for k, name, line, heights in zip(which, COSTS, lines, np.split(values, 3), strict=True):
            at = np.asarray(found.objective.coordinates[k].support.from_search_scale(line[:, k]))
            row |= {f"{name}_{i}_at": float(x) for i, x in enumerate(at)}
            row |= {f"{name}_{i}_nll": -float(value) for i, value in enumerate(heights)}
        return row


def _with_average_noise(found: Fit, key: Any) -> Fit:
    """The paper's baseline for the same trials: additive noise of the same mean strength over a
    trial as in the fitted model. Costs and recording noise are fitted again."""
    held = {name: found.estimates.get(name, USUAL_NOISE) for name in (*COSTS, "motor_noise")}
    free = {name: SUPPORTS[name] for name in (*COSTS, "recording_noise")}
    # Noise that followed the costs that are tried would take minutes to compile.
    return fit(
        with_average_noise(reaching, held),
        found.trials,
        free,
        observer=CAMERA,
        n_starts=0,
        starts=[{name: found.estimates[name] for name in free}],
        max_evaluations=MOST_EVALUATIONS,
        key=key,
    )


def _explained(observed: np.ndarray, course: np.ndarray) -> dict[str, float]:
    """R² of the model's mean course of each trial, for positions and for velocities by finite
    differences."""
    pairs: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {"position": [], "velocity": []}
    for positions, predicted in zip(observed, course, strict=True):
        there = np.flatnonzero(np.isfinite(positions))
        recorded, expected = positions[there], predicted[there]
        pairs["position"].append((recorded, expected))
        gaps = np.diff(there) * DT
        pairs["velocity"].append((np.diff(recorded) / gaps, np.diff(expected) / gaps))
    result = {}
    for name, of_trials in pairs.items():
        data, model = (np.concatenate(parts) for parts in zip(*of_trials, strict=True))
        result[f"r2_{name}"] = float(
            1 - np.sum((data - model) ** 2) / np.sum((data - data.mean()) ** 2)
        )
    return result
