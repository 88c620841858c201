"""Sample a group of people: what each cares about, and the population that they are drawn from."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from motorcost.errors import InputError
from motorcost.fitting.objective import Objective
from motorcost.fitting.progress import Progress
from motorcost.fitting.specification import make_objective
from motorcost.model.trials import Trials
from motorcost.posterior.arviz_groups import (
    log_likelihood_dataset,
    observed_dataset,
    parameters_dataset,
    predictive_dataset,
    sample_stats_dataset,
)
from motorcost.posterior.kept import Kept
from motorcost.posterior.laplace import DensityOnHost, Peak, covariance_of, dispersed
from motorcost.posterior.maxima import (
    first_fit,
    identity_of,
    objective_of,
    require_same_task,
)
from motorcost.posterior.nuts import Chains, run_nuts, starts_kept
from motorcost.posterior.own_trials import Told, alone_in_words, told_by_trials
from motorcost.posterior.population import (
    Parts,
    Population,
    from_population_scale,
    has_odds,
)
from motorcost.posterior.priors import Prior
from motorcost.posterior.result import Posterior
from motorcost.posterior.words import verdicts_of_chains
from motorcost.tasks.declarations import Task

# The SD of the half-normal prior of a spread, on a log scale (or of log odds).
USUAL_SPREAD = 1.0
# The least spread to begin with.
LEAST_SPREAD = 0.05


def sample_people(
    task: Task,
    trials: Trials,
    priors: Mapping[str, Prior | None],
    *,
    key: Any,
    group: str,
    common: Sequence[str],
    spreads: Mapping[str, float],
    between: str | None,
    search: Mapping[str, Any],
    n_chains: int,
    settings: Mapping[str, Any],
    predictive: bool,
    doubts: Sequence[str],
    attributes: Mapping[str, Any],
    report: Progress,
    kept: Kept,
) -> Posterior:
    """Draw from the posterior of a population and its people; see `sample`."""
    from motorcost.posterior.sampling import assembled, on_search_scale, priors_in_words

    people, level, levels = _people(trials, group, between)
    _check_names(priors, common, spreads)
    _check_priors(priors, common, group)
    objective, told, prior_by_name, varying = _fitted_people(
        task, trials, priors, key, group, common, search, report, kept, len(people), n_chains
    )
    scales = tuple(float(spreads.get(name, _usual_spread(prior_by_name[name]))) for name in varying)
    start, population = _begin(objective, told, prior_by_name, varying, scales, level, n_chains)
    keys = jax.random.split(key, 3)
    run = _chains(population, [start] * n_chains, keys, settings, report, kept)
    points = on_search_scale(population, run.draws)
    posterior = _with_population(
        parameters_dataset(objective, points), population, run.draws, varying, between, levels
    )
    verdicts = [f"interrupted after {run.draws.shape[1]} draws"] if run.interrupted else []
    verdicts += verdicts_of_chains(posterior, run.stats, target_accept=settings["target_accept"])
    verdicts += [*doubts, *map(str, told.verdicts)]
    report("predicting", 0, None)
    groups = {
        "posterior": posterior,
        "sample_stats": sample_stats_dataset(run.stats),
        "log_likelihood": log_likelihood_dataset(objective, points),
        "observed_data": observed_dataset(objective),
    }
    if predictive:
        predicted = predictive_dataset(objective, points, keys[2], beliefs=True)
        groups["posterior_predictive"] = predicted
    of_group = {
        "group": group,
        "between": between or "",
        "common": json.dumps([*common]),
        "spreads": json.dumps(dict(zip(varying, scales, strict=True))),
        "alone": json.dumps(alone_in_words(told, prior_by_name, varying, people)),
        "priors": priors_in_words(prior_by_name),
    }
    return assembled(groups, {**attributes, **of_group}, verdicts, key)


def _chains(
    population: Population,
    peaks: Sequence[Peak],
    keys: Any,
    settings: Mapping[str, Any],
    report: Progress,
    kept: Kept,
) -> Chains:
    """Run a chain from each of `peaks`."""
    starts = starts_kept(
        kept, lambda: dispersed(DensityOnHost(population, len(peaks)), peaks, keys[0])
    )
    covariances = np.stack([peak.covariance for peak in peaks])
    run = run_nuts(population, starts, covariances, keys[1], progress=report, kept=kept, **settings)
    if run.draws.shape[1] < 2:
        raise KeyboardInterrupt
    return run


def _fitted_people(
    task: Task,
    trials: Trials,
    priors: Mapping[str, Prior | None],
    key: Any,
    group: str,
    common: Sequence[str],
    search: Mapping[str, Any],
    report: Progress,
    kept: Kept,
    n_people: int,
    n_chains: int,
) -> tuple[Objective, Told, dict[str, Prior], list[str]]:
    """The log likelihood of all people with values of their own, what their trials tell, the
    priors, and the names of parameters that vary."""
    stored = kept.read("people")
    pooled = None
    if stored is None:
        pooled = first_fit(task, trials, priors, key, search, report)
    together = objective_of(task, trials, priors, search) if pooled is None else pooled.objective
    varying = [name for name in together.names if name not in common]
    usual = {c.parameter: c.support for c in together.coordinates}
    prior_by_name = {name: priors[name] or Prior(usual[name]) for name in usual}
    free = {name: prior_by_name[name].support.grouped_by(group) for name in varying}
    free |= {name: prior_by_name[name].support for name in together.names if name in common}
    objective = make_objective(
        task, trials, free, fixed=search["fixed"], observer=search["observer"]
    )
    if pooled is not None:
        report("fitting people", 0, None)
        told = told_by_trials(objective, pooled, varying, n_people, n_chains, report)
        stored = {**vars(told), **identity_of(objective, told.point)}
        kept.write("people", stored)
    assert stored is not None
    require_same_task(objective, stored)
    told = Told(**{name: stored[name] for name in Told.__dataclass_fields__})
    return objective, told, prior_by_name, varying


def _people(
    trials: Trials, group: str, between: str | None
) -> tuple[list[str], tuple[int, ...], list[str]]:
    """The people, the number of each one's level of the factor between people, and the levels."""
    for name in (group, between):
        if name is not None and name not in trials.conditions:
            known = ", ".join(trials.conditions) or "none"
            raise InputError(f"the trials have no condition {name!r}; there are: {known}")
    column = trials.conditions[group]
    people = np.unique(column)
    if len(people) < 2:
        raise InputError(
            f"all trials have the {group} {people[0]}: a population needs at least two; leave "
            "group= out for one"
        )
    if between is None:
        return [str(p) for p in people], (0,) * len(people), []
    levels = np.unique(trials.conditions[between])
    numbers = []
    for person in people:
        own = np.unique(trials.conditions[between][column == person])
        if len(own) > 1:
            raise InputError(
                f"{group} {person} has several values of {between} ({own[0]}, {own[1]}): between= "
                "is for what differs between people"
            )
        numbers.append(int(np.flatnonzero(levels == own[0])[0]))
    if len(levels) < 2:
        raise InputError(f"all trials have the {between} {levels[0]}: there is nothing to compare")
    return [str(p) for p in people], tuple(numbers), [str(v) for v in levels]


def _check_names(
    priors: Mapping[str, Any], common: Sequence[str], spreads: Mapping[str, float]
) -> None:
    for name in (*common, *spreads):
        if name not in priors:
            raise InputError(f"{name} has no prior: there are {', '.join(priors)}")
    for name, scale in spreads.items():
        if not isinstance(scale, (int, float)) or not 0 < scale < np.inf:
            raise InputError(f"the spread of {name} must be a positive number, got {scale!r}")
    if set(common) >= set(priors):
        raise InputError("all parameters are common: leave group= out, or let one of them vary")


def _check_priors(priors: Mapping[str, Prior | None], common: Sequence[str], group: str) -> None:
    for name, prior in priors.items():
        if prior is None:
            continue
        if prior.support.per is not None:
            raise InputError(
                f"the prior of {name} has per={prior.support.per!r}: with group={group!r} leave it "
                "out, each has a value of its own already (or name it in common=)"
            )
        ends = np.isinf(prior.ends)
        if name not in common and not prior.support.logarithmic and ends[0] != ends[1]:
            raise InputError(
                f"people cannot be normal in {name}, whose prior has one end: give it both ends, "
                "or one on a log scale (mc.LogNormal)"
            )


def _usual_spread(prior: Prior) -> float:
    support = prior.support
    if support.logarithmic or has_odds(support) or support.sd is None:
        return USUAL_SPREAD
    return support.sd


def _begin(
    objective: Any,
    told: Told,
    priors: Mapping[str, Prior],
    varying: Sequence[str],
    scales: tuple[float, ...],
    level: tuple[int, ...],
    n_chains: int,
) -> tuple[Peak, Population]:
    """The posterior of the population, and where to begin: near its maximum."""
    numbers = np.array(level)
    means, spreads = _population_of(told, numbers)
    precision = 1 / told.variances + spreads**-2
    values = (told.estimates / told.variances + means[numbers] * spreads**-2) / precision
    w = spreads**2 / (spreads**2 + told.variances)
    common = [name for name in priors if name not in varying]
    population = Population(
        objective=objective,
        mean_priors=tuple(priors[name] for name in varying),
        common_priors=tuple(priors[name] for name in common),
        told=jnp.asarray(w),
        spread_scales=scales,
        level=level,
    )
    columns = []
    for j, prior in enumerate(population.mean_priors):
        on_search_scale = from_population_scale(prior.support, jnp.asarray(means[:, j]))
        columns.append(np.asarray(prior.to_unconstrained(on_search_scale)))
    at = told.point[len(told.estimates) * len(varying) :]
    parts = Parts(
        means=jnp.asarray(np.stack(columns, axis=1)),
        log_spreads=jnp.log(jnp.asarray(spreads)),
        people=jnp.asarray(w * means[numbers] + (values - means[numbers]) / spreads ** (1 - w)),
        common=jnp.asarray(
            [
                float(prior.to_unconstrained(jnp.asarray(x)))
                for prior, x in zip(population.common_priors, at, strict=True)
            ]
        ),
    )
    free = population.joined(parts)
    slopes = np.asarray(jax.jacfwd(population.to_search_scale)(free))
    of_prior = -np.asarray(jax.hessian(population.log_prior)(free))
    information = slopes.T @ told.information @ slopes + of_prior
    (value,), _ = DensityOnHost(population, n_chains)(np.asarray(free)[None])
    peak = Peak(np.asarray(free), float(value), covariance_of(information))
    return peak, population


def _population_of(told: Told, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means (levels, varying) and spreads (varying) of a population, from estimates with errors:
    the variance of the estimates beyond their errors, weighted by what is known of each."""
    varying = told.estimates.shape[1]
    means = np.zeros((level.max() + 1, varying))
    squares = np.maximum(np.median((told.estimates - np.median(told.estimates, 0)) ** 2, 0), 1e-2)
    for _ in range(50):
        weights = 1 / (squares + told.variances)
        for number in range(len(means)):
            of_level = level == number
            means[number] = np.average(told.estimates[of_level], 0, weights[of_level])
        excess = (told.estimates - means[level]) ** 2 - told.variances
        squares = np.maximum(np.average(excess, 0, weights**2), LEAST_SPREAD**2)
    return means, np.sqrt(squares)


def _with_population(
    posterior: Any,
    population: Population,
    draws: np.ndarray,
    varying: Sequence[str],
    between: str | None,
    levels: Sequence[str],
) -> Any:
    """The draws of people with those of the population: means in natural units, spreads on the
    population scale (of natural logarithms, mostly), and differences between levels."""

    def of_draw(free: Any) -> tuple[Any, Any]:
        parts = population.parts(free)
        return population.means(parts), jnp.exp(parts.log_spreads)

    means, spreads = map(np.asarray, jax.jit(jax.vmap(jax.vmap(of_draw)))(jnp.asarray(draws)))
    pairs = list(itertools.combinations(range(len(levels)), 2))
    names = [f"{levels[b]} - {levels[a]}" for a, b in pairs]
    for j, name in enumerate(varying):
        support = population.mean_priors[j].support
        mean = means[..., j]
        on_search_scale = from_population_scale(support, jnp.asarray(mean))
        natural = np.asarray(support.from_search_scale(on_search_scale))
        if between is None:
            posterior[f"{name}_mean"] = (("chain", "draw"), natural[..., 0])
        else:
            posterior = posterior.assign_coords({between: list(levels), "contrast": names})
            posterior[f"{name}_mean"] = (("chain", "draw", between), natural)
            scale = mean if support.logarithmic else natural
            contrast = np.stack([scale[..., b] - scale[..., a] for a, b in pairs], axis=-1)
            of_logs = "_log_ratio" if support.logarithmic else "_difference"
            posterior[f"{name}{of_logs}"] = (("chain", "draw", "contrast"), contrast)
        posterior[f"{name}_spread"] = (("chain", "draw"), spreads[..., j])
    return posterior
