"""Tables and percentages as text and in HTML, for results that a terminal or a notebook shows."""

from collections.abc import Sequence
from html import escape

import numpy as np


def percent(share: float, digits: int) -> str:
    """Return a share as a percentage with so many significant digits, never with an exponent."""
    rounded = float(f"{100 * share:.{digits}g}")
    return f"{np.format_float_positional(rounded, trim='-')} %"


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table as lines of text, its columns below each other."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table. All text is escaped; the first cell of a row is its heading."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_paragraphs(sentences: Sequence[str]) -> str:
    """Return each sentence as an HTML paragraph, escaped."""
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
