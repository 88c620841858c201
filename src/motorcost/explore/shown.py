"""What the page shows, as one value: what its exports and its fits begin from."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from motorcost.explore.recordings import Recording
from motorcost.explore.scene import Setting
from motorcost.model.observer import SHARED_NOISE
from motorcost.study.settings import Study
from motorcost.tasks.supports import LogNormal, Normal, Support

# Arguments of a study that the page does not show, and keeps.
OF_FIT = ("method", "priors")
OF_REPORT = ("folds", "bootstrap", "cuts", "baselines", "profiles")
# Digits of a median, which a support keeps as its logarithm.
_DIGITS = 12


@dataclass(frozen=True)
class Shown:
    """What the page shows: its sliders, its data if there are any, and what a fit would infer."""

    setting: Setting
    free: Mapping[str, Support]
    recording: Recording | None = None
    noise: float = 0.0
    starts: int = 4

    @property
    def fixed(self) -> dict[str, Any]:
        """Parameters of the task that are neither inferred nor conditions of the trials."""
        conditions = () if self.recording is None else self.recording.trials.conditions
        return {
            name: value
            for name, value in {**self.setting.values, **self.setting.whole}.items()
            if name not in (*self.free, *conditions)
        }

    @property
    def fixed_noise(self) -> float:
        """The SD of the recording noise, 0 where it is inferred."""
        return 0.0 if SHARED_NOISE in self.free else self.noise

    def kept(self, names: Sequence[str]) -> dict[str, Any]:
        """What the study has under these names and the page does not show, unless it is usual."""
        if self.recording is None:
            return {}
        usual = inspect.signature(Study).parameters
        values = {name: getattr(self.recording.study, name) for name in names}
        return {name: value for name, value in values.items() if value != usual[name].default}


def support_arguments(support: Support) -> dict[str, float]:
    """The arguments with which a support is made, as `LogUniform` and the others take them."""
    if support.sd is None:
        return {"low": support.low, "high": support.high}
    assert support.centre is not None  # it comes with an SD
    if support.logarithmic:
        median = float(f"{np.exp(support.centre):.{_DIGITS}g}")
        prior, endless = {"median": median, "sd": support.sd}, LogNormal(1.0, 1.0)
    else:
        prior, endless = {"mean": support.centre, "sd": support.sd}, Normal(0.0, 1.0)
    ends = {"low": (support.low, endless.low), "high": (support.high, endless.high)}
    return prior | {name: end for name, (end, usual) in ends.items() if end != usual}
