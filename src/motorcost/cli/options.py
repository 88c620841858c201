"""Options that several commands take, from text to values."""

import inspect
from typing import Any

from motorcost import checks
from motorcost.errors import InputError


def pairs(option: str, given: list[str] | None, meaning: str) -> dict[str, str]:
    """`NAME=TEXT`, several times or with commas between, by name."""
    found: dict[str, str] = {}
    for each in (part for text in given or [] for part in text.split(",")):
        name, equals, value = (part.strip() for part in each.partition("="))
        if not (name and equals and value):
            raise InputError(f"{option} needs {meaning}, got {each!r}")
        found[name] = value
    return found


def values_of(task: Any, assignments: list[str]) -> dict[str, Any]:
    """`--set NAME=VALUE` as a task takes it."""
    from motorcost import tasks

    takes = inspect.signature(task).parameters
    defaults = (
        tasks.defaults(task)
        if hasattr(task, "parameters")
        else {name: each.default for name, each in takes.items()}
    )
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"--set needs NAME=VALUE, got {assignment!r}")
        checks.one_of("parameter", name, list(defaults))
        kind = int if type(defaults[name]) is int else float
        try:
            values[name] = kind(text)
        except ValueError:
            what = "a whole number" if kind is int else "a number"
            raise InputError(f"{name} must be {what}, got {text!r}") from None
    return values
