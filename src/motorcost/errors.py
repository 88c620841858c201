"""The exceptions of motorcost.

Their messages are one line: they name the thing, what it needs and what it got.
"""


class InputError(ValueError):
    """An argument cannot be used as it is."""


class PrecisionError(InputError):
    """JAX is set to single precision, in which the recursions are not accurate."""


class ConvergenceError(RuntimeError):
    """The iterations of the solver did not converge, so there is no policy to return."""
