"""The appendix's second measure: do the estimates give the same movements?"""

from collections.abc import Sequence

import numpy as np

from motorcost.experiments import fig2ef
from motorcost.experiments.declare import Experiment, Number, Settings, Tables
from motorcost.experiments.drawing import distributions, pair_maps
from motorcost.report.page import Picture


def numbers(at: Settings, tables: Tables) -> Sequence[Number]:
    """The divergence, from simulated trajectories and exactly."""
    table = tables["reaching-grid"]
    table = table[table["failed"] == ""]
    k, n = len(fig2ef.DIVERGENCE.states), fig2ef.DIVERGENCE.n_trials
    floor = (k + k * (k + 1) / 2) / n
    return [
        Number(
            "median symmetrised KL, simulated trajectories",
            float(table["kl"].median()),
            note=f"Two sets of {n} Gaussian trajectories of the same agent would differ by "
            f"{floor:.1e} in {k} states.",
        ),
        Number("median symmetrised KL, exact moments", float(table["kl_exact"].median())),
        Number("95th percentile, exact moments", float(table["kl_exact"].quantile(0.95))),
    ]


def draw(at: Settings, tables: Tables) -> Sequence[Picture]:
    """Maps over pairs, and distributions."""
    table = tables["reaching-grid"]
    fine = table[table["failed"] == ""]
    both = {"simulated": np.asarray(fine["kl"]), "exact": np.asarray(fine["kl_exact"])}
    return [
        Picture(
            pair_maps(fine, "kl_exact", "symmetrised KL", at["grid"]),
            "Divergence of movements over pairs of true costs",
            "maps",
        ),
        Picture(distributions(both, "symmetrised KL"), "Distribution of divergences", "both"),
    ]


EXPERIMENT = Experiment(
    name="kl",
    part="Appendix, KL divergence",
    title="The same movements",
    about="The fits of Figure 2 E. Measured: the symmetrised KL divergence, averaged over time, "
    "between Gaussians of the trajectories at the true and at the inferred costs.",
    scales=fig2ef.EXPERIMENT.scales,
    sweeps=fig2ef.sweeps,
    numbers=numbers,
    draw=draw,
    deviations=(
        "The paper does not say which states enter, nor what it does where they do not vary: "
        "here position, velocity and force, from the fifth sample on, where all three vary.",
        "The paper gives no number for this figure.",
    ),
)
