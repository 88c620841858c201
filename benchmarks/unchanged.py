"""Numbers that a change of the code's structure must not change.

`python benchmarks/unchanged.py --record FILE.json` writes them, `python benchmarks/unchanged.py`
compares them with those in `benchmarks/recorded`: costs, gains, log likelihoods, gradients and
beliefs to 1e-12 of their size, fits to 1e-6. Gains and beliefs are recorded as products with fixed
random vectors, one for each array.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import motorcost as mc

RECORDED = Path(__file__).parent / "recorded" / "unchanged.json"
EXACT = 1e-12
FITTED = 1e-6

Spec = mc.ObserverSpec
REACHING = mc.tasks.reaching
COSTS: dict[str, Any] = {"effort": 1e-5, "velocity": 0.2, "force": 0.02}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--record", type=Path, help="write the numbers to this file")
    parser.add_argument("--only", choices=("exact", "fits"), help="leave the others out")
    args = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    parts = {"exact": exact, "fits": fits}
    wanted = [args.only] if args.only else list(parts)
    found = {part: {name: np.ravel(v).tolist() for name, v in parts[part]()} for part in wanted}
    if args.record:
        args.record.write_text(json.dumps(found, indent=1))
        return
    sys.exit(
        max(
            compare(part, found[part], tolerance)
            for part, tolerance in (("exact", EXACT), ("fits", FITTED))
            if part in found
        )
    )


def compare(part: str, found: dict[str, list[float]], tolerance: float) -> int:
    """Print how far each number is from the recorded one; 1 if any is too far."""
    recorded = json.loads(RECORDED.read_text())[part]
    worst = 0.0
    for name, values in found.items():
        before, now = np.array(recorded[name]), np.array(values)
        size = float(np.abs(before).max()) or 1.0
        apart = float(np.abs(now - before).max() / size)
        worst = max(worst, apart)
        if not apart <= tolerance:
            print(f"{part}: {name}: {apart:.2g} apart, {before} -> {now}")
    missing = recorded.keys() - found.keys()
    print(f"{part}: {len(found)} numbers, furthest {worst:.2g} apart; allowed {tolerance:g}")
    return int(not worst <= tolerance or bool(missing))


def projected(array: Any) -> np.ndarray:
    """Two numbers in place of an array: its norm, and its product with a fixed random vector."""
    values = np.nan_to_num(np.ravel(np.asarray(array)))
    weights = np.random.default_rng(values.size).normal(size=values.size)
    return np.array([np.linalg.norm(values), values @ weights])


def problems() -> dict[str, mc.Problem]:
    strong: dict[str, Any] = {"effort": 3e-6, "velocity": 0.5, "force": 0.05, "motor_noise": 0.9}
    return {
        "reaching": REACHING(),
        "reaching with strong noise": REACHING(**strong, target=0.25, steps=40),
        "reaching, delayed": mc.delay(REACHING(), 4),
        "reaching, ignorant of its noise": REACHING().believing(C=[]),
        "saccade": mc.tasks.saccade(),
        "tracking": mc.tasks.tracking(),
        "random 0": mc.tasks.random_problem(jax.random.key(0))(),
        "random 1": mc.tasks.random_problem(jax.random.key(1))(),
    }


def exact() -> Iterator[tuple[str, Any]]:
    """Costs, gains, likelihoods, gradients, beliefs."""
    for name, problem in problems().items():
        policy = mc.solve(problem)
        yield f"{name}: cost", policy.expected_cost
        yield f"{name}: L", projected(policy.L)
        yield f"{name}: K", projected(policy.K)
        yield f"{name}: moments", projected(mc.moments(problem, policy).cov)
        trials = mc.simulate(problem, policy, n_trials=8, key=jax.random.key(3))
        yield f"{name}: log likelihood", mc.log_likelihood(problem, trials.observed)
        if name != "reaching, delayed":
            camera = mc.observe(problem, problem.state_names[:1], noise=1e-3)
            seen = mc.simulate(problem, policy, n_trials=8, key=jax.random.key(4), observer=camera)
            missing = seen.observed.at[2, 5:9].set(jnp.nan)
            yield f"{name}: camera", mc.log_likelihood(problem, missing, observer=camera)
            beliefs = mc.track_beliefs(problem, missing, observer=camera, smooth=True)
            yield f"{name}: smoothed beliefs", projected(beliefs.mean)
    for name, value in likelihoods().items():
        point = jnp.log(jnp.array([*COSTS.values(), 0.5]))
        found, slope = jax.jit(jax.value_and_grad(value))(point)
        yield f"{name}: value", found
        yield f"{name}: gradient", slope


def several_lengths(noise: float) -> tuple[mc.Trials, Any]:
    """Reaches to own targets, of own lengths."""
    spec = Spec(["position"], noise=noise)
    parts = []
    for i, (target, steps) in enumerate([(0.08, 24), (0.1, 26), (0.12, 33), (0.15, 60)]):
        problem = REACHING(**COSTS, target=target, steps=steps)
        parts.append(
            mc.simulate(
                problem,
                mc.solve(problem),
                n_trials=3,
                key=jax.random.key(i),
                observer=spec(problem),
            ).with_conditions(target=target)
        )
    return mc.concatenate(parts), spec


def likelihoods() -> dict[str, Callable[[Any], Any]]:
    """Log likelihoods as functions of the logarithms of effort, velocity, force and motor noise."""
    problem = REACHING(**COSTS)
    full = mc.simulate(problem, mc.solve(problem), n_trials=20, key=jax.random.key(5))
    camera = Spec(["position"], noise=1e-3)
    seen = mc.simulate(
        problem, mc.solve(problem), n_trials=20, key=jax.random.key(6), observer=camera(problem)
    )
    trials, spec = several_lengths(2e-3)

    def task(point: Any, **more: Any) -> mc.Problem:
        effort, velocity, force, motor_noise = jnp.exp(point)
        return REACHING(
            effort=effort, velocity=velocity, force=force, motor_noise=motor_noise, **more
        )

    return {
        "all states": lambda p: mc.log_likelihood(task(p), full.observed),
        "positions": lambda p: mc.log_likelihood(task(p), seen.observed, observer=camera(task(p))),
        "several lengths": lambda p: mc.log_likelihood(partial(task, p), trials, observer=spec),
    }


def fits() -> Iterator[tuple[str, Any]]:
    """Estimates, standard errors and log likelihoods of fits.

    Where there are several maxima, one search begins at the truth: which of them a search from
    elsewhere comes to is a matter of its steps. Recorded with the searches before this, polished
    until a step promised less than 1e-13 of log likelihood.
    """
    problem = REACHING(**COSTS)
    policy = mc.solve(problem)
    full = mc.simulate(problem, policy, n_trials=40, key=jax.random.key(7))
    camera = Spec(["position"], noise=1e-3)
    seen = mc.simulate(
        problem, policy, n_trials=40, key=jax.random.key(8), observer=camera(problem)
    )
    trials, spec = several_lengths(2e-3)
    eye = mc.tasks.saccade()
    looks = mc.simulate(eye, mc.solve(eye), n_trials=30, key=jax.random.key(9))
    per = {"effort": mc.LogUniform(1e-8, 1e-2, per="subject"), "velocity": None}
    two = full.with_conditions(subject=np.arange(40) % 2)
    prior = {"effort": mc.LogNormal(2e-5, 0.1), "force": None}
    cases: dict[str, Callable[..., mc.Fit]] = {
        "all states": partial(mc.fit, REACHING, full, list(COSTS)),
        "positions": partial(mc.fit, REACHING, seen, list(COSTS), observer=camera, starts=[COSTS]),
        "recording noise": partial(
            mc.fit, REACHING, seen, ["effort", "recording_noise"], observer=Spec(["position"])
        ),
        "several lengths": partial(mc.fit, REACHING, trials, ["effort", "velocity"], observer=spec),
        "subjects": partial(mc.fit, REACHING, two, per),
        "priors": partial(mc.fit, REACHING, full, prior, priors=True),
        "saccades": partial(mc.fit, mc.tasks.saccade, looks, ["effort"], starts=[{"effort": 1e-3}]),
        "nelder-mead": partial(mc.fit, REACHING, full, ["effort"], method="nelder-mead"),
    }
    for name, fit in cases.items():
        found = fit(key=jax.random.key(11), n_starts=4)
        for what in ("estimates", "standard_errors"):
            for parameter, value in getattr(found, what).items():
                yield f"{name}: {what} of {parameter}", value
        yield f"{name}: log likelihood", found.log_likelihood


if __name__ == "__main__":
    main()
