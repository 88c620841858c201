"""A posterior: ArviZ's `InferenceData`, which also says in words what to know of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from motorcost.errors import InputError
from motorcost.io.files import written_whole
from motorcost.posterior.arviz_groups import arviz
from motorcost.posterior.words import convergence_table, numbers_by_name

if TYPE_CHECKING:
    from motorcost.plots.style import CaptionedFigure

_InferenceData: Any = arviz().InferenceData


class Posterior(_InferenceData):
    """Draws of parameters from their posterior, with what they predict.

    `mc.sample` returns one. It is an `arviz.InferenceData`, so that every function of ArviZ takes
    it: `az.summary(post)`, `az.plot_trace(post)`, `az.loo(post)`.

    Groups: `posterior` (natural units), `sample_stats`, `log_likelihood` (of each trial, at up to
    4,000 draws), `posterior_predictive` (simulated movements, and draws of what the agent believed
    in the recorded trials), `prior` and `prior_predictive` (not of groups of people),
    `observed_data`.

    Examples
    --------
    >>> low, high = post.interval(0.95)["effort"]
    >>> low < fit.estimates["effort"] < high
    True
    """

    @property
    def method(self) -> str:
        """How it was drawn: nuts, smc or laplace."""
        return str(self.posterior.attrs["method"])

    @property
    def size_in_words(self) -> str:
        """How many draws there are, in a sentence."""
        of = "populations" if self.method == "smc" else "chains"
        sizes = self.posterior.sizes
        return f"{sizes['chain']} {of} of {sizes['draw']} draws by {self.method}."

    @property
    def verdicts(self) -> list[str]:
        """What to know before believing it, in sentences; none if nothing is wrong."""
        return list(json.loads(self.posterior.attrs["verdicts"]))

    @property
    def log_evidence(self) -> float:
        """The log probability of the trials, with all parameters integrated over their priors; NaN
        where the method does not tell."""
        return float(self.posterior.attrs.get("log_evidence", np.nan))

    @property
    def log_evidence_error(self) -> float:
        """The Monte Carlo error of `log_evidence`; NaN where it is not known."""
        return float(self.posterior.attrs.get("log_evidence_error", np.nan))

    def interval(self, probability: float = 0.95) -> dict[str, tuple[float, float]]:
        """Return for each parameter the interval with equal tails that has this probability."""
        if not 0 < probability < 1:
            raise InputError(f"a probability lies between 0 and 1, got {probability!r}")
        tails = [(1 - probability) / 2, (1 + probability) / 2]
        both = self.posterior.quantile(tails, dim=("chain", "draw"))
        low, high = (numbers_by_name(both.isel(quantile=i, drop=True)) for i in range(2))
        return {name: (low[name], high[name]) for name in low}

    def summary(self) -> str:
        """Return a table of medians, SDs and 95 % intervals, and the verdicts below it."""
        flat = self.posterior
        median = numbers_by_name(flat.median(dim=("chain", "draw")))
        spread = numbers_by_name(flat.std(dim=("chain", "draw")))
        ends, checks = self.interval(0.95), convergence_table(flat)
        width = max(12, *(len(name) + 2 for name in median))
        lines = [
            f"{'parameter':<{width}}{'median':>11}{'SD':>10}  {'95 % interval':<24}"
            f"{'R-hat':>7}{'ESS':>7}"
        ]
        for name, value in median.items():
            low, high = ends[name]
            row = checks[name]
            lines.append(
                f"{name:<{width}}{value:>11.4g}{spread[name]:>10.2g}  "
                f"{f'{low:.4g} to {high:.4g}':<24}{row['r_hat']:>7.3f}{row['ess_bulk']:>7.0f}"
            )
        lines += ["", self.size_in_words]
        if np.isfinite(self.log_evidence):
            error = self.log_evidence_error
            unknown = "Laplace's approximation" if self.method == "laplace" else "error not known"
            shown = f" ± {error:.2g}" if np.isfinite(error) else f" ({unknown})"
            lines[-1] += f" Log evidence {self.log_evidence:.6g}{shown}."
        return "\n".join([*lines, *(f"- {verdict}" for verdict in self.verdicts)])

    def plot(self) -> CaptionedFigure:
        """Return a picture of the posterior of each parameter, alone and in pairs."""
        from motorcost.plots.posterior import plot_posterior

        return plot_posterior(self)

    def save(self, file: str | Path) -> Path:
        """Write everything to a NetCDF file, whole or not at all; `mc.load_posterior` and
        `arviz.from_netcdf` read it."""
        path = Path(file)
        with written_whole(path) as draft:
            self.to_netcdf(str(draft))
        return path

    def __repr__(self) -> str:
        return self.summary()


def load_posterior(file: str | Path) -> Posterior:
    """Read a posterior that `Posterior.save` or `motorcost sample` wrote.

    Examples
    --------
    >>> file = post.save("posterior.nc")
    >>> mc.load_posterior(file).method
    'laplace'
    """
    path = Path(file)
    if path.is_dir():
        path = path / "posterior.nc"
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        data = arviz().from_netcdf(str(path))
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} is no posterior that can be read: {error}") from None
    if "posterior" not in data.groups() or "verdicts" not in data.posterior.attrs:
        raise InputError(f"{path} holds no posterior of motorcost: it has {data.groups()}")
    return Posterior(**{name: data[name] for name in data.groups()})
