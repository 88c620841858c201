"""What labs have: rows of the suite, and where the time of a lab's fit goes:

    python benchmarks/lab.py [--starts N] [--trials N]

Forty reaches, each with a target and a length of its own, positions at 33 Hz with noise, five free
parameters. Printed: seconds for the policies, the likelihood and its gradient at one point, the
first time (with compilation) and then (median of 7), and for fits, the first and one with another
seed.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import core
import motorcost as mc
from cases import Reaching, Scale, point, recorded
from motorcost.fitting.batching import BatchedObjective
from motorcost.fitting.specification import make_objective
from motorcost.inference.grouping import group_trials
from motorcost.model.solver import solve_each
from timing import Comparison, Run

FREE = ["effort", "velocity", "force", "motor_noise", "recording_noise"]
OBSERVER = mc.ObserverSpec(["position"], noise=1e-3)
DT = 0.03


@cache
def reaches(n_trials: int = 40, seed: int = 0) -> mc.Trials:
    """Reaches to targets at 5 to 25 cm that take 0.6 to 1 s, with noise of 1 mm."""
    rng = np.random.default_rng(seed)
    targets, lengths = rng.uniform(0.05, 0.25, n_trials), rng.integers(20, 34, n_trials)
    samples = []
    for i, (target, length) in enumerate(zip(targets, lengths, strict=True)):
        problem = mc.tasks.reaching(target=target, steps=int(length), dt=DT)
        key = jax.random.key(1000 * seed + i)
        trial = mc.simulate(problem, mc.solve(problem), n_trials=1, key=key)
        noise = 1e-3 * rng.standard_normal((int(length), 1))
        samples.append(np.asarray(trial.observed)[0, :, :1] + noise)
    return mc.Trials.recorded(samples, dt=DT, channels=["position"], conditions={"target": targets})


def comparisons(scale: Scale) -> Iterator[Comparison]:
    """Fits of such reaches, and of positions, beside the fit of fully observed reaches to one
    target."""
    case, count = Reaching(scale.steps), 4 if scale.once else 40
    usual = f"{scale.starts}-start fit"
    yield Comparison(
        f"{count} own targets and lengths: {usual}",
        "one target",
        partial(_lab_fit, case, scale, count),
        2,
        most=8.0,
    )
    yield Comparison(
        f"positions with noise: {usual}",
        "all states",
        partial(_positions_fit, case, scale),
        3,
        aim=1 / 1.5,
    )
    yield Comparison(
        "positions with noise: value and gradient",
        "log likelihood",
        partial(_positions_gradient, case, scale),
        15,
        aim=1 / 2.5,
    )


def _lab_fit(case: Reaching, scale: Scale, count: int) -> tuple[Run, Run]:
    trials, usual = reaches(count), recorded(case, scale.trials)
    return lambda: fitted(trials, scale.starts, 1, scale.max_evaluations).log_likelihood, (
        lambda: core.our_fit(usual, scale)
    )


def _positions(usual: mc.Trials) -> mc.Trials:
    """The positions of these trials, recorded with noise of 1 mm."""
    noise = 1e-3 * np.random.default_rng(0).standard_normal(usual.observed[:, :, :1].shape)
    return mc.Trials.recorded(
        np.asarray(usual.observed)[:, :, :1] + noise, dt=usual.dt, channels=["position"]
    )


def _positions_gradient(case: Reaching, scale: Scale) -> tuple[Run, Run]:
    trials = _positions(recorded(case, scale.trials))

    def ours(point: Any) -> Any:
        return mc.log_likelihood(case.problem(point), trials, observer=OBSERVER)

    return partial(jax.jit(jax.value_and_grad(ours)), point()), partial(jax.jit(ours), point())


def _positions_fit(case: Reaching, scale: Scale) -> tuple[Run, Run]:
    usual = recorded(case, scale.trials)
    positions = _positions(usual)

    def of_positions() -> float:
        return core.our_fit(positions, scale, observer=OBSERVER)

    return of_positions, lambda: core.our_fit(usual, scale)


def fitted(trials: mc.Trials, starts: int, seed: int, most: int | None = None) -> mc.Fit:
    """The fit of a lab's reaches."""
    return mc.fit(
        mc.tasks.reaching,
        trials,
        FREE,
        fixed={"dt": DT},
        observer=OBSERVER,
        n_starts=starts,
        max_evaluations=most,
        key=jax.random.key(seed),
    )


def seconds(run: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """The time of the first call, and the median of `repeats` more."""
    times = []
    for _ in range(1 + repeats):
        begin = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - begin)
    return times[0], float(np.median(times[1:])) if repeats else float("nan")


def parts(trials: mc.Trials) -> dict[str, Callable[[], Any]]:
    """What a search computes at a point, in parts that contain those before them."""
    objective = make_objective(mc.tasks.reaching, trials, FREE, fixed={"dt": DT}, observer=OBSERVER)
    point = objective.usual_point()
    zero = np.zeros(1, int)

    @jax.jit
    def policies(point: Any) -> Any:
        groups = group_trials(objective.at(point), trials, None, None)
        return [solve_each(group.problem).L for group, _ in groups]

    with_gradient = BatchedObjective(objective, expected=1)
    without = with_gradient.values_only()
    return {
        "policies": lambda: policies(jnp.asarray(point)),
        "log likelihood": lambda: without(zero, point[None]),
        "with its gradient": lambda: with_gradient(zero, point[None]),
        "with its gradient, roughly": lambda: with_gradient.roughly()(zero, point[None]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Profile the fit of reaches with own targets.")
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--no-fit", action="store_true", help="only one point")
    args = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    trials = reaches(args.trials)
    jax.clear_caches()
    print("| what | first (s) | then (s) |\n|---|---|---|")
    for name, run in parts(trials).items():
        first, then = seconds(run, 7)
        print(f"| {name} | {first:.1f} | {then:.4f} |", flush=True)
    if args.no_fit:
        return
    for seed in (0, 1):
        begin = time.perf_counter()
        fit = fitted(trials, args.starts, seed)
        taken = time.perf_counter() - begin
        evaluations = sum(start.evaluations for start in fit.starts)
        print(
            f"| fit, seed {seed}: {fit.log_likelihood:.6f}, {fit.agreed} of {len(fit.starts)} "
            f"searches agree, {evaluations} evaluations | {taken:.1f} | |",
            flush=True,
        )


if __name__ == "__main__":
    main()
