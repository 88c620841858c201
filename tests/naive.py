"""The recursions once more, as plain NumPy loops in the notation of the texts: slow, and easy to
check against them."""

import numpy as np


def arrays(problem):
    letters = ("A", "B", "C", "V", "H", "W", "D", "E", "Q", "R")
    return [np.asarray(getattr(problem, letter)) for letter in letters]


def riccati(problem):
    """Control gains of the plain linear-quadratic regulator."""
    A, B, _, _, _, _, _, _, Q, R = arrays(problem)
    P, L = Q[-1], []
    for t in reversed(range(len(A))):
        gain = np.linalg.inv(R[t] + B[t].T @ P @ B[t]) @ B[t].T @ P @ A[t]
        P = Q[t] + A[t].T @ P @ (A[t] - B[t] @ gain)
        L.insert(0, gain)
    return np.array(L)


def kalman(problem):
    """Gains of the one-step predictor, from the information form of the update."""
    A, _, _, V, H, W, _, _, _, _ = arrays(problem)
    P, K = np.asarray(problem.initial_state_cov), []
    for t in range(len(A)):
        S = H[t] @ P @ H[t].T + W[t] @ W[t].T
        update = P @ H[t].T @ np.linalg.inv(S)
        P_after = (np.eye(len(P)) - update @ H[t]) @ P
        P = A[t] @ P_after @ A[t].T + V[t] @ V[t].T
        K.append(A[t] @ update)
    return np.array(K)


def backward(problem, K):
    """The paper's appendix B, as printed."""
    A, B, C, V, H, W, D, E, Q, R = arrays(problem)
    Px, Pe, s, L = Q[-1], np.zeros_like(Q[-1]), 0.0, []
    for t in reversed(range(len(A))):
        G = R[t] + B[t].T @ Px @ B[t] + sum(c.T @ (Px + Pe) @ c for c in C[t])
        gain = np.linalg.solve(G, B[t].T @ Px @ A[t])
        VV, EE, WW = V[t] @ V[t].T, E[t] @ E[t].T, W[t] @ W[t].T
        s += np.trace(Px @ VV + Pe @ (VV + EE + K[t] @ WW @ K[t].T))
        A_K = A[t] - K[t] @ H[t]
        Px, Pe = (
            Q[t]
            + A[t].T @ Px @ (A[t] - B[t] @ gain)
            + sum(d.T @ K[t].T @ Pe @ K[t] @ d for d in D[t]),
            A[t].T @ Px @ B[t] @ gain + A_K.T @ Pe @ A_K,
        )
        L.insert(0, gain)
    return np.array(L), Px, Pe, s


def forward(problem, L):
    """The paper's appendix B, as printed."""
    A, B, C, V, H, W, D, E, _, _ = arrays(problem)
    m1 = np.asarray(problem.initial_belief)
    Se = np.asarray(problem.initial_state_cov)
    Sh = np.outer(m1, m1) + np.asarray(problem.initial_belief_cov)
    She, K = np.zeros_like(Se), []
    for t in range(len(A)):
        noise = W[t] @ W[t].T + sum(d @ (Se + Sh + She + She.T) @ d.T for d in D[t])
        gain = A[t] @ Se @ H[t].T @ np.linalg.inv(H[t] @ Se @ H[t].T + noise)
        A_L, A_K, KH = A[t] - B[t] @ L[t], A[t] - gain @ H[t], gain @ H[t]
        EE = E[t] @ E[t].T
        motor = sum(c @ L[t] @ Sh @ L[t].T @ c.T for c in C[t])
        Se, Sh, She = (
            V[t] @ V[t].T + EE + A_K @ Se @ A[t].T + motor,
            EE + KH @ Se @ A[t].T + A_L @ Sh @ A_L.T + A_L @ She @ KH.T + KH @ She.T @ A_L.T,
            A_L @ She @ A_K.T - EE,
        )
        K.append(gain)
    return np.array(K)


def alternate(problem, iterations=300):
    """Both passes in turn, from filter gains of zero."""
    H = np.asarray(problem.H)
    K = np.zeros((len(H), H.shape[2], H.shape[1]))
    for _ in range(iterations):
        L, *_ = backward(problem, K)
        K = forward(problem, L)
    return L, K


def cost_to_go(problem, K):
    """The expected cost from the backward pass's value function at the start."""
    _, Px, Pe, s = backward(problem, K)
    m1 = np.asarray(problem.initial_belief)
    P1, S1 = np.asarray(problem.initial_belief_cov), np.asarray(problem.initial_state_cov)
    return m1 @ Px @ m1 + np.trace(Px @ (P1 + S1)) + np.trace(Pe @ S1) + s


def joint(problem, policy):
    """F, G, Gi and Dj of each step, as DESIGN.md writes them."""
    A, B, C, V, H, W, D, E, _, _ = arrays(problem)
    Ah, Bh, _, _, Hh, *_ = arrays(policy.believed)
    n = A.shape[-1]
    zero = np.zeros((n, n))
    for t, (L, K) in enumerate(zip(np.asarray(policy.L), np.asarray(policy.K), strict=True)):
        F = np.block([[A[t], -B[t] @ L], [K @ H[t], Ah[t] - Bh[t] @ L - K @ Hh[t]]])
        G = np.block(
            [
                [V[t], np.zeros((n, W.shape[-1] + E.shape[-1]))],
                [np.zeros((n, V.shape[-1])), K @ W[t], E[t]],
            ]
        )
        Gi = [np.vstack([-c @ L, zero]) for c in C[t]]
        Dj = [np.vstack([zero, K @ d]) for d in D[t]]
        yield F, G, Gi, Dj


def start(problem):
    m1 = np.asarray(problem.initial_belief)
    P, S = np.asarray(problem.initial_belief_cov), np.asarray(problem.initial_state_cov)
    return np.concatenate([m1, m1]), np.block([[P + S, P], [P, P]])


def log_likelihood(problem, policy, observer, samples):
    """The log likelihood of one trial, by the textbook's update with an inverse.

    Every channel needs noise.
    """
    S, U = np.asarray(observer.S), np.asarray(observer.U)
    steps = list(joint(problem, policy))
    mu, Sg = start(problem)
    n, total = len(mu) // 2, 0.0
    for t, sample in enumerate(np.asarray(samples)):
        if t > 0:
            F, G, Gi, Dj = steps[t - 1]
            xx = Sg[:n, :n] + np.outer(mu[:n], mu[:n])
            hh = Sg[n:, n:] + np.outer(mu[n:], mu[n:])
            Sg = F @ Sg @ F.T + G @ G.T
            Sg = Sg + sum(g @ hh @ g.T for g in Gi) + sum(d @ xx @ d.T for d in Dj)
            mu = F @ mu
        present = ~np.isnan(sample)
        if not present.any():
            continue
        selection = np.hstack([S[t], np.zeros_like(S[t])])[present]
        M = selection @ Sg @ selection.T + (U[t] @ U[t].T)[np.ix_(present, present)]
        r = sample[present] - selection @ mu
        gain = Sg @ selection.T @ np.linalg.inv(M)
        total -= 0.5 * (r @ np.linalg.solve(M, r) + np.linalg.slogdet(2 * np.pi * M)[1])
        mu, Sg = mu + gain @ r, Sg - gain @ M @ gain.T
    return total


def dense(problem, policy, observer):
    """Mean and covariance of the whole trajectory (z_1 .. z_T, o_1 .. o_T) without signal-dependent
    noise: everything is linear, so the trajectory is one Gaussian."""
    S, U = np.asarray(observer.S), np.asarray(observer.U)
    T, o, n = S.shape
    mean_1, cov_1 = start(problem)
    z = 2 * n
    means, cov = [mean_1], np.zeros((T * z, T * z))
    cov[:z, :z] = cov_1
    for t, (F, G, _, _) in enumerate(joint(problem, policy), start=1):
        now, before, past = slice(t * z, (t + 1) * z), slice((t - 1) * z, t * z), slice(0, t * z)
        means.append(F @ means[-1])
        cov[now, past] = F @ cov[before, past]
        cov[past, now] = cov[now, past].T
        cov[now, now] = F @ cov[before, before] @ F.T + G @ G.T
    select = np.zeros((T * o, T * z))
    noise = np.zeros((T * o, T * o))
    for t in range(T):
        select[t * o : (t + 1) * o, t * z : t * z + n] = S[t]
        noise[t * o : (t + 1) * o, t * o : (t + 1) * o] = U[t] @ U[t].T
    mean = np.concatenate(means)
    return mean, cov, select @ mean, select @ cov @ select.T + noise, cov @ select.T
