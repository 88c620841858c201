"""The result of a calibration: ranks, coverage, and what they say."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from motorcost.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame

    from motorcost.plots.style import CaptionedFigure

LEVELS = (0.5, 0.8, 0.95)
# Data sets that a bin of ranks needs for a chi-square test, and bins at most.
LEAST_IN_BIN = 5
MOST_BINS = 16
# Below this chi-square probability, ranks are not called uniform.
NOT_UNIFORM = 0.01
# Coverage so many of its standard errors from what it should be is not chance: of the nine numbers
# of three parameters, one is that far off in every twentieth calibration.
NOT_CHANCE = 2.6
# Simulations that the band of the ranks' distribution comes from.
SIMULATED = 2_000


@dataclass(frozen=True)
class Calibration:
    """Where true values lie among draws of their posteriors. `mc.calibrate` returns one.

    Attributes
    ----------
    table : DataFrame
        One row per data set: for each parameter its true value (`effort_true`), its rank
        (`effort_rank`), and the share of all draws that lie below it (`effort_below`); `failed`
        says why a data set has none.
    names : tuple of str
        The parameters.
    n_ranks : int
        The number of ranks that are possible.
    task, priors, n_trials, method : str, dict of str to str, int, str
        What was calibrated.

    Examples
    --------
    >>> found = mc.calibrate(
    ...     mc.tasks.reaching,
    ...     ["effort"],
    ...     fixed={"steps": 12},
    ...     n_trials=5,
    ...     n_sets=10,
    ...     n_draws=64,
    ...     method="laplace",
    ... )
    >>> found.names
    ('effort',)
    """

    table: DataFrame
    names: tuple[str, ...]
    n_ranks: int
    task: str
    priors: dict[str, str]
    n_trials: int
    method: str

    @property
    def n_sets(self) -> int:
        """The number of data sets that were sampled."""
        return int((self.table["failed"] == "").sum())

    @property
    def failures(self) -> dict[int, str]:
        """What went wrong, by the number of the data set."""
        failed = self.table[self.table["failed"] != ""]
        return dict(zip(failed["data_set"].tolist(), failed["failed"].tolist(), strict=True))

    def ranks(self, name: str) -> np.ndarray:
        """The rank of the true value in each data set that did not fail, from 0."""
        return self._column(f"{name}_rank").astype(int)

    def _column(self, column: str) -> np.ndarray:
        return self.table.loc[self.table["failed"] == "", column].to_numpy(float)

    @property
    def n_bins(self) -> int:
        """Bins of equally many ranks, with enough data sets in each."""
        if self.n_sets < 2 * LEAST_IN_BIN:
            raise InputError(
                f"{self.n_sets} data sets were sampled, and {2 * LEAST_IN_BIN} are needed to tell "
                "anything about their ranks"
            )
        fit = [
            bins
            for bins in range(2, MOST_BINS + 1)
            if self.n_ranks % bins == 0 and self.n_sets >= LEAST_IN_BIN * bins
        ]
        return max(fit)

    def counts(self, name: str) -> np.ndarray:
        """How many data sets have a rank in each bin."""
        return np.bincount(self.ranks(name) * self.n_bins // self.n_ranks, minlength=self.n_bins)

    @property
    def p_values(self) -> dict[str, float]:
        """By parameter, the chi-square probability of ranks that are no more uniform than these."""
        from scipy.stats import chisquare

        return {name: float(chisquare(self.counts(name)).pvalue) for name in self.names}

    def coverage(self, level: float) -> dict[str, tuple[float, float]]:
        """By parameter, the share of central intervals of this level that contain the true value,
        and the standard error that it has where intervals are right."""
        error = math.sqrt(level * (1 - level) / max(self.n_sets, 1))
        return {
            name: (
                float((np.abs(self._column(f"{name}_below") - 0.5) <= level / 2).mean()),
                error,
            )
            for name in self.names
        }

    def ecdf_differences(self, name: str) -> np.ndarray:
        """The share of data sets with at most each rank, less what is expected."""
        shares = np.cumsum(np.bincount(self.ranks(name), minlength=self.n_ranks)) / self.n_sets
        return shares - np.arange(1, self.n_ranks + 1) / self.n_ranks

    def ecdf_band(self, level: float = 0.95) -> np.ndarray:
        """How far `ecdf_differences` of uniform ranks stay from 0 at every rank, with this
        probability."""
        expected = np.arange(1, self.n_ranks + 1) / self.n_ranks
        sds = np.sqrt(expected * (1 - expected) / self.n_sets)
        drawn = np.random.default_rng(0).multinomial(
            self.n_sets, np.full(self.n_ranks, 1 / self.n_ranks), SIMULATED
        )
        apart = np.abs(drawn.cumsum(axis=1) / self.n_sets - expected)[:, :-1] / sds[:-1]
        return np.quantile(apart.max(axis=1), level) * sds

    @property
    def doubts(self) -> list[str]:
        """What speaks against the posteriors, in words: ranks that are not uniform, and intervals
        that contain the truth too seldom or too often. Empty if nothing does."""
        found = [
            f"the ranks of {name} are not uniform (p = {p:.2g}): {self._shape(name)}"
            for name, p in self.p_values.items()
            if p < NOT_UNIFORM / len(self.names)
        ]
        # A chi-square test of few data sets hardly notices posteriors that are a little narrow.
        for level in LEVELS:
            for name, (share, error) in self.coverage(level).items():
                if abs(share - level) > NOT_CHANCE * error:
                    found.append(
                        f"{100 * share:.0f} % of the {100 * level:g} % intervals of {name} contain "
                        "the true value"
                    )
        return found

    @property
    def calibrated(self) -> bool:
        """Whether nothing speaks against the posteriors."""
        return not self.doubts

    def summary(self) -> str:
        """The result in words and a table."""
        total = len(self.table)
        lines = [
            f"Calibration of {self.method} for {self.task}: {self.n_sets} data sets of "
            f"{self.n_trials} trials",
            "Priors: " + ", ".join(f"{name} {prior}" for name, prior in self.priors.items()),
            "",
            f"{'':<16}{'ranks uniform, p':>18}"
            + "".join(f"{f'in {100 * level:g} %':>14}" for level in LEVELS),
        ]
        p_values, shares = self.p_values, [self.coverage(level) for level in LEVELS]
        for name in self.names:
            covered = "".join(
                f"{f'{100 * share:.0f} ± {100 * error:.0f} %':>14}"
                for share, error in (of_level[name] for of_level in shares)
            )
            lines.append(f"{name:<16}{p_values[name]:>18.3f}{covered}")
        lines += ["", self.verdict()]
        if self.failures:
            shown = "; ".join(f"{k}: {why}" for k, why in list(self.failures.items())[:3])
            lines.append(f"{len(self.failures)} of {total} data sets failed ({shown})")
        return "\n".join(lines)

    def verdict(self) -> str:
        """Whether posteriors can be believed."""
        if self.calibrated:
            return "Ranks and coverage agree with posteriors that are right."
        return f"Posteriors are not right: {'; '.join(self.doubts)}."

    def _shape(self, name: str) -> str:
        """What ranks that are not uniform look like, and what that means."""
        places = (self.ranks(name) + 0.5) / self.n_ranks
        shift = (places.mean() - 0.5) * math.sqrt(12 * self.n_sets)
        # The variance of a uniform number is 1/12, and that of its squared distance 1/180.
        width = (((places - 0.5) ** 2).mean() - 1 / 12) * math.sqrt(180 * self.n_sets)
        if abs(shift) > max(abs(width), 2):
            return f"posteriors lie too {'low' if shift > 0 else 'high'}"
        if width > 2:
            return "true values lie too often at the edge, so posteriors are too narrow"
        if width < -2:
            return "true values lie too often in the middle, so posteriors are too wide"
        return "see the rank plot"

    def plot(self) -> CaptionedFigure:
        """Draw rank histograms with their 95 % bands, and coverage."""
        from motorcost.plots.calibration import plot_calibration

        return plot_calibration(self)

    def save(self, folder: Path | str) -> None:
        """Write calibration.csv, calibration.txt and calibration.png into a folder."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        self.table.to_csv(place / "calibration.csv", index=False)
        (place / "calibration.txt").write_text(self.summary() + "\n", "utf-8")
        self.plot().savefig(place / "calibration.png", dpi=150)

    def __str__(self) -> str:
        return self.summary()


def calibration_of(ranks: Any, n_ranks: int, names: tuple[str, ...], method: str) -> Calibration:
    """A calibration of ranks (sets, parameters) that were found elsewhere."""
    import pandas as pd

    ranks = np.asarray(ranks)
    columns: dict[str, Any] = {"data_set": np.arange(len(ranks))}
    for k, name in enumerate(names):
        columns |= {f"{name}_rank": ranks[:, k], f"{name}_below": (ranks[:, k] + 0.5) / n_ranks}
    table = pd.DataFrame(columns | {"failed": [""] * len(ranks)})
    return Calibration(table, names, n_ranks, "a task", dict.fromkeys(names, ""), 0, method)
