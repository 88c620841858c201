"""Is a fit plausible? What the fitted agent does, in words, beside what was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from motorcost.diagnostics.courses import CourseComparison, compared
from motorcost.diagnostics.expectations import ExpectedTrials, expected_trials
from motorcost.errors import ConvergenceError
from motorcost.fitting.fitted import Fit
from motorcost.fitting.settled import require_finished
from motorcost.tasks import parameters as declared_parameters
from motorcost.tasks.declarations import defaults_of

if TYPE_CHECKING:
    from motorcost.plots.style import CaptionedFigure

# Conditions in which the agent is looked at, of those that the trials have.
MOST_KINDS = 20
# An agent that covers less than this share of the recorded distance hardly moves.
HARDLY_MOVES = 0.5
# An agent that saves less than this share of the cost of not moving might as well not move.
SAVES_LITTLE = 0.5
# End points further from the goal than this share of the distance are reported,
FAR_OFF = 0.2
# if they are also more than this many standard errors of the mean away. Less is chance, as with a
# target that wanders at random.
BEYOND_CHANCE = 3.0
# SDs of end points that differ by more than this factor are reported,
SPREADS_DIFFER = 2.0
# if there are at least this many trials: a factor of two between the SDs of ten and of many trials
# has a probability below 1 %.
FEWEST_ENDS = 10
# States whose cost at rest is one of stability rather than of accuracy.
STABILITY = ("velocity", "speed", "acceleration", "force", "muscle")


@dataclass(frozen=True)
class Plausibility:
    """What a fitted agent does, beside what was recorded. Made by `plausibility`.

    `print(plausible)` shows it in sentences.

    Attributes
    ----------
    channels : tuple of CourseComparison
        By recorded channel: end points, their spread, peak and duration, of the agent and of the
        recording.
    cost, idle_cost : float
        The expected cost of the agent and that of an agent that does nothing; means over trials.
    shares : dict of str to float
        Parts of the expected cost, by what they are for: states whose costs are coupled (the
        position and its target) belong together, and `effort` is the cost of the controls.
    motor_noise : float
        The noise that grows with the control, relative to the control's own effect.
    left_out : tuple of str
        What often makes trials differ and the fit takes to be the same in all of them.
    sentences, warnings : list of str
        What the agent does, and what of it is not plausible.
    mistaken : bool
        Whether the agent believes in another world than the one that it acts in: then what it does
        need not be worth its while.
    settled : bool
        Whether the search had settled. If not, this is what the best point found would mean.

    Examples
    --------
    >>> found = mc.plausibility(fit)
    >>> found.cost < found.idle_cost, round(sum(found.shares.values()), 6)
    (True, 1.0)
    """

    channels: tuple[CourseComparison, ...]
    cost: float
    idle_cost: float
    shares: dict[str, float]
    motor_noise: float
    left_out: tuple[str, ...] = ()
    body: tuple[str, ...] = ()
    mistaken: bool = False
    settled: bool = True

    @property
    def saved(self) -> float:
        """The share of the cost of not moving that the agent saves."""
        return 1.0 - self.cost / self.idle_cost if self.idle_cost > 0 else np.nan

    @property
    def sentences(self) -> list[str]:
        """What the agent does, in sentences with numbers."""
        lines = [] if self.settled else ["The search did not settle: this is the best point found."]
        lines += [line for channel in self.channels for line in channel.sentences]
        if np.isfinite(self.saved):
            lines.append(
                f"The agent saves {_percent(self.saved)} of the cost of not moving at all: its "
                f"expected cost is {self.cost:.3g}, without control it would be "
                f"{self.idle_cost:.3g}."
            )
        lines.append(f"Of its expected cost, {_listed(_in_words(self.shares))}.")
        return lines

    @property
    def warnings(self) -> list[str]:
        """What is not plausible, in sentences with numbers."""
        lines = [line for channel in self.channels for line in _doubts(channel)]
        if self.saved < SAVES_LITTLE and not self.mistaken:
            lines.append(
                f"The agent saves only {_percent(self.saved)} of the cost of not moving at all: it "
                "is hardly worth its while to move."
            )
        if self.motor_noise > 1:
            lines.append(
                f"The motor noise is {self.motor_noise:.2f}: the noise of a control is larger than "
                f"the control itself. It may stand for what the model leaves out{self._such_as}."
            )
        return [*lines, *self.body]

    @property
    def _such_as(self) -> str:
        return f", such as {_listed(self.left_out)}" if self.left_out else ""

    def plot(self) -> CaptionedFigure:
        """Draw what the agent's costs are for, and what it does; see
        `mc.plots.plot_plausibility`."""
        from motorcost.plots.plausibility import plot_plausibility

        return plot_plausibility(self)

    def __str__(self) -> str:
        return "\n".join([*self.sentences, *(f"Not plausible: {line}" for line in self.warnings)])


def plausibility(fit: Fit) -> Plausibility:
    """Say what the fitted agent does: where it ends, how fast it is, and what its costs are for.

    Means, spreads and costs of the agent are exact, at the estimates and in the conditions of the
    fitted trials (in 20 of them, if each trial has conditions of its own).

    Parameters
    ----------
    fit : Fit
        The fit.

    Returns
    -------
    Plausibility
        Its numbers, `sentences` and `warnings`.

    Examples
    --------
    >>> print(mc.plausibility(fit))
    The agent's position ends ...
    """
    require_finished(fit, "agent to look at")
    trials = expected_trials(fit, MOST_KINDS)
    expected = trials.expected
    found = np.asarray(expected.converged)
    if not found.any():
        raise ConvergenceError("no policy was found for the fitted agent in any condition")
    return Plausibility(
        channels=compared(fit, trials, found),
        cost=float(np.mean(expected.cost[found])),
        idle_cost=float(np.mean(expected.idle_cost[found])),
        shares=_shares(trials, found),
        motor_noise=float(np.max(expected.motor_noise[found])),
        left_out=tuple(_left_out(fit)),
        body=tuple(implausible_body(fit)),
        mistaken=bool(np.any(expected.mistaken)),
        settled=fit.converged,
    )


# By the parameter that makes them so, in what trials can differ.
_DIFFERENCES = {
    "start_spread": "starts that differ",
    "aim_spread": "aims that differ",
}


def _left_out(fit: Fit) -> list[str]:
    """What often makes trials differ and is the same for all trials of a fit."""
    objective = fit.objective
    known = defaults_of(objective.task) | dict(objective.fixed)
    inferred = {coordinate.parameter for coordinate in objective.coordinates}
    result = [
        words
        for name, words in _DIFFERENCES.items()
        if name not in inferred and not known.get(name)
    ]
    if fit.trials.lead == 0:
        result.append("movements that are under way at the first sample")
    return result


def _shares(trials: ExpectedTrials, found: np.ndarray) -> dict[str, float]:
    """The parts of the expected cost, by the states that they are about."""
    costs = trials.expected.state_costs[found].mean(axis=0)
    effort = float(trials.expected.effort[found].mean())
    coupled = np.asarray(trials.expected.coupling)[found].sum(axis=0) > 0
    return cost_shares(list(trials.state_units), np.asarray(costs), coupled, effort)


def cost_shares(
    names: Sequence[str], costs: np.ndarray, coupled: np.ndarray, effort: float
) -> dict[str, float]:
    """Return the parts of the expected cost, by the names of the states that they are about.

    - `costs`: the expected cost of each pair of states; `coupled`: which pairs cost something.
    - `effort`: the expected cost of the controls.
    """
    whole = float(costs.sum()) + effort
    shares = {}
    for states in _connected(coupled):
        name = ", ".join(names[i] for i in states)
        shares[name] = float(costs[np.ix_(states, states)].sum()) / whole
    return shares | {"effort": effort / whole}


def _connected(coupled: np.ndarray) -> list[list[int]]:
    """The states that cost something, in sets within which costs couple them."""
    left = [i for i in range(len(coupled)) if coupled[i].any()]
    sets = []
    while left:
        together, new = [], [left[0]]
        while new:
            i = new.pop()
            left.remove(i)
            together.append(i)
            new += [j for j in left if coupled[i, j] and j not in new]
        sets.append(sorted(together))
    return sets


def _in_words(shares: Mapping[str, float]) -> list[str]:
    """The shares, gathered under accuracy, stability and effort where the names tell."""
    stability = {name: share for name, share in shares.items() if name in STABILITY}
    items = []
    for name, share in shares.items():
        if name == "effort" or name in stability:
            continue
        about = f"accuracy ({name})" if ", " in name else name
        items.append(f"{_percent(share)} is for {about}")
    if stability:
        parts = ", ".join(f"{name} {_percent(share)}" for name, share in stability.items())
        items.append(f"{_percent(sum(stability.values()))} for stability ({parts})")
    return [*items, f"{_percent(shares['effort'])} is effort"]


def _doubts(channel: CourseComparison) -> list[str]:
    """What is not plausible about a channel."""
    lines = []
    if channel.moves and channel.covered < HARDLY_MOVES:
        lines.append(
            f"The agent hardly moves: its {channel.name} covers {_percent(channel.covered)} of the "
            "recorded distance."
        )
    elif channel.moves and abs(channel.off) > max(
        FAR_OFF * channel.distance, BEYOND_CHANCE * channel.end_sd / np.sqrt(channel.trials)
    ):
        lines.append(
            f"The agent's {channel.name} ends {channel.with_unit(abs(channel.off))} from where the "
            f"recorded movements end, {_percent(abs(channel.off) / channel.distance)} of their "
            "distance."
        )
    ratio = channel.end_sd / channel.recorded_end_sd if channel.recorded_end_sd > 0 else 1.0
    differ = not 1 / SPREADS_DIFFER <= ratio <= SPREADS_DIFFER
    if channel.moves and channel.trials >= FEWEST_ENDS and differ:
        lines.append(
            f"The agent's end points vary {ratio:.2g} times as much as the recorded ones "
            f"(SD of {channel.name} {channel.with_unit(channel.end_sd)} and "
            f"{channel.with_unit(channel.recorded_end_sd)})."
        )
    return lines


def implausible_body(fit: Fit) -> list[str]:
    """Return sentences on constants of the body that are at the edge of their support, or beyond
    the usual one."""
    task = fit.objective.task
    declared: Mapping[str, Any] = declared_parameters(task) if hasattr(task, "parameters") else {}
    lines = []
    for coordinate in fit.objective.coordinates:
        parameter = declared.get(coordinate.parameter)
        if parameter is None or parameter.role != "body":
            continue
        value = fit.estimates[coordinate.name]
        unit = f" {parameter.unit}" if parameter.unit else ""
        usual, at_edge = parameter.support, coordinate.name in fit.at_bounds
        beyond = usual is not None and value not in usual
        if at_edge or beyond:
            where = "at the edge of its support" if at_edge else f"outside its usual range, {usual}"
            lines.append(
                f"{coordinate.name} ({parameter.about}) is {value:.3g}{unit}, {where}: a body "
                "with this value is not likely."
            )
    return lines


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _listed(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
