"""Fits where the agent itself has several policies of nearly the same cost.

With every trial at its own target and of its own length some trial changes its policy at any small
step of any parameter: the log likelihood jumps, by 1 to 20.
"""

import jax
import numpy as np
import pytest

import motorcost as mc
from motorcost.fitting.batching import log_likelihoods_along

# Around a target of 0.1067 m the lowest of two minima changes (see tests/model/test_minima.py).
TRUTH = {"effort": 4.408e-6, "velocity": 1.92, "force": 0.00196, "motor_noise": 0.2306}
DT, TARGET, COUNT = 0.0125, 0.1067, 20
CAMERA = mc.ObserverSpec(["position"], noise=1e-3)


def hard_reaches():
    """Reaches to targets within a tenth of that one, of 48 to 58 steps, one of each."""
    rng = np.random.default_rng(0)
    targets = TARGET * (1 + 0.1 * rng.uniform(-1, 1, COUNT))
    lengths = rng.integers(48, 59, COUNT)
    samples = []
    for i, (target, length) in enumerate(zip(targets, lengths, strict=True)):
        problem = mc.tasks.reaching(steps=int(length), target=float(target), dt=DT, **TRUTH)
        problem = problem.padded(int(lengths.max()))  # so that one program does all
        policy = mc.solve(problem)
        trial = mc.simulate(problem, policy, n_trials=1, key=jax.random.key(i), observer=CAMERA)
        samples.append(np.asarray(trial.observed)[0, :length])
    return mc.Trials.recorded(samples, dt=DT, channels=["position"], conditions={"target": targets})


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_searches_settle_where_policies_change_from_trial_to_trial(seed):
    """As many searches as `mc.fit` makes by default settle at a point that is no less probable than
    the truth, and within 2 % of either nothing is impossible: no solve gives up near a border."""
    fit = mc.fit(
        mc.tasks.reaching,
        hard_reaches(),
        list(TRUTH),
        fixed={"dt": DT},
        observer=CAMERA,
        key=jax.random.key(seed),
    )
    truth = np.asarray(fit.objective.point(TRUTH))
    steps = np.linspace(-0.02, 0.02, 21)[:, None] * np.eye(len(TRUTH))[:, None]
    around = [point + steps.reshape(-1, len(TRUTH)) for point in (fit.point, truth)]
    values = log_likelihoods_along(fit.objective, np.concatenate(around))
    assert fit.converged
    assert fit.log_likelihood > log_likelihoods_along(fit.objective, truth[None])[0]
    assert np.isfinite(values).all()
    jumps = np.abs(np.diff(values.reshape(2, len(TRUTH), -1), axis=2))
    assert jumps.max() > 1  # the region is a hard one
