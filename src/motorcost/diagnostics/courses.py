"""The mean course of a fitted agent beside the recorded movements, channel by channel."""

from dataclasses import dataclass

import numpy as np

from motorcost.diagnostics.expectations import ExpectedTrials
from motorcost.fitting.fitted import Fit

# A channel moves if it ends further from its start than this share of the range that it goes
# through: a position does, a velocity does not.
_MOVES = 0.5
# Movement lasts while the speed exceeds this share of its peak.
_MOVING = 0.1
# Speeds are of courses that are averaged over this share of the longest trial, so that the noise
# of a recording does not make the peak.
_SMOOTHING = 0.1


@dataclass(frozen=True)
class CourseComparison:
    """One recorded channel of the fitted agent, and the same of the recording (`recorded_...`).

    - `trials`: the number of trials that are compared.
    - `moves`: whether the recorded channel ends elsewhere than it starts, as a position does.
    - `distance`, `covered`: from the first sample to the last, the recorded distance along the
      movement, and the share of it that the agent covers on average.
    - `off`: how much further than the recording the agent ends, on average; negative if short.
    - `end_sd`: the SD of end points around the agent's mean for the same condition.
    - `peak`, `peak_time`, `duration`: of the mean course over trials, the peak speed, its time
      from the beginning of the trial, and for how long the speed exceeds a tenth of it. Of a
      channel that does not move they are about its size, in place of its speed. NaN where no
      direction is known in advance, and for a channel that is constant.
    """

    name: str
    unit: str
    trials: int
    moves: bool
    distance: float
    covered: float
    off: float
    end_sd: float
    recorded_end_sd: float
    peak: float
    recorded_peak: float
    peak_time: float
    recorded_peak_time: float
    duration: float
    recorded_duration: float

    def with_unit(self, value: float, per: str = "") -> str:
        """Return a value of this channel as text, with its unit if that is known."""
        return f"{value:.3g} {self.unit}{per}" if self.unit else f"{value:.3g}"

    @property
    def sentences(self) -> list[str]:
        """What the agent does in this channel beside the recording."""
        lines = [self._end_sentence()] if self.moves else []
        if np.isfinite(self.peak):
            of, per = ("The speed of the", "/s") if self.moves else ("The", "")
            lines.append(
                f"{of} agent's mean {self.name} peaks at {self.with_unit(self.peak, per)} after "
                f"{self.peak_time:.3g} s and exceeds a tenth of that for {self.duration:.3g} s; "
                f"recorded: {self.with_unit(self.recorded_peak, per)} after "
                f"{self.recorded_peak_time:.3g} s, for {self.recorded_duration:.3g} s."
            )
        return lines

    def _end_sentence(self) -> str:
        far = self.with_unit(abs(self.off))
        way = "beyond" if self.off > 0 else "short of"
        spread = (
            f" Its end points vary by {self.with_unit(self.end_sd)} (SD), the recorded ones by "
            f"{self.with_unit(self.recorded_end_sd)}."
            if np.isfinite(self.recorded_end_sd)
            else ""
        )
        return (
            f"The agent's {self.name} ends {far} {way} the recorded end points on average, and "
            f"covers {100 * self.covered:.0f} % of the recorded {self.with_unit(self.distance)}."
            f"{spread}"
        )


def compared(fit: Fit, trials: ExpectedTrials, found: np.ndarray) -> tuple[CourseComparison, ...]:
    """Compare the channels of the agent with the recorded ones, in trials with a policy."""
    which = trials.which[found]
    observed = np.asarray(fit.trials.observed)[which]
    mean, sd = (np.asarray(part)[found] for part in (trials.expected.mean, trials.expected.sd))
    directed = bool(trials.expected.directed[found].any())
    steps = min(observed.shape[1], mean.shape[1])
    # Samples whose unit is not known are taken to be in that of the model.
    names = [
        (name, unit or trials.state_units.get(name, ""))
        for name, unit in zip(fit.trials.channel_names, fit.trials.channel_units, strict=True)
    ]
    return tuple(
        _compared(
            name, unit, observed[:, :steps, i], mean[:, :steps, i], sd[:, :steps, i],
            dt=fit.trials.dt, directed=directed,
        )
        for i, (name, unit) in enumerate(names)
    )  # fmt: skip


def _compared(
    name: str,
    unit: str,
    observed: np.ndarray,
    mean: np.ndarray,
    sd: np.ndarray,
    *,
    dt: float,
    directed: bool,
) -> CourseComparison:
    present = np.isfinite(observed)
    kept = present.any(axis=1)
    observed, mean, sd, present = observed[kept], mean[kept], sd[kept], present[kept]
    rows = np.arange(len(observed))
    first = present.argmax(axis=1)
    last = present.shape[1] - 1 - present[:, ::-1].argmax(axis=1)
    travelled = observed[rows, last] - observed[rows, first]
    expected = mean[rows, last] - mean[rows, first]
    ranges = np.nanmax(observed, axis=1) - np.nanmin(observed, axis=1)
    moves = bool(_rms(travelled) > _MOVES * _rms(ranges))
    # Movements in opposite directions are turned to the same side.
    side = np.where(expected < 0, -1.0, 1.0) if moves else np.ones(len(rows))
    miss = side * (mean[rows, last] - observed[rows, last])
    if directed:
        distance = float(np.mean(side * travelled))
        covered = float(np.mean(side * expected)) / distance if distance else np.nan
    else:
        distance = _rms(travelled)
        covered = _rms(np.hypot(expected, sd[rows, last])) / distance if distance else np.nan
    rate = dt if moves else None
    courses = [_course(side, part, present, rate) for part in (mean, observed)]
    nothing, shown = (np.nan, np.nan, np.nan), directed and ranges.any()
    agent, recorded = [_peak(c, dt) for c in courses] if shown else [nothing, nothing]
    return CourseComparison(
        name=name,
        unit=unit,
        trials=len(rows),
        moves=moves,
        distance=distance,
        covered=covered,
        off=float(np.mean(miss)),
        end_sd=_rms(sd[rows, last]),
        recorded_end_sd=float(np.std(miss, ddof=1)) if len(miss) > 1 else np.nan,
        peak=agent[0],
        recorded_peak=recorded[0],
        peak_time=agent[1],
        recorded_peak_time=recorded[1],
        duration=agent[2],
        recorded_duration=recorded[2],
    )


def _course(
    side: np.ndarray, values: np.ndarray, present: np.ndarray, dt: float | None
) -> np.ndarray:
    """The speed of a channel's mean over trials, or without a time step `dt` the mean's size.

    Samples that are missing are interpolated, and a trial that has ended stays where it ended: in
    the agent's course as in the recorded one.
    """
    steps = np.arange(values.shape[1])
    filled = np.stack(
        [
            np.interp(steps, steps[there], sign * row[there])
            for sign, row, there in zip(side, values, present, strict=True)
        ]
    )
    course = filled.mean(axis=0)
    width = max(1, round(_SMOOTHING * len(steps)))
    padded = np.pad(course, (width // 2, width - 1 - width // 2), mode="edge")
    course = np.convolve(padded, np.full(width, 1 / width), mode="valid")
    return np.abs(course if dt is None else np.gradient(course, dt))


def _peak(course: np.ndarray, dt: float) -> tuple[float, float, float]:
    """The peak of a course, its time, and for how long the course exceeds a tenth of the peak."""
    top = int(course.argmax())
    above = np.flatnonzero(course > _MOVING * course[top])
    lasts = (above[-1] - above[0]) * dt if len(above) else 0.0
    return float(course[top]), top * dt, float(lasts)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
