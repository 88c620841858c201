"""Recording noise far below a channel's range, against arithmetic with 60 digits."""

import jax
import mpmath
import numpy as np
import pytest

import motorcost as mc
import naive
from motorcost.model.observer import resolve_observer

PROBLEM = mc.tasks.reaching(steps=12)


@pytest.fixture(scope="module")
def policy():
    return mc.solve(PROBLEM)


def exact(policy, observer, sample):
    """`naive.log_likelihood` of one trial, in 60 digits."""
    S, U = np.asarray(observer.S), np.asarray(observer.U)
    steps = list(naive.joint(PROBLEM, policy))
    with mpmath.workdps(60):
        mu, Sg = (mpmath.matrix(part.tolist()) for part in naive.start(PROBLEM))
        n, total = len(mu) // 2, mpmath.mpf(0)
        for t, values in enumerate(np.asarray(sample)):
            if t > 0:
                F, G, Gi, Dj = steps[t - 1]
                second = Sg + mu * mu.T
                spread = congruence(F, Sg) + mpmath.matrix(G) * mpmath.matrix(G).T
                for g in Gi:
                    spread += congruence(g, second[n:, n:])
                for d in Dj:
                    spread += congruence(d, second[:n, :n])
                mu, Sg = mpmath.matrix(F) * mu, spread
            selection = mpmath.matrix(np.hstack([S[t], np.zeros_like(S[t])]))
            M = selection * Sg * selection.T + mpmath.matrix(U[t]) * mpmath.matrix(U[t]).T
            r = mpmath.matrix(values.tolist()) - selection * mu
            gain = Sg * selection.T * M**-1
            total -= (mpmath.log(mpmath.det(2 * mpmath.pi * M)) + (r.T * M**-1 * r)[0]) / 2
            mu, Sg = mu + gain * r, Sg - gain * selection * Sg
    return float(total)


def congruence(F, M):
    return mpmath.matrix(F) * M * mpmath.matrix(F).T


def recorded(policy, states, noise):
    observer = mc.ObserverSpec(states, noise=noise)
    return observer, mc.simulate(
        PROBLEM, policy, n_trials=1, key=jax.random.key(0), observer=observer
    )


@pytest.mark.parametrize(
    ("states", "noise", "error"),
    [
        (["position"], 1e-3, 1e-11),
        (["position"], 1e-11, 1e-11),
        (["position", "velocity"], 1e-9, 1e-5),
    ],
)
def test_small_noise(policy, states, noise, error):
    observer, trials = recorded(policy, states, noise)
    value = mc.log_likelihood(PROBLEM, trials, policy=policy, observer=observer)
    expected = exact(policy, resolve_observer(PROBLEM, observer), trials.observed[0])
    assert abs(float(value) - expected) < error


def test_lost_digits_are_told(policy):
    observer, trials = recorded(policy, ["position", "velocity"], 1e-12)
    with pytest.raises(mc.InputError, match=r"has lost its digits: .* differs by .*; use noise=0"):
        mc.log_likelihood(PROBLEM, trials, policy=policy, observer=observer)
