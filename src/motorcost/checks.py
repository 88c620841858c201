"""Checks of the arguments that users pass.

Shapes are always checked. Values (finite, positive definite, not negative) are checked if they are
concrete, which they are not while JAX traces.

Every function raises an `InputError` of one line that names the argument, what it needs and what
it got.
"""

import inspect
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from motorcost.errors import InputError, PrecisionError, shown, shown_list

# The lowest eigenvalue of a semidefinite matrix with a unit diagonal may be this far below zero by
# rounding alone.
EIGENVALUE_ROUNDING = 1e-10

# No array that fits into memory is longer, and XLA counts in 32 bits here and there.
LARGEST_SIZE = 2**31 - 1

# A matrix is symmetric if it differs from its transpose by at most this fraction of its largest
# entry.
_ASYMMETRY = 1e-8


def require_float64() -> None:
    """Raise a `PrecisionError` unless JAX computes in double precision."""
    if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise PrecisionError(
            "motorcost needs double precision, but JAX is set to single precision: call "
            "jax.config.update('jax_enable_x64', True) before the first computation, "
            "or set JAX_ENABLE_X64=1"
        )


def is_concrete(value: Any) -> bool:
    """Whether a value is concrete, not a JAX tracer."""
    return not isinstance(value, jax.core.Tracer)


def nothing_is_traced() -> bool:
    """Whether no `jit` is at work, in which every result is a tracer."""
    return is_concrete(jnp.zeros(()))


def array_module(*values: Any) -> Any:
    """NumPy if all leaves of the values are concrete, otherwise `jax.numpy`.

    For the few operations on each matrix of a problem that are not worth compiling: outside `jit`
    every operation of `jax.numpy` on a new shape is compiled, which takes longer than a fit's first
    evaluation when it happens for every matrix.
    """
    return np if all(is_concrete(leaf) for leaf in jax.tree.leaves(values)) else jnp


def concrete_in_numpy(tree: Any) -> Any:
    """The tree with its concrete JAX arrays as NumPy arrays.

    Even slicing a JAX array outside `jit`, or a function of NumPy that calls a method of it, is
    compiled for every new shape.
    """
    return jax.tree.map(
        lambda leaf: np.asarray(leaf) if isinstance(leaf, Array) and is_concrete(leaf) else leaf,
        tree,
    )


def diagonal_matrix(values: Sequence[Any]) -> Any:
    """The matrix with these numbers on its diagonal, a NumPy array if they are concrete."""
    xp = array_module(values)
    return xp.diag(xp.array(values, dtype=float))


def jax_array(array: Any) -> Array:
    """The array as a JAX array.

    Unlike `jnp.asarray` this neither compiles a program for every new shape of a NumPy array nor
    shares its memory, which its owner may write to later.
    """
    return jax.device_put(array) if isinstance(array, np.ndarray) else jnp.asarray(array)


def numbers(name: str, value: Any) -> Any:
    """Return `value` as a float64 array of finite numbers, a NumPy array if it is concrete."""
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
    """Return one matrix per time step, from a single matrix or one per step.

    `shape` is (rows, columns), None where any number is allowed. `words` names both for the error
    message, and `span` names the number of steps, as in "T-1".
    """
    array = numbers(name, value)
    rows, cols = shape

    def fits(got: tuple[int, ...]) -> bool:
        return all(want is None or want == have for want, have in zip(shape, got, strict=True))

    if array.ndim == 2 and fits(array.shape):
        xp = array_module(array)
        return jax_array(xp.broadcast_to(array, (steps, *array.shape)))
    if array.ndim == 3 and array.shape[0] == steps and fits(array.shape[1:]):
        return jax_array(array)
    size = f"{'any' if rows is None else rows}, {'any' if cols is None else cols}"
    swapped = array.ndim >= 2 and fits((array.shape[-1], array.shape[-2]))
    raise InputError(
        f"{name} must have shape ({words}) = ({size}) or ({span}, {words}) = ({steps}, {size}), "
        f"got {array.shape}." + (" Transposed?" if swapped and not fits(array.shape[-2:]) else "")
    )


def terms(
    name: str, value: Any, shape: tuple[int, int], words: str, steps: int, span: str
) -> Float[Array, "steps terms rows cols"]:
    """Return the matrices of all noise terms as one array with axes (time, term, row, column).

    A problem's own array of this kind, `problem.C`, is taken too.
    """
    if getattr(value, "ndim", 0) == 4:
        value = [value[:, i] for i in range(value.shape[1])]
    if not isinstance(value, (list, tuple)):
        raise InputError(
            f"{name} must be a list of matrices, one per noise term ([] for none), got "
            f"{_brief(value)}. For a single term write {name}=[...]"
        )
    matrices = [
        matrix(f"{name}[{i}]", term, shape, words, steps, span) for i, term in enumerate(value)
    ]
    if not matrices:
        return jax_array(np.zeros((steps, 0, *shape)))
    return jax_array(array_module(matrices).stack(matrices, axis=1))


def vector(name: str, value: Any, size: int, words: str) -> Float[Array, " size"]:
    """Return `value` as a vector of length `size`, which `words` names in the error message."""
    array = numbers(name, value)
    if array.shape != (size,):
        raise InputError(f"{name} must have shape ({words},) = ({size},), got {array.shape}")
    return jax_array(array)


def symmetric(
    name: str, value: Float[Array, "*time n n"], *, definite: bool = False
) -> Float[Array, "*time n n"]:
    """Return `value`, made exactly symmetric, if it is positive semidefinite or `definite`."""
    if is_concrete(value):
        matrices = np.asarray(value).reshape(-1, *value.shape[-2:])
        scale = np.abs(matrices).max(axis=(1, 2), initial=0.0)
        asymmetry = np.abs(matrices - matrices.swapaxes(1, 2)).max(axis=(1, 2))
        if (asymmetry > _ASYMMETRY * scale).any():
            raise InputError(f"{name} must be symmetric")
        lowest = definiteness(matrices)
        bad = lowest <= 0 if definite else lowest < -EIGENVALUE_ROUNDING
        if bad.any():
            first = int(np.argmax(bad))
            kind = "definite" if definite else "semidefinite"
            at = f" at {name}[{first}]" if (matrices != matrices[0]).any() else ""
            eigenvalue = np.linalg.eigvalsh(matrices[first])[0]
            raise InputError(
                f"{name} must be positive {kind}, got lowest eigenvalue {eigenvalue:.3g}{at}"
            )
    value = concrete_in_numpy(value)
    return jax_array((value + array_module(value).swapaxes(value, -1, -2)) / 2)


def definiteness(M: np.ndarray) -> np.ndarray:
    """The lowest eigenvalue of symmetric matrices (the last two axes), scaled to unit diagonal.

    It is positive for a definite matrix, and at least -EIGENVALUE_ROUNDING for a semidefinite one.
    Without the scaling, rounding of a large entry would hide a small negative eigenvalue.
    """
    diagonal = np.diagonal(M, axis1=-2, axis2=-1)
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    return np.linalg.eigvalsh(M / (scale[..., :, None] * scale[..., None, :]))[..., 0]


def nonnegative(**values: Any) -> None:
    """Raise if any of the named values (SDs of noise, weights) is negative or not finite."""
    for name, value in values.items():
        array = numbers(name, value)
        if is_concrete(array) and (array < 0).any():
            raise InputError(f"{name} must not be negative, got {array.min():g}")


def positive(**values: Any) -> None:
    """Raise unless each of the named values (durations, masses) is a single positive number."""
    for name, value in values.items():
        array = numbers(name, value)
        if array.ndim:
            raise InputError(f"{name} must be one number, got {_brief(value)}")
        if is_concrete(array) and not (array > 0).all():
            raise InputError(f"{name} must be positive, got {array.min():g}")


def random_key(key: Any) -> None:
    """Raise unless `key` is a random key of JAX."""
    if not hasattr(key, "dtype") or not (
        jnp.issubdtype(key.dtype, jax.dtypes.prng_key) or key.dtype == np.uint32
    ):
        raise InputError(f"key must be a random key, as in key=jax.random.key(0), got {key!r}")


def whole(name: str, value: Any, least: int, meaning: str, most: int = LARGEST_SIZE) -> int:
    """Return `value` as an int, if it is a whole number of at least `least` and at most `most`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(f"{name} ({meaning}) must be a whole number, got {_brief(value)}")
    if value < least:
        raise InputError(f"{name} ({meaning}) must be at least {least}, got {value}")
    if value > most:
        raise InputError(f"{name} ({meaning}) must be at most {most}, got {_brief(value)}")
    return int(value)


def truth(name: str, value: Any) -> bool:
    """Return `value`, if it is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be True or False, got {_brief(value)}")
    return bool(value)


def labels(
    what: str, value: Sequence[str] | Mapping[str, str] | None, size: int, default: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names and units of `size` states, controls, senses or channels.

    `value` is a list of names, or a mapping from name to unit; the unit is "" where it is not
    known. Without a value the names are `default_1`, `default_2`, and so on.
    """
    if value is None:
        value = [f"{default}_{i + 1}" for i in range(size)]
    ordered = isinstance(value, (Sequence, Mapping)) and not isinstance(value, str)
    if not ordered or not all(isinstance(name, str) for name in value):
        raise InputError(f"{what} must be a list of names, got {_brief(value)}")
    names = tuple(value)
    units = tuple(value.values()) if isinstance(value, Mapping) else ("",) * len(names)
    if not all(isinstance(unit, str) for unit in units):
        raise InputError(f"the units of {what} must be strings, got {_brief(list(units))}")
    if len(names) != size:
        listed = _brief_list(names)
        raise InputError(f"{what} must have {size} names, got {len(names)}: {listed}")
    distinct(what, names)
    return names, units


def distinct(what: str, names: Sequence[str]) -> None:
    """Raise if a name occurs twice."""
    met: set[str] = set()
    for name in names:
        if name in met:
            raise InputError(f"{what} must differ from each other, got '{shown(name)}' twice")
        met.add(name)


def takes(what: str, function: Any, /, *positional: str, **by_name: Any) -> None:
    """Raise unless `function` can be called with these arguments, as far as its signature shows.

    `positional` are the names of the positional arguments, for the error message.
    """
    if not callable(function):
        raise InputError(f"{what} must be a function, got {_brief(function)}")
    refusals = []
    # A decorator may change the arguments: either signature may be the one that applies.
    for follow_wrapped in (True, False):
        try:
            signature = inspect.signature(function, follow_wrapped=follow_wrapped)
        except (TypeError, ValueError):  # some functions written in C have no signature
            return
        try:
            signature.bind(*positional, **by_name)
            return
        except TypeError as error:
            refusals.append(f"but takes {signature}: {error}")
    arguments = ", ".join([*positional, *(f"{name}=..." for name in by_name)])
    raise InputError(f"{what} is called with ({arguments}), {refusals[0]}")


def instance(
    name: str, value: Any, kind: type | tuple[type, ...], needed: str, advice: str
) -> None:
    """Raise unless `value` is of a class, which `needed` names, as in "a Fit"; `advice` says how to
    get one."""
    if not isinstance(value, kind):
        got = _brief(value) if isinstance(value, (str, int, float)) else type(value).__name__
        raise InputError(f"{name} must be {needed}, got {got}: {advice}")


def one_of(what: str, name: str, known_names: Sequence[str]) -> str:
    """Return `name` if it is among `known_names`; otherwise raise, with the most similar ones."""
    if name in known_names:
        return name
    if not isinstance(name, str):
        raise InputError(f"the name of a {what} must be a string, got {_brief(name)}")
    near = similar(name, known_names)
    hint = f"did you mean {near}?" if near else f"known: {shown_list(known_names)}"
    raise InputError(f"unknown {what} '{shown(name)}': {hint}")


def similar(name: str, known_names: Sequence[str]) -> str:
    """The known names that are most similar to a name, as in "x or y"; "" where none is."""
    # Comparing takes the product of the lengths: a file may have a million names, or long ones.
    candidates = [known for known in known_names[:1000] if len(known) <= 60]
    near = get_close_matches(name, candidates, n=3, cutoff=0.5) if len(name) <= 60 else []
    return " or ".join(shown(match) for match in near)


def _brief_list(names: Sequence[str]) -> str:
    text = ", ".join(names)
    return text if len(text) <= 200 else text[:197] + "..."


def _brief(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"an array of shape {tuple(shape)}"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
