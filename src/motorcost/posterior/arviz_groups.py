"""Draws as what ArviZ opens: groups of labelled arrays."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost.diagnostics.replicates import samples_at
from motorcost.fitting.batching import BatchedObjective
from motorcost.fitting.objective import Objective
from motorcost.inference.beliefs import track_beliefs
from motorcost.numerics.compiling import lean_jit

if TYPE_CHECKING:
    from xarray import Dataset

# Draws of which the log likelihood of every trial is kept, and of which movements are simulated.
LOG_LIKELIHOOD_DRAWS = 4_000
PREDICTIVE_DRAWS = 100
# Numbers in a group of simulated movements or beliefs, at most.
MOST_NUMBERS = 5_000_000


def arviz() -> Any:
    """ArviZ, which takes seconds to import, and warns once a day of changes in its next version."""
    try:
        return _imported()
    except FileNotFoundError:
        # It notes in the user's cache folder that it has warned, by renaming a file that another
        # process, which imports it at the same moment, may have renamed already.
        return _imported()


def _imported() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz

    return arviz


def parameters_dataset(objective: Objective, points: np.ndarray) -> Dataset:
    """Natural values of the objective's parameters, from points (chain, draw, p)."""
    import xarray

    values: dict[str, Any] = {}
    coordinates = _chain_and_draw(points)
    for name in dict.fromkeys(c.parameter for c in objective.coordinates):
        places = [i for i, c in enumerate(objective.coordinates) if c.parameter == name]
        support = objective.coordinates[places[0]].support
        natural = np.asarray(support.from_search_scale(points[..., places]))
        if support.per is None:
            values[name] = (("chain", "draw"), natural[..., 0])
        else:
            values[name] = (("chain", "draw", support.per), natural)
            coordinates[support.per] = [str(objective.coordinates[i].group) for i in places]
    return xarray.Dataset(values, coords=coordinates)


def sample_stats_dataset(stats: Mapping[str, np.ndarray]) -> Dataset:
    """What the sampler says of each draw: arrays (chain, draw) by name."""
    import xarray

    first = next(iter(stats.values()))
    return xarray.Dataset(
        {name: (("chain", "draw"), values) for name, values in stats.items()},
        coords=_chain_and_draw(first),
    )


def log_likelihood_dataset(objective: Objective, points: np.ndarray) -> Dataset:
    """The log likelihood of every trial, at draws that are evenly spaced: for LOO and WAIC."""
    import xarray

    chosen = evenly(points.shape[1], LOG_LIKELIHOOD_DRAWS // points.shape[0])
    thinned = points[:, chosen]
    flat = thinned.reshape(-1, points.shape[-1])
    batched = BatchedObjective(objective, expected=len(flat), gradient=False)
    values = batched.per_trial(np.zeros(len(flat), int), flat)
    return xarray.Dataset(
        {"trials": (("chain", "draw", "trial"), values.reshape(*thinned.shape[:2], -1))},
        coords=_chain_and_draw(thinned, chosen) | {"trial": np.arange(values.shape[1])},
    )


def predictive_dataset(
    objective: Objective, points: np.ndarray, key: Any, *, beliefs: bool
) -> Dataset:
    """Movements simulated at draws (chain, draw, p), which are evenly spaced, as the trials were
    recorded; with `beliefs`, draws of what the agent believed in the recorded trials, too."""
    import xarray

    problem, _ = objective.first_problem(jnp.asarray(points[0, 0]))
    N, T, o = objective.trials.observed.shape
    states = problem.state_names
    size = N * T * max(o, len(states) if beliefs else 0)
    most = max(1, min(PREDICTIVE_DRAWS, MOST_NUMBERS // size) // points.shape[0])
    chosen = evenly(points.shape[1], most)
    thinned = points[:, chosen]
    flat = jnp.asarray(thinned.reshape(-1, points.shape[-1]))
    dims = ("chain", "draw", "trial", "time")
    axes = (*thinned.shape[:2], N, T)
    moved = np.asarray(_movements(objective, flat, key))
    values = {"observed": ((*dims, "channel"), moved.reshape(*axes, o))}
    coordinates = _chain_and_draw(thinned, chosen) | _recorded(objective)
    if beliefs:
        believed = np.asarray(_beliefs(objective, flat, jax.random.fold_in(key, 1)))
        values["belief"] = ((*dims, "state"), believed.reshape(*axes, len(states)))
        coordinates["state"] = list(states)
    return xarray.Dataset(values, coords=coordinates)


def observed_dataset(objective: Objective) -> Dataset:
    """The trials as they were recorded."""
    import xarray

    observed = np.asarray(objective.trials.observed)
    return xarray.Dataset(
        {"observed": (("trial", "time", "channel"), observed)}, coords=_recorded(objective)
    )


def evenly(count: int, most: int) -> np.ndarray:
    """The numbers of at most `most` of `count` draws, evenly spaced, the last among them."""
    step = max(1, -(-count // max(most, 1)))
    return np.arange(count - 1, -1, -step)[::-1]


def _chain_and_draw(values: np.ndarray, draws: np.ndarray | None = None) -> dict[str, Any]:
    chain, draw = values.shape[:2]
    return {"chain": np.arange(chain), "draw": np.arange(draw) if draws is None else draws}


def _recorded(objective: Objective) -> dict[str, Any]:
    trials = objective.trials
    return {
        "trial": np.arange(len(trials)),
        "time": np.asarray(trials.times),
        "channel": list(trials.channel_names),
    }


@lean_jit
def _movements(
    objective: Objective, points: Float[Array, "S p"], key: Any
) -> Float[Array, "S N T o"]:
    keys = jax.random.split(key, len(points))
    return jax.lax.map(lambda both: samples_at(objective, both[0], 1, both[1])[0], (points, keys))


@lean_jit
def _beliefs(
    objective: Objective, points: Float[Array, "S p"], key: Any
) -> Float[Array, "S N T n"]:
    """A draw of the agent's estimate in every trial and at every time, given the samples up to
    then: at each time by itself, not of a whole course."""

    def at(both: tuple[Array, Any]) -> Array:
        point, key = both
        found = track_beliefs(objective.at(point), objective.trials)
        noise = jax.random.normal(key, found.mean.shape)
        variances, axes = jnp.linalg.eigh(found.cov)
        along = jnp.sqrt(jnp.maximum(variances, 0.0)) * noise
        return found.mean + jnp.einsum("ntij,ntj->nti", axes, along)

    return jax.lax.map(at, (points, jax.random.split(key, len(points))))
