"""Behaviour, recorded or simulated."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from motorcost.errors import InputError
from motorcost.problem import Problem


class Trials(eqx.Module):
    """Trials of one task; axes (trial, time, dimension).

    - `observed`: what the experimenter recorded, a channel for each of `channel_names`.
    - `states`, `beliefs` (T each), `controls`, `senses` (T-1 each): the truth behind it, for
      simulated trials.
    - `times`: seconds from the first sample.
    """

    observed: Float[Array, "N T o"]
    times: Float[Array, " T"]
    states: Float[Array, "N T n"]
    beliefs: Float[Array, "N T n"]
    controls: Float[Array, "N steps m"]
    senses: Float[Array, "N steps k"]
    channel_names: tuple[str, ...] = eqx.field(static=True)
    channel_units: tuple[str, ...] = eqx.field(static=True)

    def __len__(self) -> int:
        return self.observed.shape[0]

    def __getitem__(self, which: Any) -> "Trials":
        """Some of the trials: `trials[:10]`, or by an array of indices or of true and false."""
        if isinstance(which, int):
            raise InputError(f"trials[{which}] is one trial: write trials[{which}:{which + 1}]")
        fields = ("observed", "states", "beliefs", "controls", "senses")
        return eqx.tree_at(
            lambda t: [getattr(t, name) for name in fields],
            self,
            [getattr(self, name)[which] for name in fields],
        )

    def __repr__(self) -> str:
        N, T, _ = self.observed.shape
        return f"Trials: {N} trials of {T} samples ({', '.join(self.channel_names)})"

    def costs(self, problem: Problem) -> Float[Array, " N"]:
        """What each trial cost, by `problem`'s cost."""
        x, u = self.states, self.controls
        return jnp.einsum("bti,tij,btj->b", x, problem.Q, x) + jnp.einsum(
            "bti,tij,btj->b", u, problem.R, u
        )
