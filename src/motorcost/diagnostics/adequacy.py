"""Does the model fit? Innovations that should be white, and simulations that should look alike."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from motorcost.diagnostics.replicates import replicated_samples
from motorcost.errors import InputError
from motorcost.fitting.fitted import Fit
from motorcost.inference.beliefs import Beliefs

# Deviations that are large enough to mention. Of the variance of whitened innovations, from 1.
VARIANCE = 0.15
# Of their mean, and of their correlation from one sample to the next, from 0.
CORRELATION = 0.1
# Of the share of samples within the simulated band of 95 %.
COVERAGE = 0.05
# Standard errors that chance alone exceeds once in a hundred times.
BY_CHANCE = 2.6


@dataclass(frozen=True)
class Channel:
    """How one recorded channel is explained.

    - `variance` (1 if the model is right), `mean` (0), `kurtosis` (3) and `lag` (0: correlation
      from one sample to the next) of the whitened innovations, `n` of them.
    - `coverage`: the share of samples within the middle 95 % of simulated ones, where it should
      be `covered` (95 %, but for how few experiments were simulated); `trials` of them.
    """

    name: str
    n: int
    mean: float
    variance: float
    kurtosis: float
    lag: float
    coverage: float
    covered: float
    trials: int

    @property
    def verdicts(self) -> list[str]:
        """What the model misses, in sentences; empty if it misses nothing large."""
        if self.n < 10:
            return []
        sentences = []
        few = BY_CHANCE / np.sqrt(self.n)
        if abs(self.mean) > max(few, CORRELATION):
            way = "more" if self.mean > 0 else "less"
            sentences.append(
                f"{self.name} is on average {way} than predicted, by {abs(self.mean):.2f} SD."
            )
        if abs(self.variance - 1) > max(2 * few, VARIANCE):
            way = "more" if self.variance > 1 else "less"
            sentences.append(
                f"{self.name} varies {way} from sample to sample than the model says: "
                f"{self.variance:.2g} times its variance."
            )
        if abs(self.lag) > max(few, CORRELATION):
            sentences.append(
                f"{self.name} misses persist from one sample to the next (correlation "
                f"{self.lag:+.2f}): the movement's course is not quite the model's."
            )
        # The samples of a trial miss together: it is the number of trials that counts.
        by_chance = BY_CHANCE * np.sqrt(self.covered * (1 - self.covered) / self.trials)
        if abs(self.coverage - self.covered) > max(COVERAGE, by_chance):
            sentences.append(
                f"{100 * self.coverage:.0f} % of {self.name} samples lie within the band where "
                f"{100 * self.covered:.0f} % should."
            )
        return sentences


@dataclass(frozen=True)
class Adequacy:
    """Whether a fitted model is like the data. `innovations` and `replicates` (experiment,
    trial, time, channel) are what it was judged by, for pictures."""

    channels: tuple[Channel, ...]
    beliefs: Beliefs
    replicates: np.ndarray

    @property
    def verdicts(self) -> list[str]:
        """What the model misses, in sentences."""
        return [line for channel in self.channels for line in channel.verdicts]

    @property
    def passed(self) -> bool:
        """Whether nothing large is missed."""
        return not self.verdicts

    def __str__(self) -> str:
        lines = [
            f"{'channel':<12}{'samples':>8}{'mean':>8}{'variance':>10}{'kurtosis':>10}"
            f"{'lag':>8}{'in 95 %':>9}"
        ]
        lines += [
            f"{c.name:<12}{c.n:>8}{c.mean:>8.2f}{c.variance:>10.3f}{c.kurtosis:>10.2f}"
            f"{c.lag:>8.2f}{100 * c.coverage:>8.1f}%"
            for c in self.channels
        ]
        return "\n".join([*lines, *(self.verdicts or ["The model misses nothing large."])])


def check_fit(fit: Fit, *, key: Any, n_replicates: int = 40) -> Adequacy:
    """Compare the trials with what the fitted model predicts and simulates.

    Innovations are samples minus their prediction from the samples before them, whitened: white
    and standard normal if the model is right. Replicates are experiments simulated at the
    estimates.
    """
    if fit.interrupted:
        raise InputError("the fit was interrupted: there is nothing to check yet")
    beliefs = fit.beliefs()
    replicates = replicated_samples(fit, n_replicates=n_replicates, key=key)
    observed = np.asarray(fit.objective.trials.observed)
    innovations = np.asarray(beliefs.innovations)
    names = fit.objective.trials.channel_names
    channels = [
        _judged(name, innovations[:, :, i], observed[:, :, i], replicates[:, :, :, i])
        for i, name in enumerate(names)
    ]
    return Adequacy(tuple(channels), beliefs, replicates)


def _judged(
    name: str, innovations: np.ndarray, observed: np.ndarray, replicates: np.ndarray
) -> Channel:
    there = np.isfinite(innovations)
    e = innovations[there]
    n = len(e)
    covers = _coverage(observed, replicates)
    if n == 0:  # recorded without noise, and certain given what came before
        return Channel(name, 0, np.nan, np.nan, np.nan, np.nan, *covers, len(observed))
    centred = e - e.mean()
    variance = float(e.var())
    products = [
        values[1:] * values[:-1]
        for trial, present in zip(innovations, there, strict=True)
        if (values := trial[present]).size > 1
    ]
    lag = float(np.concatenate(products).mean() / np.mean(e**2)) if products else 0.0
    return Channel(
        name=name,
        n=n,
        mean=float(e.mean()),
        variance=variance,
        kurtosis=float(np.mean(centred**4) / variance**2) if variance > 0 else np.nan,
        lag=lag,
        coverage=covers[0],
        covered=covers[1],
        trials=len(observed),
    )


def _coverage(observed: np.ndarray, replicates: np.ndarray) -> tuple[float, float]:
    """The share of samples between the 2.5 % and 97.5 % quantiles of their own replicates, and
    the share that there should be: of R replicates and a sample, any rank is as likely."""
    R = len(replicates)
    ranks = np.arange(R + 1) / R
    should = float(np.mean((ranks >= 0.025) & (ranks <= 0.975)))
    present = np.isfinite(observed)
    varied = present & (np.ptp(replicates, axis=0) > 1e-9 * np.nanmax(np.abs(observed)))
    if not varied.any():
        return np.nan, should
    rank = (replicates[:, varied] < observed[varied]).mean(axis=0)
    rank = rank + 0.5 * (replicates[:, varied] == observed[varied]).mean(axis=0)
    return float(np.mean((rank >= 0.025) & (rank <= 0.975))), should
