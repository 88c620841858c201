"""Many random problems, fitted at once: `python benchmarks/random_problems.py [--problems 2000]`.

Each is a problem of its own (the paper's appendix), with two efforts drawn at random and trials
simulated with them; both efforts are then inferred from several starts. Everything is counted:
making the problems, compiling, simulating, and all searches, which take their steps together.
Runs on whatever device JAX picks.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import motorcost as mc
from motorcost.climb import climb
from motorcost.likelihood import log_likelihoods_of
from motorcost.recordings import Group
from timing import machine

RESULTS = Path(__file__).parent / "results" / "random_problems.json"
LOW, HIGH = 1e-4, 100.0  # where efforts lie
TELLING = 4  # all states have noise, but for the target


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit many random problems at once.")
    parser.add_argument("--problems", type=int, default=2_000)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--together", type=int, default=4_096, help="searches in one call")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help="where the JSON goes")
    args = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    facts = machine() | {name: getattr(args, name) for name in ("problems", "starts", "trials")}
    begin = time.perf_counter()
    result = recovered(args.problems, args.starts, args.trials, args.together)
    result["seconds"] = time.perf_counter() - begin
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(facts | result, indent=1))
    print(f"{facts['device']}: " + ", ".join(f"{k} {v:.6g}" for k, v in result.items()))


def recovered(problems: int, starts: int, trials: int, together: int) -> dict[str, float]:
    """How well the efforts come back, and at what expense."""
    keys = jax.random.split(jax.random.key(0), problems)
    rng = np.random.default_rng(0)
    bounds = np.log([[LOW, HIGH]] * 2)
    truth = rng.uniform(np.log(1e-3), np.log(10.0), size=(problems, 2))
    size = min(together, problems * starts)
    parts = zip(in_parts(keys, size), in_parts(truth, size), strict=True)
    each = [np.asarray(simulated(own_keys, logs, trials)) for own_keys, logs in parts]
    samples = np.concatenate(each)[:problems]
    possible = np.isfinite(samples).all(axis=(1, 2, 3))
    of_search = np.repeat(np.flatnonzero(possible), starts)
    drawn = rng.uniform(bounds[:, 0], bounds[:, 1], size=(len(of_search), 2))
    scale = float(samples[0].size)
    rounds = evaluations = 0

    def evaluate(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal rounds, evaluations
        values, slopes = np.full(len(points), np.nan), np.full(points.shape, np.nan)
        asked = np.flatnonzero(~np.isnan(points[:, 0]))
        for first in range(0, len(asked), size):
            which = asked[first : first + size]
            filled = np.resize(which, size)
            own = of_search[filled]
            parts = (keys[own], jnp.asarray(points[filled]), jnp.asarray(samples[own]))
            value, slope = (np.asarray(part)[: len(which)] for part in likelihoods(*parts))
            values[which] = -np.arcsinh(value / scale)
            slopes[which] = -slope / scale / np.hypot(1.0, value / scale)[:, None]
        rounds, evaluations = rounds + 1, evaluations + len(asked)
        return values, slopes

    state = climb(evaluate, drawn, bounds, 1e-12, 200)
    value = state.value.reshape(-1, starts)
    best = state.best.reshape(-1, starts, 2)[np.arange(len(value)), value.argmin(axis=1)]
    inside = ((best > bounds[:, 0] + 0.1) & (best < bounds[:, 1] - 0.1)).all(axis=1)
    error = best - truth[possible]
    return {
        "fitted": len(best),
        "inside the support": int(inside.sum()),
        "median error of log effort": float(np.median(np.abs(error[inside]))),
        "starts at the best": float(
            np.mean(value - value.min(axis=1, keepdims=True) < 1e-2 / scale)
        ),
        "rounds": rounds,
        "evaluations": evaluations,
    }


def in_parts(array: Any, size: int) -> list[Any]:
    """In parts of `size`, the last filled up."""
    size = min(size, len(array))
    return [array[np.arange(i, i + size) % len(array)] for i in range(0, len(array), size)]


def problem_of(key: Any, logs: Any) -> mc.Problem:
    efforts = jnp.exp(logs)
    return mc.tasks.random_problem(key)(effort_1=efforts[0], effort_2=efforts[1])


@eqx.filter_jit
def simulated(keys: Any, truth: Any, trials: int) -> Any:
    """Trials of each problem at its true efforts; NaN where no policy was found."""

    def one(key: Any, logs: Any) -> Any:
        problem = problem_of(key, logs)
        policy = mc.solve(problem)
        observed = mc.simulate(problem, policy, n_trials=trials, key=jax.random.fold_in(key, 1))
        return jnp.where(policy.converged, observed.observed, jnp.nan)

    return jax.vmap(one)(keys, truth)


@eqx.filter_jit
def likelihoods(keys: Any, points: Any, samples: Any) -> Any:
    """The log likelihood of each search's own trials in its own problem, and its gradient."""

    def values(points: Any) -> Any:
        problems = jax.vmap(problem_of)(keys, points)
        observers = jax.vmap(mc.observe)(problems)
        problems, observers = jax.tree.map(lambda leaf: leaf[:, None], (problems, observers))
        models = (problems, None, observers)
        group = Group(problems, None, observers, samples[:1], None, complete=True)
        weights = jnp.ones((len(points), 1, samples.shape[1]))
        return log_likelihoods_of(models, group, samples[:, None], weights, TELLING)[0][:, 0]

    value, pull_back = jax.vjp(values, points)
    return value, pull_back(jnp.ones_like(value))[0]


if __name__ == "__main__":
    main()
