"""TOML files whose errors point at a line and a key."""

import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from motorcost import checks
from motorcost.errors import InputError


class Table:
    """A table of a TOML file, read key by key. What is wrong is said with file, line and key."""

    def __init__(self, values: dict[str, Any], name: str, file: str, lines: dict[str, int]) -> None:
        self.values, self.name, self.file, self.lines = values, name, file, lines

    @contextmanager
    def at(self, key: str | None = None) -> Iterator[None]:
        """Say where, if something is wrong within the block."""
        try:
            yield
        except InputError as error:
            path = ".".join(part for part in (self.name, key) if part)
            line = self.lines.get(path, self.lines.get(self.name))
            where = self.file + (f", line {line}" if line else "")
            table = f"[{self.name}] " if self.name else ""
            raise InputError(f"{where}: {table}{key or ''}: {error}".replace(" :", ":")) from None

    def only(self, *known: str) -> None:
        """Raise if there is any other key."""
        for key in self.values:
            with self.at(key):
                checks.one_of("key", key, known)

    def get(self, key: str, kind: Callable[[Any], Any], default: Any = None) -> Any:
        """The value of a key, as `kind` makes or refuses it; `default` if it is not there."""
        if key not in self.values:
            return default
        with self.at(key):
            return kind(self.values[key])

    def need(self, key: str, kind: Callable[[Any], Any]) -> Any:
        """The value of a key that must be there."""
        if key not in self.values:
            with self.at():
                raise InputError(f"{key} is missing")
        return self.get(key, kind)

    def table(self, key: str) -> "Table":
        """A table within this one; empty if it is not there."""
        with self.at(key):
            inner = mapping(self.values.get(key, {}))
        path = f"{self.name}.{key}" if self.name else key
        return Table(inner, path, self.file, self.lines)


def read_toml(path: Path) -> Table:
    """A TOML file as a table."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    try:
        text = path.read_text("utf-8")
        return Table(tomllib.loads(text), "", path.name, _lines(text))
    except UnicodeDecodeError:
        raise InputError(f"{path.name}: needs text in UTF-8") from None
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a ValueError
        raise InputError(f"{path.name}: is not valid TOML: {error}") from None


def _lines(text: str) -> dict[str, int]:
    """The line of each key, by its path: `free.effort`. Inline tables have their key's line."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if header := re.match(r"\s*\[+\s*([\w.\s-]+?)\s*\]", line):
            table = header[1].replace(" ", "")
            lines.setdefault(table, number)
        elif key := re.match(r"""\s*["']?([\w.-]+)["']?\s*=""", line):
            path = f"{table}.{key[1]}" if table else key[1]
            lines.setdefault(path, number)
            for inner in re.findall(r"[{,]\s*([\w-]+)\s*=", line):
                lines.setdefault(f"{path}.{inner}", number)
    return lines


def text(value: Any) -> str:
    """Text, or a clear error."""
    if not isinstance(value, str):
        raise InputError(f'must be text in quotes, as "effort", got {value!r}')
    return value


def number(value: Any) -> float:
    """A number, or a clear error."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"must be a number, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise InputError("must be a number below 1e308") from None


def whole(value: Any) -> int:
    """A whole number that is not negative, or a clear error."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f"must be a whole number, 0 or more, got {value!r}")
    if value >= 2**63:
        raise InputError("must be a whole number below 2^63")
    return value


def truth(value: Any) -> bool:
    """True or false, or a clear error."""
    if not isinstance(value, bool):
        raise InputError(f"must be true or false, got {value!r}")
    return value


def texts(value: Any) -> list[str]:
    """A list of text, or a single one, or a clear error."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InputError(f'must be a list of texts, as ["x", "y"], got {value!r}')
    return value


def mapping(value: Any) -> dict[str, Any]:
    """A table, or a clear error."""
    if not isinstance(value, dict):
        raise InputError(f"must be a table, as {{ name = value }}, got {value!r}")
    return value


def of_texts(value: Any) -> dict[str, str]:
    """A table of texts, or a clear error."""
    return {key: text(each) for key, each in mapping(value).items()}


def named(value: Any) -> dict[str, str] | list[str]:
    """A list of texts, or a table of them, or a clear error."""
    return of_texts(value) if isinstance(value, dict) else texts(value)
