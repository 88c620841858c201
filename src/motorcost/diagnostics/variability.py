"""Why trials differ: how much of the variance each source of variability explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost.errors import InputError
from motorcost.fitting.fitted import Fit
from motorcost.fitting.objective import Objective
from motorcost.inference.grouping import Group, group_trials
from motorcost.model.observer import Observer
from motorcost.model.problem import Problem
from motorcost.model.sources import SOURCES, contributions
from motorcost.numerics.compiling import lean_jit

if TYPE_CHECKING:
    from motorcost.plots.style import CaptionedFigure

RECORDING = "recording noise"
MIDDLE, END = "middle", "end"
# Shares below this are not put into words.
_SAID = 0.005


@dataclass(frozen=True)
class Variability:
    """How trials of the same condition differ in one channel, at one moment.

    - `channel`, `unit`: what was recorded.
    - `when`: "middle", half of the time from a trial's first sample to its last step, or "end",
      its last step.
    - `sd`: the standard deviation between trials of the same condition, according to the fitted
      model; `recorded_sd`: that of the samples around the model's mean (NaN where none is recorded
      at that step).
    - `shares`: by source, the part of the variance (`sd` squared) that it explains; they add up to
      1. A source that explains nothing is left out.

    Examples
    --------
    >>> end = mc.variance_shares(fit)[-1]
    >>> end.channel, end.unit, sorted(end.shares)
    ('position', 'm', ['motor noise', 'recording noise', 'sensory noise'])
    """

    channel: str
    unit: str
    when: str
    sd: float
    recorded_sd: float
    shares: dict[str, float]

    def plot(self) -> CaptionedFigure:
        """Draw the shares of this channel and moment; `mc.plots.plot_variability` draws several."""
        from motorcost.plots.variability import plot_variability

        return plot_variability([self])

    @property
    def words(self) -> str:
        """How much trials differ and why, in a sentence."""
        largest = sorted(self.shares.items(), key=lambda share: -share[1])
        sources = [f"{100 * share:.0f} % {name}" for name, share in largest if share > _SAID]
        where = "in the middle" if self.when == MIDDLE else "at the end"
        return (
            f"{self.channel} {where} differs by {self.sd:.3g} {self.unit}".rstrip()
            + f" (SD) between trials of the same condition: {', '.join(sources)}."
        )


def variability_table(found: Sequence[Variability]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of a table with one row for each channel and moment."""
    sources = list(dict.fromkeys(name for part in found for name in part.shares))
    sources.sort(key=[*SOURCES, RECORDING].index)
    header = ["", "SD of the model", "SD recorded", *sources]
    rows = [
        [
            f"{part.channel}, {part.when}",
            f"{part.sd:.3g} {part.unit}".rstrip(),
            "" if np.isnan(part.recorded_sd) else f"{part.recorded_sd:.3g} {part.unit}".rstrip(),
            *[f"{100 * part.shares.get(source, 0.0):.1f} %" for source in sources],
        ]
        for part in found
    ]
    return header, rows


def variance_shares(fit: Fit) -> tuple[Variability, ...]:
    """Say how much of the variance of movements each source explains, at the estimates.

    The sources are where the hand starts, where the agent aims, motor noise, other noise in the
    process, sensory noise, noise in the agent's estimate, and recording noise. Shares are exact
    for the fitted model: its gains are fixed, noises are counted as they occur, and what they
    contribute adds up (`motorcost.model.sources`). Variances are averaged over trials, each
    around the mean of its own condition.

    Returns a `Variability` for each recorded channel that varies, in the middle and at the end.

    Examples
    --------
    >>> middle, end = mc.variance_shares(fit)
    >>> middle.when, end.when, round(sum(end.shares.values()), 6)
    ('middle', 'end', 1.0)
    """
    if fit.interrupted:
        raise InputError("the fit was interrupted: there is nothing to explain yet")
    if not fit.converged:
        raise InputError("the search did not settle at a maximum: there is nothing to explain")
    trials = fit.trials
    variance, mean = (np.asarray(part) for part in _moments(fit.objective, jnp.asarray(fit.point)))
    observed = np.asarray(trials.observed)
    last, lead = trials.lengths - 1, trials.lead_steps
    moments = {MIDDLE: lead + (last - lead) // 2, END: last}
    every_trial = np.arange(len(trials))
    found = []
    for i, (name, unit) in enumerate(zip(trials.channel_names, trials.channel_units, strict=True)):
        for when, step in moments.items():
            of_sources = variance[:, every_trial, step, i].mean(axis=1)
            distance = observed[every_trial, step, i] - mean[every_trial, step, i]
            found.append(_variability((name, unit, when), of_sources, distance))
    return tuple(part for part in found if part.sd > 0)


def _variability(
    labels: tuple[str, str, str], of_sources: np.ndarray, distance: np.ndarray
) -> Variability:
    """The variability of one channel at one moment, from the variance of each source and the
    distance of each trial's sample from its mean."""
    total = float(of_sources.sum())
    named = zip([*SOURCES, RECORDING], of_sources.tolist(), strict=True)
    there = distance[np.isfinite(distance)]
    return Variability(
        *labels,
        sd=float(np.sqrt(total)),
        recorded_sd=float(np.sqrt(np.mean(there**2))) if there.size else np.nan,
        shares={name: value / total for name, value in named if value > 0},
    )


@lean_jit
def _moments(
    objective: Objective, point: Float[Array, " p"]
) -> tuple[Float[Array, "sources N T o"], Float[Array, "N T o"]]:
    """The variance of each recorded channel by source, the recording last, and its mean."""
    trials = objective.trials
    N, T, o = trials.observed.shape
    variance = jnp.full((len(SOURCES) + 1, N, T, o), jnp.nan)
    mean = jnp.full((N, T, o), jnp.nan)
    for group, index in group_trials(objective.at(point), trials, None, None):
        of_group, mean_of_group = _group_moments(group.solved())
        filled = index >= 0
        length = mean_of_group.shape[2]
        variance = variance.at[:, index[filled], :length].set(of_group[:, filled])
        mean = mean.at[index[filled], :length].set(mean_of_group[filled])
    return variance, mean


def _group_moments(
    group: Group,
) -> tuple[Float[Array, "sources C N T o"], Float[Array, "C N T o"]]:
    in_each = group.samples.shape[1]

    def of_condition(problem: Problem, policy: Any, observer: Observer, starts: Any) -> Any:
        def of_trial(start: Any) -> tuple[Array, Array]:
            found = contributions(problem, policy, start)
            S, U = observer.S, observer.U
            variance = jnp.einsum("toi,stij,toj->sto", S, found.cov, S)
            recording = jnp.einsum("tou,tou->to", U, U)
            return jnp.concatenate([variance, recording[None]]), jnp.einsum(
                "toi,ti->to", S, found.mean
            )

        if starts is not None:
            return jax.vmap(of_trial)(starts)
        return jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (in_each, *leaf.shape)), of_trial(None)
        )

    parts = (group.problem, group.policy, group.observer, group.starts)
    variance, mean = jax.vmap(of_condition)(*parts)
    return jnp.moveaxis(variance, 2, 0), mean
