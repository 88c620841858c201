"""Whether the likelihood is biased at the truth: `python benchmarks/scores.py [--only NAME ...]`.

Where the likelihood is exact, the score of a trial (the derivative of its log likelihood by the
parameters, at their true values) has mean zero. Printed for each case: the chi-square probability
of the mean score of simulated trials; by how many of its standard errors each estimate from
`--of` trials is biased, with the Monte Carlo error; and, from estimates of that many trials by one
Newton step from the truth, how many lie more than 1.96 standard errors from it.
"""

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import chi2

import motorcost as mc
from interval_coverage import CASES, Case
from motorcost.fitting.objective import scores
from motorcost.fitting.specification import make_objective

# Steps of differences of scores, on the search scale.
STEP = 1e-3
TARGETS = 8


def simulated(case: Case, n_trials: int, seed: int) -> tuple[mc.Trials, dict[str, float]]:
    """Trials at the true values; in the plane, to targets around the start."""
    values = mc.tasks.typical_values(case.task) | dict(case.truth)
    truth = {name: float(values[name]) for name in case.free}
    conditions: list[dict[str, Any]] = [dict(case.fixed)]
    if case.task is mc.tasks.planar_reaching and "target_x" not in case.fixed:
        turns = 2 * np.pi * np.arange(TARGETS) / TARGETS
        conditions = [
            {"target_x": 0.1 * np.cos(turn), "target_y": 0.1 * np.sin(turn)} | dict(case.fixed)
            for turn in turns
        ]
    parts = []
    for i, condition in enumerate(conditions):
        problem = case.task(**truth, **condition)
        trials = mc.simulate(
            problem,
            mc.solve(problem),
            n_trials=n_trials // len(conditions),
            key=jax.random.key(1_000 * seed + i),
            observer=None if case.observer is None else case.observer(problem),
        )
        named = {n: v for n, v in condition.items() if n.startswith("target_")}
        parts.append(trials.with_conditions(**named) if len(conditions) > 1 else trials)
    return mc.concatenate(parts) if len(parts) > 1 else parts[0], truth


def report(name: str, case: Case, n_trials: int, of: int, seed: int) -> None:
    trials, truth = simulated(case, n_trials, seed)
    targets = {"target_x", "target_y"} & set(trials.conditions)
    fixed = {n: v for n, v in case.fixed.items() if n != "steps" and n not in targets}
    objective = make_objective(
        case.task, trials, list(case.free), fixed=fixed, observer=case.observer
    )
    at = np.asarray(objective.point(truth))

    def total(point: np.ndarray) -> np.ndarray:
        return np.asarray(scores(objective, jnp.asarray(point))[1]).sum(axis=0)

    of_trials = np.asarray(scores(objective, jnp.asarray(at))[1])
    n, k = of_trials.shape
    steps = STEP * np.eye(k)
    slopes = [(total(at + step) - total(at - step)) / (2 * STEP) for step in steps]
    inverse = np.linalg.inv(-(np.array(slopes) + np.array(slopes).T) / (2 * n))
    mean, variance = of_trials.mean(axis=0), np.cov(of_trials.T).reshape(k, k)
    statistic = n * mean @ np.linalg.solve(variance, mean)
    errors = np.sqrt(np.diagonal(inverse @ variance @ inverse) / of)
    bias = inverse @ mean / errors
    rng = np.random.default_rng(seed)
    sets = rng.permutation(n)[: n // of * of].reshape(-1, of)
    off = np.array([inverse @ of_trials[chosen].mean(axis=0) for chosen in sets]) / errors
    print(f"{name}: {n} trials, mean score zero with p = {chi2.sf(statistic, k):.3f}")
    for j, parameter in enumerate(case.free):
        print(
            f"  {parameter}: bias {bias[j]:+.2f} ± {np.sqrt(of / n):.2f} standard errors of "
            f"{of} trials; {(np.abs(off[:, j]) > 1.96).sum()} of {len(sets)} sets outside 1.96",
            flush=True,
        )


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(CASES))
    parser.add_argument("--trials", type=int, default=2_000)
    parser.add_argument("--of", type=int, default=80, help="trials of one experiment")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for name in arguments.only or CASES:
        report(name, CASES[name], arguments.trials, arguments.of, arguments.seed)


if __name__ == "__main__":
    main()
