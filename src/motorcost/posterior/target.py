"""The posterior density that samplers see: log likelihood and log prior, on the unconstrained
scale."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from motorcost.fitting.objective import Objective
from motorcost.inference.likelihood import log_likelihoods_at
from motorcost.model.minima import Accuracy
from motorcost.model.solver import EXACT, ROUGH
from motorcost.posterior.priors import Prior

# Log likelihood in place of -inf, where there is no policy or a sample contradicts the model: a
# sampler then turns back instead of computing with infinities.
IMPOSSIBLE = -1e30
# For samplers that follow gradients: values are exact, derivatives right to about five digits. A
# gradient only proposes where to go, so that what is drawn is the same posterior; it is
# cheaper to compute.
PROPOSING = EXACT._replace(derivative=ROUGH.derivative)


class Density(eqx.Module):
    """A log posterior density on a scale without ends, of the trials of an objective.

    Two functions make it: how a point without ends is one of the objective's, and the log prior.
    """

    objective: eqx.AbstractVar[Objective]

    @abstractmethod
    def to_search_scale(self, free: Float[Array, " k"]) -> Float[Array, " p"]:
        """The objective's point."""

    @abstractmethod
    def log_prior(self, free: Float[Array, " k"]) -> Float[Array, ""]:
        """The log prior density, normalised."""

    def log_likelihood(
        self, free: Float[Array, " k"], accuracy: Accuracy = EXACT
    ) -> Float[Array, ""]:
        """The log likelihood of all trials; `IMPOSSIBLE` where it is -inf.

        Under `vmap` all points are computed together, as `fit` computes its searches.
        """
        return log_likelihood_at(self.objective, self.to_search_scale(free), accuracy)

    def log_density(self, free: Float[Array, " k"], accuracy: Accuracy = EXACT) -> Float[Array, ""]:
        """The log posterior density, up to the log evidence."""
        return self.log_prior(free) + self.log_likelihood(free, accuracy)


class Target(Density):
    """The posterior of an objective's trials.

    - `objective`: the log likelihood on the search scale.
    - `priors`: one for each parameter of the objective, in the order of its coordinates; a
      parameter with a value in each group has the same prior in all of them.
    """

    objective: Objective
    priors: tuple[Prior, ...]

    @property
    def names(self) -> list[str]:
        """The parameters, in the order of their priors."""
        return list(dict.fromkeys(c.parameter for c in self.objective.coordinates))

    def to_search_scale(self, free: Float[Array, " k"]) -> Float[Array, " p"]:
        """The point on the search scale."""
        return self._by_parameter(lambda prior, values: prior.to_search_scale(values), free)

    def to_unconstrained(self, point: Float[Array, " p"]) -> Float[Array, " k"]:
        """The point on the unconstrained scale."""
        return self._by_parameter(lambda prior, values: prior.to_unconstrained(values), point)

    def log_prior(self, free: Float[Array, " k"]) -> Float[Array, ""]:
        """The log prior density on the unconstrained scale."""
        return self._by_parameter(lambda prior, values: prior.log_density_free(values), free).sum()

    def draw_prior(self, key: Any, n: int) -> Float[Array, "n k"]:
        """Points drawn from the prior, on the unconstrained scale."""
        points = jnp.zeros((n, len(self.objective.coordinates)))
        for i, (prior, places) in enumerate(self._places()):
            drawn = prior.draw(jax.random.fold_in(key, i), (n, len(places)))
            points = points.at[:, places].set(prior.to_unconstrained(drawn))
        return points

    def _places(self) -> list[tuple[Prior, np.ndarray]]:
        """Each prior, with the numbers of its coordinates."""
        parameters = [c.parameter for c in self.objective.coordinates]
        return [
            (prior, np.flatnonzero(np.array(parameters) == name))
            for name, prior in zip(self.names, self.priors, strict=True)
        ]

    def _by_parameter(
        self, function: Callable[[Prior, Array], Array], values: Float[Array, " p"]
    ) -> Float[Array, " p"]:
        result = jnp.zeros(len(self.objective.coordinates))
        for prior, places in self._places():
            result = result.at[places].set(function(prior, values[places]))
        return result


def log_likelihood_at(
    objective: Objective, point: Float[Array, " p"], accuracy: Accuracy = EXACT
) -> Float[Array, ""]:
    """The log likelihood at a point on the search scale, `IMPOSSIBLE` where it is -inf, with
    policies that are looked for as carefully as `accuracy` says.

    It is computed for all points of a `vmap` together, and its gradient with it.
    """
    arrays, rest = eqx.partition(objective, eqx.is_array)

    def values(arrays: Any, points: Array) -> Array:
        totals = _totals(eqx.combine(arrays, rest), points, accuracy)
        return jnp.where(jnp.isfinite(totals), totals, IMPOSSIBLE)

    def with_gradients(arrays: Any, points: Array) -> tuple[Array, Array]:
        found, pull_back = jax.vjp(lambda points: values(arrays, points), points)
        # No point affects another's value, so one pull-back of ones gives every gradient.
        (gradients,) = pull_back(jnp.ones_like(found))
        # Where rounding spoils a gradient, a sampler that goes straight on is told by the value.
        return found, jnp.where(jnp.isfinite(gradients), gradients, 0.0)

    value = _together(values)
    with_gradient = _together(with_gradients)

    @jax.custom_vjp
    def differentiable(arrays: Any, point: Array) -> Array:
        return value(arrays, point)

    def forward(arrays: Any, point: Array) -> tuple[Array, Array]:
        return with_gradient(arrays, point)

    def backward(gradient: Array, cotangent: Array) -> tuple[None, Array]:
        return None, cotangent * gradient

    differentiable.defvjp(forward, backward)
    return differentiable(arrays, point)


def _totals(
    objective: Objective, points: Float[Array, "S p"], accuracy: Accuracy
) -> Float[Array, " S"]:
    """The log likelihood at each point; -inf where the model has no policy."""
    totals, _ = log_likelihoods_at(
        objective.at,
        points,
        objective.trials,
        weights=jnp.ones((len(points), len(objective.trials))),
        structure=objective.structure,
        accuracy=accuracy,
    )
    assert totals is not None  # there are weights
    return totals


def _together(of_points: Callable[[Any, Array], Any]) -> Callable[[Any, Array], Any]:
    """From a function of arrays and points (S, p) to one of arrays and a point (p,), which computes
    all points of a `vmap` together."""

    @custom_vmap
    def of_point(arrays: Any, point: Array) -> Any:
        return jax.tree.map(lambda leaf: leaf[0], of_points(arrays, point[None]))

    @of_point.def_vmap
    def of_many(axis_size: int, batched: Any, arrays: Any, points: Array) -> Any:
        arrays_batched, points_batched = batched
        if any(jax.tree.leaves(arrays_batched)):  # data sets of each point's own
            values = jax.lax.map(
                lambda both: jax.tree.map(lambda leaf: leaf[0], of_points(both[0], both[1][None])),
                _with_axis((arrays, points), (arrays_batched, points_batched), axis_size),
            )
        else:
            values = of_points(arrays, points)
        return values, jax.tree.map(lambda _: True, values)

    return of_point


def _with_axis(values: Any, batched: Any, size: int) -> Any:
    """`values` with an axis of `size` in front of every leaf that has none."""
    return jax.tree.map(
        lambda leaf, has: leaf if has else jnp.broadcast_to(leaf, (size, *jnp.shape(leaf))),
        values,
        batched,
    )
