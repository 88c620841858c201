"""The likelihood of trials inside a user's own NumPyro model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost.errors import InputError
from motorcost.fitting.objective import Objective
from motorcost.fitting.specification import Free, check_units, make_objective
from motorcost.model.observer import ObserverLike
from motorcost.model.trials import Trials
from motorcost.posterior.target import log_likelihood_at
from motorcost.tasks.declarations import Task


class Likelihood:
    """The log likelihood of trials as a function of parameters by name, for a model of your own.

    Takes what `fit` takes; `free` are the parameters that your model draws. It can be
    differentiated, and chains that run together are computed together. Make it once, outside of
    the model.

    Examples
    --------
    >>> import numpyro
    >>> import numpyro.distributions as dist
    >>> reaches = mc.Likelihood(mc.tasks.reaching, trials, ["effort", "velocity"])
    >>> def model():
    ...     effort = numpyro.sample("effort", dist.LogNormal(jnp.log(1e-5), 1.0))
    ...     velocity = numpyro.sample("velocity", dist.LogNormal(jnp.log(0.2), 1.0))
    ...     mc.factor("reaches", reaches, effort=effort, velocity=velocity)
    """

    def __init__(
        self,
        task: Task,
        trials: Trials,
        free: Free,
        *,
        fixed: Mapping[str, Any] | None = None,
        observer: ObserverLike = None,
    ) -> None:
        self.objective: Objective = make_objective(
            task, trials, free, fixed=fixed, observer=observer
        )
        check_units(self.objective)

    def __call__(self, **parameters: Any) -> Float[Array, ""]:
        """Return the log likelihood of all trials; -1e30 where the model cannot have made them.

        A parameter with `per="subject"` takes an array with a value for each subject, in the
        order of `groups`.
        """
        return log_likelihood_at(self.objective, self.point(parameters))

    def per_trial(self, **parameters: Any) -> Float[Array, " N"]:
        """Return the log likelihood of each trial, as LOO needs it."""
        return self.objective.log_likelihoods(self.point(parameters))

    @property
    def groups(self) -> dict[str, list[Any]]:
        """The groups of each parameter that has a value for each of them, in their order."""
        found: dict[str, list[Any]] = {}
        for coordinate in self.objective.coordinates:
            if coordinate.support.per is not None:
                found.setdefault(coordinate.parameter, []).append(coordinate.group)
        return found

    def point(self, parameters: Mapping[str, Any]) -> Float[Array, " p"]:
        """Return the point on the search scale of parameters by name."""
        coordinates = self.objective.coordinates
        names = list(dict.fromkeys(c.parameter for c in coordinates))
        if set(parameters) != set(names):
            raise InputError(
                f"the likelihood takes {', '.join(names)}, got {', '.join(parameters) or 'nothing'}"
            )
        values = []
        for name in names:
            own = [c for c in coordinates if c.parameter == name]
            shape = () if own[0].support.per is None else (len(own),)
            if np.shape(parameters[name]) != shape:
                raise InputError(
                    f"{name} must have the shape {shape}, got {np.shape(parameters[name])}"
                )
            scaled = own[0].support.to_search_scale(parameters[name])
            values.append(jnp.broadcast_to(scaled, (len(own),)))
        return jnp.concatenate(values)


def factor(name: str, likelihood: Likelihood, **parameters: Any) -> None:
    """Add the log likelihood of trials to the NumPyro model that this is called in.

    - `name`: of the site, as in `numpyro.factor`.
    - `likelihood`: made once, outside of the model.
    - `parameters`: the values of all its free parameters, by name.

    Examples
    --------
    >>> import numpyro, numpyro.distributions as dist
    >>> reaches = mc.Likelihood(mc.tasks.reaching, positions, ["effort"], observer=camera)
    >>> def model():
    ...     effort = numpyro.sample("effort", dist.LogNormal(jnp.log(1e-5), 1.0))
    ...     mc.factor("reaches", reaches, effort=effort)
    >>> sorted(numpyro.handlers.trace(numpyro.handlers.seed(model, 0)).get_trace())
    ['effort', 'reaches']
    """
    import numpyro

    if not isinstance(likelihood, Likelihood):
        raise InputError(
            f"factor needs an mc.Likelihood(task, trials, free), got {type(likelihood).__name__}"
        )
    numpyro.factor(name, likelihood(**parameters))
