"""Check a fit: statistics of the recorded experiment beside those of simulated ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from motorcost import checks
from motorcost.diagnostics.adequacy import Adequacy, Channel, TrialFit
from motorcost.diagnostics.discrepancies import (
    FEWEST,
    Statistic,
    coverage_statistics,
    deviation_limit,
    improbability,
    innovation_statistics,
    phases,
    ranks,
    worst_statistic,
)
from motorcost.diagnostics.replicates import FilteredExperiments, filtered_experiments
from motorcost.errors import InputError
from motorcost.fitting.fitted import Fit
from motorcost.fitting.settled import require_finished, require_fit

# Simulated experiments that are needed to tell what varies by chance.
FEWEST_REPLICATES = 10
# Groups of fewer trials than this are not judged by themselves.
FEWEST_TRIALS = 4
# How many of the least probable trials are listed.
WORST_TRIALS = 3


def check_fit(
    fit: Fit, *, key: Any, n_replicates: int = 40, by: Mapping[str, Any] | None = None
) -> Adequacy:
    """Compare the trials with what the fitted model predicts and simulates.

    Innovations are samples minus their prediction from the samples before them, whitened: white
    and standard normal if the model is right. Replicates are experiments simulated at the
    estimates; they say how much every number varies by chance. What is reported is both large and
    more than chance, which reports anything at all of the model's own data in 5 % of experiments.

    Parameters
    ----------
    fit : Fit
        The fit.
    key : JAX random key
        Of the simulated experiments.
    n_replicates : int
        How many experiments to simulate, at least 10.
    by : mapping of str to sequence, optional
        Labels of the trials (a subject, a block), one value per trial, whose groups are looked at
        one by one, beside the conditions that were fitted.

    Examples
    --------
    >>> adequacy = mc.check_fit(fit, key=jax.random.key(0), n_replicates=10)
    >>> [channel.name for channel in adequacy.channels]
    ['position']
    """
    require_fit("fit", fit)
    require_finished(fit, "model to check")
    checks.whole("n_replicates", n_replicates, FEWEST_REPLICATES, "experiments to simulate")
    labels = _labels(fit, by or {})
    experiments = filtered_experiments(fit, n_replicates=n_replicates, key=key)
    present = np.isfinite(experiments.samples[0]).any(axis=2)
    parts = {"": present, **phases(experiments.course, present)}
    groups = {label: groups_of(label, values) for label, values in labels.items()}
    groups = {label: of_label for label, of_label in groups.items() if len(of_label) > 1}
    of_groups = {
        where: present & chosen[:, None]
        for of_label in groups.values()
        for where, chosen in of_label.items()
    }
    statistics = _statistics(fit, experiments, parts | of_groups)
    improbable = improbability(experiments.log_likelihoods)
    worst = worst_statistic(improbable)
    every = [statistic for *_, found in statistics for statistic in found.values()]
    limit = deviation_limit([*every, worst], n_replicates)
    judged = [_channel(*found, limit) for found in statistics]
    outliers = improbable[0] > improbable[1:].max() if worst.exceeds(limit) else [False]
    return Adequacy(
        channels=tuple(part for part in judged if part.where == ""),
        beliefs=fit.beliefs(),
        replicates=experiments.samples[1:],
        phases=tuple(part for part in judged if part.where in parts and part.where),
        groups={
            label: tuple(part for part in judged if part.where in of_label)
            for label, of_label in groups.items()
        },
        worst=_worst(experiments, improbable, labels),
        outlying=tuple(np.flatnonzero(outliers).tolist()),
        settled=fit.converged,
    )


Found = tuple[str, str, int, int, dict[str, Statistic]]


def _statistics(
    fit: Fit, experiments: FilteredExperiments, parts: Mapping[str, np.ndarray]
) -> list[Found]:
    """For every part and channel: where, name, trials, innovations, and the statistics by name."""
    found: list[Found] = []
    for i, name in enumerate(fit.trials.channel_names):
        samples, e = experiments.samples[..., i], experiments.innovations[..., i]
        rank = ranks(samples)
        spread = np.ptp(samples[1:], axis=0)
        varied = np.isfinite(samples[0]) & (spread > 1e-9 * np.nanmax(np.abs(samples[0])))
        for where, part in parts.items():
            of_part = innovation_statistics(e, part)
            if where:  # few pairs of a part are far apart, and every comparison costs power
                of_part.pop("later", None)
            of_part |= coverage_statistics(rank, varied, part)
            n = int((np.isfinite(e[0]) & part).sum())
            trials = int((np.isfinite(samples[0]) & part).any(axis=1).sum())
            if n >= FEWEST or where == "":
                found.append((where, name, trials, n, of_part))
    return found


def _channel(
    where: str, name: str, trials: int, n: int, found: dict[str, Statistic], limit: float
) -> Channel:
    nothing = Statistic(np.nan, np.nan, 0.0, large=False)

    def of(statistic: str) -> Statistic:
        return found.get(statistic, nothing)

    judged = found if n >= FEWEST else {}
    deviations = [abs(s.deviation) / limit for s in judged.values() if s.large]
    return Channel(
        name=name,
        n=n,
        mean=of("mean").value,
        variance=of("variance").value,
        kurtosis=of("kurtosis").value,
        lag=of("lag").value,
        coverage=of("coverage").value,
        covered=of("coverage").expected,
        trials=trials,
        half=of("half").value,
        expected_kurtosis=of("kurtosis").expected,
        where=where,
        missed=tuple(s for s, statistic in judged.items() if statistic.exceeds(limit)),
        deviation=max(deviations, default=0.0),
        later=of("later").value,
        samples_apart=of("later").samples_apart,
    )


def _labels(fit: Fit, by: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The conditions that were fitted and the user's labels, one value per trial."""
    labels = dict(fit.conditions)
    for name, values in by.items():
        if np.shape(values) != (len(fit.trials),):
            raise InputError(
                f"the label {name!r} must have one value per trial ({len(fit.trials)}), got shape "
                f"{np.shape(values)}"
            )
        labels[name] = np.asarray(values)
    return labels


def groups_of(label: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """Return the trials of each group of a label, by the group in words: thirds of what has many
    numbers. Groups of few trials are left out."""
    distinct = np.unique(values)
    if values.dtype.kind in "iuf" and len(distinct) > FEWEST_TRIALS:
        third = np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values)
        groups = {
            f"for the {which} third of {label}, {values[third == k].min():.3g} to "
            f"{values[third == k].max():.3g}": third == k
            for k, which in enumerate(("lowest", "middle", "highest"))
            if (third == k).any()
        }
    else:
        groups = {f"for {label} {_short(value)}": values == value for value in distinct}
    return {where: chosen for where, chosen in groups.items() if chosen.sum() >= FEWEST_TRIALS}


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, (float, np.floating)) else str(value)


def _worst(
    experiments: FilteredExperiments, improbable: np.ndarray, labels: Mapping[str, np.ndarray]
) -> tuple[TrialFit, ...]:
    counts = np.isfinite(experiments.innovations[0]).sum(axis=(1, 2))
    found = []
    order: Sequence[int] = np.argsort(-improbable[0], kind="stable")[:WORST_TRIALS].tolist()
    for trial in order:
        if counts[trial] == 0:
            continue
        per_sample = experiments.log_likelihoods[:, trial] / counts[trial]
        about = ", ".join(f"{name} {_short(values[trial])}" for name, values in labels.items())
        found.append(
            TrialFit(
                trial=trial,
                about=about,
                per_sample=float(per_sample[0]),
                expected=float(per_sample[1:].mean()),
                improbability=float(improbable[0, trial]),
            )
        )
    return tuple(found)
