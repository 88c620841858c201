"""Does the model fit? Innovations that should be white, and simulations that should look alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from motorcost import checks
from motorcost.diagnostics.discrepancies import (
    FEWEST,
    Statistic,
    coverage_statistics,
    deviation_limit,
    improbability,
    innovation_statistics,
    phases,
    ranks,
    worst_statistic,
)
from motorcost.diagnostics.replicates import FilteredExperiments, filtered_experiments
from motorcost.errors import InputError
from motorcost.fitting.fitted import Fit
from motorcost.inference.beliefs import Beliefs

# Simulated experiments that are needed to tell what varies by chance.
FEWEST_REPLICATES = 10
# Groups of fewer trials than this are not judged by themselves.
FEWEST_TRIALS = 4
# How many of the least probable trials are listed.
WORST_TRIALS = 3

UNSETTLED = "The search did not settle: whether the model fits cannot be said."
NOTHING_MISSED = "The model misses nothing large."


@dataclass(frozen=True)
class Channel:
    """How one recorded channel is explained, in all samples or in a part of them.

    - `where`: the part: empty for all samples, "mid-movement", or a group such as "for subject
      anna"; `trials`: of how many trials.
    - `variance` (1 if the model is right), `mean` (0), `kurtosis` (about 3) and `lag` (0:
      correlation from one sample to the next) of the whitened innovations, `n` of them.
    - `coverage`: the share of samples within the middle 95 % of simulated ones, where it should
      be `covered` (95 %, but for how few experiments were simulated); `half`: the share within the
      middle half.
    - `expected_kurtosis`: that of simulated experiments.
    - `missed`: the names of those of these numbers that are far from what they should be, by more
      than chance.
    - `deviation`: the largest deviation, in units of what chance allows.
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
    half: float = 0.5
    expected_kurtosis: float = 3.0
    where: str = ""
    missed: tuple[str, ...] = ()
    deviation: float = 0.0

    @property
    def verdicts(self) -> list[str]:
        """What the model misses, in sentences; empty if it misses nothing large."""
        words = {
            "mean": self._mean,
            "variance": self._variance,
            "kurtosis": self._kurtosis,
            "lag": self._lag,
        }
        lines = [sentence() for name, sentence in words.items() if name in self.missed]
        if {"coverage", "half"} & set(self.missed):
            lines.append(self._coverage())
        return lines

    @property
    def numbers(self) -> str:
        """The numbers that tell most about a part, in a few words."""
        return (
            f"variance {self.variance:.2f}, kurtosis {self.kurtosis:.1f}, lag {self.lag:+.2f}, "
            f"{100 * self.coverage:.0f} % within 95 %, {100 * self.half:.0f} % within the middle "
            "half"
        )

    @property
    def _subject(self) -> str:
        return f"{self.name} {self.where}".rstrip()

    def _mean(self) -> str:
        way = "more" if self.mean > 0 else "less"
        return f"{self._subject} is on average {way} than predicted, by {abs(self.mean):.2f} SD."

    def _variance(self) -> str:
        way = "more" if self.variance > 1 else "less"
        return (
            f"{self._subject} varies {way} from sample to sample than the model says: "
            f"{self.variance:.2g} times its variance."
        )

    def _kurtosis(self) -> str:
        way = "more" if self.kurtosis > self.expected_kurtosis else "fewer"
        return (
            f"{self._subject} has {way} large misses than the model says: the kurtosis of its "
            f"innovations is {self.kurtosis:.1f}, in simulated trials {self.expected_kurtosis:.1f}."
        )

    def _lag(self) -> str:
        return (
            f"{self._subject} misses persist from one sample to the next (correlation "
            f"{self.lag:+.2f}): the movement's course is not quite the model's."
        )

    def _coverage(self) -> str:
        less, more = "trials differ less from each other than", "trials differ more from"
        outer = "coverage" in self.missed and self.coverage < self.covered
        inner = "half" in self.missed and self.half > 0.5
        if outer and inner:
            how = "most trials are closer to the model's mean than its own, a few much further"
        elif self.coverage > self.covered or ("half" in self.missed and self.half > 0.5):
            how = f"{less} the model's"
        else:
            how = f"{more} the model's mean than its own do"
        return (
            f"{100 * self.coverage:.0f} % of {self._subject} samples lie within the band where "
            f"{100 * self.covered:.0f} % should, {100 * self.half:.0f} % within the band where "
            f"half should: {how}."
        )


@dataclass(frozen=True)
class TrialFit:
    """How probable one trial is: `trial` is its number, from 0, and `about` its conditions.

    `per_sample` is its log likelihood per sample, `expected` the mean of the same trial in
    simulated experiments, and `improbability` how far it is below that, in standard deviations.
    """

    trial: int
    about: str
    per_sample: float
    expected: float
    improbability: float

    def __str__(self) -> str:
        about = f" ({self.about})" if self.about else ""
        return (
            f"trial {self.trial + 1}{about}: log likelihood {self.per_sample:.2f} per sample, in "
            f"simulated trials {self.expected:.2f} ({self.improbability:.1f} SD below)"
        )


@dataclass(frozen=True)
class Adequacy:
    """Whether a fitted model is like the data. Made by `check_fit`.

    - `channels`: each recorded channel, in all samples.
    - `phases`: each channel in mid-movement, and at start and end.
    - `groups`: by label (subject, condition), each channel in each group of trials.
    - `worst`: the least probable trials, the worst first; `outlying`: the numbers of those that
      chance does not explain.
    - `settled`: whether the search had settled: if not, nothing is concluded.
    - `beliefs` and `replicates` (experiment, trial, time, channel) are what it was judged by, for
      pictures.
    """

    channels: tuple[Channel, ...]
    beliefs: Beliefs
    replicates: np.ndarray
    phases: tuple[Channel, ...] = ()
    groups: Mapping[str, tuple[Channel, ...]] | None = None
    worst: tuple[TrialFit, ...] = ()
    outlying: tuple[int, ...] = ()
    settled: bool = True

    @property
    def verdicts(self) -> list[str]:
        """What the model misses, in sentences; that the search did not settle, if so."""
        if not self.settled:
            return [UNSETTLED]
        lines = [line for channel in self.channels for line in channel.verdicts]
        lines += [line for phase in self.phases for line in self._beside_the_whole(phase)]
        if self.outlying:
            what = "trial is" if len(self.outlying) == 1 else "trials are"
            lines.append(
                f"{len(self.outlying)} {what} hardly possible in the model; the least probable is "
                f"{self.worst[0]}."
            )
        in_groups = any(part.missed for part in self._parts_of_groups())
        return [*lines, *self._worst_groups()] if lines or in_groups else []

    @property
    def conclusion(self) -> list[str]:
        """What the model misses, or that it misses nothing large, in sentences."""
        return self.verdicts or [NOTHING_MISSED]

    @property
    def passed(self) -> bool:
        """Whether nothing large is missed, by a search that settled."""
        return not self.verdicts

    def _beside_the_whole(self, phase: Channel) -> list[str]:
        """What is missed in a phase and not said of all samples already."""
        whole = next(channel for channel in self.channels if channel.name == phase.name)
        said = {name for name in phase.missed if name in whole.missed}
        if {"coverage", "half"} & said:
            said |= {"coverage", "half"}
        left = tuple(name for name in phase.missed if name not in said)
        return replace(phase, missed=left).verdicts

    def _parts_of_groups(self) -> Iterator[Channel]:
        for parts in (self.groups or {}).values():
            yield from parts

    def _worst_groups(self) -> Iterator[str]:
        """Of each label the group that the model explains worst."""
        for parts in (self.groups or {}).values():
            worst = max(parts, key=lambda part: part.deviation)
            yield (
                f"It is worst {worst.where} ({worst.trials} trials), in {worst.name}: "
                f"{worst.numbers}."
            )

    def __str__(self) -> str:
        lines = [
            f"{'channel':<28}{'samples':>8}{'mean':>8}{'variance':>10}{'kurtosis':>10}"
            f"{'lag':>8}{'in 95 %':>9}{'in 50 %':>9}"
        ]
        lines += [
            f"{c._subject:<28}{c.n:>8}{c.mean:>8.2f}{c.variance:>10.3f}{c.kurtosis:>10.2f}"
            f"{c.lag:>8.2f}{100 * c.coverage:>8.1f}%{100 * c.half:>8.1f}%"
            for c in (*self.channels, *self.phases)
        ]
        if self.worst:
            lines.append("Least probable:")
            lines += [f"  {trial}" for trial in self.worst]
        return "\n".join([*lines, *self.conclusion])


def check_fit(
    fit: Fit, *, key: Any, n_replicates: int = 40, by: Mapping[str, Any] | None = None
) -> Adequacy:
    """Compare the trials with what the fitted model predicts and simulates.

    Innovations are samples minus their prediction from the samples before them, whitened: white
    and standard normal if the model is right. Replicates are experiments simulated at the
    estimates; they say how much every number varies by chance. What is reported is both large and
    more than chance, which reports anything at all of the model's own data in 5 % of experiments.

    Parameters
    ----------
    fit : Fit
        The fit.
    key : JAX random key
        Of the simulated experiments.
    n_replicates : int
        How many experiments to simulate, at least 10.
    by : mapping of str to sequence, optional
        Labels of the trials (a subject, a block), one value per trial, whose groups are looked at
        one by one, beside the conditions that were fitted.
    """
    if fit.interrupted:
        raise InputError("the fit was interrupted: there is nothing to check yet")
    checks.whole("n_replicates", n_replicates, FEWEST_REPLICATES, "experiments to simulate")
    labels = _labels(fit, by or {})
    experiments = filtered_experiments(fit, n_replicates=n_replicates, key=key)
    present = np.isfinite(experiments.samples[0]).any(axis=2)
    parts = {"": present, **phases(experiments.course, present)}
    groups = {label: _groups(label, values) for label, values in labels.items()}
    groups = {label: of_label for label, of_label in groups.items() if len(of_label) > 1}
    of_groups = {
        where: present & chosen[:, None]
        for of_label in groups.values()
        for where, chosen in of_label.items()
    }
    statistics = _statistics(fit, experiments, parts | of_groups)
    improbable = improbability(experiments.log_likelihoods)
    worst = worst_statistic(improbable)
    every = [statistic for *_, found in statistics for statistic in found.values()]
    limit = deviation_limit([*every, worst], n_replicates)
    judged = [_channel(*found, limit) for found in statistics]
    outliers = improbable[0] > improbable[1:].max() if worst.exceeds(limit) else [False]
    return Adequacy(
        channels=tuple(part for part in judged if part.where == ""),
        beliefs=fit.beliefs(),
        replicates=experiments.samples[1:],
        phases=tuple(part for part in judged if part.where in parts and part.where),
        groups={
            label: tuple(part for part in judged if part.where in of_label)
            for label, of_label in groups.items()
        },
        worst=_worst(experiments, improbable, labels),
        outlying=tuple(np.flatnonzero(outliers).tolist()),
        settled=fit.converged,
    )


Found = tuple[str, str, int, int, dict[str, Statistic]]


def _statistics(
    fit: Fit, experiments: FilteredExperiments, parts: Mapping[str, np.ndarray]
) -> list[Found]:
    """For every part and channel: where, name, trials, innovations, and the statistics by name."""
    found: list[Found] = []
    for i, name in enumerate(fit.trials.channel_names):
        samples, e = experiments.samples[..., i], experiments.innovations[..., i]
        rank = ranks(samples)
        spread = np.ptp(samples[1:], axis=0)
        varied = np.isfinite(samples[0]) & (spread > 1e-9 * np.nanmax(np.abs(samples[0])))
        for where, part in parts.items():
            of_part = innovation_statistics(e, part)
            of_part |= coverage_statistics(rank, varied, part)
            n = int((np.isfinite(e[0]) & part).sum())
            trials = int((np.isfinite(samples[0]) & part).any(axis=1).sum())
            if n >= FEWEST or where == "":
                found.append((where, name, trials, n, of_part))
    return found


def _channel(
    where: str, name: str, trials: int, n: int, found: dict[str, Statistic], limit: float
) -> Channel:
    nothing = Statistic(np.nan, np.nan, 0.0, large=False)

    def of(statistic: str) -> Statistic:
        return found.get(statistic, nothing)

    judged = found if n >= FEWEST else {}
    deviations = [abs(s.deviation) / limit for s in judged.values() if s.large]
    return Channel(
        name=name,
        n=n,
        mean=of("mean").value,
        variance=of("variance").value,
        kurtosis=of("kurtosis").value,
        lag=of("lag").value,
        coverage=of("coverage").value,
        covered=of("coverage").expected,
        trials=trials,
        half=of("half").value,
        expected_kurtosis=of("kurtosis").expected,
        where=where,
        missed=tuple(s for s, statistic in judged.items() if statistic.exceeds(limit)),
        deviation=max(deviations, default=0.0),
    )


def _labels(fit: Fit, by: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The conditions that were fitted and the user's labels, one value per trial."""
    labels = dict(fit.conditions)
    for name, values in by.items():
        if np.shape(values) != (len(fit.trials),):
            raise InputError(
                f"the label {name!r} must have one value per trial ({len(fit.trials)}), got shape "
                f"{np.shape(values)}"
            )
        labels[name] = np.asarray(values)
    return labels


def _groups(label: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """The trials of each group of a label, in words; thirds of what has many numbers."""
    distinct = np.unique(values)
    if values.dtype.kind in "iuf" and len(distinct) > FEWEST_TRIALS:
        third = np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values)
        groups = {
            f"for {label} {values[chosen].min():.3g} to {values[chosen].max():.3g}": chosen
            for chosen in (third == k for k in range(3))
            if chosen.any()
        }
    else:
        groups = {f"for {label} {_short(value)}": values == value for value in distinct}
    return {where: chosen for where, chosen in groups.items() if chosen.sum() >= FEWEST_TRIALS}


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, (float, np.floating)) else str(value)


def _worst(
    experiments: FilteredExperiments, improbable: np.ndarray, labels: Mapping[str, np.ndarray]
) -> tuple[TrialFit, ...]:
    counts = np.isfinite(experiments.innovations[0]).sum(axis=(1, 2))
    found = []
    order: Sequence[int] = np.argsort(-improbable[0], kind="stable")[:WORST_TRIALS].tolist()
    for trial in order:
        if counts[trial] == 0:
            continue
        per_sample = experiments.log_likelihoods[:, trial] / counts[trial]
        about = ", ".join(f"{name} {_short(values[trial])}" for name, values in labels.items())
        found.append(
            TrialFit(
                trial=trial,
                about=about,
                per_sample=float(per_sample[0]),
                expected=float(per_sample[1:].mean()),
                improbability=float(improbable[0, trial]),
            )
        )
    return tuple(found)
