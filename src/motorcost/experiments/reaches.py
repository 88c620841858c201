"""What the experiments with reaches share: true costs, ranges, recording, recovery."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from motorcost.fitting.batching import log_likelihoods_along
from motorcost.fitting.objective import Objective
from motorcost.fitting.recovery import Recovery
from motorcost.fitting.specification import make_objective
from motorcost.model.observer import Observer, ObserverSpec, observe
from motorcost.model.problem import Problem
from motorcost.model.simulate import simulate
from motorcost.model.solver import solve
from motorcost.model.trials import Trials
from motorcost.tasks import reaching

TRUTH: dict[str, Any] = {"effort": 1e-5, "velocity": 0.2, "force": 0.02}
# Where true costs are varied.
RANGES = {"effort": (1e-6, 1e-4), "velocity": (0.04, 1.0), "force": (0.004, 0.1)}
LABELS = {"effort": "effort r", "velocity": "velocity v", "force": "force f"}
STATES = ("position", "velocity", "force")
# The camera of the partially observed experiments; the paper does not state its noise.
CAMERA = ObserverSpec(["position"], noise=1e-3)


def axis(name: str, n: int) -> list[float]:
    """`n` values of a cost over its range. Rounded, so that the middle is the truth itself."""
    return [float(f"{value:.12g}") for value in np.geomspace(*RANGES[name], n)]


def reaches(
    n_trials: int, data_seed: int, observer: Callable[[Problem], Observer] | None = None
) -> Trials:
    """Trials at the true costs."""
    problem = reaching(**TRUTH)
    return simulate(
        problem,
        solve(problem),
        n_trials=n_trials,
        key=jax.random.key(data_seed),
        observer=observe(problem) if observer is None else observer(problem),
    )


@dataclass(frozen=True)
class LogLikelihood:
    """The log likelihood of one set of reaches at any costs: a function to sweep."""

    n_trials: int
    observer: ObserverSpec | None = None
    data_seed: int = 0

    def __call__(self, *, keys: Any, **columns: Any) -> dict[str, np.ndarray]:
        """At the costs in the columns."""
        objective = _objective(self)
        points = np.stack([np.log(columns[name]) for name in TRUTH], axis=1)
        return {"log_likelihood": log_likelihoods_along(objective, points)}


@lru_cache(maxsize=4)
def _objective(likelihood: LogLikelihood) -> Objective:
    trials = reaches(likelihood.n_trials, likelihood.data_seed, likelihood.observer)
    return make_objective(reaching, trials, list(TRUTH), observer=likelihood.observer)


def recovering(at: Mapping[str, Any], **more: Any) -> Recovery:
    """A recovery of all three costs from simulated reaches, with the numbers of trials and starts
    that are in the settings `at`."""
    sizes = {"n_trials": at["trials"], "n_starts": at["starts"]}
    return Recovery(reaching, list(TRUTH), **sizes, **more)


def moved(errors: Any) -> dict[str, Any]:
    """The true costs with these errors of their log10."""
    factors = 10.0 ** jnp.asarray(errors)
    return {name: value * factors[k] for k, (name, value) in enumerate(TRUTH.items())}
