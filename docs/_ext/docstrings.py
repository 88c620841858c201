"""Docstrings, which are Markdown, as the reStructuredText that autodoc reads.

Names between backticks become links where `link_of` knows them, and code elsewhere. A block that is
indented by four spaces is shown as it is. Sections in NumPy's style are left to napoleon.
"""

import re
from collections.abc import Callable

_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_ITEM = re.compile(r"( *)(- |\d+\. )")
_SPECIAL = re.compile(r"(?<=\s)\*(?=\s)|\||(?<=\w)_(?!\w)")
_LINK = re.compile(r"\[([^\]]+)\]\((https?://[^)]+)\)")


def as_rst(lines: list[str], link_of: Callable[[str], str | None]) -> list[str]:
    """The lines of a docstring, without its indentation, as lines of reStructuredText."""
    out: list[str] = []
    prose: list[str] = []

    def finish() -> None:
        if prose:
            out.extend(_prose("\n".join(prose), link_of).split("\n"))
            prose.clear()

    base, i = 0, 0
    while i < len(lines):
        line = lines[i]
        indent = len(line) - len(line.lstrip())
        after_blank = i == 0 or not lines[i - 1].strip()
        if line.lstrip().startswith(">>>"):
            finish()
            while i < len(lines) and lines[i].strip():
                out.append(lines[i])
                i += 1
            continue
        if line.strip() and after_blank and indent >= base + 4:
            finish()
            out += [" " * base + f".. code-block:: {_language(lines[i:])}", ""]
            while i < len(lines) and (not lines[i].strip() or _indent(lines[i]) >= base + 4):
                out.append(lines[i])
                i += 1
            out.append("")
            continue
        item = _ITEM.match(line)
        if item and prose and prose[-1].strip() and not _ITEM.match(prose[-1]) and base == 0:
            prose.append("")
        if line.strip():
            base = len(item.group(0)) if item else (indent if after_blank else base)
        prose.append(line)
        i += 1
    finish()
    return [*out, ""]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _language(lines: list[str]) -> str:
    return "python" if re.match(r"\s*(def |import |mc\.|\w+ = mc\.)", lines[0]) else "text"


def _prose(text: str, link_of: Callable[[str], str | None]) -> str:
    """Prose with its code kept apart, so that nothing in it is taken for markup."""
    pieces = _CODE.split(text)
    out = ""
    for i, piece in enumerate(pieces):
        if i % 2 == 0:
            piece = _SPECIAL.sub(lambda found: "\\" + found.group(), piece)
            out += _LINK.sub(r"`\1 <\2>`__", piece)
            continue
        name = " ".join(piece.split())
        link = link_of(name)
        before = "\\ " if re.search(r"\w$", pieces[i - 1]) else ""
        after = "\\ " if re.match(r"\w", pieces[i + 1]) else ""
        code = f":py:obj:`{name} <{link}>`" if link else f"``{name}``"
        out += before + code + after
    return out
