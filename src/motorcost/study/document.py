"""Study files in TOML: reading them, and errors that name file, line and key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from motorcost.errors import InputError, errors_at
from motorcost.study.schema import UNKNOWN_KEY, StudyFile

Location = tuple[str | int, ...]

# A study is a page of text; a file this large is something else.
MOST_BYTES = 2**20
# The deepest key of a study has three parts. tomllib needs time and memory that grow with the
# square of the number of parts, so a key of tens of thousands is refused before it is parsed.
MOST_KEY_PARTS = 16
# Characters of a wrong value that an error shows.
SHOWN = 60

_KEY_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![\w-]){_KEY_PART}(?:[ \t]*+\.[ \t]*+{_KEY_PART}){{{MOST_KEY_PARTS}}}")
# Python converts decimal numbers of up to 4300 digits.
_LONG_NUMBER = re.compile(r"(?<![\w-])\d[\d_]{4300,}")

# By pydantic's type of error, what is needed; formatted with the error's details.
_NEEDS = {
    "string_type": 'text in quotes, as "effort"',
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a table, as {{ name = value }}",
    "model_type": "a table, as {{ name = value }}",
    "literal_error": "{expected}",
    "finite_number": "finite",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "a whole number, {ge:g} or more",
    "less_than": "a whole number below 2^63",
    "too_short": "a list of {min_length}",
    "too_long": "a list of {max_length}",
}


@dataclass(frozen=True)
class Document:
    """A study file as plain dictionaries (`values`), with the line of each key by its location."""

    name: str
    values: dict[str, Any]
    lines: Mapping[Location, int]

    @contextmanager
    def at(self, *location: str) -> Iterator[None]:
        """Add file, line and key to an `InputError` that is raised within the block."""
        with errors_at(self.place(location)):
            yield

    def error(self, location: Location, message: str) -> InputError:
        """An error at a key, as "study.toml, line 15: [free] effort: must be ..."."""
        return InputError(f"{self.place(location)}: {message}")

    def place(self, location: Location) -> str:
        """File, line and key, as "study.toml, line 15: [free] effort"."""
        line = self.line(location)
        where = f"{self.name}, line {line}" if line else self.name
        if not location:
            return where
        table, *keys = map(str, location)
        top = f"[{table}]" if isinstance(self.values.get(table), dict) else table
        return f"{where}: {' '.join([top, *['.'.join(keys)] * bool(keys)])}"

    def line(self, location: Location) -> int:
        """The line of a key, or of the nearest table around it whose line is known; else 0."""
        around = (location[:n] for n in range(len(location), 0, -1))
        return next((self.lines[part] for part in around if part in self.lines), 0)

    def value(self, location: Location) -> Any:
        """What the file has at a location."""
        value: Any = self.values
        for part in location:
            value = value[part]
        return value


def read_document(path: Path) -> tuple[Document, StudyFile]:
    """Read a study file and check it against the schema."""
    text = _text(path)
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path.name}: is not valid TOML: {error}") from None
    document = Document(path.name, values, _lines(text))
    try:
        return document, StudyFile.model_validate(values)
    except ValidationError as error:
        raise _first_error(document, error) from None


def _text(path: Path) -> str:
    """The text of a file that can be parsed in reasonable time."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    if path.stat().st_size > MOST_BYTES:
        raise InputError(f"{path.name}: a study has at most {MOST_BYTES} bytes")
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path.name}: needs text in UTF-8") from None
    refused = {
        _LONG_KEY: f"a key has at most {MOST_KEY_PARTS} parts",
        _LONG_NUMBER: "a number has at most 4300 digits",
    }
    for pattern, reason in refused.items():
        if found := pattern.search(text):
            line = text.count("\n", 0, found.start()) + 1
            raise InputError(f"{path.name}, line {line}: is not valid TOML: {reason}")
    return text


def _lines(text: str) -> dict[Location, int]:
    """The line of each key by its location, as ("free", "effort"). tomllib does not tell it; keys
    written in an unusual way are not found, and errors then name the line of their table."""
    lines: dict[Location, int] = {}
    table: Location = ()
    for number, line in enumerate(text.split("\n"), start=1):
        if header := re.match(r"\s*\[+\s*([\w.\s-]+?)\s*\]", line):
            table = tuple(header[1].replace(" ", "").split("."))
            lines.setdefault(table, number)
        elif key := re.match(r"""\s*["']?([\w.-]+)["']?\s*=""", line):
            location = (*table, *key[1].split("."))
            lines.setdefault(location, number)
            for inner in re.findall(r"[{,]\s*([\w-]+)\s*=", line):
                lines.setdefault((*location, inner), number)
    return lines


@dataclass(frozen=True)
class _Refusal:
    """Why pydantic refuses the value at a location: its type of error, and details."""

    location: Location
    kind: str
    details: Mapping[str, Any]


def _first_error(document: Document, error: ValidationError) -> InputError:
    """What is wrong with the key that comes first in the file.

    A value that may be of several kinds is refused once for each kind. Where one kind fits the
    value itself but not what is in it, that refusal is deeper and says more than the others.
    """
    refusals = [
        _refusal(document, details)
        for details in error.errors(include_url=False, include_input=False)
    ]
    locations = {refusal.location for refusal in refusals}
    deepest = [
        place
        for place in locations
        if not any(len(other) > len(place) and other[: len(place)] == place for other in locations)
    ]
    first = min(deepest, key=lambda location: (document.line(location), str(location)))
    reasons = [refusal for refusal in refusals if refusal.location == first]
    return document.error(first, _message(document, reasons))


def _refusal(document: Document, details: Any) -> _Refusal:
    """One of pydantic's errors, at its location in the file.

    pydantic's location has a part for the kind of value that was tried, as in ("free", "effort",
    "list[float]", 0), which is none of the file's.
    """
    location: list[str | int] = []
    value: Any = document.values
    for part in details["loc"]:
        if (isinstance(value, dict) and part in value) or (
            isinstance(value, list) and isinstance(part, int) and part < len(value)
        ):
            value = value[part]
            location.append(part)
    context = dict(details.get("ctx", {}))
    if details["type"] == UNKNOWN_KEY:
        location.append(context["key"])
    elif details["type"] == "missing":
        context["key"] = details["loc"][-1]
    return _Refusal(tuple(location), details["type"], context)


def _message(document: Document, refusals: list[_Refusal]) -> str:
    """What is needed and what is there, from all refusals of one value."""
    first = refusals[0]
    if first.kind == UNKNOWN_KEY:
        return str(first.details["message"])
    if first.kind == "missing":
        key = first.details["key"]
        return f"{key} is missing" if first.location else f"the table [{key}] is missing"
    needs = [
        _NEEDS.get(refusal.kind, refusal.kind).format(**refusal.details) for refusal in refusals
    ]
    value = document.value(first.location)
    if first.kind == "float_type" and isinstance(value, int) and not isinstance(value, bool):
        return "must be a number below 1e308"
    return f"must be {' or '.join(dict.fromkeys(needs))}, got {_shown(value)}"


def _shown(value: Any) -> str:
    """A value of the file, cut short."""
    if isinstance(value, bool):
        return str(value).lower()
    try:
        text = repr(value)
    except ValueError:  # an integer in hexadecimal digits has no limit but for showing it
        return "a number of more than 4300 digits"
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
