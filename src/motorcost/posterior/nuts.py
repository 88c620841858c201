"""NumPyro's No-U-Turn sampler, run in pieces: chains together, on all cores, with progress."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost.fitting.batching import cores_to_use
from motorcost.fitting.progress import Progress, silent
from motorcost.numerics.compiling import lean_jit
from motorcost.posterior.kept import Kept
from motorcost.posterior.target import PROPOSING, Density

# The acceptance that steps are adapted to, unless told otherwise. With 0.65 posteriors that are
# nearly normal took a fifth fewer steps, but one with a long tail gave fewer effective draws.
TARGET_ACCEPT = 0.7
# Transitions in one call of the compiled program: between calls there is progress, and Ctrl-C.
PIECE = 25
# With more parameters than this, a covariance cannot be learnt from a few hundred draws: only
# variances are.
MOST_DENSE = 12


@dataclass(frozen=True)
class Chains:
    """What the sampler drew, after warm-up: arrays (chain, draw).

    - `draws` (chain, draw, k): on the scale without ends.
    - `log_density`, `accept`, `leapfrogs`, `diverging`: of each draw.
    - `step_size`: of each chain.
    - `interrupted`: whether the user stopped it early; there are then fewer draws.
    """

    draws: np.ndarray
    log_density: np.ndarray
    accept: np.ndarray
    leapfrogs: np.ndarray
    diverging: np.ndarray
    step_size: np.ndarray
    interrupted: bool

    @property
    def stats(self) -> dict[str, np.ndarray]:
        """What is known of each draw, by ArviZ's names."""
        return {
            "lp": self.log_density,
            "acceptance_rate": self.accept,
            "n_steps": self.leapfrogs,
            "diverging": self.diverging,
        }


class Starts(NamedTuple):
    """Where chains begin: points (chain, k), log posterior densities and their gradients there."""

    points: np.ndarray
    log_densities: np.ndarray
    gradients: np.ndarray


def run_nuts(
    density: Density,
    starts: Starts,
    covariances: np.ndarray,
    key: Any,
    *,
    n_draws: int,
    n_warmup: int,
    target_accept: float,
    progress: Progress = silent,
    kept: Kept | None = None,
) -> Chains:
    """Run a chain from each of `starts`, with `covariances` (chain, k, k) that the posterior has
    around there, roughly: chains move on a scale on which these are identities.

    Pieces that are `kept` are not drawn again."""
    store = Kept() if kept is None else kept
    count = len(starts.points)
    factors = np.linalg.cholesky(covariances)
    slopes = np.einsum("cij,ci->cj", factors, starts.gradients)
    keys = jax.random.split(key, count)
    pieces = -(-(n_warmup + n_draws) // PIECE)
    stop, done, lock = threading.Event(), [0], threading.Lock()

    def tick(pieces_done: int) -> None:
        with lock:
            done[0] += pieces_done
            progress("sampling", done[0] * PIECE, pieces * PIECE * len(blocks))

    first = threading.Lock()  # or each core would compile the program for itself

    def run(block: np.ndarray) -> tuple[Any, Any]:
        frame = (jnp.asarray(starts.points[block]), jnp.asarray(factors[block]))
        setting = {"warmup": n_warmup, "accept": target_accept}
        at = jnp.asarray(starts.log_densities[block]), jnp.asarray(slopes[block])
        states = _begin(frame, keys[block], *at, **setting)
        states, drawn = _go_on(store, block, states, pieces)
        tick(len(drawn))
        for number in range(len(drawn), pieces):
            with first if number == 0 else nullcontext():
                states, piece = jax.block_until_ready(_advance(density, frame, states, **setting))
            drawn.append(jax.tree.map(np.asarray, piece))
            store.write(_stage(block, number), _piece_as_arrays(states, drawn[-1]))
            tick(1)
            if stop.is_set():
                break
        joined = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *drawn)
        return joined, np.asarray(states.adapt_state.step_size)

    # Where a sampling goes on, chains are together as they were: rounding depends on it.
    cores = int(store.once("cores", lambda: {"count": np.asarray(cores_to_use())})["count"])
    blocks = [np.asarray(b) for b in np.array_split(np.arange(count), cores) if len(b)]
    progress("sampling", 0, pieces * PIECE * len(blocks))
    results, interrupted = _in_threads(run, blocks, stop)
    shortest = min(piece[0].shape[1] for piece, _ in results)
    after_warmup = slice(n_warmup, min(shortest, n_warmup + n_draws))
    draws, log_density, accept, leapfrogs, diverging = (
        np.concatenate([piece[i][:, after_warmup] for piece, _ in results]) for i in range(5)
    )
    step_size = np.concatenate([size for _, size in results])
    return Chains(draws, log_density, accept, leapfrogs, diverging, step_size, interrupted)


def starts_kept(kept: Kept, compute: Callable[[], Starts]) -> Starts:
    """Where chains begin, computed unless it is kept."""
    return Starts(**kept.once("starts", lambda: compute()._asdict()))


def _stage(block: np.ndarray, number: int) -> str:
    """The name under which a piece of the chains of a block is kept."""
    return f"chains-{block[0]}-{block[-1]}-{number:05}"


def _piece_as_arrays(states: Any, piece: Any) -> dict[str, np.ndarray]:
    leaves = [
        jax.random.key_data(leaf) if _is_key(leaf) else leaf for leaf in jax.tree.leaves(states)
    ]
    named = {f"state_{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
    return named | {f"drawn_{i}": np.asarray(values) for i, values in enumerate(piece)}


def _go_on(
    store: Kept, block: np.ndarray, states: Any, pieces: int
) -> tuple[Any, list[tuple[np.ndarray, ...]]]:
    """The states of chains after the pieces that are kept, and these; `states` is those before the
    first."""
    leaves, tree = jax.tree.flatten(states)
    drawn: list[tuple[np.ndarray, ...]] = []
    last = None
    for number in range(pieces):
        found = store.read(_stage(block, number))
        if found is None:
            break
        drawn.append(tuple(found[f"drawn_{i}"] for i in range(len(found) - len(leaves))))
        last = found
    if last is None:
        return states, drawn
    restored = [
        jax.random.wrap_key_data(jnp.asarray(last[f"state_{i}"]), impl=jax.random.key_impl(leaf))
        if _is_key(leaf)
        else jnp.asarray(last[f"state_{i}"])
        for i, leaf in enumerate(leaves)
    ]
    return jax.tree.unflatten(tree, restored), drawn


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(jnp.asarray(leaf).dtype, jax.dtypes.prng_key)


def _in_threads(
    run: Callable[[np.ndarray], Any], blocks: list[np.ndarray], stop: threading.Event
) -> tuple[list[Any], bool]:
    """What `run` returns for each block; after Ctrl-C, what it has by then."""
    interrupted = False
    with ThreadPoolExecutor(len(blocks)) as pool:
        futures = [pool.submit(run, block) for block in blocks]
        try:
            failed = wait(futures, return_when=FIRST_EXCEPTION).not_done
            if failed:
                stop.set()
        except KeyboardInterrupt:
            interrupted = True
            stop.set()
    return [future.result() for future in futures], interrupted


Frame = tuple[Float[Array, "chain k"], Float[Array, "chain k k"]]


def _kernel(density: Density | None, centre: Array, factor: Array) -> tuple[Any, Any]:
    """NumPyro's sampler of one chain, on the scale on which the posterior is nearly standard."""
    from numpyro.infer.hmc import hmc

    def potential(standard: Array) -> Array:
        assert density is not None  # only a transition computes it
        return -density.log_density(centre + factor @ standard, PROPOSING)

    return hmc(potential_fn=potential, algo="NUTS")


def _options(k: int, accept: float) -> dict[str, Any]:
    return {"dense_mass": k <= MOST_DENSE, "target_accept_prob": accept}


@lean_jit
def _begin(
    frame: Frame,
    keys: Any,
    log_densities: Float[Array, " chain"],
    slopes: Float[Array, "chain k"],
    *,
    warmup: int,
    accept: float,
) -> Any:
    """The states of chains before their first transition."""
    from numpyro.infer.util import ParamInfo

    def of_chain(centre: Array, factor: Array, key: Any, value: Array, slope: Array) -> Any:
        begin, _ = _kernel(None, centre, factor)
        start = ParamInfo(jnp.zeros_like(centre), -value, -slope)
        return begin(start, warmup, rng_key=key, **_options(len(centre), accept))

    return jax.vmap(of_chain)(*frame, keys, log_densities, slopes)


@lean_jit
def _advance(density: Density, frame: Frame, states: Any, *, warmup: int, accept: float) -> Any:
    """The states of chains some transitions later, and their draws on the way."""

    def of_chain(centre: Array, factor: Array, state: Any) -> Any:
        begin, transition = _kernel(density, centre, factor)
        # The sampler keeps settings from its beginning, which is told to it without computing it.
        options = _options(len(centre), accept)
        jax.eval_shape(lambda: begin(state.z, warmup, rng_key=state.rng_key, **options))

        def step(state: Any, _: Any) -> Any:
            new = transition(state)
            drawn = centre + factor @ new.z
            of_draw = (-new.potential_energy, new.accept_prob, new.num_steps, new.diverging)
            return new, (drawn, *of_draw)

        return jax.lax.scan(step, state, None, length=PIECE)

    return jax.vmap(of_chain)(*frame, states)
