"""What a slip in the authors' public code does to the costs that a lab would infer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array
from matplotlib.figure import Figure

from motorcost.diagnostics import check_fit
from motorcost.experiments import fig2ef
from motorcost.experiments.declare import Experiment, Number, Scale, Settings, Sweep, Tables
from motorcost.experiments.measures import (
    covered,
    has_errors,
    log_errors,
    mean,
    rmse,
    symmetrised_kl,
)
from motorcost.experiments.reaches import LABELS, TRUTH, recovering
from motorcost.fitting.estimate import fit
from motorcost.model.minima import STARTS
from motorcost.model.moments import expected_cost
from motorcost.model.passes import backward_pass
from motorcost.model.policy import FilterGains, Gains, Minima, Policy
from motorcost.model.problem import Problem
from motorcost.model.simulate import simulate
from motorcost.model.solver import solve
from motorcost.plots.style import BLUE, GREY, ORANGE, clean
from motorcost.report.page import Picture
from motorcost.tasks import reaching

if TYPE_CHECKING:
    import pandas as pd

# The number that the public code gives its solver inside a likelihood.
ITERATIONS = 50
RIGHT, WRONG = "reaching-grid", "wrong-agent-grid"
CHECKED = "agents-checked"


def wrong_policy(problem: Problem) -> Policy:
    """The policy that the authors' public code finds: its backward pass is right, its forward pass
    has misplaced parentheses (see `forward`).

    As in that code, convergence is not checked: `converged` is true if all gains are finite.
    """
    return alternate(problem.as_believed, slip=True)


@partial(jax.jit, static_argnames=("slip", "iterations"))
def alternate(problem: Problem, *, slip: bool, iterations: int = ITERATIONS) -> Policy:
    """The policy after a fixed number of iterations from filter gains of zero, with or without the
    slip."""
    p = problem
    count, n, m = p.B.shape

    def iterate(gains: tuple[Gains, FilterGains], _: None) -> tuple[Any, None]:
        L = backward_pass(p, gains[1])
        return (L, forward(p, L, slip=slip)), None

    start = jnp.zeros((count, m, n)), jnp.zeros((count, n, p.H.shape[1]))
    (L, K), _ = lax.scan(iterate, start, length=iterations)
    policy = Policy(
        L=L,
        K=K,
        believed=p,
        expected_cost=jnp.array(0.0),
        iterations=jnp.array(iterations),
        converged=jnp.isfinite(L).all() & jnp.isfinite(K).all(),
        iteration_costs=jnp.full(iterations, jnp.nan),
        minima=Minima(jnp.array(0), jnp.full(STARTS, jnp.nan)),
    )
    return eqx.tree_at(lambda q: q.expected_cost, policy, expected_cost(p, policy))


def forward(problem: Problem, L: Gains, *, slip: bool) -> FilterGains:
    """Filter gains as in the paper's appendix B or, with the slip, as in the public code.

    The mean square Sh of the estimates is updated by three terms (and E E'):

        K H Se A'  +  (A - B L) Sh (A - B L)'  +  (A - B L) She H' K' + its transpose

    In the code, parentheses that belong after `L` close behind the second term and behind the
    third. What comes out is `A - B L Sh (A - B L)'` and `A - B L She H' K' + ..`: the matrix A
    itself, twice, among squares. Sh scales the agent's idea of its motor noise (C), and so the
    gains; without signal-dependent noise the slip has no effect.
    """
    p = problem

    def step(carry: Any, at: Any) -> Any:
        Se, Sh, She = carry
        A, B, C, V, H, W, D, E, L = at
        noise = W @ W.T
        for j in range(D.shape[0]):
            noise = noise + D[j] @ (Se + Sh + She + She.T) @ D[j].T
        K = jnp.linalg.solve((H @ Se @ H.T + noise).T, H @ Se.T @ A.T).T
        A_L, A_K, KH, EE = A - B @ L, A - K @ H, K @ H, E @ E.T
        if slip:
            squares = A - B @ L @ Sh @ A_L.T
            across = A - B @ L @ She @ KH.T + KH @ She.T @ A_L.T
        else:
            squares = A_L @ Sh @ A_L.T
            across = A_L @ She @ KH.T + KH @ She.T @ A_L.T
        Se_next = V @ V.T + EE + A_K @ Se @ A.T
        for i in range(C.shape[0]):
            Se_next = Se_next + C[i] @ L @ Sh @ L.T @ C[i].T
        Sh_next = EE + KH @ Se @ A.T + squares + across
        return (Se_next, Sh_next, A_L @ She @ A_K.T - EE), K

    m1 = p.initial_belief
    Se_1, Sh_1 = p.initial_state_cov, jnp.outer(m1, m1) + p.initial_belief_cov
    matrices = (p.A, p.B, p.C, p.V, p.H, p.W, p.D, p.E, L)
    return lax.scan(step, (Se_1, Sh_1, jnp.zeros_like(Se_1)), matrices)[1]


def mispredicted(
    key: Any, truth: Problem, true_policy: Policy, found: Problem, found_policy: Policy
) -> dict[str, Array]:
    """The divergence of the fitted model's prediction from the movements of the wrong agent: the
    mean over time of the symmetrised divergence between exact moments. A measure for `Recovery`."""
    moved = fig2ef.DIVERGENCE.exact(truth, true_policy)
    predicted = fig2ef.DIVERGENCE.exact(found, found_policy)
    return {"kl_exact": symmetrised_kl(*moved, *predicted).mean()}


def checked(*, key: Any, agent: str, trials: int, starts: int) -> dict[str, Any]:
    """Fit reaches of the right or the wrong agent at panel A's costs, and check the fitted model.

    Returns whether the check passed, its verdicts, and of all channels the variance of innovations
    that is furthest from 1 and their largest correlation.
    """
    keys = jax.random.split(key, 3)
    costs: dict[str, Any] = {**TRUTH}
    problem = reaching(**costs)
    policy = wrong_policy(problem) if agent == "wrong" else solve(problem)
    data = simulate(problem, policy, n_trials=trials, key=keys[0])
    found = fit(reaching, data, free=list(TRUTH), n_starts=starts, key=keys[1])
    judged = check_fit(found, key=keys[2])
    informative = [channel for channel in judged.channels if channel.n >= 10]
    return {
        "passed": judged.passed,
        "variance": max((channel.variance for channel in informative), key=lambda v: abs(v - 1)),
        "lag": max((channel.lag for channel in informative), key=abs),
        "verdicts": " ".join(judged.verdicts),
    }


def cells(at: Settings) -> list[dict[str, Any]]:
    """Panel A's costs, and every so many of the cells of figure 2 E."""
    return [TRUTH, *[cell for cell in fig2ef.cells(at)[:: at["every"]] if cell != TRUTH]]


def sweeps(at: Settings) -> list[Sweep]:
    """The recovery of figure 2 E, the same with the wrong agent, and full fits with a check."""
    recovery = recovering(at, policy=wrong_policy, measure=mispredicted)
    full = partial(checked, trials=at["trials"], starts=at["starts"])
    return [
        *fig2ef.sweeps(at),
        Sweep(WRONG, recovery, cells(at), at["wrong"], batch_size=at["batch_size"]),
        Sweep(CHECKED, full, {"agent": ["wrong", "right"]}, at["checked"], call="each"),
    ]


def numbers(at: Settings, tables: Tables) -> Sequence[Number]:
    """Error and bias of each cost, coverage of intervals, divergence, and what the check finds."""
    agents = {"wrong": tables[WRONG], "right": tables[RIGHT]}
    return [
        *_errors(agents),
        *_factors(tables[WRONG]),
        *_coverage(agents),
        *_divergences(agents),
        *_checks(tables[CHECKED]),
        *_without_errors(agents),
    ]


def _errors(agents: Tables) -> list[Number]:
    rows = []
    for k, name in enumerate(TRUTH):
        for agent, table in agents.items():
            errors = log_errors(table, list(TRUTH))[:, k]
            rows.append(Number(f"RMSE of log10 {LABELS[name]}, {agent} agent", *rmse(errors)))
            rows.append(Number(f"bias of log10 {LABELS[name]}, {agent} agent", *mean(errors)))
    return rows


def _factors(panel: pd.DataFrame) -> list[Number]:
    """Of the rows at panel A's costs, the factor by which each cost is wrong."""
    for name, value in TRUTH.items():
        panel = panel[np.isclose(panel[name], value, rtol=1e-9)]
    rows = []
    for k, name in enumerate(TRUTH):
        bias, error = mean(log_errors(panel, list(TRUTH))[:, k])
        factor = 10**bias
        note = "A factor is the geometric mean of found over true."
        title = f"factor on {LABELS[name]} at panel A's costs, wrong agent"
        rows.append(Number(title, factor, factor * np.log(10) * error, note=note))
    return rows


def _coverage(agents: Tables) -> list[Number]:
    rows = []
    for agent, table in agents.items():
        inside = covered(table, list(TRUTH))
        for k, name in enumerate(TRUTH):
            title = f"true {LABELS[name]} within the 95 % interval, fraction, {agent} agent"
            rows.append(Number(title, *mean(inside[:, k])))
    return rows


def _divergences(agents: Tables) -> list[Number]:
    rows = []
    for agent, table in agents.items():
        fine = table[table["failed"] == ""]
        title = f"divergence of the prediction from the movements, {agent} agent"
        rows.append(Number(title, *mean(fine["kl_exact"].to_numpy(float))))
    return rows


def _checks(table: pd.DataFrame) -> list[Number]:
    rows = []
    for agent in ("wrong", "right"):
        fits = table[(table["agent"] == agent) & (table["failed"] == "")]
        title = f"check of the model finds something wrong, fraction, {agent} agent"
        rows.append(Number(title, *mean(~fits["passed"].to_numpy(bool)), note=CHECK))
    return rows


def _without_errors(agents: Tables) -> list[Number]:
    rows = []
    for agent, table in agents.items():
        inside = ~table["at_bounds"].to_numpy(bool) & has_errors(table, list(TRUTH))
        title = f"estimates at a bound or without standard errors, fraction, {agent} agent"
        rows.append(Number(title, *mean(~inside), note=BOUND if agent == "wrong" else ""))
    return rows


CHECK = "The check is `check_fit`, with its usual thresholds, at panel A's costs."
BOUND = "The lower bound 1e-8 of effort stops many: what is said of bias and error is the least."


def draw(at: Settings, tables: Tables) -> Sequence[Picture]:
    """Estimated over true costs, for both agents."""
    figure = Figure(figsize=(9.6, 3.2), layout="constrained")
    drawn = (
        ("right agent", tables[RIGHT], BLUE, 0.97),
        ("wrong agent", tables[WRONG], ORANGE, 1.03),
    )
    for ax, name in zip(figure.subplots(1, 3), TRUTH, strict=True):
        for label, table, colour, aside in drawn:
            fine = table[table["failed"] == ""]
            alpha = float(np.clip(60 / max(len(fine), 1), 0.15, 0.8))
            # A little to the side, so that neither hides the other.
            x, y = fine[name] * aside, fine[f"{name}_found"]
            ax.plot(x, y, ".", color=colour, ms=5, alpha=alpha, mew=0)
            ax.plot([], [], ".", color=colour, ms=7, label=label)
        ends = [tables[WRONG][name].min() / 1.5, tables[WRONG][name].max() * 1.5]
        ax.plot(ends, ends, color=GREY, lw=1, zorder=0)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel(f"true {LABELS[name]}")
        ax.set_ylabel(f"inferred {LABELS[name]}")
        clean(ax)
    figure.axes[0].legend(frameon=False, fontsize=8, loc="upper left")
    alt = "Costs inferred from reaches of an agent with the wrong filter and of one with the right"
    return [Picture(figure, f"{alt} one, over the true costs", "estimates")]


# Fewer fits of the wrong agent are enough for a laptop: its errors are large, and searches that
# find no maximum take long.
_MORE: dict[Scale, Settings] = {
    "smoke": {"wrong": 1, "every": 6, "checked": 1},
    "laptop": {"wrong": 1, "every": 3, "checked": 5},
    "paper": {"wrong": 10, "every": 1, "checked": 50},
}

EXPERIMENT = Experiment(
    name="bug",
    part="The public code: what the bug did",
    title="Costs of an agent with the public code's filter",
    about="Agents of figure 2 E whose filter has the slip of the authors' public code, fitted by "
    "the model without it, beside agents without it. Measured: error and bias of each cost, how "
    "often intervals hold the truth, and whether the check of the model finds anything wrong. It "
    "answers what a lab would have inferred had its simulated or assumed agents come from that "
    "code.",
    scales={
        scale: {**settings, **_MORE[scale]} for scale, settings in fig2ef.EXPERIMENT.scales.items()
    },
    sweeps=sweeps,
    numbers=numbers,
    draw=draw,
    deviations=(
        "The question is ours: the paper fits such agents with a model that has the same slip, "
        "which hides it.",
        "The slip: parentheses misplaced twice in one statement of the forward pass, so that A is "
        "added twice where it should multiply. On the code's own reach (motor noise 10^-0.3, "
        "control cost effort / T) the expected cost is 1.6359e-3 instead of 1.2050e-3, and the "
        "filter gains are off by 207 %: a test of ours.",
        "The experiment has the motor noise 0.5 and the control cost effort / (T - 1) of the rest.",
        "Estimates are searched for within the task's usual bounds, which the wrong agent's reach: "
        "effort ends at 1e-8 in many cells.",
        "Always 50 iterations; the code stops earlier where the cost changes by less than 1e-14.",
        "Nothing else of the code is imitated: no 1e-7 on covariances, no repeated initial mean.",
    ),
)
