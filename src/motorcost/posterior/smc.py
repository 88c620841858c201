"""Tempered sequential Monte Carlo: draws of a posterior with several modes or jumps, and its
evidence.

Particles are drawn from the prior, and the likelihood is raised from power 0 to power 1 in as many
steps as their weights need (Del Moral, Doucet and Jasra 2006). At each power a few particles are
chosen by weight, and each begins a chain of Metropolis steps whose states are all kept (Dau and
Chopin 2022, "waste-free"). No gradient is used, so that jumps of the likelihood do no harm.

BlackJAX has such samplers. They evaluate each particle three times more at every power than they
move it, and compile four copies of the likelihood, which is nearly all of the time here: log
likelihoods are therefore kept with the particles, and one program does everything.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from motorcost import checks
from motorcost.errors import ConvergenceError
from motorcost.fitting.batching import cores_to_use
from motorcost.fitting.progress import Progress, silent
from motorcost.numerics.compiling import lean_jit
from motorcost.posterior.kept import Kept
from motorcost.posterior.target import IMPOSSIBLE, Target

# States that each chain gives at a power of the likelihood.
STATES = 10
# Particles of a population, at least: fewer lose modes.
LEAST_PARTICLES = 500
# The next power leaves this part of the particles effective.
KEPT = 0.5
# Metropolis steps from one kept state to the next: enough for so many accepted ones on average, at
# a power on the way and at the last one, whose states are the result.
ACCEPTED_ON_THE_WAY = 0.5
ACCEPTED_AT_LAST = 1.5
MOST_STEPS = 12
# Steps as long as the difference of two particles lead from one mode to another.
FAR_STEPS = 0.15
# The optimal length of random-walk steps, for a normal density in many dimensions.
OPTIMAL_LENGTH = 2.38
OPTIMAL_ACCEPTANCE = 0.3
# Noise of each step, in SDs of the particles: differences of few particles would only reach few
# places.
JITTER = 0.02
# More powers than any sound posterior has needed.
MOST_POWERS = 300


@dataclass(frozen=True)
class SmcDraws:
    """Equally weighted draws of a posterior, from independent populations.

    - `points`: on the unconstrained scale, (populations, draws, parameters). Draws that follow one
      another may be of one chain.
    - `log_densities`: the log posterior density of each, up to the log evidence.
    - `log_evidences`: the log evidence by each population.
    - `powers`: the powers of the likelihood, from 0 to 1.
    - `acceptances`: of the steps at each power after the first.
    - `effective_sizes`: for each parameter, how many independent draws would tell its mean as well
      as all of these do.
    """

    points: np.ndarray
    log_densities: np.ndarray
    log_evidences: np.ndarray
    powers: tuple[float, ...]
    acceptances: tuple[float, ...]
    effective_sizes: np.ndarray

    @property
    def log_evidence(self) -> float:
        """The log of the mean evidence of the populations: each evidence is unbiased, its
        logarithm is not."""
        return float(np.logaddexp.reduce(self.log_evidences) - math.log(len(self.log_evidences)))

    @property
    def log_evidence_error(self) -> float:
        """The standard error of `log_evidence`, from the spread of the populations."""
        relative = np.exp(self.log_evidences - self.log_evidence)
        if len(relative) < 2:
            return math.nan
        return float(relative.std(ddof=1) / math.sqrt(len(relative)))


class _Particles(NamedTuple):
    """Particles of G populations, from C chains of S states."""

    points: Float[np.ndarray, "G C S p"]
    log_likelihoods: Float[np.ndarray, "G C S"]


def sample_smc(
    target: Target,
    key: Any,
    *,
    n_draws: int = 1000,
    n_populations: int = 4,
    progress: Progress = silent,
    kept: Kept | None = None,
) -> SmcDraws:
    """Draw from a posterior that may have several modes and jumps, and find its evidence.

    - `n_draws`: draws of each population; it has as many particles, at least `LEAST_PARTICLES`.
    - `n_populations`: independent ones, whose spread tells the error of the evidence and of the
      weights of modes. They share the powers of the likelihood.
    - `progress`: called once for each power. `kept`: where the particles of the last one are.

    Raises `ConvergenceError` if no draw of the prior can have made the trials.
    """
    checks.whole("n_draws", n_draws, 1, "draws of each population")
    checks.whole("n_populations", n_populations, 1, "independent populations")
    chains = -(-max(n_draws, LEAST_PARTICLES) // STATES)
    stages = _Stages(target, n_populations, chains)
    p = len(target.objective.coordinates)
    store = Kept() if kept is None else kept
    stored = store.read("populations")
    if stored is None:
        nowhere = np.zeros((n_populations, chains, p))
        # At power 0 every step is a draw from the prior, wherever it begins.
        particles, _ = stages.run(key, nowhere, nowhere[..., 0], nowhere, 0.0, 1.0, 1)
        _require_possible(particles.log_likelihoods)
        at = _Tempered(key, particles, n_populations)
        store.write("populations", at.as_arrays())
    else:
        at = _Tempered.restored(key, stored)
    while at.powers[-1] < 1:
        progress("raising the likelihood", len(at.powers), None)
        if len(at.powers) > MOST_POWERS:
            raise ConvergenceError(
                f"after {MOST_POWERS} steps the likelihood is at power {at.powers[-1]:.2g} only: "
                "the priors reach far from what the trials allow; choose narrower ones"
            )
        at.rise(stages, chains)
        store.write("populations", at.as_arrays())
    chosen = np.linspace(0, chains * STATES - 1, n_draws).round().astype(int)
    points = at.particles.points.reshape(n_populations, -1, p)[:, chosen]
    log_likelihoods = at.particles.log_likelihoods.reshape(n_populations, -1)[:, chosen]
    of_prior = jax.jit(jax.vmap(jax.vmap(target.log_prior)))(jnp.asarray(points))
    return SmcDraws(
        points=points,
        log_densities=np.asarray(of_prior) + log_likelihoods,
        log_evidences=at.log_evidences,
        powers=tuple(at.powers),
        acceptances=tuple(at.acceptances),
        effective_sizes=_effective_sizes(at.particles.points),
    )


class _Tempered:
    """Populations at a power of the likelihood, with all that the next power follows from."""

    def __init__(self, key: Any, particles: _Particles, n_populations: int) -> None:
        self.key, self.particles = key, particles
        self.rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
        self.powers, self.acceptances = [0.0], list[float]()
        self.log_evidences = np.zeros(n_populations)
        self.length = 1.0

    def rise(self, stages: _Stages, chains: int) -> None:
        """Go on to the next power."""
        powers, particles = self.powers, self.particles
        populations = len(particles.points)
        rise = _next_rise(particles.log_likelihoods, 1 - powers[-1])
        power = 1.0 if rise == 1 - powers[-1] else powers[-1] + rise
        log_weights = rise * particles.log_likelihoods.reshape(populations, -1)
        increase = np.logaddexp.reduce(log_weights, axis=1) - math.log(log_weights.shape[1])
        starts, of_starts = _chosen(self.rng, particles, log_weights, chains)
        reference, _ = _chosen(self.rng, particles, log_weights, log_weights.shape[1])
        wanted = ACCEPTED_AT_LAST if power == 1 else ACCEPTED_ON_THE_WAY
        acceptance = self.acceptances[-1] if self.acceptances else OPTIMAL_ACCEPTANCE
        steps = int(np.clip(math.ceil(wanted / max(acceptance, 0.01)), 1, MOST_STEPS))
        self.key = jax.random.fold_in(self.key, len(powers))
        self.particles, acceptance = stages.run(
            self.key, starts, of_starts, reference, power, self.length, steps
        )
        self.log_evidences = self.log_evidences + increase
        self.length *= math.exp(2 * (acceptance - OPTIMAL_ACCEPTANCE))
        powers.append(power)
        self.acceptances.append(acceptance)

    def as_arrays(self) -> dict[str, np.ndarray]:
        """Everything, to be written into a file."""
        return {
            "key": np.asarray(jax.random.key_data(self.key)),
            "rng": np.asarray(json.dumps(self.rng.bit_generator.state)),
            "points": self.particles.points,
            "log_likelihoods": self.particles.log_likelihoods,
            "powers": np.array(self.powers),
            "acceptances": np.array(self.acceptances),
            "log_evidences": self.log_evidences,
            "length": np.asarray(self.length),
        }

    @classmethod
    def restored(cls, key: Any, stored: Mapping[str, np.ndarray]) -> _Tempered:
        """What `as_arrays` returned; `key` tells the kind of random numbers."""
        particles = _Particles(stored["points"], stored["log_likelihoods"])
        at = cls(key, particles, len(particles.points))
        if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
            impl = jax.random.key_impl(key)
            at.key = jax.random.wrap_key_data(jnp.asarray(stored["key"]), impl=impl)
        else:
            at.key = jnp.asarray(stored["key"])
        at.rng.bit_generator.state = json.loads(str(stored["rng"]))
        at.powers = stored["powers"].tolist()
        at.acceptances = stored["acceptances"].tolist()
        at.log_evidences, at.length = stored["log_evidences"], float(stored["length"])
        return at


class _Stages:
    """Runs the chains of all populations: in threads on a CPU, together on an accelerator."""

    def __init__(self, target: Target, n_populations: int, chains: int) -> None:
        self._target, self._chains = target, chains
        self._cores = cores_to_use()
        on_cpu = jax.default_backend() == "cpu"
        count = n_populations if on_cpu else 1
        self._parts = np.array_split(np.arange(n_populations), count)
        self._compiled = False

    def run(
        self,
        key: Any,
        starts: np.ndarray,
        of_starts: np.ndarray,
        reference: np.ndarray,
        power: float,
        length: float,
        steps: int,
    ) -> tuple[_Particles, float]:
        """The states of chains from `starts` (G, C, p), and the share of accepted steps."""

        def of_part(populations: np.ndarray) -> Any:
            found = _run_chains(
                self._target,
                jax.random.fold_in(key, int(populations[0])),
                jnp.asarray(starts[populations]),
                jnp.asarray(of_starts[populations]),
                jnp.asarray(reference[populations]),
                jnp.asarray(power),
                jnp.asarray(length),
                jnp.asarray(steps),
            )
            return jax.tree.map(np.asarray, found)

        # The first alone, or each core would compile the program for itself.
        first = [] if self._compiled else [of_part(self._parts[0])]
        self._compiled = True
        with ThreadPoolExecutor(self._cores) as pool:
            results = [*first, *pool.map(of_part, self._parts[len(first) :])]
        points, log_likelihoods, accepted = zip(*results, strict=True)
        particles = _Particles(np.concatenate(points), np.concatenate(log_likelihoods))
        return particles, float(np.mean(accepted))


@lean_jit
def _run_chains(
    target: Target,
    key: Any,
    starts: Float[Array, "G C p"],
    of_starts: Float[Array, "G C"],
    reference: Float[Array, "G R p"],
    power: Float[Array, ""],
    length: Float[Array, ""],
    steps: Any,
) -> tuple[Float[Array, "G C S p"], Float[Array, "G C S"], Float[Array, ""]]:
    """`STATES` states of each chain, `steps` steps apart, their log likelihoods, and the share of
    accepted steps among those of adapted length.

    Steps are differences of two particles of `reference` (ter Braak 2006). They have the shape of
    the posterior, also where it is curved or has several modes, and lead from mode to mode.
    """
    G, C, p = starts.shape
    spread = reference.std(axis=1, keepdims=True)
    log_prior = jax.vmap(jax.vmap(target.log_prior))

    def step(_: Any, carried: Any) -> Any:
        key, points, log_likelihoods, near_accepted, near_count = carried
        key, *keys = jax.random.split(key, 6)
        pair = jax.random.randint(keys[0], (2, G, C, 1), 0, reference.shape[1])
        first, second = (jnp.take_along_axis(reference, numbers, axis=1) for numbers in pair)
        is_far = jax.random.bernoulli(keys[1], FAR_STEPS, (G, C))
        factor = jnp.where(is_far, 1.0, length * OPTIMAL_LENGTH / math.sqrt(2 * p))
        proposed = points + factor[..., None] * (first - second)
        proposed += JITTER * spread * jax.random.normal(keys[2], proposed.shape)
        of_prior = target.draw_prior(keys[3], G * C).reshape(proposed.shape)
        proposed = jnp.where(power == 0, of_prior, proposed)
        found = jax.vmap(target.log_likelihood)(proposed.reshape(-1, p)).reshape(G, C)
        ratio = log_prior(proposed) - log_prior(points) + power * (found - log_likelihoods)
        ratio = jnp.where(power == 0, jnp.inf, ratio)
        accepted = jnp.log(jax.random.uniform(keys[4], (G, C))) < ratio
        return (
            key,
            jnp.where(accepted[..., None], proposed, points),
            jnp.where(accepted, found, log_likelihoods),
            near_accepted + (accepted & ~is_far).sum(),
            near_count + (~is_far).sum(),
        )

    def state(carried: Any, _: None) -> Any:
        carried = lax.fori_loop(0, steps, step, carried)
        return carried, (carried[1], carried[2])

    begin = (key, starts, of_starts, jnp.zeros((), int), jnp.zeros((), int))
    (*_, accepted, count), (points, log_likelihoods) = lax.scan(state, begin, length=STATES)
    share = accepted / jnp.maximum(count, 1)
    return jnp.moveaxis(points, 0, 2), jnp.moveaxis(log_likelihoods, 0, 2), share


def _require_possible(log_likelihoods: np.ndarray) -> None:
    for of_population in log_likelihoods:
        if not (of_population > IMPOSSIBLE).any():
            raise ConvergenceError(
                f"none of {of_population.size} draws from the priors can have made these trials: "
                "motorcost fit finds parameters that can; centre the priors there"
            )


def _next_rise(log_likelihoods: np.ndarray, most: float) -> float:
    """How much the power of the likelihood can rise, so that enough particles stay effective in
    every population; at most `most`."""
    populations = log_likelihoods.reshape(len(log_likelihoods), -1)

    def is_small(rise: float) -> bool:
        for values in populations:
            possible = values[values > IMPOSSIBLE]
            weights = np.exp(rise * (possible - possible.max()))
            # Of the possible ones: where most of the prior is impossible, no rise would leave half
            # of all particles effective.
            if weights.sum() ** 2 < KEPT * len(possible) * (weights**2).sum():
                return False
        return True

    if is_small(most):
        return most
    # Powers begin anywhere between 1e-12 and 1, so their logarithm is halved.
    low, high = math.log(most) - 60.0, math.log(most)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if is_small(math.exp(middle)) else (low, middle)
    return math.exp(low)


def _chosen(
    rng: np.random.Generator, particles: _Particles, log_weights: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """`count` particles of each population by weight (systematic resampling), and their log
    likelihoods. The states of a chain lie side by side, so that no mode is drawn much too often."""
    points, values = [], []
    for of_population, found, logs in zip(*particles, log_weights, strict=True):
        weights = np.exp(logs - logs.max())
        edges = np.cumsum(weights) / weights.sum()
        places = (np.arange(count) + rng.uniform()) / count
        numbers = np.minimum(np.searchsorted(edges, places), len(weights) - 1)
        points.append(of_population.reshape(len(weights), -1)[numbers])
        values.append(found.ravel()[numbers])
    return np.stack(points), np.stack(values)


def _effective_sizes(points: Float[np.ndarray, "G C S p"]) -> np.ndarray:
    """How many independent draws tell each mean as well: by the spread of the chains' means."""
    of_chains = points.mean(axis=2).reshape(-1, points.shape[-1])
    every = points.reshape(-1, points.shape[-1])
    spread = np.maximum(of_chains.var(axis=0, ddof=1), np.finfo(float).tiny)
    return np.minimum(every.var(axis=0) * len(of_chains) / spread, len(every))
