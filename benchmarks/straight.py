"""The direct implementation of the paper's equations, as a JAX user would write it.

It uses LAPACK calls in scans, `vmap` over trials, a while loop of iterations for values,
derivatives by unrolling a fixed number of them, and BOBYQA from one start after the other. Errors
of the text are corrected, so that the numbers are those of the library and only the time differs.
Starts that are not known exactly, missing samples and channels with recording noise are left out,
since the benchmarks do not need them.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular

import motorcost as mc

# Enough for the gradient to converge at the defaults of the reaching task.
UNROLLED_ITERATIONS = 20


class Solution(NamedTuple):
    """Gains, their expected cost, the number of iterations, and whether these converged."""

    L: jax.Array
    K: jax.Array
    expected_cost: jax.Array
    iterations: jax.Array
    converged: jax.Array


class Forward(NamedTuple):
    """Filter gains, expected cost, and the mean squares that the stopping rule needs."""

    K: jax.Array
    cost: jax.Array
    innovations: jax.Array
    estimates: jax.Array
    states: jax.Array


def backward(p: mc.Problem, K: jax.Array) -> jax.Array:
    """The control gains for these filter gains (appendix B)."""

    def step(carry: Any, at: Any) -> Any:
        Sx, Se = carry
        A, B, C, H, D, Q, R, K = at
        G = R + B.T @ Sx @ B + jnp.einsum("ijk,jl,ilm->km", C, Sx + Se, C)
        L = jnp.linalg.solve(G, B.T @ Sx @ A)
        A_K = A - K @ H
        KD = K @ D
        Sx_next = Q + A.T @ Sx @ (A - B @ L) + jnp.einsum("ijk,jl,ilm->km", KD, Se, KD)
        Se_next = A.T @ Sx @ B @ L + A_K.T @ Se @ A_K
        return (Sx_next, Se_next), L

    end = (p.Q[-1], jnp.zeros_like(p.Q[-1]))
    inputs = (p.A, p.B, p.C, p.H, p.D, p.Q[:-1], p.R, K)
    return lax.scan(step, end, inputs, reverse=True)[1]


def forward(p: mc.Problem, L: jax.Array) -> Forward:
    """The filter gains for these control gains (appendix B)."""

    def step(carry: Any, at: Any) -> Any:
        Se, Sh, She = carry
        A, B, C, V, H, W, D, E, Q, R, L = at
        Sx = Se + Sh + She + She.T
        M = H @ Se @ H.T + W @ W.T + jnp.einsum("ijk,kl,iml->jm", D, Sx, D)
        K = jnp.linalg.solve(M, H @ Se @ A.T).T
        A_L, A_K, KH, CL, EE = A - B @ L, A - K @ H, K @ H, C @ L, E @ E.T
        cross = A_L @ She @ KH.T
        motor_noise = jnp.einsum("ijk,kl,iml->jm", CL, Sh, CL)
        after = (
            V @ V.T + EE + A_K @ Se @ A.T + motor_noise,
            EE + KH @ Se @ A.T + A_L @ Sh @ A_L.T + cross + cross.T,
            A_L @ She @ A_K.T - EE,
        )
        cost = jnp.trace(Q @ Sx) + jnp.trace(R @ L @ Sh @ L.T)
        return after, (K, cost, M, Sh, jnp.diagonal(Sx))

    m1 = p.initial_belief
    start = (
        p.initial_state_cov,
        jnp.outer(m1, m1) + p.initial_belief_cov,
        jnp.zeros_like(p.initial_state_cov),
    )
    inputs = (p.A, p.B, p.C, p.V, p.H, p.W, p.D, p.E, p.Q[:-1], p.R, L)
    (Se, Sh, She), (K, costs, *sizes) = lax.scan(step, start, inputs)
    cost = costs.sum() + jnp.trace(p.Q[-1] @ (Se + Sh + She + She.T))
    return Forward(K, cost, *sizes)


def solve(p: mc.Problem, tolerance: float = 1e-10, max_iterations: int = 500) -> Solution:
    """Iterate until the gains stop changing, by the rule of the library."""

    def unfinished(carry: Any) -> jax.Array:
        _, _, _, iterations, change = carry
        return (iterations < max_iterations) & (change > tolerance)

    def iteration(carry: Any) -> Any:
        L_before, K_before, _, iterations, _ = carry
        L = backward(p, K_before)
        found = forward(p, L)
        change = _change(L - L_before, found.K - K_before, L, found)
        return L, found.K, found.cost, iterations + 1, change

    L, K = _first_gains(p)
    infinite, none = jnp.array(jnp.inf), jnp.array(0)
    start = (L, K, infinite, none, infinite)
    L, K, cost, iterations, change = lax.while_loop(unfinished, iteration, start)
    return Solution(L, K, cost, iterations, (change <= tolerance) & jnp.isfinite(cost))


def solve_unrolled(p: mc.Problem, iterations: int = UNROLLED_ITERATIONS) -> Solution:
    """A fixed number of iterations, which reverse mode can follow."""

    def iteration(K: jax.Array, _: None) -> Any:
        return forward(p, backward(p, K)).K, None

    K, _ = lax.scan(iteration, _first_gains(p)[1], length=iterations - 1)
    L = backward(p, K)
    found = forward(p, L)
    return Solution(L, found.K, found.cost, jnp.array(iterations), jnp.array(True))


def _first_gains(p: mc.Problem) -> tuple[jax.Array, jax.Array]:
    """The gains of the plain regulator, and the filter gains that are optimal for them."""
    quiet = p.with_believed(None).replace(C=[], D=[])
    L = backward(quiet, jnp.zeros_like(jnp.swapaxes(p.H, 1, 2)))
    return L, forward(p, L).K


def _change(dL: jax.Array, dK: jax.Array, L: jax.Array, now: Forward) -> jax.Array:
    """The largest relative change of controls and estimates by a change of the gains."""

    def mean_square(gains: jax.Array, of: jax.Array) -> jax.Array:
        return jnp.einsum("tij,tjk,tik->ti", gains, of, gains)

    def share(squares: jax.Array, of: jax.Array) -> jax.Array:
        largest = of.max(axis=0)
        return jnp.where(largest > 0, squares / jnp.where(largest > 0, largest, 1.0), 0.0).max()

    controls = share(mean_square(dL, now.estimates), mean_square(L, now.estimates))
    return jnp.sqrt(jnp.maximum(controls, share(mean_square(dK, now.innovations), now.states)))


def log_likelihood(
    p: mc.Problem,
    samples: jax.Array,
    varying: tuple[int, ...],
    solver: Callable[[mc.Problem], Solution] = solve,
) -> jax.Array:
    """The log likelihood of fully observed trials (trial, time, state) from a known start.

    `varying` are the states that vary given the past; the others follow from them, and have no
    density. They must vary in every sample but the first. Where the last control is always zero,
    the last sample must be left out.
    """
    found = solver(p)
    L, K = found.L, found.K
    steps, n, v = p.V.shape
    w, e = p.W.shape[-1], p.E.shape[-1]

    def stack(rows: list[list[jax.Array]]) -> jax.Array:
        return jnp.concatenate([jnp.concatenate(row, axis=-1) for row in rows], axis=-2)

    F = stack([[p.A, -p.B @ L], [K @ p.H, p.A - p.B @ L - K @ p.H]])
    G = stack(
        [[p.V, jnp.zeros((steps, n, w + e))], [jnp.zeros((steps, n, v)), K @ p.W, p.E]],
    )
    CL = p.C @ L[:, None]
    KD = K[:, None] @ p.D
    rows = np.array(varying)

    def of_trial(trial: jax.Array) -> jax.Array:
        def step(carry: Any, at: Any) -> Any:
            mu, Sigma = carry
            F, G, CL, KD, x = at
            second = Sigma + jnp.outer(mu, mu)
            mu = F @ mu
            Sigma = F @ Sigma @ F.T + G @ G.T
            Sigma = Sigma.at[:n, :n].add(jnp.einsum("ijk,kl,iml->jm", CL, second[n:, n:], CL))
            Sigma = Sigma.at[n:, n:].add(jnp.einsum("ijk,kl,iml->jm", KD, second[:n, :n], KD))
            root = jnp.linalg.cholesky(Sigma[np.ix_(rows, rows)])
            innovation = solve_triangular(root, x[rows] - mu[rows], lower=True)
            gain = solve_triangular(root, Sigma[rows], lower=True)
            density = -0.5 * (innovation @ innovation + len(rows) * jnp.log(2 * jnp.pi))
            density = density - jnp.log(jnp.diagonal(root)).sum()
            return (mu + gain.T @ innovation, Sigma - gain.T @ gain), density

        start = (jnp.concatenate([trial[0], trial[0]]), jnp.zeros((2 * n, 2 * n)))
        inputs = [matrices[: len(trial) - 1] for matrices in (F, G, CL, KD)]
        return lax.scan(step, start, (*inputs, trial[1:]))[1].sum()

    return jnp.where(found.converged, jax.vmap(of_trial)(samples).sum(), -jnp.inf)


def simulate(p: mc.Problem, L: jax.Array, K: jax.Array, n_trials: int, key: Any) -> Any:
    """States, beliefs, controls and senses (trial, time, ..) of an agent with these gains."""

    def trial(key: Any) -> Any:
        def step(carry: Any, at: Any) -> Any:
            x, xh = carry
            A, B, C, V, H, W, D, E, L, K, key = at
            draws = [
                jax.random.normal(k, (size,))
                for k, size in zip(
                    jax.random.split(key, 5),
                    (V.shape[1], W.shape[1], E.shape[1], C.shape[0], D.shape[0]),
                    strict=True,
                )
            ]
            xi, om, eta, eps, dlt = draws
            u = -L @ xh
            y = H @ x + W @ om + jnp.einsum("i,ijk,k->j", dlt, D, x)
            x_next = A @ x + B @ u + V @ xi + jnp.einsum("i,ijk,k->j", eps, C, u)
            xh_next = A @ xh + B @ u + K @ (y - H @ xh) + E @ eta
            return (x_next, xh_next), (x_next, xh_next, u, y)

        keys = jax.random.split(key, p.steps - 1)
        inputs = (p.A, p.B, p.C, p.V, p.H, p.W, p.D, p.E, L, K, keys)
        m1 = p.initial_belief
        _, (x, xh, u, y) = lax.scan(step, (m1, m1), inputs)
        return jnp.concatenate([m1[None], x]), jnp.concatenate([m1[None], xh]), u, y

    return jax.vmap(trial)(jax.random.split(key, n_trials))


class Fitted(NamedTuple):
    """The best of all starts: a point on the log scale, and the number of evaluations."""

    point: np.ndarray
    log_likelihood: float
    evaluations: int


def fit(
    value: Callable[[Any], Any],
    bounds: Sequence[tuple[float, float]],
    n_starts: int = 10,
    max_evaluations: int = 800,
    seed: int = 0,
) -> Fitted:
    """Maximise `value`, a compiled function of a point, by BOBYQA from random starts."""
    import pybobyqa

    low, high = np.array(bounds).T
    evaluations = 0

    def cost(point: np.ndarray) -> float:
        nonlocal evaluations
        evaluations += 1
        found = float(value(jnp.asarray(point)))
        return -found if np.isfinite(found) else 1e12

    best = Fitted(low, -np.inf, 0)
    for start in np.random.default_rng(seed).uniform(low, high, (n_starts, len(low))):
        found = pybobyqa.solve(
            cost,
            start,
            bounds=(low, high),
            maxfun=max_evaluations,
            rhobeg=0.1,
            rhoend=1e-8,
            scaling_within_bounds=True,
            do_logging=False,
        )
        if -found.f > best.log_likelihood:
            best = Fitted(found.x, -float(found.f), 0)
    return best._replace(evaluations=evaluations)
