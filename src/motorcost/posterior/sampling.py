"""`sample`: from a task, trials and priors to draws of the posterior."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from motorcost import checks
from motorcost.errors import InputError
from motorcost.fitting.progress import Progress, silent
from motorcost.fitting.specification import takes_arguments
from motorcost.model.observer import ObserverLike, ObserverSpec
from motorcost.model.trials import Trials
from motorcost.posterior.arviz_groups import (
    log_likelihood_dataset,
    observed_dataset,
    parameters_dataset,
    predictive_dataset,
    sample_stats_dataset,
)
from motorcost.posterior.kept import Kept, kept_in
from motorcost.posterior.laplace import DensityOnHost, dispersed, normal_draws
from motorcost.posterior.maxima import Maxima, find_maxima, hills_among
from motorcost.posterior.modes import modes_of
from motorcost.posterior.nuts import TARGET_ACCEPT, run_nuts, starts_kept
from motorcost.posterior.priors import Prior, little_within, prior_of
from motorcost.posterior.result import Posterior
from motorcost.posterior.smc import sample_smc
from motorcost.posterior.target import Target
from motorcost.posterior.words import convergence_table, mixing, verdicts_of_chains
from motorcost.sweeps.identity import checksum_of_trials, full_name, settings_of
from motorcost.tasks import parameters as declared_parameters
from motorcost.tasks.declarations import Task

Priors = Mapping[str, Any] | Sequence[str]
SamplingMethod = Literal["nuts", "smc", "laplace"]
METHODS = ("nuts", "smc", "laplace")
# Draws of the prior that are kept.
PRIOR_DRAWS = 1_000


def sample(
    task: Task,
    trials: Trials,
    priors: Priors,
    *,
    key: Any,
    method: SamplingMethod = "nuts",
    fixed: Mapping[str, Any] | None = None,
    observer: ObserverLike = None,
    group: str | None = None,
    common: Sequence[str] = (),
    spreads: Mapping[str, float] | None = None,
    between: str | None = None,
    n_chains: int = 4,
    n_draws: int = 1_000,
    n_warmup: int = 200,
    target_accept: float = TARGET_ACCEPT,
    n_starts: int = 6,
    starts: Sequence[Mapping[str, float]] = (),
    predictive: bool = True,
    folder: Path | str | None = None,
    progress: Progress | None = None,
) -> Posterior:
    """Draw parameters from their posterior, given trials.

    - `task`, `trials`, `fixed`, `observer`: as `fit` takes them.
    - `priors`: by name, `mc.LogNormal(1e-5, 1.0)` or another of the package, or a distribution of
      NumPyro; None, or a list of names, takes the usual support.
    - `method`: "nuts" (NumPyro's No-U-Turn sampler, begun at every maximum that `fit` finds),
      "smc" (tempered sequential Monte Carlo: several modes with their weights, and the evidence)
      or "laplace" (a normal distribution around the highest maximum: quick).
    - `group`: the condition of the trials (`"subject"`) whose groups have values of their own,
      drawn from a population whose mean and spread are inferred. `common`: parameters that are the
      same in all groups. `spreads`: the SD of the half-normal prior of a parameter's spread.
      `between`: a condition (`"age"`) whose levels have population means of their own.
    - `n_chains`, `n_draws`, `n_warmup`: chains (with "smc", populations), draws of each, and draws
      before that, which adapt the sampler and are dropped.
    - `target_accept`: for "nuts", larger values take smaller steps.
    - `n_starts`, `starts`: of the fit that comes first.
    - `predictive`: whether to simulate movements and infer beliefs at some of the draws.
    - `folder`: where to keep what is done, so that the same call goes on after an interruption,
      with the draws of an undisturbed run. Delete it when the posterior is saved.
    - `progress`: called with what is being done, how much is done, and of how much.

    Returns a `Posterior`, which ArviZ opens. Interrupted (Ctrl-C) while chains run, it returns the
    draws so far and says so.

    Examples
    --------
    >>> post = mc.sample(
    ...     mc.tasks.reaching,
    ...     positions,
    ...     {"effort": mc.LogNormal(1e-5, 1.0)},
    ...     observer=camera,
    ...     method="laplace",
    ...     n_chains=1,
    ...     n_draws=50,
    ...     n_starts=1,
    ...     predictive=False,
    ...     key=jax.random.key(0),
    ... )
    >>> post.posterior["effort"].shape  # (chain, draw)
    (1, 50)
    """
    checks.random_key(key)
    checks.one_of("method", method, METHODS)
    checks.whole("n_chains", n_chains, 1, "chains")
    checks.whole("n_draws", n_draws, 2, "draws of each chain")
    checks.whole("n_warmup", n_warmup, 10, "draws that adapt the sampler")
    if not 0 < target_accept < 1:
        raise InputError(f"target_accept lies between 0 and 1, got {target_accept!r}")
    report = silent if progress is None else progress
    by_name = priors_by_name(task, priors, observer)
    settings: dict[str, Any] = {
        "n_draws": n_draws,
        "n_warmup": n_warmup,
        "target_accept": target_accept,
    }
    search: dict[str, Any] = {
        "fixed": fixed,
        "observer": observer,
        "n_starts": n_starts,
        "starts": starts,
    }
    people: dict[str, Any] = {"common": tuple(common), "spreads": spreads or {}, "between": between}
    if group is None and any(people.values()):
        raise InputError("common, spreads and between need group=, the condition that people are")
    if group is not None and method != "nuts":
        raise InputError(f'groups are sampled by method="nuts", not {method!r}')
    # By these a folder tells one sampling from another.
    about: dict[str, Any] = {
        "key": key,
        "method": method,
        "priors": by_name,
        "n_chains": n_chains,
        "group": group,
    }
    function = partial(sample, task, trials, **about, **settings, **search, **people)
    chains: dict[str, Any] = {
        "n_chains": n_chains,
        "settings": settings,
        "predictive": predictive,
        "doubts": _doubts_about(task, by_name),
        "attributes": _inputs(task, trials, fixed, observer) | {"method": method, **settings},
    }
    with kept_in(folder, function) as kept:
        if group is not None:
            from motorcost.posterior.people import sample_people

            of_people = partial(sample_people, task, trials, by_name, key=key, group=group)
            return of_people(**people, search=search, **chains, report=report, kept=kept)
        target, maxima = find_maxima(task, trials, by_name, key, search, report, kept)
        return _sampled(target, maxima, method, key, **chains, report=report, kept=kept)


def priors_by_name(task: Task, priors: Priors, observer: ObserverLike) -> dict[str, Prior | None]:
    """The prior of each parameter; None for its usual support, which only `fit` knows."""
    if isinstance(priors, str) or not isinstance(priors, (Mapping, Sequence)) or not priors:
        raise InputError(f"priors must name parameters with their priors, got {priors!r}")
    given = priors if isinstance(priors, Mapping) else dict.fromkeys(priors)
    declared = declared_parameters(task) if hasattr(task, "parameters") else {}
    noises = observer.parameters if isinstance(observer, ObserverSpec) else ()
    found: dict[str, Prior | None] = {}
    for name, prior in given.items():
        if callable(task) and name not in noises:
            checks.one_of("parameter", name, [*takes_arguments(task), *noises])
        usual = declared[name].support if name in declared else None
        if prior is None and name not in noises and usual is None:
            raise InputError(
                f"{name} has no usual prior: give one, as in priors={{'{name}': "
                "mc.LogNormal(median, sd)}"
            )
        found[name] = None if prior is None else prior_of(name, prior, usual)
    return found


def _inputs(
    task: Task, trials: Trials, fixed: Mapping[str, Any] | None, observer: ObserverLike
) -> dict[str, str]:
    """What was sampled, by name, as text for the file: the trials by a checksum."""
    seen = settings_of(partial(dict, observer=observer))
    return {
        "task": full_name(task),
        "trials_checksum": checksum_of_trials(trials),
        "fixed": json.dumps(settings_of(partial(dict, **(fixed or {})))),
        "observer": seen["observer"],
    }


def _doubts_about(task: Task, priors: Mapping[str, Prior | None]) -> list[str]:
    """What to know of priors that lie mostly outside the values that the task takes."""
    declared = declared_parameters(task) if hasattr(task, "parameters") else {}
    said = []
    for name, prior in priors.items():
        usual = declared[name].support if name in declared else None
        if prior is not None and usual is not None:
            said.append(little_within(name, prior, usual))
    return [doubt for doubt in said if doubt]


def _sampled(
    target: Target,
    maxima: Maxima,
    method: SamplingMethod,
    key: Any,
    *,
    n_chains: int,
    settings: Mapping[str, Any],
    predictive: bool,
    doubts: Sequence[str],
    attributes: Mapping[str, Any],
    report: Progress,
    kept: Kept,
) -> Posterior:
    keys = jax.random.split(key, 4)
    priors = dict(zip(target.names, target.priors, strict=True))
    attributes = {**attributes, "priors": priors_in_words(priors)}
    found: list[str] = []
    if method == "laplace":
        best, n_draws = maxima.peaks[0], settings["n_draws"]
        free = normal_draws(best, keys[0], n_chains, n_draws)
        stats = {"lp": np.full(free.shape[:2], np.nan)}
        attributes |= {"log_evidence": best.log_evidence}
        found.append(
            "a normal distribution around the highest maximum, not the posterior itself: "
            'method="nuts" or "smc" draw from that'
        )
        if len(maxima.peaks) > 1:
            found.append(f"{len(maxima.peaks)} maxima were found, of which this is one")
    elif method == "smc":
        n_draws = settings["n_draws"]
        drawn = sample_smc(
            target, keys[0], n_draws=n_draws, n_populations=n_chains, progress=report, kept=kept
        )
        free, stats = drawn.points, {"lp": drawn.log_densities}
        evidence = {"log_evidence": drawn.log_evidence}
        attributes |= evidence | {"log_evidence_error": drawn.log_evidence_error}
    else:
        free, stats, found = _chains(target, maxima, keys, n_chains, settings, report, kept)
    points = on_search_scale(target, free)
    posterior = parameters_dataset(target.objective, points)
    hills = maxima.hills
    if method == "smc":
        p = points.shape[-1]
        flat, log_densities = points.reshape(-1, p), stats["lp"].ravel()
        hills = hills_among(target, maxima, free.reshape(-1, p), flat, log_densities)
    modes = modes_of(points, hills)
    verdicts = [*found, *_verdicts(method, posterior, stats, modes, settings)]
    verdicts += [*doubts, *maxima.verdicts]
    report("predicting", 0, None)
    groups = _groups(target, posterior, points, stats, keys[2], predictive=predictive)
    return assembled(groups, attributes, verdicts, key)


def _chains(
    target: Target,
    maxima: Maxima,
    keys: Any,
    n_chains: int,
    settings: Mapping[str, Any],
    report: Progress,
    kept: Kept,
) -> tuple[np.ndarray, dict[str, np.ndarray], list[str]]:
    """Draws by NUTS from the maxima in turn, their statistics, and what to know of them."""
    peaks = [maxima.peaks[i % len(maxima.peaks)] for i in range(n_chains)]
    verdicts = []
    if len(maxima.peaks) > n_chains:
        verdicts.append(
            f"{len(maxima.peaks)} maxima were found, and only {n_chains} of them have a chain: use "
            'n_chains= or method="smc"'
        )
    starts = starts_kept(
        kept, lambda: dispersed(DensityOnHost(target, maxima.size), peaks, keys[1])
    )
    covariances = np.stack([peak.covariance for peak in peaks])
    run = run_nuts(target, starts, covariances, keys[0], progress=report, kept=kept, **settings)
    if run.interrupted:
        verdicts.append(f"interrupted after {run.draws.shape[1]} of {settings['n_draws']} draws")
        if run.draws.shape[1] < 2:
            raise KeyboardInterrupt
    return run.draws, run.stats, verdicts


def _verdicts(
    method: str, posterior: Any, stats: Mapping[str, Any], modes: Any, settings: Any
) -> list[str]:
    if method == "smc":
        explained = [modes.words()] if modes.words() else []
        return [*explained, *mixing(convergence_table(posterior), "populations")]
    if method == "laplace":
        return []
    apart = modes.words_of_chains()
    accept = settings["target_accept"]
    of_chains = verdicts_of_chains(posterior, dict(stats), target_accept=accept)
    return [*([apart] if apart else []), *of_chains]


def on_search_scale(density: Any, free: np.ndarray) -> np.ndarray:
    """Draws (chain, draw, k) as points of the objective (chain, draw, p)."""
    return np.asarray(jax.jit(jax.vmap(jax.vmap(density.to_search_scale)))(jnp.asarray(free)))


def _groups(
    target: Target,
    posterior: Any,
    points: np.ndarray,
    stats: Mapping[str, np.ndarray],
    key: Any,
    *,
    predictive: bool,
) -> dict[str, Any]:
    """The groups of a posterior, by ArviZ's names."""
    objective = target.objective
    prior = on_search_scale(target, np.asarray(target.draw_prior(key, PRIOR_DRAWS))[None])
    groups = {
        "posterior": posterior,
        "sample_stats": sample_stats_dataset(stats),
        "log_likelihood": log_likelihood_dataset(objective, points),
        "prior": parameters_dataset(objective, prior),
        "observed_data": observed_dataset(objective),
    }
    if predictive:
        keys = jax.random.split(key)
        groups["posterior_predictive"] = predictive_dataset(
            objective, points, keys[0], beliefs=True
        )
        groups["prior_predictive"] = predictive_dataset(objective, prior, keys[1], beliefs=False)
    return groups


def priors_in_words(priors: Mapping[str, Prior]) -> str:
    """The priors by name, as a file keeps them."""
    return json.dumps({name: str(prior) for name, prior in priors.items()})


def assembled(
    groups: dict[str, Any], attributes: Mapping[str, Any], verdicts: Sequence[str], key: Any
) -> Posterior:
    """A posterior of these groups, with how it was made: versions, seed and settings."""
    from importlib.metadata import version

    made = {f"{name}_version": version(name) for name in ("motorcost", "jax", "numpyro", "arviz")}
    seed = np.asarray(jax.random.key_data(key)).tolist()
    attributes = {
        **attributes,
        **made,
        "key": json.dumps(seed),
        "verdicts": json.dumps([*verdicts]),
    }
    groups["posterior"].attrs.update(attributes)
    return Posterior(**groups)
