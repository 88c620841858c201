"""Checks of what users hand in.

Shapes are checked always. Values (finite, positive definite, not negative) are checked when
they are known, which they are not while JAX traces.
"""

import inspect
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost.errors import InputError, PrecisionError

# Eigenvalues of a semidefinite matrix come out this far below zero by rounding alone.
EIGENVALUE_ROUNDING = 1e-10


def require_float64() -> None:
    """Raise unless JAX computes in double precision."""
    if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise PrecisionError(
            "motorcost needs double precision, and JAX is set to single: put "
            "jax.config.update('jax_enable_x64', True) before your first computation, "
            "or set JAX_ENABLE_X64=1"
        )


def is_concrete(value: Any) -> bool:
    """Whether a value has numbers in it now, rather than standing for numbers to come."""
    return not isinstance(value, jax.core.Tracer)


def numbers(name: str, value: Any) -> Any:
    """`value` as a float64 array (NumPy's where it is known), finite throughout."""
    if not is_concrete(value):
        return jnp.asarray(value, dtype=float)
    try:
        if any(not is_concrete(leaf) for leaf in jax.tree.leaves(value)):
            return jnp.asarray(value, float)
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError
        array = np.ma.filled(np.ma.asarray(value, float), np.nan)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be real numbers, got {_brief(value)}") from None
    if is_concrete(array) and not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        at = f" at index {where}" if where else ""
        raise InputError(f"{name} must be finite, got {array[where]}{at}")
    return array


def matrix(
    name: str, value: Any, shape: tuple[int | None, int | None], words: str, steps: int, span: str
) -> Float[Array, "steps rows cols"]:
    """A matrix for each of `steps` time steps, from one matrix or one a step.

    `shape` is (rows, columns), None where any number will do; `words` names the two, and
    `span` names the number of steps, as in "T-1".
    """
    array = numbers(name, value)
    rows, cols = shape

    def fits(got: tuple[int, ...]) -> bool:
        return all(want is None or want == have for want, have in zip(shape, got, strict=True))

    if array.ndim == 2 and fits(array.shape):
        return jnp.broadcast_to(array, (steps, *array.shape))
    if array.ndim == 3 and array.shape[0] == steps and fits(array.shape[1:]):
        return jnp.asarray(array)
    size = f"{'any' if rows is None else rows}, {'any' if cols is None else cols}"
    swapped = array.ndim >= 2 and fits((array.shape[-1], array.shape[-2]))
    raise InputError(
        f"{name} must have shape ({words}) = ({size}) or ({span}, {words}) = ({steps}, {size}), "
        f"got {array.shape}." + (" Transposed?" if swapped and not fits(array.shape[-2:]) else "")
    )


def terms(
    name: str, value: Any, shape: tuple[int, int], words: str, steps: int, span: str
) -> Float[Array, "steps terms rows cols"]:
    """The matrices of several noise terms, stacked: axes (time, term, row, column)."""
    if not isinstance(value, (list, tuple)):
        raise InputError(
            f"{name} must be a list of matrices, one a noise term ([] for none), got "
            f"{_brief(value)}. For a single term write {name}=[...]"
        )
    each = [matrix(f"{name}[{i}]", term, shape, words, steps, span) for i, term in enumerate(value)]
    return jnp.stack(each, axis=1) if each else jnp.zeros((steps, 0, *shape))


def vector(name: str, value: Any, size: int, words: str) -> Float[Array, " size"]:
    """One number for each of `size` things, which `words` names."""
    array = numbers(name, value)
    if array.shape != (size,):
        raise InputError(f"{name} must have shape ({words},) = ({size},), got {array.shape}")
    return jnp.asarray(array)


def symmetric(
    name: str, value: Float[Array, "*time n n"], definite: bool = False
) -> Float[Array, "*time n n"]:
    """`value` made exactly symmetric; raises unless it is positive (semi)definite."""
    if is_concrete(value):
        each = np.asarray(value).reshape(-1, *value.shape[-2:])
        scale = np.abs(each).max(axis=(1, 2), initial=0.0)
        if (np.abs(each - each.swapaxes(1, 2)).max(axis=(1, 2)) > 1e-8 * scale).any():
            raise InputError(f"{name} must be symmetric")
        lowest = definiteness(each)
        bad = lowest <= 0 if definite else lowest < -EIGENVALUE_ROUNDING
        if bad.any():
            first = int(np.argmax(bad))
            kind = "definite" if definite else "semidefinite"
            at = f" at {name}[{first}]" if (each != each[0]).any() else ""
            eigenvalue = np.linalg.eigvalsh(each[first])[0]
            raise InputError(
                f"{name} must be positive {kind}, got lowest eigenvalue {eigenvalue:.3g}{at}"
            )
    return (value + jnp.swapaxes(value, -1, -2)) / 2


def definiteness(M: np.ndarray) -> np.ndarray:
    """The lowest eigenvalue of each symmetric matrix (their last two axes) after scaling its
    diagonal to one.

    Positive for a definite matrix, not below -EIGENVALUE_ROUNDING for a semidefinite one. The
    scaling keeps a large entry from hiding a wrong sign beside it.
    """
    diagonal = np.diagonal(M, axis1=-2, axis2=-1)
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    return np.linalg.eigvalsh(M / (scale[..., :, None] * scale[..., None, :]))[..., 0]


def nonnegative(**values: Any) -> None:
    """Raise if any of the named values (noise SDs, weights) is negative or not finite."""
    for name, value in values.items():
        array = numbers(name, value)
        if is_concrete(array) and (array < 0).any():
            raise InputError(f"{name} must not be negative, got {array.min():g}")


def positive(**values: Any) -> None:
    """Raise if any of the named values (durations, masses, efforts) is not one above zero."""
    for name, value in values.items():
        array = numbers(name, value)
        if array.ndim:
            raise InputError(f"{name} must be one number, got {_brief(value)}")
        if is_concrete(array) and not (array > 0).all():
            raise InputError(f"{name} must be positive, got {array.min():g}")


def random_key(key: Any) -> None:
    """Raise unless `key` is what JAX draws random numbers from."""
    if not hasattr(key, "dtype") or not (
        jnp.issubdtype(key.dtype, jax.dtypes.prng_key) or key.dtype == np.uint32
    ):
        raise InputError(f"key must be a random key, as in key=jax.random.key(0), got {key!r}")


def whole(name: str, value: Any, least: int, meaning: str) -> int:
    """`value` as an int, at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(f"{name} ({meaning}) must be a whole number, got {_brief(value)}")
    if value < least:
        raise InputError(f"{name} ({meaning}) must be at least {least}, got {value}")
    return int(value)


def labels(
    what: str, given: Sequence[str] | Mapping[str, str] | None, size: int, default: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and units of states, controls or senses, from names or a mapping name -> unit."""
    if given is None:
        given = [f"{default}_{i + 1}" for i in range(size)]
    ordered = isinstance(given, (Sequence, Mapping)) and not isinstance(given, str)
    if not ordered or not all(isinstance(name, str) for name in given):
        raise InputError(f"{what} must be a list of names, got {_brief(given)}")
    names = tuple(given)
    units = tuple(given.values()) if isinstance(given, Mapping) else ("",) * len(names)
    if len(names) != size:
        raise InputError(f"{what} must name {size}, got {len(names)}: {', '.join(map(str, names))}")
    distinct(what, names)
    return names, units


def distinct(what: str, names: Sequence[str]) -> None:
    """Raise if a name comes twice."""
    for i, name in enumerate(names):
        if name in names[:i]:
            raise InputError(f"{what} must differ from each other, got {name!r} twice")


def takes(what: str, function: Any, /, *positional: str, **by_name: Any) -> None:
    """Raise unless `function` can be called with these arguments, as far as it tells."""
    if not callable(function):
        raise InputError(f"{what} must be a function, got {_brief(function)}")
    refusals = []
    # A decorator may take other arguments than what it decorates: either will do.
    for follow_wrapped in (True, False):
        try:
            signature = inspect.signature(function, follow_wrapped=follow_wrapped)
        except (TypeError, ValueError):  # not every function of C has one
            return
        try:
            signature.bind(*positional, **by_name)
            return
        except TypeError as error:
            refusals.append(f"but takes {signature}: {error}")
    given = ", ".join([*positional, *(f"{name}=..." for name in by_name)])
    raise InputError(f"{what} is called with ({given}), {refusals[0]}")


def one_of(what: str, name: str, known_names: Sequence[str]) -> str:
    """`name` itself if it is known; otherwise raise, with the nearest known names."""
    if name in known_names:
        return name
    if not isinstance(name, str):
        raise InputError(f"a {what} is given by its name, got {name!r}")
    near = get_close_matches(name, known_names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known_names)}"
    raise InputError(f"unknown {what} {name!r}: {hint}")


def _brief(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"an array of shape {tuple(shape)}"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
