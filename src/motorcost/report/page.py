"""Render a report from sections of words, tables and pictures."""

import base64
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path

from jinja2 import Environment, PackageLoader
from matplotlib.figure import Figure

from motorcost.io import written_whole


@dataclass(frozen=True)
class Picture:
    """A figure with the words that a person who cannot see it needs."""

    figure: Figure
    alt: str
    name: str = ""  # of a file, without its suffix

    @cached_property
    def png(self) -> bytes:
        """The figure as a PNG file."""
        buffer = BytesIO()
        with warnings.catch_warnings():
            # A subject's name may be in a script that the font has no letters of.
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            self.figure.savefig(buffer, format="png", dpi=130)
        return buffer.getvalue()

    @property
    def data(self) -> str:
        """The figure as the text of a PNG."""
        return base64.b64encode(self.png).decode("ascii")


@dataclass(frozen=True)
class ImageFile:
    """A PNG file, with the words that a person who cannot see it needs."""

    path: Path
    alt: str

    @property
    def data(self) -> str:
        """The file as text."""
        return base64.b64encode(self.path.read_bytes()).decode("ascii")


@dataclass(frozen=True)
class Table:
    """Rows of text under a heading each; the first column names the row."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Points:
    """Sentences, one below the other."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Section:
    """A heading, a few sentences, and what there is to look at."""

    title: str
    text: str
    content: Sequence[Table | Picture | ImageFile | Points] = ()


def write_report(path: Path, title: str, lead: str, sections: Sequence[Section]) -> None:
    """Write the page to `path`, whole or not at all. All text is escaped."""
    environment = Environment(loader=PackageLoader("motorcost.report", "."), autoescape=True)
    environment.tests["table"] = lambda item: isinstance(item, Table)
    environment.tests["points"] = lambda item: isinstance(item, Points)
    html = environment.get_template("page.html").render(title=title, lead=lead, sections=sections)
    with written_whole(path) as draft:
        draft.write_text(html, encoding="utf-8")
