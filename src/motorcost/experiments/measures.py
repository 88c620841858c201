"""Errors of estimates, and of the movements that they predict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost.model.moments import moments
from motorcost.model.policy import Policy
from motorcost.model.problem import Problem
from motorcost.model.simulate import simulate

if TYPE_CHECKING:
    import pandas as pd


def log_errors(table: pd.DataFrame, names: Sequence[str]) -> np.ndarray:
    """log10 of the ratio of estimates to true values, (rows, names), for rows that did not fail.

    The paper says "in logarithmic space" without a base. With 100 trials the standard error of a
    parameter is about 0.04 in natural logarithms and 0.02 in base 10; the paper reports 0.02.
    """
    fine = table[table["failed"] == ""]
    columns = [np.log10(fine[f"{name}_found"] / fine[name]) for name in names]
    return np.stack([np.asarray(column, float) for column in columns], axis=1)


def rmse(errors: np.ndarray) -> tuple[float, float]:
    """The root mean square of errors, and its standard error."""
    squares = np.asarray(errors, float).ravel() ** 2
    if not len(squares):
        return float("nan"), float("nan")
    root = float(np.sqrt(squares.mean()))
    spread = squares.std(ddof=1) / np.sqrt(len(squares)) if len(squares) > 1 else float("nan")
    return root, float(spread / (2 * root)) if root else 0.0


def mean(values: np.ndarray) -> tuple[float, float]:
    """The mean, and its standard error."""
    flat = np.asarray(values, float).ravel()
    if not len(flat):
        return float("nan"), float("nan")
    error = flat.std(ddof=1) / np.sqrt(len(flat)) if len(flat) > 1 else float("nan")
    return float(flat.mean()), float(error)


def has_errors(table: pd.DataFrame, names: Sequence[str]) -> np.ndarray:
    """Which rows have estimates with standard errors.

    A search that ends on a slope or at a bound has none, and an interval that is open on both
    sides would cover every value.
    """
    errors = table[[f"{name}_se" for name in names]].to_numpy(float)
    return (table["failed"] == "").to_numpy() & np.isfinite(errors).all(axis=1)


def covered(table: pd.DataFrame, names: Sequence[str]) -> np.ndarray:
    """Whether the true value is within the 95 % interval, (rows, names), for rows with errors."""
    fine = table[has_errors(table, names)]
    z = [np.log(fine[f"{name}_found"] / fine[name]) / fine[f"{name}_se"] for name in names]
    return np.abs(np.stack([np.asarray(column, float) for column in z], axis=1)) < 1.96


def symmetrised_kl(
    mean_p: Float[Array, "T k"],
    cov_p: Float[Array, "T k k"],
    mean_q: Float[Array, "T k"],
    cov_q: Float[Array, "T k k"],
) -> Float[Array, " T"]:
    """Half the sum of the divergences, both ways, between two Gaussians at each time.

    Covariances must have full rank. They are scaled to unit diagonal first: the divergence does
    not depend on units, its rounding does.
    """
    scale = jnp.sqrt(jnp.diagonal(cov_p, axis1=1, axis2=2))
    both = scale[:, :, None] * scale[:, None, :]
    P, Q = cov_p / both, cov_q / both
    d = (mean_p - mean_q) / scale

    def at_time(P: Array, Q: Array, d: Array) -> Array:
        p, q = jnp.linalg.inv(P), jnp.linalg.inv(Q)
        return (jnp.trace(q @ P) + jnp.trace(p @ Q) + d @ (p + q) @ d) / 2 - len(d)

    return jax.vmap(at_time)(P, Q, d) / 2


@dataclass(frozen=True)
class TrajectoryDivergence:
    """The divergence of movements under the true and under the fitted parameters: a measure for
    `Recovery`.

    It is the mean over time of the symmetrised divergence between two Gaussians, which are fitted
    to `n_trials` simulated trajectories each, as in the paper (`kl`), or have the exact moments
    (`kl_exact`). Only the named `states` are compared, from step `first` on: at earlier steps some
    of them do not vary, because a reach begins without any noise.
    """

    states: tuple[str, ...]
    first: int
    n_trials: int = 10_000

    def __call__(
        self, key: Any, truth: Problem, true_policy: Policy, found: Problem, found_policy: Policy
    ) -> dict[str, Array]:
        """The two divergences between the true and the fitted problem."""
        both = (truth, true_policy), (found, found_policy)
        keys = jax.random.split(key)
        sampled = [self.sampled(*pair, key) for pair, key in zip(both, keys, strict=True)]
        exact = [self.exact(*pair) for pair in both]
        return {
            "kl": symmetrised_kl(*sampled[0], *sampled[1]).mean(),
            "kl_exact": symmetrised_kl(*exact[0], *exact[1]).mean(),
        }

    def sampled(self, problem: Problem, policy: Policy, key: Any) -> tuple[Array, Array]:
        """Mean and covariance at each time, of simulated trajectories."""
        trials = simulate(problem, policy, n_trials=self.n_trials, key=key)
        x = trials.observed[:, self.first :, self._which(problem)]
        mean = x.mean(axis=0)
        around = x - mean
        return mean, jnp.einsum("nti,ntj->tij", around, around) / (self.n_trials - 1)

    def exact(self, problem: Problem, policy: Policy) -> tuple[Array, Array]:
        """Mean and covariance at each time, exactly."""
        which = self._which(problem)
        z = moments(problem, policy)
        return z.state_mean[self.first :, which], z.state_cov[self.first :][
            :, which[:, None], which[None, :]
        ]

    def _which(self, problem: Problem) -> np.ndarray:
        return np.array([problem.state_names.index(name) for name in self.states])
