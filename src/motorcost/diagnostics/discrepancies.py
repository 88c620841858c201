"""Statistics of a recorded experiment beside those of simulated ones.

A statistic is computed for the recorded experiment and in the same way for every experiment that
the model simulates. How much it varies over the simulated ones is how much it varies by chance, for
this number of trials, with samples of a trial as dependent on each other as the model makes them.

Arrays have the experiments on the first axis: the recorded one first, then the simulated ones.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

# The probability that anything at all is said of data that the model itself has made.
BY_CHANCE = 0.05
# Deviations that are large enough to mention, however significant smaller ones may be. Of the mean
# of whitened innovations, and of their correlation from one sample to the next, from 0.
LEAST_MEAN = 0.1
LEAST_LAG = 0.1
# Correlations of innovations are looked at up to so many samples apart.
MOST_SAMPLES_APART = 10
# The factors between their variance and kurtosis and those of simulated experiments.
LEAST_VARIANCE = 1.15
LEAST_KURTOSIS = 1.5
# Of the share of samples within the band of 95 %: fewer than should be, and more.
LEAST_BELOW = 0.05
LEAST_ABOVE = 0.03
# Of the share of samples within the band of 50 %.
LEAST_HALF = 0.1
# Statistics of fewer innovations than this are not judged.
FEWEST = 10

BAND = 0.95
HALF = 0.5


@dataclass(frozen=True)
class Statistic:
    """One number of the recorded experiment, and the same in simulated ones.

    - `value`: of the recorded experiment; `expected`: the mean of the simulated ones.
    - `deviation`: how far the recorded experiment is from the simulated ones, in standard
      deviations of these, on a scale on which they are about normal.
    - `large`: whether the difference is large enough to mention, if it is not by chance.
    - `samples_apart`: of a correlation, how far apart the innovations are.
    """

    value: float
    expected: float
    deviation: float
    large: bool
    samples_apart: int = 1

    def exceeds(self, limit: float) -> bool:
        """Return whether the deviation is large and not by chance, at this limit."""
        return self.large and abs(self.deviation) > limit


def deviation_limit(statistics: Sequence[Statistic], n_replicates: int) -> float:
    """The deviation beyond which a statistic is not by chance.

    Chance alone takes any of the statistics beyond it with probability `BY_CHANCE`. This is Holm's
    procedure, in which those that are beyond it already do not count against the others, with
    Student's distribution for a mean and an SD that come from few simulated experiments.
    """
    from scipy.special import stdtrit  # slow to import, and not needed elsewhere

    left = sorted((abs(statistic.deviation) for statistic in statistics), reverse=True)
    while True:
        quantile = stdtrit(n_replicates - 1, 1 - BY_CHANCE / (2 * max(len(left), 1)))
        limit = float(quantile * np.sqrt(1 + 1 / n_replicates))
        if not left or left[0] <= limit:
            return limit
        left.pop(0)


def innovation_statistics(innovations: np.ndarray, part: np.ndarray) -> dict[str, Statistic]:
    """Mean, variance, kurtosis and correlations of innovations (experiment, trial, time) in a part:
    `lag`, from one sample to the next, and `later`, the largest of those further apart.

    `part` says which samples (trial, time) it has. There are none if too few samples can vary.
    """
    e = innovations[:, part & np.isfinite(innovations).all(axis=0)]
    if e.shape[1] < FEWEST:
        return {}
    mean = e.mean(axis=1)
    variance = e.var(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        kurtosis = np.mean((e - mean[:, None]) ** 4, axis=1) / variance**2
        found = {
            "mean": _judged(mean, mean, LEAST_MEAN),
            "variance": _judged(variance, np.log(variance), np.log(LEAST_VARIANCE)),
            "kurtosis": _judged(kurtosis, np.log(kurtosis), np.log(LEAST_KURTOSIS)),
        }
    return found | _correlations(innovations, part, np.mean(e**2, axis=1))


def _correlations(
    innovations: np.ndarray, part: np.ndarray, square: np.ndarray
) -> dict[str, Statistic]:
    """The statistics `lag` and `later`; `square` is the mean square of the innovations."""
    values = []
    for apart in range(1, MOST_SAMPLES_APART + 1):
        products = _products(innovations, part, apart)
        if products.shape[1] < FEWEST:
            break
        values.append(products.mean(axis=1) / square)
    found = {}
    if values:
        found["lag"] = _judged(values[0], _on_correlation_scale(values[0]), LEAST_LAG)
    if len(values) > 1:
        later = np.array(values[1:])
        where = int(np.argmax(np.abs(later[:, 0])))
        # Every experiment is judged by its own largest: one of nine is large by chance.
        largest = np.abs(later).max(axis=0)
        judged = _judged(largest, _on_correlation_scale(largest), LEAST_LAG)
        # Correlations that are smaller than the model's are no fault.
        found["later"] = replace(
            judged,
            value=float(later[where, 0]),
            deviation=max(judged.deviation, 0.0),
            samples_apart=where + 2,
        )
    return found


def _on_correlation_scale(correlation: np.ndarray) -> np.ndarray:
    return np.arctanh(np.clip(correlation, -0.999, 0.999))


def _products(innovations: np.ndarray, part: np.ndarray, apart: int) -> np.ndarray:
    """Products of each innovation of a part with the one so many samples later in its trial, if
    that is in it."""
    there = np.isfinite(innovations).all(axis=0)
    products = []
    for trial, present in enumerate(there):
        steps = np.flatnonzero(present)
        pairs = part[trial, steps[apart:]] & part[trial, steps[:-apart]]
        now, after = steps[:-apart][pairs], steps[apart:][pairs]
        products.append(innovations[:, trial, now] * innovations[:, trial, after])
    return np.concatenate(products, axis=1)


def _judged(values: np.ndarray, on_scale: np.ndarray, least: float) -> Statistic:
    """The statistic of the first experiment beside the others.

    `on_scale` are the values on a scale on which those of simulated experiments are about normal,
    `least` is the smallest difference on that scale that is large.
    """
    return Statistic(
        value=float(values[0]),
        expected=float(values[1:].mean()),
        deviation=_deviation(on_scale),
        large=bool(abs(on_scale[0] - on_scale[1:].mean()) > least),
    )


def _deviation(values: np.ndarray) -> float:
    """How far the first value is from the others, in their standard deviations."""
    others = values[1:]
    spread = float(others.std(ddof=1))
    if not np.isfinite(values).all() or spread == 0:
        return 0.0
    return float((values[0] - others.mean()) / spread)


def ranks(samples: np.ndarray) -> np.ndarray:
    """The share of simulated samples below each sample (experiment, trial, time).

    A simulated sample is compared with those of the other simulated experiments.
    """
    recorded, simulated = samples[0], samples[1:]
    R = len(simulated)
    of_recorded = (simulated < recorded).sum(axis=0) + 0.5 * (simulated == recorded).sum(axis=0)
    order = np.argsort(np.argsort(simulated, axis=0), axis=0)
    return np.concatenate([of_recorded[None] / R, order / (R - 1)])


def coverage_statistics(
    rank: np.ndarray, varied: np.ndarray, part: np.ndarray
) -> dict[str, Statistic]:
    """The shares of samples within the bands of 95 % and of 50 %, of those that can vary.

    `rank` is what `ranks` returned; `varied` and `part` say which samples (trial, time) can vary
    and belong to the part. `expected` is the share that there should be.
    """
    chosen = varied & part
    if not chosen.any():
        return {}
    found = {}
    R = len(rank) - 1
    for name, band in (("coverage", BAND), ("half", HALF)):
        inside = _within(rank[:, chosen], band).mean(axis=1)
        # Each simulated experiment has one less to be compared with than the recorded one.
        should = np.full(R + 1, _should_be_within(R - 1, band))
        should[0] = _should_be_within(R, band)
        # The scale on which the variance of a share does not depend on the share.
        excess = np.arcsin(np.sqrt(inside)) - np.arcsin(np.sqrt(should))
        least = LEAST_HALF
        if name == "coverage":
            least = LEAST_ABOVE if inside[0] > should[0] else LEAST_BELOW
        found[name] = Statistic(
            value=float(inside[0]),
            expected=float(should[0]),
            deviation=_deviation(excess),
            large=bool(abs(inside[0] - should[0]) > least),
        )
    return found


def _within(rank: np.ndarray, band: float) -> np.ndarray:
    # A rank is a multiple of 1 / R, and may be the edge of the band but for rounding.
    edge = (1 - band) / 2 - 1e-9
    return (rank >= edge) & (rank <= 1 - edge)


def _should_be_within(R: int, band: float) -> float:
    """The share within a band of R simulated samples: of these and a sample any rank is as
    likely."""
    return float(_within(np.arange(R + 1) / R, band).mean())


def improbability(log_likelihoods: np.ndarray) -> np.ndarray:
    """How improbable each trial (experiment, trial) is, in standard deviations.

    The log likelihood is compared with those of the same trial in the simulated experiments: in
    the other ones, for a trial of a simulated experiment.
    """
    simulated = log_likelihoods[1:]
    R = len(simulated)
    mean, variance = simulated.mean(axis=0), simulated.var(axis=0)
    others_mean = (R * mean - simulated) / (R - 1)
    others_square = (R * (variance + mean**2) - simulated**2) / (R - 1)
    others_sd = np.sqrt(np.maximum(others_square - others_mean**2, 0) * (R - 1) / (R - 2))
    sd = np.sqrt(variance * R / (R - 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.concatenate(
            [((mean - log_likelihoods[0]) / sd)[None], (others_mean - simulated) / others_sd]
        )
    return np.where(np.isfinite(found), found, 0.0)


def worst_statistic(improbable: np.ndarray) -> Statistic:
    """The least probable trial of the recorded experiment beside those of simulated ones."""
    worst = np.maximum(improbable.max(axis=1), 0.1)
    return Statistic(
        value=float(worst[0]),
        expected=float(worst[1:].mean()),
        deviation=max(_deviation(np.log(worst)), 0.0),  # a worst trial that is good is no misfit
        large=True,
    )


def phases(course: np.ndarray, present: np.ndarray) -> Mapping[str, np.ndarray]:
    """The samples (trial, time) in mid-movement, and those at start and end, by name.

    `course` is the mean course of the model (trial, time, channel), `present` where samples are.
    Mid-movement is where the course has gone between 5 and 95 % of its way, all channels together.
    A course that goes nowhere has no phases.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of channels without any sample
        size = np.nanmax(course, axis=(0, 1)) - np.nanmin(course, axis=(0, 1))
    moving = size > 0
    if not moving.any():
        return {}
    steps = np.abs(np.diff(course[..., moving], axis=1, prepend=course[:, :1, moving]))
    way = np.cumsum(np.nansum(steps / size[moving], axis=2), axis=1)
    with np.errstate(invalid="ignore"):
        gone = way / way[:, -1:]
    middle = (gone > 0.05) & (gone < 0.95)
    return {"mid-movement": middle & present, "at start and end": ~middle & present}
