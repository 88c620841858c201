"""The directive `study-file`: every key of a study file, from the types that check it."""

import json
import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

from motorcost.study import schema

WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true/false",
}
# Tables that are written inline, as the value of a key of another one.
INLINE = {"SupportTable": "free.NAME"}


def tables() -> Iterator[str]:
    """The tables of the file in Markdown, in the order of the file."""
    explained = ModuleAnalyzer.for_module(schema.__name__).find_attr_docs()
    whole = schema.StudyFile.model_json_schema()
    stack = [("", "StudyFile", whole)]
    while stack:
        path, name, table = stack.pop(0)
        yield from _heading(path, name)
        yield from ("| key | value | default | meaning |", "|---|---|---|---|")
        inner = []
        for key, value in table["properties"].items():
            full = f"{path}.{key}" if path else key
            inner += [
                (INLINE.get(other, full), other, whole["$defs"][other])
                for other in _tables_in(value)
            ]
            needed = key in table.get("required", [])
            default = "needed" if needed else _default(value)
            meaning = " ".join(explained.get((name, key), ())).strip().replace("|", "\\|")
            if not meaning:
                raise KeyError(f"{schema.__name__}: {name}.{key} has no docstring")
            yield f"| `{key}` | {_words(value)} | {default} | {meaning} |"
        yield ""
        stack = inner + stack


def _heading(path: str, name: str) -> Iterator[str]:
    text = re.sub(r"^(\[\w+\]|\w+): ", "", " ".join((getattr(schema, name).__doc__ or "").split()))
    yield from (f"## {f'[{path}]' if path else 'At the top'}".replace("[", r"\["), "")
    yield from (text[:1].upper() + text[1:], "")


def _tables_in(value: dict[str, Any]) -> list[str]:
    names = [value["$ref"].rpartition("/")[2]] if "$ref" in value else []
    parts = [*value.get("anyOf", ()), value.get("additionalProperties")]
    return names + [name for part in parts if isinstance(part, dict) for name in _tables_in(part)]


def _words(value: dict[str, Any]) -> str:
    """What a value can be."""
    if "anyOf" in value:
        options = [_words(part) for part in value["anyOf"] if part.get("type") != "null"]
        if set(WORDS.values()) <= set(options):
            return "a value, or list of values"
        return ", or ".join(dict.fromkeys(", or ".join(options).split(", or ")))
    if "const" in value or "enum" in value:
        return " or ".join(f"`{json.dumps(v)}`" for v in value.get("enum", [value.get("const")]))
    if value.get("type") == "array":
        return _list_in_words(value)
    if value.get("type") == "object" and isinstance(value.get("additionalProperties"), dict):
        return f"table: {_words(value['additionalProperties'])} by name"
    return WORDS.get(value.get("type", ""), "table")


def _list_in_words(value: dict[str, Any]) -> str:
    least, most = value.get("minItems"), value.get("maxItems")
    if least is not None and least == most:
        return f"list of {least} {_words(value['items'])}s"
    if "type" not in value["items"]:
        return "list of these"
    alone = "text, or " if value["items"]["type"] == "string" else ""  # as `schema.Names` allows
    return f"{alone}list of {_words(value['items'])}s"


def _default(value: dict[str, Any]) -> str:
    default = value.get("default")
    return "" if default is None or isinstance(default, dict) else f"`{json.dumps(default)}`"


class StudyFile(SphinxDirective):
    """Write the tables of the study file."""

    def run(self) -> list[nodes.Node]:
        """Parse them."""
        return self.parse_text_to_nodes("\n".join(tables()), allow_section_headings=True)


def setup(app: Any) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("study-file", StudyFile)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
