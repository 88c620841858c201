"""Whether a model fits, in numbers and in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from motorcost.inference.beliefs import Beliefs

if TYPE_CHECKING:
    from motorcost.plots.style import CaptionedFigure

UNSETTLED = "The search did not settle: whether the model fits cannot be said."
NOTHING_MISSED = "The model misses nothing large."


@dataclass(frozen=True)
class Channel:
    """How one recorded channel is explained, in all samples or in a part of them.

    - `where`: the part: empty for all samples, "mid-movement", or a group such as "for subject
      anna"; `trials`: of how many trials.
    - `variance` (1 if the model is right), `mean` (0), `kurtosis` (about 3) and `lag` (0:
      correlation from one sample to the next) of the whitened innovations, `n` of them; `later`
      is the largest correlation of those that are further apart, by `samples_apart` samples.
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
    later: float = 0.0
    samples_apart: int = 2

    @property
    def verdicts(self) -> list[str]:
        """What the model misses, in sentences; empty if it misses nothing large."""
        words = {
            "mean": self._mean,
            "variance": self._variance,
            "kurtosis": self._kurtosis,
            "lag": self._lag,
            "later": self._later,
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

    def exceeds(self, name: str) -> bool:
        """Return whether a number is above what it should be, rather than below."""
        should = {
            "mean": 0.0,
            "variance": 1.0,
            "kurtosis": self.expected_kurtosis,
            "lag": 0.0,
            "later": 0.0,
            "coverage": self.covered,
            "half": 0.5,
        }
        return bool(getattr(self, name) > should[name])

    @property
    def subject(self) -> str:
        """The channel and the part of its samples, in words."""
        return f"{self.name} {self.where}".rstrip()

    def _mean(self) -> str:
        way = "more" if self.exceeds("mean") else "less"
        return f"{self.subject} is on average {way} than predicted, by {abs(self.mean):.2f} SD."

    def _variance(self) -> str:
        way = "more" if self.exceeds("variance") else "less"
        return (
            f"{self.subject} varies {way} from sample to sample than the model says: "
            f"{self.variance:.2g} times its variance."
        )

    def _kurtosis(self) -> str:
        way = "more" if self.exceeds("kurtosis") else "fewer"
        return (
            f"{self.subject} has {way} large misses than the model says: the kurtosis of its "
            f"innovations is {self.kurtosis:.1f}, in simulated trials {self.expected_kurtosis:.1f}."
        )

    def _lag(self) -> str:
        way, why = "alternate", "samples are noisier, or movements less smooth, than the model's"
        if self.exceeds("lag"):
            way, why = "persist", "the movement's course is not quite the model's"
        return (
            f"{self.subject} misses {way} from one sample to the next (correlation "
            f"{self.lag:+.2f}): {why}."
        )

    def _later(self) -> str:
        return (
            f"{self.subject} misses go together with those {self.samples_apart} samples later "
            f"(correlation {self.later:+.2f}): the movement's course is not quite the model's."
        )

    def _coverage(self) -> str:
        above = {self.exceeds(name) for name in ("coverage", "half") if name in self.missed}
        if above == {True, False}:
            how = "most trials are closer to the model's mean than its own, a few much further"
        elif above == {True}:
            how = "trials differ less from the model's mean than its own do"
        else:
            how = "trials differ more from the model's mean than its own do"
        return (
            f"{100 * self.coverage:.0f} % of {self.subject} samples lie within the band where "
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

    Examples
    --------
    >>> adequacy.replicates.shape  # (experiment, trial, time, channel)
    (10, 8, 12, 1)
    """

    channels: tuple[Channel, ...]
    beliefs: Beliefs
    replicates: np.ndarray
    phases: tuple[Channel, ...] = ()
    groups: Mapping[str, tuple[Channel, ...]] = field(default_factory=dict)
    worst: tuple[TrialFit, ...] = ()
    outlying: tuple[int, ...] = ()
    settled: bool = True

    def plot(self, single_trials: int = 30) -> CaptionedFigure:
        """Draw the trials over those of simulated experiments; see `mc.plots.plot_adequacy`."""
        from motorcost.plots.checks import plot_adequacy

        return plot_adequacy(self, single_trials)

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
        said = {name for name in whole.missed if phase.exceeds(name) == whole.exceeds(name)}
        if {"coverage", "half"} & said:
            said |= {"coverage", "half"}
        left = tuple(name for name in phase.missed if name not in said)
        return replace(phase, missed=left).verdicts

    def _parts_of_groups(self) -> Iterator[Channel]:
        for parts in self.groups.values():
            yield from parts

    def _worst_groups(self) -> Iterator[str]:
        """Of each label the group that the model explains worst."""
        for parts in self.groups.values():
            worst = max(parts, key=lambda part: part.deviation, default=None)
            if worst is not None and worst.deviation > 0:
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
            f"{c.subject:<28}{c.n:>8}{c.mean:>8.2f}{c.variance:>10.3f}{c.kurtosis:>10.2f}"
            f"{c.lag:>8.2f}{100 * c.coverage:>8.1f}%{100 * c.half:>8.1f}%"
            for c in (*self.channels, *self.phases)
        ]
        if self.worst:
            lines.append("Least probable:")
            lines += [f"  {trial}" for trial in self.worst]
        return "\n".join([*lines, *self.conclusion])
