"""Names and what they stand for, written as text: position=x, velocity=v."""

from collections.abc import Sequence

from motorcost.errors import InputError


def items(texts: Sequence[str] | None) -> list[str]:
    """The parts of texts with commas, of an option that may be repeated."""
    return [part.strip() for text in texts or [] for part in text.split(",")]


def pairs(option: str, texts: Sequence[str] | None, meaning: str) -> dict[str, str]:
    """`NAME=TEXT`, several times or with commas between, by name.

    - `option`: what the user wrote them in; `meaning`: what it needs.
    """
    found: dict[str, str] = {}
    for item in items(texts):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not (name and equals and value):
            raise InputError(f"{option} needs {meaning}, got {item!r}")
        found[name] = value
    return found
