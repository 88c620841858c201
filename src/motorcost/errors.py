"""What motorcost raises: one line that names the thing, what it needs and what it got."""


class InputError(ValueError):
    """A value handed to motorcost cannot be used as it is."""


class PrecisionError(InputError):
    """JAX runs in single precision, in which these recursions are not accurate."""


class ConvergenceError(RuntimeError):
    """The solver's gains did not settle, so there is no policy to return."""
