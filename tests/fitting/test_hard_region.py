"""Searches where the agent's problem has several minima, so that the likelihood jumps."""

import jax
import numpy as np
import pytest

import motorcost as mc

# The first case of several minima (docs/model.md): between targets of 0.1062 and 0.1072 m two
# policies are both minima at 53 steps.
HARD = {"effort": 4.408e-6, "velocity": 1.92, "force": 0.00196, "motor_noise": 0.2306}
DT = 0.0125


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_searches_settle_with_own_targets_and_lengths(seed):
    rng = np.random.default_rng(seed)
    targets, lengths = rng.uniform(0.09, 0.12, 20), rng.integers(45, 60, 20)
    samples = []
    for i, (target, length) in enumerate(zip(targets, lengths, strict=True)):
        problem = mc.tasks.reaching(**HARD, target=target, steps=int(length), dt=DT)
        key = jax.random.key(100 * seed + i)
        trial = mc.simulate(problem, mc.solve(problem), n_trials=1, key=key)
        noise = 1e-3 * rng.standard_normal((int(length), 1))
        samples.append(np.asarray(trial.observed)[0, :, :1] + noise)
    trials = mc.Trials.recorded(
        samples, dt=DT, channels=["position"], conditions={"target": targets}
    )
    fit = mc.fit(
        mc.tasks.reaching,
        trials,
        list(HARD),
        fixed={"dt": DT},
        observer=mc.ObserverSpec(["position"], noise=1e-3),
        n_starts=4,
        key=jax.random.key(seed),
    )
    print(f"{fit.agreed} of {len(fit.starts)} searches agree; {fit.estimates}")
    assert fit.converged
    assert fit.agreed >= 2
    objective = fit.objective
    at_truth = objective.log_likelihoods(objective.point(HARD)).sum()
    assert fit.log_likelihood > at_truth
    for name, (low, high) in fit.interval(0.999).items():
        assert low < HARD[name] < high
