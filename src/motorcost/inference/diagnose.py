"""Errors that name what was wrong: a policy that was not found, a sample that contradicts."""

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from motorcost import checks
from motorcost.errors import ConvergenceError, InputError
from motorcost.inference.elimination import NO_CONTRADICTION
from motorcost.inference.filter import filter_setting, run_filter
from motorcost.inference.grouping import Group
from motorcost.model.observer import Observer
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.model.trials import Trials
from motorcost.numerics.compiling import lean_jit

# What to do where samples are not what a model without noise can produce.
STATE_THE_NOISE = (
    "Recorded samples differ from what a model can produce exactly: state the noise of the "
    "recording (noise=1e-3, --noise 1e-3), or infer it (free recording_noise)"
)


class ContradictionError(InputError):
    """A sample that cannot be under the model: `what` is wrong with it, in the trial at the index
    `trial`."""

    def __init__(self, trial: int, what: str) -> None:
        super().__init__(f"trial {trial} {what}")
        self.trial, self.what = trial, what

    def named(self, label: str) -> InputError:
        """The same error with what the trial is called in its file."""
        return InputError(f"trial {label} {self.what}")


def raise_if_failed(
    group: Group,
    index: np.ndarray,
    trials: Trials,
    converged: Bool[Array | np.ndarray, " conditions"],
    contradiction: Int[Array | np.ndarray, "conditions N"],
) -> None:
    """Raise if a policy was not found or a sample contradicts the model.

    `index` is where each trial of the group stands in `trials`. `converged` and `contradiction`
    are what the filter found: the second is the index of each trial's first contradiction.
    """
    if not np.asarray(converged).all():
        first = int(index[int(np.argmin(np.asarray(converged))), 0])
        values = {name: values[first].item() for name, values in trials.conditions.items()}
        raise ConvergenceError(
            f"no policy was found{f' for the condition {values}' if values else ''}: its gains did "
            "not settle, so these parameters may be far from any that make sense; call "
            "mc.solve(problem) for details"
        )
    contradiction = np.asarray(contradiction)
    contradicting = np.argwhere(contradiction < NO_CONTRADICTION)
    if len(contradicting):
        condition, place = (int(i) for i in contradicting[0])
        sample = int(contradiction[condition, place])
        what = _contradiction(group, condition, place, sample)
        raise ContradictionError(int(index[condition, place]), what)


def _contradiction(group: Group, condition: int, place: int, sample: int) -> str:
    """What is wrong with a sample, which the filter that found it has named by its index.

    The value that the sample must have comes from the general filter, whichever found it.
    """
    solved = checks.concrete_in_numpy(group.solved())
    of_condition = jax.tree.map(lambda leaf: leaf[condition], solved)
    samples, starts = of_condition.samples[place], of_condition.starts
    start = None if starts is None else starts[place]
    residuals = _residuals(
        of_condition.problem, of_condition.policy, of_condition.observer, samples, start
    )
    step, channel = divmod(sample, samples.shape[1])
    value = float(samples[step, channel])
    must_be = value - float(residuals[step, channel])
    return (
        f"contradicts the model at step {step}: {of_condition.observer.channel_names[channel]} is "
        f"{value:.9g} and must be {must_be:.9g}, because the model has no noise in it there. "
        f"{STATE_THE_NOISE}"
    )


@lean_jit
def _residuals(
    problem: Problem,
    policy: Policy,
    observer: Observer,
    samples: Float[Array, "T o"],
    start: Float[Array, " n"] | None,
) -> Float[Array, "T o"]:
    """By how much each sample of a trial is off what those before it say."""
    residuals = run_filter(
        filter_setting(problem, policy, observer, known_start=start is not None),
        samples[..., None],
        None if start is None else start[:, None],
        lambda before, after: after[2].whitened.residual,
        whiten=True,
    )
    return residuals[..., 0]
