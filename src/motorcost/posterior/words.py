"""What to know before believing a posterior, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from motorcost.fitting.fitted import Fit
from motorcost.fitting.information import robust_covariance
from motorcost.markup import percent
from motorcost.posterior.arviz_groups import arviz
from motorcost.tasks.supports import Support

if TYPE_CHECKING:
    from xarray import Dataset

# What a sampler runs side by side: chains of NUTS, populations of sequential Monte Carlo.
Units = Literal["chains", "populations"]
# Above this, chains have not mixed (Vehtari and others, 2021).
LARGEST_RHAT = 1.01
# Effective draws that an interval needs (100 for each of 4 chains).
LEAST_EFFECTIVE = 400
# A chain that stays where it is in more than this part of its transitions does not move.
STANDSTILL = 0.95
# Trials vary more than the likelihood says where the errors of the fit, which are found from how
# much trials vary, are so many times those by the curvature alone.
TOO_NARROW = 1.15
# With fewer trials than this for each parameter, how much they vary is hardly known.
TRIALS_FOR_EACH = 10


_VARY_MORE = "trials vary more than the likelihood says: "
_LOOK_FOR_REASON = (
    "mc.check_approximation(fit, key=key) tells whether moment matching is the reason, "
    "mc.check_fit(fit, key=key) whether the model is"
)


def convergence_table(posterior: Dataset) -> dict[str, dict[str, float]]:
    """R-hat, and effective draws in the bulk and the tails, by the name of each number."""
    az = arviz()
    columns = {"r_hat": az.rhat, "ess_bulk": az.ess, "ess_tail": _tail}
    table: dict[str, dict[str, float]] = {}
    for column, function in columns.items():
        with np.errstate(all="ignore"):  # chains that stand still have no variance
            found = function(posterior)
        for name, value in numbers_by_name(found).items():
            table.setdefault(name, {})[column] = value
    return table


def _tail(posterior: Dataset) -> Any:
    return arviz().ess(posterior, method="tail")


def numbers_by_name(dataset: Any) -> dict[str, float]:
    """The numbers in a data set without chains, as `effort` or `effort[anna]`."""
    found = {}
    for name, array in dataset.data_vars.items():
        if array.ndim == 0:
            found[str(name)] = float(array)
            continue
        labels = [array.coords[dim].values for dim in array.dims]
        for index in np.ndindex(array.shape):
            label = ", ".join(str(values[i]) for values, i in zip(labels, index, strict=True))
            found[f"{name}[{label}]"] = float(array.values[index])
    return found


def verdicts_of_chains(
    posterior: Dataset, stats: dict[str, np.ndarray], *, target_accept: float
) -> list[str]:
    """Whether chains mixed, moved and stayed on course."""
    found = _standing_still(posterior)
    if found:
        return found
    found = mixing(convergence_table(posterior))
    diverging = int(np.sum(stats["diverging"]))
    if diverging:
        part = percent(diverging / stats["diverging"].size, 1)
        found.append(
            f"{diverging} transitions diverged ({part}): parts of the posterior may be "
            f"missing. Use target_accept={max(0.9, (1 + target_accept) / 2):.3f} or closer to 1"
        )
    deepest = int(np.sum(stats["n_steps"] >= 1023))
    if deepest:
        found.append(
            f"{deepest} transitions ended at the longest path: the posterior is narrow "
            "in some direction; narrow the priors or use more warm-up draws"
        )
    return found


def _standing_still(posterior: Dataset) -> list[str]:
    """Chains that do not move, by their numbers."""
    first = next(iter(posterior.data_vars.values())).values
    first = first.reshape(*first.shape[:2], -1)[..., 0]
    if first.shape[1] < 2:
        return ["there are fewer than two draws in each chain: nothing can be said of them"]
    stays = (np.diff(first, axis=1) == 0).mean(axis=1)
    still = np.flatnonzero(stays > STANDSTILL)
    if not len(still):
        return []
    which = ", ".join(str(chain) for chain in still)
    return [
        f"{len(still)} of {len(stays)} chains did not move (chain {which}). Nothing in this "
        "posterior can be relied on: check priors and recording noise, or begin elsewhere (starts=)"
    ]


def mixing(table: dict[str, dict[str, float]], of: Units = "chains") -> list[str]:
    """Whether chains (or populations, `of="populations"`) agree, and whether there are draws
    enough."""
    found = []
    if any(np.isnan(row["r_hat"]) or np.isnan(row["ess_tail"]) for row in table.values()):
        return [f"whether {of} agree cannot be told: it takes two {of}, and some draws of each"]
    apart = {name: row["r_hat"] for name, row in table.items() if row["r_hat"] > LARGEST_RHAT}
    if apart:
        worst = max(apart, key=lambda name: apart[name])
        advice: dict[Units, str] = {
            "chains": "Draw more, or see whether chains sit in different modes",
            "populations": "Draw more: each population then has more particles",
        }
        found.append(
            f"{of} disagree: R-hat of {worst} is {apart[worst]:.3f}, above {LARGEST_RHAT}. "
            f"{advice[of]}"
        )
    few = {
        name: min(row["ess_bulk"], row["ess_tail"])
        for name, row in table.items()
        if min(row["ess_bulk"], row["ess_tail"]) < LEAST_EFFECTIVE
    }
    if few:
        worst = min(few, key=lambda name: few[name])
        found.append(
            f"{worst} has {few[worst]:.0f} effective draws, fewer than the {LEAST_EFFECTIVE} that "
            "ends of intervals need: draw more"
        )
    return found


def too_narrow(fit: Fit) -> list[str]:
    """Whether trials vary more than the likelihood says, so that posteriors are too narrow.

    A posterior knows only the curvature of the log likelihood. Where the likelihood is approximate,
    as with signal-dependent noise, or the model is wrong, estimates scatter more than that.
    """
    if not np.isfinite(fit.covariance).all() or len(fit.trials) < TRIALS_FOR_EACH * len(fit.names):
        return []
    by_curvature = np.linalg.pinv(fit.information)
    ratios = np.sqrt(np.diagonal(fit.covariance) / np.diagonal(by_curvature))
    wide = {n: r for n, r in zip(fit.names, ratios, strict=True) if r > TOO_NARROW}
    if not wide:
        return []
    return [f"{_VARY_MORE}this posterior is too narrow in {_by_factors(wide)}. {_LOOK_FOR_REASON}"]


def people_too_narrow(
    names: Sequence[str],
    supports: Sequence[Support],
    people: Sequence[tuple[np.ndarray, np.ndarray]],
) -> list[str]:
    """The same of people, by their own parameters `names`: for each of them the information
    (k, k) at their own estimates, and the scores of their trials (n, k) there."""
    ratios, freedom = [], []
    for information, scores in people:
        covariance, degrees = robust_covariance(
            supports, information, scores, np.zeros(len(names), bool)
        )
        if np.isfinite(degrees).all() and np.isfinite(covariance).all():
            by_curvature = np.diagonal(np.linalg.pinv(information))
            ratios.append(np.diagonal(covariance) / by_curvature)
            freedom.append(degrees.min())
    if not ratios or sum(freedom) < TRIALS_FOR_EACH * len(names):
        return []
    mean = np.sqrt(np.average(ratios, axis=0, weights=freedom))
    wide = {name: ratio for name, ratio in zip(names, mean, strict=True) if ratio > TOO_NARROW}
    if not wide:
        return []
    return [
        f"{_VARY_MORE}what this posterior says of people is too narrow in {_by_factors(wide)}. "
        f"{_LOOK_FOR_REASON}, of a fit to one of them"
    ]


def _by_factors(ratios: dict[str, float]) -> str:
    return ", ".join(f"{name} by a factor of {ratio:.2f}" for name, ratio in ratios.items())
