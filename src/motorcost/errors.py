"""The exceptions of motorcost.

Their messages are one line: they name the thing, what it needs and what it got. What a file says,
its own name included, goes into a message through `shown`.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

# Characters of a name, and names of a list, that a message shows.
_SHOWN_CHARACTERS = 60
_SHOWN_NAMES = 20
# Characters of the longest word of a message, whatever it quotes.
_LONGEST_WORD = 300


class InputError(ValueError):
    """An argument cannot be used as it is.

    Examples
    --------
    >>> try:
    ...     mc.tasks.reaching(effort=-1.0)
    ... except mc.InputError as error:
    ...     print(error)
    effort must be positive, got -1
    """

    def __init__(self, message: str = "") -> None:
        # What another program or a file has put into a message is not always made for it.
        short = re.sub(
            rf"\S{{{_LONGEST_WORD},}}", lambda word: word[0][:_LONGEST_WORD] + "...", message
        )
        super().__init__(_printable(short))


@contextmanager
def errors_at(place: str | None) -> Iterator[None]:
    """Begin the message of an `InputError` that is raised within the block with `place`, if any."""
    try:
        yield
    except InputError as error:
        raise (InputError(f"{place}: {error}") if place else error) from None


class PrecisionError(InputError):
    """JAX is set to single precision, in which the recursions are not accurate.

    Examples
    --------
    >>> with jax.enable_x64(False):
    ...     try:
    ...         mc.tasks.reaching()
    ...     except mc.PrecisionError:
    ...         print("switch on jax_enable_x64 first")
    switch on jax_enable_x64 first
    """


class ConvergenceError(RuntimeError):
    """The iterations of the solver did not converge, so there is no policy to return.

    Examples
    --------
    >>> try:
    ...     mc.solve(problem, max_iterations=1)
    ... except mc.ConvergenceError as error:
    ...     print("no policy")
    no policy
    """


def shown(text: Any, most: int = _SHOWN_CHARACTERS) -> str:
    """A name or a text of a file as a message shows it: on one line, at most `most` characters.

    Control characters, which a terminal would obey, and bytes of a file name that are no text are
    escaped.
    """
    text = str(text)
    text = text if len(text) <= most else text[: most - 3] + "..."
    return _printable(text)


def _printable(text: str) -> str:
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in text
    )


def shown_list(names: Iterable[Any]) -> str:
    """The first names of many as a message shows them."""
    listed = list(names)
    more = ", ..." if len(listed) > _SHOWN_NAMES else ""
    return ", ".join(shown(name) for name in listed[:_SHOWN_NAMES]) + more
