"""Tables in HTML, for results that a notebook shows."""

from collections.abc import Sequence
from html import escape


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
