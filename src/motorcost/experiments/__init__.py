"""The paper's experiments: one file per figure, listed in the paper's order in `NAMES`.

- `fig2a` to `fig2g`, `fig3`, `fig4`, `fig5`: the figures; `baselines`, `kl`, `partial` and
  `moment_matching`: the appendix; `approximation`: the exact likelihood beside that of the paper;
  `bug`: the effect of a slip in the authors' public code; `calibration`: posteriors.
- `declare`: what an experiment consists of. `run`: carrying one out. `page`: the results page.
- `reaches`, `measures`, `drawing`: what several experiments share.
- `recorded_reaches`, `recorded_fits`, `recorded_drawing`: the recordings of figure 3, the fits to
  them, and the pictures.
"""

from importlib import import_module

from motorcost import checks
from motorcost.experiments.declare import SCALES, Experiment, Number, Scale, Sweep

__all__ = ["NAMES", "SCALES", "Experiment", "Number", "Scale", "Sweep", "find", "named"]

NAMES = (
    "fig2a",
    "fig2b",
    "fig2c",
    "fig2d",
    "fig2ef",
    "fig2g",
    "baselines",
    "kl",
    "partial",
    "moment_matching",
    "approximation",
    "fig3",
    "fig4",
    "fig5",
    "bug",
    "calibration",
)


def find(name: str) -> Experiment:
    """The experiment with a given name."""
    checks.one_of("experiment", name, NAMES)
    return import_module(f"motorcost.experiments.{name}").EXPERIMENT


def named(wanted: str) -> list[Experiment]:
    """The experiments that a word stands for: a name, `fig2` for its panels, `all`."""
    if wanted == "all":
        return [find(name) for name in NAMES]
    panels = [name for name in NAMES if name[:-1] == wanted or name[:-2] == wanted]
    if wanted not in NAMES and panels:
        return [find(name) for name in panels]
    checks.one_of("experiment", wanted, (*NAMES, "fig2", "all"))
    return [find(wanted)]
