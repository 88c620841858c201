"""What a fit must have reached before something is said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorcost import checks
from motorcost.errors import InputError

if TYPE_CHECKING:
    from motorcost.fitting.fitted import Fit


def require_fit(name: str, value: Any) -> None:
    """Raise unless an argument is a fit."""
    from motorcost.fitting.fitted import Fit  # which imports this module

    advice = "mc.fit(task, trials, free, key=key) makes one, mc.load(path) reads a saved one"
    checks.instance(name, value, Fit, "a Fit", advice)


def require_finished(fit: Fit, what: str) -> None:
    """Raise if a fit was interrupted. `what` there is not, then, as in "agent to look at"."""
    if fit.interrupted:
        raise InputError(f"the fit was interrupted: there is no {what} yet")


def require_maximum(fit: Fit, what: str) -> None:
    """Raise unless a fit ended at a maximum. `what` there is not, then, as in "profile"."""
    require_finished(fit, what)
    if not fit.converged:
        raise InputError(f"the search did not settle at a maximum: there is no {what}")
